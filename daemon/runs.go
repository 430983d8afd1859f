package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/guard"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// runContext is the context of the runs that are going on; cutting it ends them
// and leaves the next ones alone.
type runContext struct {
	mu      sync.Mutex
	parent  context.Context
	current context.Context
	cancel  context.CancelFunc
}

func (r *runContext) reset(parent context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parent = parent
	r.current, r.cancel = context.WithCancel(parent)
}

func (r *runContext) get() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

func (r *runContext) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel == nil {
		return // nothing runs before Run
	}
	r.cancel()
	r.current, r.cancel = context.WithCancel(r.parent)
}

// startRun carries one due run out. It runs in a goroutine of the scheduler.
func (a *App) startRun(entry schedule.Entry, _ time.Time, lateness time.Duration) {
	key := keyOf(entry.Pair)
	if comparison, ok := a.comparisons.find(key); ok {
		a.startComparison(entry, comparison, lateness)
		return
	}
	pair, ok := a.configured(key)
	if !ok {
		return // removed by a reload since it became due
	}
	admission, hold := a.gate.Admit(time.Now(), askOf(&pair))
	if hold != nil {
		a.skipped(entry.Pair, hold.Reason, 1)
		return
	}
	a.perform(pair, admission, probes.Known(lateness))
}

// perform carries a run of a configured pair out that has been admitted, and hands on
// what became of it. lateness is unknown of a run that was not planned.
func (a *App) perform(pair config.Pair, admission *guard.Admission, lateness probes.Optional[time.Duration]) *probes.Run {
	key := keyOf(pairOf(pair))
	progress := &loadgen.Progress{}
	a.tracker.started(key, progress)
	identity := a.tracker.identity(key)
	if late, planned := lateness.Get(); planned {
		a.fanout.Publish(probes.Event{Kind: probes.EventRunStarted, At: time.Now(), Pair: identity, Spec: &pair.Spec, Lateness: late})
	}
	run := a.carryOut(pair, progress, func(model string) {
		if a.named(key.target, model) {
			identity.Model = model
		}
	}, func(runID string, record *probes.Record) {
		a.client.answered(time.Now(), pair.Spec.Arrivals, record)
		a.fanout.Publish(probes.Event{Kind: probes.EventRequestDone, At: time.Now(), Pair: identity, RunID: runID, Spec: &pair.Spec, Record: record})
	})
	if run.Target.Model == "" {
		run.Target.Model = identity.Model // a target that does not answer has not lost its name
	}
	a.settleUp(admission, run)
	a.judgeNights(&pair.Spec, run)
	a.finish(key, run)
	if run.Changes != nil {
		a.tellIncidents()
	}
	a.fanout.Publish(probes.Event{Kind: probes.EventRunDone, At: run.End, Pair: identity, RunID: run.ID, Spec: &run.Spec, Run: run})
	a.logRun(run)
	return run
}

// named takes note of the model that a target has named.
func (a *App) named(target, model string) (changed bool) {
	if !a.tracker.setModel(target, model) {
		return false
	}
	// The series of its pairs are born at 0 under their new name before the first
	// record counts.
	if err := a.prom.SetPairs(a.tracker.snapshot(nil)); err != nil {
		a.log.Error("export the pairs under the model that the target named", "target", target, "err", err)
	}
	return true
}

// finish takes a run over: first onto the disk, then into what is shown. What anybody
// has seen of it is still there after a restart.
func (a *App) finish(key pairKey, run *probes.Run) {
	ctx := context.Background() // a shutdown cuts runs, and keeps what became of them
	if spec, lacking := a.tracker.unfilled(key); lacking {
		a.tracker.fill(key, a.memory.recent(ctx, key, &spec))
	}
	next := a.tracker.outcome(key, run)
	a.memory.remember(ctx, run, next, a.spending(run.Target.Name)...)
	if next != nil {
		a.tracker.commit(key, next)
	}
}

func (a *App) carryOut(pair config.Pair, progress *loadgen.Progress, model func(string), record func(string, *probes.Record)) *probes.Run {
	ctx := a.running.get()
	target, err := config.ResolveSecrets(pair.Target)
	if err != nil {
		run := &probes.Run{ID: newRunID(), Target: pair.Target, Spec: pair.Spec, Start: time.Now()}
		fail(ctx, run, err)
		return run
	}
	return a.runner.Run(ctx, target, pair.Spec, progress, Hooks{Model: model, Record: record, Panicked: a.panicked, Odd: a.oddNight})
}

func (a *App) logRun(run *probes.Run) {
	log := a.log.With("target", run.Target.Name, "probe", run.Spec.Probe, "run", run.ID)
	switch run.Result {
	case probes.RunSuccess, probes.RunAborted:
		log.Debug("run ended", "result", run.Result, "verdict", run.Verdict.State)
	default:
		var reasons []string
		for _, r := range slices.Concat(run.Verdict.Reasons, run.Validity.Reasons) {
			if !slices.Contains(reasons, r.Code) {
				reasons = append(reasons, r.Code)
			}
		}
		log.Warn("run ended", "result", run.Result, "err", firstError(run), "reasons", reasons)
	}
}

// firstError is why a run went wrong, in the words of its first failed request.
func firstError(run *probes.Run) error {
	if run.Error != "" {
		return errors.New(run.Error)
	}
	for i := range run.Records {
		if r := &run.Records[i]; r.Outcome.Failed() {
			return errors.New(string(r.Outcome) + ": " + r.Error)
		}
	}
	return nil
}

func (a *App) skipped(pair probes.Pair, reason probes.SkipReason, n int) {
	key := keyOf(pair)
	if a.comparisons.skipped(key, reason, n) {
		a.log.Info("a comparison did not start", "comparison", pair.Probe, "reason", reason, "count", n)
		return
	}
	identity := a.tracker.identity(key)
	for range n {
		a.fanout.Publish(probes.Event{Kind: probes.EventSkipped, At: time.Now(), Pair: identity, Skip: reason})
	}
	a.log.Debug("runs did not start", "target", pair.Target, "probe", pair.Probe, "reason", reason, "count", n)
}
