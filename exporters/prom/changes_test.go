package prom

import (
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// confirmed is a regression of which everything is known.
func confirmed(metric probes.RegressionMetric) probes.Change {
	return probes.Change{
		Metric: metric, State: probes.ChangeWorse, Effect: probes.Known(0.125), Low: probes.Known(0.0625), High: probes.Known(0.1875),
		Baseline: probes.Known(5.0), BaselineRuns: 14, BaselineAt: epoch.Add(-20 * 24 * time.Hour), Onset: epoch.Add(-24 * time.Hour),
		SmallestStep: probes.Known(0.03125),
	}
}

func TestChanges(t *testing.T) {
	load := pairAt("a", "nightly")
	load.Kind, load.Result = probes.Load, result(epoch)
	load.Changes = []probes.Change{confirmed(probes.MetricTTFTp99), {Metric: probes.MetricTPOTp50, State: probes.ChangeLearning, BaselineRuns: 4}}
	s := newStage(t, nil, load)
	at := func(name string, extra ...string) string { return ofPair(name, load.Pair, extra...) }
	page := s.page()
	s.wantSeries(page, map[string]float64{
		at(catalog.RegressionVerdict, "metric", "ttft_p99"):                   2,
		at(catalog.RegressionEffect, "metric", "ttft_p99"):                    0.125,
		at(catalog.RegressionInterval, "metric", "ttft_p99", "bound", "low"):  0.0625,
		at(catalog.RegressionInterval, "metric", "ttft_p99", "bound", "high"): 0.1875,
		at(catalog.RegressionSmallestStep, "metric", "ttft_p99"):              0.03125,
		at(catalog.RegressionBaselineRuns, "metric", "ttft_p99"):              14,
		at(catalog.RegressionBaselineTimestamp, "metric", "ttft_p99"):         1_800_000_000 - 20*86400,
		at(catalog.RegressionOnsetTimestamp, "metric", "ttft_p99"):            1_800_000_000 - 86400,
		at(catalog.RegressionVerdict, "metric", "tpot_p50"):                   3,
		at(catalog.RegressionBaselineRuns, "metric", "tpot_p50"):              4,
	})
	s.wantNone(page, at(catalog.RegressionEffect, "metric", "tpot_p50"), at(catalog.RegressionInterval, "metric", "tpot_p50", "bound", "low"),
		at(catalog.RegressionSmallestStep, "metric", "tpot_p50"), at(catalog.RegressionBaselineTimestamp, "metric", "tpot_p50"),
		at(catalog.RegressionOnsetTimestamp, "metric", "tpot_p50"), catalog.CapacityBaseline)

	// They are of the result, and go with it.
	s.statuses[0].Result = nil
	s.wantNone(s.page(), catalog.RegressionVerdict, catalog.RegressionBaselineRuns)
}

func TestEveryStateHasItsNumber(t *testing.T) {
	load := pairAt("a", "nightly")
	load.Kind, load.Result = probes.Load, result(epoch)
	s := newStage(t, nil, load)
	for state, want := range map[probes.ChangeState]float64{
		probes.ChangeBetter: -1, probes.ChangeNone: 0, probes.ChangeSuspected: 1, probes.ChangeWorse: 2,
		probes.ChangeLearning: 3, probes.ChangeDrift: 4, probes.ChangeUnstable: 5,
	} {
		s.statuses[0].Changes = []probes.Change{{Metric: probes.MetricE2Ep50, State: state}}
		s.wantSeries(s.page(), map[string]float64{ofPair(catalog.RegressionVerdict, load.Pair, "metric", "e2e_p50"): want})
	}
	if len(verdicts) != len(probes.ChangeStates) {
		t.Errorf("%d states have a number, want all %d", len(verdicts), len(probes.ChangeStates))
	}
}

// The baseline of a capacity is shown as what it allowed, to lie beside what the
// last sweep allows.
func TestCapacityBaseline(t *testing.T) {
	sweep := swept()
	sweep.Changes = []probes.Change{confirmed(probes.MetricCapacity)}
	s := newStage(t, nil, sweep)
	s.wantSeries(s.page(), map[string]float64{
		ofPair(catalog.CapacityBaseline, sweep.Pair): 4, ofPair(catalog.CapacitySafe, sweep.Pair): 2,
		ofPair(catalog.RegressionVerdict, sweep.Pair, "metric", "capacity"): 2,
	})
}

func TestLimitsOfAlerts(t *testing.T) {
	st := canary()
	s := newStage(t, nil, st)
	page := s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.FailureThreshold): 3, of(catalog.TailRatioFloor, "signal", "ttft"): 0.2,
		of(catalog.QueueThreshold, "severity", "info"): 10, of(catalog.QueueThreshold, "severity", "warning"): 50,
	})
	s.wantNone(page, catalog.BreachRuns, of(catalog.TailRatioFloor, "signal", "tpot"))

	for i, l := range st.Spec.Limits {
		st.Breaches = append(st.Breaches, probes.Breach{Limit: l, Runs: i})
	}
	st.Spec.FailureThreshold, st.Spec.QueueLimits = 0, nil
	st.Result = result(epoch)
	s.statuses = []probes.PairStatus{st}
	page = s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.BreachRuns, "signal", "ttft", "stat", "p99", "severity", "warning"):  0,
		of(catalog.BreachRuns, "signal", "tpot", "stat", "p99", "severity", "critical"): 2,
	})
	s.wantNone(page, catalog.FailureThreshold, catalog.QueueThreshold)

	st.Result = nil
	s.statuses = []probes.PairStatus{st}
	s.wantNone(s.page(), catalog.BreachRuns)
}
