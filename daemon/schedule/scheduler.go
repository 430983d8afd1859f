// Package schedule decides when a pair of probe and target is due, and starts it.
//
//  1. [Parse] turns a [probes.Schedule] into a [Plan]: a pure function from an
//     instant to the next start, spread by the pair's identity, right across clock
//     changes.
//  2. A [Scheduler] holds one [Entry] per pair in a queue ordered by due time. One
//     loop wakes for the next due time, at least once a second.
//  3. What is due starts in a goroutine of its own, or is skipped with a reason:
//     the pair's earlier run still goes (overlap), another run held the target until
//     the pair was due again (target_busy), so many runs went on at once
//     (prober_busy), everything is paused (paused), or the
//     loop could not be there in time (missed). A comparison needs two targets, and
//     waits until both are free; it keeps none for itself while it waits.
//  4. When a run ends, by returning or by a panic, the earliest due entry that
//     waits for the target starts. A run that no plan asks for waits among them
//     ([Scheduler.Acquire]).
//
// Due times are wall times, because people plan by the clock on the wall. That
// clock may step: forward, at most one run is made up for and the others count as
// missed; backward, due times are planned anew from the new time, and a pair is not
// started again before half its interval has really passed.
package schedule

import (
	"cmp"
	"container/heap"
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// heartbeat is the longest sleep of the loop. A step of the wall clock is noticed
// within it.
const heartbeat = time.Second

// Entry is one pair with its plan.
type Entry struct {
	Pair probes.Pair
	Plan Plan
	// Also names another target that a run needs to itself, beside the pair's; empty
	// for none.
	Also string
	// NoSpread keeps an every-plan on its bare grid.
	NoSpread bool
}

func (e Entry) spread() uint64 {
	if e.NoSpread {
		return 0
	}
	return Spread(e.Pair)
}

// Next is the entry's first start after an instant.
func (e Entry) Next(after time.Time) time.Time { return e.Plan.Next(after, e.spread()) }

// NextN lists the entry's next n starts after an instant.
func (e Entry) NextN(after time.Time, n int) []time.Time {
	return e.Plan.NextN(after, e.spread(), n)
}

// identity tells pairs apart; the rest of a pair may change with the configuration.
type identity struct{ target, probe string }

func (e Entry) identity() identity { return identity{e.Pair.Target, e.Pair.Probe} }

// targets are those that a run of the entry holds.
func (e Entry) targets() []string {
	if e.Also == "" {
		return []string{e.Pair.Target}
	}
	return []string{e.Pair.Target, e.Also}
}

// Options are what a scheduler needs from its owner. The callbacks are never called
// with the scheduler's lock held, so they may call its methods.
type Options struct {
	// Start carries out one run and returns when it has ended. It is called in a
	// goroutine of its own. lateness is the time from due to now, never negative.
	Start func(entry Entry, due time.Time, lateness time.Duration)
	// Skipped is told about n runs that did not start. nil is allowed.
	Skipped func(pair probes.Pair, reason probes.SkipReason, n int)
	// Panicked is told about a panic of Start; the schedule goes on. nil is allowed.
	Panicked func(entry Entry, value any, stack []byte)
	// Now reads the wall clock; nil is time.Now.
	Now func() time.Time
}

// Scheduler starts what is due. Its methods may be called at any time from any
// goroutine.
type Scheduler struct {
	options Options
	began   time.Time // for real time passed, whatever the wall clock does
	wake    chan struct{}
	runs    sync.WaitGroup

	mu       sync.Mutex
	paused   bool
	stopped  bool // Run has ended
	most     int  // runs at once; 0 is no bound
	items    map[identity]*item
	queue    queue             // items with a plan, by due time
	waiting  []*item           // due, but not started yet
	running  map[identity]bool // pairs, removed ones included
	busy     map[string]int    // runs per target
	wall     time.Time         // of the last tick
	skipped  []skip            // to be told once the lock is released
	launches []func()          // likewise
}

type item struct {
	entry Entry
	next  time.Time
	index int // in the queue; -1 when not in it
	// due is the start that the item waits for, when waiting.
	due     time.Time
	waiting bool
	// why is what kept it from starting when it was last tried; it may have gone since.
	why probes.SkipReason
	// fired is when a start last became due, as real time since the scheduler
	// began.
	fired probes.Optional[time.Duration]
	// asked is nil for an item with a plan.
	asked *asked
}

// asked is somebody who waits for a run that is not planned.
type asked struct {
	over    chan struct{} // closed when it is decided
	refused probes.SkipReason
}

func (a *asked) refuse(reason probes.SkipReason) {
	a.refused = reason
	close(a.over)
}

type skip struct {
	pair   probes.Pair
	reason probes.SkipReason
	n      int
}

// New makes a scheduler without entries. It panics if Start is nil.
func New(o Options) *Scheduler {
	if o.Start == nil {
		panic("schedule: Options.Start is nil")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Skipped == nil {
		o.Skipped = func(probes.Pair, probes.SkipReason, int) {}
	}
	if o.Panicked == nil {
		o.Panicked = func(Entry, any, []byte) {}
	}
	return &Scheduler{
		options: o, began: time.Now(), wake: make(chan struct{}, 1),
		items: map[identity]*item{}, running: map[identity]bool{}, busy: map[string]int{},
	}
}

// now is the wall clock without Go's monotonic reading, which would hide its steps.
func (s *Scheduler) now() time.Time { return s.options.Now().Round(0) }

// Run is the loop. It returns once ctx has ended and every run it started has
// returned; ending runs early is up to Start.
func (s *Scheduler) Run(ctx context.Context) {
	defer s.runs.Wait()
	defer s.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		if ctx.Err() != nil {
			return
		}
		timer.Reset(s.turn())
	}
}

// turn makes one tick and then, without the lock, the calls it has left to be made.
func (s *Scheduler) turn() (sleep time.Duration) {
	s.mu.Lock()
	sleep = s.tick(s.now())
	skipped, launches := s.skipped, s.launches
	s.skipped, s.launches = nil, nil
	s.mu.Unlock()
	for _, k := range skipped {
		s.options.Skipped(k.pair, k.reason, k.n)
	}
	for _, launch := range launches {
		s.runs.Go(launch)
	}
	return sleep
}

// tick starts and skips what is due and returns how long nothing else is.
func (s *Scheduler) tick(now time.Time) time.Duration {
	if now.Before(s.wall) {
		s.replan(now)
	}
	s.wall = now
	for len(s.queue) > 0 && !s.queue[0].next.After(now) {
		it := s.queue[0]
		s.due(it, now)
		it.next = it.entry.Next(now)
		if it.next.IsZero() {
			heap.Remove(&s.queue, it.index)
		} else {
			heap.Fix(&s.queue, it.index)
		}
	}
	s.dispatch(now)
	if len(s.queue) == 0 {
		return heartbeat
	}
	return min(heartbeat, s.queue[0].next.Sub(now))
}

// due makes an item wait for its start, or skips it.
func (s *Scheduler) due(it *item, now time.Time) {
	last, missed := it.entry.Plan.latest(it.next, now, it.entry.spread())
	s.skip(it, probes.SkipMissed, missed)
	it.fired = probes.Known(time.Since(s.began))
	if it.waiting {
		s.stopWaiting(it)
		s.skip(it, it.why, 1)
	}
	switch {
	case s.paused:
		s.skip(it, probes.SkipPaused, 1)
	case s.running[it.entry.identity()]:
		s.skip(it, probes.SkipOverlap, 1)
	default:
		it.due, it.waiting = last, true
		s.waiting = append(s.waiting, it)
	}
}

// dispatch starts what waits for a target that is free, the earliest due first.
func (s *Scheduler) dispatch(now time.Time) {
	slices.SortStableFunc(s.waiting, func(a, b *item) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.entry.Pair.Probe, b.entry.Pair.Probe))
	})
	s.waiting = slices.DeleteFunc(s.waiting, func(it *item) bool {
		id := it.entry.identity()
		if why := s.waitsFor(it); why != "" {
			it.why = why
			return false
		}
		it.waiting = false
		s.running[id] = true
		for _, target := range it.entry.targets() {
			s.busy[target]++
		}
		if it.asked != nil {
			s.runs.Add(1) // here, where Run cannot be waiting for the runs yet
			close(it.asked.over)
			return true
		}
		entry, due, lateness := it.entry, it.due, max(0, now.Sub(it.due))
		s.launches = append(s.launches, func() { s.start(entry, due, lateness) })
		return true
	})
}

// waitsFor is what keeps an item from starting; empty for nothing.
func (s *Scheduler) waitsFor(it *item) probes.SkipReason {
	switch {
	case s.running[it.entry.identity()]:
		return probes.SkipOverlap
	case !it.entry.Plan.source.AllowParallel && s.anyBusy(it.entry.targets()):
		return probes.SkipTargetBusy
	case s.most > 0 && len(s.running) >= s.most:
		return probes.SkipProberBusy
	}
	return ""
}

func (s *Scheduler) anyBusy(targets []string) bool {
	return slices.ContainsFunc(targets, func(target string) bool { return s.busy[target] > 0 })
}

// start is one run, from its goroutine's first to its last instant.
func (s *Scheduler) start(entry Entry, due time.Time, lateness time.Duration) {
	// Deferred, because after a panic the pair must be free to start again.
	defer s.ended(entry)
	defer func() {
		if value := recover(); value != nil {
			s.options.Panicked(entry, value, debug.Stack())
		}
	}()
	s.options.Start(entry, due, lateness)
}

func (s *Scheduler) ended(entry Entry) {
	s.mu.Lock()
	delete(s.running, entry.identity())
	for _, target := range entry.targets() {
		if s.busy[target]--; s.busy[target] == 0 {
			delete(s.busy, target)
		}
	}
	s.mu.Unlock()
	s.poke()
}

// poke wakes the loop; one pending wake-up is enough for any number of changes.
func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// replan follows a wall clock that was set back. Without it a pair would rest until
// the old time is reached again; without the half interval, one that has just
// started would start again.
func (s *Scheduler) replan(now time.Time) {
	passed := time.Since(s.began)
	for _, it := range s.queue {
		it.next = it.entry.Next(now)
		fired, ok := it.fired.Get()
		if !ok {
			continue
		}
		half := it.entry.Plan.Interval(now) / 2
		for !it.next.IsZero() && passed-fired+it.next.Sub(now) < half {
			it.next = it.entry.Next(it.next)
		}
	}
	s.queue = slices.DeleteFunc(s.queue, func(it *item) bool { return it.next.IsZero() })
	for i, it := range s.queue {
		it.index = i
	}
	heap.Init(&s.queue)
}

func (s *Scheduler) skip(it *item, reason probes.SkipReason, n int) {
	if n > 0 {
		s.skipped = append(s.skipped, skip{it.entry.Pair, reason, n})
	}
}

func (s *Scheduler) stopWaiting(it *item) {
	it.waiting = false
	s.waiting = slices.DeleteFunc(s.waiting, func(other *item) bool { return other == it })
}

// Replace sets the entries; of several for one pair the last counts. Runs that are
// going on go on, also those of pairs that are gone, and hold their target until
// they end. A pair whose plan is the same keeps its due time and its place in the
// queue.
func (s *Scheduler) Replace(entries []Entry) {
	s.mu.Lock()
	now := s.now()
	old := s.items
	s.items, s.queue = map[identity]*item{}, nil
	for _, e := range entries {
		it := &item{entry: e, index: -1}
		if was := old[e.identity()]; was != nil {
			it.fired = was.fired
			if was.entry.Plan.source == e.Plan.source && was.entry.NoSpread == e.NoSpread && was.entry.Also == e.Also {
				it.next, it.due, it.waiting, it.why = was.next, was.due, was.waiting, was.why
			}
		}
		if it.next.IsZero() {
			it.next = e.Next(now)
		}
		s.items[e.identity()] = it
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(it *item) bool { return it.asked == nil })
	for _, it := range s.items {
		if it.waiting {
			s.waiting = append(s.waiting, it)
		}
		if !it.next.IsZero() {
			heap.Push(&s.queue, it)
		}
	}
	s.mu.Unlock()
	s.poke()
}

// Pause stops starting, or starts again from the next due times on. Runs that are
// going on are not ended.
func (s *Scheduler) Pause(paused bool) {
	s.mu.Lock()
	s.paused = paused
	if paused {
		for _, it := range s.waiting {
			it.waiting = false
			if it.asked != nil {
				it.asked.refuse(probes.SkipPaused)
				continue
			}
			s.skip(it, probes.SkipPaused, 1)
		}
		s.waiting = nil
	}
	s.mu.Unlock()
	s.poke()
}

// Paused reports whether starting is stopped.
func (s *Scheduler) Paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

// LastTick is the wall time at which the loop last looked at its queue; while it
// lives, no older than a second. It is zero before Run.
func (s *Scheduler) LastTick() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wall
}

// NextStarts is the next due time of every pair; zero for a pair without a plan.
func (s *Scheduler) NextStarts() map[probes.Pair]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[probes.Pair]time.Time, len(s.items))
	for _, it := range s.items {
		next[it.entry.Pair] = it.next
	}
	return next
}

// queue is a heap of items by due time.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *queue) Push(x any) {
	it := x.(*item)
	it.index = len(*q)
	*q = append(*q, it)
}
func (q *queue) Pop() any {
	old := *q
	it := old[len(old)-1]
	it.index = -1
	*q = old[:len(old)-1]
	return it
}
