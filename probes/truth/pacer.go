package truth

import (
	"container/heap"
	"errors"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// stallRetry is how soon a write is tried again after the socket was full. No
// client that reads at all lets that happen: an answer fits into its buffers.
const stallRetry = time.Millisecond

var errClosed = errors.New("the server was closed")

// pacer writes the token events of all streams at their times, in one goroutine.
type pacer struct {
	clock  probes.Clock
	waiter waiter
	queue  queue // owned by run

	mu       sync.Mutex
	arrived  []*stream
	finished []Stream
	stopping bool
}

// waiter sleeps. wait returns after d, or when wake has been called since the
// last wait began to return; a negative d is for ever. begin and end are called
// in the goroutine that waits.
type waiter interface {
	begin()
	wait(d time.Duration)
	wake()
	end()
}

func newPacer(clock probes.Clock, w waiter) *pacer { return &pacer{clock: clock, waiter: w} }

// add hands a stream over; its done is closed when it has ended.
func (p *pacer) add(st *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		st.failed = errClosed
		close(st.done)
		return
	}
	p.arrived = append(p.arrived, st)
	p.waiter.wake() // under the lock, so that a pacer that has stopped is not woken
}

func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping {
		p.stopping = true
		p.waiter.wake()
	}
}

func (p *pacer) take() []Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.finished
	p.finished = nil
	return taken
}

func (p *pacer) run() {
	p.waiter.begin()
	defer p.waiter.end()
	for {
		if stopping := p.admit(); stopping {
			p.abandon()
			return
		}
		if len(p.queue) == 0 {
			p.waiter.wait(-1)
			continue
		}
		st := p.queue[0]
		if d := st.at - p.clock.Now(); d > 0 {
			p.waiter.wait(d)
			continue
		}
		if p.step(st) {
			heap.Fix(&p.queue, 0)
		} else {
			heap.Pop(&p.queue)
			close(st.done)
		}
	}
}

// admit takes over the streams that have arrived.
func (p *pacer) admit() (stopping bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range p.arrived {
		heap.Push(&p.queue, st)
	}
	p.arrived = p.arrived[:0]
	return p.stopping
}

// abandon cuts all streams.
func (p *pacer) abandon() {
	for _, st := range p.queue {
		p.cut(st, errClosed)
		close(st.done)
	}
	p.queue = nil
}

// step makes the write that is due, or tries to; it returns false when the
// stream has ended.
func (p *pacer) step(st *stream) bool {
	w := &st.writes[st.next]
	if !st.begun {
		st.begun = true
		now := p.clock.Now()
		for range w.events {
			st.Sent = append(st.Sent, now)
		}
	}
	n, err := p.send(st, st.answer[st.from:w.end])
	st.from += n
	switch {
	case err != nil:
		st.Sent = st.Sent[:len(st.Sent)-w.events] // not written as a whole
		p.cut(st, err)
		return false
	case st.from < w.end:
		st.at = p.clock.Now() + stallRetry
		return true
	}
	st.begun = false
	st.next++
	if st.next == len(st.writes) {
		return false
	}
	st.at = st.writes[st.next].due
	return true
}

// send writes. It holds the lock over a stream's last write, so that take, called
// by whoever has read the last byte, waits until the stream is listed.
func (p *pacer) send(st *stream, b []byte) (int, error) {
	if st.next < len(st.writes)-1 {
		return st.to.send(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := st.to.send(b)
	if err == nil && n == len(b) {
		p.finished = append(p.finished, st.Stream)
	}
	return n, err
}

// cut lists a stream that did not come to its end.
func (p *pacer) cut(st *stream, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st.Cut, st.failed = true, err
	p.finished = append(p.finished, st.Stream)
}

// queue is a heap of streams, the one that is due next first.
type queue []*stream

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*stream)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	st := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return st
}
