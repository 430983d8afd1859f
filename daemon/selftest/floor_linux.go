package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inferbeat/inferbeat/probes"
)

// tokenMark is in every event that carries text, and in no other.
var tokenMark = []byte(`"text":"`)

// floorStream is one connection of the floor.
type floorStream struct {
	at   int // of its exchange
	tail []byte
}

// sendFloor spends the least that reading these streams can cost: one thread, one
// epoll, one read for what has come, a count of events and nothing else. Its
// stamps are those of the reads.
func sendFloor(ctx context.Context, clock probes.Clock, l load) ([]Exchange, error) {
	f := &floor{clock: clock, load: l, streams: make(map[int32]*floorStream, l.Streams), exchanges: make([]Exchange, 0, l.Requests)}
	var err error
	if f.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	defer func() {
		for fd := range f.streams {
			_ = unix.Close(int(fd))
		}
		_ = unix.Close(f.epoll)
	}()
	ready := make([]unix.EpollEvent, 1024)
	start, slots := clock.Now(), min(l.Streams, l.Requests)
	for opened := 0; opened < slots || len(f.streams) > 0; {
		timeout := 1000
		for ; opened < slots; opened++ {
			if early := start + time.Duration(opened)*l.Gap - clock.Now(); early > 0 {
				timeout = int(early/time.Millisecond) + 1
				break
			}
			if err := f.open(); err != nil {
				return nil, err
			}
		}
		n, err := unix.EpollWait(f.epoll, ready, timeout)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("wait for streams: %w", err)
		}
		for _, event := range ready[:max(n, 0)] {
			if err := f.read(event.Fd); err != nil {
				return nil, err
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return f.exchanges, nil
}

type floor struct {
	clock     probes.Clock
	load      load
	epoll     int
	streams   map[int32]*floorStream
	exchanges []Exchange
	buffer    [64 << 10]byte
}

// open makes a connection and sends the first request on it.
func (f *floor) open() error {
	address, err := netip.ParseAddrPort(f.load.Address)
	if err != nil {
		return fmt.Errorf("parse address: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make socket: %w", err)
	}
	st := &floorStream{}
	f.streams[int32(fd)] = st
	began := f.clock.Now()
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("make socket non-blocking: %w", err)
	}
	if err := unix.EpollCtl(f.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("add socket to epoll: %w", err)
	}
	return f.ask(int32(fd), st, began, false)
}

// ask sends the next request on a connection, or closes it when there is none.
func (f *floor) ask(fd int32, st *floorStream, began time.Duration, reused bool) error {
	if len(f.exchanges) == f.load.Requests {
		delete(f.streams, fd)
		return unix.Close(int(fd))
	}
	id := strconv.Itoa(len(f.exchanges))
	body := plainBody(f.load)
	request := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: truth\r\nX-Request-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
	st.at, st.tail = len(f.exchanges), st.tail[:0]
	f.exchanges = append(f.exchanges, Exchange{
		ID: id, Reused: reused, Due: began, Sent: began, Setup: f.clock.Now() - began, At: make([]time.Duration, 0, f.load.Tokens),
	})
	if _, err := unix.Write(int(fd), []byte(request)); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}

// overlap is how much of a read is looked at again with the next one, so that a
// mark on their border is found.
const overlap = 7

// read takes what has come on a connection.
func (f *floor) read(fd int32) error {
	st := f.streams[fd]
	kept := copy(f.buffer[:], st.tail)
	n, err := unix.Read(int(fd), f.buffer[kept:])
	now := f.clock.Now()
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("read answer: %w", err)
	case n == 0:
		return errors.New("read answer: the server closed the connection")
	}
	bytesNow := f.buffer[:kept+n]
	e := &f.exchanges[st.at]
	for range bytes.Count(bytesNow, tokenMark) {
		e.At = append(e.At, now)
	}
	if bytes.HasSuffix(bytesNow, []byte("\n0\r\n\r\n")) {
		return f.ask(fd, st, f.clock.Now(), true)
	}
	st.tail = append(st.tail[:0], bytesNow[max(0, len(bytesNow)-overlap):]...)
	return nil
}
