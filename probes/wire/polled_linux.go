package wire

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// polled is a TCP connection that belongs to a poller and not to the runtime. One
// goroutine uses it at a time; abort may be called from any.
type polled struct {
	poller        *poller
	fd            int
	local, remote net.Addr

	recvmsg
	inbox
	ended error // what reading has ended with, once the inbox is empty
	// drained: the last read has left nothing behind that no edge will tell of.
	drained bool
	// hangup: the peer has closed its side, or the connection is broken.
	hangup atomic.Bool

	wake  chan struct{} // one place; who finds it taken need not fill it
	timer *time.Timer   // nil before the first wait with a bound

	// Under the poller's lock:
	closed bool
	until  [2]time.Time // bounds of reads and of writes, zero is none
	edges  uint32       // that came and were waited for by nobody

	wants   uint32 // edges that are waited for; nothing: nobody waits
	bound   int    // of the wait, an index of until
	expired bool   // the wait ended with its bound
	serve   func() bool
	// served: the leader is with it, and to it belong
	served   bool
	fresh    bool      // an edge has come
	due      bool      // to be looked at, whatever has come
	kept     time.Time // since when the inbox holds bytes; zero: it is not listed
	finished bool      // serve is content
	panicked any       // what serve panicked with
	late     bool      // the bound passed meanwhile
}

const nothing = 0

const (
	reading = iota
	writing
)

// newPolled takes a connection out of the runtime's hands; nil when the system does
// not let it, and raw is still good then.
func (p *poller) newPolled(raw net.Conn) *polled {
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return nil
	}
	sc, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	c := &polled{poller: p, local: tcp.LocalAddr(), remote: tcp.RemoteAddr(), wake: make(chan struct{}, 1)}
	var failed error
	err = sc.Control(func(fd uintptr) { c.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil || failed != nil {
		return nil
	}
	stampAlways()
	_ = askForStamps(c.fd) // without them reads are dated as they return
	if err := p.add(c); err != nil {
		_ = unix.Close(c.fd)
		return nil
	}
	_ = tcp.Close() // this descriptor; the connection lives on in ours
	return c
}

// receive takes what is there, at least one byte, and says when the read returned and
// what the kernel's stamp is, 0 for none. When there is nothing it waits if it may, and
// else returns errNothing.
func (c *polled) receive(p []byte, wait bool) (n int, at time.Time, wall int64, err error) {
	for len(p) > 0 {
		if !c.inbox.empty() {
			n, at, wall = c.inbox.take(p)
			return n, at, wall, nil
		}
		if n, err = c.read(p); n > 0 {
			return n, time.Now(), c.stamp(), nil
		}
		if err != errNothing || !wait {
			return 0, at, 0, err
		}
		if err := c.await(unix.EPOLLIN, reading, nil); err != nil {
			return 0, at, 0, c.failure("read", err)
		}
	}
	return 0, at, 0, nil
}

// read reads once from the socket; errNothing says that nothing is there.
func (c *polled) read(p []byte) (int, error) {
	if c.ended != nil {
		return 0, c.ended
	}
	if c.drained {
		return 0, errNothing
	}
	n, errno := c.recvmsg.read(c.fd, p)
	switch {
	case errno == unix.EAGAIN:
		c.drained = true
		return 0, errNothing
	case errno != 0:
		c.ended = c.failure("read", os.NewSyscallError("recvmsg", errno))
	case n == 0:
		c.ended = io.EOF
	default:
		c.drained = n < len(p) && !c.hangup.Load()
	}
	return n, c.ended
}

// collect reads once into the inbox, and reports whether to look at it now.
func (c *polled) collect() (urgent bool) {
	n, err := c.read(c.inbox.room())
	if n == 0 {
		return err != errNothing
	}
	return c.inbox.keep(n, time.Now(), c.stamp()) || !c.drained
}

// stream lets serve take what comes, in the goroutine of whoever leads, until it
// returns true, or the bound of reads passes. It must not wait.
func (c *polled) stream(serve func() bool) error {
	if err := c.await(unix.EPOLLIN, reading, serve); err != nil {
		return c.failure("read", err)
	}
	return nil
}

// await waits for one of the edges, and with serve until that is content.
func (c *polled) await(edges uint32, bound int, serve func() bool) error {
	p := c.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.serve, c.finished, c.expired, c.late, c.bound = serve, serve == nil, false, false, bound
	for came := c.edges&edges != 0; came; came = c.edges&edges != 0 {
		c.edges &^= edges
		c.drained = false
		if serve != nil {
			p.mu.Unlock()
			c.finished = c.serveSafely()
			p.mu.Lock()
		}
		if c.finished {
			return c.awaited()
		}
	}
	c.wants = edges
	if c.arm(); c.wants != nothing {
		p.park(c)
	}
	return c.awaited()
}

// awaited ends a wait for its caller.
func (c *polled) awaited() error {
	c.drained, c.serve = false, nil
	if cause := c.panicked; cause != nil {
		c.panicked = nil
		panic(cause)
	}
	if c.expired {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// serveSafely keeps a panic for the goroutine whose stream it is.
func (c *polled) serveSafely() (finished bool) {
	defer func() {
		if cause := recover(); cause != nil {
			c.panicked, finished = cause, true
		}
	}()
	return c.serve()
}

// signal wakes the goroutine that is parked.
func (c *polled) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// left is the time until the bound of the wait, negative without one.
func (c *polled) left() time.Duration {
	if at := c.until[c.bound]; !at.IsZero() {
		return max(time.Until(at), 0)
	}
	return -1
}

// arm makes the bound of the wait ring, if there is one.
func (c *polled) arm() {
	switch left := c.left(); {
	case c.wants == nothing || left < 0:
	case c.timer == nil:
		c.timer = time.AfterFunc(left, c.ring)
	default:
		c.timer.Reset(left)
	}
}

func (c *polled) ring() {
	c.poller.mu.Lock()
	defer c.poller.mu.Unlock()
	if c.served {
		c.late = true // settle finds it
		return
	}
	c.expire()
}

// expire ends the wait if its bound has passed; the bound may have moved since it
// was armed.
func (c *polled) expire() {
	switch {
	case c.wants == nothing:
	case c.left() == 0:
		c.expired = true
		c.poller.release(c)
	default:
		c.arm()
	}
}

// Read waits for bytes and takes them.
func (c *polled) Read(p []byte) (int, error) {
	n, _, _, err := c.receive(p, true)
	return n, err
}

// Write returns when all has been handed to the kernel.
func (c *polled) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k, err := unix.Write(c.fd, p[n:])
		switch {
		case err == nil:
			n += k
		case err == unix.EAGAIN:
			if err := c.await(unix.EPOLLOUT, writing, nil); err != nil {
				return n, c.failure("write", err)
			}
		case err != unix.EINTR:
			return n, c.failure("write", os.NewSyscallError("write", err))
		}
	}
	return n, nil
}

// failure is an error in the words of the standard library.
func (c *polled) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// abort breaks the connection: whoever waits for it finds its end.
func (c *polled) abort() error {
	c.poller.mu.Lock()
	defer c.poller.mu.Unlock()
	if c.closed {
		return net.ErrClosed // the descriptor may be somebody else's by now
	}
	return unix.Shutdown(c.fd, unix.SHUT_RDWR)
}

// Close closes the connection. Nobody may be waiting for it.
func (c *polled) Close() error {
	c.poller.remove(c)
	return nil
}

func (c *polled) LocalAddr() net.Addr  { return c.local }
func (c *polled) RemoteAddr() net.Addr { return c.remote }

func (c *polled) SetDeadline(at time.Time) error      { return c.setBounds(at, reading, writing) }
func (c *polled) SetReadDeadline(at time.Time) error  { return c.setBounds(at, reading) }
func (c *polled) SetWriteDeadline(at time.Time) error { return c.setBounds(at, writing) }

func (c *polled) setBounds(at time.Time, bounds ...int) error {
	c.poller.mu.Lock()
	defer c.poller.mu.Unlock()
	if c.closed {
		return c.failure("set", net.ErrClosed)
	}
	for _, bound := range bounds {
		c.until[bound] = at
	}
	c.arm()
	return nil
}

// SyscallConn is the descriptor, for a look at it.
func (c *polled) SyscallConn() (syscall.RawConn, error) { return descriptor{c}, nil }

// descriptor never waits: a function that asks to be called again is not.
type descriptor struct{ c *polled }

func (d descriptor) Control(f func(fd uintptr)) error {
	d.c.poller.mu.Lock()
	defer d.c.poller.mu.Unlock()
	if d.c.closed {
		return net.ErrClosed
	}
	f(uintptr(d.c.fd))
	return nil
}

func (d descriptor) Read(f func(fd uintptr) bool) error {
	return d.Control(func(fd uintptr) { f(fd) })
}

func (d descriptor) Write(f func(fd uintptr) bool) error { return d.Read(f) }
