package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/wire"
)

const (
	// afterFailure is how much longer an answer is read after the server reported
	// an error inside it: usage and end mark may follow, and let the connection be
	// used again, but a server in trouble must not hold the slot.
	afterFailure = time.Second
	// errorBodyTime bounds the reading of an error's body; the status has decided
	// the outcome already.
	errorBodyTime = 5 * time.Second
)

// exchange is one Do. It writes to rec alone.
type exchange struct {
	*Client
	ctx    context.Context
	clock  probes.Clock
	req    *probes.Request
	rec    *probes.Record
	resp   *wire.Response
	bounds bounds
	// ended: the message was read to its end, so the connection may be kept.
	ended bool
}

func (x *exchange) run() {
	asked, err := x.d.encode(question{x.req, x.model()})
	if err != nil {
		x.end(probes.Dropped, err.Error())
		return
	}
	if asked.forced > 0 {
		x.rec.ExactOutput, x.rec.RequestedOutput = true, asked.forced
	}
	header := x.header.Clone()
	header.Set("X-Request-Id", x.req.ID)

	x.rec.Sent = x.clock.Now()
	if x.ctx.Err() != nil {
		x.end(probes.Cancelled, "cancelled before it was sent")
		return
	}
	x.bounds = newBounds(x.target.Timeouts, x.rec.Sent, x.req.Sampling.Stream)
	deadline, outcome := x.bounds.next()
	x.resp, err = x.wire.Do(x.ctx, x.clock, &wire.Request{
		Method: http.MethodPost, URL: x.url(), Header: header, Body: asked.body, Deadline: deadline,
	})
	if err != nil {
		x.noteFailure(err)
		x.fail(err, outcome)
		return
	}
	defer func() {
		x.rec.Receiving = x.resp.Receiving()
		x.resp.Close(x.ended)
	}()
	x.rec.StatusCode, x.rec.Connection = x.resp.StatusCode, x.resp.Trace
	x.rec.FirstByte = probes.Known(x.resp.FirstByte)
	x.bounds.last = x.resp.FirstByte
	if x.resp.Stale {
		x.rec.Flags |= probes.StaleReuse
	}
	if x.resp.Compressed {
		x.rec.Flags |= probes.Compressed
	}
	if outcome := statusOutcome(x.resp.StatusCode); outcome != probes.OK {
		x.refused(outcome)
		return
	}
	x.answer(asked.model)
}

// noteFailure keeps what is known of a connection that failed.
func (x *exchange) noteFailure(err error) {
	var failed *wire.Error
	if errors.As(err, &failed) {
		x.rec.Connection = failed.Trace
		if failed.Stale {
			x.rec.Flags |= probes.StaleReuse
		}
	}
}

// end closes the record.
func (x *exchange) end(outcome probes.Outcome, text string) {
	x.rec.Outcome = outcome
	if !x.rec.End.IsKnown() {
		x.rec.End = probes.Known(x.clock.Now())
	}
	if outcome != probes.OK {
		x.rec.Error = x.printable(text, sentTexts(x.req)...)
	}
}

// fail closes the record after an error of the exchange.
func (x *exchange) fail(err error, due probes.Outcome) {
	outcome := failureOutcome(x.ctx, err, due)
	text := err.Error()
	switch {
	case outcome == probes.Cancelled:
		text = "cancelled by us"
	case outcome.Timeout():
		text = x.bounds.text(outcome)
	}
	x.end(outcome, text)
}

// refused reads the answer of a status other than 2xx. Its status decides; the
// body only adds words.
func (x *exchange) refused(outcome probes.Outcome) {
	x.rec.RetryAfter = retryAfter(x.resp.Header, time.Now)
	text := strings.TrimSpace(fmt.Sprintf("status %d %s", x.resp.StatusCode, http.StatusText(x.resp.StatusCode)))
	if x.resp.StatusCode/100 == 3 {
		location := x.resp.Location
		if location == "" {
			location = "(no location)"
		}
		x.end(outcome, text+": redirect to "+withoutQuery(location)+" is not followed")
		return
	}
	r := x.readings.Get().(*reading)
	defer x.readings.Put(r)
	var body []byte
	by := x.clock.Now() + errorBodyTime
	for len(body) < maxErrorBody {
		n, err := x.read(r.buf, by)
		body = append(body, r.buf[:n]...)
		if err != nil {
			x.ended = err == io.EOF
			break
		}
	}
	body = body[:min(len(body), maxErrorBody)]
	if message := failureText(body); strings.TrimSpace(message) != "" {
		text += ": " + message
	}
	x.end(outcome, text)
}

// read reads once, at most until the next bound, or until by if that is earlier
// and not 0.
func (x *exchange) read(buf []byte, by time.Duration) (int, error) {
	if !x.limit(by) {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := x.resp.Read(buf)
	if n > 0 {
		x.bounds.heard(x.resp.LastRead())
	}
	return n, err
}

// limit sets the bound of the next read, by if that is earlier and not 0, and
// reports whether it has not passed.
func (x *exchange) limit(by time.Duration) bool {
	at, _ := x.bounds.next()
	if bound, ok := at.Get(); by > 0 && (!ok || by < bound) {
		at = probes.Known(by)
	}
	if bound, ok := at.Get(); ok && x.resp.LastRead() >= bound {
		// Bytes that keep coming must not outrun a bound, and those that came in time
		// are not late because they are read late.
		return false
	}
	x.resp.SetReadDeadline(at)
	return true
}

// answer reads a 2xx answer.
func (x *exchange) answer(model string) {
	r := x.readings.Get().(*reading)
	r.begin(x.d, x.rec, x.req.KeepText, model)
	if x.isStream() {
		x.rec.Chunks = make([]probes.Chunk, 0, min(max(x.req.MaxOutputTokens, 16), 4096))
		x.readStream(r)
	} else {
		x.rec.Flags |= probes.NotStreamed
		x.readWhole(r)
	}
	if x.rec.Outcome == probes.OK && x.rec.ExactOutput {
		if n, ok := x.rec.OutputTokens.Get(); ok && n < x.rec.RequestedOutput {
			x.rec.Flags |= probes.ShortOutput
		}
	}
	r.end()
	x.readings.Put(r)
}

// isStream tells by the content type: a server that ignores "stream": true sends
// application/json, and nobody else is known to label a stream so.
func (x *exchange) isStream() bool {
	kind, _, _ := strings.Cut(strings.ToLower(x.resp.Header.Get("Content-Type")), ";")
	kind = strings.TrimSpace(kind)
	if x.req.Sampling.Stream {
		return kind != "application/json" && !strings.HasSuffix(kind, "+json")
	}
	return kind == "text/event-stream" || kind == "application/x-ndjson"
}

// url is where the request goes: some servers answer whole on a path of its own.
func (x *exchange) url() string {
	if x.req.Sampling.Stream {
		return x.streamURL
	}
	return x.wholeURL
}

// streaming is the reading of one stream.
type streaming struct {
	*exchange
	r   *reading
	due probes.Outcome // what it means when the bound that holds now passes
	by  time.Duration  // when to stop reading after a failure; 0: there was none
	// why there is no need to read on
	over, late bool
}

// readStream reads events until the end mark, the end of the body, or a bound.
func (x *exchange) readStream(r *reading) {
	s := streaming{exchange: x, r: r}
	var err error
	if s.bound() {
		err = x.resp.Stream(r.buf, s.take)
	}
	switch {
	case s.over:
		x.ended = true
		x.rec.End = probes.Known(x.resp.LastRead())
		x.conclude(r, nil, "")
	case r.err() != nil:
		x.settle(r, probes.BadResponse, r.err().Error())
	case s.late:
		x.conclude(r, os.ErrDeadlineExceeded, s.due)
	default:
		if err == io.EOF {
			x.ended = true
			r.bodyEnded()
		}
		x.conclude(r, err, s.due)
	}
}

// take takes the bytes of one read and reports whether more are wanted.
func (s *streaming) take(p []byte) bool {
	at := s.resp.LastRead()
	s.bounds.heard(at)
	// The stamp is the socket's: nothing of the answer has been looked at yet.
	s.over = s.r.feed(p, at)
	if s.over || s.r.err() != nil {
		return false
	}
	if s.r.failed && s.by == 0 {
		s.by = s.clock.Now() + afterFailure
	}
	return s.bound()
}

// bound sets the bound of the next read, and reports whether it has not passed.
func (s *streaming) bound() bool {
	s.bounds.tokenDue = s.bounds.tokenDue && len(s.rec.Chunks) == 0
	_, s.due = s.bounds.next()
	s.late = !s.limit(s.by)
	return !s.late
}

// conclude decides the outcome of a stream that has ended: by its end mark (no
// err), with its body (io.EOF), or for any other reason.
func (x *exchange) conclude(r *reading, err error, due probes.Outcome) {
	var counted int
	if n, ok := r.completion.Get(); ok {
		counted = n
	}
	endSeen := r.done || (r.finished && (err == io.EOF || connectionLost(err))) || (r.d.endsWithBody && r.known && err == io.EOF)
	switch {
	case r.failed:
		x.settle(r, probes.StreamError, r.failure)
	case endSeen && (r.output || counted > 0):
		x.settle(r, probes.OK, "")
	case endSeen:
		x.settle(r, probes.Empty, "the answer ended properly without any token")
	case err == io.EOF && !r.known:
		x.settle(r, probes.BadResponse, "the body held no event of this protocol")
	case err == io.EOF:
		x.settle(r, probes.Truncated, "the body ended before the answer did: no finish reason and no end mark")
	default:
		r.settle()
		x.fail(err, due)
	}
}

func (x *exchange) settle(r *reading, outcome probes.Outcome, text string) {
	r.settle()
	x.end(outcome, text)
}

// readWhole reads an answer that comes as one JSON text.
func (x *exchange) readWhole(r *reading) {
	x.bounds.tokenDue = false // there is no first token to wait for
	var body []byte
	for {
		_, due := x.bounds.next()
		n, err := x.read(r.buf, 0)
		body = append(body, r.buf[:n]...)
		if len(body) > maxWhole {
			x.end(probes.BadResponse, fmt.Sprintf("the answer is larger than %d bytes", maxWhole))
			return
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			x.fail(err, due)
			return
		}
	}
	x.ended = true
	x.rec.End = probes.Known(x.clock.Now())
	if !r.payload(body) {
		// Not one word of it: it may be half of a generated text.
		x.end(probes.BadResponse, "the answer is not JSON, its content type is "+strconv.Quote(x.resp.Header.Get("Content-Type")))
		return
	}
	r.takeWhole()
	n, _ := r.completion.Get()
	switch {
	case r.failed:
		x.settle(r, probes.StreamError, r.failure)
	case !r.known:
		x.settle(r, probes.BadResponse, "the answer is not of this protocol")
	case r.output || n > 0:
		x.settle(r, probes.OK, "")
	default:
		x.settle(r, probes.Empty, "the answer holds no token")
	}
}
