package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
)

// take is one pass of rules over data, checked against a scenario.
type take struct {
	evaluator
	scenario *Scenario
	hurry    bool // the first failure is enough
	failures []string
}

func (t *take) done() bool { return t.hurry && len(t.failures) > 0 }

// evaluate gives what the rule gives, and checks an alert's expectations on the way.
func (t *take) evaluate(r *Rule, interval time.Duration) ([]promql.Series, error) {
	// A group is evaluated when its interval and the scenario's fall together.
	every := t.scenario.Every
	for every%max(interval, t.scenario.Every) != 0 {
		every += t.scenario.Every
	}
	return t.evaluator.evaluate(r, span{end: t.scenario.end(), every: every}, func(alert *rules.AlertingRule, at time.Duration) (goOn bool) {
		t.checkAlerts(alert, at, every)
		return !t.done()
	})
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
