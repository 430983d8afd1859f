package jsonl

import (
	"math"

	"github.com/inferbeat/inferbeat/probes"
)

// Formats of a line.
const (
	FormatSGLang = "sglang" // bench_serving's keys, and ours under "inferbeat"
	FormatVLLM   = "vllm"   // those of `vllm bench serve`, and nothing else
)

// Formats lists them in the order they are documented.
var Formats = []string{FormatSGLang, FormatVLLM}

// vllmLine has the keys of `vllm bench serve --save-result` in the order in which
// it writes them. Unknown is null where that tool writes 0. Its itl is one sample
// per chunk, which is our chunk gap.
type vllmLine struct {
	Date           *string `json:"date"`
	EndpointType   string  `json:"endpoint_type"`
	Backend        string  `json:"backend"`
	Label          *string `json:"label"`
	ModelID        *string `json:"model_id"`
	TokenizerID    *string `json:"tokenizer_id"`
	NumPrompts     int     `json:"num_prompts"`
	RequestRate    any     `json:"request_rate"`
	Burstiness     number  `json:"burstiness"`
	MaxConcurrency *int    `json:"max_concurrency"`

	Duration          number   `json:"duration"`
	Completed         int      `json:"completed"`
	Failed            int      `json:"failed"`
	TotalInput        optional `json:"total_input_tokens"`
	TotalOutput       optional `json:"total_output_tokens"`
	RequestThroughput *number  `json:"request_throughput"`
	RequestGoodput    *number  `json:"request_goodput"`
	OutputThroughput  *number  `json:"output_throughput"`
	TotalThroughput   *number  `json:"total_token_throughput"`

	*vllmDetails

	MaxOutputTokensPerSec *number `json:"max_output_tokens_per_s"`
	MaxConcurrentRequests int     `json:"max_concurrent_requests"`

	ttftMilliseconds
	tpotMilliseconds
	itlMilliseconds
	e2elMilliseconds

	AcceptanceRate   *number `json:"spec_decode_acceptance_rate,omitempty"`
	AcceptanceLength *number `json:"spec_decode_acceptance_length,omitempty"`
}

// vllmDetails are that tool's arrays in request order, in seconds.
type vllmDetails struct {
	InputLens      []optional  `json:"input_lens"`
	OutputLens     []optional  `json:"output_lens"`
	TTFTs          []*number   `json:"ttfts"`
	ITLs           [][]float64 `json:"itls"`
	StartTimes     []*number   `json:"start_times"`
	GeneratedTexts []string    `json:"generated_texts"`
	Errors         []string    `json:"errors"`
}

func newVLLMLine(run *probes.Run, o Options) *vllmLine {
	s, a := &run.Summary, run.Spec.Arrivals
	l := &vllmLine{
		EndpointType: run.Target.Backend, Backend: run.Target.Backend, Label: text(o.Tag), ModelID: text(run.Target.Model),
		TokenizerID: text(run.Spec.Workload.Tokenizer), NumPrompts: s.Requests,
		RequestRate: requestRate(a), Burstiness: burstiness(a), MaxConcurrency: positive(a.MaxConcurrency),
		Duration: number(s.Duration.Seconds()), Completed: s.Completed, Failed: s.Failed,
		TotalInput: s.InputTokens, TotalOutput: s.OutputTokens, RequestThroughput: known(s.RequestThroughput),
		RequestGoodput: known(s.Goodput), OutputThroughput: known(s.OutputThroughput), TotalThroughput: known(s.TotalThroughput),
		MaxOutputTokensPerSec: known(s.PeakOutputThroughput), MaxConcurrentRequests: s.PeakConcurrency,
		AcceptanceRate: known(s.Server.AcceptanceRatio), AcceptanceLength: known(s.AcceptLength),
	}
	if !run.End.IsZero() {
		l.Date = new(run.End.Format("20060102-150405"))
	}
	l.ttftMilliseconds = ttftMilliseconds(inMilliseconds(s.Distribution(probes.TTFT)))
	l.tpotMilliseconds = tpotMilliseconds(inMilliseconds(s.Distribution(probes.TPOT)))
	l.itlMilliseconds = itlMilliseconds(inMilliseconds(s.Distribution(probes.ChunkGap)))
	l.e2elMilliseconds = e2elMilliseconds(inMilliseconds(s.Distribution(probes.E2E)))
	if o.Details {
		d, ours := newDetails(run), newOurDetails(run)
		l.vllmDetails = &vllmDetails{d.InputLens, d.OutputLens, d.TTFTs, ours.ChunkGaps, ours.Sent, d.GeneratedTexts, d.Errors}
	}
	return l
}

// burstiness is the shape of the gaps as vLLM counts it: 1 is Poisson, and inf is
// constant.
func burstiness(a probes.Arrivals) number {
	switch a.Process {
	case probes.Constant:
		return number(math.Inf(1))
	case probes.Gamma:
		return number(1 / (a.CV * a.CV))
	}
	return 1
}
