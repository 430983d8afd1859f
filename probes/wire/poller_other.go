//go:build !linux

package wire

import (
	"errors"
	"net"
	"time"
)

// poller would wait for the connections of a client in one place, and read them with
// the kernel's stamps; only Linux is known to have those on TCP.
type poller struct{}

type polled struct {
	net.Conn
	inbox inbox
}

type inbox struct{}

func (inbox) empty() bool { return true }

func (*poller) newPolled(net.Conn) *polled { return nil }

func (*polled) receive([]byte, bool) (n int, at time.Time, wall int64, err error) {
	return 0, at, 0, errors.ErrUnsupported
}

func (*polled) stream(func() bool) error { return errors.ErrUnsupported }

func (*polled) abort() error { return errors.ErrUnsupported }
