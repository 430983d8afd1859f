package daemon

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// pairKey names a pair for the life of the daemon. The model is not part of it:
// it may become known only when the target first answers.
type pairKey struct{ target, probe string }

func keyOf(p probes.Pair) pairKey { return pairKey{p.Target, p.Probe} }

// tracker keeps what stands for each pair. All methods may be called at once.
type tracker struct {
	now func() time.Time

	mu     sync.Mutex
	paused bool
	pairs  map[pairKey]*pairState
	gone   map[pairKey]gonePair
	models map[string]string // named by targets without a configured model
}

type pairState struct {
	status   probes.PairStatus
	progress *loadgen.Progress // of the active run
	window   window            // of a continuous probe
	// unfilled: the window is that of a daemon that ended, and its records are in the
	// store still.
	unfilled bool
	// registered: the store knows of the pair.
	registered bool
}

// goneTime is for how long what stands for a pair that was removed is kept, and gonePairs
// for how many: a replica that service discovery loses and finds again is the same one.
const (
	goneTime  = time.Hour
	gonePairs = 1000
)

// gonePair is a pair that was removed.
type gonePair struct {
	state *pairState
	at    time.Time
}

func newTracker(now func() time.Time) *tracker {
	return &tracker{now: now, pairs: map[pairKey]*pairState{}, gone: map[pairKey]gonePair{}, models: map[string]string{}}
}

// replace makes pairs the configured ones. A pair that stays keeps its history;
// one whose spec or target has changed keeps only its lifecycle, because its
// results were measured differently. remembered are pairs of an earlier process.
func (t *tracker) replace(pairs []config.Pair, intervals map[pairKey]time.Duration, remembered map[pairKey]pairMemory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make(map[pairKey]*pairState, len(pairs))
	for _, p := range pairs {
		identity := pairOf(p)
		key := keyOf(identity)
		state := t.pairs[key]
		if state == nil {
			state = t.returned(key)
		}
		if state == nil {
			state = remembered[key].state(&p, t.now())
		}
		if identity.Model == "" {
			identity.Model = t.models[identity.Target]
		}
		if !sameMeasurement(state.status.Spec, p.Spec) || state.status.Pair != identity {
			state.status.Result, state.status.Breaches, state.status.Changes = nil, nil, nil
			state.window, state.unfilled = window{}, false
		}
		state.status.Pair = identity
		state.status.Kind = p.Spec.Kind
		state.status.Spec = p.Spec
		state.status.Interval = intervals[key]
		next[key] = state
	}
	for key, state := range t.pairs {
		if next[key] == nil {
			t.gone[key] = gonePair{state, t.now()}
		}
	}
	t.pairs = next
	t.forgetGone()
}

// returned takes back what stood for a pair when it was removed; nil when that is not
// known any more. Nobody has waited for it meanwhile.
func (t *tracker) returned(key pairKey) *pairState {
	gone, ok := t.gone[key]
	if !ok || t.now().Sub(gone.at) > goneTime {
		return nil
	}
	delete(t.gone, key)
	gone.state.status.Registered = t.now()
	return gone.state
}

// forgetGone drops what is too old or too much, the oldest first.
func (t *tracker) forgetGone() {
	keys := slices.SortedFunc(maps.Keys(t.gone), func(a, b pairKey) int { return t.gone[b].at.Compare(t.gone[a].at) })
	for i, key := range keys {
		if i >= gonePairs || t.now().Sub(t.gone[key].at) > goneTime {
			delete(t.gone, key)
		}
	}
}

// find is the state of a pair, also of one that was removed a short while ago.
func (t *tracker) find(key pairKey) *pairState {
	if state := t.pairs[key]; state != nil {
		return state
	}
	return t.gone[key].state
}

// draining counts the removed targets whose runs are still going on.
func (t *tracker) draining() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	targets := map[string]bool{}
	for key, gone := range t.gone {
		if gone.state.status.Active {
			targets[key.target] = true
		}
	}
	for key := range t.pairs {
		delete(targets, key.target)
	}
	return len(targets)
}

// resolve fills in the model that a pair's target has named, where the
// configuration names none.
func (t *tracker) resolve(identity probes.Pair) probes.Pair {
	t.mu.Lock()
	defer t.mu.Unlock()
	if identity.Model == "" {
		identity.Model = t.models[identity.Target]
	}
	return identity
}

// identity is the present identity of a pair.
func (t *tracker) identity(key pairKey) probes.Pair {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.pairs[key]; state != nil {
		return state.status.Pair
	}
	return probes.Pair{Target: key.target, Probe: key.probe}
}

// interval is the planned time between two starts of a pair; 0 when there is none.
func (t *tracker) interval(key pairKey) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.pairs[key]; state != nil {
		return state.status.Interval
	}
	return 0
}

// pairOf is the identity of a configured pair.
func pairOf(p config.Pair) probes.Pair {
	return probes.Pair{
		Target: p.Target.Name, Pool: p.Target.Pool, Environment: p.Target.Environment,
		Model: p.Target.Model, Probe: p.Spec.Probe,
	}
}

// setModel names the model that a target turned out to serve.
func (t *tracker) setModel(target, model string) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.models[target] = model
	for key, state := range t.pairs {
		if key.target == target && state.status.Pair.Model != model {
			state.status.Pair.Model = model
			changed = true
		}
	}
	return changed
}

func (t *tracker) setPaused(paused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = paused
}

func (t *tracker) started(key pairKey, progress *loadgen.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.pairs[key]; state != nil {
		state.status.Active = true
		state.status.LastStart = t.now()
		state.progress = progress
	}
}

// finished takes a run over.
func (t *tracker) finished(key pairKey, run *probes.Run) {
	if next := t.outcome(key, run); next != nil {
		t.commit(key, next)
	}
}

// completedAfter reports whether the pair's last run ended later.
func (t *tracker) completedAfter(key pairKey, run *probes.Run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.pairs[key]
	return state != nil && state.status.LastCompletion.After(run.End)
}

// outcome is what a run will have made of its pair, which commit makes visible; nil when
// the pair was removed long before. No two runs of one pair may be between the two.
func (t *tracker) outcome(key pairKey, run *probes.Run) *pairState {
	t.mu.Lock()
	state := t.find(key)
	if state == nil {
		t.mu.Unlock()
		return nil
	}
	next := *state
	t.mu.Unlock()
	next.advance(run, t.now())
	return &next
}

// commit makes the outcome of a run what stands. What a reload has changed meanwhile
// remains as the reload has left it.
func (t *tracker) commit(key pairKey, next *pairState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.find(key)
	if state == nil {
		return
	}
	s, n := &state.status, &next.status
	s.Active, state.progress = false, nil
	s.LastCompletion, s.LastDuration, s.LastSuccess, s.ConsecutiveFailures, s.Last = n.LastCompletion, n.LastDuration, n.LastSuccess, n.ConsecutiveFailures, n.Last
	if sameMeasurement(s.Spec, n.Spec) && s.Pair == n.Pair {
		s.Result, s.Breaches, s.Changes = n.Result, n.Breaches, n.Changes
		state.window, state.unfilled = next.window, next.unfilled
	}
}

// advance takes a run over. The records stay out of the status, except in the window
// of a continuous probe.
func (state *pairState) advance(run *probes.Run, now time.Time) {
	s := &state.status
	s.Active = false
	s.LastCompletion = now
	s.LastDuration = run.End.Sub(run.Start)
	switch run.Result {
	case probes.RunSuccess:
		s.LastSuccess = s.LastCompletion
		s.ConsecutiveFailures = 0
	case probes.RunFailed:
		s.ConsecutiveFailures++
	}
	bare := withoutRecords(run)
	s.Last = &bare
	if !sameMeasurement(s.Spec, run.Spec) {
		return // the spec changed by a reload while it ran
	}
	if run.Result == probes.RunInvalid || run.Result == probes.RunAborted {
		return // what cannot be believed or is not whole never moves a result
	}
	if run.Spec.Kind.Continuous() {
		s.Result = state.window.add(run, s.LastCompletion)
	} else if run.Result == probes.RunSuccess {
		s.Result = &probes.Result{
			RunID: run.ID, CompletedAt: run.End, Summary: run.Summary,
			Validity: run.Validity, Verdict: run.Verdict, Traps: run.Traps,
			Steps: bare.Steps, Capacity: run.Capacity,
		}
	} else {
		s.Result = nil // a target that answers nothing has no latency
	}
	switch {
	case s.Result == nil:
		s.Changes = nil
	case run.Changes != nil: // else the nights were not judged anew, and what they said stands
		s.Changes = run.Changes
	}
	s.Breaches = breaches(s.Breaches, s.Spec.Limits, s.Result)
}

// unfilled is the spec of a pair whose window still lacks the records of an earlier
// process.
func (t *tracker) unfilled(key pairKey) (spec probes.Spec, lacking bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.pairs[key]; state != nil && state.unfilled {
		return state.status.Spec, true
	}
	return probes.Spec{}, false
}

// fill gives a window the runs of an earlier process, the oldest first.
func (t *tracker) fill(key pairKey, runs []*probes.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.pairs[key]
	if state == nil || !state.unfilled {
		return
	}
	state.unfilled = false
	for _, run := range runs {
		state.window.take(run)
	}
}

// recallModels takes over the models that targets had named to an earlier process.
func (t *tracker) recallModels(remembered map[pairKey]pairMemory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, p := range remembered {
		if t.models[key.target] == "" && p.Pair.Model != "" {
			t.models[key.target] = p.Pair.Model
		}
	}
}

// unregistered are the pairs that no earlier process has kept anything of, when they
// have just come.
func (t *tracker) unregistered(remembered map[pairKey]pairMemory) (out []probes.PairStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, state := range t.pairs {
		if _, known := remembered[key]; !known && !state.registered {
			out = append(out, state.status)
		}
		state.registered = true
	}
	return out
}

// missing lists the configured pairs that are not tracked yet.
func (t *tracker) missing(pairs []config.Pair) (keys []pairKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range pairs {
		if key := keyOf(pairOf(p)); t.pairs[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// breaches counts on which limits a new result breaches. One that says nothing
// about a limit leaves its count, and no result at all ends all counts: what
// comes after it is another story.
func breaches(before []probes.Breach, limits []probes.Limit, result *probes.Result) []probes.Breach {
	if result == nil {
		return nil
	}
	var after []probes.Breach // the old one may be in a snapshot that is being read
	for _, limit := range limits {
		next := probes.Breach{Limit: limit}
		for _, b := range before {
			if b.Limit == limit { // another bound is another limit
				next = b
			}
		}
		if breached, judged := limit.Breached(result.Summary.Distribution(limit.Signal)).Get(); judged && breached {
			next.Runs++
		} else if judged {
			next.Runs = 0
		}
		after = append(after, next)
	}
	return after
}

// withoutRecords copies a run without its parts and what else grows with its requests.
func withoutRecords(run *probes.Run) probes.Run {
	bare := *run
	bare.Records, bare.Warmup, bare.Parts = nil, nil, nil
	bare.Steps = slices.Clone(run.Steps)
	for i := range bare.Steps {
		bare.Steps[i].Records, bare.Steps[i].Warmup = nil, nil
	}
	return bare
}

// snapshot is the state of all pairs now, sorted by target and probe. next gives
// the planned starts.
func (t *tracker) snapshot(next map[pairKey]time.Time) []probes.PairStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	out := make([]probes.PairStatus, 0, len(t.pairs))
	for key, state := range t.pairs {
		s := state.status
		s.Paused = t.paused
		s.NextStart = next[key]
		if state.progress != nil {
			s.InFlight = state.progress.InFlight()
		}
		if s.Result != nil && s.Spec.StaleAfter > 0 && now.Sub(s.Result.CompletedAt) > s.Spec.StaleAfter {
			s.Result, s.Changes = nil, nil
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b probes.PairStatus) int {
		return cmp.Or(cmp.Compare(a.Pair.Target, b.Pair.Target), cmp.Compare(a.Pair.Probe, b.Pair.Probe))
	})
	return out
}

// sameMeasurement reports whether results of two specs may stand for each other:
// whether everything is equal but when it runs and what is promised.
func sameMeasurement(a, b probes.Spec) bool { return reflect.DeepEqual(measured(a), measured(b)) }

// measured is the part of a spec that decides what its results are worth beside others.
func measured(s probes.Spec) probes.Spec {
	s.Schedule, s.StaleAfter = probes.Schedule{}, 0
	s.SLOs, s.Limits, s.QueueLimits, s.FailureThreshold = nil, nil, nil, 0
	s.Margins, s.Gate = nil, nil
	s.Regression = probes.Regression{}
	return s
}
