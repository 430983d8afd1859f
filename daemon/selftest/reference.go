package selftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/truth"
)

// The reference stream: short enough to cost nothing, long enough to be caught
// by whatever keeps the process from reading.
const (
	ReferenceInterval = 10 * time.Second
	referenceTTFT     = 20 * time.Millisecond
	referenceITL      = 5 * time.Millisecond
	referenceTokens   = 10
	referenceTimeout  = 5 * time.Second
)

// ReferenceTolerance is the error of a signal up to which a measurement is
// believed: a tenth of a gap of 50 ms, which a reader takes for fluent, and
// nothing beside a first token.
const ReferenceTolerance = 5 * time.Millisecond

// Deviation is what one reference stream showed: measured minus written.
type Deviation struct {
	At time.Time // when the stream had ended
	// TTFT is how much longer the first token seemed to take than it took. ITL is
	// the gap that was furthest off, as a size: a stamp that is late makes the gap
	// before it too long and the one after it too short.
	TTFT, ITL time.Duration
}

// Reference measures a scripted stream of its own on loopback again and again, on
// the path that every run takes, beside whatever the process does otherwise. The
// zero value is ready to use.
type Reference struct {
	// Listener and Dial are the network of the stream; nil is loopback.
	Listener net.Listener
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	last Deviation
}

// Last is the latest deviation, false before the first.
func (r *Reference) Last() (Deviation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, !r.last.At.IsZero()
}

// Run measures at once and then every ReferenceInterval, until ctx ends. A stream
// that fails leaves the last deviation as it was, whose age then tells, and is
// told to failed. An error means that there is no reference stream at all.
func (r *Reference) Run(ctx context.Context, failed func(error)) error {
	clock := probes.NewClock()
	server, err := truth.New(truth.Config{TTFT: referenceTTFT, ITL: referenceITL}, clock)
	if err != nil {
		return err
	}
	defer server.Close()
	listener := r.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("listen for the reference stream: %w", err)
		}
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client, err := backend.New(ownTarget(load{Address: listener.Addr().String(), Backend: "vllm", Limit: referenceTimeout}),
		backend.Options{DialContext: r.Dial, UserAgent: "inferbeat/selftest"})
	if err != nil {
		return fmt.Errorf("reach the reference stream: %w", err)
	}
	defer client.Close()

	tick := time.NewTicker(ReferenceInterval)
	defer tick.Stop()
	for {
		if d, err := measureReference(ctx, clock, client, server); err == nil {
			r.mu.Lock()
			r.last = d
			r.mu.Unlock()
		} else if ctx.Err() == nil {
			failed(fmt.Errorf("measure the reference stream: %w", err))
		}
		select {
		case <-tick.C:
		case err := <-served:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// measureReference sends one request and compares.
func measureReference(ctx context.Context, clock probes.Clock, client *backend.Client, server *truth.Server) (Deviation, error) {
	server.Take() // a stream that an earlier failure has left
	var e Exchange
	asked := false
	loadgen.Run(ctx, clock, loadgen.Load{
		Backend: client, Count: 1, Concurrency: 1, Start: clock.Now(),
		Next: func() (*probes.Request, bool) {
			first := !asked
			asked = true
			return ownRequest(0, referenceTokens), first
		},
	}, func(record probes.Record) { e = exchangeOf(&record) })
	return deviation(&e, server.Take(), time.Now())
}

// deviation compares an exchange with what the server wrote.
func deviation(e *Exchange, streams []truth.Stream, now time.Time) (Deviation, error) {
	var st *truth.Stream
	if len(streams) > 0 {
		st = &streams[len(streams)-1]
	}
	if problem := mismatch(e, st); problem != "" {
		return Deviation{}, errors.New(problem)
	}
	really, _ := st.TTFT()
	d := Deviation{At: now, TTFT: e.At[0] - e.Sent - e.Setup - really}
	for k := 1; k < len(e.At); k++ {
		off := (e.At[k] - e.At[k-1]) - (st.Sent[k] - st.Sent[k-1])
		d.ITL = max(d.ITL, off.Abs())
	}
	return d, nil
}
