package dashboards

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// rule is one thing that a board must keep; its findings say where it does not.
type rule struct {
	name  string
	check func(model) []string
}

// The rules of Grafana's dashboard-linter come first, under its names, then our
// own. README.md lists both, and why a rule has exceptions.
var rules = []rule{
	{"template-datasource-rule", templateDatasource},
	{"template-job-rule", templateJob},
	{"template-label-promql-rule", templatePromQL},
	{"template-on-time-change-reload-rule", templateReload},
	{"panel-datasource-rule", panelDatasource},
	{"panel-title-description-rule", panelTitleDescription},
	{"panel-units-rule", panelUnits},
	{"panel-no-targets-rule", panelNoTargets},
	{"target-promql-rule", targetPromQL},
	{"target-job-rule", targetMatcher("job")},
	{"target-instance-rule", targetInstance},
	{"target-rate-interval-rule", targetRateInterval},
	{"target-counter-agg-rule", targetCounterAggregation},
	{"uneditable-dashboard-rule", uneditable},

	{"ids", uniqueIDs},
	{"grid", grid},
	{"no-value-text", noValueText},
	{"thresholds", explicitThresholds},
	{"variables", variables},
	{"catalogue", catalogued},
	{"legends", legends},
	{"columns", tableColumns},
	{"links", linksResolve},
	{"both-histograms", bothHistograms},
	{"frame", framed},
}

func TestBoardsKeepTheRules(t *testing.T) {
	for _, m := range models(t) {
		for _, r := range rules {
			for _, finding := range r.check(m) {
				t.Errorf("%s: %s: %s", m.UID, r.name, finding)
			}
		}
	}
}

// each calls check for every target of every panel with the parsed expression;
// what does not parse is the business of one rule alone.
func each(m model, check func(p panel, t target, expr parser.Expr) []string) []string {
	var out []string
	for _, p := range m.data() {
		for _, t := range p.Targets {
			if expr, err := parsePromQL(t.Expr); err == nil {
				for _, finding := range check(p, t, expr) {
					out = append(out, fmt.Sprintf("panel %q, query %s: %s", p.Title, t.RefID, finding))
				}
			}
		}
	}
	return out
}

func templateDatasource(m model) []string {
	for _, v := range m.Templating.List {
		if v.Name == "datasource" && v.Type == "datasource" && v.Label == "Data source" && string(v.Query) == `"prometheus"` {
			return nil
		}
	}
	return []string{"there is no variable for the data source"}
}

func templateJob(m model) []string {
	for _, v := range m.Templating.List {
		if v.Name == "job" && v.Type == "query" && v.Label == "Job" && v.Multi && v.IncludeAll && chosenSource(v.Datasource) {
			return nil
		}
	}
	return []string{"there is no variable for the job, with several values and all of them"}
}

func chosenSource(s *source) bool {
	return s != nil && s.Type == "prometheus" && s.UID == "${datasource}"
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

func templatePromQL(m model) []string {
	var out []string
	for _, v := range m.Templating.List {
		if v.Type != "query" {
			continue
		}
		match := labelValues.FindStringSubmatch(v.expr())
		if match == nil {
			out = append(out, fmt.Sprintf("variable %s is no label_values(series, label): %s", v.Name, v.expr()))
			continue
		}
		expr, err := parsePromQL(match[1])
		if err != nil {
			out = append(out, fmt.Sprintf("variable %s: %v", v.Name, err))
			continue
		}
		for _, fault := range drift(expr) {
			out = append(out, fmt.Sprintf("variable %s: %s", v.Name, fault))
		}
		if !slices.Contains(labelsOf(expr), match[2]) {
			out = append(out, fmt.Sprintf("variable %s: its series have no label %s", v.Name, match[2]))
		}
	}
	return out
}

func templateReload(m model) []string {
	var out []string
	for _, v := range m.Templating.List {
		if v.Type == "query" && v.Refresh != 2 {
			out = append(out, fmt.Sprintf("variable %s is not read anew when the time changes", v.Name))
		}
	}
	return out
}

func panelDatasource(m model) []string {
	var out []string
	for _, p := range m.data() {
		if !chosenSource(p.Datasource) {
			out = append(out, fmt.Sprintf("panel %q has a data source of its own", p.Title))
		}
		for _, t := range p.Targets {
			if !chosenSource(t.Datasource) {
				out = append(out, fmt.Sprintf("panel %q, query %s has a data source of its own", p.Title, t.RefID))
			}
		}
	}
	for _, a := range m.Annotations.List {
		if !chosenSource(a.Datasource) || !chosenSource(a.Target.Datasource) {
			out = append(out, fmt.Sprintf("annotation %q has a data source of its own", a.Name))
		}
	}
	return out
}

func panelTitleDescription(m model) []string {
	var out []string
	for _, p := range m.Panels {
		if p.Title == "" {
			out = append(out, fmt.Sprintf("panel %d has no title", p.ID))
		}
		for _, part := range []string{"**Good:**", "**If not:**", "Metrics: `"} {
			if p.Type != "row" && !strings.Contains(p.Description, part) {
				out = append(out, fmt.Sprintf("panel %q has no %q in its description", p.Title, part))
			}
		}
	}
	return out
}

func panelUnits(m model) []string {
	var out []string
	for _, p := range m.data() {
		if p.FieldConfig.Defaults.Unit == "" {
			out = append(out, fmt.Sprintf("panel %q has no unit", p.Title))
		}
	}
	return out
}

func panelNoTargets(m model) []string {
	var out []string
	for _, p := range m.data() {
		if len(p.Targets) == 0 {
			out = append(out, fmt.Sprintf("panel %q asks nothing", p.Title))
		}
	}
	return out
}

func targetPromQL(m model) []string {
	var out []string
	complain := func(where, expr string) {
		if _, err := parsePromQL(expr); err != nil {
			out = append(out, fmt.Sprintf("%s: %v", where, err))
		}
	}
	for _, p := range m.data() {
		for _, t := range p.Targets {
			complain(fmt.Sprintf("panel %q, query %s", p.Title, t.RefID), t.Expr)
		}
	}
	for _, a := range m.Annotations.List {
		complain(fmt.Sprintf("annotation %q", a.Name), a.Target.Expr)
		if a.Expr != a.Target.Expr {
			out = append(out, fmt.Sprintf("annotation %q asks two different things", a.Name))
		}
	}
	return out
}

// targetMatcher asks every selector of a scraped series to select by a label.
// ALERTS are excepted: a rule that aggregates drops the job.
func targetMatcher(label string) func(model) []string {
	return func(m model) []string {
		return each(m, func(_ panel, _ target, expr parser.Expr) (out []string) {
			for _, selector := range selectors(expr) {
				want := fmt.Sprintf("$%s", label)
				if selector.Name == "ALERTS" || slices.ContainsFunc(selector.LabelMatchers, func(l *labelMatcher) bool { return l.Name == label && l.Value == want }) {
					continue
				}
				out = append(out, fmt.Sprintf(`%s is not selected by %s=~"$%s"`, selector.Name, label, label))
			}
			return out
		})
	}
}

// targetInstance holds for boards with a variable instance only: alerts and
// boards about targets must not change their mind when a daemon moves.
func targetInstance(m model) []string {
	if !slices.ContainsFunc(m.Templating.List, func(v templateVariable) bool { return v.Name == "instance" }) {
		return nil
	}
	return targetMatcher("instance")(m)
}

// targetRateInterval lets counters be looked at over the variable window or a
// fixed time, which the window's own description explains, and nothing else.
func targetRateInterval(m model) []string {
	var out []string
	for _, p := range m.data() {
		for _, t := range p.Targets {
			if strings.Contains(t.Expr, "$__rate_interval") || strings.Contains(t.Expr, "$__interval") {
				out = append(out, fmt.Sprintf("panel %q, query %s: at one request a minute Grafana's interval holds no event; use $window", p.Title, t.RefID))
			}
		}
	}
	return out
}

// targetCounterAggregation refuses a bare counter: its height is the daemon's age.
func targetCounterAggregation(m model) []string {
	return each(m, func(_ panel, _ target, expr parser.Expr) (out []string) {
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok || !strings.HasSuffix(selector.Name, "_total") {
				return nil
			}
			if len(path) == 0 {
				out = append(out, selector.Name+" is drawn as it is")
			} else if _, ranged := path[len(path)-1].(*parser.MatrixSelector); !ranged {
				out = append(out, selector.Name+" is neither in rate() nor in increase()")
			}
			return nil
		})
		return out
	})
}

func uneditable(m model) []string {
	if m.Editable {
		return []string{"an edit in the browser would be lost at the next start of Grafana"}
	}
	return nil
}
