package probes

import "time"

// Chunk is one token event: a complete event with at least one non-empty piece
// of generated output (text, reasoning, tool call).
type Chunk struct {
	// At is when the last byte of the event came: the kernel's receive stamp, or
	// where there is none when the read that brought it returned.
	At time.Duration
	// Tokens is how many tokens it brought; 0 is unknown.
	Tokens int32
}

// Receiving is how promptly this process read what came. A late reader shows here
// first; it spoils the dates of tokens only where the kernel does not stamp.
type Receiving struct {
	Reads   int // of the socket that brought bytes
	Stamped int // of those, dated by the kernel's receive stamp
	// LagSum and LagMax add up how long after their stamp the stamped reads returned,
	// and hold the longest.
	LagSum, LagMax time.Duration
	Late           int // of the stamped, more than LateRead after their stamp
}

// LateRead is from when on a read counts as late.
const LateRead = time.Millisecond

// ConnectionTrace is how a request got its connection. Phases that did not
// happen are unknown.
type ConnectionTrace struct {
	Reused       bool
	DNS          Optional[time.Duration]
	Connect      Optional[time.Duration]
	TLS          Optional[time.Duration]
	Protocol     string // "HTTP/1.1", "HTTP/2.0"
	LocalAddress string
	Redirects    int
}

// Setup is the time spent on name, connection and handshake together.
func (c ConnectionTrace) Setup() time.Duration {
	var sum time.Duration
	for _, phase := range []Optional[time.Duration]{c.DNS, c.Connect, c.TLS} {
		d, _ := phase.Get()
		sum += d
	}
	return sum
}

// Record is what one request left behind. Instants are offsets from the run's start.
type Record struct {
	ID     string
	Index  int
	Warmup bool
	// Definitions are those that the latencies below follow.
	Definitions Definitions
	Outcome     Outcome
	// Error is for people: bounded in length, free of secrets, never a label.
	Error      string
	StatusCode int
	Flags      Flags

	// Planned is when a trace wanted the request; Due is later when an earlier turn
	// of its session had not been answered by then.
	Planned Optional[time.Duration]
	Session string        // of a trace, empty for none
	Due     time.Duration // when the schedule wanted it
	Sent    time.Duration // when it was handed to the transport; meaningless if dropped

	Connection  ConnectionTrace
	FirstByte   Optional[time.Duration] // first byte of the answer, headers included
	FirstToken  Optional[time.Duration] // first token event of any channel
	FirstAnswer Optional[time.Duration] // first token event that is not reasoning
	LastToken   Optional[time.Duration]
	End         Optional[time.Duration] // the end mark, or whatever ended the exchange

	Receiving Receiving

	// Chunks are the token events in order of arrival.
	Chunks []Chunk

	RequestedInput  int // tokens of text
	Images          int // sent beside the text
	RequestedOutput int
	ExactOutput     bool              // the length was forced (ignore_eos)
	PromptTokens    Optional[int]     // server's count
	CachedTokens    Optional[int]     // server's count, part of PromptTokens
	OutputTokens    Optional[int]     // see OutputSource
	OutputSource    TokenSource       // empty when OutputTokens is unknown
	ReasoningTokens Optional[int]     // server's count, part of OutputTokens
	AcceptLength    Optional[float64] // tokens per speculative verify step of this request
	// ServerPrefill and ServerDecode are how long the server says it worked on the
	// prompt and on the answer, by its own clock; time in its queue is in neither.
	ServerPrefill Optional[time.Duration]
	ServerDecode  Optional[time.Duration]
	Text          string // generated text, kept on request only
	// RetokenizedOutput is our own count of the answer's text, made after the run by a
	// local tokenizer. It stands beside the server's: the text of what was generated
	// need not have as many tokens as were generated.
	RetokenizedOutput Optional[int]
	FinishReason      string
	RetryAfter        Optional[time.Duration]
}

// latencySample reports whether the record may add to the latency series of
// successful requests.
func (r *Record) latencySample() bool { return r.Outcome == OK && !r.Flags.Has(ShortOutput) }

// TTFT is the time from sent to the first token event, connection set-up
// included. It is known for successful streamed requests, and for requests that
// one of our timeouts ended after a token had come.
func (r *Record) TTFT() Optional[time.Duration] { return r.sinceToFirst(r.Sent) }

// TTFTFromDue is the time from due to the first token event: what a user of an
// open system feels.
func (r *Record) TTFTFromDue() Optional[time.Duration] { return r.sinceToFirst(r.Due) }

// TTFTAfterConnect is TTFT without DNS, connect and TLS.
func (r *Record) TTFTAfterConnect() Optional[time.Duration] {
	return r.sinceToFirst(r.Sent + r.Connection.Setup())
}

func (r *Record) sinceToFirst(from time.Duration) Optional[time.Duration] {
	first, ok := r.FirstToken.Get()
	if !ok || r.Flags.Has(NotStreamed) || (r.Outcome != OK && !r.Outcome.Timeout()) {
		return Optional[time.Duration]{}
	}
	return Known(first - from)
}

// TimeToFirstAnswer is the time from sent to the first token event that is not
// reasoning.
func (r *Record) TimeToFirstAnswer() Optional[time.Duration] {
	first, ok := r.FirstAnswer.Get()
	if !ok || r.Flags.Has(NotStreamed) || r.Outcome != OK {
		return Optional[time.Duration]{}
	}
	return Known(first - r.Sent)
}

// E2E is the time from sent to the last token event of a successful request; for
// an answer that was not streamed, to its end.
func (r *Record) E2E() Optional[time.Duration] { return r.sinceToLast(r.Sent) }

// E2EFromDue is E2E from the due time, waiting in the client included.
func (r *Record) E2EFromDue() Optional[time.Duration] { return r.sinceToLast(r.Due) }

func (r *Record) sinceToLast(from time.Duration) Optional[time.Duration] {
	if !r.latencySample() {
		return Optional[time.Duration]{}
	}
	last, ok := r.LastToken.Get()
	if r.Flags.Has(NotStreamed) || r.Definitions == SGLangDefinitions {
		last, ok = r.End.Get()
	}
	if !ok {
		return Optional[time.Duration]{}
	}
	return Known(last - from)
}

// TPOT is (last - first token event) / (N - tokens of the first chunk), where
// the first chunk holds one token unless the server says otherwise. It needs a
// successful streamed answer of at least two tokens. Other definitions: (E2E - TTFT)
// / (N - 1).
func (r *Record) TPOT() Optional[time.Duration] {
	n, counted := r.OutputTokens.Get()
	if !counted || n < 2 || len(r.Chunks) == 0 || !r.latencySample() || r.Flags.Has(NotStreamed) {
		return Optional[time.Duration]{}
	}
	if r.Definitions != OwnDefinitions {
		ttft, began := r.TTFT().Get()
		e2e, ended := r.E2E().Get()
		if !began || !ended {
			return Optional[time.Duration]{}
		}
		return Known((e2e - ttft) / time.Duration(n-1))
	}
	first := 1
	if k := int(r.Chunks[0].Tokens); k > 0 {
		first = k
	}
	if n <= first || len(r.Chunks) < 2 {
		return Optional[time.Duration]{}
	}
	span := r.Chunks[len(r.Chunks)-1].At - r.Chunks[0].At
	return Known(span / time.Duration(n-first))
}

// TokensPerChunkKnown reports whether every chunk after the first says how many
// tokens it holds, so that inter-token latencies are per token. By other definitions
// an inter-token latency may be per chunk, which asks for no tokens.
func (r *Record) TokensPerChunkKnown() bool {
	if len(r.Chunks) < 2 {
		return false
	}
	if r.Definitions != OwnDefinitions {
		return true
	}
	for _, c := range r.Chunks[1:] {
		if c.Tokens <= 0 {
			return false
		}
	}
	return true
}

// AppendITL appends the inter-token latencies of a successful streamed request
// in seconds: a gap before a chunk of k tokens counts as k gaps of 1/k of it.
// It appends nothing when a chunk's tokens are unknown; see AppendChunkGaps. The
// appended values always add up to last - first token event.
func (r *Record) AppendITL(dst []float64) []float64 {
	if !r.latencySample() || r.Flags.Has(NotStreamed) || !r.TokensPerChunkKnown() {
		return dst
	}
	for i := 1; i < len(r.Chunks); i++ {
		k := max(1, int(r.Chunks[i].Tokens)) // 0 is a whole chunk by other definitions
		gap := (r.Chunks[i].At - r.Chunks[i-1].At).Seconds() / float64(k)
		for range k {
			dst = append(dst, gap)
		}
	}
	return dst
}

// AppendChunkGaps appends the gaps between token events of a successful streamed
// request in seconds, one for each chunk after the first, whatever it holds.
func (r *Record) AppendChunkGaps(dst []float64) []float64 {
	if !r.latencySample() || r.Flags.Has(NotStreamed) {
		return dst
	}
	for i := 1; i < len(r.Chunks); i++ {
		dst = append(dst, (r.Chunks[i].At - r.Chunks[i-1].At).Seconds())
	}
	return dst
}

// ZeroGaps counts the gaps between token events, and those of them that are zero
// because both events have one stamp.
func (r *Record) ZeroGaps() (zero, gaps int) {
	for i := 1; i < len(r.Chunks); i++ {
		if r.Chunks[i].At == r.Chunks[i-1].At {
			zero++
		}
	}
	return zero, max(len(r.Chunks)-1, 0)
}

// Lag is how late the request was sent.
func (r *Record) Lag() time.Duration { return r.Sent - r.Due }
