package verdict

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// swept is a sweep of three steps that found its capacity.
func swept() *probes.Run {
	run := &probes.Run{Complete: true, Spec: probes.Spec{Kind: probes.Sweep, SLOs: []probes.SLO{{Name: "ttft", Objective: 0.99}}}}
	for i, rate := range []float64{1, 2, 4} {
		run.Steps = append(run.Steps, probes.Step{Rate: rate, Judged: 300, Passed: i < 2, Validity: probes.Validity{State: probes.Valid}})
	}
	run.Summary = probes.Summary{Requests: 900, Completed: 900}
	run.Capacity = probes.Capacity{Rate: known(3.0), Bracketed: true, Objective: "ttft"}
	return run
}

func spoil(s *probes.Step, state probes.ValidityState, codes ...string) {
	s.Validity.State = state
	for _, code := range codes {
		s.Validity.Reasons = append(s.Validity.Reasons, probes.Reason{Code: code, Text: "why"})
	}
}

func TestSweepJudgement(t *testing.T) {
	for _, tt := range []struct {
		name     string
		change   func(*probes.Run)
		validity probes.Validity
		verdict  probes.Verdict
	}{
		{"found", func(*probes.Run) {}, probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Pass}},
		{"an overloaded step is no doubt", func(r *probes.Run) {
			spoil(&r.Steps[2], probes.Suspect, Incomplete, DroppedRequests, TooFewSamples, ClientCapped)
		}, probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Pass}},
		{"doubts of a step", func(r *probes.Run) {
			spoil(&r.Steps[0], probes.Suspect, ConcurrentRun)
			spoil(&r.Steps[1], probes.Suspect, ConcurrentRun, ApproxInputLengths)
		}, probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{
			{Code: ConcurrentRun, Text: "at 1 requests per second: why"}, {Code: ApproxInputLengths, Text: "at 2 requests per second: why"},
		}}, probes.Verdict{State: probes.Pass}},
		{"an invalid step", func(r *probes.Run) { spoil(&r.Steps[2], probes.Invalid, ClientLate) },
			probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{
				{Code: ClientLate, Text: "at 4 requests per second: why"}, {Code: UnusableSteps, Text: "1 of 3 steps could not be used"},
			}}, probes.Verdict{State: probes.Pass}},
		{"only invalid steps", func(r *probes.Run) {
			for i := range r.Steps {
				spoil(&r.Steps[i], probes.Invalid, ClientLate)
			}
		}, probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{
			{Code: ClientLate, Text: "at 1 requests per second: why"}, {Code: UnusableSteps, Text: "3 of 3 steps could not be used"},
		}}, probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{
			{Code: InvalidMeasurement, Text: "the measurement is invalid: client_late, unusable_steps"},
		}}},
		{"no step", func(r *probes.Run) { r.Steps, r.Complete = nil, false },
			probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{
				{Code: Incomplete, Text: "the sweep was cut short after 0 steps"}, {Code: UnusableSteps, Text: "no step was measured"},
			}}, probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{
				{Code: InvalidMeasurement, Text: "the measurement is invalid: incomplete, unusable_steps"},
			}}},
		{"few requests", func(r *probes.Run) { r.Steps[1].Judged = 99 },
			probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{
				{Code: TooFewSamples, Text: "objective ttft: a step has 99 requests, of which one miss is more than is allowed; send at least 100"},
			}}, probes.Verdict{State: probes.Pass}},
		{"few requests of a step that was given up", func(r *probes.Run) { r.Steps[2].Judged, r.Steps[2].Aborted = 30, true },
			probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Pass}},
		{"lower bound", func(r *probes.Run) { r.Capacity = probes.Capacity{Rate: known(4.0), Objective: "ttft"} },
			probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Warn, Reasons: []probes.Reason{
				{Code: CapacityLowerBound, Text: "every objective was kept up to 4 requests per second; the limit is higher"},
			}}},
		{"nothing passed", func(r *probes.Run) { r.Capacity = probes.Capacity{Objective: "ttft"} },
			probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Fail, Reasons: []probes.Reason{
				{Code: NoCapacity, Text: "objective ttft was missed at every rate that was tried"},
			}}},
		{"no success", func(r *probes.Run) { r.Summary.Completed, r.Summary.Failed = 0, 900 },
			probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Fail, Reasons: []probes.Reason{
				{Code: NoSuccess, Text: "none of 900 requests was completed"},
			}}},
		{"nothing ended", func(r *probes.Run) { r.Summary.Completed = 0 },
			probes.Validity{State: probes.Valid}, probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{
				{Code: NothingMeasured, Text: "none of 900 requests was completed or failed"},
			}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := swept()
			tt.change(run)
			run.Validity = SweepValidity(run)
			if diff := cmp.Diff(tt.validity, run.Validity); diff != "" {
				t.Errorf("validity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.verdict, JudgeSweep(run)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}
