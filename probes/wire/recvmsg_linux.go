package wire

import (
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
		_ = askForStamps(fd)
	}
})

func askForStamps(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
}

// recvmsg reads from a socket together with the kernel's stamp, and allocates
// nothing.
type recvmsg struct {
	message unix.Msghdr
	piece   unix.Iovec
	control [64]byte // one message of a header and two words
}

// read takes what is there and does not wait: EAGAIN says that there is nothing. p
// must not be empty, or the end of the stream could not be told.
func (r *recvmsg) read(fd int, p []byte) (n int, errno syscall.Errno) {
	r.piece.Base = &p[0]
	r.piece.SetLen(len(p))
	for {
		r.message = unix.Msghdr{Iov: &r.piece, Control: &r.control[0]}
		r.message.SetIovlen(1)
		r.message.SetControllen(len(r.control))
		// Raw, since it cannot block: the scheduler need not be told.
		k, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.message)), unix.MSG_DONTWAIT)
		if errno == unix.EINTR {
			continue
		}
		r.piece.Base = nil
		if errno != 0 {
			return 0, errno
		}
		return int(k), 0
	}
}

// stamp is what the kernel said of the bytes that were read last, in nanoseconds of
// the wall clock since 1970; 0 when it said nothing.
func (r *recvmsg) stamp() int64 {
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
