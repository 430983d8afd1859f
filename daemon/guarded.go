package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/daemon/guard"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// guarded does the work of a run under the watch of its limits. A run that was stopped is
// aborted, or failed if nothing succeeded, and says which limit it met and with what; one that had nothing left to send
// by then was not stopped.
func guarded(ctx context.Context, run *probes.Run, hooks Hooks, work func(context.Context, Hooks) error) error {
	if run.Spec.Kind.Continuous() {
		// A canary is small, and an outage is what it is there to see: cut short, it
		// would neither count as failed nor spend an error budget.
		return work(ctx, hooks)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hooks.watch = guard.New(run.Spec.StopWhen, stop)
	if record := hooks.Record; hooks.watch != nil {
		hooks.Record = func(id string, r *probes.Record) {
			hooks.watch.Answered(r)
			if record != nil {
				record(id, r)
			}
		}
	}
	err := work(ctx, hooks)
	why := hooks.watch.Stopped()
	if why == nil || err == nil && run.Complete {
		return err
	}
	if run.End.IsZero() {
		run.End = time.Now()
	}
	run.Complete, run.Result, run.Error = false, probes.RunAborted, why.Error()
	if s := &run.Summary; s.Failed > 0 && s.Completed == 0 {
		run.Result = probes.RunFailed // the target answered nothing at all
	}
	reason := probes.Reason{Code: verdict.Stopped, Text: why.Error()}
	run.Verdict = probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{reason}}
	if run.Validity.State != probes.Suspect {
		run.Validity.State = probes.Invalid
	}
	if !slices.ContainsFunc(run.Validity.Reasons, func(r probes.Reason) bool { return r.Code == verdict.Stopped }) {
		run.Validity.Reasons = append([]probes.Reason{reason}, run.Validity.Reasons...)
	}
	return nil
}
