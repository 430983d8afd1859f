package daemon

import (
	"context"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/regression"
)

// hearEvery is how often the store is asked for new acknowledgements. They come from
// another process, inferbeat ack, and somebody looks at the alert that should end.
const hearEvery = 5 * time.Second

// hearAcks judges pairs anew whose change somebody has accepted, until ctx ends.
func (a *App) hearAcks(ctx context.Context) {
	ticker := time.NewTicker(hearEvery)
	defer ticker.Stop()
	ears := ears{app: a, pending: map[pairKey]bool{}}
	for {
		ears.listen(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ears hold what has been heard.
type ears struct {
	app *App
	// last is the number of the last acknowledgement; heard is false before the first
	// look, which meets those of earlier processes.
	last  int64
	heard bool
	// pending are pairs with news; true when they were judged while a run went on, whose
	// own judgement may be older than what was said.
	pending map[pairKey]bool
}

func (e *ears) listen(ctx context.Context) {
	m := e.app.memory
	said, last, err := m.store.AcknowledgedSince(ctx, e.last)
	if err != nil {
		if ctx.Err() == nil {
			m.note(storeRead, err)
		}
		return
	}
	statuses := map[pairKey]probes.PairStatus{}
	if len(said)+len(e.pending) > 0 {
		for _, s := range e.app.tracker.snapshot(nil) {
			statuses[keyOf(s.Pair)] = s
		}
	}
	for _, ack := range said {
		key := pairKey{ack.Target, ack.Probe}
		if s := statuses[key]; !e.heard && s.Last != nil && !ack.At.After(s.Last.End) {
			continue // the last run was judged by it
		}
		e.pending[key] = false
	}
	e.last, e.heard = last, true
	for key, judged := range e.pending {
		s, ok := statuses[key]
		if ok && !(judged && s.Active) {
			e.app.judgeAgain(&s)
		}
		if s.Active {
			e.pending[key] = true
		} else {
			delete(e.pending, key)
		}
	}
}

// judgeAgain asks the nights of a pair once more, now that more has been said of them.
func (a *App) judgeAgain(s *probes.PairStatus) {
	if s.Last == nil || s.Changes == nil || !sameMeasurement(s.Spec, s.Last.Spec) {
		return
	}
	run := *s.Last
	run.Spec = s.Spec
	samples, options, err := a.earlier(&run)
	if err != nil {
		return // counted and logged where it happened
	}
	changes := regression.Judge(samples, options).Changes
	if a.tracker.rejudge(keyOf(s.Pair), run.ID, changes) {
		a.log.Info("a change was accepted", "target", s.Pair.Target, "probe", s.Pair.Probe)
	}
}

// rejudge replaces what the nights say of a pair whose last run is still the one that was
// judged, and what that adds to its verdict.
func (t *tracker) rejudge(key pairKey, runID string, changes []probes.Change) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.pairs[key]
	if state == nil || state.status.Last == nil || state.status.Last.ID != runID || state.status.Changes == nil {
		return false
	}
	s := &state.status
	s.Changes = changes
	if s.Last.OwnVerdict.State == "" {
		return true
	}
	// Both may be in a snapshot that is being read.
	last := *s.Last
	last.Changes, last.Verdict = changes, regression.Verdict(last.OwnVerdict, changes)
	s.Last = &last
	if s.Result != nil && s.Result.RunID == runID {
		result := *s.Result
		result.Verdict = last.Verdict
		s.Result = &result
	}
	return true
}
