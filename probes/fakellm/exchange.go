package fakellm

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// exchange is one request to a generating route and its answer.
type exchange struct {
	e      *Engine
	cfg    *Config
	w      http.ResponseWriter
	r      *http.Request
	ctl    *http.ResponseController
	ask    *ask
	seq    *sequence
	trace  *trace
	faults faults

	out   renderer
	buf   []byte
	timer *time.Timer
	shift time.Duration // stalls so far
	shown int           // tokens handed to the renderer
}

// renderer writes an answer in one wire shape.
type renderer interface {
	// event appends the next n tokens, and whatever the shape puts before the
	// first or into the last of them.
	event(dst []byte, n int, last bool) []byte
	// finish appends what follows the last event. With a failure it reports that
	// instead of a proper end.
	finish(dst []byte, failure string) []byte
	// whole appends the answer to a request that did not ask for a stream.
	whole(dst []byte) []byte
}

// generate serves a generating route.
func (e *Engine) generate(kind route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client left while it was sending
		}
		received, c := time.Now(), e.config()
		t := e.open(r.URL.Path, received)
		x := &exchange{e: e, cfg: c, w: w, r: r, ctl: http.NewResponseController(w), trace: t,
			faults: strike(c.Faults, c.Seed, t.Ordinal)}
		if _, ok := x.faults.find(CloseConnection); ok {
			w.Header().Set("Connection", "close")
		}
		if x.struckBefore() {
			return
		}
		a, bad := e.understand(c, kind, raw)
		if bad != nil {
			e.refuse(t, "")
			refuse(w, c, kind, a.Stream, *bad)
			return
		}
		x.ask = a
		x.answer(received)
	}
}

// answer hands the request to the engine and writes what comes out.
func (x *exchange) answer(received time.Time) {
	c, a, n := x.cfg, x.ask, x.trace.Ordinal
	id := a.RID
	if id == "" {
		id = x.r.Header.Get("X-Request-Id")
	}
	if id == "" {
		id = fmt.Sprintf("%016x%016x", mix(uint64(c.Seed), 3), mix(uint64(c.Seed), uint64(n)))
	}
	x.seq = &sequence{
		ordinal: n, received: received, prompt: a.prompt, answer: x.e.plan(c, a, n), stream: a.Stream,
		script: c.Script, slow: slowness(c.Faults),
		rng: rand.New(rand.NewPCG(uint64(c.Seed), uint64(n))), ready: make(chan struct{}, 1),
	}
	x.out = newRenderer(x, id)
	x.e.identify(x.trace, id, len(a.prompt))
	x.timer = time.NewTimer(time.Hour)
	defer x.timer.Stop()
	x.e.submit(x.seq)
	defer func() {
		x.e.leave(x.seq)
		x.e.close(x.trace)
	}()
	if a.Stream {
		x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		x.w.Header().Set("Cache-Control", "no-cache")
		if !x.holdsHeaders() {
			if x.w.WriteHeader(http.StatusOK); x.ctl.Flush() != nil {
				return
			}
		}
	}
	x.pump()
}

// holdsHeaders reports whether the engine sends headers only with its first
// result: SGLang's OpenAI routes do.
func (x *exchange) holdsHeaders() bool { return x.cfg.Engine == SGLang && x.ask.route != native }

// pump writes events as they come until the answer, the client or a fault ends it.
func (x *exchange) pump() {
	for {
		if x.struckAt(x.shown) {
			return
		}
		ev, ok := x.next()
		if !ok {
			return
		}
		x.shown += ev.tokens
		x.buf = x.out.event(x.buf[:0], ev.tokens, ev.last)
		if !x.ask.Stream {
			if ev.last {
				x.e.sent(x.trace, x.seq, x.shown)
				writeJSON(x.w, http.StatusOK, x.out.whole(x.buf[:0]))
				return
			}
			continue
		}
		if ev.last {
			x.buf = x.out.finish(x.buf, "")
		}
		x.e.sent(x.trace, x.seq, ev.tokens)
		if !x.write() || ev.last {
			return
		}
	}
}

// write sends the buffer on its own.
func (x *exchange) write() bool {
	if _, err := x.w.Write(x.buf); err != nil {
		return false
	}
	return x.ctl.Flush() == nil
}

// next waits for the next event and the instant it is due. It is false when the
// client has left.
func (x *exchange) next() (tokenEvent, bool) {
	var ev tokenEvent
	if x.seq.script != nil {
		ev = x.seq.scripted()
	} else {
		for {
			var ok bool
			if ev, ok = x.seq.take(); ok {
				break
			}
			if !x.wait(x.seq.ready, time.Time{}) {
				return ev, false
			}
		}
	}
	ev.at = ev.at.Add(x.shift)
	for time.Now().Before(ev.at) {
		if !x.wait(nil, ev.at) {
			return ev, false
		}
	}
	if x.seq.script != nil {
		x.e.mu.Lock()
		x.e.credit(x.seq, ev.tokens, ev.at)
		x.e.mu.Unlock()
	}
	return ev, true
}

// wait sleeps until ready, or until an instant (the zero time is never), and
// sends heartbeats before the first token where the fault says so. It is false
// when the client has left.
func (x *exchange) wait(ready <-chan struct{}, until time.Time) bool {
	beat, beating := x.faults.find(Heartbeats)
	beating = beating && x.shown == 0 && x.ask.Stream
	for {
		due := until
		if beating {
			if next := x.nextBeat(beat.Delay); due.IsZero() || next.Before(due) {
				due = next
			}
		}
		var alarm <-chan time.Time
		if !due.IsZero() {
			x.timer.Reset(time.Until(due))
			alarm = x.timer.C
		}
		select {
		case <-ready:
			return true
		case <-x.r.Context().Done():
			return false
		case <-alarm:
		}
		if due.Equal(until) {
			return true
		}
		if x.buf = append(x.buf[:0], ": ping\n\n"...); !x.write() {
			return false
		}
	}
}

// nextBeat is the next multiple of the period after the request was received.
func (x *exchange) nextBeat(period time.Duration) time.Time {
	passed := time.Since(x.seq.received) / period
	return x.seq.received.Add((passed + 1) * period)
}

// struckBefore carries out a fault that replaces the whole answer.
func (x *exchange) struckBefore() bool {
	for _, f := range x.faults {
		switch f.Kind {
		case HangBeforeHeaders:
			<-x.r.Context().Done()
		case TooManyRequests:
			x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.Delay.Seconds()))))
			writeJSON(x.w, http.StatusTooManyRequests, appendError(nil, x.cfg, refusal{429, "RateLimitError", "", "Too many requests."}))
		case Unavailable:
			writeJSON(x.w, http.StatusServiceUnavailable, appendError(nil, x.cfg, refusal{503, "ServiceUnavailableError", "", "The engine is not available."}))
		case Garbage:
			x.w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(x.w, "<!DOCTYPE html><html><body><h1>It works!</h1></body></html>\n")
		case ErrorUnder200:
			x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = io.WriteString(x.w, "data: {\"error\":{\"message\":\"The engine failed before the first token.\",\"type\":\"InternalServerError\",\"code\":500}}\n\ndata: [DONE]\n\n")
		default:
			continue
		}
		x.e.refuse(x.trace, f.Kind)
		return true
	}
	return false
}

// struckAt carries out a fault that strikes after the tokens shown so far; it is
// true when the answer is over.
func (x *exchange) struckAt(shown int) bool {
	for i, f := range x.faults {
		if shown < f.AfterTokens {
			continue
		}
		switch f.Kind {
		case HangAfterTokens:
			x.e.cut(x.trace, f.Kind)
			<-x.r.Context().Done()
		case Stall:
			x.shift += f.Delay
			x.faults = append(x.faults[:i:i], x.faults[i+1:]...)
			return x.struckAt(shown)
		case Reset, Disconnect:
			x.e.cut(x.trace, f.Kind)
			x.hangUp(f.Kind)
		case Truncate:
			x.e.cut(x.trace, f.Kind)
		case ErrorMidStream:
			x.e.cut(x.trace, f.Kind)
			x.fail()
		default:
			continue
		}
		return true
	}
	return false
}

// fail reports that the engine broke down under the answer.
func (x *exchange) fail() {
	const message = "The engine failed while decoding."
	if !x.ask.Stream {
		writeJSON(x.w, http.StatusInternalServerError, appendError(nil, x.cfg, refusal{500, "InternalServerError", "", message}))
		return
	}
	x.buf = x.out.finish(x.buf[:0], message)
	x.write()
}

// hangUp ends the connection under the answer.
func (x *exchange) hangUp(kind FaultKind) {
	conn, _, err := x.ctl.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: resets the stream
	}
	if kind == Reset {
		abort(conn)
		return
	}
	_ = conn.Close()
}
