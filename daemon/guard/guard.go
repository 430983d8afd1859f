// Package guard decides when a run may begin and when it must stop, for its target's
// sake.
//
// The story of the data:
//
//  1. An environment says what its servers must not come to (stop_when); its runs carry
//     that as [probes.StopWhen].
//  2. [New] makes a [Watch] of a run. It is told each request's outcome and each count
//     of waiting requests that the server's page gives.
//  3. What it is told decides, and nothing else: no clock, no dice. Once a limit is
//     passed the run is stopped, with a [Stop] that names limit and value. Requests
//     that are due are then not sent, and those in flight are cancelled.
//  4. Before that, a [Gate] has let it begin: the server has not asked to be left alone
//     (Retry-After), and the tokens that the environment allows in a day are not used up.
//     When it has ended, the Gate is told what it used and what was answered.
package guard

import (
	"fmt"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// ErrorWindow is how many of the last requests the error ratio is taken over, and
	// MinErrorWindow how many there must be: the first failure of a run is not 100 %.
	ErrorWindow    = 20
	MinErrorWindow = 10
	// QueueReadings is how many readings in a row must be above the limit. One alone
	// may have met a burst that is gone a moment later.
	QueueReadings = 2
)

// Stop is why a run was stopped.
type Stop struct {
	Limit string // as the configuration names it
	text  string
}

// Error says what was seen and what was allowed.
func (s *Stop) Error() string { return s.text }

// Watch holds one run against its limits. Its methods may be called at once, and on a
// nil Watch, which allows everything.
type Watch struct {
	limits probes.StopWhen
	stop   func(cause error)

	mu      sync.Mutex
	failed  [ErrorWindow]bool
	ended   int // requests so far
	above   int // readings in a row
	stopped *Stop
}

// New makes a watch that calls stop once, when the run must end. It is nil without limits.
func New(limits probes.StopWhen, stop func(cause error)) *Watch {
	if limits == (probes.StopWhen{}) {
		return nil
	}
	return &Watch{limits: limits, stop: stop}
}

// Starting is told how many requests wait in the server before the run sends any. One
// reading is enough then: nobody is kept waiting by a run that does not begin.
func (w *Watch) Starting(waiting float64) { w.waiting(waiting, 1) }

// Waiting is told how many requests wait in the server while the run goes on.
func (w *Watch) Waiting(waiting float64) { w.waiting(waiting, QueueReadings) }

func (w *Watch) waiting(n float64, readings int) {
	if w == nil || w.limits.QueueAbove <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n <= w.limits.QueueAbove {
		w.above = 0
		return
	}
	if w.above++; w.above >= readings {
		w.end("queue_above", "%v requests are waiting in the server, stop_when.queue_above is %v", n, w.limits.QueueAbove)
	}
}

// Answered is told of a request that has ended. Those that we cut or did not send say
// nothing about the server.
func (w *Watch) Answered(r *probes.Record) {
	if w == nil || r.Outcome == probes.Cancelled || r.Outcome == probes.Dropped {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if pause, ok := r.RetryAfter.Get(); ok && pause > 0 && r.Outcome.Failed() {
		w.end("retry_after", "the server answered with status %d and asks not to be asked again for %v (Retry-After)", r.StatusCode, pause.Round(time.Millisecond))
		return
	}
	w.failed[w.ended%ErrorWindow] = r.Outcome.Failed()
	w.ended++
	if w.limits.ErrorRatioAbove <= 0 || w.ended < MinErrorWindow {
		return
	}
	n, failures := min(w.ended, ErrorWindow), 0
	for _, failed := range w.failed[:n] {
		if failed {
			failures++
		}
	}
	if float64(failures) > w.limits.ErrorRatioAbove*float64(n) {
		w.end("error_ratio_above", "%d of the last %d requests failed, stop_when.error_ratio_above is %v", failures, n, w.limits.ErrorRatioAbove)
	}
}

// end stops the run; the first limit that is passed counts.
func (w *Watch) end(limit, format string, args ...any) {
	if w.stopped != nil {
		return
	}
	w.stopped = &Stop{Limit: limit, text: "stopped for the target's sake: " + fmt.Sprintf(format, args...)}
	w.stop(w.stopped)
}

// Stopped is why the run was stopped; nil when it was not.
func (w *Watch) Stopped() *Stop {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// Reason is the text of Stopped, empty when the run was not stopped.
func (w *Watch) Reason() string {
	if why := w.Stopped(); why != nil {
		return why.Error()
	}
	return ""
}
