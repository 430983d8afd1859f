package loadgen

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// pacer decides what is sent when. It alone owns this state; the workers see
// only ctx, clock, load and the two channels.
//
//	offsets -> upcoming -> backlog -> a worker in flight -> freed -> idle
//	           (timer)     (slot)     (backend)
//
// request is the prepared request for the first of backlog and upcoming. It is
// nil when there is nothing more to ask.
type pacer struct {
	ctx   context.Context
	clock probes.Clock
	load  Load

	results chan<- probes.Record
	freed   chan *worker
	workers sync.WaitGroup
	all     []*worker
	// idle is a stack: the worker that was busy last has the warmest stack and
	// caches.
	idle     []*worker
	inFlight int

	offsets  func() (time.Duration, bool)
	pulled   int // offsets taken
	asked    int // requests taken
	upcoming time.Duration
	waiting  bool // upcoming is set
	// beyond is set once the next request would be due after the window, which
	// must then be waited out: its emptiness belongs to the measurement.
	beyond  bool
	opened  int           // slots of a closed loop; upcoming is when the next one opens
	paced   time.Duration // before it no request of a closed loop is due
	backlog []time.Duration
	request *probes.Request
	replay  *replay // of a timed load, in place of offsets and backlog; else nil
	timer   *time.Timer

	unasked bool          // the load was cut before everything had been asked
	stopped time.Duration // when it was cut
	quiet   time.Duration // when the last request had ended
	err     error         // panic of Next or Offsets
}

func (p *pacer) run() {
	defer func() {
		for _, w := range p.all {
			close(w.jobs)
		}
		p.workers.Wait()
		close(p.results)
	}()
	p.timer = time.NewTimer(0)
	defer p.timer.Stop()
	if p.load.Offsets != nil {
		next, stop := iter.Pull(p.load.Offsets)
		defer stop()
		p.offsets = next
	}
	p.pull()
	p.prepare()
	if p.request != nil {
		p.wait(p.load.Start, true) // no worker is busy yet, so only a cut is earlier
	}
	for {
		p.advance()
		p.dispatch()
		if p.request == nil && p.inFlight == 0 && !p.beyond && !p.replay.holds() {
			break
		}
		if p.ctx.Err() != nil {
			p.cut()
			break
		}
		p.wait(p.upcoming, p.waiting)
	}
	p.quiet = p.clock.Now()
}

// wait blocks until the instant (when there is one), until a worker is free, or
// until the load is cut.
func (p *pacer) wait(until time.Duration, timed bool) {
	var reached <-chan time.Time
	if timed {
		p.timer.Reset(until - p.clock.Now())
		reached = p.timer.C
	}
	select {
	case <-reached:
	case w := <-p.freed:
		p.release(w)
	case <-p.ctx.Done():
	}
}

// pull takes the next offset that lies in the window.
func (p *pacer) pull() {
	p.waiting = false
	if p.offsets == nil || p.load.Count > 0 && p.pulled == p.load.Count {
		return
	}
	var offset time.Duration
	var ok bool
	if err := guard(func() { offset, ok = p.offsets() }); err != nil {
		p.err = fmt.Errorf("take due offset: %w", err) // what is due already stays due
		return
	}
	switch {
	case !ok:
	case p.load.Duration > 0 && offset >= p.load.Duration:
		p.beyond = true
	default:
		p.pulled++
		p.upcoming, p.waiting = later(p.load.Start, offset), true
	}
}

// prepare takes the request for whatever is due next, so that it is at hand when
// its time comes.
func (p *pacer) prepare() {
	p.request = nil
	planned := p.load.closed() || p.replay != nil || p.waiting || len(p.backlog) > 0
	if !planned || p.load.Count > 0 && p.asked == p.load.Count {
		return
	}
	var request *probes.Request
	var ok bool
	if err := guard(func() { request, ok = p.load.Next() }); err != nil {
		p.err = fmt.Errorf("prepare request %d: %w", p.asked, err)
		ok = false
	}
	if !ok || request == nil {
		p.exhaust()
		return
	}
	if p.replay != nil && !p.replay.schedule(request) {
		return
	}
	p.asked++
	p.request = request
}

// exhaust ends the schedule. Offsets for which there is no request were never due.
func (p *pacer) exhaust() {
	p.load.Progress.due.Add(-int64(len(p.backlog)))
	p.request, p.backlog, p.waiting, p.beyond = nil, nil, false, false
}

// advance moves what has become due to the backlog, or opens slots.
func (p *pacer) advance() {
	now := p.clock.Now()
	if p.replay != nil {
		p.replay.advance(now)
		return
	}
	if p.load.closed() {
		p.open(now)
		return
	}
	for p.waiting && p.upcoming <= now {
		p.backlog = append(p.backlog, p.upcoming)
		p.load.Progress.due.Add(1)
		p.pull()
	}
}

// open opens the slots of a closed loop whose time has come.
func (p *pacer) open(now time.Duration) {
	next := func() time.Duration { return later(p.load.Start, time.Duration(p.opened)*p.load.SlotGap) }
	for p.opened < p.load.Concurrency && next() <= now {
		p.opened++
	}
	p.upcoming, p.waiting = next(), p.opened < p.load.Concurrency && p.request != nil
}

// takeDue removes the head of the backlog.
func (p *pacer) takeDue() time.Duration {
	due := p.backlog[0]
	if len(p.backlog) == 1 {
		p.backlog = p.backlog[:0] // keeps the capacity, so that no append allocates
	} else {
		p.backlog = p.backlog[1:]
	}
	return due
}

// dispatch hands out requests as long as one is due and a slot is free.
func (p *pacer) dispatch() {
	if p.replay != nil {
		p.replay.dispatch()
		return
	}
	for p.request != nil && p.ctx.Err() == nil && p.slotFree() {
		var due time.Duration
		switch {
		case p.load.closed():
			if due = p.clock.Now(); due < p.paced {
				p.upcoming, p.waiting = p.paced, true
				return
			}
			p.paced = later(due, p.load.Gap)
			p.load.Progress.due.Add(1)
		case len(p.backlog) > 0:
			due = p.takeDue()
		default:
			return
		}
		p.hand(job{request: p.request, due: due})
		p.prepare()
	}
}

func (p *pacer) slotFree() bool {
	if p.load.closed() {
		return p.inFlight < p.opened
	}
	return p.load.Concurrency <= 0 || p.inFlight < p.load.Concurrency
}

// hand gives the job to an idle worker, or to a new one.
func (p *pacer) hand(j job) {
	if len(p.idle) == 0 {
		select { // one may have become idle during a long dispatch
		case w := <-p.freed:
			p.release(w)
		default:
		}
	}
	var w *worker
	if last := len(p.idle) - 1; last >= 0 {
		w, p.idle = p.idle[last], p.idle[:last]
	} else {
		w = &worker{jobs: make(chan job, 1)}
		p.all = append(p.all, w)
		p.workers.Go(func() { p.work(w) })
	}
	p.inFlight++
	p.load.Progress.sent.Add(1)
	p.load.Progress.inFlight.Add(1)
	w.jobs <- j // never blocks: an idle worker has no job
}

func (p *pacer) release(w *worker) {
	p.inFlight--
	p.idle = append(p.idle, w)
	if p.replay != nil {
		p.replay.remember(w.asked, w.answer)
		p.replay.answered(w.session, w.ended)
	}
}

// cut ends the load before its schedule: what is due is dropped, what is in
// flight has been cancelled with ctx and is awaited. What is not yet due was
// never asked.
func (p *pacer) cut() {
	p.stopped = p.clock.Now()
	p.unasked = p.request != nil || p.beyond || p.replay.holds()
	p.advance() // a slow Next may have kept the pacer from seeing what became due
	for p.request != nil && len(p.backlog) > 0 {
		p.drop(job{request: p.request, due: p.takeDue()})
		p.prepare()
	}
	if p.replay != nil {
		p.replay.drop(p.stopped)
	}
	for p.inFlight > 0 {
		p.release(<-p.freed)
	}
}

// drop leaves the record of a request that was due and will not be sent.
func (p *pacer) drop(j job) {
	record := blank(j)
	record.Outcome = probes.Dropped
	record.Error = "not sent: " + context.Cause(p.ctx).Error()
	p.load.Progress.dropped.Add(1)
	p.results <- record
}

// ended says what ended the load and when. It may be called once the pacer has
// returned. A cut that came when nothing was left to ask, and that no request
// was lost to, has cut nothing.
func (p *pacer) ended(cancelled int) (Ended, time.Duration) {
	switch {
	case p.err != nil:
		return EndedSource, p.quiet
	case !p.unasked && cancelled == 0:
		return EndedSchedule, p.quiet
	case errors.Is(context.Cause(p.ctx), errWindow):
		return EndedWindow, later(p.load.Start, p.load.Duration)
	}
	return EndedInterrupted, p.stopped
}
