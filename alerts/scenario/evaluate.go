package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
)

// newEngine is Prometheus's engine as promtool sets it up for its unit tests.
func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, Parser: NewParser(),
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
}

// evaluator evaluates rules over series in memory, each rule over the whole time
// before the next one: as recorded series stand before those who read them, it sees
// what it would have seen step by step, for a fraction of the work.
type evaluator struct {
	engine *promql.Engine
	data   memory
}

// span is when a rule is evaluated, as times since 1970: from start to end, both
// included.
type span struct{ start, end, every time.Duration }

// evaluate gives the series that a rule records or, for an alert, ALERTS. It shows the
// alert after each evaluation, and ends early when that says so.
func (e evaluator) evaluate(r *Rule, s span, show func(alert *rules.AlertingRule, at time.Duration) (goOn bool)) ([]promql.Series, error) {
	values, err := e.values(r.Expr.String(), s)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", r.Name(), err)
	}
	rule, out := r.rule(), recorder{index: map[string]int{}}
	for at := s.start; at <= s.end; at += s.every {
		vector, err := rule.Eval(context.Background(), 0, instant(at), values.at, &url.URL{}, 0)
		if err != nil {
			return nil, fmt.Errorf("evaluate %s at %v: %w", r.Name(), at, err)
		}
		out.add(vector, at.Milliseconds())
		if alert, ok := rule.(*rules.AlertingRule); ok && !show(alert, at) {
			break
		}
	}
	return out.series, nil
}

// instant is the time that stands so long after 1970.
func instant(since time.Duration) time.Time { return time.UnixMilli(since.Milliseconds()).UTC() }

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

// columns are an expression's values over time, handed out time by time.
type columns struct {
	matrix promql.Matrix
	next   []int // of each series' samples
}

func (e evaluator) values(expr string, s span) (*columns, error) {
	query, err := e.engine.NewRangeQuery(context.Background(), e.data, nil, expr, instant(s.start), instant(s.end), s.every)
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

// recorder collects what is given time by time, and marks as stale what no longer is.
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
