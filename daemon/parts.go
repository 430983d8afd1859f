package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/summary"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// parts carries out the runs that a run is made of, one after the other, on the
// same clock of hooks and progress.
type parts struct {
	*Runner
	run      *probes.Run
	progress *loadgen.Progress
	hooks    Hooks
}

// next carries out one part. It is false when the run must end: the part was cut,
// or could not be carried out, which is then the whole run's fate.
func (p *parts) next(ctx context.Context, role string, spec probes.Spec) (*probes.Run, bool) {
	part, ok := p.carry(ctx, role, p.run.Target, spec, nil)
	p.run.Target.Model, p.run.Facts = part.Target.Model, part.Facts
	return part, ok
}

// carry carries out one part on any target; with is nil unless it is one of a pair.
func (p *parts) carry(ctx context.Context, role string, target probes.Target, spec probes.Spec, with *common) (*probes.Run, bool) {
	part := &probes.Run{ID: newRunID(), Target: target, Spec: spec, Start: time.Now()}
	hooks := p.hooks
	if len(p.run.Parts) > 0 {
		hooks.Started = nil // the run has started with its first part
	} else if started := hooks.Started; started != nil {
		hooks.Started = func(string) { started(p.run.ID) }
	}
	if record := hooks.Record; record != nil {
		hooks.Record = func(_ string, r *probes.Record) { record(p.run.ID, r) }
	}
	p.run.Parts = append(p.run.Parts, probes.Part{Role: role, Run: part})
	err := p.execute(ctx, part, p.progress, hooks, with)
	if err != nil {
		fail(ctx, part, err)
	}
	return part, err == nil && part.Complete
}

// give makes a part that is no result the whole run's fate.
func (p *parts) give(ctx context.Context, part *probes.Run) error {
	p.adopt(part)
	r := p.run
	r.Validity, r.Verdict, r.Traps, r.Result = part.Validity, part.Verdict, part.Traps, part.Result
	if part.Error != "" {
		return fmt.Errorf("%s: %s", r.Parts[len(r.Parts)-1].Role, part.Error)
	}
	return nil
}

// adopt makes the numbers of a part the run's own.
func (p *parts) adopt(part *probes.Run) {
	r := p.run
	r.Start, r.End = p.run.Parts[0].Run.Start, p.run.Parts[len(p.run.Parts)-1].Run.End
	r.Records, r.Warmup, r.Summary, r.Facts, r.Complete = part.Records, part.Warmup, part.Summary, part.Facts, part.Complete
	r.Fingerprint, r.WorkloadVersion = part.Fingerprint, part.WorkloadVersion
}

// confirm runs an odd load again, so that the night is not what one bad run was. What
// the run has been until now is its first repeat.
func (p *parts) confirm(ctx context.Context) error {
	first := *p.run
	p.run.Parts = []probes.Part{{Role: "repeat 1", Run: &first}}
	return p.repeat(ctx, probes.ConfirmRuns)
}

// repeat runs a load until there are so many runs of it, and makes their median the
// result.
func (p *parts) repeat(ctx context.Context, times int) error {
	r := p.run
	spec := r.Spec
	spec.Repeats, spec.OfflineResult = 1, "" // the whole is compared, not its repeats
	var believed []*probes.Summary
	var runs []*probes.Run
	for _, part := range r.Parts {
		believed, runs = append(believed, &part.Run.Summary), append(runs, part.Run)
	}
	complete := true
	for len(r.Parts) < times {
		part, ok := p.next(ctx, fmt.Sprintf("repeat %d", len(r.Parts)+1), spec)
		if ok && part.Validity.State != probes.Invalid {
			believed, runs = append(believed, &part.Summary), append(runs, part)
		}
		if complete = ok; !ok {
			break
		}
	}
	if len(believed) == 0 {
		return p.give(ctx, r.Parts[len(r.Parts)-1].Run)
	}
	median, typical := summary.Median(believed, times)
	p.adopt(runs[typical])
	r.Summary, r.Complete = median, complete
	r.Summary.Offline = offlineGap(r)
	r.Validity = verdict.OfRepeats(r)
	r.Verdict = verdict.JudgeRepeats(r)
	r.Traps = verdict.Traps(r)
	r.Result = resultOf(r)
	return nil
}
