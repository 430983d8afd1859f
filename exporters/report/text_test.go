package report

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var update = flag.Bool("update", false, "write the golden files")

const ms = time.Millisecond

func text(t *testing.T, run *probes.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// capturedBlock cuts the result block out of what bench_serving printed.
func capturedBlock(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	const title = "\n============ Serving Benchmark Result ============\n"
	i := strings.Index(string(data), title)
	if i < 0 {
		t.Fatalf("%s holds no result block", file)
	}
	return string(data)[i:]
}

// runOf reads the values of a captured block back into a run.
func runOf(t *testing.T, block string) *probes.Run {
	t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(block) {
		if label, value, ok := strings.Cut(line, ":  "); ok {
			values[label] = strings.TrimSpace(value)
		}
	}
	number := func(label string) float64 {
		f, err := strconv.ParseFloat(values[label], 64)
		if err != nil {
			t.Fatalf("value of %q: %v", label, err)
		}
		return f
	}
	known := func(label string) probes.Optional[float64] { return probes.Known(number(label)) }
	whole := func(label string) probes.Optional[int] { return probes.Known(int(number(label))) }
	series := func(name string) probes.Distribution {
		d := probes.Distribution{N: 1}
		for stat, field := range map[string]*float64{"Mean": &d.Mean, "Median": &d.P50, "P90": &d.P90, "P95": &d.P95, "P99": &d.P99} {
			*field = number(stat+" "+name+" (ms)") / 1e3
		}
		return d
	}
	itl := series("ITL")
	itl.Max = number("Max ITL (ms)") / 1e3
	run := &probes.Run{
		Target: probes.Target{Backend: values["Backend"]},
		Spec:   probes.Spec{Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: number("Traffic request rate")}},
		Summary: probes.Summary{
			Completed: int(number("Successful requests")), Duration: time.Duration(number("Benchmark duration (s)") * 1e9),
			InputTokens: whole("Total input tokens"), OutputTokens: whole("Total generated tokens"), OutputSource: probes.TokensServer,
			RequestThroughput: known("Request throughput (req/s)"), InputThroughput: known("Input token throughput (tok/s)"),
			OutputThroughput: known("Output token throughput (tok/s)"), PeakOutputThroughput: known("Peak output token throughput (tok/s)"),
			PeakConcurrency: int(number("Peak concurrent requests")), TotalThroughput: known("Total token throughput (tok/s)"), Concurrency: known("Concurrency"),
			Latency: map[probes.Signal]probes.Distribution{probes.E2E: series("E2E Latency"), probes.TTFT: series("TTFT"), probes.TPOT: series("TPOT"), probes.ITL: itl},
		},
	}
	if values["Max request concurrency"] != "not set" {
		run.Spec.Arrivals.MaxConcurrency = int(number("Max request concurrency"))
	}
	return run
}

// The block is bench_serving's to the byte, except that tokens which nobody
// tokenised again are not known to us.
func TestBlockIsThatOfBenchServing(t *testing.T) {
	for _, file := range []string{"sgl_chat_mid_rate4.console.txt", "sgl_oai_mid_c8.console.txt"} {
		t.Run(file, func(t *testing.T) {
			block := capturedBlock(t, file)
			got := text(t, runOf(t, block))
			var want strings.Builder
			for line := range strings.Lines(block) {
				if strings.HasPrefix(line, "Total generated tokens (retokenized):") {
					line = "Total generated tokens (retokenized):    n/a       \n"
				}
				want.WriteString(line)
			}
			if d := cmp.Diff(want.String(), got[:min(len(want.String()), len(got))]); d != "" {
				t.Errorf("block (-bench_serving +ours):\n%s", d)
			}
		})
	}
}

func dist(n int, mean float64) probes.Distribution {
	return probes.Distribution{N: n, Mean: mean, P50: mean * 0.9, P90: mean * 1.5, P95: mean * 2, P99: mean * 3, Max: mean * 4}
}

// goodRun has every row filled.
func goodRun() *probes.Run {
	run := &probes.Run{
		ID: "0195f3c2-7a10-7c3e-9b1a-0d5a4b1c2d3e", Result: probes.RunSuccess, Complete: true,
		Target: probes.Target{Name: "llama-staging", Environment: probes.Staging, Backend: "vllm-chat", Model: "llama-3"},
		Spec: probes.Spec{
			Probe: "nightly", Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8, MaxConcurrency: 64},
			SLOs: []probes.SLO{{Name: "fast", Objective: 0.99}, {Name: "steady", Objective: 0.995}},
		},
		Summary: probes.Summary{
			Duration: 25 * time.Second, Requests: 200, Sent: 198, Completed: 190, Failed: 6, Cancelled: 2, Dropped: 2, Warmup: 10,
			Outcomes:    map[probes.Outcome]int{probes.OK: 190, probes.HTTP5xx: 4, probes.TimeoutIdle: 2, probes.Cancelled: 2, probes.Dropped: 2},
			InputTokens: probes.Known(97_280), InputSource: probes.TokensServer, CachedTokens: probes.Known(1_024),
			OutputTokens: probes.Known(24_320), OutputSource: probes.TokensClient, RetokenizedOutput: probes.Known(24_320), UnknownOutputs: 1,
			RequestThroughput: probes.Known(7.6), InputThroughput: probes.Known(3891.2), OutputThroughput: probes.Known(972.8), TotalThroughput: probes.Known(4864.0),
			PeakOutputThroughput: probes.Known(1400.0), Concurrency: probes.Known(12.345), PeakConcurrency: 31,
			OfferedRate: probes.Known(8.0), AchievedRate: probes.Known(7.99), SuccessRatio: probes.Known(190.0 / 196),
			Goodput: probes.Known(7.2), SLOAttainment: map[string]float64{"fast": 0.918367},
			Input: probes.InputLengths{N: 190, MeanRequested: 512, MeanServer: 512.4, MaxDeviation: 0.0098, Off: 12}, AcceptLength: probes.Known(2.75), AcceptSource: probes.AcceptCounters,
			Client: probes.Client{
				ReceiveLag: probes.Distribution{N: 190, P50: 0.00004, P99: 0.0031, Max: 0.0042}, Stamped: probes.Known(0.9995), Coalesced: probes.Known(0.002),
				Process: probes.Process{
					CPUShare: probes.Known(0.31), GCPauses: probes.Known(4), GCPauseTotal: probes.Known(410 * time.Microsecond), GCPauseMax: probes.Known(130 * time.Microsecond),
					ThrottledPeriods: probes.Known(2), Throttled: probes.Known(15 * time.Millisecond), DescriptorRoom: probes.Known(1048000), PortRoom: probes.Known(28001),
				},
			},
			Steady: probes.SteadyState{Start: probes.Known(1600 * ms), End: probes.Known(24875 * ms), Completed: 184,
				RequestThroughput: probes.Known(7.905), OutputThroughput: probes.Known(1011.8)},
			Server: probes.ServerSummary{
				AcceptLength: probes.Known(2.75), AcceptSource: probes.AcceptCounters, AcceptanceRatio: probes.Known(0.58333), PerPosition: []float64{0.9, 0.6, 0.25},
				PrefixCache: probes.PrefixCache{HitRatio: probes.Known(0.012), Tiers: map[string]float64{"host": 0.002, "device": 0.01}},
				Queue:       probes.Level{N: 25, Mean: 0.48, Max: 6}, Running: probes.Level{N: 25, Mean: 12.2, Max: 31}, KVUsage: probes.Level{N: 25, Mean: 0.1234, Max: 0.4},
				Preemptions: probes.Known(0), Requests: probes.Known(196), TTFT: probes.ServerMean{N: 196, Mean: 0.2375}, TPOT: probes.ServerMean{N: 24_000, Mean: 0.0124},
			},
			Timings: probes.ServerTimings{Prefill: probes.ServerMean{N: 190, Mean: 0.2125}, Decode: probes.ServerMean{N: 189, Mean: 1.25}, DecodeRate: probes.Known(102.4)},
			Latency: map[probes.Signal]probes.Distribution{
				probes.E2E: dist(190, 1.6), probes.TTFT: dist(192, 0.25), probes.TTFTFromDue: dist(192, 0.2525), probes.TPOT: dist(99, 0.0125),
				probes.ITL: dist(100, 0.012), probes.ChunkGap: dist(12_000, 0.024), probes.SendLag: dist(198, 0.0004), probes.ConnectSetup: dist(64, 0.003),
			},
		},
		Facts: probes.ServerFacts{
			Engine: "sglang", Version: "0.5.10", Model: "llama-3", Weights: "meta-llama/Llama-3-8B", Quantization: "fp8", DType: "bfloat16",
			TensorParallel: probes.Known(4), DataParallel: probes.Known(2), AttentionBackend: "fa3", SpeculativeAlgorithm: "EAGLE3", SpeculativeTokens: probes.Known(4),
			PrefixCaching: probes.Known(true), ContextLength: probes.Known(8192), Incarnation: "917",
		},
		Validity: probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "two_counts",
			Text: "the server and one tokenisation of the text disagree about the output by 3.1 %, which is more than the 2 % that special tokens explain"}}},
		Verdict: probes.Verdict{State: probes.Fail, Reasons: []probes.Reason{
			{Code: "limit_ttft_p99", Text: "p99 of ttft is 750 ms, the limit is 500 ms"}, {Code: "slo_fast", Text: "91.8 % of requests were good, 99 % are promised"}}},
		Traps: []probes.Reason{{Code: "single_run", Text: "one run is an anecdote: publish the median of three or more"}},
	}
	for i := range 200 {
		r := probes.Record{Index: i, Outcome: probes.OK}
		r.Connection.Reused = i >= 64
		switch {
		case i == 100:
			r.Flags |= probes.StaleReuse
		case i >= 198:
			r.Outcome = probes.Dropped
		}
		run.Records = append(run.Records, r)
	}
	return run
}

// repeatedRun is the median of three runs, one of which was no result.
func repeatedRun() *probes.Run {
	run := goodRun()
	for i, role := range []string{"repeat 1", "repeat 2", "repeat 3"} {
		part := goodRun()
		part.Summary.OutputThroughput = probes.Known(900 + 50*float64(i))
		run.Parts = append(run.Parts, probes.Part{Role: role, Run: part})
	}
	run.Parts[2].Run.Validity.State = probes.Invalid
	run.Summary.Repeats = probes.Repeats{Runs: 3, Used: 2, Spread: []probes.Spread{
		{Name: "output_throughput", N: 2, Median: 925, Min: 900, Max: 950}, {Name: "ttft_p99_seconds", N: 2, Median: 0.75, Min: 0.5, Max: 1}}}
	run.Summary.Offline = probes.Offline{Throughput: probes.Known(1200.0), Source: "bench_offline_throughput", Gap: probes.Known(0.2292)}
	return run
}

// nightlyRun is slower than the nights before it.
func nightlyRun() *probes.Run {
	run := goodRun()
	night := time.Date(2026, 11, 2, 2, 0, 0, 0, time.UTC)
	run.Changes = []probes.Change{
		{
			Metric: probes.MetricTPOTp50, State: probes.ChangeWorse, Effect: probes.Known(0.2142), Low: probes.Known(0.1803), High: probes.Known(0.2497),
			Baseline: probes.Known(0.02), BaselineRuns: 45, BaselineAt: night.AddDate(0, -2, 0), Onset: night, SmallestStep: probes.Known(0.031),
			Reasons: []probes.Reason{
				{Code: probes.ReasonRegression, Text: "tpot_p50 is 21.4 % (18.0 to 25.0 %) worse than its baseline since 2026-11-02 (major)"},
				{Code: probes.ReasonVersionChanged, Text: "between the last night before and the first night of it: version 0.9.1 -> 0.9.2"},
			},
		},
		{Metric: probes.MetricSuccessRatio, State: probes.ChangeNone, Effect: probes.Known(0.0), Baseline: probes.Known(1.0), BaselineRuns: 45},
		{Metric: probes.MetricAcceptLength, State: probes.ChangeLearning, Reasons: []probes.Reason{{Code: probes.ReasonTooFewNights, Text: "not printed"}}},
	}
	return run
}

// comparedRun is two pairs, of which one can be believed.
func comparedRun() *probes.Run {
	run := goodRun()
	for _, role := range []string{"pair 1 A", "pair 1 B", "pair 2 B", "pair 2 A"} {
		run.Parts = append(run.Parts, probes.Part{Role: role, Run: goodRun()})
	}
	run.Parts[2].Run.Validity.State = probes.Invalid
	run.Target.BaseURL = "http://b:8000"
	run.Comparison = &probes.Comparison{Pairs: 2, Used: 1, Reference: probes.Target{Name: "reference", Environment: probes.Production, Backend: "vllm", BaseURL: "http://a:8000"},
		Metrics: []probes.Contrast{
			{Name: "ttft_p50_seconds", N: 1, Reference: 0.2, Candidate: 0.21, Difference: 0.01, Ratio: probes.Known(1.05)},
			{Name: "output_throughput", N: 1, Reference: 0, Candidate: 900, Difference: 900},
			{Name: "success_ratio", N: 1, Reference: 1, Candidate: 0.5, Difference: -0.5, Ratio: probes.Known(0.5)},
		}}
	run.Validity = probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: "pairs_lost", Text: "only 1 of 2 pairs can be believed"}}}
	run.Verdict = probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{{Code: "not_judged", Text: "shown, not judged"}}}
	return run
}

// gatedRun is a comparison that was judged.
func gatedRun() *probes.Run {
	run := comparedRun()
	run.Parts = nil
	run.Validity = probes.Validity{State: probes.Valid}
	c := run.Comparison
	c.Pairs, c.Used, c.Answer = 5, 5, probes.GateRegressed
	p := func(x float64) probes.Optional[float64] { return probes.Known(x) }
	c.Judgements = []probes.Judgement{
		{Metric: probes.MetricTPOTp50, Answer: probes.GateRegressed, Primary: true, N: 5, Margin: 0.05,
			Effect: p(0.1961), Low: p(0.165), High: p(0.2277), Surely: p(0.1538), P: p(2. / 252), Detectable: p(0.023)},
		{Metric: probes.MetricOutputThroughput, Answer: probes.GatePass, HigherBetter: true, N: 5, Margin: 0.05,
			Effect: p(-0.0104), Low: p(-0.02), High: p(0.001), P: p(0.1)},
		{Metric: probes.MetricSuccessRatio, Answer: probes.GatePass, Primary: true, HigherBetter: true, Points: true, N: 5, Margin: 0.005,
			Effect: p(0), Low: p(0), High: p(0.002), P: p(1)},
		{Metric: probes.MetricAcceptLength, Answer: probes.GateUndecided, N: 0, Margin: 0.05},
		{Metric: probes.MetricPrefixCacheHits, Answer: probes.GatePass, HigherBetter: true, Points: true, N: 5, Reference: 0.12, Candidate: 0.56, Margin: 0.05, Effect: p(-0.44)},
	}
	worse := probes.Reason{Code: "worse", Text: "tpot_p50 is 19.61 % worse"}
	c.Grounds = probes.Grounds{Reasons: []probes.Reason{worse}, Pairs: 5, Looks: []int{5, 7, 10}, Alpha: 0.02, Unverified: []string{"accelerator", "dtype"},
		Controls: []probes.Control{
			{Variable: "attention_backend", Reference: "fa3", Candidate: "triton", Varied: true}, {Variable: "quantization", Candidate: "fp8"},
		}}
	run.Verdict = probes.Verdict{State: probes.Fail, Reasons: c.Grounds.Reasons}
	return run
}

// batchRun is one batch, imported.
func batchRun() *probes.Run {
	run := goodRun()
	run.Source, run.Origin, run.Records = "bench_one_batch", "r.jsonl:7", nil
	run.Summary.Batch = probes.BatchTimes{Size: 16, Prefill: probes.Known(0.25), DecodeStep: probes.Known(0.02), Latency: probes.Known(1.25),
		InputThroughput: probes.Known(1600.0), StepThroughput: probes.Known(800.0), OverallThroughput: probes.Known(480.0)}
	return run
}

// failedRun could send, and nothing succeeded.
func failedRun() *probes.Run {
	run := &probes.Run{
		ID: "0195f3c2-0000-7c3e-9b1a-0d5a4b1c2d3e", Result: probes.RunFailed, Complete: true,
		Target: probes.Target{Name: "dead", Environment: probes.Production, Backend: "sglang"},
		Spec:   probes.Spec{Probe: "canary", Arrivals: probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}},
		Summary: probes.Summary{
			Duration: 12 * ms, Requests: 5, Sent: 5, Failed: 5, Outcomes: map[probes.Outcome]int{probes.Connect: 5},
			RequestThroughput: probes.Known(0.0), SuccessRatio: probes.Known(0.0), OfferedRate: probes.Known(math.Inf(1)), PeakConcurrency: 5,
			Latency: map[probes.Signal]probes.Distribution{probes.SendLag: dist(5, 0.0001)},
		},
		Validity: probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: "no_success", Text: "no request succeeded"}}},
		Verdict:  probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{{Code: "invalid", Text: "there is no number to judge"}}},
	}
	for range 5 {
		run.Records = append(run.Records, probes.Record{Outcome: probes.Connect})
	}
	return run
}

// interruptedRun was ended by Ctrl-C before its first answer was complete.
func interruptedRun() *probes.Run {
	return &probes.Run{
		ID: "0195f3c2-1111-7c3e-9b1a-0d5a4b1c2d3e", Result: probes.RunAborted,
		Target: probes.Target{Name: "slow", Environment: probes.Development, Backend: "openai-chat", Model: "m"},
		Spec:   probes.Spec{Probe: "run", Arrivals: probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 2}},
		Summary: probes.Summary{
			Duration: 3500 * ms, Requests: 2, Sent: 2, Cancelled: 2, Outcomes: map[probes.Outcome]int{probes.Cancelled: 2},
			OutputTokens: probes.Known(17), OutputSource: probes.TokensServer, PeakConcurrency: 2,
			Latency: map[probes.Signal]probes.Distribution{probes.SendLag: dist(2, 0)},
		},
		Records:  []probes.Record{{Outcome: probes.Cancelled}, {Outcome: probes.Cancelled}},
		Validity: probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: "incomplete", Text: "the run was cut short"}}},
		Verdict:  probes.Verdict{State: probes.Unknown},
	}
}

// impossibleRun could not even be started.
func impossibleRun() *probes.Run {
	return &probes.Run{
		ID: "0195f3c2-2222-7c3e-9b1a-0d5a4b1c2d3e", Result: probes.RunFailed, Error: "open workload chat: read sharegpt.json: no such file or directory; name a file that the daemon can read",
		Target: probes.Target{Name: "a", Environment: probes.Staging, Backend: "vllm"},
		Spec:   probes.Spec{Probe: "nightly", Arrivals: probes.Arrivals{Process: probes.Constant, Rate: 0.5}},
	}
}

func TestGolden(t *testing.T) {
	for name, run := range map[string]*probes.Run{
		"good": goodRun(), "repeats": repeatedRun(), "nights": nightlyRun(), "comparison": comparedRun(), "gate": gatedRun(), "batch": batchRun(), "all_failed": failedRun(), "interrupted": interruptedRun(), "impossible": impossibleRun(),
		"sweep": sweptRun(), "sweep_cut": cutSweep(),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".golden.txt")
			got := text(t, run)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; write it with -update and read it", err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("report (-golden +got); -update writes it:\n%s", d)
			}
		})
	}
}

func TestSampleMarks(t *testing.T) {
	lines := map[string]string{}
	for line := range strings.Lines(text(t, goodRun())) {
		if label, value, ok := strings.Cut(line, " samples (n):"); ok {
			lines[label] = strings.TrimSpace(value)
		}
	}
	want := map[string]string{"E2E": "190", "TTFT": "192", "TPOT": "99         ! p99 needs 100", "ITL": "100", "Chunk gap": "12000"}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("samples (-want +got):\n%s", d)
	}
}

// What is not known must not look like a measured zero.
func TestNothingUnknownIsZero(t *testing.T) {
	for line := range strings.Lines(text(t, &probes.Run{})) {
		label, value, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		switch value = strings.TrimSpace(value); {
		case strings.Contains(label, "(ms)"), strings.Contains(label, "/s)"), strings.Contains(label, "(%)"), strings.Contains(label, "token"):
			if label != "Traffic request rate" && label != "Requests with unknown output tokens" && value != "n/a" {
				t.Errorf("%s of a run without requests = %q, want n/a", label, value)
			}
		}
	}
}

func TestRequestRatePrintsAsPython(t *testing.T) {
	tests := map[float64]string{4: "4.0", 0.5: "0.5", 1000: "1000.0", 1.0 / 3: "0.3333333333333333", math.Inf(1): "inf"}
	for rate, want := range tests {
		if got := requestRate(probes.Arrivals{Process: probes.Poisson, Rate: rate}); got != want {
			t.Errorf("rate %g prints as %q, want %q", rate, got, want)
		}
	}
}

func TestSentencesWrap(t *testing.T) {
	var p printer
	p.sentence(strings.TrimSpace(strings.Repeat("word ", 40)))
	for i, line := range strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n") {
		want := "  "
		if i == 0 {
			want = "- "
		}
		if !strings.HasPrefix(line, want+"word") || len(line) > textWidth {
			t.Errorf("line %d = %q, want %q first and at most %d columns", i, line, want, textWidth)
		}
	}
	if got := strings.Count(p.String(), "word"); got != 40 {
		t.Errorf("%d words came out, want 40", got)
	}
}

// A server chooses its model name and its error texts.
func TestNothingMovesTheCursor(t *testing.T) {
	run := goodRun()
	run.Target.Model = "llama\x1b[2J\r"
	run.Error = "server said \x1b]0;owned\a and\x00 more"
	got := text(t, run)
	if i := strings.IndexFunc(got, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
		t.Errorf("report holds the control character %q", got[i])
	}
	if !strings.Contains(got, "llama\uFFFD[2J\uFFFD") {
		t.Error("report lacks the model with its control characters replaced")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteErrorIsReturned(t *testing.T) {
	if err := Text(brokenWriter{}, goodRun()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Text = %v, want %v", err, os.ErrClosed)
	}
}
