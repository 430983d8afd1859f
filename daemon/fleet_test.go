package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var aNight = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

// standing is a pair with a result of a load and one change.
func standing(target string, tpot float64, c probes.Change) probes.PairStatus {
	p := probes.PairStatus{
		Pair: probes.Pair{Target: target, Pool: "llama", Environment: probes.Staging, Probe: "nightly"}, Kind: probes.Load,
		Spec: probes.Spec{Kind: probes.Load, Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8}},
		Result: &probes.Result{CompletedAt: aNight.Add(24 * time.Hour), Validity: probes.Validity{State: probes.Valid}, Summary: probes.Summary{
			Completed: 100, OutputTokens: probes.Known(20_000), Latency: map[probes.Signal]probes.Distribution{probes.TPOT: {N: 100, P50: tpot, P99: tpot}},
		}},
	}
	if c.State != "" {
		p.Changes = []probes.Change{c}
	}
	return p
}

func worseSince(metric probes.RegressionMetric, renamed ...probes.FactChange) probes.Change {
	return probes.Change{Metric: metric, State: probes.ChangeWorse, Onset: aNight, Renamed: renamed, Reasons: []probes.Reason{{Code: probes.ReasonRegression}}}
}

// shown are the state and the codes of each pair's change.
func shown(pairs []probes.PairStatus) map[string]string {
	out := map[string]string{}
	for _, p := range pairs {
		for _, c := range p.Changes {
			text := string(c.State)
			for _, r := range c.Reasons {
				text += " " + r.Code
			}
			out[p.Pair.Target] = text
		}
	}
	return out
}

func TestIncidentsAreShown(t *testing.T) {
	hosts := map[string]string{"a": "h1", "b": "h1", "c": "h1", "d": "h2"}
	labels := func(p *probes.PairStatus) map[string]string { return map[string]string{"host": hosts[p.Pair.Target]} }
	image := probes.FactChange{Name: "version", Before: "1", After: "2"}
	quiet := probes.Change{Metric: probes.MetricTPOTp50, State: probes.ChangeNone}
	later := func(pairs []probes.PairStatus) []probes.PairStatus {
		for i := range pairs {
			pairs[i].Result.CompletedAt = aNight.Add(4 * 24 * time.Hour)
		}
		return pairs
	}
	tests := []struct {
		name  string
		pairs []probes.PairStatus
		want  map[string]string
	}{
		{
			"one_target", []probes.PairStatus{standing("a", 0.02, worseSince(probes.MetricTPOTp50)), standing("b", 0.02, quiet)},
			map[string]string{"a": "worse regression", "b": "none"},
		},
		{
			"a_host", []probes.PairStatus{
				standing("a", 0.02, worseSince(probes.MetricTPOTp50)), standing("b", 0.02, worseSince(probes.MetricTPOTp50)),
				standing("c", 0.02, worseSince(probes.MetricTPOTp50)), standing("d", 0.02, quiet),
			},
			map[string]string{"a": "suspected regression shared_environment", "b": "suspected regression shared_environment", "c": "suspected regression shared_environment", "d": "none"},
		},
		{
			"a_host_for_long", later([]probes.PairStatus{
				standing("a", 0.02, worseSince(probes.MetricTPOTp50)), standing("b", 0.02, worseSince(probes.MetricTPOTp50)), standing("c", 0.02, worseSince(probes.MetricTPOTp50)),
			}),
			map[string]string{"a": "worse regression shared_environment", "b": "worse regression shared_environment", "c": "worse regression shared_environment"},
		},
		{
			"a_new_image", []probes.PairStatus{
				standing("a", 0.02, worseSince(probes.MetricTPOTp50, image)), standing("b", 0.02, worseSince(probes.MetricTPOTp50, image)), standing("d", 0.02, worseSince(probes.MetricTPOTp50, image)),
			},
			map[string]string{"a": "worse regression shared_version", "b": "worse regression shared_version", "d": "worse regression shared_version"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := shown(tt.pairs)
			pairs := append([]probes.PairStatus{}, tt.pairs...)
			apply(incidentsOf(pairs, labels), pairs)
			if d := cmp.Diff(tt.want, shown(pairs)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(before, shown(tt.pairs)); d != "" {
				t.Errorf("what the tracker holds has changed (-before +after):\n%s", d)
			}
		})
	}
}

func TestOutliersOfAPool(t *testing.T) {
	pairs := []probes.PairStatus{
		standing("a", 0.02, probes.Change{}), standing("b", 0.0201, probes.Change{}), standing("c", 0.026, probes.Change{}), standing("d", 0.0199, probes.Change{}),
	}
	canary := standing("e", 0.04, probes.Change{}) // the same pool, asked by another probe
	canary.Pair.Probe, canary.Kind, canary.Spec.Kind = "canary", probes.Canary, probes.Canary
	few := standing("f", 0.2, probes.Change{})
	few.Result.Summary.Completed = 19
	pairs = append(pairs, canary, few)
	outliers(pairs)
	for _, p := range pairs {
		var want []probes.Reason
		if p.Pair.Target == "c" {
			want = []probes.Reason{{Code: probes.ReasonOutlier, Text: "tpot_p50 is 30.0 % worse than the median of the 3 other replicas of pool llama"}}
		}
		if d := cmp.Diff(want, p.Peers); d != "" {
			t.Errorf("%s (-want +got):\n%s", p.Pair.Target, d)
		}
	}
}

// BenchmarkFleet is what a scrape of 500 targets under 6 probes pays for laying them
// beside each other.
func BenchmarkFleet(b *testing.B) {
	var pairs []probes.PairStatus
	for target := range 500 {
		for probe := range 6 {
			p := standing(fmt.Sprintf("t%d", target), 0.02+0.00001*float64(target%7), probes.Change{})
			p.Pair.Probe = fmt.Sprintf("p%d", probe)
			p.Changes = []probes.Change{{Metric: probes.MetricTPOTp50, State: probes.ChangeNone}, {Metric: probes.MetricTTFTp50, State: probes.ChangeNone}}
			pairs = append(pairs, p)
		}
	}
	labels := func(*probes.PairStatus) map[string]string { return map[string]string{"host": "h"} }
	b.ReportAllocs()
	for b.Loop() {
		apply(incidentsOf(pairs, labels), pairs)
		outliers(pairs)
	}
}
