package daemon

import (
	"context"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// scripted is an engine whose every latency is written down.
func scripted(t *testing.T, change func(*fakellm.Config)) (*fakellm.Engine, *Runner) {
	t.Helper()
	var ttfts []time.Duration
	for i := range 100 {
		ttfts = append(ttfts, time.Duration(100+i)*time.Millisecond)
	}
	// The dialects of OpenAI cannot force a length, so answers must not end early.
	c := fakellm.Config{Model: "m", Engine: fakellm.VLLM, MeanOutputTokens: 1_000_000, Script: &fakellm.Script{TTFT: ttfts, ITL: 20 * time.Millisecond}}
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
	return engine, &Runner{UserAgent: "inferbeat/test", Dial: dial}
}

func loadSpec() probes.Spec {
	return probes.Spec{
		Probe: "load", Kind: probes.Load, Requests: 100,
		Arrivals: probes.Arrivals{Process: probes.Constant, Rate: 10},
		Workload: probes.Workload{
			Name: "w", Dataset: "random", InputTokens: 64, OutputTokens: 101, RangeRatio: 1, Tokenizer: "server",
			Cache: probes.CacheCold, Seed: 1, Sampling: probes.Sampling{IgnoreEOS: true, Stream: true},
		},
	}
}

func fakeTarget(backend string) probes.Target {
	return probes.Target{Name: "t", Pool: "t", Environment: probes.Staging, Backend: backend, BaseURL: "http://10.0.0.1:8000",
		Connection: probes.Connection{Policy: probes.ConnectionReuse}}
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

// twin is the simulated engine that speaks a dialect, and what its wire can say.
type twin struct {
	engine string
	model  string // as the server names it; empty: it does not
	// prompts: the server can be asked to count a prompt before it is sent.
	prompts bool
	// answers: the server reports how many tokens an answer has.
	answers bool
}

var twins = map[string]twin{
	"sglang":            {fakellm.SGLang, "m", true, true},
	"sglang-native":     {fakellm.SGLang, "m", true, true},
	"sglang-oai":        {fakellm.SGLang, "m", true, true},
	"sglang-oai-chat":   {fakellm.SGLang, "m", true, true},
	"vllm":              {fakellm.VLLM, "m", true, true},
	"vllm-chat":         {fakellm.VLLM, "m", true, true},
	"openai":            {fakellm.VLLM, "m", true, true},
	"openai-chat":       {fakellm.VLLM, "m", true, true},
	"lmdeploy":          {fakellm.LMDeploy, "m", true, true},
	"lmdeploy-chat":     {fakellm.LMDeploy, "m", true, true},
	"tgi":               {fakellm.TGI, "m", true, true},
	"llamacpp":          {fakellm.LlamaCPP, "m", true, true},
	"trtllm-serve":      {fakellm.TRTLLM, "m", false, true},
	"trtllm-serve-chat": {fakellm.TRTLLM, "m", false, true},
	"ollama":            {fakellm.Ollama, "m:latest", false, true},
	"dynamo":            {fakellm.Dynamo, "m", false, true},
	"anthropic":         {fakellm.Anthropic, "m", false, true},
	"openai-responses":  {fakellm.OpenAIResponses, "m", false, true},
	"trt":               {fakellm.Triton, "", false, false},
	"truss":             {fakellm.Truss, "", false, false},
}

// The whole chain, from the workload to the verdict, against a server whose
// truth is written down, in every dialect: every number is exact, not close.
func TestRunMeasuresTheScriptedTruth(t *testing.T) {
	for _, name := range backend.Names() {
		t.Run(name, func(t *testing.T) {
			twin, ok := twins[name]
			if !ok {
				t.Fatalf("no simulated engine speaks %s", name)
			}
			synctest.Test(t, func(t *testing.T) {
				_, runner := scripted(t, func(c *fakellm.Config) { c.Engine = twin.engine })
				defer runner.Close()
				run := runner.Run(context.Background(), fakeTarget(name), loadSpec(), &loadgen.Progress{}, Hooks{})
				checkTruth(t, run, twin)
			})
		})
	}
}

func checkTruth(t *testing.T, run *probes.Run, twin twin) {
	t.Helper()
	wantValidity := probes.Valid
	if !twin.prompts || !twin.answers {
		wantValidity = probes.Suspect // lengths were estimated, or counts are not known
	}
	if run.Result != probes.RunSuccess || run.Validity.State != wantValidity {
		t.Fatalf("result %s, error %q, validity %+v; want a %s success", run.Result, run.Error, run.Validity, wantValidity)
	}
	s := &run.Summary
	ttft, tpot, itl := s.Distribution(probes.TTFT), s.Distribution(probes.TPOT), s.Distribution(probes.ITL)
	gaps := s.Distribution(probes.ChunkGap)
	type row struct {
		name      string
		got, want float64
	}
	rows := []row{
		{"ttft n", float64(ttft.N), 100},
		{"ttft p50", ttft.P50, 0.1495},
		{"ttft p99", ttft.P99, 0.19801},
		{"ttft mean", ttft.Mean, 0.1495},
		{"chunk gap n", float64(gaps.N), 100 * 100},
		{"chunk gap p99", gaps.P99, 0.020},
		{"e2e max", s.Distribution(probes.E2E).Max, 0.199 + 2.0},
		{"send lag max", s.Distribution(probes.SendLag).Max, 0},
		// The last request is due at 9.9 s and takes 199 ms and 100 gaps of 20 ms.
		{"duration", s.Duration.Seconds(), 9.9 + 0.199 + 2.0},
	}
	tokens, known := s.OutputTokens.Get()
	if twin.answers {
		rows = append(rows, row{"tpot p99", tpot.P99, 0.020}, row{"itl n", float64(itl.N), 100 * 100}, row{"itl p99", itl.P99, 0.020}, row{"output tokens", float64(tokens), 101 * 100})
		if s.OutputSource != probes.TokensServer {
			t.Errorf("output tokens come from %q, want the server", s.OutputSource)
		}
	} else if tpot.N != 0 || itl.N != 0 || known && tokens != 0 || s.UnknownOutputs != 100 {
		// Nobody counted the tokens, so nothing may be said per token.
		t.Errorf("tpot n %d, itl n %d, output tokens %d, unknown outputs %d; want nothing known of 100", tpot.N, itl.N, tokens, s.UnknownOutputs)
	}
	for _, r := range rows {
		if !near(r.got, r.want) {
			t.Errorf("%s = %v, want %v", r.name, r.got, r.want)
		}
	}
	// Prompts are as long as asked, as the server counts them: its special tokens
	// and its chat template are inside.
	if twin.prompts && (s.Input.N != 100 || s.Input.Off != 0) {
		t.Errorf("%d of %d prompts are not as long as asked (mean %v)", s.Input.Off, s.Input.N, s.Input.MeanServer)
	}
	if run.Target.Model != twin.model {
		t.Errorf("model = %q, want %q, as the server names it", run.Target.Model, twin.model)
	}
}

// Two runs of one workload ask for the same lengths at the same times, and no
// prompt of the second begins like one of the first.
func TestRunsReplayOneTraceWithFreshPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, runner := scripted(t, func(c *fakellm.Config) {
			c.Script, c.Cache, c.CacheReport = nil, fakellm.PrefixCache{Blocks: 100000}, true
		})
		defer runner.Close()
		spec := loadSpec()
		spec.Workload.RangeRatio = 0.25
		spec.Arrivals.Process = probes.Poisson
		first := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		second := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		byIndex := func(r *probes.Run) []probes.Record {
			return slices.SortedFunc(slices.Values(r.Records), func(a, b probes.Record) int { return a.Index - b.Index })
		}
		a, b := byIndex(first), byIndex(second)
		if len(a) != 100 || len(b) != 100 {
			t.Fatalf("%d and %d records, want 100 each", len(a), len(b))
		}
		for i := range a {
			offsetA, offsetB := a[i].Due-a[0].Due, b[i].Due-b[0].Due
			if a[i].RequestedInput != b[i].RequestedInput || a[i].RequestedOutput != b[i].RequestedOutput || offsetA != offsetB {
				t.Fatalf("request %d: %d/%d tokens at %v, then %d/%d at %v", i, a[i].RequestedInput, a[i].RequestedOutput, offsetA, b[i].RequestedInput, b[i].RequestedOutput, offsetB)
			}
			if cached, ok := b[i].CachedTokens.Get(); !ok || cached != 0 {
				t.Fatalf("request %d of the second run hit the prefix cache with %d tokens (reported %v)", i, cached, ok)
			}
		}
		if first.Fingerprint != second.Fingerprint || first.Fingerprint == "" {
			t.Errorf("fingerprints %q and %q, want one", first.Fingerprint, second.Fingerprint)
		}
		if got := engine.Stats().Totals.Received; got != 200 {
			t.Errorf("the engine saw %d requests, want 200", got)
		}
	})
}

// A warm-up is counted apart and uses prompts that the measurement does not.
func TestWarmupIsCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, runner := scripted(t, func(c *fakellm.Config) {
			c.Script, c.Cache, c.CacheReport = nil, fakellm.PrefixCache{Blocks: 100000}, true
		})
		defer runner.Close()
		spec := loadSpec()
		spec.Requests, spec.Warmup = 4, probes.Warmup{Requests: 3}
		var told int
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{Record: func(string, *probes.Record) { told++ }})
		if len(run.Warmup) != 3 || len(run.Records) != 4 || run.Summary.Warmup != 3 || run.Summary.Distribution(probes.TTFT).N != 4 || told != 7 {
			t.Errorf("warm-up %d, measured %d, summary %d and %d, told %d; want 3, 4, 3, 4, 7",
				len(run.Warmup), len(run.Records), run.Summary.Warmup, run.Summary.Distribution(probes.TTFT).N, told)
		}
		if cached := engine.Stats().Totals.CachedTokens; cached != 0 {
			t.Errorf("%d cached tokens: a measured prompt had been seen in the warm-up", cached)
		}
	})
}

// A target that does not answer is a measurement, not an error of the tool.
func TestDeadTargetIsAFailedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: fakellm.Unavailable}} })
		defer runner.Close()
		spec := loadSpec()
		spec.Requests = 5
		run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{})
		if run.Result != probes.RunFailed || run.Summary.Outcomes[probes.HTTP5xx] != 5 || run.Verdict.State != probes.Fail {
			t.Errorf("result %s, outcomes %v, verdict %+v; want a failed run of five http_5xx", run.Result, run.Summary.Outcomes, run.Verdict)
		}
		if n := run.Summary.Distribution(probes.TTFT).N; n != 0 {
			t.Errorf("%d latency samples of requests that were refused", n)
		}
	})
}

// A target that accepts connections and says nothing, not even to the calls
// before the measurement, shows as requests that timed out.
func TestHangingTargetIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, dial := fakellm.NewPipeListener()
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client leave
			<-r.Context().Done()
		})}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		runner := &Runner{UserAgent: "inferbeat/test", Dial: dial}
		defer runner.Close()
		target, spec := fakeTarget("vllm"), loadSpec()
		target.Timeouts.FirstToken, spec.Requests = 10*time.Second, 5
		began := time.Now()
		run := runner.Run(context.Background(), target, spec, nil, Hooks{})
		if run.Result != probes.RunFailed || run.Summary.Outcomes[probes.TimeoutFirstToken] != 5 || run.Error != "" {
			t.Errorf("result %s, outcomes %v, error %q; want a failed run of five timeout_first_token", run.Result, run.Summary.Outcomes, run.Error)
		}
		// The model and the tokenizer were asked once each, for as long as a first
		// token may take, and the server's pages for as long as a look may take.
		if got := run.Start.Sub(began); got != 20*time.Second+lookTime {
			t.Errorf("the preparation took %v, want 22s", got)
		}
	})
}

// Cutting a run keeps what is complete and blames nobody for the rest.
func TestCutRunIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, runner := scripted(t, nil)
		defer runner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5050*time.Millisecond)
		defer cancel()
		run := runner.Run(ctx, fakeTarget("vllm"), loadSpec(), nil, Hooks{})
		s := &run.Summary
		// Requests take 2.1 to 2.2 s: those sent up to 2.9 s have ended by 5.05 s.
		if run.Result != probes.RunAborted || run.Complete || s.Completed+s.Cancelled != 51 || s.Failed != 0 || s.Completed < 25 {
			t.Errorf("result %s complete %v, %d completed, %d cancelled, %d failed; want an aborted run of 51 requests, none failed",
				run.Result, run.Complete, s.Completed, s.Cancelled, s.Failed)
		}
	})
}

// panicking stands for a defect in a probe.
func TestPanicIsAFailedRun(t *testing.T) {
	runner := &Runner{}
	spec := loadSpec()
	var cause any
	run := runner.Run(context.Background(), fakeTarget("vllm"), spec, nil, Hooks{
		Started:  func(string) { panic("boom") },
		Panicked: func(c any) { cause = c },
	})
	if run.Result != probes.RunFailed || !strings.Contains(run.Error, "boom") || cause != "boom" {
		t.Errorf("result %s, error %q, told %v; want a failed run that names the panic", run.Result, run.Error, cause)
	}
	if run.Verdict.State != probes.Unknown || run.Validity.State != probes.Invalid {
		t.Errorf("verdict %s, validity %s; want unknown and invalid", run.Verdict.State, run.Validity.State)
	}
}

// configPair is a configured pair of the fake target.
func configPair(spec probes.Spec) []config.Pair {
	return []config.Pair{{Target: fakeTarget("vllm"), Spec: spec}}
}

// Neither the measurement nor its warm-up begins with a burst of connects, unless
// somebody wants one.
func TestClosedLoopsStartSpread(t *testing.T) {
	spec := loadSpec()
	spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 8}
	for together, want := range map[bool]time.Duration{false: time.Millisecond, true: 0} {
		spec.Arrivals.StartTogether = together
		for name, load := range map[string]loadgen.Load{
			"measured": measuredLoad(spec, nil, nil, 0), "warm-up": warmupLoad(spec, nil, nil, 0), "step of a peak": measuredLoad(spec.PeakStep(8), nil, nil, 0),
		} {
			if load.SlotGap != want {
				t.Errorf("%s, start together %v: got a gap of %v, want %v", name, together, load.SlotGap, want)
			}
		}
	}
}
