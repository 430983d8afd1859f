package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// twoSides is a configuration of a production and a staging replica. The canaries leave
// gaps in which both targets are free.
const twoSides = `
results: {path: %q}
environments: {production: {max_rate: 1000, tokens_per_day: 1G}}
workloads: {w: {input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 1s, workload: w}}
targets:
  - {name: prod, backend: sglang, url: %q, probes: [canary]}
  - {name: stage, environment: staging, backend: vllm-chat, url: %q, model: m, probes: []}
comparisons:
  - {name: gate, a: prod, b: stage, workload: w, num_prompts: 2, pairs: 2, every: 1s}
  - {name: by-hand, a: prod, b: stage, probe: canary, pairs: 1}
`

func TestDaemonCompares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		results := filepath.Join(t.TempDir(), "results.jsonl")
		_, reference := n.engine(nil)
		engine, candidate := n.engine(func(c *fakellm.Config) { c.Script.TTFT = []time.Duration{60 * time.Millisecond} })
		d := n.daemon(fmt.Sprintf(twoSides, results, reference, candidate))

		// A gate that asks before the first comparison hears that there is no data.
		for _, metric := range []string{"overall", "ttft_p50"} {
			if v, ok := d.metric("inferbeat_comparison_verdict", "comparison", "gate", "metric", metric); !ok || v != 3 {
				t.Errorf("comparison_verdict{metric=%s} = %v (present %v) on the first scrape, want 3", metric, v, ok)
			}
		}
		of := func(name string) probes.ComparisonStatus {
			for _, c := range d.Comparisons() {
				if c.Name == name {
					return c
				}
			}
			t.Fatalf("there is no comparison %s", name)
			return probes.ComparisonStatus{}
		}
		d.until("a comparison", func() bool { return of("gate").Result != nil })
		gate := of("gate")
		wantSame(t, "sides", []string{gate.Reference, gate.Candidate}, []string{"prod", "stage"})
		wantSame(t, "pairs", []int{gate.Result.Comparison.Pairs, gate.Result.Comparison.Used, len(gate.Result.Parts)}, []int{2, 2, 0})
		wantSame(t, "the interval", gate.Interval, time.Second)
		ratio, ok := d.metric("inferbeat_comparison_ratio", "comparison", "gate", "metric", "ttft_p50")
		if contrast, _ := gate.Result.Comparison.Contrast(probes.MetricTTFTp50); !ok || ratio < 2 || contrast.Candidate < 0.06 {
			t.Errorf("ratio of ttft_p50 = %v (present %v) of %+v, want a candidate that takes 60 ms and not 2", ratio, ok, contrast)
		}
		if v, _ := d.metric("inferbeat_comparison_info", "comparison", "gate", "candidate", "stage", "reference", "prod"); v != 1 {
			t.Errorf("comparison_info = %v, want 1", v)
		}
		// The reference has no configured model: the comparison may be what asks first.
		d.until("the reference's model", func() bool { return d.Pairs()[0].Pair.Model == "m" })
		wantSame(t, "runs of the one without a schedule", of("by-hand").Last == nil && of("by-hand").NextStart.IsZero(), true)

		code, body := d.request("GET", "/api/v1/comparisons")
		var listed []struct {
			Name   string
			Result *struct{ Pairs int }
		}
		if err := json.Unmarshal([]byte(body), &listed); err != nil || code != 200 || len(listed) != 2 || listed[1].Result == nil || listed[1].Result.Pairs != 2 {
			t.Errorf("the API answered %d, %v: %s", code, err, body)
		}
		if _, page := d.request("GET", "/"); !strings.Contains(page, "stage / prod") {
			t.Error("the page does not show the comparison")
		}
		if v, _ := d.metric("inferbeat_exporter_errors_total", "sink", "prometheus"); v != 0 {
			t.Errorf("%v events of the comparison are errors of an exporter", v)
		}
		d.until("its line in the results", func() bool {
			text, _ := os.ReadFile(results)
			return strings.Contains(string(text), `"probe":"gate","kind":"paired"`)
		})
		if engine.Stats().Received < 6 { // two runs of two, and a warm-up each
			t.Errorf("the candidate got %d requests, want 6 of a comparison", engine.Stats().Received)
		}
	})
}

func comparisonOf(spec probes.Spec) config.Comparison {
	spec.Probe, spec.Kind, spec.StaleAfter = "gate", probes.Paired, time.Hour
	return config.Comparison{Reference: rival(0, "vllm"), Candidate: rival(1, "vllm"), Spec: spec}
}

// What cannot be believed moves no result; one that is too old or was measured
// otherwise stands no longer.
func TestComparisonsKeepTheLastResult(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	board := &comparisons{now: func() time.Time { return now }}
	c := comparisonOf(pairedSpec(5))
	key := keyOf(comparisonPair(c))
	wantSame(t, "the key", []string{key.target, key.probe}, []string{"candidate", "gate"})
	board.replace([]config.Comparison{c}, map[pairKey]time.Duration{key: time.Minute}, nil)
	end := func(id string, result probes.RunResult) {
		board.started(key)
		run := &probes.Run{ID: id, Spec: c.Spec, Result: result, End: now, Comparison: &probes.Comparison{}, Parts: []probes.Part{{}}, Records: make([]probes.Record, 3)}
		board.finished(key, run)
	}
	standing := func() (result, last string) {
		s := board.snapshot(nil)[0]
		if s.Result != nil {
			result = s.Result.ID
		}
		if s.Last == nil || s.Active {
			return result, ""
		}
		if s.Last.Parts != nil || s.Last.Records != nil {
			t.Errorf("run %s is kept with its records", s.Last.ID)
		}
		return result, s.Last.ID
	}
	for _, step := range []struct {
		id           string
		result       probes.RunResult
		after        time.Duration
		stands, last string
	}{
		{"invalid", probes.RunInvalid, 0, "", "invalid"},
		{"good", probes.RunSuccess, 0, "good", "good"},
		{"failed", probes.RunFailed, time.Minute, "good", "failed"},
		{"cut", probes.RunAborted, 59 * time.Minute, "good", "cut"},
		{"cut-again", probes.RunAborted, time.Second, "", "cut-again"}, // an hour and a second later
		{"better", probes.RunSuccess, 0, "better", "better"},
	} {
		now = now.Add(step.after)
		end(step.id, step.result)
		result, last := standing()
		if result != step.stands || last != step.last {
			t.Errorf("after %s: result of %q, last %q; want %q and %q", step.id, result, last, step.stands, step.last)
		}
	}
	c.Spec.Margins = map[probes.RegressionMetric]float64{probes.MetricTTFTp50: 0.5}
	board.replace([]config.Comparison{c}, nil, nil)
	if result, _ := standing(); result != "better" {
		t.Errorf("another margin took the result away: %q", result)
	}
	c.Spec.Pairs = 7
	board.replace([]config.Comparison{c}, nil, nil)
	if result, last := standing(); result != "" || last != "better" {
		t.Errorf("with other pairs: result of %q, last %q; want none, and the last run", result, last)
	}
	board.replace(nil, nil, nil)
	end("late", probes.RunSuccess) // it was going on when it was removed
	wantSame(t, "comparisons left", len(board.snapshot(nil)), 0)
}

func TestComparisonsCountSkips(t *testing.T) {
	board := &comparisons{now: time.Now}
	c := comparisonOf(pairedSpec(5))
	board.replace([]config.Comparison{c}, nil, nil)
	key := keyOf(comparisonPair(c))
	if !board.skipped(key, probes.SkipTargetBusy, 2) || !board.skipped(key, probes.SkipPaused, 1) || board.skipped(pairKey{"candidate", "canary"}, probes.SkipPaused, 1) {
		t.Error("skips of the comparison, and of no other pair, are its own")
	}
	first := board.snapshot(nil)[0]
	board.skipped(key, probes.SkipTargetBusy, 1)
	wantSame(t, "skips", first.Skips, map[probes.SkipReason]int{probes.SkipTargetBusy: 2, probes.SkipPaused: 1})
}

// Two runs of one side in a row keep the rate that each of them keeps: six requests
// of half a second each, at most one in two seconds.
func TestCompareKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, func(_ int, c *fakellm.Config) {
			c.Script.TTFT, c.Script.ITL = []time.Duration{100 * time.Millisecond}, 4*time.Millisecond
		})
		defer r.runner.Close()
		spec := pairedSpec(2)
		spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1, Rate: 0.5}
		spec.Requests, spec.Warmup = 2, probes.Warmup{Requests: 1}
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm"), spec, &loadgen.Progress{}, Hooks{})
		if run.Error != "" || run.Comparison.Used != 2 {
			t.Fatalf("error %q, %d pairs used", run.Error, run.Comparison.Used)
		}
		var b []time.Duration
		for _, q := range r.runs(12)[0] {
			if q.side == 'B' {
				b = append(b, q.at.Sub(run.Start).Round(100*time.Millisecond))
			}
		}
		// A's first run takes 3 s. B's runs follow each other: a warm-up, which the first
		// measured request follows at once, a gap of 2 s, and what is left of 6 s.
		wantSame(t, "B's requests", b, []time.Duration{
			3000 * time.Millisecond, 3500 * time.Millisecond, 5500 * time.Millisecond,
			9000 * time.Millisecond, 9500 * time.Millisecond, 11500 * time.Millisecond,
		})
	})
}

// A cut while a side rests ends the comparison like one in a run.
func TestCompareCutAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, threePairs)
		defer r.runner.Close()
		spec := pairedSpec(3)
		spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4, Rate: 1}
		spec.Requests = 5 // A and B take 4 s of requests and 1.1 s of rest each
		ctx, cancel := context.WithTimeout(context.Background(), 13*time.Second)
		defer cancel()
		began := time.Now()
		run := r.runner.Compare(ctx, rival(0, "vllm"), rival(1, "vllm"), spec, &loadgen.Progress{}, Hooks{})
		if run.Result != probes.RunAborted || run.Complete || run.Validity.State != probes.Invalid {
			t.Errorf("result %s, complete %v, validity %s; want an aborted run", run.Result, run.Complete, run.Validity.State)
		}
		wantSame(t, "roles", roles(run), []string{"pair 1 A", "pair 1 B"})
		wantSame(t, "the end", time.Since(began), 13*time.Second)
	})
}
