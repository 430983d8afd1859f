package backend

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// bounds are the timeouts of one request as offsets on the run's clock. Whichever
// passes first decides the outcome.
type bounds struct {
	limits probes.Timeouts
	sent   time.Duration
	last   time.Duration // when the last byte came, or sent
	// tokenDue: the first token is still waited for.
	tokenDue bool
	// idleDue: silence counts.
	idleDue bool
}

// newBounds starts the bounds of a request. An answer that is not asked for as a
// stream is silent while it is generated, and has no first token: until its body
// begins only the total bound holds.
func newBounds(limits probes.Timeouts, sent time.Duration, streamed bool) bounds {
	return bounds{limits: limits, sent: sent, last: sent, tokenDue: streamed, idleDue: streamed}
}

// heard notes that bytes of the body came.
func (b *bounds) heard(at time.Duration) { b.last, b.idleDue = at, true }

// next is the bound that passes first, and the outcome it stands for.
func (b *bounds) next() (at probes.Optional[time.Duration], outcome probes.Outcome) {
	earliest := time.Duration(0)
	consider := func(holds bool, from, limit time.Duration, o probes.Outcome) {
		if holds && limit > 0 && (outcome == "" || from+limit < earliest) {
			earliest, outcome = from+limit, o
		}
	}
	consider(b.tokenDue, b.sent, b.limits.FirstToken, probes.TimeoutFirstToken)
	consider(true, b.sent, b.limits.Total, probes.TimeoutTotal)
	consider(b.idleDue, b.last, b.limits.Idle, probes.TimeoutIdle)
	if outcome == "" {
		return at, ""
	}
	return probes.Known(earliest), outcome
}

// text says which bound passed.
func (b *bounds) text(outcome probes.Outcome) string {
	switch outcome {
	case probes.TimeoutFirstToken:
		return "wait for the first token: none within " + b.limits.FirstToken.String()
	case probes.TimeoutIdle:
		return "read answer: silent for " + b.limits.Idle.String()
	}
	return "read answer: not complete within " + b.limits.Total.String()
}
