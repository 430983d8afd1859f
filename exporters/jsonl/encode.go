package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Options says what a line holds beside the statistics.
type Options struct {
	// Details adds one entry per request: lengths, times, texts, errors. Texts are
	// there only when the spec kept them.
	Details bool
	Tag     string // bench_serving's --tag; empty is null
	Version string // of inferbeat
	// Format is one of [Formats]; empty is the first.
	Format string
}

// number is a float64 in strict JSON: infinities are strings, as vLLM writes
// them, and NaN is null.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	switch f := float64(n); {
	case math.IsInf(f, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-inf"`), nil
	case math.IsNaN(f):
		return []byte("null"), nil
	default:
		return json.Marshal(f)
	}
}

// known wraps a number; unknown is nil and so null.
func known(o probes.Optional[float64]) *number {
	if f, ok := o.Get(); ok {
		return new(number(f))
	}
	return nil
}

// positive is null for 0, which means "not set" in a spec.
func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// text is null for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// line has the keys of bench_serving in the order in which it writes them, then
// ours.
type line struct {
	Tag               *string  `json:"tag"`
	Backend           string   `json:"backend"`
	DatasetName       string   `json:"dataset_name"`
	RequestRate       any      `json:"request_rate"` // a number, the word trace, or null for a sweep
	MaxConcurrency    *int     `json:"max_concurrency"`
	ShareGPTOutputLen *int     `json:"sharegpt_output_len"`
	RandomInputLen    *int     `json:"random_input_len"`
	RandomOutputLen   *int     `json:"random_output_len"`
	RandomRangeRatio  *number  `json:"random_range_ratio"`
	ServerInfo        *string  `json:"server_info"`
	Duration          number   `json:"duration"`
	Completed         int      `json:"completed"`
	TotalInput        optional `json:"total_input_tokens"`
	TotalInputText    optional `json:"total_input_text_tokens"`
	TotalInputVision  int      `json:"total_input_vision_tokens"`
	TotalOutput       optional `json:"total_output_tokens"`
	TotalRetokenized  optional `json:"total_output_tokens_retokenized"`
	RequestThroughput *number  `json:"request_throughput"`
	InputThroughput   *number  `json:"input_throughput"`
	OutputThroughput  *number  `json:"output_throughput"`
	TotalThroughput   *number  `json:"total_throughput"`

	e2eMilliseconds
	ttftMilliseconds
	tpotMilliseconds
	itlMilliseconds
	MaxITL *number `json:"max_itl_ms"`

	Concurrency           *number `json:"concurrency"`
	AcceptLength          *number `json:"accept_length"`
	MaxOutputTokensPerSec *number `json:"max_output_tokens_per_s"`
	MaxConcurrentRequests int     `json:"max_concurrent_requests"`

	*details
	Inferbeat ours `json:"inferbeat"`
}

type optional = probes.Optional[int]

// Lines writes the run as lines: one, and for a sweep one of each step before it.
func Lines(run *probes.Run, o Options) ([]byte, error) {
	var out []byte
	for i := range run.Steps {
		line, err := Encode(run.StepRun(i), o)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	line, err := Encode(run, o)
	if err != nil {
		return nil, err
	}
	return append(append(out, line...), '\n'), nil
}

// Encode writes the run as one line of JSON without a line end.
func Encode(run *probes.Run, o Options) ([]byte, error) {
	var l any = layOut(run, o)
	if o.Format == FormatVLLM {
		l = newVLLMLine(run, o)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		return nil, fmt.Errorf("encode run %s: %w", run.ID, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// layOut makes the line of a run and of its parts.
func layOut(run *probes.Run, o Options) *line {
	l := newLine(run, o)
	if o.Details {
		l.details = newDetails(run)
		l.Inferbeat.Details = newOurDetails(run)
	}
	for _, p := range run.Parts {
		l.Inferbeat.Parts = append(l.Inferbeat.Parts, part{p.Role, layOut(p.Run, o)})
	}
	return l
}

func newLine(run *probes.Run, o Options) *line {
	spec, w, s := &run.Spec, &run.Spec.Workload, &run.Summary
	l := &line{
		Tag: text(o.Tag), Backend: run.Target.Backend, DatasetName: w.Dataset,
		RequestRate: requestRate(spec.Arrivals), MaxConcurrency: positive(spec.Arrivals.MaxConcurrency),
		ShareGPTOutputLen: positive(w.FixedOutputTokens),
		Duration:          number(s.Duration.Seconds()), Completed: s.Completed,
		TotalInput: s.InputTokens, TotalInputText: s.TextTokens(), TotalInputVision: s.ImageTokens.Or(0), TotalOutput: s.OutputTokens, TotalRetokenized: s.RetokenizedOutput,
		RequestThroughput: known(s.RequestThroughput), InputThroughput: known(s.InputThroughput),
		OutputThroughput: known(s.OutputThroughput), TotalThroughput: known(s.TotalThroughput),
		Concurrency: known(s.Concurrency), AcceptLength: known(s.AcceptLength),
		MaxOutputTokensPerSec: known(s.PeakOutputThroughput), MaxConcurrentRequests: s.PeakConcurrency,
		Inferbeat: newOurs(run, o.Version),
	}
	if strings.HasPrefix(w.Dataset, "random") {
		l.RandomInputLen, l.RandomOutputLen = positive(w.InputTokens), positive(w.OutputTokens)
		l.RandomRangeRatio = new(number(w.RangeRatio))
	}
	l.e2eMilliseconds = e2eMilliseconds(inMilliseconds(s.Distribution(probes.E2E)))
	l.ttftMilliseconds = ttftMilliseconds(inMilliseconds(s.Distribution(probes.TTFT)))
	l.tpotMilliseconds = tpotMilliseconds(inMilliseconds(s.Distribution(probes.TPOT)))
	itl := s.Distribution(probes.ITL)
	l.itlMilliseconds = itlMilliseconds(inMilliseconds(itl))
	l.MaxITL = milliseconds(itl.Max, itl.N)
	return l
}

// requestRate is inf in a closed loop too: bench_serving knows it as a burst
// behind a concurrency limit. A sweep as a whole has none.
func requestRate(a probes.Arrivals) any {
	switch {
	case a.Process == probes.FromTrace:
		return "trace"
	case !a.OpenLoop():
		return number(math.Inf(1))
	case a.Rate == 0:
		return nil
	}
	return number(a.Rate)
}

// instant is null for the zero time.
func instant(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.Format(time.RFC3339Nano))
}
