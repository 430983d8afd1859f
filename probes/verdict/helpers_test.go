package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

const ms = time.Millisecond

func known[T comparable](v T) probes.Optional[T] { return probes.Known(v) }

// sound is a run without a doubt: 200 requests, one each 100 ms, sent 1 ms late
// and answered with 128 tokens in 400 ms.
func sound() *probes.Run {
	run := &probes.Run{
		Target: probes.Target{Name: "llama", Model: "llama-3", Backend: "vllm-chat", Environment: probes.Staging},
		Spec: probes.Spec{
			Probe: "nightly", Kind: probes.Load, Requests: 200,
			Arrivals: probes.Arrivals{Process: probes.Constant, Rate: 10},
			Warmup:   probes.Warmup{Requests: 1},
			Schedule: probes.Schedule{Cron: "0 2 * * *"},
			Workload: probes.Workload{
				Dataset: "random", InputTokens: 1000, OutputTokens: 128, Tokenizer: "server", Cache: probes.CacheCold,
				Sampling: probes.Sampling{IgnoreEOS: true, Stream: true},
			},
		},
		Complete: true,
		Result:   probes.RunSuccess,
		Warmup:   []probes.Record{{Outcome: probes.OK, Warmup: true, Sent: -2 * time.Second, End: known(-time.Second)}},
	}
	for i := range 200 {
		due := time.Duration(i) * 100 * ms
		run.Records = append(run.Records, answered(due, due+ms, 400*ms))
	}
	run.Summary = probes.Summary{
		Duration: 20 * time.Second, Requests: 200, Sent: 200, Completed: 200,
		Outcomes: map[probes.Outcome]int{probes.OK: 200}, Flags: map[string]int{},
		Latency: map[probes.Signal]probes.Distribution{
			probes.TTFT: steady(200, 0.1), probes.TTFTFromDue: steady(200, 0.101),
			probes.TPOT: steady(200, 0.003), probes.E2E: steady(200, 0.4),
		},
		InputTokens: known(200_000), InputSource: probes.TokensServer,
		OutputTokens: known(200 * 128), OutputSource: probes.TokensServer,
		Concurrency: known(4.0), PeakConcurrency: 4, SuccessRatio: known(1.0),
		Input: probes.InputLengths{N: 200, MeanRequested: 1000, MeanServer: 1000},
	}
	return run
}

func answered(due, sent, length time.Duration) probes.Record {
	return probes.Record{
		Outcome: probes.OK, Due: due, Sent: sent,
		FirstToken: known(sent + length/4), LastToken: known(sent + length), End: known(sent + length),
		Chunks:         []probes.Chunk{{At: sent + length/4, Tokens: 64}, {At: sent + length, Tokens: 64}},
		RequestedInput: 1000, RequestedOutput: 128, ExactOutput: true,
		PromptTokens: known(1000), CachedTokens: known(0),
		OutputTokens: known(128), OutputSource: probes.TokensServer,
	}
}

func steady(n int, x float64) probes.Distribution {
	return probes.Distribution{N: n, Mean: x, Min: x, P50: x, P90: x, P95: x, P99: x, Max: x}
}

func codesOf(reasons []probes.Reason) []string {
	got := make([]string, len(reasons))
	for i, r := range reasons {
		got[i] = r.Code
	}
	return got
}

func wantCodes(t *testing.T, got []probes.Reason, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, codesOf(got), cmp.Transformer("nil_is_empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("reasons (-want +got):\n%s\n%v", diff, got)
	}
}

func rows(table []Row) []string {
	var got []string
	for _, r := range table {
		got = append(got, r.Code+" "+r.State)
	}
	return got
}

func containsRow(table []Row, code, state string) bool {
	return slices.ContainsFunc(table, func(r Row) bool { return r.Code == code && r.State == state })
}
