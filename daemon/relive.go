package daemon

import (
	"context"

	"github.com/inferbeat/inferbeat/probes"
)

// Relive takes over runs that were made before this process, in order of time: each is
// judged against those before it in the list, stored and shown as if it had just ended, but counts
// in no counter. They are runs of the spec and the target that their pair has now; edit
// may change the target. Runs of pairs that are not configured, and runs that are older
// than what is known of their pair, are left out. No run may be going on.
func (a *App) Relive(runs []*probes.Run, edit func(probes.Target) probes.Target) {
	ctx := context.Background()
	kept := a.nights.past
	defer func() { a.nights.past = kept }()
	a.nights.past = &ephemeral{} // a store would be read from its beginning for each run
	for _, run := range runs {
		key := pairKey{run.Target.Name, run.Spec.Probe}
		pair, ok := a.configured(key)
		if !ok || a.tracker.completedAfter(key, run) {
			continue
		}
		run.Spec, run.Target = pair.Spec, edit(pair.Target)
		a.judgeNights(&pair.Spec, run)
		next := a.tracker.outcome(key, run)
		if next == nil {
			continue
		}
		next.status.LastCompletion, next.status.LastSuccess = run.End, run.End
		a.memory.remember(ctx, run, next)
		a.tracker.commit(key, next)
	}
}
