package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// comparisons keeps what stands for each configured comparison. All methods may be
// called at once.
type comparisons struct {
	now func() time.Time

	mu   sync.Mutex
	byID map[pairKey]*comparisonState
}

type comparisonState struct {
	config config.Comparison
	status probes.ComparisonStatus
}

// comparisonPair is the identity under which a comparison is scheduled and its runs
// are kept: it is a run of the candidate.
func comparisonPair(c config.Comparison) probes.Pair {
	return probes.Pair{
		Target: c.Candidate.Name, Pool: c.Candidate.Pool, Environment: c.Candidate.Environment,
		Model: c.Candidate.Model, Probe: c.Spec.Probe,
	}
}

// planComparisons are the entries of the schedule; intervals takes those of comparisons
// too.
func planComparisons(list []config.Comparison, intervals map[pairKey]time.Duration) ([]schedule.Entry, error) {
	var entries []schedule.Entry
	for _, c := range list {
		plan, err := schedule.Parse(c.Spec.Schedule)
		if err != nil {
			return nil, fmt.Errorf("read the schedule of comparison %s: %w", c.Spec.Probe, err)
		}
		if err := ReserveDescriptors(sideSpec(c.Spec)); err != nil {
			return nil, fmt.Errorf("plan comparison %s: %w", c.Spec.Probe, err)
		}
		pair := comparisonPair(c)
		intervals[keyOf(pair)] = plan.Interval(time.Now())
		entries = append(entries, schedule.Entry{Pair: pair, Plan: plan, Also: c.Reference.Name})
	}
	return entries, nil
}

// inUse are the pairs whose clients are kept.
func inUse(pairs map[pairKey]config.Pair, list []config.Comparison) map[pairKey]bool {
	keep := make(map[pairKey]bool, len(pairs)+2*len(list))
	for key := range pairs {
		keep[key] = true
	}
	for _, c := range list {
		keep[pairKey{c.Reference.Name, c.Spec.Probe}] = true
		keep[pairKey{c.Candidate.Name, c.Spec.Probe}] = true
	}
	return keep
}

// replace makes list the configured ones. One that stays keeps its history, and its
// result when it would still be measured like that. remembered are those of an earlier
// process.
func (t *comparisons) replace(list []config.Comparison, intervals map[pairKey]time.Duration, remembered map[pairKey]comparisonMemory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make(map[pairKey]*comparisonState, len(list))
	for _, c := range list {
		key := keyOf(comparisonPair(c))
		state := t.byID[key]
		if state == nil {
			state = remembered[key].state(&c)
		}
		s := &state.status
		if !sameMeasurement(state.config.Spec, c.Spec) || s.Reference != c.Reference.Name {
			s.Result = nil
		}
		s.Name, s.Reference, s.Candidate = c.Spec.Probe, c.Reference.Name, c.Candidate.Name
		s.StaleAfter, s.Interval = c.Spec.StaleAfter, intervals[key]
		state.config = c
		next[key] = state
	}
	t.byID = next
}

// find is the configured comparison of a scheduled pair.
func (t *comparisons) find(key pairKey) (config.Comparison, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.byID[key]
	if !ok {
		return config.Comparison{}, false
	}
	return state.config, true
}

func (t *comparisons) started(key pairKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.byID[key]; state != nil {
		state.status.Active = true
	}
}

// skipped counts starts that did not happen; false when the pair is no comparison.
func (t *comparisons) skipped(key pairKey, reason probes.SkipReason, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, ok := t.byID[key]
	if ok {
		state.status.Skips[reason] += n
	}
	return ok
}

// finished takes a run over.
func (t *comparisons) finished(key pairKey, run *probes.Run) {
	if next := t.outcome(key, run); next != nil {
		t.commit(key, next)
	}
}

// outcome is what a run will have made of its comparison, which commit makes visible,
// without its records and those of its parts; nil when it was removed while it ran.
// What cannot be believed moves no result.
func (t *comparisons) outcome(key pairKey, run *probes.Run) *comparisonState {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.byID[key]
	if state == nil {
		return nil
	}
	next := *state
	bare := withoutRecords(run)
	next.status.LastCompletion, next.status.Last = t.now(), &bare
	if run.Result == probes.RunSuccess && sameMeasurement(next.config.Spec, run.Spec) {
		next.status.Result = &bare
	}
	return &next
}

// commit makes the outcome of a run what stands, as far as a reload has not changed what
// is compared.
func (t *comparisons) commit(key pairKey, next *comparisonState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.byID[key]
	if state == nil {
		return
	}
	state.status.Active, state.status.LastCompletion, state.status.Last = false, next.status.LastCompletion, next.status.Last
	if sameMeasurement(state.config.Spec, next.config.Spec) && state.status.Reference == next.status.Reference {
		state.status.Result = next.status.Result
	}
}

// missing lists the comparisons that are not tracked yet.
func (t *comparisons) missing(list []config.Comparison) (keys []pairKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range list {
		if key := keyOf(comparisonPair(c)); t.byID[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// snapshot is the state of all comparisons now, sorted by name. next gives the planned
// starts.
func (t *comparisons) snapshot(next map[pairKey]time.Time) []probes.ComparisonStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	out := make([]probes.ComparisonStatus, 0, len(t.byID))
	for key, state := range t.byID {
		s := state.status
		s.NextStart = next[key]
		s.Skips = maps.Clone(s.Skips)
		if s.Result != nil && now.Sub(s.Result.End) > s.StaleAfter {
			s.Result = nil
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b probes.ComparisonStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// startComparison carries one due comparison out. It runs in a goroutine of the
// scheduler, which holds both targets meanwhile.
func (a *App) startComparison(entry schedule.Entry, c config.Comparison, lateness time.Duration) {
	key := keyOf(entry.Pair)
	admission, hold := a.gate.Admit(time.Now(), asksOf(&c)...)
	if hold != nil {
		a.skipped(entry.Pair, hold.Reason, 1)
		return
	}
	a.comparisons.started(key)
	a.fanout.Publish(probes.Event{Kind: probes.EventRunStarted, At: time.Now(), Pair: entry.Pair, Spec: &c.Spec, Lateness: lateness})
	run := a.compare(a.running.get(), c)
	for _, side := range []struct{ configured, found probes.Target }{{c.Reference, run.Comparison.Reference}, {c.Candidate, run.Target}} {
		if side.configured.Model == "" && side.found.Model != "" {
			a.named(side.configured.Name, side.found.Model)
		}
	}
	a.settleUp(admission, run)
	next := a.comparisons.outcome(key, run)
	a.memory.rememberComparison(context.Background(), run, next, a.spending(c.Reference.Name, c.Candidate.Name)...)
	if next != nil {
		a.comparisons.commit(key, next)
	}
	a.fanout.Publish(probes.Event{Kind: probes.EventRunDone, At: run.End, Pair: entry.Pair, RunID: run.ID, Spec: &run.Spec, Run: run})
	a.logRun(run)
}

// compare runs a comparison with the keys of its targets as they are now.
func (a *App) compare(ctx context.Context, c config.Comparison) *probes.Run {
	sides := [2]probes.Target{c.Reference, c.Candidate}
	for i, target := range sides {
		resolved, err := config.ResolveSecrets(target)
		if err != nil {
			run := &probes.Run{ID: newRunID(), Target: c.Candidate, Spec: c.Spec, Start: time.Now(),
				Comparison: &probes.Comparison{Reference: c.Reference, Pairs: c.Spec.Pairs}}
			fail(ctx, run, err)
			return run
		}
		sides[i] = resolved
	}
	return a.runner.Compare(ctx, sides[0], sides[1], c.Spec, &loadgen.Progress{}, Hooks{
		Record: func(_ string, record *probes.Record) {
			a.client.answered(time.Now(), c.Spec.Arrivals, record)
		},
		Panicked: a.panicked,
	})
}
