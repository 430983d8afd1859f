package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
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

// Watch does with the pages of one target what Prometheus does, on their own times:
// it adds the target's labels, ends the series that a page no longer has, and evaluates
// each group after the pages whose time its interval divides. It returns every change
// of an alert's state in order.
func Watch(groups []Group, target labels.Labels, pages []Page) (changes []Change, err error) {
	db, closeDB, err := database()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, Parser: NewParser(),
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	defer engine.Close()
	w := &watch{db: db, target: target, groups: prepare(groups, db, engine), states: map[string]Change{}}
	for _, page := range pages {
		if err := w.scrape(page); err != nil {
			return nil, fmt.Errorf("scrape at %v: %w", page.At, err)
		}
		if err := w.evaluate(page.At); err != nil {
			return nil, err
		}
	}
	return w.changes, nil
}

// watch is a target that is being scraped.
type watch struct {
	db      *tsdb.DB
	target  labels.Labels
	groups  []*rules.Group
	live    map[string]labels.Labels // the series of the last page
	states  map[string]Change        // the alerts that are not inactive
	changes []Change
}

// scrape appends the samples of a page.
func (w *watch) scrape(page Page) error {
	app := w.db.AppenderV2(context.Background())
	at, live := page.At.UnixMilli(), map[string]labels.Labels{}
	add := func(series labels.Labels, v float64) error {
		_, err := app.Append(0, series, 0, at, v, nil, nil, storage.AppendV2Options{})
		if err != nil {
			return fmt.Errorf("append sample of %s: %w", series, err)
		}
		return nil
	}
	parser := textparse.NewPromParser(page.Text, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("parse page: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		parser.Labels(&series)
		_, _, v := parser.Series()
		series = w.own(series)
		live[series.String()] = series
		if err := add(series, v); err != nil {
			return err
		}
	}
	for name, series := range w.live {
		if _, ok := live[name]; !ok {
			if err := add(series, math.Float64frombits(value.StaleNaN)); err != nil {
				return err
			}
		}
	}
	w.live = live
	if err := add(w.own(labels.FromStrings(model.MetricNameLabel, "up")), 1); err != nil {
		return err
	}
	return app.Commit()
}

// own gives a series the labels of the target.
func (w *watch) own(series labels.Labels) labels.Labels {
	b := labels.NewBuilder(series)
	w.target.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
	return b.Labels()
}

// evaluate evaluates the groups that are due.
func (w *watch) evaluate(at time.Time) error {
	now := map[string]Change{}
	for _, g := range w.groups {
		if at.UnixNano()%g.Interval().Nanoseconds() == 0 {
			g.Eval(context.Background(), at)
		}
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				return fmt.Errorf("evaluate %s at %v: %w", r.Name(), at, err)
			}
		}
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				now[a.Labels.String()] = Change{at, a.Labels, a.State}
			}
		}
	}
	w.compare(at, now)
	return nil
}

// compare notes what is otherwise than at the last evaluation.
func (w *watch) compare(at time.Time, now map[string]Change) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		is := now[name]
		if was, ok := w.states[name]; !ok || was.State != is.State {
			w.changes = append(w.changes, is)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.states)) {
		if _, ok := now[name]; !ok {
			w.changes = append(w.changes, Change{at, w.states[name].Alert, rules.StateInactive})
		}
	}
	w.states = now
}
