package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/inferbeat/inferbeat/probes"
)

// Phase is the part of an exchange in which it failed.
type Phase string

// The closed set of phases.
const (
	PhaseDNS      Phase = "dns"      // the name did not resolve
	PhaseConnect  Phase = "connect"  // no connection, or the proxy refused to make one
	PhaseTLS      Phase = "tls"      // handshake or certificate
	PhaseWrite    Phase = "write"    // the request did not leave
	PhaseResponse Phase = "response" // no status line and headers came, or they were not HTTP
	PhaseBody     Phase = "body"     // the body broke off or was malformed
	// PhaseClient is our own failure: the request could not be built, or the
	// process or host ran out of descriptors or ports. It never reached the network.
	PhaseClient Phase = "client"
)

// ErrConnectTimeout is the cause of an error when Options.ConnectTimeout passed.
// It is not an os.ErrDeadlineExceeded: that one means that the deadline of the
// request passed, which is the server's slowness rather than the network's.
var ErrConnectTimeout = errors.New("no connection in time")

// Error says in which phase an exchange failed.
//
// errors.Is finds context.Canceled (and the context's cause) after a
// cancellation, os.ErrDeadlineExceeded after a deadline of the request or of the
// body had passed, ErrConnectTimeout after Options.ConnectTimeout, and system
// errors such as syscall.ECONNREFUSED.
type Error struct {
	Phase Phase
	Err   error
	// Trace holds the phases up to the failure, the failed one included.
	Trace probes.ConnectionTrace
	// Stale: a reused connection had been closed by the server; what failed is
	// the exchange on the connection that replaced it.
	Stale bool
}

// maxErrorText bounds an error's text: it may quote what the server sent.
const maxErrorText = 300

var phaseVerbs = map[Phase]string{
	PhaseDNS:      "resolve host",
	PhaseConnect:  "open connection",
	PhaseTLS:      "secure connection",
	PhaseWrite:    "write request",
	PhaseResponse: "read response",
	PhaseBody:     "read body",
	PhaseClient:   "prepare request",
}

// Error is the phase in words and the cause, bounded in length.
func (e *Error) Error() string {
	text := phaseVerbs[e.Phase] + ": " + e.Err.Error()
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// cancelled gives an error that is both ctx.Err and the context's cause. Without
// it a cancellation would show as "use of closed network connection".
func cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// outOfDescriptors reports a failure that trying the next address cannot mend.
func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// outOfPorts reports that no local address or port was free. A host without IPv6
// says the same of every IPv6 address, so the next address is worth a try.
func outOfPorts(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }
