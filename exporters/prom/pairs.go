package prom

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// tombstone is how long the sums of a removed pair are still shown, so that the
// last increments before a reload are scraped.
const tombstone = 5 * time.Minute

// life is what every group of cumulative series shares.
type life struct {
	created time.Time
	removed time.Time // zero while configured
}

func (l *life) times() *life { return l }

// outcomeCount and skipCount are the lengths of probes.Outcomes and probes.SkipReasons,
// which arrays need as constants; a test compares them.
const (
	outcomeCount = 16
	skipCount    = 7
)

// pairSeries are the sums of one pair.
type pairSeries struct {
	life
	pair probes.Pair
	ids  []*dto.LabelPair
	kind probes.Kind

	mu                               sync.Mutex // guards what follows
	ttft, tpot, itl, gap, e2e, speed histogram
	outcomes                         [outcomeCount]uint64 // in the order of probes.Outcomes
	warmup, input, cached, output    uint64
	runs                             [4]uint64         // in the order of probes.RunResults
	skips                            [skipCount]uint64 // in the order of probes.SkipReasons
	slos                             []sloSeries
	scratch                          []float64
}

type sloSeries struct {
	slo       probes.SLO
	label     *dto.LabelPair
	good, bad uint64
}

// targetSeries are the sums of one target, whatever the probe.
type targetSeries struct {
	life
	ids    []*dto.LabelPair
	mu     sync.Mutex
	phases [3]histogram // dns, connect, tls
}

// probeSeries are the sums of one probe, whatever the target.
type probeSeries struct {
	life
	ids []*dto.LabelPair
	mu  sync.Mutex
	lag histogram
}

// SetPairs makes pairs the configured ones; only Pair, Kind and Spec are read.
// Their counters and histograms are shown from now on, new ones at 0. Those of
// pairs that are gone stay for five minutes. A pair that had no model goes on under the
// one that it has now. When the estimate of all series
// exceeds Options.MaxSeries it changes nothing and returns an error.
func (e *Exporter) SetPairs(pairs []probes.PairStatus) error {
	if n := EstimateSeries(pairs, e.opts.Histograms); e.opts.MaxSeries > 0 && n > e.opts.MaxSeries {
		return fmt.Errorf("set %d pairs: about %d series exceed the limit of %d: use native histograms, fewer probes or shards, or raise the limit",
			len(pairs), n, e.opts.MaxSeries)
	}
	now := e.opts.Now()
	wantedPairs := map[probes.Pair]*probes.PairStatus{}
	wantedTargets := map[probes.Pair]*probes.PairStatus{}
	wantedProbes := map[string]*probes.PairStatus{}
	for i := range pairs {
		p := &pairs[i]
		wantedPairs[p.Pair] = p
		wantedTargets[withoutProbe(p.Pair)] = p
		wantedProbes[p.Pair.Probe] = p
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	purge(e.pairs, now)
	purge(e.targets, now)
	purge(e.probes, now)
	e.adopt(wantedPairs)
	replace(e.pairs, wantedPairs, now, e.newPair)
	replace(e.targets, wantedTargets, now, e.newTarget)
	replace(e.probes, wantedProbes, now, e.newProbe)
	e.live = make(map[pairKey]*pairSeries, len(pairs))
	for pair, status := range wantedPairs {
		s := e.pairs[pair]
		s.configure(status)
		e.live[pairKey{pair.Target, pair.Probe}] = s
	}
	e.dropRenamed()
	// A run may still be going on a pair that was just removed.
	for pair, s := range e.pairs {
		if key := (pairKey{pair.Target, pair.Probe}); e.live[key] == nil {
			e.live[key] = s
		}
	}
	e.sortPairs()
	return nil
}

// adopt lets the sums of pairs whose model was not known go on under the one that their
// target has named: it has been the same pair all the time. The old identity is gone at
// once, so that a sum over the model neither loses a count nor has one twice.
func (e *Exporter) adopt(wanted map[probes.Pair]*probes.PairStatus) {
	for pair := range wanted {
		unnamed := pair
		unnamed.Model = ""
		s := e.pairs[unnamed]
		if pair.Model == "" || e.pairs[pair] != nil || s == nil || !s.removed.IsZero() || wanted[unnamed] != nil {
			continue
		}
		s.mu.Lock()
		s.pair, s.ids = pair, pairLabels(pair)
		s.mu.Unlock()
		e.pairs[pair] = s
		delete(e.pairs, unnamed)
		from, to := withoutProbe(unnamed), withoutProbe(pair)
		if t := e.targets[from]; t != nil && e.targets[to] == nil {
			t.mu.Lock()
			t.ids = pairLabels(pair)[:4]
			t.mu.Unlock()
			e.targets[to] = t
			delete(e.targets, from)
		}
	}
}

// dropRenamed deletes the series of pairs that go on under another identity
// (their target names another model) when they have counted nothing: there is no
// increment to be scraped, and two identities of one pair would match every
// query twice.
func (e *Exporter) dropRenamed() {
	for pair, s := range e.pairs {
		renamed := e.live[pairKey{pair.Target, pair.Probe}]
		if s.removed.IsZero() || renamed == nil || renamed == s || s.counted() {
			continue
		}
		delete(e.pairs, pair)
		if target := e.targets[withoutProbe(pair)]; target != nil && !target.removed.IsZero() && !target.counted() {
			delete(e.targets, withoutProbe(pair))
		}
	}
}

// counted reports whether the pair has counted anything yet.
func (s *pairSeries) counted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcomes != [outcomeCount]uint64{} || s.runs != [4]uint64{} || s.skips != [skipCount]uint64{} || s.warmup != 0
}

func (s *targetSeries) counted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.phases[:], func(h histogram) bool { return h.count != 0 })
}

// series is a group of sums with a life.
type series interface{ times() *life }

// replace creates what is wanted, revives what came back, and gives the rest a
// tombstone.
func replace[K comparable, S series](have map[K]S, wanted map[K]*probes.PairStatus, now time.Time, create func(*probes.PairStatus) S) {
	for key, s := range have {
		switch l := s.times(); {
		case wanted[key] != nil:
			l.removed = time.Time{}
		case l.removed.IsZero():
			l.removed = now
		}
	}
	for key, status := range wanted {
		if _, ok := have[key]; !ok {
			s := create(status)
			s.times().created = now
			have[key] = s
		}
	}
}

// purge deletes what has been removed for long enough and reports whether there
// was any.
func purge[K comparable, S series](have map[K]S, now time.Time) (deleted bool) {
	for key, s := range have {
		if l := s.times(); !l.removed.IsZero() && now.Sub(l.removed) >= tombstone {
			delete(have, key)
			deleted = true
		}
	}
	return deleted
}

// bury deletes the series whose tombstone has expired.
func (e *Exporter) bury(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	purge(e.targets, now)
	purge(e.probes, now)
	if !purge(e.pairs, now) {
		return
	}
	for key, s := range e.live {
		if e.pairs[s.pair] == nil {
			delete(e.live, key)
		}
	}
	e.sortPairs()
}

// sortPairs fixes the order of the series on the page.
func (e *Exporter) sortPairs() {
	e.order = e.order[:0:0]
	for _, s := range e.pairs {
		e.order = append(e.order, s)
	}
	slices.SortFunc(e.order, func(a, b *pairSeries) int { return comparePairs(a.pair, b.pair) })
}

func comparePairs(a, b probes.Pair) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Probe, b.Probe), cmp.Compare(a.Model, b.Model),
		cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Environment, b.Environment))
}

func withoutProbe(p probes.Pair) probes.Pair {
	p.Probe = ""
	return p
}

func (e *Exporter) newPair(status *probes.PairStatus) *pairSeries {
	s := &pairSeries{pair: status.Pair, ids: pairLabels(status.Pair)}
	for name, h := range map[string]*histogram{
		catalog.TimeToFirstToken: &s.ttft, catalog.TimePerOutputToken: &s.tpot, catalog.InterTokenLatency: &s.itl,
		catalog.ChunkGap: &s.gap, catalog.RequestDuration: &s.e2e, catalog.RequestOutputTokensPerSecond: &s.speed,
	} {
		h.bounds = e.catalog[name].Buckets
	}
	return s
}

func (e *Exporter) newTarget(status *probes.PairStatus) *targetSeries {
	t := &targetSeries{ids: pairLabels(status.Pair)[:4]}
	for i := range t.phases {
		t.phases[i].bounds = e.catalog[catalog.ConnectionPhase].Buckets
	}
	return t
}

func (e *Exporter) newProbe(status *probes.PairStatus) *probeSeries {
	p := &probeSeries{ids: []*dto.LabelPair{label(catalog.LabelProbe, status.Pair.Probe)}}
	p.lag.bounds = e.catalog[catalog.RequestSendLag].Buckets
	return p
}

// configure takes over the kind and the objectives of a continuous probe; an
// objective that stays keeps its count.
func (s *pairSeries) configure(status *probes.PairStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind = status.Kind
	old := s.slos
	s.slos = nil
	if !status.Kind.Continuous() {
		return
	}
	for _, slo := range status.Spec.SLOs {
		next := sloSeries{slo: slo, label: label(catalog.LabelSLO, slo.Name)}
		if i := slices.IndexFunc(old, func(o sloSeries) bool { return o.slo.Name == slo.Name }); i >= 0 {
			next.good, next.bad = old[i].good, old[i].bad
		}
		s.slos = append(s.slos, next)
	}
}

// pairLabels are the identity labels, that of the probe last.
func pairLabels(p probes.Pair) []*dto.LabelPair {
	return []*dto.LabelPair{
		label(catalog.LabelModel, p.Model),
		label(catalog.LabelPool, p.Pool),
		label(catalog.LabelTarget, p.Target),
		label(catalog.LabelTargetEnv, string(p.Environment)),
		label(catalog.LabelProbe, p.Probe),
	}
}

// createdAt is when the group's counting began, as each of its series says.
func (l *life) createdAt() *timestamppb.Timestamp { return timestamppb.New(l.created) }
