package prom

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// addSums adds every counter and histogram of the events, and says in which forms.
func (e *Exporter) addSums(b *builder, now time.Time) forms {
	e.mu.RLock()
	defer e.mu.RUnlock()
	configured := 0
	for _, s := range e.order {
		if s.removed.IsZero() {
			configured++
		}
	}
	show := e.opts.Histograms.forms(configured)
	for _, s := range e.order {
		e.addPair(b, s, show, now)
	}
	for _, t := range sorted(e.targets, comparePairs) {
		e.addTarget(b, t, show, now)
	}
	for _, p := range sorted(e.probes, compareText) {
		p.mu.Lock()
		b.histogram(catalog.RequestSendLag, p.ids, p.lag.export(show, p.created, now))
		p.mu.Unlock()
	}
	e.schedule.Lock()
	defer e.schedule.Unlock()
	b.histogram(catalog.SchedulerLag, nil, e.schedule.lag.export(show, e.started, now))
	return show
}

func (e *Exporter) addPair(b *builder, s *pairSeries, show forms, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	created := s.createdAt()
	count := func(name string, value uint64, extra ...*dto.LabelPair) {
		b.counter(name, s.ids, value, created, extra...)
	}

	b.histogram(catalog.TimeToFirstToken, s.ids, s.ttft.export(show, s.created, now))
	b.histogram(catalog.TimePerOutputToken, s.ids, s.tpot.export(show, s.created, now))
	b.histogram(catalog.InterTokenLatency, s.ids, s.itl.export(show, s.created, now))
	b.histogram(catalog.ChunkGap, s.ids, s.gap.export(show, s.created, now))
	b.histogram(catalog.RequestDuration, s.ids, s.e2e.export(show, s.created, now))
	b.histogram(catalog.RequestOutputTokensPerSecond, s.ids, s.speed.export(show, s.created, now))

	var success, failed, dropped, cancelled uint64
	for i, o := range probes.Outcomes {
		switch n := s.outcomes[i]; {
		case o.Failed():
			failed += n
			count(catalog.RequestErrors, n, e.enum(catalog.LabelClass, string(o)))
		case o == probes.Dropped:
			dropped += n
		case o == probes.Cancelled:
			cancelled += n
		default:
			success += n
		}
	}
	count(catalog.Requests, success, e.enum(catalog.LabelOutcome, catalog.OutcomeSuccess))
	count(catalog.Requests, failed, e.enum(catalog.LabelOutcome, catalog.OutcomeError))
	count(catalog.Requests, dropped, e.enum(catalog.LabelOutcome, catalog.OutcomeDropped))
	count(catalog.Requests, cancelled, e.enum(catalog.LabelOutcome, catalog.OutcomeCancelled))
	count(catalog.WarmupRequests, s.warmup)
	count(catalog.InputTokens, s.input)
	count(catalog.CachedInputTokens, s.cached)
	count(catalog.OutputTokens, s.output)
	for i := range s.slos {
		count(catalog.SLOEvents, s.slos[i].good, s.slos[i].label, e.enum(catalog.LabelResult, catalog.ResultGood))
		count(catalog.SLOEvents, s.slos[i].bad, s.slos[i].label, e.enum(catalog.LabelResult, catalog.ResultBad))
	}
	for i, r := range probes.RunResults {
		count(catalog.Runs, s.runs[i], e.enum(catalog.LabelResult, string(r)))
	}
	for i, r := range probes.SkipReasons {
		count(catalog.RunSkips, s.skips[i], e.enum(catalog.LabelReason, string(r)))
	}
}

func (e *Exporter) addTarget(b *builder, t *targetSeries, show forms, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, phase := range []string{"dns", "connect", "tls"} { // as targetSeries.observe
		b.histogram(catalog.ConnectionPhase, t.ids, t.phases[i].export(show, t.created, now), e.enum(catalog.LabelPhase, phase))
	}
}

// enum finds the label pair of a value from a closed list. A value outside it
// cannot become a label: the pair of the empty value stands in, which the tests
// look for.
func (e *Exporter) enum(name, value string) *dto.LabelPair {
	if l := e.enums[name][value]; l != nil {
		return l
	}
	return label(name, "")
}
