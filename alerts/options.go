package alerts

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// DefaultRunbookBaseURL is where the runbooks of the newest version are.
const DefaultRunbookBaseURL = "https://github.com/inferbeat/inferbeat/blob/main/alerts/runbooks"

// Options are the choices of those who load the rules. The zero value is what is
// checked in.
type Options struct {
	// Severities says which word stands for a severity, such as critical: page. What is
	// not named keeps its own.
	Severities map[Severity]string
	// Labels are added to every alert, such as team: inference.
	Labels map[string]string
	// RunbookBaseURL is the address that, with /NAME.md behind it, is a runbook; the
	// daemon serves them below /runbooks. Empty is DefaultRunbookBaseURL.
	RunbookBaseURL string
	// DashboardBaseURL is the address of a Grafana; with it alerts have a dashboard_url.
	DashboardBaseURL string
	// Faster divides every duration of the rules, to rehearse in minutes what takes
	// hours. 0 and 1 leave them as they are; anything else is not for production: what
	// the guards were measured with no longer holds.
	Faster float64
	// Namespace and ManifestLabels are those of the PrometheusRule; the operator only
	// sees rules with the labels that its ruleSelector asks for.
	Namespace      string
	ManifestLabels map[string]string
}

// MaxFaster is where windows of minutes become seconds; beyond, several of them would
// be one.
const MaxFaster = 60

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// taken are labels that the rules or Prometheus give; another value would break routing
// and inhibition.
var taken = slices.Concat(catalog.Identity(), []string{
	"alertname", "alertstate", "severity", "category", "job", "instance",
	catalog.LabelSLO, catalog.LabelSignal, catalog.LabelStat, catalog.LabelMetric, catalog.LabelComparison, catalog.LabelReason, catalog.LabelSink,
})

// check refuses options that Prometheus, Alertmanager or the operator would refuse, and
// those with which alerts would go astray.
func (o Options) check() error {
	var errs []error
	for _, s := range slices.Sorted(maps.Keys(o.Severities)) {
		switch word := o.Severities[s]; {
		case !slices.Contains(Severities, s):
			errs = append(errs, fmt.Errorf("severity %q: want one of %v", s, Severities))
		case word == "" || strings.ContainsAny(word, "{}\"'\\\n"):
			errs = append(errs, fmt.Errorf("severity %s=%q: want a plain word", s, word))
		}
	}
	words := map[string]Severity{}
	for _, s := range Severities {
		if other, twice := words[o.word(s)]; twice {
			errs = append(errs, fmt.Errorf("severity %s=%s: %s has the same word, and no route could tell them apart", s, o.word(s), other))
		}
		words[o.word(s)] = s
	}
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			errs = append(errs, fmt.Errorf("label %q: want letters, digits and underscores, no digit first, no double underscore first", name))
		case slices.Contains(taken, name):
			errs = append(errs, fmt.Errorf("label %q: the alerts have it already", name))
		case o.Labels[name] == "" || strings.Contains(o.Labels[name], "{{"):
			errs = append(errs, fmt.Errorf("label %s=%q: want a plain text", name, o.Labels[name]))
		}
	}
	errs = append(errs, checkURL("runbook base URL", o.RunbookBaseURL), checkURL("dashboard base URL", o.DashboardBaseURL))
	if o.Faster != 0 && !(o.Faster >= 1 && o.Faster <= MaxFaster) {
		errs = append(errs, fmt.Errorf("faster %g: want 1 to %d", o.Faster, MaxFaster))
	}
	return errors.Join(errs...)
}

func checkURL(what, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(text, "{{") {
		return fmt.Errorf("%s %q: want http or https, a host and perhaps a path", what, text)
	}
	return nil
}

// word is the value of the label severity.
func (o Options) word(s Severity) string {
	if word := o.Severities[s]; word != "" {
		return word
	}
	return string(s)
}

// severity is the label's value, or the template of it.
func (o Options) severity(s Severity) string {
	if s == ByEnvironment {
		return `{{ if eq $labels.target_env "production" }}` + o.word(Critical) + `{{ else }}` + o.word(Warning) + `{{ end }}`
	}
	return o.word(s)
}

func (o Options) runbookURL(alert string) string {
	base := o.RunbookBaseURL
	if base == "" {
		base = DefaultRunbookBaseURL
	}
	return strings.TrimSuffix(base, "/") + "/" + alert + ".md"
}

// dashboardURL opens the alert's board on what the alert is about; labels that it does
// not have stay empty, which boards read as all.
func (o Options) dashboardURL(board Board) string {
	u := strings.TrimSuffix(o.DashboardBaseURL, "/") + "/d/" + string(board)
	separator := "?"
	for _, name := range boardVariables[board] {
		u += separator + "var-" + name + `={{ $labels.` + name + ` | urlQueryEscape }}`
		separator = "&"
	}
	return u
}

// boardVariables are the labels of alerts that a board can be opened on.
var boardVariables = map[Board][]string{
	BoardFleet:    {catalog.LabelPool, catalog.LabelProbe},
	BoardSLO:      {catalog.LabelPool, catalog.LabelProbe, catalog.LabelSLO},
	BoardTarget:   {catalog.LabelTarget, catalog.LabelProbe},
	BoardRuns:     {catalog.LabelTarget, catalog.LabelProbe},
	BoardCapacity: {catalog.LabelTarget},
	BoardCompare:  {catalog.LabelComparison},
	BoardHealth:   nil,
}

func (o Options) timing() timing {
	if o.Faster == 0 {
		return timing{faster: 1}
	}
	return timing{faster: o.Faster}
}

// Groups are the rules as they are printed with these options, but for labels and
// annotations.
func (o Options) Groups() []Group { return groups(o.timing()) }

// Alerts lists the names of all alerts in the order of the rules.
func Alerts() []string {
	var names []string
	for _, g := range (Options{}).Groups() {
		for _, r := range g.Rules {
			if r.Alert != "" {
				names = append(names, r.Alert)
			}
		}
	}
	return names
}
