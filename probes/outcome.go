package probes

import (
	"fmt"
)

// Outcome is how a request ended. The list is closed: an outcome may be a label.
type Outcome string

const (
	OK       Outcome = "ok"       // 2xx, no in-band error, and an end was seen
	HTTP4xx  Outcome = "http_4xx" // 429 apart; 401 and 403 belong here
	HTTP429  Outcome = "http_429"
	HTTP5xx  Outcome = "http_5xx"
	DNS      Outcome = "dns"     // the name did not resolve
	Connect  Outcome = "connect" // refused, unreachable, or not connected in time
	TLSError Outcome = "tls"     // handshake or certificate
	// TimeoutFirstToken: no token event in time, heartbeats or not.
	TimeoutFirstToken Outcome = "timeout_first_token"
	// TimeoutIdle: silence for too long.
	TimeoutIdle  Outcome = "timeout_idle"
	TimeoutTotal Outcome = "timeout_total"
	// Truncated: the connection ended (cleanly or not) before the answer did.
	Truncated Outcome = "truncated"
	// StreamError: the server reported an error inside a 2xx answer, or aborted it.
	StreamError Outcome = "stream_error"
	// BadResponse: not the protocol (HTML page, redirect not followed, oversized line).
	BadResponse Outcome = "bad_response"
	// Empty: a proper end, but not one token.
	Empty Outcome = "empty"
	// Cancelled: ended by us (window over, shutdown); not the server's failure.
	Cancelled Outcome = "cancelled"
	// Dropped: never sent, for want of time or of descriptors; not the server's failure.
	Dropped Outcome = "dropped"
)

// Outcomes lists the closed set in the order it is documented.
var Outcomes = []Outcome{
	OK, HTTP4xx, HTTP429, HTTP5xx, DNS, Connect, TLSError,
	TimeoutFirstToken, TimeoutIdle, TimeoutTotal,
	Truncated, StreamError, BadResponse, Empty, Cancelled, Dropped,
}

// Failed reports whether the outcome counts against the target. Requests that
// we cut or never sent do not.
func (o Outcome) Failed() bool { return o != OK && o != Cancelled && o != Dropped }

// Timeout reports whether one of our bounds ended the request. A TTFT seen
// before that stays a valid sample.
func (o Outcome) Timeout() bool {
	return o == TimeoutFirstToken || o == TimeoutIdle || o == TimeoutTotal
}

// Flags are remarks on a record that did not decide its outcome.
type Flags uint16

const (
	// NotStreamed: stream was asked for and one whole body came. It has an E2E
	// time but no TTFT, TPOT or ITL.
	NotStreamed Flags = 1 << iota
	// Compressed: the server compressed although identity was asked for.
	Compressed
	// ShortOutput: fewer tokens than the exact length that was forced. The
	// record stays out of TPOT, ITL and E2E of a fixed-length workload.
	ShortOutput
	// UsageNotMonotone: a running token count went down.
	UsageNotMonotone
	// UnparsableEvent: at least one event was not legal JSON.
	UnparsableEvent
	// StaleReuse: the reused connection had been closed by the server; the
	// request was sent again on a new one before any byte had come back.
	StaleReuse
	// OtherModel: the answer names another model than the one asked for.
	OtherModel
	// Coalesced: several token events have one stamp, so their gaps are zero
	// because of the network or the reader, not of the server's pace.
	Coalesced
	// CountMismatch: the server gave two counts of the output tokens that differ.
	CountMismatch
)

var flagNames = []string{
	"not_streamed", "compressed", "short_output", "usage_not_monotone",
	"unparsable_event", "stale_reuse", "other_model", "coalesced",
	"count_mismatch",
}

// Has reports whether all of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names lists the set flags by their documented names.
func (f Flags) Names() []string {
	var names []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// MarshalJSON writes the names.
func (f Flags) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, n := range f.Names() {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q", n)
	}
	return append(out, ']'), nil
}
