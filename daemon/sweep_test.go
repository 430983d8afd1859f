package daemon

import (
	"context"
	"flag"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

var long = flag.Bool("long", false, "run the studies that take minutes")

// smallEngine serves 8 sequences at a time: a prefill of 20 ms for each, and 15 decode
// steps of 8 ms + 0.5 ms per sequence for 16 tokens.
func smallEngine(t *testing.T, seed int64, change func(*fakellm.Config)) *Runner {
	t.Helper()
	c := fakellm.Config{
		Model: "m", Engine: fakellm.SGLang, Seed: seed, MaxBatch: 8, Jitter: 0.1,
		PrefillBase: 20 * time.Millisecond, PrefillTokensPerSecond: 1e6,
		DecodeBase: 8 * time.Millisecond, DecodePerSequence: 500 * time.Microsecond, MeanOutputTokens: 1_000_000,
	}
	if change != nil {
		change(&c)
	}
	engine, err := fakellm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	listener, dial := fakellm.NewPipeListener()
	server := &http.Server{Handler: engine.Handler()}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return &Runner{UserAgent: "inferbeat/test", Dial: dial}
}

func sweepSpec(seed int64) probes.Spec {
	return probes.Spec{
		Probe: "capacity", Kind: probes.Sweep,
		Arrivals: probes.Arrivals{Process: probes.Poisson},
		Workload: probes.Workload{
			Name: "w", Dataset: "random-ids", InputTokens: 16, OutputTokens: 16, RangeRatio: 1, Tokenizer: "approx", TokenIDs: true,
			Cache: probes.CacheCold, Seed: seed, Sampling: probes.Sampling{IgnoreEOS: true, Stream: true},
		},
		SLOs: []probes.SLO{{Name: "ttft", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.TTFT: 500 * time.Millisecond}}},
	}
}

func sweepOnce(t *testing.T, runner *Runner, spec probes.Spec) *probes.Run {
	t.Helper()
	run := runner.Run(context.Background(), fakeTarget("sglang"), spec, &loadgen.Progress{}, Hooks{})
	if run.Error != "" {
		t.Fatalf("sweep failed: %s", run.Error)
	}
	return run
}

// smallCapacity is the rate at which 1 % of the requests to smallEngine miss sweepSpec's
// objective in a long run; see TestTruth.
//
//	22/s 0.42 %   23/s 1.02 %   24/s 2.98 %   25/s 22.8 %
const smallCapacity = 23.0

// TestTruth measures smallCapacity without any search: 80,000 requests at each rate.
func TestTruth(t *testing.T) {
	if !*long {
		t.Log("only with -long; smallCapacity is its result")
		return
	}
	for _, rate := range []float64{22, 23, 24, 25} {
		over, judged := 0, 0
		for seed := range int64(8) {
			synctest.Test(t, func(t *testing.T) {
				runner := smallEngine(t, 1000+seed, nil)
				defer runner.Close()
				spec := sweepSpec(1000 + seed)
				spec.Kind, spec.Requests, spec.Arrivals.Rate = probes.Load, 10_000, rate
				s := &sweepOnce(t, runner, spec).Summary
				judged += s.Completed + s.Failed
				over += s.Completed + s.Failed - int(math.Round(s.SLOAttainment["ttft"]*float64(s.Completed+s.Failed)))
			})
		}
		t.Logf("%v/s: %d of %d over, %.2f %%", rate, over, judged, 100*float64(over)/float64(judged))
	}
}

func TestSweepFindsTheCapacity(t *testing.T) {
	t.Parallel()
	seeds, most := int64(1), 0.2 // one seed may be off by twice the median
	if *long {
		seeds, most = 40, 0.1
	}
	var off, warmOff []float64
	covered, known := 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			runner := smallEngine(t, seed, nil)
			defer runner.Close()
			cold := sweepOnce(t, runner, sweepSpec(seed))
			warm := sweepOnce(t, runner, sweepSpec(seed+100))
			for i, run := range []*probes.Run{cold, warm} {
				c := &run.Capacity
				rate, ok := c.Rate.Get()
				low, lowKnown := c.Low.Get()
				high, highKnown := c.High.Get()
				if !ok || !c.Bracketed || c.End != probes.SweepConverged || run.Result != probes.RunSuccess {
					t.Errorf("seed %d: %s, %+v; want a bracketed capacity", seed, run.Result, c)
				}
				if known++; (!lowKnown || low <= smallCapacity) && (!highKnown || high >= smallCapacity) {
					covered++
				}
				errors := []*[]float64{&off, &warmOff}[i]
				*errors = append(*errors, rate/smallCapacity-1)
				if *long {
					t.Logf("seed %d: %.2f from %.2f to %.2f known %v, %v in %d steps, %s, bend %v", seed, rate, low, high, highKnown, lowKnown, len(run.Steps), run.End.Sub(run.Start), c.Bend)
				}
			}
		})
	}
	for name, errors := range map[string][]float64{"cold": off, "warm": warmOff} {
		square := 0.0
		for i, e := range errors {
			square += e * e
			errors[i] = math.Abs(e)
		}
		slices.Sort(errors)
		median := errors[len(errors)/2]
		t.Logf("%s: %d seeds, median error %.1f %%, RMSE %.1f %%, worst %.1f %%; interval holds the truth %d of %d times", name, len(errors),
			median*100, math.Sqrt(square/float64(len(errors)))*100, errors[len(errors)-1]*100, covered, known)
		if median > most {
			t.Errorf("%s: the median error is %.1f %%, want at most %.0f %%", name, median*100, most*100)
		}
	}
}

// A staircase ends where the target is saturated; each step has its own records, its own
// prompts and the server's queue beside it.
func TestStaircase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := smallEngine(t, 1, nil)
		defer runner.Close()
		spec := sweepSpec(1)
		spec.Sweep.Rates = []float64{5, 15, 60, 120}
		spec.Requests, spec.Warmup = 300, probes.Warmup{Requests: 10}
		var ended []float64
		ids := map[string]bool{}
		run := runner.Run(context.Background(), fakeTarget("sglang"), spec, &loadgen.Progress{}, Hooks{
			Step: func(_ string, s *probes.Step) { ended = append(ended, s.Rate) },
			Record: func(_ string, r *probes.Record) {
				if ids[r.ID] {
					t.Errorf("request id %s was used twice", r.ID)
				}
				ids[r.ID] = true
			},
		})
		if run.Result != probes.RunSuccess || run.Verdict.State != probes.Pass || run.Capacity.End != probes.SweepSaturated || !run.Capacity.Bracketed {
			t.Fatalf("%s %q, verdict %+v, capacity %+v", run.Result, run.Error, run.Verdict, run.Capacity)
		}
		if !slices.Equal(ended, []float64{5, 15, 60}) || len(run.Steps) != 3 {
			t.Fatalf("steps at %v, want 5, 15 and 60, where it is saturated", ended)
		}
		if rate, _ := run.Capacity.Rate.Get(); rate <= 15 || rate >= 60 {
			t.Errorf("capacity %v, want between 15 and 60", rate)
		}
		for i := range run.Steps {
			s := &run.Steps[i]
			if !s.Usable() || s.Aborted != (i == 2) || s.Passed == (i == 2) || len(s.Warmup) != 10 || s.Summary.Warmup != 10 || s.Judged > 300 || i < 2 && s.Judged != 300 {
				t.Errorf("step at %v: usable %v, aborted %v, passed %v, %d warm-up, %d judged", s.Rate, s.Usable(), s.Aborted, s.Passed, len(s.Warmup), s.Judged)
			}
			if achieved, _ := s.Summary.AchievedRate.Get(); i < 2 && math.Abs(achieved/s.Rate-1) > 0.02 {
				t.Errorf("achieved %v of %v", achieved, s.Rate)
			}
		}
		// With 8 places, 60 requests a second wait in the server and 5 do not.
		if idle, full := run.Steps[0].Summary.Server.Queue, run.Steps[2].Summary.Server.Queue; idle.N < 50 || idle.Mean > 0.1 || full.N == 0 || full.Mean < 5 {
			t.Errorf("the server's queue was %+v at 5 and %+v at 60 requests per second", idle, full)
		}
		if run.Records != nil || len(run.Summary.Latency) != 0 {
			t.Error("a sweep has records or latencies of its own; they would be those of no rate")
		}
		sent := 0
		for i := range run.Steps {
			sent += len(run.Steps[i].Records)
		}
		if run.Summary.Requests != sent || run.Summary.Warmup != 5+3*10 || run.Fingerprint == "" {
			t.Errorf("%d requests, %d warm-up, fingerprint %q; want %d, 35 and one", run.Summary.Requests, run.Summary.Warmup, run.Fingerprint, sent)
		}
	})
}

// What waits in the client for want of a slot counts as a user would feel it.
func TestSweepWithACapCountsFromDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One slot and 2.1 s a request: at 2 a second the 100th waits for minutes, while each of
		// them has its first token 100 ms after it was sent.
		_, runner := scripted(t, func(c *fakellm.Config) { c.Script.TTFT = []time.Duration{100 * time.Millisecond} })
		defer runner.Close()
		spec := loadSpec()
		spec.Kind, spec.Arrivals = probes.Sweep, probes.Arrivals{Process: probes.Constant, MaxConcurrency: 1}
		spec.Sweep.Rates, spec.SLOs = []float64{0.25, 2}, sweepSpec(1).SLOs
		run := sweepRun(t, context.Background(), runner, spec)
		if len(run.Steps) != 2 || !run.Steps[0].Passed || !run.Steps[1].Aborted || run.Steps[1].Summary.Distribution(probes.TTFT).Max > 0.11 {
			t.Fatalf("steps %+v", run.Steps)
		}
		if rate, _ := run.Capacity.Rate.Get(); rate <= 0.25 || rate >= 2 {
			t.Errorf("capacity %v, want between the two rates", run.Capacity)
		}
	})
}

func sweepRun(t *testing.T, ctx context.Context, runner *Runner, spec probes.Spec) *probes.Run {
	t.Helper()
	return runner.Run(ctx, fakeTarget("vllm"), spec, &loadgen.Progress{}, Hooks{})
}

// A sweep that is cut says so, and moves no result.
func TestSweepIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := smallEngine(t, 1, nil)
		defer runner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		spec := sweepSpec(1)
		spec.Sweep.Rates = []float64{5, 10, 15}
		run := runner.Run(ctx, fakeTarget("sglang"), spec, &loadgen.Progress{}, Hooks{})
		if run.Result != probes.RunAborted || run.Complete || run.Capacity.End != probes.SweepCut || len(run.Steps) != 2 {
			t.Errorf("%s after %d steps, %+v; want it aborted in the second", run.Result, len(run.Steps), run.Capacity)
		}
	})
}

// A target that refuses everything has no capacity, and that is a result.
func TestSweepOfARefusingTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := smallEngine(t, 1, func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: fakellm.Unavailable}} })
		defer runner.Close()
		spec := sweepSpec(1)
		spec.Sweep.Rates = []float64{5, 10}
		run := runner.Run(context.Background(), fakeTarget("sglang"), spec, &loadgen.Progress{}, Hooks{})
		if run.Result != probes.RunFailed || run.Verdict.State != probes.Fail || len(run.Steps) != 1 || run.Capacity.Rate.IsKnown() {
			t.Errorf("%s, %+v, %d steps, %+v; want a failed run after the first step", run.Result, run.Verdict, len(run.Steps), run.Capacity)
		}
	})
}

// What stands for a pair holds the curve and not the requests behind it.
func TestTrackerKeepsTheCurve(t *testing.T) {
	tr := newTracker(time.Now)
	spec := sweepSpec(1)
	tr.replace([]config.Pair{{Target: fakeTarget("sglang"), Spec: spec}}, nil, nil)
	run := &probes.Run{Target: fakeTarget("sglang"), Spec: spec, Result: probes.RunSuccess, Capacity: probes.Capacity{Rate: probes.Known(7.0)},
		Steps: []probes.Step{{Rate: 7, Records: make([]probes.Record, 3), Warmup: make([]probes.Record, 2)}}}
	tr.finished(pairKey{"t", "capacity"}, run)
	s := tr.snapshot(nil)[0]
	if s.Result == nil || len(s.Result.Steps) != 1 || s.Result.Steps[0].Rate != 7 || s.Result.Steps[0].Records != nil || s.Result.Steps[0].Warmup != nil ||
		s.Last.Steps[0].Records != nil || s.Result.Capacity != run.Capacity {
		t.Errorf("result %+v", s.Result)
	}
	if len(run.Steps[0].Records) != 3 {
		t.Error("the run itself has lost its records")
	}
}
