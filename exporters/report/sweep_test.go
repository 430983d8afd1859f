package report

import (
	"strings"
	"testing"

	"github.com/inferbeat/inferbeat/probes"
)

// sweptRun is a search that found 14 requests per second.
func sweptRun() *probes.Run {
	run := goodRun()
	run.Spec.Kind, run.Spec.Probe, run.Spec.SLOs = probes.Sweep, "capacity", []probes.SLO{{Name: "ttft_p99", Objective: 0.99}}
	run.Traps, run.Validity, run.Verdict = nil, probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{
		{Code: "client_late", Text: "at 12 requests per second: requests left 60 ms late"}, {Code: "unusable_steps", Text: "1 of 6 steps could not be used"},
	}}, probes.Verdict{State: probes.Pass}
	for _, s := range []struct {
		rate, ttft, tokens, queue float64
		over                      int
	}{{4, 0.15, 512, 0, 0}, {8, 0.21, 1020, 0.4, 0}, {16, 2.9, 1790, 31.5, 170}, {11.31, 0.34, 1440, 1.2, 1}, {13.45, 0.98, 1700, 4.75, 3}} {
		step := probes.Step{Rate: s.rate, Judged: 340, Over: map[string]int{"ttft_p99": s.over}, Passed: s.over <= 3, Aborted: s.over > 100, Stationary: s.over < 100}
		step.Validity.State = probes.Valid
		step.Summary = probes.Summary{
			AchievedRate: probes.Known(s.rate - 0.01), OutputThroughput: probes.Known(s.tokens / 2), Steady: probes.SteadyState{OutputThroughput: probes.Known(s.tokens)},
			Latency: map[probes.Signal]probes.Distribution{
				probes.TTFTFromDue: {N: 340, P50: s.ttft / 2, P99: s.ttft}, probes.TPOT: {N: 340, Mean: 0.01 + s.rate/1000},
			},
			Server: probes.ServerSummary{Queue: probes.Level{N: 60, Mean: s.queue}},
		}
		run.Steps = append(run.Steps, step)
	}
	run.Steps = append(run.Steps, probes.Step{Rate: 12, Validity: probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: "client_late"}}}})
	run.Capacity = probes.Capacity{
		Rate: probes.Known(13.61), Low: probes.Known(12.2), Bracketed: true, Objective: "ttft_p99", Safe: probes.Known(10.888),
		Bend: probes.Known(13.45), End: probes.SweepInvalid,
	}
	return run
}

// cutSweep ended before it knew anything.
func cutSweep() *probes.Run {
	run := sweptRun()
	run.Result, run.Complete = probes.RunAborted, false
	run.Steps = run.Steps[:1]
	run.Capacity = probes.Capacity{Rate: probes.Known(4.0), Low: probes.Known(3.6), Objective: "ttft_p99", Safe: probes.Known(3.2), End: probes.SweepCut}
	return run
}

// Every way for a sweep to end has words.
func TestEndingsAreTold(t *testing.T) {
	for _, end := range []probes.SweepEnd{probes.SweepConverged, probes.SweepRatesDone, probes.SweepSaturated, probes.SweepCapped,
		probes.SweepBelow, probes.SweepSteps, probes.SweepInvalid, probes.SweepCut} {
		run := sweptRun()
		run.Capacity.End = end
		if strings.Contains(text(t, run), "Ended because:                           n/a") {
			t.Errorf("a sweep that ended with %s does not say so", end)
		}
	}
}
