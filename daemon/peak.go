package daemon

import (
	"context"
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// peakGrowth is by how much throughput must grow for another doubling: less is
// what runs differ by anyway.
const peakGrowth = 1.05

// peak doubles the workers of a closed loop until the throughput stops growing.
// The result is the step with the highest throughput.
func (p *parts) peak(ctx context.Context) error {
	r := p.run
	spec := r.Spec
	spec.OfflineResult = "" // the whole is compared, not its steps
	most := spec.Arrivals.MaxConcurrency
	var best *probes.Run
	grown := 1.0 // by how much the last doubling raised the throughput
	limit := fmt.Sprintf("%d workers, the most that are allowed", most)
	for workers := min(max(1, r.Spec.StartConcurrency), most); ; workers = min(2*workers, most) {
		part, ok := p.next(ctx, fmt.Sprintf("concurrency %d", workers), spec.PeakStep(workers))
		unusable := !ok || part.Validity.State == probes.Invalid
		if unusable && best == nil {
			return p.give(ctx, part)
		}
		if unusable {
			limit = fmt.Sprintf("%d workers, and the next step is no result (%s)", best.Spec.Arrivals.MaxConcurrency, firstReason(part))
			break
		}
		if best != nil {
			grown = throughputOf(part) / throughputOf(best)
		}
		if best == nil || grown > 1 {
			best = part
		}
		if len(r.Parts) > 1 && grown < peakGrowth || workers == most {
			break
		}
	}
	p.adopt(best)
	r.Complete = ctx.Err() == nil
	r.Summary.Offline = offlineGap(r)
	r.Validity = best.Validity
	if len(r.Parts) > 1 && grown >= peakGrowth {
		r.Validity = verdict.Doubt(r.Validity, verdict.NotSaturated, "throughput had grown by %.0f %% at %s", (grown-1)*100, limit)
	}
	r.Verdict = verdict.Judge(&r.Spec, &r.Summary, r.Validity)
	r.Traps = verdict.Traps(best)
	r.Result = resultOf(r)
	return nil
}

// throughputOf is what a peak is the highest of: output tokens per second, or
// requests where nobody counted tokens.
func throughputOf(run *probes.Run) float64 {
	if tokens, ok := run.Summary.OutputThroughput.Get(); ok {
		return tokens
	}
	requests, _ := run.Summary.RequestThroughput.Get()
	return requests
}

func firstReason(run *probes.Run) string {
	if len(run.Validity.Reasons) > 0 {
		return run.Validity.Reasons[0].Code
	}
	return "cut short"
}
