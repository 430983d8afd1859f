package jsonl

import (
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// raw is everything that a result is computed from, without loss, so that the
// shards of a load can be pooled and judged again. [Read] reads it.
type raw struct {
	Spec    probes.Spec        `json:"spec"`
	Facts   probes.ServerFacts `json:"facts"`
	Process probes.Process     `json:"process"`
	Sending sending            `json:"sending"`
	// Records are the measured requests in request order, then those of the warm-up.
	Records []record `json:"records"`
}

// sending is in nanoseconds from the run's start.
type sending struct {
	Start  time.Duration `json:"start"`
	End    time.Duration `json:"end"`
	Window bool          `json:"window"`
}

func newRaw(run *probes.Run) raw {
	r := raw{
		Spec: plain(run.Spec), Facts: run.Facts, Process: run.Summary.Client.Process, Sending: sending(run.Sending),
		Records: make([]record, 0, len(run.Records)+len(run.Warmup)),
	}
	for _, records := range [][]probes.Record{run.Records, run.Warmup} {
		for _, one := range inRequestOrder(records) {
			r.Records = append(r.Records, newRecord(one))
		}
	}
	return r
}

// plain is a spec that JSON can hold and everybody may read. An infinite rate is
// left out, see restored; so are the pinned question, and where the data came from
// and what was merged over each body, which may hold keys.
func plain(s probes.Spec) probes.Spec {
	if math.IsInf(s.Arrivals.Rate, 1) {
		s.Arrivals.Rate = 0
	}
	s.Expect = probes.Expect{}
	s.Workload.URL, s.Workload.Sampling.ExtraBody = "", nil
	return s
}

// restored undoes what plain did to the rate: only arrivals at once have an
// infinite one, and only paced ones a finite one.
func restored(s probes.Spec) probes.Spec {
	if p := s.Arrivals.Process; s.Arrivals.Rate == 0 && (p == probes.Burst || p == probes.ClosedLoop) {
		s.Arrivals.Rate = math.Inf(1)
	}
	return s
}

// record is [probes.Record] in integer nanoseconds from the run's start. The text
// stands in generated_texts.
type record struct {
	ID      string         `json:"id"`
	Index   int            `json:"index"`
	Warmup  bool           `json:"warmup,omitempty"`
	Outcome probes.Outcome `json:"outcome"`
	Error   string         `json:"error,omitempty"`
	Status  int            `json:"status,omitempty"`
	Flags   uint16         `json:"flags,omitempty"` // bits, in the order of the documented names

	Definitions probes.Definitions `json:"definitions,omitempty"`

	Planned instant64     `json:"planned,omitzero"`
	Session string        `json:"session,omitempty"`
	Due     time.Duration `json:"due"`
	Sent    time.Duration `json:"sent"`

	Connection  connection `json:"connection"`
	FirstByte   instant64  `json:"first_byte,omitzero"`
	FirstToken  instant64  `json:"first_token,omitzero"`
	FirstAnswer instant64  `json:"first_answer,omitzero"`
	LastToken   instant64  `json:"last_token,omitzero"`
	End         instant64  `json:"end,omitzero"`
	// Receiving is reads, stamped reads, the sum and the longest of their lags, and how
	// many of them were late.
	Receiving [5]int64 `json:"receiving"`
	// Chunks are pairs of instant and tokens, 0 for unknown.
	Chunks [][2]int64 `json:"chunks,omitempty"`

	RequestedInput  int                      `json:"requested_input,omitempty"`
	Images          int                      `json:"images,omitempty"`
	RequestedOutput int                      `json:"requested_output,omitempty"`
	ExactOutput     bool                     `json:"exact_output,omitempty"`
	PromptTokens    optional                 `json:"prompt_tokens,omitzero"`
	CachedTokens    optional                 `json:"cached_tokens,omitzero"`
	OutputTokens    optional                 `json:"output_tokens,omitzero"`
	OutputSource    probes.TokenSource       `json:"output_source,omitempty"`
	ReasoningTokens optional                 `json:"reasoning_tokens,omitzero"`
	AcceptLength    probes.Optional[float64] `json:"accept_length,omitzero"`
	ServerPrefill   instant64                `json:"server_prefill,omitzero"`
	ServerDecode    instant64                `json:"server_decode,omitzero"`
	Retokenized     optional                 `json:"retokenized_output,omitzero"`
	FinishReason    string                   `json:"finish_reason,omitempty"`
	RetryAfter      instant64                `json:"retry_after,omitzero"`
}

type instant64 = probes.Optional[time.Duration]

type connection struct {
	Reused       bool      `json:"reused,omitempty"`
	DNS          instant64 `json:"dns,omitzero"`
	Connect      instant64 `json:"connect,omitzero"`
	TLS          instant64 `json:"tls,omitzero"`
	Protocol     string    `json:"protocol,omitempty"`
	LocalAddress string    `json:"local_address,omitempty"`
	Redirects    int       `json:"redirects,omitempty"`
}

func newRecord(r *probes.Record) record {
	out := record{
		ID: r.ID, Index: r.Index, Warmup: r.Warmup, Outcome: r.Outcome, Error: r.Error, Status: r.StatusCode, Flags: uint16(r.Flags),
		Definitions: r.Definitions,
		Planned:     r.Planned, Session: r.Session, Due: r.Due, Sent: r.Sent,
		Connection: connection(r.Connection),
		FirstByte:  r.FirstByte, FirstToken: r.FirstToken, FirstAnswer: r.FirstAnswer, LastToken: r.LastToken, End: r.End,
		Receiving:      [5]int64{int64(r.Receiving.Reads), int64(r.Receiving.Stamped), int64(r.Receiving.LagSum), int64(r.Receiving.LagMax), int64(r.Receiving.Late)},
		RequestedInput: r.RequestedInput, Images: r.Images, RequestedOutput: r.RequestedOutput, ExactOutput: r.ExactOutput,
		PromptTokens: r.PromptTokens, CachedTokens: r.CachedTokens, OutputTokens: r.OutputTokens, OutputSource: r.OutputSource,
		ReasoningTokens: r.ReasoningTokens, AcceptLength: r.AcceptLength, ServerPrefill: r.ServerPrefill, ServerDecode: r.ServerDecode,
		Retokenized: r.RetokenizedOutput, FinishReason: r.FinishReason, RetryAfter: r.RetryAfter,
	}
	for _, c := range r.Chunks {
		out.Chunks = append(out.Chunks, [2]int64{int64(c.At), int64(c.Tokens)})
	}
	return out
}

// back is the record again, but for its text.
func (r *record) back() probes.Record {
	out := probes.Record{
		ID: r.ID, Index: r.Index, Warmup: r.Warmup, Outcome: r.Outcome, Error: r.Error, StatusCode: r.Status, Flags: probes.Flags(r.Flags),
		Definitions: r.Definitions,
		Planned:     r.Planned, Session: r.Session, Due: r.Due, Sent: r.Sent,
		Connection: probes.ConnectionTrace(r.Connection),
		FirstByte:  r.FirstByte, FirstToken: r.FirstToken, FirstAnswer: r.FirstAnswer, LastToken: r.LastToken, End: r.End,
		Receiving: probes.Receiving{
			Reads: int(r.Receiving[0]), Stamped: int(r.Receiving[1]),
			LagSum: time.Duration(r.Receiving[2]), LagMax: time.Duration(r.Receiving[3]), Late: int(r.Receiving[4]),
		},
		RequestedInput: r.RequestedInput, Images: r.Images, RequestedOutput: r.RequestedOutput, ExactOutput: r.ExactOutput,
		PromptTokens: r.PromptTokens, CachedTokens: r.CachedTokens, OutputTokens: r.OutputTokens, OutputSource: r.OutputSource,
		ReasoningTokens: r.ReasoningTokens, AcceptLength: r.AcceptLength, ServerPrefill: r.ServerPrefill, ServerDecode: r.ServerDecode,
		RetokenizedOutput: r.Retokenized, FinishReason: r.FinishReason, RetryAfter: r.RetryAfter,
	}
	for _, c := range r.Chunks {
		out.Chunks = append(out.Chunks, probes.Chunk{At: time.Duration(c[0]), Tokens: int32(c[1])})
	}
	return out
}
