package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
)

// take is one pass of rules over a scenario. Each rule is evaluated over the whole
// time before the next one: as recorded series stand before those who read them, it
// sees what it would have seen step by step, for a fraction of the work.
type take struct {
	scenario *Scenario
	engine   *promql.Engine
	data     memory
	hurry    bool // the first failure is enough
	failures []string
}

func (t *take) done() bool { return t.hurry && len(t.failures) > 0 }

// rule makes what Prometheus evaluates: it knows for, keep_firing_for and templates.
func (r *Rule) rule() rules.Rule {
	if r.Record != "" {
		return rules.NewRecordingRule(r.Record, r.Expr, labels.FromMap(r.Labels))
	}
	// There is nothing to restore, and before that no alert is recorded.
	const restored = true
	return rules.NewAlertingRule(r.Alert, r.Expr, r.For, r.KeepFiring, labels.FromMap(r.Labels), labels.FromMap(r.Annotations),
		labels.EmptyLabels(), "", restored, slog.New(slog.DiscardHandler))
}

// evaluate gives the series that a rule records or, for an alert, ALERTS, and checks
// the alert's expectations on the way.
func (t *take) evaluate(r *Rule, interval time.Duration) ([]promql.Series, error) {
	// A group is evaluated when its interval and the scenario's fall together.
	every := t.scenario.Every
	for every%max(interval, t.scenario.Every) != 0 {
		every += t.scenario.Every
	}
	values, err := t.values(r.Expr.String(), every)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", r.Name(), err)
	}
	rule, out := r.rule(), recorder{index: map[string]int{}}
	for at := time.Duration(0); at <= t.scenario.end() && !t.done(); at += every {
		now := time.UnixMilli(at.Milliseconds()).UTC()
		vector, err := rule.Eval(context.Background(), 0, now, values.at, &url.URL{}, 0)
		if err != nil {
			return nil, fmt.Errorf("evaluate %s at %v: %w", r.Name(), at, err)
		}
		out.add(vector, at.Milliseconds())
		if alert, ok := rule.(*rules.AlertingRule); ok {
			t.checkAlerts(alert, at, every)
		}
	}
	return out.series, nil
}

// columns are an expression's values over time, handed out time by time.
type columns struct {
	matrix promql.Matrix
	next   []int // of each series' samples
}

func (t *take) values(expr string, every time.Duration) (*columns, error) {
	query, err := t.engine.NewRangeQuery(context.Background(), t.data, nil, expr, time.UnixMilli(0), time.UnixMilli(t.scenario.end().Milliseconds()), every)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	matrix, err := query.Exec(context.Background()).Matrix()
	if err != nil {
		return nil, err
	}
	own := slices.Clone(matrix) // the engine takes the samples back
	for i := range own {
		own[i].Floats = slices.Clone(own[i].Floats)
	}
	return &columns{own, make([]int, len(own))}, nil
}

// at is a [rules.QueryFunc] for one expression and times that do not go back.
func (c *columns) at(_ context.Context, _ string, now time.Time) (promql.Vector, error) {
	var out promql.Vector
	for i, s := range c.matrix {
		if n := c.next[i]; n < len(s.Floats) && s.Floats[n].T == now.UnixMilli() {
			out = append(out, promql.Sample{Metric: s.Metric, T: s.Floats[n].T, F: s.Floats[n].F})
			c.next[i]++
		}
	}
	return out, nil
}

// recorder collects what a rule gives, and marks as stale what it no longer gives.
type recorder struct {
	series []promql.Series
	index  map[string]int
}

func (r *recorder) add(vector promql.Vector, at int64) {
	for _, sample := range vector {
		key := string(sample.Metric.Bytes(nil))
		i, ok := r.index[key]
		if !ok {
			i = len(r.series)
			r.index[key] = i
			r.series = append(r.series, promql.Series{Metric: sample.Metric})
		}
		r.series[i].Floats = append(r.series[i].Floats, promql.FPoint{T: at, F: sample.F})
	}
	for i := range r.series {
		if last := r.series[i].Floats[len(r.series[i].Floats)-1]; last.T < at && !value.IsStaleNaN(last.F) {
			r.series[i].Floats = append(r.series[i].Floats, promql.FPoint{T: at, F: math.Float64frombits(value.StaleNaN)})
		}
	}
}

func (t *take) fail(at time.Duration, format string, args ...any) {
	t.failures = append(t.failures, fmt.Sprintf("%s, at %v: ", t.scenario.Name, at)+fmt.Sprintf(format, args...))
}

// checkExpr compares what an expression gives with what it should.
func (t *take) checkExpr(e Expectation) error {
	got, err := rules.EngineQueryFunc(t.engine, t.data)(context.Background(), e.Expr, time.UnixMilli(time.Duration(e.At).Milliseconds()).UTC())
	if err != nil {
		return fmt.Errorf("evaluate %s: %w", e.Expr, err)
	}
	at, want := time.Duration(e.At), map[string]float64{}
	for _, sample := range e.Samples {
		metric, err := NewParser().ParseMetric(sample.Labels)
		if err != nil {
			return fmt.Errorf("parse expected labels %s: %w", sample.Labels, err)
		}
		want[metric.String()] = sample.Value
	}
	for _, sample := range got {
		value, ok := want[sample.Metric.String()]
		if !ok || value != sample.F && !(math.IsNaN(value) && math.IsNaN(sample.F)) {
			t.fail(at, "%s gives %v %v, want %v, listed: %v", e.Expr, sample.Metric, sample.F, value, ok)
		}
		delete(want, sample.Metric.String())
	}
	for metric, value := range want {
		t.fail(at, "%s gives no %s, want %v", e.Expr, metric, value)
	}
	return nil
}

// checkAlerts compares the firing alerts of a rule with the expectations of the time
// until its next evaluation.
func (t *take) checkAlerts(rule *rules.AlertingRule, at, every time.Duration) {
	firing := slices.DeleteFunc(rule.ActiveAlerts(), func(a *rules.Alert) bool { return a.State != rules.StateFiring })
	t.checkTexts(firing, at)
	for _, test := range t.scenario.Alerts {
		if test.Alert != rule.Name() || time.Duration(test.At) < at || time.Duration(test.At) >= at+every {
			continue
		}
		var got, want []string
		for _, a := range firing {
			got = append(got, a.Labels.String()+" "+a.Annotations.String())
		}
		for _, i := range test.Instances {
			with := labels.NewBuilder(labels.FromMap(i.Labels)).Set(labels.AlertName, test.Alert).Labels()
			want = append(want, with.String()+" "+labels.FromMap(i.Annotations).String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.fail(time.Duration(test.At), "alerts %s:\n got %s\nwant %s", test.Alert, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

// checkTexts fails for a text that names a label which the alert does not have.
func (t *take) checkTexts(firing []*rules.Alert, at time.Duration) {
	for _, a := range firing {
		a.Annotations.Range(func(l labels.Label) {
			if strings.Contains(l.Value, "<no value>") || strings.Contains(l.Value, "error expanding template") ||
				strings.Contains(l.Value, "()") || strings.Contains(l.Value, "  ") {
				t.fail(at, "%s %s reads %q", a.Labels.Get(labels.AlertName), l.Name, l.Value)
			}
		})
	}
}
