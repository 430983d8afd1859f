package selftest

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/truth"
)

const ms = time.Millisecond

// sleepyConn holds back its nth read (from 1) after it has returned, as a
// goroutine that was not scheduled does.
type sleepyConn struct {
	net.Conn
	reads, nth int
	nap        time.Duration
}

func (c *sleepyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.reads++; c.reads == c.nth {
		time.Sleep(c.nap)
	}
	return n, err
}

// The answer's head is the first read, the first token the second. A late stamp
// is exactly the deviation.
func TestReferenceSeesALateReader(t *testing.T) {
	tests := []struct {
		name string
		nth  int
		nap  time.Duration
		want Deviation
	}{
		{"prompt reader", 0, 0, Deviation{}},
		{"late to the first token", 2, 3 * ms, Deviation{TTFT: 3 * ms, ITL: 3 * ms}},
		{"late to the fifth token", 6, 4 * ms, Deviation{ITL: 4 * ms}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener, dial := fakellm.NewPipeListener()
				r := &Reference{Listener: listener, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := dial(ctx, network, address)
					return &sleepyConn{Conn: c, nth: tc.nth, nap: tc.nap}, err
				}}
				if d, ok := r.Last(); ok {
					t.Errorf("before the first stream: got %+v, want nothing", d)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				start := time.Now()
				go func() { ended <- r.Run(ctx, func(err error) { t.Errorf("failed: %v", err) }) }()
				time.Sleep(time.Second)
				tc.want.At = start.Add(referenceTTFT + (referenceTokens-1)*referenceITL)
				got, ok := r.Last()
				if diff := cmp.Diff(tc.want, got); diff != "" || !ok {
					t.Errorf("known %t (-want +got):\n%s", ok, diff)
				}
				time.Sleep(ReferenceInterval)
				if next, _ := r.Last(); next.At.Sub(got.At) != ReferenceInterval {
					t.Errorf("the second stream ended %s after the first, want %s", next.At.Sub(got.At), ReferenceInterval)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Run: got %v, want nil", err)
				}
			})
		})
	}
}

func TestReferenceTellsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, _ := fakellm.NewPipeListener()
		r := &Reference{Listener: listener, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var failures []string
		ended := make(chan error)
		go func() { ended <- r.Run(ctx, func(err error) { failures = append(failures, err.Error()) }) }()
		time.Sleep(ReferenceInterval + ms)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		if d, ok := r.Last(); ok {
			t.Errorf("Last: got %+v, want nothing", d)
		}
		if len(failures) != 2 {
			t.Fatalf("got failures %q, want one for each of two streams", failures)
		}
		const want = "measure the reference stream: connect: "
		if failures[0][:len(want)] != want {
			t.Errorf("got %q, want it to begin with %q", failures[0], want)
		}
	})
}

func TestDeviationNeedsTheWholeStream(t *testing.T) {
	whole := truth.Stream{RequestID: "0", Sent: []time.Duration{1, 2}}
	tests := []struct {
		name     string
		exchange Exchange
		streams  []truth.Stream
		want     string
	}{
		{"no stream", Exchange{ID: "0"}, nil, "the server knows no request 0"},
		{"failed", Exchange{ID: "0", Error: "connect: refused"}, nil, "connect: refused"},
		{"cut", Exchange{ID: "0"}, []truth.Stream{{Cut: true}}, "the server could not finish request 0"},
		{"token lost", Exchange{ID: "0", At: []time.Duration{1}}, []truth.Stream{whole}, "the client saw another number of events than the server wrote"},
	}
	for _, tc := range tests {
		if d, err := deviation(&tc.exchange, tc.streams, time.Now()); err == nil || err.Error() != tc.want {
			t.Errorf("%s: got %+v, %v, want %q", tc.name, d, err, tc.want)
		}
	}
}
