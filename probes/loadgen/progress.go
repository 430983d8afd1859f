package loadgen

import (
	"sync/atomic"

	"github.com/inferbeat/inferbeat/probes"
)

// Progress counts a load while it runs; anybody may read it at any time. One
// Progress may be given to several loads in turn and then counts their sum.
type Progress struct {
	due, sent, inFlight, done, failed, cancelled, dropped atomic.Int64
}

// Counts is a Progress at one instant. Due - Sent - Dropped requests are waiting
// for a slot.
type Counts struct {
	Due       int // requests whose time has come
	Sent      int // handed to the backend and not dropped by it
	InFlight  int
	Done      int // ended after they were sent, in whatever way
	Failed    int // of Done: outcomes that count against the target
	Cancelled int // of Done: cut by us
	Dropped   int // due and never sent
}

// Snapshot reads the counters one after the other; a request that ends
// meanwhile may be in two of them or in none.
func (p *Progress) Snapshot() Counts {
	return Counts{
		Due:       int(p.due.Load()),
		Sent:      int(p.sent.Load()),
		InFlight:  int(p.inFlight.Load()),
		Done:      int(p.done.Load()),
		Failed:    int(p.failed.Load()),
		Cancelled: int(p.cancelled.Load()),
		Dropped:   int(p.dropped.Load()),
	}
}

// InFlight is the number of requests that are with the backend now.
func (p *Progress) InFlight() int { return int(p.inFlight.Load()) }

// settle counts a request that the backend has given back.
func (p *Progress) settle(o probes.Outcome) {
	p.inFlight.Add(-1)
	if o == probes.Dropped { // for want of a descriptor, say: it was never sent
		p.sent.Add(-1)
		p.dropped.Add(1)
		return
	}
	switch {
	case o == probes.Cancelled:
		p.cancelled.Add(1)
	case o.Failed():
		p.failed.Add(1)
	}
	p.done.Add(1)
}
