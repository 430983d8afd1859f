package wire

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// readBuffer holds a burst of token events; it is also the longest chunk
	// header line.
	readBuffer = 8 << 10
	// maxHeader bounds status line and headers, interim answers included.
	maxHeader = 1 << 20
)

var errHeaderTooLarge = errors.New("headers are larger than 1 MiB")

// conn is one connection with the stamps of the exchange that is using it. One
// goroutine uses it at a time.
type conn struct {
	raw    *socket  // deadlines, closing, peeking, dates
	stream net.Conn // raw, or TLS on it
	br     *bufio.Reader
	route  route
	local  string
	h2     *frames // nil: HTTP/1.1

	abort func()      // breaks raw; made once, so that watching allocates less
	stop  func() bool // undoes the current watch; nil when unwatched

	clock     probes.Clock
	received  bool // a byte has come since begin, be it of an interim answer
	stamped   bool // firstByte is known
	firstByte time.Duration
	lastRead  time.Duration
	failed    error // what the last read of the stream ended with
	pending   error // an error of the stream that has been read, but not yet told
	// header is how many bytes may still be read as header; negative: no bound.
	header int

	expires time.Time // while idle
}

func newConn(raw *socket, rt route) *conn {
	cn := &conn{raw: raw, stream: raw, route: rt, local: raw.LocalAddr().String(), header: -1}
	cn.br = bufio.NewReaderSize(cn, readBuffer)
	// The socket and not the TLS session: that would first wait for a writer and
	// could block on its farewell.
	cn.abort = func() { _ = raw.abort() }
	return cn
}

// Read takes the next bytes of the answer, of which the socket knows when they came.
func (cn *conn) Read(p []byte) (int, error) {
	if cn.pending != nil {
		return 0, cn.pending
	}
	if cn.header >= 0 && len(p) > cn.header {
		if cn.header == 0 {
			cn.failed = errHeaderTooLarge
			return 0, errHeaderTooLarge
		}
		p = p[:cn.header]
	}
	n, err := cn.stream.Read(p)
	cn.failed = err
	if n > 0 {
		cn.lastRead, cn.received = cn.raw.arrived.Sub(cn.clock.Start), true
		if !cn.stamped {
			cn.stamped, cn.firstByte = true, cn.lastRead
		}
		if cn.header >= 0 {
			cn.header -= n
		}
	}
	return n, err
}

// watch ties the socket to ctx: its cancellation breaks the socket at once, in
// whatever phase. No goroutine runs until that happens.
func (cn *conn) watch(ctx context.Context) {
	if cn.stop == nil && ctx.Done() != nil {
		cn.stop = context.AfterFunc(ctx, cn.abort)
	}
}

// unwatch reports whether the socket was left alone; if not, it is being broken.
func (cn *conn) unwatch() bool {
	stop := cn.stop
	cn.stop = nil
	return stop == nil || stop()
}

// answered reports whether anything of the answer has come.
func (cn *conn) answered() bool {
	if cn.h2 != nil {
		return cn.h2.answered
	}
	return cn.received
}

// spent reports whether the connection holds what no further exchange can get past.
func (cn *conn) spent() bool {
	if cn.h2 != nil {
		return cn.h2.goneAway || cn.h2.unsent
	}
	return cn.br.Buffered() > 0 || cn.raw.holds()
}

// usable reports whether an idle connection can still be used.
func (cn *conn) usable() bool {
	if cn.h2 != nil {
		return cn.h2.catchUp()
	}
	return quiet(cn.raw.Conn)
}

func (cn *conn) close() {
	cn.unwatch()
	_ = cn.raw.Close()
}

// begin forgets the previous exchange.
func (cn *conn) begin(clock probes.Clock) {
	cn.clock, cn.received, cn.stamped, cn.failed = clock, false, false, nil
	cn.raw.begin()
	if cn.h2 != nil {
		cn.h2.answered = false
	}
}

// readHead reads status line and headers and skips interim (1xx) answers.
func (cn *conn) readHead(req *http.Request) (*http.Response, error) {
	cn.header = maxHeader
	for {
		head, err := http.ReadResponse(cn.br, req)
		switch {
		case err != nil && cn.failed != nil:
			// The parser takes what it has for a line and complains about that.
			return nil, unexpected(cn.failed)
		case err != nil:
			return nil, err
		case head.StatusCode < 100 || head.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("unexpected status " + head.Status)
		case head.StatusCode >= 200:
			cn.header = -1
			return head, nil
		}
		// What is buffered behind an interim answer came with the read that
		// completed it; otherwise the next read brings the first byte.
		cn.stamped, cn.firstByte = cn.br.Buffered() > 0, cn.lastRead
	}
}
