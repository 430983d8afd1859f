//go:build unix

package wire

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quiet reports whether an idle connection is still open with nothing to read.
// It looks at the kernel's buffer without taking from it. Bytes on an idle
// connection are a parting message or a TLS alert: unusable either way. A
// connection without a descriptor (net.Pipe) is believed to be open.
func quiet(raw net.Conn) bool {
	sc, ok := raw.(syscall.Conn)
	if !ok {
		return true
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = rc.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		open = err == unix.EAGAIN || err == unix.EINTR
		return true // never wait for readability
	})
	return err == nil && open
}

// RaiseDescriptorLimit lifts the soft limit of open files to the hard one and
// returns both as they are afterwards, also when lifting failed. A run needs
// about one descriptor per request in flight.
func RaiseDescriptorLimit() (soft, hard uint64, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, fmt.Errorf("read limit of open files: %w", err)
	}
	if limit.Cur < limit.Max {
		raised := limit
		raised.Cur = raised.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
			return uint64(limit.Cur), uint64(limit.Max), fmt.Errorf("raise limit of open files from %d to %d: %w", limit.Cur, limit.Max, err)
		}
		limit = raised
	}
	return uint64(limit.Cur), uint64(limit.Max), nil
}
