package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
)

const ruleFile = `
groups:
- name: recorded
  interval: 2m
  rules:
  - {record: 'job:errors:sum', expr: 'sum by (job) (errors)'}
- name: alerts
  interval: 1m
  rules:
  - alert: Errors
    expr: job:errors:sum > 2
    for: 2m
    keep_firing_for: 3m
    annotations: {summary: '{{ $labels.job }}: {{ $value }}'}
  - {alert: Quiet, expr: 'errors == 0'}
`

// From minute 4 on, two errors of each of two instances until minute 8.
const scenarioFile = `
group_eval_order: [recorded, alerts]
evaluation_interval: 1m
tests:
- name: errors come and go
  interval: 1m
  input_series:
  - {series: 'errors{job="a", instance="1"}', values: '0x3 2x3 0x3 _x2 stale'}
  - {series: 'errors{job="a", instance="2"}', values: '0x3 2x3 0x8'}
  promql_expr_test:
  - {eval_time: 3m, expr: 'job:errors:sum', exp_samples: [{labels: 'job:errors:sum{job="a"}', value: 0}]}
  - {eval_time: 5m, expr: 'job:errors:sum', exp_samples: [{labels: 'job:errors:sum{job="a"}', value: 4}]}
  - {eval_time: 5m, expr: 'ALERTS', exp_samples: [{labels: 'ALERTS{alertname="Errors", alertstate="pending", job="a"}', value: 1}]}
  alert_rule_test:
  - {eval_time: 5m30s, alertname: Errors}
  - {eval_time: 6m, alertname: Errors, exp_alerts: [{exp_labels: {job: a}, exp_annotations: {summary: 'a: 4'}}]}
  - {eval_time: 10m, alertname: Errors, exp_alerts: [{exp_labels: {job: a}, exp_annotations: {summary: 'a: 4'}}]}
  - {eval_time: 11m, alertname: Errors}
`

func play(t *testing.T, scenario string) (*Play, []Group) {
	t.Helper()
	groups, err := Parse([]byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.test.yml")
	if err := os.WriteFile(path, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	scenarios, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := scenarios[0].Play(groups)
	if err != nil {
		t.Fatal(err)
	}
	return p, groups
}

func TestPlay(t *testing.T) {
	p, _ := play(t, scenarioFile)
	if diff := cmp.Diff([]string(nil), p.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestPlayTellsWhatIsNotAsExpected(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"value", "value: 4", "value: 5", `job:errors:sum gives {__name__="job:errors:sum", job="a"} 4, want 5`},
		{"a sample too many", `[{labels: 'job:errors:sum{job="a"}', value: 0}]`, "[]", `job:errors:sum gives {__name__="job:errors:sum", job="a"} 0, want 0, listed: false`},
		{"state", "pending", "firing", `ALERTS gives no {__name__="ALERTS", alertname="Errors", alertstate="firing", job="a"}, want 1`},
		{"text", "eval_time: 10m, alertname: Errors, exp_alerts: [{exp_labels: {job: a}, exp_annotations: {summary: 'a: 4'", "eval_time: 10m, alertname: Errors, exp_alerts: [{exp_labels: {job: a}, exp_annotations: {summary: 'a: 0'", `at 10m0s: alerts Errors`},
		{"time", "eval_time: 11m", "eval_time: 10m30s", `at 10m30s: alerts Errors`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(scenarioFile, tt.old, tt.new, 1)
			if changed == scenarioFile {
				t.Fatalf("nothing replaced: %s", tt.old)
			}
			p, _ := play(t, changed)
			if got := strings.Join(p.Failures, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("failures:\n%s\nwant among them %q", got, tt.want)
			}
		})
	}
}

func TestPlayRefusesAnAlertThatIsNotThere(t *testing.T) {
	groups, err := Parse([]byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	s := Scenario{Name: "typo", Every: time.Minute, Alerts: []AlertTest{{Alert: "Erors"}}}
	_, err = s.Play(groups)
	if err == nil || err.Error() != "play typo: there is no alert Erors" {
		t.Errorf("got %v", err)
	}
}

func TestNotices(t *testing.T) {
	p, groups := play(t, scenarioFile)
	for _, tt := range []struct {
		name string
		rule Rule
		expr string
		also func(*Rule)
		want bool
	}{
		{"nothing", groups[0].Rules[0], "sum by (job) (errors)", nil, false},
		{"other words for the same", groups[0].Rules[0], "sum without (instance) (errors)", nil, false},
		{"a recorded value", groups[0].Rules[0], "max by (job) (errors)", nil, true},
		{"a rule that cannot be evaluated", groups[0].Rules[0], "errors * on (job) errors", nil, true},
		{"the alert's bound", groups[1].Rules[0], "job:errors:sum > 4", nil, true},
		{"a bound that is not reached", groups[1].Rules[0], "job:errors:sum > 3", nil, false},
		{"for", groups[1].Rules[0], "", func(r *Rule) { r.For = time.Minute }, true},
		{"keep_firing_for", groups[1].Rules[0], "", func(r *Rule) { r.KeepFiring = 0 }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			broken := tt.rule
			if tt.expr != "" {
				expr, err := NewParser().ParseExpr(tt.expr)
				if err != nil {
					t.Fatal(err)
				}
				broken.Expr = expr
			}
			if tt.also != nil {
				tt.also(&broken)
			}
			if got := p.Notices(broken); got != tt.want {
				t.Errorf("Notices: got %v, want %v", got, tt.want)
			}
		})
	}
	if !p.Needs("job:errors:sum") || !p.Needs("Errors") || p.Needs("Quiet") {
		t.Errorf("Needs: got %v, %v, %v; want true, true, false", p.Needs("job:errors:sum"), p.Needs("Errors"), p.Needs("Quiet"))
	}
}

// Errors of the pages from 1m30s to 4m, which are gone from the page after that. The
// group that records looks every two minutes, the alert's every minute.
func TestWatch(t *testing.T) {
	groups, err := Parse([]byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	var pages []Page
	for at := 30 * time.Second; at <= 10*time.Minute; at += 30 * time.Second {
		text := "# TYPE errors gauge\n"
		if at <= 4*time.Minute {
			text += "errors{code=\"1\"} " + map[bool]string{false: "0", true: "3"}[at >= 90*time.Second] + "\n"
		}
		pages = append(pages, Page{began.Add(at), []byte(text)})
	}
	changes, err := Watch(groups, labels.FromStrings("job", "a", "instance", "1"), pages)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.At.Sub(began).String()+" "+c.State.String()+" "+c.Alert.String())
	}
	want := []string{
		`1m0s firing {alertname="Quiet", code="1", instance="1", job="a"}`,
		`2m0s pending {alertname="Errors", job="a"}`,
		`2m0s inactive {alertname="Quiet", code="1", instance="1", job="a"}`,
		`4m0s firing {alertname="Errors", job="a"}`,
		`9m0s inactive {alertname="Errors", job="a"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}

	pages[2].Text = []byte("errors 1\nerrors 2\n")
	want = []string{"scrape at 2026-05-01 00:01:30 +0000 UTC: parse page: a series stands in it twice"}
	if _, err := Watch(groups, labels.EmptyLabels(), pages); err == nil || err.Error() != want[0] {
		t.Errorf("got %v, want %s", err, want[0])
	}
}
