package fakellm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// exchange is one request to a generating route and its answer.
type exchange struct {
	e      *Engine
	cfg    *Config
	route  *route
	w      http.ResponseWriter
	r      *http.Request
	ctl    *http.ResponseController
	raw    []byte // the body of the request
	ask    *ask
	seq    *sequence
	trace  *trace
	faults faults

	out   renderer
	buf   []byte
	timer *time.Timer
	shift time.Duration // stalls so far
	shown int           // tokens handed to the renderer
	held  int           // of them, not written yet
	wrote time.Time     // the last write; zero before the first

	first            time.Time // when the first token came out of the engine
	last             time.Time // the same of the latest
	steps            int       // token events so far
	drafts, accepted int       // speculation so far
}

// renderer writes an answer in one wire shape.
type renderer interface {
	// event appends the next n tokens, and whatever the shape puts before the
	// first or into the last of them. Nothing appended holds the tokens back.
	event(dst []byte, n int, last bool) []byte
	// finish appends what follows the last event. With a failure it reports that
	// instead of a proper end.
	finish(dst []byte, failure string) []byte
	// whole appends the answer to a request that did not ask for a stream.
	whole(dst []byte) []byte
}

// opener is a renderer that has something to say when the prefill begins.
type opener interface {
	// opens reports whether it does for this request.
	opens() bool
	open(dst []byte) []byte
}

// pinger is a renderer whose heartbeats are events of its own.
type pinger interface{ ping(dst []byte) []byte }

// generate serves a generating route.
func (e *Engine) generate(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client left while it was sending
		}
		received, c := time.Now(), e.config()
		t := e.open(r.URL.Path, received)
		x := &exchange{e: e, cfg: c, route: rt, w: w, r: r, ctl: http.NewResponseController(w), raw: raw, trace: t,
			faults: strike(c.Faults, c.Seed, t.Ordinal)}
		if _, ok := x.faults.find(CloseConnection); ok {
			w.Header().Set("Connection", "close")
		}
		if x.struckBefore() {
			return
		}
		a, bad := e.understand(c, rt, r.URL.Path, raw)
		if bad != nil {
			e.refuse(t, "")
			x.refuse(*bad, a.Stream && rt.inBand >= wrongRequests)
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
	o, ok := x.out.(opener)
	opens := ok && a.Stream && o.opens()
	x.seq.announce = opens && !x.route.opensAtOnce
	x.e.identify(x.trace, id, a)
	x.timer = time.NewTimer(time.Hour)
	defer x.timer.Stop()
	x.e.submit(x.seq)
	defer func() {
		x.e.leave(x.seq)
		x.e.close(x.trace)
	}()
	if a.Stream {
		x.streamHeader()
		x.w.Header().Set("Cache-Control", "no-cache")
		if !x.route.lateHeaders {
			if x.w.WriteHeader(http.StatusOK); x.ctl.Flush() != nil {
				return
			}
		}
	}
	if opens && x.route.opensAtOnce {
		if x.buf = o.open(x.buf[:0]); !x.write() {
			return
		}
	}
	x.pump()
}

// newRenderer picks the shape of the exchange's answer.
func newRenderer(x *exchange, id string) renderer { return x.ask.route.write(x, id) }

func (x *exchange) streamHeader() {
	x.w.Header().Set("Content-Type", cmp.Or(x.route.contentType, "text/event-stream; charset=utf-8"))
}

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
		if ev.tokens == 0 {
			if x.buf = x.out.(opener).open(x.buf[:0]); !x.write() {
				return
			}
			continue
		}
		x.note(ev)
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
		if x.held += ev.tokens; len(x.buf) == 0 {
			continue
		}
		x.e.sent(x.trace, x.seq, x.held)
		x.held = 0
		if !x.write() || ev.last {
			return
		}
	}
}

// note keeps of an event what the renderers tell about the answer.
func (x *exchange) note(ev tokenEvent) {
	if x.steps == 0 {
		x.first = ev.at
	}
	x.last = ev.at
	x.steps++
	x.shown += ev.tokens
	x.drafts, x.accepted = ev.drafts, ev.accepted
}

// write sends the buffer on its own.
func (x *exchange) write() bool {
	x.wrote = time.Now()
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
	if x.seq.script != nil && ev.tokens > 0 {
		x.e.mu.Lock()
		x.e.credit(x.seq, ev.tokens, ev.at)
		x.e.mu.Unlock()
	}
	return ev, true
}

// wait sleeps until ready, or until an instant (the zero time is never), and
// sends the heartbeats that fall due. It is false when the client has left.
func (x *exchange) wait(ready <-chan struct{}, until time.Time) bool {
	for {
		due := until
		if beat := x.nextBeat(); !beat.IsZero() && (due.IsZero() || beat.Before(due)) {
			due = beat
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
		if x.buf = x.beat(x.buf[:0]); !x.write() {
			return false
		}
	}
}

// nextBeat is when the next heartbeat is due: by the fault at multiples of its
// period until the first token, by the engine's own habit after some silence.
// The zero time is never.
func (x *exchange) nextBeat() time.Time {
	if !x.ask.Stream {
		return time.Time{}
	}
	if f, ok := x.faults.find(Heartbeats); ok && x.shown == 0 {
		passed := time.Since(x.seq.received) / f.Delay
		return x.seq.received.Add((passed + 1) * f.Delay)
	}
	if x.route.keepAlive == 0 {
		return time.Time{}
	}
	since := x.wrote
	if since.IsZero() {
		since = x.seq.received
	}
	return since.Add(x.route.keepAlive)
}

// beat appends a heartbeat.
func (x *exchange) beat(dst []byte) []byte {
	if p, ok := x.out.(pinger); ok {
		return p.ping(dst)
	}
	if x.route.ping != "" {
		return append(dst, x.route.ping...)
	}
	return append(dst, ": ping\n\n"...)
}

// refuse answers a request that does not reach the engine, in band or by an HTTP
// status.
func (x *exchange) refuse(bad refusal, inBand bool) {
	f := x.e.flavour
	if inBand {
		x.streamHeader()
		_, _ = x.w.Write(f.report(nil, x.route, bad))
		return
	}
	f.fail(x.w, x.route, bad)
}

// wantsStream reports what the body says about streaming, before it is read in
// earnest.
func (x *exchange) wantsStream() bool {
	in := struct{ Stream bool }{x.route.stream == byDefault}
	if json.Unmarshal(x.raw, &in) != nil {
		return false
	}
	return x.route.streams(in.Stream)
}
