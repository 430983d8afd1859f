package fakellm

import (
	"fmt"
	"slices"
	"time"
)

// FaultKind is one way to fail. Faults touch the generating routes only, except
// [Slow], which is the engine's.
type FaultKind string

const (
	// HangBeforeHeaders answers nothing at all until the client gives up.
	HangBeforeHeaders FaultKind = "hang_before_headers"
	// HangAfterTokens falls silent after AfterTokens tokens, connection open.
	HangAfterTokens FaultKind = "hang_after_tokens"
	// Reset aborts the connection (RST) after AfterTokens tokens.
	Reset FaultKind = "reset"
	// Disconnect closes the connection (FIN) in the middle of the body.
	Disconnect FaultKind = "disconnect"
	// Truncate ends the body properly although the answer is not complete: no
	// finish reason, no end mark.
	Truncate FaultKind = "truncate"
	// Slow multiplies every step (or scripted time) by Factor.
	Slow FaultKind = "slow"
	// ErrorUnder200 answers status 200 with an error, as the engine words it in
	// band, instead of tokens.
	ErrorUnder200 FaultKind = "error_under_200"
	// ErrorMidStream reports an engine failure in band after AfterTokens tokens.
	ErrorMidStream FaultKind = "error_mid_stream"
	// TooManyRequests is status 429 with Retry-After: Delay; from TGI, to a stream,
	// the same under status 200.
	TooManyRequests FaultKind = "too_many_requests"
	// Unavailable is status 503 (Anthropic: 529; TGI, to a stream: in band).
	Unavailable FaultKind = "unavailable"
	// Stall delays the token after AfterTokens, and all later ones, by Delay.
	Stall FaultKind = "stall"
	// Garbage is a proxy's HTML page under status 200.
	Garbage FaultKind = "garbage"
	// WrongModel names another model in the answers.
	WrongModel FaultKind = "wrong_model"
	// CloseConnection ends the connection after each answer.
	CloseConnection FaultKind = "close_connection"
	// Heartbeats sends an SSE comment (or the event, or the empty line, that the
	// engine has for it) every Delay until the first token.
	Heartbeats FaultKind = "heartbeats"
)

// FaultKinds is the closed list.
var FaultKinds = []FaultKind{
	HangBeforeHeaders, HangAfterTokens, Reset, Disconnect, Truncate, Slow, ErrorUnder200,
	ErrorMidStream, TooManyRequests, Unavailable, Stall, Garbage, WrongModel,
	CloseConnection, Heartbeats,
}

// Fault is something that goes wrong with some requests: with those whose
// ordinal is listed, else with a share of them, else with all. A fault after k
// tokens strikes at the end of the event that brought the k-th.
type Fault struct {
	Kind        FaultKind
	Probability float64 // share of requests, drawn from the seed; 0 is all
	Requests    []int   // ordinals of generation requests since the engine began, from 1
	AfterTokens int
	Delay       time.Duration // Stall, Heartbeats, TooManyRequests
	Factor      float64       // Slow
}

func (f Fault) validate() error {
	if !slices.Contains(FaultKinds, f.Kind) {
		return fmt.Errorf("read Kind: %q is not one of %v", f.Kind, FaultKinds)
	}
	if !(f.Probability >= 0 && f.Probability <= 1) {
		return fmt.Errorf("read Probability: %v is not between 0 and 1", f.Probability)
	}
	if f.AfterTokens < 0 || f.Delay < 0 {
		return fmt.Errorf("read %s: AfterTokens and Delay must not be negative", f.Kind)
	}
	switch f.Kind {
	case Slow:
		if !(f.Factor > 0) || f.Probability != 0 || f.Requests != nil {
			return fmt.Errorf("read slow: needs Factor > 0, and is the whole engine's: no Probability, no Requests")
		}
	case Stall, Heartbeats:
		if f.Delay == 0 {
			return fmt.Errorf("read %s: needs a Delay", f.Kind)
		}
	}
	return nil
}

// faults are those that strike one request.
type faults []Fault

// strike picks the faults of one request. The draw depends on seed, ordinal and
// the fault's place alone, so it does not change with what else is going on.
func strike(all []Fault, seed int64, ordinal int) faults {
	var hit faults
	for i, f := range all {
		switch {
		case f.Kind == Slow:
			continue
		case f.Requests != nil:
			if !slices.Contains(f.Requests, ordinal) {
				continue
			}
		case f.Probability > 0:
			if unit(mix(uint64(seed), uint64(ordinal), uint64(i))) >= f.Probability {
				continue
			}
		}
		hit = append(hit, f)
	}
	return hit
}

func (fs faults) find(kind FaultKind) (Fault, bool) {
	for _, f := range fs {
		if f.Kind == kind {
			return f, true
		}
	}
	return Fault{}, false
}

// slowness is the factor on all times.
func slowness(all []Fault) float64 {
	factor := 1.0
	for _, f := range all {
		if f.Kind == Slow {
			factor *= f.Factor
		}
	}
	return factor
}
