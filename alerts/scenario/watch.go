package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
)

// Page is what one scrape got, in the text format of Prometheus.
type Page struct {
	At   time.Time
	Text []byte
}

// Change is an alert that went from one state into another.
type Change struct {
	At    time.Time
	Alert labels.Labels // its name and severity among them
	State rules.AlertState
}

// Watch does with the pages of one target, the oldest first, what Prometheus does, on
// their own times: it adds the target's labels, ends the series that a page no longer
// has, and evaluates each group at the multiples of its interval since 1970. It returns
// every change of an alert's state in order.
func Watch(groups []Group, target labels.Labels, pages []Page) ([]Change, error) {
	input, err := scrape(target, pages)
	if err != nil || len(pages) == 0 {
		return nil, err
	}
	first, last := time.Duration(pages[0].At.UnixNano()), time.Duration(pages[len(pages)-1].At.UnixNano())
	e := evaluator{newEngine(), maps.Clone(input)}
	defer e.engine.Close()
	var changes []Change
	for _, g := range groups {
		every := cmp.Or(g.Interval, time.Minute) // Prometheus's own
		s := span{start: (first + every - 1).Truncate(every), end: last, every: every}
		for i := range g.Rules {
			w := watch{}
			gave, err := e.evaluate(&g.Rules[i], s, w.look)
			if err != nil {
				return nil, err
			}
			e.data.put(&g.Rules[i], gave, input)
			changes = append(changes, w.changes...)
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.State, a.State), labels.Compare(a.Alert, b.Alert))
	})
	return changes, nil
}

// scrape gives the series of the pages.
func scrape(target labels.Labels, pages []Page) (memory, error) {
	all := recorder{index: map[string]int{}}
	for _, page := range pages {
		vector, err := read(page.Text, target)
		if err != nil {
			return nil, fmt.Errorf("scrape at %v: %w", page.At, err)
		}
		all.add(vector, page.At.UnixMilli())
	}
	out := memory{}
	for _, s := range all.series {
		name := s.Metric.Get(model.MetricNameLabel)
		out[name] = append(out[name], s)
	}
	return out, nil
}

// read gives the samples of a page and up, with the labels of the target.
func read(text []byte, target labels.Labels) (promql.Vector, error) {
	own := func(series labels.Labels) labels.Labels {
		b := labels.NewBuilder(series)
		target.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
		return b.Labels()
	}
	out := promql.Vector{{Metric: own(labels.FromStrings(model.MetricNameLabel, "up")), F: 1}}
	for parser := textparse.NewPromParser(text, labels.NewSymbolTable(), false); ; {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("parse page: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		_, _, v := parser.Series()
		out = append(out, promql.Sample{Metric: own(series), F: v})
	}
	if out.ContainsSameLabelset() {
		return nil, errors.New("parse page: a series stands in it twice")
	}
	return out, nil
}

// watch follows the alerts of one rule.
type watch struct {
	states  map[string]Change // of those that are not inactive
	changes []Change
}

// look notes what is otherwise than at the last evaluation.
func (w *watch) look(rule *rules.AlertingRule, since time.Duration) (goOn bool) {
	at, now := instant(since), map[string]Change{}
	for _, a := range rule.ActiveAlerts() {
		name := a.Labels.String()
		now[name] = Change{at, a.Labels, a.State}
		if was, ok := w.states[name]; !ok || was.State != a.State {
			w.changes = append(w.changes, now[name])
		}
	}
	for name, was := range w.states {
		if _, ok := now[name]; !ok {
			w.changes = append(w.changes, Change{at, was.Alert, rules.StateInactive})
		}
	}
	w.states = now
	return true
}
