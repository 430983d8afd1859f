package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/regression"
)

// memory is what outlives the process. Without a store it keeps the error budgets of
// this process alone. A store that fails costs nothing else: the daemon goes on measuring,
// counts the failures and says so, and writes what it could not write once it can.
type memory struct {
	store   *store.Store // nil: nothing is kept
	log     *slog.Logger
	now     func() time.Time
	maxSize int64
	budgets *budgets
	backlog backlog

	mu        sync.Mutex
	errors    map[string]uint64
	trouble   string // text of the last failed write; empty while the store works
	lastWrite time.Time
	size      int64 // 0: not measured
}

// Values of the label operation.
const (
	storeAdd   = "add"
	storeState = "state"
	storeRead  = "read"
	storePrune = "prune"
)

// openMemory opens the configured store and reads what does not belong to a pair.
func openMemory(ctx context.Context, c config.Storage, log *slog.Logger, now func() time.Time) (*memory, error) {
	m := &memory{log: log, now: now, maxSize: int64(c.MaxSize), budgets: newBudgets(), errors: map[string]uint64{}}
	if c.Path == "" {
		return m, nil
	}
	var err error
	m.store, err = store.Open(ctx, store.Options{Path: c.Path, Retention: c.Retention, Samples: c.SamplesRetention, Continuous: c.CanaryRetention, MaxSize: int64(c.MaxSize)})
	if err != nil {
		return nil, err
	}
	m.backlog.write = m.store.AddPacked
	states, err := m.store.States(ctx, budgetPrefix)
	if err == nil {
		err = m.budgets.restore(states)
	}
	if err != nil {
		return nil, errors.Join(err, m.store.Close())
	}
	m.measure()
	return m, nil
}

func (m *memory) close() error {
	if m.store == nil {
		return nil
	}
	m.catchUp(context.Background())
	if waiting, _ := m.backlog.state(); waiting > 0 {
		m.log.Error("runs that could not be stored are lost with this process", "runs", waiting)
	}
	return m.store.Close()
}

// pairMemory is what is kept of a pair.
type pairMemory struct {
	Registered, LastStart, LastCompletion, LastSuccess time.Time
	LastDuration                                       time.Duration
	ConsecutiveFailures                                int
	Pair                                               probes.Pair
	// Measurement identifies what Result was measured with; see measurementOf.
	Measurement string
	Last        *probes.Run // without its records
	Result      *probes.Result
	Breaches    []probes.Breach
	Changes     []probes.Change
}

const pairPrefix = "pair/"

func pairStateKey(key pairKey) string {
	return pairPrefix + url.PathEscape(key.target) + "/" + url.PathEscape(key.probe)
}

// measurementOf is equal for specs whose results may stand for each other, across
// processes; see sameMeasurement.
func measurementOf(spec probes.Spec) (string, error) {
	digest, err := store.Digest(measured(spec))
	if err != nil {
		return "", err
	}
	// What is merged over each body decides about the result, and is not stored.
	extra, err := json.Marshal(spec.Workload.Sampling.ExtraBody)
	if err != nil {
		return "", fmt.Errorf("digest of spec %s: %w", spec.Probe, err)
	}
	sum := sha256.Sum256(extra)
	return digest + hex.EncodeToString(sum[:8]), nil
}

// recall reads what is kept of pairs.
func (m *memory) recall(ctx context.Context, keys []pairKey) map[pairKey]pairMemory {
	return recall[pairMemory](ctx, m, keys, pairStateKey)
}

// recall reads what is kept under the keys. What cannot be read is forgotten, and said.
func recall[T any](ctx context.Context, m *memory, keys []pairKey, stateKey func(pairKey) string) map[pairKey]T {
	recalled := map[pairKey]T{}
	if m.store == nil {
		return recalled
	}
	for _, key := range keys {
		var kept T
		text, known, err := m.store.State(ctx, stateKey(key))
		if err == nil && known {
			err = store.Decode(text, &kept)
		}
		switch {
		case err != nil:
			m.note(storeRead, err)
		case known:
			recalled[key] = kept
		}
	}
	return recalled
}

// state is the pair as it was when the memory was written, under its present
// configuration. The zero memory is a pair that is new.
func (p pairMemory) state(pair *config.Pair, now time.Time) *pairState {
	if p.Registered.IsZero() {
		return &pairState{status: probes.PairStatus{Registered: now}}
	}
	state := &pairState{status: probes.PairStatus{
		Registered: p.Registered, LastStart: p.LastStart, LastCompletion: p.LastCompletion, LastSuccess: p.LastSuccess,
		LastDuration: p.LastDuration, ConsecutiveFailures: p.ConsecutiveFailures, Last: p.Last,
	}}
	if now, err := measurementOf(pair.Spec); err == nil && now == p.Measurement {
		// Pair and spec as they are configured: the tracker takes results over only
		// from equal ones.
		state.status.Pair, state.status.Spec = p.Pair, pair.Spec
		state.status.Result, state.status.Breaches, state.status.Changes = p.Result, p.Breaches, p.Changes
		state.unfilled = pair.Spec.Kind.Continuous()
	}
	return state
}

// capacitiesOf are what the last sweeps of pairs have found.
func capacitiesOf(remembered map[pairKey]pairMemory) map[pairKey]probes.Optional[float64] {
	out := map[pairKey]probes.Optional[float64]{}
	for key, p := range remembered {
		if p.Result != nil && p.Result.Capacity.Bracketed {
			out[key] = p.Result.Capacity.Rate
		}
	}
	return out
}

// register keeps pairs that are new, so that they are not new again after a restart.
func (m *memory) register(ctx context.Context, statuses []probes.PairStatus) {
	if m.store == nil || len(statuses) == 0 {
		return
	}
	var states []store.State
	for i := range statuses {
		if state, err := m.pairState(&statuses[i]); err != nil {
			m.note(storeState, err)
		} else {
			states = append(states, state)
		}
	}
	m.note(storeState, m.store.PutState(ctx, states...))
}

// remember keeps a run and what has followed from it for its pair. It returns when both
// are on the disk, or cannot be. also are other states that follow from it.
func (m *memory) remember(ctx context.Context, run *probes.Run, next *pairState, also ...store.State) {
	states := append(m.budgets.count(run), also...)
	defer func(counted []store.State) {
		for _, state := range counted {
			state.Latest() // whatever became of the store
		}
	}(states)
	if m.store == nil {
		return
	}
	if next != nil {
		state, err := m.pairState(&next.status)
		m.add(ctx, run, append(states, state), err)
		return
	}
	m.add(ctx, run, states, nil)
}

func (m *memory) pairState(s *probes.PairStatus) (store.State, error) {
	p := pairMemory{
		Registered: s.Registered, LastStart: s.LastStart, LastCompletion: s.LastCompletion, LastSuccess: s.LastSuccess,
		LastDuration: s.LastDuration, ConsecutiveFailures: s.ConsecutiveFailures, Pair: s.Pair,
		Result: s.Result, Breaches: s.Breaches, Changes: s.Changes,
	}
	if s.Last != nil {
		p.Last = store.Bare(s.Last)
	}
	var err error
	if p.Measurement, err = measurementOf(s.Spec); err != nil {
		return store.State{}, err
	}
	text, err := m.store.Encode(p)
	return store.State{Key: pairStateKey(keyOf(s.Pair)), Value: text}, err
}

// remembered is the past of a daemon with a store.
type remembered struct{ *memory }

// Samples are what the stored runs of a pair say.
func (r remembered) Samples(ctx context.Context, target, probe string, since time.Time) ([]regression.Sample, error) {
	runs, err := r.store.History(ctx, store.Query{Target: target, Probe: probe, Since: since})
	if err != nil {
		r.note(storeRead, err)
		return nil, err
	}
	var samples []regression.Sample
	for _, run := range runs {
		if s, ok := regression.SampleOf(run); ok {
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// Said are the stored acknowledgements of a pair.
func (r remembered) Said(ctx context.Context, target, probe string) ([]probes.Acknowledgement, error) {
	said, err := r.store.Acknowledgements(ctx, target, probe)
	if err != nil {
		r.note(storeRead, err)
	}
	return said, err
}

// Keep does nothing: every run is stored.
func (r remembered) Keep(*probes.Run) {}

// recent are the last runs of a continuous pair that its window may hold, the oldest
// first, with their records.
func (m *memory) recent(ctx context.Context, key pairKey, spec *probes.Spec) []*probes.Run {
	if m.store == nil {
		return nil
	}
	q := store.Query{
		Target: key.target, Probe: key.probe, Kinds: []probes.Kind{spec.Kind}, Records: true, Limit: spec.Window.MinSamples,
		Results: []probes.RunResult{probes.RunSuccess, probes.RunFailed},
	}
	if spec.Window.MaxAge > 0 {
		q.Since = m.now().Add(-spec.Window.MaxAge)
	}
	runs, err := m.store.History(ctx, q)
	if err != nil {
		m.note(storeRead, err)
		return nil
	}
	want, err := store.Digest(measured(*spec))
	if err != nil {
		m.note(storeRead, err)
		return nil
	}
	var same []*probes.Run
	for _, run := range runs {
		if got, err := store.Digest(measured(run.Spec)); err == nil && got == want {
			same = append(same, run)
		}
	}
	return same
}

// comparisonMemory is what is kept of a comparison.
type comparisonMemory struct {
	LastCompletion time.Time
	Measurement    string
	Reference      string
	Last, Result   *probes.Run // without records and parts
}

func comparisonStateKey(key pairKey) string {
	return "comparison/" + url.PathEscape(key.target) + "/" + url.PathEscape(key.probe)
}

// recallComparisons reads what is kept of comparisons.
func (m *memory) recallComparisons(ctx context.Context, keys []pairKey) map[pairKey]comparisonMemory {
	return recall[comparisonMemory](ctx, m, keys, comparisonStateKey)
}

// state is the comparison as it was, under its present configuration.
func (k comparisonMemory) state(c *config.Comparison) *comparisonState {
	state := &comparisonState{status: probes.ComparisonStatus{
		Skips: map[probes.SkipReason]int{}, LastCompletion: k.LastCompletion, Last: k.Last,
	}}
	if now, err := measurementOf(c.Spec); err == nil && now == k.Measurement {
		state.config, state.status.Reference, state.status.Result = *c, k.Reference, k.Result
	}
	return state
}

// rememberComparison keeps the run of a comparison and what has followed from it.
func (m *memory) rememberComparison(ctx context.Context, run *probes.Run, next *comparisonState, also ...store.State) {
	if m.store == nil {
		return
	}
	if next != nil {
		state, err := m.comparisonState(next)
		m.add(ctx, run, append(also, state), err)
		return
	}
	m.add(ctx, run, also, nil)
}

func (m *memory) comparisonState(c *comparisonState) (store.State, error) {
	k := comparisonMemory{LastCompletion: c.status.LastCompletion, Reference: c.status.Reference}
	for _, one := range []struct{ to, from **probes.Run }{{&k.Last, &c.status.Last}, {&k.Result, &c.status.Result}} {
		if *one.from != nil {
			*one.to = store.Bare(*one.from)
		}
	}
	var err error
	if k.Measurement, err = measurementOf(c.config.Spec); err != nil {
		return store.State{}, err
	}
	text, err := m.store.Encode(k)
	return store.State{Key: comparisonStateKey(keyOf(comparisonPair(c.config))), Value: text}, err
}

// note counts a failure, and logs when the store begins to fail, fails otherwise or
// works again: a full disk is one line, not one a run.
func (m *memory) note(operation string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	writes := operation == storeAdd || operation == storeState
	if err == nil {
		if writes {
			m.lastWrite = m.now()
			if m.trouble != "" {
				m.log.Info("the store works again")
				m.trouble = ""
			}
		}
		return
	}
	m.errors[operation]++
	cause := rootText(err)
	if !writes {
		m.log.Error("the store failed", "operation", operation, "err", err)
		return
	}
	if cause != m.trouble {
		m.log.Error("the store cannot be written; measuring goes on, what is measured waits in memory, and a restart will have forgotten it", "operation", operation, "err", err)
		m.trouble = cause
	}
}

// rootText is why a write failed, without the run that it was of.
func rootText(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// failing is why the store cannot be written; empty while it can.
func (m *memory) failing() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble
}

// storeState is nil without a store.
func (m *memory) storeState() *prom.StoreState {
	if m.store == nil {
		return nil
	}
	waiting, lost := m.backlog.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &prom.StoreState{Errors: map[string]uint64{}, Size: m.size, LastWrite: m.lastWrite, Waiting: waiting, Lost: lost}
	for operation, n := range m.errors {
		s.Errors[operation] = n
	}
	return s
}

func (m *memory) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.maxSize > 0 && m.size > m.maxSize
}

func (m *memory) prune(ctx context.Context, now time.Time) {
	if m.store == nil {
		return
	}
	gone, err := m.store.Prune(ctx, now)
	if ctx.Err() != nil {
		return // it was cut, and goes on after the next start
	}
	m.note(storePrune, err)
	if gone != (store.Pruned{}) {
		m.log.Info("the store was pruned", "runs", gone.Runs, "samples", gone.Samples, "states", gone.States)
	}
	m.measure()
}

// measure notes how large the store is.
func (m *memory) measure() {
	if m.store == nil {
		return
	}
	size, err := m.store.Size()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.size = size
	}
}

const (
	measureEvery = time.Minute
	pruneEvery   = time.Hour
)

// keepSmall deletes what is too old every hour, and what is too much every minute, until
// ctx ends.
func (m *memory) keepSmall(ctx context.Context, pairs func() []probes.PairStatus) {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	var pruned time.Time
	for {
		m.catchUp(ctx)
		m.measure()
		now := m.now()
		due := now.Sub(pruned) >= pruneEvery
		if due {
			pruned = now
			m.budgets.forget(pairs(), now)
		}
		if due || m.full() {
			m.prune(ctx, now)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
