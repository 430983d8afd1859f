package summary

import (
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

func TestGood(t *testing.T) {
	bounds := func(kv ...any) map[probes.Signal]time.Duration {
		m := map[probes.Signal]time.Duration{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(probes.Signal)] = kv[i+1].(time.Duration)
		}
		return m
	}
	full := answer(0, 100*ms, 5, 1, every(600*ms, 20*ms, 5)...) // TTFT 500, TPOT 20, E2E 580
	with := func(change func(*probes.Record)) probes.Record {
		r := full
		change(&r)
		return r
	}
	flagged := with(func(r *probes.Record) { r.Flags = probes.ShortOutput; r.ExactOutput = true; r.RequestedOutput = 64 })
	oneToken := answer(0, 0, 1, 1, 500*ms)
	uncounted := with(func(r *probes.Record) { r.OutputTokens = probes.Optional[int]{} })
	wholeBody := probes.Record{
		Outcome: probes.OK, Flags: probes.NotStreamed, End: known(2300 * ms),
		OutputTokens: known(120), OutputSource: probes.TokensServer,
	}
	onlyReasoning := with(func(r *probes.Record) { r.FirstAnswer = probes.Optional[time.Duration]{} })

	tests := []struct {
		name         string
		record       probes.Record
		bounds       map[probes.Signal]time.Duration
		good, counts bool
	}{
		{"no_bounds", full, nil, true, true},
		{"ttft_at_the_bound", full, bounds(probes.TTFT, 500*ms), true, true},
		{"ttft_above", full, bounds(probes.TTFT, 500*ms-1), false, true},
		{"from_due_above", full, bounds(probes.TTFTFromDue, 500*ms), false, true},
		{"all_three", full, bounds(probes.TTFT, 500*ms, probes.TPOT, 20*ms, probes.E2E, 580*ms), true, true},
		{"one_of_three_broken", full, bounds(probes.TTFT, 500*ms, probes.TPOT, 20*ms, probes.E2E, 579*ms), false, true},
		{"tpot_above", full, bounds(probes.TPOT, 19*ms), false, true},
		{"tpot_of_one_token", oneToken, bounds(probes.TPOT, time.Nanosecond), true, true},
		{"tokens_not_counted_by_gap", uncounted, bounds(probes.TPOT, 20*ms), true, true},
		{"tokens_not_counted_gap_above", uncounted, bounds(probes.TPOT, 19*ms), false, true},
		{"short_answer_by_its_own_time", flagged, bounds(probes.E2E, 580*ms, probes.TPOT, 20*ms), true, true},
		{"short_answer_too_slow", flagged, bounds(probes.E2E, 579*ms), false, true},
		{"whole_body_first_token_at_end", wholeBody, bounds(probes.TTFT, 2300*ms, probes.TPOT, ms, probes.E2E, 2300*ms), true, true},
		{"whole_body_too_late", wholeBody, bounds(probes.TTFT, 2299*ms), false, true},
		{"no_answer_in_the_budget", onlyReasoning, bounds(probes.FirstAnswer, time.Hour), false, true},
		{"failed", failure(probes.HTTP5xx, 0, ms), nil, false, true},
		{"timeout", with(func(r *probes.Record) { r.Outcome = probes.TimeoutTotal }), bounds(probes.TTFT, time.Second), false, true},
		{"cancelled", with(func(r *probes.Record) { r.Outcome = probes.Cancelled }), nil, false, false},
		{"dropped", probes.Record{Outcome: probes.Dropped}, nil, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slo := probes.SLO{Name: "s", Objective: 0.9, Bounds: tt.bounds}
			good, counts := Good(&tt.record, &slo)
			if good != tt.good || counts != tt.counts {
				t.Errorf("good %v, counts %v; want %v, %v", good, counts, tt.good, tt.counts)
			}
		})
	}
}

// TestGoodputNeedsEverySLO: attainment is per promise, goodput is all of them.
func TestGoodputNeedsEverySLO(t *testing.T) {
	spec := &probes.Spec{SLOs: []probes.SLO{
		{Name: "first", Objective: 0.9, Bounds: map[probes.Signal]time.Duration{probes.TTFT: 300 * ms}},
		{Name: "whole", Objective: 0.9, Bounds: map[probes.Signal]time.Duration{probes.E2E: 900 * ms}},
	}}
	records := []probes.Record{
		answer(0, 0, 2, 1, 200*ms, 800*ms),
		answer(0, 0, 2, 1, 200*ms, 1000*ms),
		answer(0, 0, 2, 1, 400*ms, 800*ms),
		failure(probes.HTTP429, 0, ms),
		{Outcome: probes.Dropped},
	}
	s := Summarize(Input{Spec: spec, Records: records})
	if s.SLOAttainment["first"] != 0.5 || s.SLOAttainment["whole"] != 0.5 {
		t.Errorf("attainment = %v, want 0.5 of both", s.SLOAttainment)
	}
	wantFloat(t, "goodput", s.Goodput, known(1.0))
	wantFloat(t, "goodput without promises", summarize(records...).Goodput, probes.Optional[float64]{})
}
