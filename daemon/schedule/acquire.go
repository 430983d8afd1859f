package schedule

import (
	"context"
	"slices"
	"sync"

	"github.com/inferbeat/inferbeat/probes"
)

// Acquire waits until a run of the entry's pair may start that its plan does not ask
// for. It stands in the same queue as what is due, so neither goes before the other's
// turn. The caller carries the run out, and releases the pair and its targets when it
// has ended.
//
// When ctx ends before, release is nil and refused says what it waited for. While
// everything is paused, and once Run has ended, it is refused at once (paused).
func (s *Scheduler) Acquire(ctx context.Context, entry Entry) (release func(), refused probes.SkipReason) {
	it := &item{entry: entry, index: -1, waiting: true, asked: &asked{over: make(chan struct{})}}
	s.mu.Lock()
	if s.paused || s.stopped {
		s.mu.Unlock()
		return nil, probes.SkipPaused
	}
	it.due = s.now()
	s.waiting = append(s.waiting, it)
	s.mu.Unlock()
	s.poke()
	select {
	case <-it.asked.over:
	case <-ctx.Done():
		s.giveUp(it)
	}
	if it.asked.refused != "" {
		return nil, it.asked.refused
	}
	return sync.OnceFunc(func() {
		s.ended(entry)
		s.runs.Done()
	}), ""
}

// giveUp ends the wait of an item, unless it has been decided already: what was given
// meanwhile is taken.
func (s *Scheduler) giveUp(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.waiting, it) {
		return
	}
	s.stopWaiting(it)
	if it.why == "" {
		it.why = probes.SkipMissed // the loop had no time to look
	}
	it.asked.refuse(it.why)
}

// stop refuses everybody who waits: nothing starts any more.
func (s *Scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, it := range s.waiting {
		if it.asked != nil {
			it.asked.refuse(probes.SkipPaused)
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(it *item) bool { return it.asked != nil })
}

// SetLimit bounds how many runs go on at once; 0 is no bound. Those that go on already
// are not ended.
func (s *Scheduler) SetLimit(runs int) {
	s.mu.Lock()
	s.most = runs
	s.mu.Unlock()
	s.poke()
}

// Waiting is how many runs are due, or asked for, and have not started.
func (s *Scheduler) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
