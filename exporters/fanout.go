package exporters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/inferbeat/inferbeat/probes"
)

// DefaultQueue is the queue length per sink: at a thousand requests per second a
// sink may stall for four seconds before it loses one.
const DefaultQueue = 4096

// Fanout hands every event to every sink without ever blocking the publisher.
type Fanout struct {
	log     *slog.Logger
	workers []*worker
	ctx     context.Context // ends when the deadline of Close passes
	cancel  context.CancelFunc

	mu     sync.RWMutex // guards closed, and the queues against a send after close
	closed bool
}

// SinkStats are totals since the start.
type SinkStats struct {
	Name    string
	Queued  int    // events waiting now
	Dropped uint64 // lost because the queue was full or closed
	Errors  uint64 // not exported, panics included
	Panics  uint64
}

// NewFanout starts one goroutine per sink; Close ends them. queue is the number
// of events that may wait for each sink; less than 1 means DefaultQueue. A nil
// logger discards.
func NewFanout(log *slog.Logger, queue int, sinks ...Sink) *Fanout {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if queue < 1 {
		queue = DefaultQueue
	}
	f := &Fanout{log: log}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, s := range sinks {
		w := &worker{
			sink:  s,
			name:  s.Name(),
			log:   log.With("sink", s.Name()),
			queue: make(chan probes.Event, queue),
			done:  make(chan struct{}),
		}
		f.workers = append(f.workers, w)
		go w.run(f.ctx)
	}
	return f
}

// Publish queues the event for every sink and returns at once. Events published
// after Close are counted as dropped.
func (f *Fanout) Publish(e probes.Event) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, w := range f.workers {
		if f.closed || !w.offer(e) {
			w.dropped.Add(1)
		}
	}
}

// Stats reports the counters of each sink in the order of NewFanout.
func (f *Fanout) Stats() []SinkStats {
	stats := make([]SinkStats, len(f.workers))
	for i, w := range f.workers {
		stats[i] = SinkStats{
			Name: w.name, Queued: len(w.queue),
			Dropped: w.dropped.Load(), Errors: w.errors.Load(), Panics: w.panics.Load(),
		}
	}
	return stats
}

// Close stops taking events, lets every sink work off its queue and closes it.
// When ctx ends first, the context of every Export in progress is cancelled,
// what still waits is counted as dropped, and Close returns an error that names
// the sinks that were not done. It also returns the errors of Sink.Close. A
// second call returns nil.
func (f *Fanout) Close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	for _, w := range f.workers {
		close(w.queue)
	}
	f.mu.Unlock()
	for _, w := range f.workers {
		select {
		case <-w.done:
		case <-ctx.Done():
		}
	}
	// Only now may sinks be cut: before, the queues would empty under our eyes.
	defer f.cancel()
	var errs []error
	for _, w := range f.workers {
		select {
		case <-w.done:
			errs = append(errs, w.closeErr)
		default:
			errs = append(errs, fmt.Errorf("drain sink %s: %w with %d events waiting", w.name, context.Cause(ctx), len(w.queue)))
		}
	}
	return errors.Join(errs...)
}

// worker owns one sink.
type worker struct {
	sink  Sink
	name  string
	log   *slog.Logger
	queue chan probes.Event
	done  chan struct{}

	dropped, errors, panics atomic.Uint64

	lastErr  string // text of the last failure; empty while the sink works
	closeErr error  // written before done is closed
}

// offer queues the event if there is room. The last quarter of the queue is
// kept for the rare events: a flood of requests must not push out the end of
// the run that they belong to.
func (w *worker) offer(e probes.Event) bool {
	if e.Kind == probes.EventRequestDone && len(w.queue) >= cap(w.queue)-cap(w.queue)/4 {
		return false
	}
	select {
	case w.queue <- e:
		return true
	default:
		return false
	}
}

func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	for e := range w.queue {
		if ctx.Err() != nil {
			w.dropped.Add(1)
			continue
		}
		w.note(w.guard(func() error { return w.sink.Export(ctx, e) }))
	}
	if err := w.guard(w.sink.Close); err != nil {
		w.closeErr = fmt.Errorf("close sink %s: %w", w.name, err)
	}
}

// note counts a failure, and logs when the sink starts to fail, fails in another
// way or works again: a full disk is one line, not one per request.
func (w *worker) note(err error) {
	if err == nil {
		if w.lastErr != "" {
			w.log.Info("sink works again", "errors_total", w.errors.Load())
			w.lastErr = ""
		}
		return
	}
	w.errors.Add(1)
	if text := err.Error(); text != w.lastErr {
		w.log.Error("sink cannot export", "error", text)
		w.lastErr = text
	}
}

// guard turns a panic of the sink into an error: one broken sink must not end
// the process and with it every other sink.
func (w *worker) guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.panics.Add(1)
			err = fmt.Errorf("panic: %v", p)
			w.log.Debug("sink panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return call()
}
