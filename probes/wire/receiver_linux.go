package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampAlways keeps one socket with receive stamps open for the life of the
// process. The kernel begins to stamp a moment after the first socket asks for it
// and stops after the last has gone; without this socket the first answer after a
// silence would be stamped when it is read.
var stampAlways = sync.OnceFunc(func() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
})

// receiver reads from a TCP socket together with the kernel's stamp. One goroutine
// uses it at a time; a read allocates nothing.
type receiver struct {
	conn *net.TCPConn
	raw  syscall.RawConn
	try  func(fd uintptr) bool // made once: a closure for each read would allocate

	message unix.Msghdr
	piece   unix.Iovec
	control [64]byte // one message of a header and two words
	n       int
	errno   syscall.Errno
}

// newReceiver is nil when the kernel does not stamp on this connection.
func newReceiver(c net.Conn) *receiver {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	stampAlways()
	var asked error
	err = raw.Control(func(fd uintptr) {
		asked = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || asked != nil {
		return nil
	}
	r := &receiver{conn: tcp, raw: raw}
	r.try = r.receive
	return r
}

// read is Read of the connection, with the stamp of the last byte in nanoseconds of
// the wall clock since 1970, 0 when there is none.
func (r *receiver) read(p []byte) (n int, wall int64, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}
	r.piece.Base = &p[0]
	r.piece.SetLen(len(p))
	err = r.raw.Read(r.try)
	r.piece.Base = nil
	switch {
	case err != nil || r.errno != 0:
		return 0, 0, r.failure(err)
	case r.n == 0:
		return 0, 0, io.EOF
	}
	return r.n, r.stamp(), nil
}

// failure is the error of a read in the words of the standard library.
func (r *receiver) failure(err error) error {
	if err == nil {
		return &net.OpError{
			Op: "read", Net: "tcp", Source: r.conn.LocalAddr(), Addr: r.conn.RemoteAddr(), Err: os.NewSyscallError("recvmsg", r.errno),
		}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		op.Op = "read" // it says raw-read, which is nobody's business
	}
	return err
}

// receive takes what is there; false asks the runtime to wait for more.
func (r *receiver) receive(fd uintptr) bool {
	for {
		r.message = unix.Msghdr{Iov: &r.piece, Control: &r.control[0]}
		r.message.SetIovlen(1)
		r.message.SetControllen(len(r.control))
		// Raw, since it cannot block: the scheduler need not be told.
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.message)), unix.MSG_DONTWAIT)
		if errno == unix.EINTR {
			continue
		}
		r.n, r.errno = int(n), errno
		return errno != unix.EAGAIN
	}
}

// stamp is what the kernel said of the bytes that were read last.
func (r *receiver) stamp() int64 {
	for rest := r.control[:r.message.Controllen]; len(rest) >= unix.SizeofCmsghdr; {
		header, data, after, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			return 0
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SO_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			return (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		}
		rest = after
	}
	return 0
}
