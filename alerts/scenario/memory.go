package scenario

import (
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory holds series by metric name. What stands in it is never changed, only
// replaced, so that takes of one scenario share it.
type memory map[string][]promql.Series

// put replaces what a rule gave. Alerts share their metrics with others, and the input
// may bring series under the name of recorded ones.
func (m memory) put(r *Rule, gave []promql.Series, input memory) {
	if r.Record != "" {
		m[r.Record] = slices.Concat(input[r.Record], gave)
		return
	}
	for _, metric := range []string{"ALERTS", "ALERTS_FOR_STATE"} {
		var all []promql.Series
		for _, s := range m[metric] {
			if s.Metric.Get(labels.AlertName) != r.Alert {
				all = append(all, s)
			}
		}
		for _, s := range gave {
			if s.Metric.Get(model.MetricNameLabel) == metric {
				all = append(all, s)
			}
		}
		m[metric] = all
	}
}

// Querier implements [storage.Queryable].
func (m memory) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{m, mint, maxt}, nil
}

// querier sees the samples from mint to maxt, both included, in milliseconds.
type querier struct {
	memory     memory
	mint, maxt int64
}

// Select needs a metric's name: without one it would have to look at every series.
func (q querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	name := slices.IndexFunc(matchers, func(m *labels.Matcher) bool {
		return m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual
	})
	if name < 0 {
		return storage.ErrSeriesSet(errors.New("select series: a scenario's expressions must name the metric"))
	}
	set := &seriesSet{at: -1}
	for _, s := range q.memory[matchers[name].Value] {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
			continue
		}
		from := sort.Search(len(s.Floats), func(i int) bool { return s.Floats[i].T >= q.mint })
		to := sort.Search(len(s.Floats), func(i int) bool { return s.Floats[i].T > q.maxt })
		if from < to {
			set.series = append(set.series, promql.Series{Metric: s.Metric, Floats: s.Floats[from:to:to]})
		}
	}
	if sorted {
		slices.SortFunc(set.series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	}
	return set
}

var errNoLabels = errors.New("list labels: scenarios have no need of it")

// LabelValues is of no use to the engine.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errNoLabels
}

// LabelNames is of no use to the engine.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errNoLabels
}

func (querier) Close() error { return nil }

// seriesSet walks over selected series.
type seriesSet struct {
	series []promql.Series
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.series[s.at]) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
