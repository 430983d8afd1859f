package truth

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadWaiter sleeps in the kernel on a thread of its own, with the timer slack
// of 50 us turned off and a priority above its clients': a truth that is late
// itself comes in bursts that no server sends.
type threadWaiter struct {
	event   int // eventfd; readable once woken
	poll    [1]unix.PollFd
	timeout unix.Timespec
}

func newWaiter(thread bool) (waiter, error) {
	if !thread {
		return newTimerWaiter(), nil
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make event descriptor of truth server: %w", err)
	}
	return &threadWaiter{event: event, poll: [1]unix.PollFd{{Fd: int32(event), Events: unix.POLLIN}}}, nil
}

// pacerNice is the thread's priority, unless the process has a higher one.
const pacerNice = -10

func (w *threadWaiter) begin() {
	runtime.LockOSThread() // for good: the thread and its settings end with the goroutine
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	// A wish, since it needs privileges. The raw answer of the system call is 20 - nice.
	if answer, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()); err == nil && answer < 20-pacerNice {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), pacerNice)
	}
}

func (w *threadWaiter) end() { _ = unix.Close(w.event) }

func (w *threadWaiter) wait(d time.Duration) {
	var timeout *unix.Timespec
	if d >= 0 {
		w.timeout = unix.NsecToTimespec(int64(d))
		timeout = &w.timeout
	}
	if n, _ := unix.Ppoll(w.poll[:], timeout, nil); n > 0 {
		var count [8]byte
		_, _ = unix.Read(w.event, count[:])
	}
}

func (w *threadWaiter) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.event, one[:])
}
