package daemon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
)

// A page wants two results in a row above a limit. What counts is the results that
// can be judged: an invalid run or too few samples say nothing, a run without an
// answer starts the story anew, and so does another bound.
func TestBreachesInARow(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	tracker := newTracker(func() time.Time { return at })
	limit := probes.Limit{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Critical, Bound: 2}
	tail := probes.Limit{Signal: probes.TTFT, Statistic: probes.StatTailRatio, Severity: probes.Info, Bound: 4}
	pair := config.Pair{Target: probes.Target{Name: "a"}, Spec: probes.Spec{Probe: "nightly", Kind: probes.Load, Limits: []probes.Limit{limit, tail}}}
	key := pairKey{"a", "nightly"}
	tracker.replace([]config.Pair{pair}, nil, nil)

	finish := func(result probes.RunResult, n int, mean, p99 float64) {
		tracker.finished(key, &probes.Run{Spec: pair.Spec, Result: result, Start: at, End: at, Summary: probes.Summary{
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: n, Mean: mean, P99: p99}},
		}})
	}
	want := func(when string, runs ...int) {
		t.Helper()
		var breaches []probes.Breach
		for i, n := range runs {
			breaches = append(breaches, probes.Breach{Limit: pair.Spec.Limits[i], Runs: n})
		}
		if d := cmp.Diff(breaches, tracker.snapshot(nil)[0].Breaches); d != "" {
			t.Errorf("%s: breaches (-want +got):\n%s", when, d)
		}
	}
	want("before the first run")
	finish(probes.RunSuccess, 200, 1, 2)
	want("at the bound", 0, 0)
	finish(probes.RunSuccess, 200, 1, 2.5)
	before := tracker.snapshot(nil)[0].Breaches
	finish(probes.RunSuccess, 200, 0.5, 2.5)
	want("twice above, once with a long tail", 2, 1)
	if before[0].Runs != 1 {
		t.Errorf("a snapshot taken before says %d runs, want the 1 of its time", before[0].Runs)
	}
	finish(probes.RunSuccess, 99, 1, 9)
	want("of too few samples", 2, 1)
	finish(probes.RunInvalid, 200, 1, 1)
	want("an invalid run below", 2, 1)

	pair.Spec.Limits = []probes.Limit{{Signal: limit.Signal, Statistic: limit.Statistic, Severity: limit.Severity, Bound: 1.5}, tail}
	tracker.replace([]config.Pair{pair}, nil, nil)
	finish(probes.RunSuccess, 200, 1, 2.5)
	want("another bound", 1, 0)
	finish(probes.RunFailed, 0, 0, 0)
	want("a run without an answer")
	finish(probes.RunSuccess, 200, 1, 2.5)
	want("after it", 1, 0)
}
