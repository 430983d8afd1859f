package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/wire"
)

// statusOutcome classes an answer by its status; it is OK for 2xx only.
func statusOutcome(code int) probes.Outcome {
	switch {
	case code >= 200 && code < 300:
		return probes.OK
	case code == http.StatusTooManyRequests:
		return probes.HTTP429
	case code >= 400 && code < 500:
		return probes.HTTP4xx
	case code >= 500 && code < 600:
		return probes.HTTP5xx
	}
	return probes.BadResponse // a redirect that is not followed, or no HTTP status at all
}

// failureOutcome classes an error of the exchange. due is the outcome of the
// bound that was set when it happened.
func failureOutcome(ctx context.Context, err error, due probes.Outcome) probes.Outcome {
	var failed *wire.Error
	errors.As(err, &failed)
	switch {
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return probes.Cancelled
	case errors.Is(err, wire.ErrConnectTimeout):
		return probes.Connect
	case errors.Is(err, os.ErrDeadlineExceeded) && due != "":
		return due
	case failed == nil:
		return probes.BadResponse
	}
	switch failed.Phase {
	case wire.PhaseDNS:
		return probes.DNS
	case wire.PhaseConnect:
		// A proxy, or a dialler of the caller's, looks names up by itself.
		if name := (*net.DNSError)(nil); errors.As(err, &name) {
			return probes.DNS
		}
		return probes.Connect
	case wire.PhaseTLS:
		return probes.TLSError
	case wire.PhaseClient:
		return probes.Dropped
	case wire.PhaseWrite:
		return probes.Truncated
	}
	if connectionLost(err) {
		return probes.Truncated
	}
	return probes.BadResponse
}

// connectionLost tells a connection that ended from one that spoke nonsense.
func connectionLost(err error) bool {
	var sys syscall.Errno
	for _, lost := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return errors.As(err, &sys)
}

// retryAfter reads how long the server asks to be left alone. now is used for an
// instant when the server did not send its own time with it.
func retryAfter(h http.Header, now func() time.Time) probes.Optional[time.Duration] {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms >= 0 && ms < 1e12 {
		return probes.Known(time.Duration(ms * float64(time.Millisecond)))
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		if s >= 0 && s < 1e9 {
			return probes.Known(time.Duration(s * float64(time.Second)))
		}
		return probes.Optional[time.Duration]{}
	}
	if until, err := http.ParseTime(value); err == nil {
		return probes.Known(max(until.Sub(serverTime(h, now)), 0))
	}
	return limitReset(h, now)
}

// serverTime is the server's own time, so that ours need not agree with it.
func serverTime(h http.Header, now func() time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now()
}

// rateLimits are the headers of the limits that a server may keep: what remains, and
// when it is filled up again, as a duration (OpenAI) or an instant (Anthropic).
var rateLimits = [][2]string{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// limitReset is when the last of the limits that are used up is filled again.
func limitReset(h http.Header, now func() time.Time) (wait probes.Optional[time.Duration]) {
	for _, limit := range rateLimits {
		if strings.TrimSpace(h.Get(limit[0])) != "0" {
			continue
		}
		reset := strings.TrimSpace(h.Get(limit[1]))
		left, err := time.ParseDuration(reset)
		if err != nil {
			until, err := time.Parse(time.RFC3339, reset)
			if err != nil {
				continue
			}
			left = until.Sub(serverTime(h, now))
		}
		if longest, _ := wait.Get(); !wait.IsKnown() || left > longest {
			wait = probes.Known(max(left, 0))
		}
	}
	return wait
}
