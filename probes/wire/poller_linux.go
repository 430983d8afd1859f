package wire

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for the TCP connections of one client, all in one place.
//
// The runtime would do it as well, with a cost that a thousand streams feel: each
// event wakes a thread, readies a goroutine, and the goroutine has to read once more
// in vain before it may wait again. (It must: the runtime forgets, when a wait
// begins, what it was told before, and does not say whether the peer has closed.)
// Here whoever waits first leads: that goroutine waits in the kernel for all
// connections of the client, and for a stream it even takes the bytes to where they
// are decoded, so that an event costs one read and no change of goroutines. A leader
// whose own wait is over hands on to another that waits; there is no goroutine
// besides the callers', and nothing runs when none of them waits.
//
// While events come fast the leader looks every roundPause and sleeps in between. The events
// of one round then share its cost, and the sender does not have to wake anybody.
// That makes reads late by up to a round, which is what the kernel's stamps are for:
// no byte is dated by its read. What the leader reads then, with its stamp, it keeps in
// the connection's inbox and looks at up to keepTime later, several events at once:
// what a thousand streams know of themselves does not fit into a processor's cache, and
// to fetch it for each event would cost more than to decode the event.
//
// Wake-ups are edges: the kernel tells once that something came. An edge that nobody
// waits for is kept in the connection, and whoever reads less than it has room for
// knows that the next bytes make another edge. Only the peer's end does not, if it
// came together with the last bytes; that is why polled.hangup is kept too.
type poller struct {
	mu      sync.Mutex
	epoll   int // valid while there are connections
	conns   map[int32]*polled
	waiting map[*polled]struct{} // parked, the leader among them
	led     bool

	// The leader's own.
	events [256]unix.EpollEvent
	batch  []*polled // streams that have bytes
	now    time.Time // of the last look
	began  time.Time // of the stretch over which seen counts events
	seen   int
	busy   bool   // events come so fast that rounds pay
	more   bool   // the last look had no room for all
	kept   []kept // inboxes, the one that was begun first in front
}

// kept is an inbox with bytes that are to be looked at.
type kept struct {
	c     *polled
	since time.Time // c.kept, unless the inbox has been looked at meanwhile
}

const (
	// roundPause is from one look to the next. The kernel adds its timer slack of
	// 50 us, and reading takes its time: reads are late by less than a millisecond
	// then, the bound from which on one counts as late (probes.LateRead).
	roundPause = 400 * time.Microsecond
	// A leader that sees busyEvents or more in busyStretch, over as long at least, works
	// in rounds: below that a round would hold two or three, and save little.
	busyStretch = time.Millisecond
	busyEvents  = 5
	// keepTime is how long bytes may lie in an inbox. Nothing waits for them that long
	// but the end of an answer that does not end its message, and what a server says
	// of its failure.
	keepTime = 200 * time.Millisecond
)

const pollerEdges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// add takes a connection in, until remove.
func (p *poller) add(c *polled) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) == 0 {
		epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		p.epoll, p.conns, p.waiting = epoll, map[int32]*polled{}, map[*polled]struct{}{}
	}
	err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: pollerEdges, Fd: int32(c.fd)})
	if err == nil {
		p.conns[int32(c.fd)] = c
	}
	p.tidy()
	return err
}

// remove closes a connection that nobody waits for.
func (p *poller) remove(c *polled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	delete(p.conns, int32(c.fd))
	_ = unix.Close(c.fd) // which takes it out of the epoll
	p.tidy()
}

// tidy closes the epoll with the last connection.
func (p *poller) tidy() {
	if len(p.conns) == 0 {
		_ = unix.Close(p.epoll)
	}
}

// park waits until c is released. The caller holds the lock, and has said in c what
// it waits for.
func (p *poller) park(c *polled) {
	p.waiting[c] = struct{}{}
	for c.wants != nothing {
		if !p.led {
			p.lead(c)
			continue
		}
		p.mu.Unlock()
		<-c.wake
		p.mu.Lock()
	}
	if p.led {
		return
	}
	// Also when c has not led: it may have been told to, and been released meanwhile.
	for next := range p.waiting {
		next.signal()
		return
	}
	clear(p.kept)
	p.kept = p.kept[:0]
}

// release ends a wait.
func (p *poller) release(c *polled) {
	c.wants, c.kept = nothing, time.Time{}
	delete(p.waiting, c)
	c.signal()
}

// lead serves all connections until own is released. It begins and ends with the lock.
func (p *poller) lead(own *polled) {
	p.led = true
	for own.wants != nothing {
		limit := own.left()
		p.mu.Unlock()
		n := p.look(limit)
		p.mu.Lock()
		p.sort(n)
		if len(p.batch) > 0 {
			p.mu.Unlock()
			p.attend()
			p.mu.Lock()
			p.settle()
		}
		if limit == 0 {
			own.expire() // its timer may be behind
		}
	}
	p.led = false
}

// attend reads what has come on the streams of the batch, and then looks at those that
// are due: a read must not wait until the streams before it have been looked at.
func (p *poller) attend() {
	for _, c := range p.batch {
		if p.busy && c.fresh && c.collect() {
			c.due = true
		}
	}
	for _, c := range p.batch {
		switch {
		case c.due || !p.busy:
			c.kept = time.Time{}
			c.finished = c.serveSafely()
		case c.kept.IsZero() && !c.inbox.empty():
			c.kept = p.now
			p.kept = append(p.kept, kept{c, p.now})
		}
	}
}

// look waits for events, for at most limit if that is not negative.
func (p *poller) look(limit time.Duration) int {
	if p.busy {
		limit = 0
		if rest := roundPause - time.Since(p.now); rest > 0 && !p.more {
			pause := unix.NsecToTimespec(int64(rest))
			_ = unix.Nanosleep(&pause, nil)
		}
	}
	n := epollWait(p.epoll, p.events[:], limit)
	p.more = n == len(p.events)
	p.seen += n
	p.now = time.Now()
	if length := p.now.Sub(p.began); length >= busyStretch {
		p.busy = time.Duration(p.seen)*busyStretch >= busyEvents*length
		p.began, p.seen = p.now, 0
	}
	return n
}

// epollWait is the system call, which may be interrupted and then has seen nothing.
func epollWait(epoll int, into []unix.EpollEvent, limit time.Duration) int {
	if limit == 0 {
		// Raw, since it cannot block: the scheduler need not be told.
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)), 0, 0, 0)
		if errno != 0 {
			return 0
		}
		return int(n)
	}
	timeout := -1
	if limit > 0 {
		timeout = int(min((limit+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	n, err := unix.EpollWait(epoll, into, timeout)
	if err != nil {
		return 0
	}
	return n
}

// sort tells n events to their connections: it releases those that have waited for
// them, and lists the streams that are to be served.
func (p *poller) sort(n int) {
	for i := range p.events[:n] {
		e := &p.events[i]
		c := p.conns[e.Fd]
		if c == nil {
			continue // closed since
		}
		c.edges |= e.Events
		if e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			c.hangup.Store(true)
			c.edges |= unix.EPOLLIN | unix.EPOLLOUT
		}
		if c.wants == nothing || c.edges&c.wants == 0 {
			continue
		}
		c.edges &^= c.wants
		if c.serve == nil {
			p.release(c)
			continue
		}
		c.fresh, c.drained = true, false
		p.list(c)
	}
	p.ripen()
}

// ripen lists the streams whose inbox is to be looked at.
func (p *poller) ripen() {
	n := 0
	for _, k := range p.kept {
		if p.busy && p.now.Sub(k.since) < keepTime {
			break
		}
		if k.c.kept.Equal(k.since) {
			k.c.due = true
			p.list(k.c)
		}
		n++
	}
	p.kept = slices.Delete(p.kept, 0, n)
}

// list puts a stream into the batch.
func (p *poller) list(c *polled) {
	if !c.served {
		c.served = true
		p.batch = append(p.batch, c)
	}
}

// settle releases those of the batch that have what they waited for.
func (p *poller) settle() {
	for _, c := range p.batch {
		c.served, c.fresh, c.due = false, false, false
		switch {
		case c.finished:
			p.release(c)
		case c.late:
			c.late = false
			c.expire()
		}
	}
	clear(p.batch)
	p.batch = p.batch[:0]
}
