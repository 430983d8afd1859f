package truth

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Stream is what really happened to one answer. Instants are offsets on the
// server's clock.
type Stream struct {
	// Ordinal counts requests from 1; the text of the first token is "r" and the
	// ordinal, so that a client which keeps only text can be matched too.
	Ordinal   int
	RequestID string // X-Request-Id of the request; empty when it had none
	Received  time.Duration
	// Due and Sent have an entry for each token event: when it was to be written,
	// and the instant before it was. Events of one write share both.
	Due, Sent []time.Duration
	// Cut: the client left, or the server was closed, before all had been written;
	// Sent is then shorter than Due.
	Cut bool
}

// TTFT is the time from the request to the first token event, false without one.
func (s *Stream) TTFT() (time.Duration, bool) {
	if len(s.Sent) == 0 {
		return 0, false
	}
	return s.Sent[0] - s.Received, true
}

// write is a piece of an answer that leaves at once.
type write struct {
	due    time.Duration
	end    int // of its bytes in the answer
	events int
}

// stream is an answer on its way. The pacer owns it from add to done.
type stream struct {
	Stream
	id     string
	to     *sender
	answer []byte // all bytes after the head
	writes []write
	next   int           // index of the write that is due
	begun  bool          // that write has its stamp
	from   int           // first byte that has not left
	at     time.Duration // when to try next: the write's due time, later after a stall
	failed error
	done   chan struct{}
}

// newStream encodes the whole answer and its schedule.
func newStream(c Config, a ask, received time.Duration, to *sender) *stream {
	events := (a.tokens + c.TokensPerEvent - 1) / c.TokensPerEvent
	st := &stream{
		Stream: Stream{Ordinal: a.ordinal, RequestID: a.requestID, Received: received, Due: make([]time.Duration, 0, events), Sent: make([]time.Duration, 0, events)},
		id:     "cmpl-" + strconv.Itoa(a.ordinal), to: to, done: make(chan struct{}),
		writes: make([]write, 0, (events+c.EventsPerWrite-1)/c.EventsPerWrite),
	}
	e := encoder{model: c.Model, id: st.id, ask: a}
	random := rand.New(rand.NewPCG(c.Seed, uint64(a.ordinal)))
	due := received + c.TTFT
	for first := 0; first < events; first += c.EventsPerWrite {
		n := min(c.EventsPerWrite, events-first)
		for event := first; event < first+n; event++ {
			e.tokens(min((event+1)*c.TokensPerEvent, a.tokens))
			st.Due = append(st.Due, due)
		}
		if first+n == events {
			e.finish()
		}
		st.writes = append(st.writes, write{due: due, end: len(e.out), events: n})
		gap := float64(c.ITL) * float64(c.EventsPerWrite)
		due += time.Duration(gap * (1 + c.Jitter*(2*random.Float64()-1)))
	}
	st.answer, st.at = e.out, st.writes[0].due
	return st
}

// encoder appends events in their chunks.
type encoder struct {
	ask       ask
	model, id string
	out       []byte
	sent      int // tokens so far
}

// tokens appends the event that brings the answer to so many tokens.
func (e *encoder) tokens(upTo int) {
	text := strings.Repeat(" tok", upTo-e.sent)
	if e.sent == 0 {
		text = "r" + strconv.Itoa(e.ask.ordinal) + strings.Repeat(" tok", upTo-1)
	}
	e.sent = upTo
	reason := "null"
	if upTo == e.ask.tokens {
		reason = `"length"`
	}
	usage := ""
	if e.ask.runningUsage {
		usage = "," + e.usage()
	}
	if e.ask.chat {
		e.event(fmt.Sprintf(`{"id":"%s","object":"chat.completion.chunk","created":1,"model":%q,"choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":%s}]%s}`, e.id, e.model, text, reason, usage))
		return
	}
	e.event(fmt.Sprintf(`{"id":"%s","object":"text_completion","created":1,"model":%q,"choices":[{"index":0,"text":"%s","logprobs":null,"finish_reason":%s}]%s}`, e.id, e.model, text, reason, usage))
}

// finish appends what follows the last token event.
func (e *encoder) finish() {
	if e.ask.usage {
		object := "text_completion"
		if e.ask.chat {
			object = "chat.completion.chunk"
		}
		e.event(fmt.Sprintf(`{"id":"%s","object":"%s","created":1,"model":%q,"choices":[],%s}`, e.id, object, e.model, e.usage()))
	}
	e.event("[DONE]")
	e.out = append(e.out, "0\r\n\r\n"...)
}

func (e *encoder) usage() string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, e.ask.promptWords, e.ask.promptWords+e.sent, e.sent)
}

// event appends one event in a chunk of its own.
func (e *encoder) event(data string) {
	e.out = strconv.AppendInt(e.out, int64(len("data: ")+len(data)+len("\n\n")), 16)
	e.out = append(e.out, "\r\ndata: "...)
	e.out = append(e.out, data...)
	e.out = append(e.out, "\n\n\r\n"...)
}
