package fakellm

import (
	"cmp"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// struckBefore carries out a fault that replaces the whole answer.
func (x *exchange) struckBefore() bool {
	for _, f := range x.faults {
		switch f.Kind {
		case HangBeforeHeaders:
			<-x.r.Context().Done()
		case TooManyRequests:
			x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.Delay.Seconds()))))
			if limited := x.e.flavour.limited; limited != nil {
				limited(x.w.Header(), f.Delay)
			}
			x.turnAway(refusal{status: 429, kind: "RateLimitError", message: "Too many requests."})
		case Unavailable:
			status := cmp.Or(x.e.flavour.overloaded, http.StatusServiceUnavailable)
			x.turnAway(refusal{status: status, kind: "ServiceUnavailableError", message: "The engine is not available."})
		case Garbage:
			x.w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(x.w, "<!DOCTYPE html><html><body><h1>It works!</h1></body></html>\n")
		case ErrorUnder200:
			x.refuse(refusal{status: 500, kind: "InternalServerError", message: "The engine failed before the first token.", early: true}, true)
		default:
			continue
		}
		x.e.refuse(x.trace, f.Kind)
		return true
	}
	return false
}

// turnAway refuses a request that is not at fault.
func (x *exchange) turnAway(bad refusal) {
	x.refuse(bad, x.route.inBand == allErrors && x.wantsStream())
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
			x.hang()
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

// hang says nothing more until the client gives up. An engine that keeps its
// connections alive goes on doing so.
func (x *exchange) hang() {
	if x.route.keepAlive == 0 {
		<-x.r.Context().Done()
		return
	}
	x.wait(nil, time.Time{})
}

// fail reports that the engine broke down under the answer.
func (x *exchange) fail() {
	const message = "The engine failed while decoding."
	if !x.ask.Stream || x.route.cleanFailure && x.wrote.IsZero() {
		x.refuse(refusal{status: 500, kind: "InternalServerError", message: message}, false)
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
