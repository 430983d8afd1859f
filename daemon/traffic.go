package daemon

import (
	"context"
	"hash/fnv"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/inspect"
)

const (
	// trafficSpan is the time that a rate is taken over, once so much is known.
	trafficSpan = time.Minute
	// trafficReaders bounds how many pages are read at once, however many targets
	// there are and however slowly they answer.
	trafficReaders = 8
	// trafficRetry is when a page that does not count requests is looked at again, and
	// the longest pause after one that could not be read.
	trafficRetry = 5 * time.Minute
	// trafficPatience is after how many pages in a row that could not be read one is
	// looked for anew and less often: a busy server misses one. A rate whose last
	// reading is older than so many intervals is not shown.
	trafficPatience = 3
)

// trafficMeter reads the metrics page of each target now and then, runs or no runs, to
// know how many requests its server ends by its own count, those of all clients. It is
// one page a target, whatever the number of its probes, on a connection of its own; and
// none while probing is paused.
type trafficMeter struct {
	every   time.Duration // 0: never
	options backend.Options
	paused  func() bool
	// panicked is told of a panic in a reading.
	panicked func(cause any)

	slots   chan struct{}
	changed chan struct{} // of capacity 1: targets were replaced

	mu      sync.Mutex
	targets map[string]*watchedTarget
}

// watchedTarget is one target's page. The fields below reading belong to the one who
// has set it.
type watchedTarget struct {
	target  probes.Target
	due     time.Time
	reading bool
	samples []inspect.Sample // of the last trafficSpan

	opened probes.Target // what client and reader were made for, with its key
	client *backend.Client
	reader *inspect.Reader
	found  bool // the page is known
	missed int  // pages in a row that could not be read
}

func newTrafficMeter(every time.Duration, o backend.Options, paused func() bool, panicked func(any)) *trafficMeter {
	return &trafficMeter{
		every: every, options: o, paused: paused, panicked: panicked, targets: map[string]*watchedTarget{},
		slots: make(chan struct{}, trafficReaders), changed: make(chan struct{}, 1),
	}
}

// replace makes targets the configured ones. One that has changed is read anew.
func (m *trafficMeter) replace(targets []probes.Target, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[string]*watchedTarget, len(targets))
	for _, t := range targets {
		w := m.targets[t.Name]
		if w == nil || !reflect.DeepEqual(w.target, t) {
			w = &watchedTarget{target: t, due: now.Add(spread(t.Name, m.every))}
		}
		next[t.Name] = w
	}
	for name, w := range m.targets {
		if next[name] != w && !w.reading { // else its reader closes it
			w.close()
		}
	}
	m.targets = next
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// spread keeps the readings of many targets from coming all at once.
func spread(name string, every time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(name))
	if every <= 0 {
		return 0
	}
	return time.Duration(h.Sum64() % uint64(every))
}

// run reads until ctx ends, and returns when no reading is under way.
func (m *trafficMeter) run(ctx context.Context) {
	if m.every <= 0 {
		return
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
		case <-timer.C:
		}
		for _, w := range m.take(time.Now()) {
			select {
			case m.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			readers.Go(func() {
				defer func() { <-m.slots }()
				m.read(ctx, w)
			})
		}
		timer.Reset(m.pause(time.Now()))
	}
}

// take chooses the targets that are due; none is while probing is paused.
func (m *trafficMeter) take(now time.Time) (due []*watchedTarget) {
	paused := m.paused()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.targets {
		if w.reading || w.due.After(now) {
			continue
		}
		w.due = w.due.Add(m.every)
		if w.due.Before(now) { // the machine slept
			w.due = now.Add(m.every)
		}
		if !paused {
			w.reading = true
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b *watchedTarget) int { return a.due.Compare(b.due) })
	return due
}

// pause is the time until the next target is due.
func (m *trafficMeter) pause(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.every
	for _, w := range m.targets {
		if !w.reading {
			next = min(next, max(w.due.Sub(now), 0))
		}
	}
	return next
}

// read takes one sample of a target.
func (m *trafficMeter) read(ctx context.Context, w *watchedTarget) {
	sample := m.sample(ctx, w)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	w.reading = false
	if m.targets[w.target.Name] != w {
		w.close()
		return
	}
	if sample.CountsRequests() {
		w.found, w.missed, sample.At = true, 0, now
		// Half an interval of grace, because a reading takes its time.
		tooOld := func(s inspect.Sample) bool { return now.Sub(s.At) > trafficSpan+m.every/2 }
		w.samples = append(slices.DeleteFunc(w.samples, tooOld), sample)
		return
	}
	w.missed++
	switch {
	case sample.Readable():
		w.found, w.due = false, now.Add(trafficRetry)
	case w.missed >= trafficPatience:
		w.found = false
		w.due = now.Add(min(m.every<<min(w.missed-trafficPatience, 20), trafficRetry))
	}
}

// sample reads the page, or looks for one. A panic is a page that could not be read.
func (m *trafficMeter) sample(ctx context.Context, w *watchedTarget) (sample inspect.Sample) {
	defer func() {
		if cause := recover(); cause != nil {
			sample = inspect.Sample{}
			m.panicked(cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if !w.open(m.options) {
		return inspect.Sample{}
	}
	if w.found {
		return w.reader.Sample(ctx)
	}
	_, sample = w.reader.Read(ctx, w.target.Model)
	return sample
}

// open makes the client of a target, a new one when its key was rotated.
func (w *watchedTarget) open(o backend.Options) bool {
	target, err := config.ResolveSecrets(w.target)
	if err != nil {
		return false // the runs say so
	}
	if w.client != nil && reflect.DeepEqual(target, w.opened) {
		return true
	}
	w.close()
	target.Connection.Policy = probes.ConnectionReuse
	client, err := backend.New(target, o)
	if err != nil {
		return false
	}
	target.Connection.Policy = w.target.Connection.Policy
	w.opened, w.client, w.reader, w.found = target, client, inspect.NewReader(client, target.Backend, target.MetricsURL), false
	return true
}

func (w *watchedTarget) close() {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
}

// rates is how many requests per second each server ends, over the last minute or what
// is known of it. A target is absent while that is less than two readings, or old.
func (m *trafficMeter) rates(now time.Time) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	rates := map[string]float64{}
	for name, w := range m.targets {
		if n := len(w.samples); n == 0 || now.Sub(w.samples[n-1].At) > trafficPatience*m.every {
			continue
		}
		if rate, ok := inspect.Throughput(w.samples).Get(); ok {
			rates[name] = rate
		}
	}
	return rates
}

// close closes idle connections, after run has returned.
func (m *trafficMeter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.targets {
		w.close()
	}
}
