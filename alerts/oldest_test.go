package alerts

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	template "text/template/parse"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// What the rules may use: all of it is known to Prometheus 2.42, the first that has
// keep_firing_for and the one that Debian 12 ships. It refuses a whole file for one
// word that it does not know, and then there are no alerts at all.
var (
	oldestGroup     = []string{"name", "interval", "rules"}
	oldestRule      = []string{"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
	oldestFunctions = []string{"abs", "absent", "avg_over_time", "histogram_quantile", "increase", "last_over_time", "max_over_time", "rate", "time"}
	oldestTemplates = []string{"eq", "humanize", "humanizeDuration", "humanizePercentage", "printf"}
	oldestOperators = []string{"avg", "count", "group", "max", "min", "quantile", "sum"}
	oldestName      = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	// A range was not yet a bare number of seconds.
	oldestRange = regexp.MustCompile(`^\[(\d+[smhdwy])+(:(\d+[smhdwy])*)?\]$`)
)

func TestRulesSuitTheOldestPrometheus(t *testing.T) {
	text, err := os.ReadFile("rules/inferbeat.yml")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, problem := range newerThanOldest(t, text, &checked) {
		t.Error(problem)
	}
	if want := len(allRules()); checked != want {
		t.Errorf("%d rules are checked, want %d", checked, want)
	}
}

// Each of these is refused by promtool 2.42, but for those without a complaint.
func TestNewerRulesAreSeen(t *testing.T) {
	rule := func(expr, more string) string {
		return "groups: [{name: g, rules: [{alert: A, expr: '" + expr + "'" + more + "}]}]"
	}
	for text, want := range map[string]string{
		rule("up == 0", ""): "",
		"groups: [{name: g, query_offset: 1m, rules: [{alert: A, expr: up}]}]": "group g has query_offset",
		rule("up", ", limit: 3"):                                                    "A has limit",
		rule("sort_by_label(up, \"job\")", ""):                                      "A calls sort_by_label",
		rule("increase(a_total[300])", ""):                                          "A has the range [300]",
		rule("a > 5m", ""):                                                          "A has the duration 5m as a number",
		rule("{\"a.b\"}", ""):                                                       "A has a quoted name",
		rule("limitk(1, up)", ""):                                                   "A aggregates by limitk",
		rule("up", ", annotations: {d: \"{{ $value | toDuration }}\"}"):             "A's d calls toDuration",
		rule("up", ", labels: {severity: \"{{ if $value }}{{ now }}{{ end }}\"}"):   "A's severity calls now",
		rule("max_over_time(up[5m:30s]) > quantile(0.5, rate(a_total[1h30m]))", ""): "",
	} {
		if got := strings.Join(newerThanOldest(t, []byte(text), new(int)), "; "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// newerThanOldest lists what the oldest Prometheus does not know in a rule file.
func newerThanOldest(t *testing.T, text []byte, checked *int) (problems []string) {
	t.Helper()
	var file map[string][]map[string]any
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"groups"}, slices.Collect(maps.Keys(file))); d != "" {
		t.Errorf("sections of the file (-want +got):\n%s", d)
	}
	for _, group := range file["groups"] {
		for _, key := range others(group, oldestGroup) {
			problems = append(problems, "group "+group["name"].(string)+" has "+key)
		}
		for _, r := range group["rules"].([]any) {
			*checked++
			rule := r.(map[string]any)
			name, _ := rule["alert"].(string)
			if name == "" {
				name = rule["record"].(string)
			}
			for _, key := range others(rule, oldestRule) {
				problems = append(problems, name+" has "+key)
			}
			for _, what := range newerPromQL(t, rule["expr"].(string)) {
				problems = append(problems, name+" "+what)
			}
			for _, part := range []string{"annotations", "labels"} {
				texts, _ := rule[part].(map[string]any)
				for _, key := range slices.Sorted(maps.Keys(texts)) {
					for _, call := range calls(t, texts[key].(string)) {
						if !slices.Contains(oldestTemplates, call) {
							problems = append(problems, name+"'s "+key+" calls "+call)
						}
					}
				}
			}
		}
	}
	return problems
}

// others are the keys that are not listed.
func others(m map[string]any, listed []string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(k string) bool { return slices.Contains(listed, k) })
}

func newerPromQL(t *testing.T, expr string) (problems []string) {
	t.Helper()
	for _, r := range regexp.MustCompile(`\[[^\]]*\]`).FindAllString(expr, -1) {
		if !oldestRange.MatchString(r) {
			problems = append(problems, "has the range "+r)
		}
	}
	parsed, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("parse %s: %v", expr, err)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.Call:
			if !slices.Contains(oldestFunctions, n.Func.Name) {
				problems = append(problems, "calls "+n.Func.Name)
			}
		case *parser.AggregateExpr:
			if !slices.Contains(oldestOperators, n.Op.String()) {
				problems = append(problems, "aggregates by "+n.Op.String())
			}
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if !oldestName.MatchString(m.Name) || m.Name == model.MetricNameLabel && !oldestName.MatchString(m.Value) {
					problems = append(problems, "has a quoted name")
				}
			}
		case *parser.NumberLiteral:
			if n.Duration {
				problems = append(problems, "has the duration "+n.String()+" as a number")
			}
		}
		return nil
	})
	return problems
}

// calls are the functions that a template of an alert calls.
func calls(t *testing.T, text string) (names []string) {
	t.Helper()
	tree := template.New("text")
	tree.Mode = template.SkipFuncCheck
	trees := map[string]*template.Tree{}
	if _, err := tree.Parse("{{ $labels := .Labels }}{{ $value := .Value }}"+text, "", "", trees); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	var pipe func(p *template.PipeNode)
	pipe = func(p *template.PipeNode) {
		for _, c := range p.Cmds {
			for _, arg := range c.Args {
				switch a := arg.(type) {
				case *template.IdentifierNode:
					names = append(names, a.Ident)
				case *template.PipeNode:
					pipe(a)
				}
			}
		}
	}
	var list func(l *template.ListNode)
	list = func(l *template.ListNode) {
		if l == nil {
			return
		}
		for _, node := range l.Nodes {
			switch n := node.(type) {
			case *template.ActionNode:
				pipe(n.Pipe)
			case *template.IfNode:
				pipe(n.Pipe)
				list(n.List)
				list(n.ElseList)
			case *template.TextNode:
			default:
				t.Fatalf("%s: a %T; list what it calls", text, node)
			}
		}
	}
	list(tree.Root)
	return names
}
