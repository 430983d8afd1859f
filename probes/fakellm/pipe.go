package fakellm

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// NewPipeListener is a listener without a network: dial, which fits
// http.Transport.DialContext, hands one end of a net.Pipe to Accept. Nothing in
// it but channels, so it works inside a testing/synctest bubble. The ends can be
// reset like a TCP connection (see [Reset]); dial fails with ECONNREFUSED once
// the listener is closed.
func NewPipeListener() (l net.Listener, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	p := &pipeListener{accept: make(chan net.Conn), closed: make(chan struct{})}
	return p, p.dial
}

type pipeListener struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipeListener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	client, server := net.Pipe()
	wasReset := new(atomic.Bool)
	select {
	case p.accept <- &pipeConn{server, wasReset}:
		return &pipeConn{client, wasReset}, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// pipeConn is a net.Pipe end that knows whether the connection was reset.
type pipeConn struct {
	net.Conn
	wasReset *atomic.Bool // shared by both ends
}

func (c *pipeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.wasReset.Load() {
		err = &net.OpError{Op: "read", Net: "pipe", Err: syscall.ECONNRESET}
	}
	return n, err
}

func (c *pipeConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && c.wasReset.Load() {
		err = &net.OpError{Op: "write", Net: "pipe", Err: syscall.ECONNRESET}
	}
	return n, err
}

// abort closes a connection so that its peer sees a reset, not an end.
func abort(c net.Conn) {
	switch c := c.(type) {
	case *pipeConn:
		c.wasReset.Store(true)
	case *net.TCPConn:
		// Linger 0 turns the close into an RST. Its error leaves a plain close.
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}
