package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// drainTime is how long Close(true) waits for the end of a body whose last
// useful byte has been seen. Longer would hold the caller's slot for a server
// that says it is done and leaves the socket open.
const drainTime = 10 * time.Millisecond

var errClosed = errors.New("response is closed")

// Response is an answer whose body is still being read. One goroutine uses it;
// it must be closed.
type Response struct {
	StatusCode int
	Header     http.Header
	Trace      probes.ConnectionTrace
	// FirstByte is when the first byte of the status line came, or bytes that came
	// together with it; see LastRead.
	FirstByte time.Duration
	// Stale: a reused connection had been closed by the server, and the request
	// was sent again on a new one before any byte had come back.
	Stale bool
	// Compressed: the body is compressed although identity was asked for; Read
	// returns it decompressed.
	Compressed bool
	// Location is the absolute target of a redirect that was not followed, without
	// a password; else empty.
	Location string

	client   *Client
	ctx      context.Context
	clock    probes.Clock
	cn       *conn
	body     body
	decoder  decoder
	keep     time.Duration // how long the connection may idle; 0: close it
	deadline probes.Optional[time.Duration]
	err      error // what Read has ended with
	last     time.Duration
	came     probes.Receiving
	closed   bool
}

// Read returns body bytes as soon as there are any, and io.EOF at the end of the
// message. Other errors are an *Error of PhaseBody: io.ErrUnexpectedEOF when the
// connection ended inside the body, os.ErrDeadlineExceeded after the read
// deadline, context.Canceled after a cancellation. After an error the response
// can only be closed.
func (r *Response) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	var n int
	var err error
	if r.Compressed {
		n, err = r.decoder.Read(p)
	} else {
		n, err = r.body.Read(p)
	}
	if err != nil {
		r.err = r.bodyError(err)
	}
	return n, r.err
}

func (r *Response) bodyError(err error) error {
	if err == io.EOF {
		return err
	}
	if r.ctx.Err() != nil {
		err = cancelled(r.ctx)
	}
	return &Error{Phase: PhaseBody, Err: err, Trace: r.Trace, Stale: r.Stale}
}

// LastRead is when the bytes last returned by Read had come: the kernel's receive
// stamp, or where there is none when the socket's read returned. Bytes that had
// come together carry the same stamp.
func (r *Response) LastRead() time.Duration {
	if r.closed {
		return r.last // the connection may serve somebody else by now
	}
	return r.cn.lastRead
}

// Receiving is how promptly the answer was read so far, its headers included.
func (r *Response) Receiving() probes.Receiving {
	if r.closed {
		return r.came
	}
	return r.cn.raw.receiving
}

// SetReadDeadline bounds the reads from now on, blocked ones included; unknown
// removes the bound. A response starts without one.
func (r *Response) SetReadDeadline(at probes.Optional[time.Duration]) {
	if r.closed || at == r.deadline {
		return
	}
	r.deadline = at
	// An error means that the socket is closed, which the next read reports.
	_ = r.cn.raw.boundReads(instant(r.clock, at))
}

// Close ends the exchange. With finished, the caller has seen the end mark of
// the protocol: what is left of the message is read if it comes within 10 ms,
// and the connection is kept for the next exchange if it may be. Otherwise the
// connection is closed, which tells the server to stop generating.
func (r *Response) Close(finished bool) {
	if r.closed {
		return
	}
	r.closed, r.last, r.came = true, r.cn.lastRead, r.cn.raw.receiving
	finished = finished && (r.err == nil || r.err == io.EOF)
	if r.err == nil {
		r.err = errClosed
	}
	if finished && r.body.next != ended {
		r.drain()
	}
	cn := r.cn
	// Once unwatched in time, a later cancellation cannot close a connection
	// that serves somebody else by then.
	alone := cn.unwatch()
	if !finished || !alone || r.keep <= 0 || r.body.next != ended || cn.spent() {
		cn.close()
		return
	}
	if cn.raw.SetDeadline(time.Time{}) != nil {
		cn.close()
		return
	}
	r.client.pool.put(cn, r.keep)
}

// drain reads the rest of the message, for drainTime at most. Connections that
// will not be kept are drained too: closing over unread bytes would reset them
// under a server that has done nothing wrong.
func (r *Response) drain() {
	if r.cn.raw.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	var scrap [1024]byte
	for {
		if _, err := r.body.Read(scrap[:]); err != nil {
			return
		}
	}
}

// instant is the offset as a wall time for a socket's deadline; unknown is none.
func instant(clock probes.Clock, at probes.Optional[time.Duration]) time.Time {
	offset, known := at.Get()
	if !known {
		return time.Time{}
	}
	return clock.Start.Add(offset)
}
