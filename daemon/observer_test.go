package daemon

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// served runs a handler that may be changed on the way and counts the pages that
// are asked for.
type served struct {
	handler atomic.Pointer[http.Handler]
	metrics atomic.Int64
	asked   atomic.Int64 // pages of any kind
}

func (s *served) set(h http.Handler) { s.handler.Store(&h) }

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.asked.Add(1)
		if r.URL.Path == "/metrics" {
			s.metrics.Add(1)
		}
	}
	(*s.handler.Load()).ServeHTTP(w, r)
}

func newServed(t *testing.T, h http.Handler) (*served, *Runner) {
	t.Helper()
	s := &served{}
	s.set(h)
	listener, dial := fakellm.NewPipeListener()
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return s, &Runner{UserAgent: "inferbeat/test", Dial: dial}
}

func engineOf(t *testing.T, c fakellm.Config) *fakellm.Engine {
	t.Helper()
	if c.Model == "" {
		c.Model = "m"
	}
	c.MeanOutputTokens = 1_000_000
	e, err := fakellm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The accept length of a run is the one that the engine had, exactly.
func TestAcceptLengthOfTheServer(t *testing.T) {
	for backend, engine := range map[string]string{
		"vllm": fakellm.VLLM, "vllm-chat": fakellm.VLLM, "sglang": fakellm.SGLang, "sglang-oai": fakellm.SGLang,
	} {
		t.Run(backend, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := engineOf(t, fakellm.Config{Engine: engine, Speculation: fakellm.Speculation{DraftTokens: 3, AcceptLength: 2.8}})
				_, runner := newServed(t, e.Handler())
				defer runner.Close()
				spec := loadSpec()
				spec.Warmup = probes.Warmup{Requests: 10} // counted by the engine, and no part of the result
				var warm fakellm.Stats
				warmed := 0
				run := runner.Run(context.Background(), fakeTarget(backend), spec, nil, Hooks{Record: func(_ string, r *probes.Record) {
					if warmed++; r.Warmup && warmed == 10 {
						warm = e.Stats()
					}
				}})
				s, truth := &run.Summary, e.Stats()
				if warm.Finished != 10 || s.Completed != 100 {
					t.Fatalf("warm-up %d of 10, %d of 100 completed: %s", warm.Finished, s.Completed, run.Error)
				}
				steps := float64(truth.VerifySteps - warm.VerifySteps)
				want := float64(truth.VerifiedTokens-warm.VerifiedTokens) / steps
				if got, _ := s.AcceptLength.Get(); !near(got, want) || s.AcceptSource != probes.AcceptCounters {
					t.Errorf("accept length %v from %q, want %v from counters", s.AcceptLength, s.AcceptSource, want)
				}
				if engine == fakellm.SGLang {
					return // it has no counters of drafts
				}
				ratio := float64(truth.AcceptedTokens-warm.AcceptedTokens) / float64(truth.DraftTokens-warm.DraftTokens)
				if got, _ := s.Server.AcceptanceRatio.Get(); !near(got, ratio) {
					t.Errorf("acceptance ratio %v, want %v", s.Server.AcceptanceRatio, ratio)
				}
				for i, got := range s.Server.PerPosition {
					if want := float64(truth.AcceptedPerPosition[i]-warm.AcceptedPerPosition[i]) / steps; !near(got, want) {
						t.Errorf("position %d is accepted %v of the time, want %v", i, got, want)
					}
				}
				if len(s.Server.PerPosition) != 3 {
					t.Errorf("%d positions, want 3", len(s.Server.PerPosition))
				}
			})
		})
	}
}

// Six requests at a time on a batch of two: four wait, as the page says each second.
func TestQueueOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM, MaxBatch: 2, DecodeBase: 20 * time.Millisecond, KVTokens: 1000})
		s, runner := newServed(t, e.Handler())
		defer runner.Close()
		spec := loadSpec()
		spec.Arrivals, spec.Requests = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 6}, 60
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		server := &run.Summary.Server
		// A page a second, the first after one, none once the last request has ended.
		seconds := int((run.Summary.Duration - 1) / time.Second)
		if server.Queue.N != seconds || server.Running.N != seconds || seconds < 10 {
			t.Errorf("%d and %d samples in %v", server.Queue.N, server.Running.N, run.Summary.Duration)
		}
		if server.Queue.Max != 4 || server.Running.Max != 2 || server.Queue.Mean < 3 || server.Queue.Mean > 4 {
			t.Errorf("queue %+v, running %+v; want at most 4 and 2", server.Queue, server.Running)
		}
		if server.KVUsage.N != seconds || server.KVUsage.Max <= 0.128 || server.KVUsage.Max > 0.33 {
			t.Errorf("KV usage %+v: two sequences of 64 to 165 tokens in 1000", server.KVUsage)
		}
		if got := s.metrics.Load(); got != int64(seconds)+2 {
			t.Errorf("%d pages were read, want %d and one before and after", got, seconds)
		}
		if got, _ := server.Requests.Get(); got != 60 || server.TTFT.N != 60 {
			t.Errorf("the server counted %d requests and %d first tokens, want 60", got, server.TTFT.N)
		}
		// Nothing is between client and engine but a pipe.
		if excess, ok := run.Summary.TTFTExcess().Get(); !ok || !near(excess, 0) {
			t.Errorf("client TTFT exceeds the server's by %v, want 0", run.Summary.TTFTExcess())
		}
	})
}

// A second run of the same prompts finds them in the cache, by the server's count
// alone: its answers do not tell.
func TestPrefixCacheOfTheServer(t *testing.T) {
	for backend, engine := range map[string]string{"vllm": fakellm.VLLM, "sglang-oai": fakellm.SGLang} {
		synctest.Test(t, func(t *testing.T) {
			e := engineOf(t, fakellm.Config{Engine: engine, Cache: fakellm.PrefixCache{Blocks: 100000}})
			_, runner := newServed(t, e.Handler())
			defer runner.Close()
			spec := loadSpec()
			spec.Workload.Cache = probes.CacheWarm
			first := runner.Run(context.Background(), fakeTarget(backend), spec, nil, Hooks{})
			before := e.Stats()
			second := runner.Run(context.Background(), fakeTarget(backend), spec, nil, Hooks{})
			after := e.Stats()
			if got := first.Summary.CacheHitRatio(); got != probes.Known(0.0) && engine == fakellm.VLLM {
				t.Errorf("%s: hit ratio of new prompts %v, want 0", backend, got)
			}
			want := float64(after.CachedTokens-before.CachedTokens) / float64(after.PromptTokens-before.PromptTokens)
			got, ok := second.Summary.CacheHitRatio().Get()
			if !ok || !near(got, want) || want < 0.5 || second.Summary.CachedTokens.IsKnown() {
				t.Errorf("%s: hit ratio of known prompts %v, want %v", backend, second.Summary.CacheHitRatio(), want)
			}
			if tiers := second.Summary.Server.PrefixCache.Tiers; len(tiers) != 1 || !near(tiers["device"], want) {
				t.Errorf("%s: tiers %v, want all on the device", backend, tiers)
			}
		})
	}
}

// A cold run whose prompts share the head of a chat template with what came
// before is suspect by the server's count alone.
func TestColdRunThatHitTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM, Cache: fakellm.PrefixCache{BlockTokens: 1, Blocks: 100000}})
		_, runner := newServed(t, e.Handler())
		defer runner.Close()
		spec := loadSpec()
		spec.Workload.InputTokens = 16
		run := runner.Run(context.Background(), fakeTarget("vllm-chat"), spec, nil, Hooks{})
		codes := codesOf(run.Validity.Reasons)
		if run.Validity.State != probes.Suspect || !slices.Equal(codes, []string{verdict.CacheHitOnCold}) {
			t.Errorf("validity %+v, hit ratio %v; want suspect for the cache", run.Validity, run.Summary.CacheHitRatio())
		}
	})
}

func codesOf(reasons []probes.Reason) []string {
	var codes []string
	for _, r := range reasons {
		codes = append(codes, r.Code)
	}
	return codes
}

// Another version answers from the middle of the run on, and counts from 0.
func TestServerReplacedDuringTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		next  fakellm.Config
		state probes.ValidityState
		codes []string
	}{
		"restarted": {fakellm.Config{Engine: fakellm.VLLM}, probes.Suspect, []string{verdict.ServerRestarted}},
		"upgraded":  {fakellm.Config{Engine: fakellm.VLLM, Version: "0.19.0"}, probes.Invalid, []string{verdict.FingerprintChanged, verdict.ServerRestarted}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, next := engineOf(t, fakellm.Config{Engine: fakellm.VLLM}), engineOf(t, tt.next)
				s, runner := newServed(t, first.Handler())
				defer runner.Close()
				time.AfterFunc(7*time.Second, func() { s.set(next.Handler()) })
				run := runner.Run(context.Background(), fakeTarget("vllm"), loadSpec(), nil, Hooks{})
				if run.Validity.State != tt.state || !slices.Equal(codesOf(run.Validity.Reasons), tt.codes) {
					t.Errorf("validity %+v, want %s for %v", run.Validity, tt.state, tt.codes)
				}
				if server := &run.Summary.Server; !server.Restarted || server.Requests.IsKnown() || server.Running.N == 0 {
					t.Errorf("server %+v: want gauges and no differences", server)
				}
				if run.Facts.Version != "0.18.0" || run.Facts.Engine != "vllm" {
					t.Errorf("facts %+v, want those of before", run.Facts)
				}
			})
		})
	}
}

// Two replicas take turns under one address. The first change looks like a
// restart; that the first one comes back shows that it was none.
func TestReplicasUnderOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replica := func(seed int) http.Handler {
			h := engineOf(t, fakellm.Config{Engine: fakellm.SGLang, ServerInfo: map[string]any{"random_seed": seed}}).Handler()
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/metrics" { // no counters: only the facts can tell
					http.NotFound(w, r)
					return
				}
				h.ServeHTTP(w, r)
			})
		}
		replicas := []http.Handler{replica(1), replica(2)}
		s, runner := newServed(t, replicas[0])
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 20
		var suspected []bool
		for i := range 5 {
			s.set(replicas[i%2])
			time.AfterFunc(time.Second, func() { s.set(replicas[(i+1)%2]) })
			run := runner.Run(context.Background(), fakeTarget("sglang"), spec, nil, Hooks{})
			suspected = append(suspected, slices.Contains(codesOf(run.Validity.Reasons), verdict.ServerRestarted))
		}
		if want := []bool{true, false, false, false, false}; !slices.Equal(suspected, want) {
			t.Errorf("restart suspected: %v, want %v", suspected, want)
		}
	})
}

// A run that could not be carried out still says what served the target last.
func TestFactsOutliveARunThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM})
		_, runner := newServed(t, e.Handler())
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 2
		target := fakeTarget("vllm")
		runner.Run(context.Background(), target, spec, nil, Hooks{})
		spec.FlushCache = true // which this server refuses
		run := runner.Run(context.Background(), target, spec, nil, Hooks{})
		if run.Result != probes.RunFailed || run.Facts.Version != "0.18.0" {
			t.Errorf("result %s with facts %+v, want a failed run and version 0.18.0", run.Result, run.Facts)
		}
	})
}

// A target without pages is measured all the same, and not asked again and again.
func TestTargetWithoutPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM})
		s, runner := newServed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.NotFound(w, r)
				return
			}
			e.Handler().ServeHTTP(w, r)
		}))
		defer runner.Close()
		target := fakeTarget("vllm")
		target.Model = "m"
		run := runner.Run(context.Background(), target, loadSpec(), nil, Hooks{})
		if run.Result != probes.RunSuccess || run.Validity.State != probes.Valid || run.Summary.Server.Known() {
			t.Errorf("result %s, validity %+v, server %+v; want a valid run and a silent server", run.Result, run.Validity, run.Summary.Server)
		}
		if got := s.metrics.Load(); got != 2 {
			t.Errorf("/metrics was asked for %d times, want once before and once after", got)
		}
	})
}

// A page that hangs holds up neither the measurement nor, for long, its end.
func TestPageThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM})
		var starts []time.Duration
		var mu sync.Mutex
		began := time.Now()
		_, runner := newServed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" && time.Since(began) > 3500*time.Millisecond {
				mu.Lock()
				starts = append(starts, time.Since(began))
				mu.Unlock()
				<-r.Context().Done()
				return
			}
			e.Handler().ServeHTTP(w, r)
		}))
		defer runner.Close()
		run := runner.Run(context.Background(), fakeTarget("vllm"), loadSpec(), &loadgen.Progress{}, Hooks{})
		took := time.Since(began)
		if run.Result != probes.RunSuccess || run.Validity.State != probes.Valid || run.Summary.Server.Running.N != 3 {
			t.Errorf("result %s, validity %+v, %d samples; want a valid run and the 3 samples before the page hung", run.Result, run.Validity, run.Summary.Server.Running.N)
		}
		if lag := run.Summary.Distribution(probes.SendLag).Max; lag != 0 {
			t.Errorf("requests left up to %v s late", lag)
		}
		// The next request follows when the last was given up, a second later. The very
		// last one is the look after the run.
		mu.Lock()
		defer mu.Unlock()
		for i, at := range starts[:len(starts)-1] {
			if want := time.Duration(4+i) * time.Second; at != want {
				t.Errorf("request %d for the page came at %v, want %v", i, at, want)
			}
		}
		// The last look gives the page up after a second; everything else answers.
		if end := run.End.Sub(began); took != end+time.Second {
			t.Errorf("the run ended after %v and was returned after %v, want a second later", end, took)
		}
	})
}

// Stopping does not wait for a page.
func TestCutRunLeavesNoWatchBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM})
		_, runner := newServed(t, e.Handler())
		defer runner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 4500*time.Millisecond)
		defer cancel()
		began := time.Now()
		run := runner.Run(ctx, fakeTarget("vllm"), loadSpec(), nil, Hooks{})
		if took := time.Since(began); took != 4500*time.Millisecond || run.Result != probes.RunAborted || run.Summary.Server.Running.N != 4 {
			t.Errorf("after %v: %s with %d samples, want aborted after 4.5s with 4", took, run.Result, run.Summary.Server.Running.N)
		}
	})
}

// A continuous probe reads pages every five minutes, however often it runs, and
// its result holds what the server did in that time.
func TestContinuousProbeLooksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.VLLM, Speculation: fakellm.Speculation{DraftTokens: 3, AcceptLength: 2.8}})
		s, runner := newServed(t, e.Handler())
		defer runner.Close()
		spec := loadSpec()
		spec.Kind, spec.Requests, spec.Window = probes.Canary, 1, probes.Window{MinSamples: 100, MaxAge: 6 * time.Hour}
		target := fakeTarget("vllm")
		target.Model = "m"
		var w window
		var result *probes.Result
		var before, after fakellm.Stats
		for i := range 25 { // at 0 s, 30 s … 720 s
			run := runner.Run(context.Background(), target, spec, nil, Hooks{})
			if run.Facts.Version != "0.18.0" {
				t.Fatalf("run %d has facts %+v", i, run.Facts)
			}
			switch i {
			case 10:
				before = e.Stats()
			case 20:
				after = e.Stats()
			}
			result = w.add(run, time.Now())
			time.Sleep(30*time.Second - time.Since(run.Start))
		}
		if got := s.metrics.Load(); got != 3 {
			t.Errorf("the page was read %d times in 12 minutes, want 3", got)
		}
		want := float64(after.VerifiedTokens-before.VerifiedTokens) / float64(after.VerifySteps-before.VerifySteps)
		server := &result.Summary.Server
		if got, _ := result.Summary.AcceptLength.Get(); !near(got, want) || result.Summary.AcceptSource != probes.AcceptCounters || server.Span != 5*time.Minute {
			t.Errorf("accept length %v from %q over %v, want %v over the last five minutes", result.Summary.AcceptLength, result.Summary.AcceptSource, server.Span, want)
		}
		if got, _ := server.Requests.Get(); got != 10 {
			t.Errorf("the server counted %d requests, want 10", got)
		}
		// What was said too long ago is said no more.
		old := w.lastLook(&probes.Run{}, w.seen.Add(serverMaxAge+1))
		if old.Known() {
			t.Errorf("server %+v after its time", old)
		}
	})
}

// Facts that could not be read this time do not part a run from its baseline.
func TestFingerprintOutlivesASilentPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, fakellm.Config{Engine: fakellm.SGLang})
		s, runner := newServed(t, e.Handler())
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 2
		first := runner.Run(context.Background(), fakeTarget("sglang"), spec, nil, Hooks{})
		s.set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/server_info" || r.URL.Path == "/metrics" {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			e.Handler().ServeHTTP(w, r)
		}))
		second := runner.Run(context.Background(), fakeTarget("sglang"), spec, nil, Hooks{})
		if first.Fingerprint != second.Fingerprint || first.Facts.DType != "bfloat16" {
			t.Errorf("fingerprints %s and %s of facts %+v and %+v, want one", first.Fingerprint, second.Fingerprint, first.Facts, second.Facts)
		}
		s.set(engineOf(t, fakellm.Config{Engine: fakellm.SGLang, Version: "0.6.0"}).Handler())
		third := runner.Run(context.Background(), fakeTarget("sglang"), spec, nil, Hooks{})
		if third.Fingerprint != first.Fingerprint || third.Facts.Version != "0.6.0" {
			t.Errorf("fingerprint %s of version %s, want that of the version before: %s", third.Fingerprint, third.Facts.Version, first.Fingerprint)
		}
		s.set(engineOf(t, fakellm.Config{Engine: fakellm.SGLang, ServerInfo: map[string]any{"quantization": "fp8"}}).Handler())
		fourth := runner.Run(context.Background(), fakeTarget("sglang"), spec, nil, Hooks{})
		if fourth.Fingerprint == first.Fingerprint {
			t.Errorf("fp8 has the fingerprint of bfloat16: %s", fourth.Fingerprint)
		}
	})
}

// SGLang shows its keys among its launch arguments. Nothing that leaves a run
// holds them.
func TestKeysOfTheServerDoNotLeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "sk-do-not-leak"
		e := engineOf(t, fakellm.Config{Engine: fakellm.SGLang, APIKey: key})
		_, runner := newServed(t, e.Handler())
		defer runner.Close()
		target, spec := fakeTarget("sglang"), loadSpec()
		target.Connection.APIKey, spec.Requests = key, 5
		run := runner.Run(context.Background(), target, spec, nil, Hooks{})
		if run.Facts.DType != "bfloat16" || run.Summary.Completed != 5 {
			t.Fatalf("facts %+v, %d completed: want a server that let us in", run.Facts, run.Summary.Completed)
		}
		line, err := jsonl.Encode(run, jsonl.Options{Details: true})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := report.Text(&text, run); err != nil {
			t.Fatal(err)
		}
		if all := fmt.Sprintf("%s %s %+v", line, text.String(), run); strings.Contains(all, "do-not-leak") {
			t.Error("the server's key is in what is written of the run")
		}
	})
}

// What an answer tells of the server's own work is the run's, for the engines that tell
// it and for no other.
func TestTimingsOfAnswers(t *testing.T) {
	for backend, told := range map[string]bool{"llamacpp": true, "ollama": true, "vllm": false, "tgi": false} {
		synctest.Test(t, func(t *testing.T) {
			_, runner := scripted(t, func(c *fakellm.Config) { c.Engine = twins[backend].engine })
			defer runner.Close()
			got := runner.Run(context.Background(), fakeTarget(backend), loadSpec(), nil, Hooks{}).Summary.Timings
			want := probes.ServerTimings{}
			if told {
				// First tokens after 100 to 199 ms, then 100 gaps of 20 ms.
				want = probes.ServerTimings{
					Prefill: probes.ServerMean{N: 100, Mean: 0.1495}, Decode: probes.ServerMean{N: 100, Mean: 2}, DecodeRate: probes.Known(50.5),
				}
			}
			wantSame(t, backend, got, want)
		})
	}
}
