package prom

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Export adds an event to the sums. It fails for a pair that is not configured
// and for a value outside the closed lists, and then counts nothing.
func (e *Exporter) Export(_ context.Context, ev probes.Event) error {
	if ev.Kind == probes.EventRunStarted {
		e.schedule.Lock()
		defer e.schedule.Unlock()
		e.schedule.lag.observe(ev.Lateness.Seconds())
		return nil
	}
	if ev.Run != nil && ev.Run.Comparison != nil {
		return nil // two targets have a part in it; see addComparisons
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	s := e.live[pairKey{ev.Pair.Target, ev.Pair.Probe}]
	if s == nil {
		return fmt.Errorf("count event: probe %q is not configured on target %q", ev.Pair.Probe, ev.Pair.Target)
	}
	switch ev.Kind {
	case probes.EventRequestDone:
		return e.countRequest(s, ev)
	case probes.EventRunDone:
		return s.countRun(ev.Run, e.opts.Good)
	case probes.EventSkipped:
		return s.countSkip(ev.Skip)
	}
	return nil
}

func (e *Exporter) countRequest(s *pairSeries, ev probes.Event) error {
	r := ev.Record
	outcome := slices.Index(probes.Outcomes, r.Outcome)
	if outcome < 0 {
		return fmt.Errorf("count request: outcome %q is not in the closed list", r.Outcome)
	}
	if r.Warmup {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.warmup++
		return nil
	}
	if t := e.targets[withoutProbe(s.pair)]; t != nil {
		t.observe(&r.Connection)
	}
	if p := e.probes[s.pair.Probe]; p != nil && r.Outcome != probes.Dropped {
		p.observe(r.Lag())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[outcome]++
	s.observeLatency(r, ev.At, ev.RunID)
	if r.Outcome == probes.OK {
		s.countTokens(r)
	}
	return nil
}

// observeLatency adds what the record knows; a request without a token adds
// nothing.
func (s *pairSeries) observeLatency(r *probes.Record, at time.Time, runID string) {
	if d, ok := r.TTFT().Get(); ok {
		s.ttft.observeWith(d.Seconds(), at, runID, r.ID)
	}
	if d, ok := r.E2E().Get(); ok {
		s.e2e.observeWith(d.Seconds(), at, runID, r.ID)
	}
	if d, ok := r.TPOT().Get(); ok {
		s.tpot.observeWith(d.Seconds(), at, runID, r.ID)
		if d > 0 {
			s.speed.observeWith(1/d.Seconds(), at, runID, r.ID)
		}
	}
	s.scratch = r.AppendITL(s.scratch[:0])
	s.itl.observeAll(s.scratch, at, runID, r.ID)
	s.scratch = r.AppendChunkGaps(s.scratch[:0])
	s.gap.observeAll(s.scratch, at, runID, r.ID)
}

// observeAll counts every value and keeps the largest as the request's exemplar:
// the gap that someone will ask about.
func (h *histogram) observeAll(values []float64, at time.Time, runID, requestID string) {
	for _, v := range values {
		h.observe(v)
	}
	if len(values) > 0 {
		h.remember(slices.Max(values), at, runID, requestID)
	}
}

// countTokens prefers the server's count of the prompt to the length asked for.
func (s *pairSeries) countTokens(r *probes.Record) {
	input, ok := r.PromptTokens.Get()
	if !ok {
		input = r.RequestedInput
	}
	cached, _ := r.CachedTokens.Get()
	output, _ := r.OutputTokens.Get()
	s.input += uint64(max(input, 0))
	s.cached += uint64(max(cached, 0))
	s.output += uint64(max(output, 0))
}

// countRun counts the run and, unless it is invalid, what its requests mean for
// the objectives: whether they can be believed is known only now.
func (s *pairSeries) countRun(run *probes.Run, judge func(*probes.Record, *probes.SLO) (good, counts bool)) error {
	result := slices.Index(probes.RunResults, run.Result)
	if result < 0 {
		return fmt.Errorf("count run: result %q is not in the closed list", run.Result)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[result]++
	if run.Result == probes.RunInvalid || run.Validity.State == probes.Invalid {
		return nil
	}
	for i := range run.Records {
		for j := range s.slos {
			switch good, counts := judge(&run.Records[i], &s.slos[j].slo); {
			case good && counts:
				s.slos[j].good++
			case counts:
				s.slos[j].bad++
			}
		}
	}
	return nil
}

func (s *pairSeries) countSkip(reason probes.SkipReason) error {
	i := slices.Index(probes.SkipReasons, reason)
	if i < 0 {
		return fmt.Errorf("count skip: reason %q is not in the closed list", reason)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skips[i]++
	return nil
}

func (t *targetSeries) observe(c *probes.ConnectionTrace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, phase := range []probes.Optional[time.Duration]{c.DNS, c.Connect, c.TLS} {
		if d, ok := phase.Get(); ok && !c.Reused {
			t.phases[i].observe(d.Seconds())
		}
	}
}

func (p *probeSeries) observe(lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag.observe(max(lag, 0).Seconds())
}
