package alerts

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("parse %s: %v", expr, err)
	}
	return parsed
}

func allRules() []Rule {
	var out []Rule
	for _, g := range (Options{}).Groups() {
		out = append(out, g.Rules...)
	}
	return out
}

func TestFilesAreWhatIsPrinted(t *testing.T) {
	for path, print := range map[string]func(Options) ([]byte, error){
		"rules/inferbeat.yml":                      Rules,
		"../deploy/kubernetes/prometheusrule.yaml": PrometheusRule,
		"../deploy/alertmanager/alertmanager.yml":  func(o Options) ([]byte, error) { return Alertmanager(o, nil) },
	} {
		want, err := print(Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s is not what is printed; run go generate ./alerts (-want +got):\n%s", path, d)
		}
	}
}

// A name that is spelled differently here and on /metrics is an alert that never
// fires. So each selector is held against the catalogue: its name, its labels, the
// values of labels with a closed list, and whether a counter is read as one.
func TestExpressionsAreInTheCatalogue(t *testing.T) {
	recorded := map[string]bool{}
	for _, r := range allRules() {
		name := r.Record + r.Alert
		checkSelectors(t, name, parse(t, r.Expr), recorded)
		if r.Record != "" {
			if recorded[r.Record] {
				t.Errorf("%s is recorded twice", r.Record)
			}
			recorded[r.Record] = true // from here on, because rules are evaluated in order
		}
	}
}

func checkSelectors(t *testing.T, name string, expr parser.Expr, recorded map[string]bool) {
	t.Helper()
	closed := map[string][]string{}
	for _, l := range catalog.Labels() {
		closed[l.Name] = l.Values
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, listed := catalog.Lookup(selector.Name)
		switch {
		case selector.Name == "" || recorded[selector.Name] || selector.Name == "up":
			return nil
		case !listed:
			t.Errorf("%s reads %s, which is neither in the catalogue nor recorded before", name, selector.Name)
			return nil
		}
		if got, want := function(path), m.Kind == catalog.Counter || m.Kind == catalog.Histogram; slices.Contains([]string{"rate", "increase"}, got) != want {
			t.Errorf("%s reads the %s %s by %q", name, m.Kind, m.Name, got)
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name == model.MetricNameLabel {
				continue
			}
			if !m.HasLabel(matcher.Name) {
				t.Errorf("%s selects %s by label %s, which it does not have", name, m.Name, matcher.Name)
			}
			for _, value := range strings.Split(matcher.Value, "|") {
				if values := closed[matcher.Name]; values != nil && value != "SIGNAL" && !slices.Contains(values, value) {
					t.Errorf("%s selects %s by %s=%q, which never is; want one of %v", name, m.Name, matcher.Name, value, values)
				}
			}
		}
		return nil
	})
}

// function is the innermost call around a node.
func function(path []parser.Node) string {
	for _, node := range slices.Backward(path) {
		if call, ok := node.(*parser.Call); ok {
			return call.Func.Name
		}
	}
	return ""
}

// What a description names must be a label that the alert has, or it reads "".
func TestAlertsAreComplete(t *testing.T) {
	var names []string
	for _, r := range allRules() {
		if r.Alert == "" {
			continue
		}
		names = append(names, r.Alert)
		if !strings.HasPrefix(r.Alert, "Inferbeat") || r.Severity == "" || r.Category == "" || r.Board == "" {
			t.Errorf("%s: severity %q, category %q, board %q, want all of them and the prefix Inferbeat", r.Alert, r.Severity, r.Category, r.Board)
		}
		if strings.Contains(r.Summary, "{{") || !strings.HasSuffix(r.Summary, ".") || !strings.HasSuffix(r.Description, ".") {
			t.Errorf("%s: summary %q, description %q, want sentences, the first one without a template", r.Alert, r.Summary, r.Description)
		}
		if _, ok := boardVariables[r.Board]; !ok {
			t.Errorf("%s: board %q is not listed", r.Alert, r.Board)
		}
	}
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("alerts %v, want each name once", names)
	}
}
