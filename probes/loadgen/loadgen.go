// Package loadgen sends the requests of a run at their times.
//
// The story of the data:
//
//  1. [Load] brings due offsets (none in a closed loop), a source of requests and
//     a [Backend] that carries one out.
//  2. The pacer waits until each request is due. Due is the start of sending plus
//     the offset, never the previous send plus a gap: time that the loop loses is
//     lost by one request and not by all that follow.
//  3. A due request takes a free slot or waits for one in due order. How long it
//     waited stays visible, since its record holds both when it was due and when
//     it was sent.
//  4. A worker, reused when idle, hands the request to the backend and the
//     backend's [probes.Record] to the goroutine that called [Run].
//  5. When the window ends or the caller gives up, nothing more is sent, what is
//     in flight is cancelled, and what was due but never sent becomes a record
//     with the outcome dropped. No request that was due goes without a record.
//
// Nothing is retried and nothing is logged. Goroutines: one pacer and as many
// workers as requests were in flight at once; all have ended when Run returns.
package loadgen

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Backend carries out one request. Do stamps the record with the clock, fills in
// due as it was given, and returns soon after ctx is cancelled, with the outcome
// cancelled and whatever has arrived so far; Run waits for it.
type Backend interface {
	Do(ctx context.Context, clock probes.Clock, request *probes.Request, due time.Duration) probes.Record
}

// Load is what to send and when to stop.
type Load struct {
	Backend Backend
	// Next gives the requests in order, false after the last. It is called by one
	// goroutine, ahead of the due time so that its cost does not delay the send;
	// the request it gave last may therefore never be asked.
	Next func() (*probes.Request, bool)
	// Offsets are due offsets from Start in rising order (open loop); only a
	// finite number may share one instant. Nil is a closed loop: a request is due
	// as soon as a slot has opened or is free again.
	Offsets iter.Seq[time.Duration]
	// Timed makes each request due at Start plus its own At, in place of Offsets. Next
	// gives them in rising order of At, and so they are asked, except that a request
	// of a session waits for the answer to the one before it, and takes it along when it
	// is a turn of a conversation.
	Timed bool
	// Concurrency bounds the requests in flight; 0 is no bound. In a closed loop
	// it is the number of slots, at least 1.
	Concurrency int
	// SlotGap is how long after one slot of a closed loop the next one opens, the
	// first at Start; 0 opens all at once.
	SlotGap time.Duration
	// Gap is the least time between two requests of a closed loop: its pace is that of
	// the answers, but no faster. 0 is no bound.
	Gap time.Duration
	// Count ends the load after so many requests; 0 is no bound.
	Count int
	// Duration is the length of the window: a request due at Start+Duration or
	// later is not asked, and what is in flight then is cut. 0 is no bound.
	Duration time.Duration
	// Start is when sending starts, on the clock; usually not before now.
	Start time.Duration
	// Progress is kept up to date while the load runs; may be nil.
	Progress *Progress
}

// closed reports a closed loop.
func (l *Load) closed() bool { return l.Offsets == nil && !l.Timed }

// Ended says what ended a load.
type Ended string

const (
	// EndedSchedule: every request was asked and none was cut.
	EndedSchedule Ended = "schedule"
	// EndedWindow: the duration was over.
	EndedWindow Ended = "window"
	// EndedInterrupted: the caller's context was cancelled.
	EndedInterrupted Ended = "interrupted"
	// EndedSource: Next or Offsets panicked; see Stats.Err.
	EndedSource Ended = "source"
)

// Stats says what became of a load. Due = Sent + Dropped, and Sent = successes +
// Failed + Cancelled.
type Stats struct {
	// Start and End are the window on the clock. End is Start+Duration when the
	// window was used up, the moment of the interruption when there was one, and
	// else the end of the last request.
	Start, End time.Duration

	Due       int // requests that were wanted; each has left one record
	Sent      int // handed to the transport
	Failed    int // outcomes that count against the target
	Cancelled int
	Dropped   int // wanted and never sent

	Ended Ended
	Err   error // of EndedSource
}

// Complete reports whether the load ran to its planned end, be that its last
// request or the end of its window.
func (s Stats) Complete() bool { return s.Ended == EndedSchedule || s.Ended == EndedWindow }

// errWindow is the cause with which requests are cancelled at the window's end.
var errWindow = errors.New("the window is over")

// Run sends the load and returns when every request has ended and every
// goroutine with it. emit receives one record for each request that was due, in
// the order in which they end, in the calling goroutine. When emit falls behind
// by more than a few records the workers wait for it, which later records show
// as send lag.
//
// A panic of the backend becomes a record with the outcome bad_response. A panic
// of Next or Offsets ends the schedule: nothing more becomes due, what is in
// flight is awaited, and Stats has the error.
func Run(ctx context.Context, clock probes.Clock, load Load, emit func(probes.Record)) Stats {
	if load.Progress == nil {
		load.Progress = new(Progress)
	}
	if load.closed() {
		load.Concurrency = max(1, load.Concurrency)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if load.Duration > 0 {
		// Cancelled is what the cut requests shall be. The context's own deadline
		// would look like a timeout to them.
		window := time.AfterFunc(later(load.Start, load.Duration)-clock.Now(), func() { cancel(errWindow) })
		defer window.Stop()
	}
	results := make(chan probes.Record, resultsBuffer(load.Count))
	p := &pacer{
		ctx: ctx, clock: clock, load: load, results: results,
		freed: make(chan *worker, cap(results)),
	}
	if load.Timed {
		p.replay = &replay{pacer: p, turns: map[string][]job{}, talks: map[string][]probes.Message{}}
	}
	var done sync.WaitGroup
	done.Go(p.run)
	// Should emit panic, the caller gets its panic without leaked goroutines.
	defer func() {
		cancel(nil)
		for range results {
		}
		done.Wait()
	}()

	stats := Stats{Start: load.Start}
	for record := range results {
		stats.count(record.Outcome)
		emit(record)
	}
	stats.Err = p.err
	stats.Ended, stats.End = p.ended(stats.Cancelled)
	return stats
}

func (s *Stats) count(o probes.Outcome) {
	s.Due++
	switch {
	case o == probes.Dropped:
		s.Dropped++
		return
	case o == probes.Cancelled:
		s.Cancelled++
	case o.Failed():
		s.Failed++
	}
	s.Sent++
}

// resultsBuffer is how many records may wait for emit. A daemon runs many loads
// of one request, which shall not pay for the large ones.
func resultsBuffer(count int) int {
	const most = 64
	if count > 0 {
		return min(count, most)
	}
	return most
}

// later adds without wrapping around: an offset that means "never" would
// otherwise be due at once.
func later(start, offset time.Duration) time.Duration {
	if offset > 0 && start > math.MaxInt64-offset {
		return math.MaxInt64
	}
	return start + offset
}
