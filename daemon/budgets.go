package daemon

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/budget"
	"github.com/inferbeat/inferbeat/probes/summary"
)

// budgetKey is whose budget it is: a pool's, whichever of its targets was asked.
type budgetKey struct {
	pool        string
	environment probes.Environment
	model       string
	probe, slo  string
}

const budgetPrefix = "budget/"

// stateKey is that of one day.
func (k budgetKey) stateKey(day int64) string {
	parts := []string{k.pool, string(k.environment), k.model, k.probe, k.slo, strconv.FormatInt(day, 10)}
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return budgetPrefix + strings.Join(parts, "/")
}

func readStateKey(text string) (k budgetKey, day int64, err error) {
	parts := strings.Split(strings.TrimPrefix(text, budgetPrefix), "/")
	if len(parts) != 6 {
		return k, 0, fmt.Errorf("read error budget %s: is of no known form", text)
	}
	for i := range parts {
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return k, 0, fmt.Errorf("read error budget %s: %w", text, err)
		}
	}
	day, err = strconv.ParseInt(parts[5], 10, 64)
	return budgetKey{parts[0], probes.Environment(parts[1]), parts[2], parts[3], parts[4]}, day, err
}

// budgets are the ledgers of all objectives.
type budgets struct {
	mu      sync.Mutex
	ledgers map[budgetKey]*budget.Ledger
}

func newBudgets() *budgets { return &budgets{ledgers: map[budgetKey]*budget.Ledger{}} }

func (b *budgets) ledger(key budgetKey) *budget.Ledger {
	if b.ledgers[key] == nil {
		b.ledgers[key] = &budget.Ledger{}
	}
	return b.ledgers[key]
}

func (b *budgets) restore(states []store.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, state := range states {
		key, day, err := readStateKey(state.Key)
		if err == nil {
			err = b.ledger(key).Restore(day, state.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count gives the states in which a run's events are counted. They count when they are
// written, once: what is shown is then what is kept. A run that cannot be believed, or
// is not one of a continuous probe, has no events.
func (b *budgets) count(run *probes.Run) []store.State {
	if !run.Spec.Kind.Continuous() || run.Result == probes.RunInvalid {
		return nil
	}
	var states []store.State
	for i := range run.Spec.SLOs {
		slo := &run.Spec.SLOs[i]
		key := budgetKey{run.Target.Pool, run.Target.Environment, run.Target.Model, run.Spec.Probe, slo.Name}
		for day, events := range eventsOf(run, slo) {
			add := sync.OnceFunc(func() {
				for _, e := range events {
					b.ledger(key).Add(e.at, e.good)
				}
			})
			states = append(states, store.State{
				Key: key.stateKey(day), Expires: budget.DayEnd(day).Add(slo.Window + 24*time.Hour),
				Latest: func() []byte {
					b.mu.Lock()
					defer b.mu.Unlock()
					add()
					return b.ledger(key).Day(day)
				},
			})
		}
	}
	return states
}

type sloEvent struct {
	at   time.Time
	good bool
}

// eventsOf are the requests that count for an objective, by the day on which they ended.
func eventsOf(run *probes.Run, slo *probes.SLO) map[int64][]sloEvent {
	events := map[int64][]sloEvent{}
	for i := range run.Records {
		r := &run.Records[i]
		good, counts := summary.Good(r, slo)
		if !counts {
			continue
		}
		at := run.Start.Add(r.End.Or(r.Sent))
		day := budget.DayOf(at)
		events[day] = append(events[day], sloEvent{at, good})
	}
	return events
}

// remaining is what is left of the budgets of the pairs' objectives, in a fixed order.
// An objective without an event has none.
func (b *budgets) remaining(pairs []probes.PairStatus, now time.Time) []probes.ErrorBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[budgetKey]probes.ErrorBudget{}
	for i := range pairs {
		p := &pairs[i]
		if !p.Kind.Continuous() {
			continue
		}
		for _, slo := range p.Spec.SLOs {
			key := budgetKey{p.Pair.Pool, p.Pair.Environment, p.Pair.Model, p.Pair.Probe, slo.Name}
			if _, done := found[key]; done {
				continue
			}
			if left, known := budget.Remaining(b.within(key, now, slo.Window), slo.Objective).Get(); known {
				found[key] = probes.ErrorBudget{
					Pool: key.pool, Environment: string(key.environment), Model: key.model, Probe: key.probe, SLO: key.slo, Remaining: left,
				}
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(found), func(x, y budgetKey) int { return strings.Compare(x.stateKey(0), y.stateKey(0)) })
	out := make([]probes.ErrorBudget, len(keys))
	for i, key := range keys {
		out[i] = found[key]
	}
	return out
}

// within adds up the events of a window, and those of the pool's targets that had not
// named their model yet: an outage that began before anybody knew it costs its budget.
func (b *budgets) within(key budgetKey, now time.Time, window time.Duration) (sum budget.Events) {
	unnamed := key
	unnamed.model = ""
	for _, k := range slices.Compact([]budgetKey{key, unnamed}) {
		if ledger := b.ledgers[k]; ledger != nil {
			events := ledger.Within(now, window)
			sum.Good += events.Good
			sum.Bad += events.Bad
		}
	}
	return sum
}

// forget drops the days that no window of the pairs reaches any more.
func (b *budgets) forget(pairs []probes.PairStatus, now time.Time) {
	var longest time.Duration
	for i := range pairs {
		for _, slo := range pairs[i].Spec.SLOs {
			longest = max(longest, slo.Window)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ledger := range b.ledgers {
		ledger.Forget(now.Add(-longest - 24*time.Hour))
	}
}
