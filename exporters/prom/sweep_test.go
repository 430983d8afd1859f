package prom

import (
	"strings"
	"testing"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// swept is a sweep that has found its capacity, in steps out of order.
func swept() probes.PairStatus {
	p := pairAt("a", "capacity")
	p.Kind = probes.Sweep
	p.Spec = probes.Spec{Probe: "capacity", Kind: probes.Sweep, Arrivals: probes.Arrivals{Process: probes.Poisson}}
	step := func(rate, ttft float64, state probes.ValidityState) probes.Step {
		s := probes.Step{Rate: rate, Judged: 300, Validity: probes.Validity{State: state}}
		s.Summary = probes.Summary{
			AchievedRate: probes.Known(rate - 0.5), OutputThroughput: probes.Known(rate * 100),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 300, P99: 99}, probes.TTFTFromDue: {N: 300, P99: ttft}, probes.TPOT: {N: 300, Mean: rate / 100}},
			Server:  probes.ServerSummary{Queue: probes.Level{N: 30, Mean: rate * 2}},
		}
		return s
	}
	last := step(3, 1.5, probes.Valid)
	last.Summary.Steady.OutputThroughput = probes.Known(333.0)
	last.Summary.Server = probes.ServerSummary{}
	r := result(epoch)
	r.Steps = []probes.Step{step(2, 0.2, probes.Suspect), step(4, 9, probes.Invalid), step(8, 4, probes.Valid), last}
	r.Capacity = probes.Capacity{Rate: probes.Known(2.5), Low: probes.Known(2.25), High: probes.Known(2.75), Bracketed: true, Safe: probes.Known(2.0), Objective: "a"}
	p.Result = r
	return p
}

func TestSweep(t *testing.T) {
	s := newStage(t, nil, swept())
	at := func(name string, extra ...string) string { return ofPair(name, swept().Pair, extra...) }
	page := s.page()
	s.wantSeries(page, map[string]float64{
		at(catalog.CapacityKnee): 2.5, at(catalog.CapacitySafe): 2, at(catalog.CapacityHeadroom): 0.8, at(catalog.CapacityBracketed): 1, at(catalog.CapacitySuspect): 0,
		at(catalog.CapacityInterval, "bound", "low"): 2.25, at(catalog.CapacityInterval, "bound", "high"): 2.75, at(catalog.CapacityTimestamp): 1_800_000_000,
		at(catalog.SweepOffered, "step", "0"): 2, at(catalog.SweepOffered, "step", "1"): 3, at(catalog.SweepOffered, "step", "2"): 8,
		at(catalog.SweepAchieved, "step", "1"): 2.5, at(catalog.SweepTTFTp99, "step", "1"): 1.5, at(catalog.SweepTPOTMean, "step", "2"): 0.08,
		at(catalog.SweepOutputTokens, "step", "0"): 200, at(catalog.SweepOutputTokens, "step", "1"): 333, at(catalog.SweepQueue, "step", "2"): 16,
	})
	for name := range page {
		if strings.HasPrefix(name, "inferbeat_result_") {
			t.Errorf("a sweep shows %s; its overload would trip alerts", name)
		}
	}
	s.wantNone(page, at(catalog.SweepOffered, "step", "3"), at(catalog.SweepQueue, "step", "1"))

	bound := swept()
	bound.Result.Capacity = probes.Capacity{Rate: probes.Known(8.0), Low: probes.Known(7.0), Safe: probes.Known(6.4)}
	bound.Result.Validity.State = probes.Suspect
	s.statuses = []probes.PairStatus{bound}
	page = s.page()
	s.wantSeries(page, map[string]float64{at(catalog.CapacityBracketed): 0, at(catalog.CapacityKnee): 8, at(catalog.CapacitySuspect): 1})
	s.wantNone(page, at(catalog.CapacityInterval, "bound", "high"))

	bound.Result.Capacity = probes.Capacity{Objective: "a"}
	page = s.page()
	s.wantNone(page, at(catalog.CapacityKnee), at(catalog.CapacitySafe), at(catalog.CapacityBracketed))

	bound.Result = nil
	s.statuses = []probes.PairStatus{bound}
	page = s.page()
	s.wantSeries(page, map[string]float64{at(catalog.CapacityHeadroom): 0.8})
	s.wantNone(page, at(catalog.CapacityTimestamp), at(catalog.SweepOffered, "step", "0"))
}
