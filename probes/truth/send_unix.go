//go:build unix

package truth

import (
	"net"
	"syscall"
)

// sender writes to a connection without waiting for a reader that has fallen
// behind: one full socket must not make all other streams late. A connection
// without a descriptor (net.Pipe) is waited for; in virtual time that costs none.
type sender struct {
	conn net.Conn
	raw  syscall.RawConn // nil without a descriptor
	// try is made once: a closure for each write would be an allocation for each token.
	try   func(fd uintptr) bool
	bytes []byte
	n     int
	err   error
}

func newSender(c net.Conn) *sender {
	s := &sender{conn: c}
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	s.try = func(fd uintptr) bool {
		s.n, s.err = syscall.Write(int(fd), s.bytes)
		return true // whatever came of it: false would wait
	}
	return s
}

// send writes as much as fits and returns how much that was; no error when
// nothing fitted.
func (s *sender) send(b []byte) (int, error) {
	if s.raw == nil {
		return s.conn.Write(b)
	}
	s.bytes = b
	if err := s.raw.Write(s.try); err != nil {
		return 0, err
	}
	if s.err == syscall.EAGAIN || s.err == syscall.EINTR {
		return 0, nil
	}
	return max(s.n, 0), s.err
}
