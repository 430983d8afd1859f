package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/alerts"
)

var alertsCommand = command{
	name: "alerts", usage: "alerts [flags]", short: "write alert rules, recording rules and routing",
	about: `Prints the alerts of inferbeat as a rule file of Prometheus, as a PrometheusRule of its operator,
or the routing and the inhibitions that go with them as a configuration of Alertmanager. The rules
hold for any number of targets: limits, objectives and schedules are metrics, so nothing has to
be written again when the configuration changes.`,
	define: func(f *flagSet) action {
		o := &alertsFlags{}
		o.define(f)
		return o.run
	},
}

type alertsFlags struct {
	alerts.Options
	format, outputDir string
	severities        map[string]string
	webhooks          map[string]string
	changed           func(flag string) bool
}

func (o *alertsFlags) define(f *flagSet) {
	g := f.group("Output")
	g.StringVar(&o.format, "format", "prometheus", "`format`: prometheus, prometheusrule or alertmanager")
	g.StringVar(&o.outputDir, "output-dir", "", "`folder` to write the file to, made when it is not there; standard output when not given")

	g = f.group("Alerts")
	g.StringToStringVar(&o.severities, "severity", nil, "`words` in place of critical, warning, info and none, as in critical=page,warning=ticket")
	g.StringToStringVar(&o.Labels, "label", nil, "`name=value` to add to every alert; several times for several")
	g.StringVar(&o.RunbookBaseURL, "runbook-base-url", "", "`address` of the runbooks, as in http://HOST:9799/runbooks, where the daemon serves them; the project's own page when not given")
	g.StringVar(&o.DashboardBaseURL, "dashboard-base-url", "", "`address` of a Grafana, to add links to its boards")
	g.Float64Var(&o.Faster, "faster", 1, "`factor` by which every duration is divided, at most 60, to rehearse the alerts in minutes; not for production")

	g = f.group("One format only")
	g.StringVar(&o.Namespace, "namespace", "", "`namespace` of the PrometheusRule")
	g.StringToStringVar(&o.ManifestLabels, "manifest-label", nil, "`name=value` to add to the PrometheusRule, as its operator's ruleSelector asks for; several times for several")
	g.StringToStringVar(&o.webhooks, "webhook", nil, "`receiver=address` of Alertmanager's webhooks; receivers: "+strings.Join(alerts.Receivers, ", "))
	o.changed = func(flag string) bool { return f.Changed(flag) }
}

// alertFormats are the formats with their files and the flags that only they know.
var alertFormats = []struct {
	name, file string
	flags      []string
	print      func(*alertsFlags) ([]byte, error)
}{
	{"prometheus", "inferbeat.yml", []string{"label", "runbook-base-url", "dashboard-base-url"},
		func(o *alertsFlags) ([]byte, error) { return alerts.Rules(o.Options) }},
	{"prometheusrule", "prometheusrule.yaml", []string{"label", "runbook-base-url", "dashboard-base-url", "namespace", "manifest-label"},
		func(o *alertsFlags) ([]byte, error) { return alerts.PrometheusRule(o.Options) }},
	{"alertmanager", "alertmanager.yml", []string{"webhook"},
		func(o *alertsFlags) ([]byte, error) { return alerts.Alertmanager(o.Options, o.webhooks) }},
}

func (o *alertsFlags) run(_ context.Context, p Process) (int, error) {
	var m mistakes
	format, owned := -1, []string{}
	for i, f := range alertFormats {
		if f.name == o.format {
			format = i
		}
		owned = append(owned, f.flags...)
	}
	if format < 0 {
		m.add("format", "%q is none of prometheus, prometheusrule and alertmanager", o.format)
		return exitUsage, m.join()
	}
	slices.Sort(owned)
	for _, flag := range slices.Compact(owned) {
		if o.changed(flag) && !slices.Contains(alertFormats[format].flags, flag) {
			m.add(flag, "has no effect with --format %s", o.format)
		}
	}
	o.Severities = severities(o.severities)
	text, err := alertFormats[format].print(o)
	if err := errors.Join(m.join(), err); err != nil {
		return exitUsage, err
	}
	if o.outputDir == "" {
		_, err = p.Stdout.Write(text)
	} else if err = os.MkdirAll(o.outputDir, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(o.outputDir, alertFormats[format].file), text, 0o644)
	}
	if err != nil {
		return exitUsage, fmt.Errorf("write alerts: %w", err)
	}
	return exitPass, nil
}

// severities are the words of the flag --severity.
func severities(words map[string]string) map[alerts.Severity]string {
	out := map[alerts.Severity]string{}
	for severity, word := range words {
		out[alerts.Severity(severity)] = word
	}
	return out
}

// checkSeverities refuses words that the rules would refuse.
func checkSeverities(words map[string]string) error {
	_, err := alerts.Rules(alerts.Options{Severities: severities(words)})
	return err
}
