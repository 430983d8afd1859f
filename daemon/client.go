package daemon

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

const (
	loopTick = 10 * time.Millisecond
	cpuEvery = time.Second
)

// clientMeter watches whether this process keeps its own times, with runs or
// without: what it is late by looks like a slow target.
type clientMeter struct {
	lag *prom.LoopLag

	mu    sync.Mutex
	began time.Time
	loop  lastMinute // ticks
	sends lastMinute // requests
	cpu   probes.Optional[float64]
}

func newClientMeter() *clientMeter {
	return &clientMeter{lag: prom.NewLoopLag(), began: time.Now()}
}

// run measures until ctx ends. cpu is the CPU time of the process up to now.
func (m *clientMeter) run(ctx context.Context, cpu func() time.Duration) {
	sampled, used := time.Now(), cpu()
	due := sampled.Add(loopTick)
	timer := time.NewTimer(loopTick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		// Ticks that were missed were late as well; a ticker would forget them, and a
		// second of standing still would look like one late tick among a hundred.
		for ; !due.After(now); due = due.Add(loopTick) {
			m.tick(now, now.Sub(due))
		}
		if elapsed := now.Sub(sampled); elapsed >= cpuEvery {
			// GOMAXPROCS follows the container's quota.
			total := cpu()
			m.sampleCPU((total - used).Seconds() / elapsed.Seconds() / float64(runtime.GOMAXPROCS(0)))
			sampled, used = now, total
		}
		timer.Reset(time.Until(due))
	}
}

func (m *clientMeter) tick(now time.Time, late time.Duration) {
	m.lag.Observe(late)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loop.add(now.Sub(m.began), late)
}

func (m *clientMeter) sampleCPU(share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cpu = probes.Known(share)
}

// answered counts the send lag of a request, if it is the client's own: under a
// bound of an open loop it may be a wait for a slot, which is known only at the
// run's end, and a burst has no schedule to be late for.
func (m *clientMeter) answered(now time.Time, a probes.Arrivals, record *probes.Record) {
	waits := a.OpenLoop() && a.MaxConcurrency > 0
	if waits || a.Process == probes.Burst || record.Outcome == probes.Dropped {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sends.add(now.Sub(m.began), record.Lag())
}

// state is what the meter says now. Before the first sample of the CPU time
// nothing is known about saturation.
func (m *clientMeter) state(now time.Time) prom.ClientState {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := prom.ClientState{LoopLag: m.lag, CPU: m.cpu}
	if share, ok := m.cpu.Get(); ok {
		at := now.Sub(m.began)
		s.Saturated = probes.Known(share > verdict.SaturatedCPUShare || m.loop.late(at) || m.sends.late(at))
	}
	return s
}

// lastMinute counts what was late by more than verdict.LateSuspect, second by
// second in a ring. The zero value is empty.
type lastMinute [60]struct {
	second   int // since the meter began
	all, bad int
}

func (l *lastMinute) add(at, late time.Duration) {
	second := int(at / time.Second)
	slot := &l[second%len(l)]
	if slot.second != second {
		slot.second, slot.all, slot.bad = second, 0, 0
	}
	slot.all++
	if late > verdict.LateSuspect {
		slot.bad++
	}
}

// late reports whether p99 is above the bound, which is the same as more than one
// in a hundred being above it.
func (l *lastMinute) late(at time.Duration) bool {
	oldest := int(at/time.Second) - len(l) + 1
	all, bad := 0, 0
	for i := range l {
		if l[i].second >= oldest {
			all, bad = all+l[i].all, bad+l[i].bad
		}
	}
	return 100*bad > all
}
