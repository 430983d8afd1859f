//go:build !linux

package wire

import (
	"errors"
	"net"
)

// receiver would read with the kernel's stamps; only Linux is known to have them
// on TCP.
type receiver struct{}

func newReceiver(net.Conn) *receiver { return nil }

func (*receiver) read([]byte) (n int, wall int64, err error) { return 0, 0, errors.ErrUnsupported }
