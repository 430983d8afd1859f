package inspect

import (
	"maps"
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// Delta is what the server's page says about the time between two samples, with
// the gauges of the samples taken in between. Samples that could not be read
// count as not taken.
//
// Formulas: accept length is 1 + accepted drafts / verify steps (vLLM, lmdeploy,
// llama.cpp), or emitted tokens / (emitted - accepted) (vLLM V0), or (generated
// tokens - requests) / verify steps (SGLang, whose prefill step yields one token
// of each request); else the mean of the server's own average during the run,
// else its average since the start.
func Delta(before, after Sample, during []Sample) probes.ServerSummary {
	during = slices.DeleteFunc(slices.Clone(during), func(s Sample) bool { return !s.Readable() })
	out := probes.ServerSummary{
		Queue:   level(during, func(s *Sample) (m, p probes.Optional[float64]) { return s.Waiting, s.Waiting }),
		Running: level(during, func(s *Sample) (m, p probes.Optional[float64]) { return s.Running, s.Running }),
		KVUsage: level(during, func(s *Sample) (m, p probes.Optional[float64]) { return s.KVUsage, s.KVPeak }),
	}
	if before.counted && after.counted && before.Engine == after.Engine {
		out.Span = after.At.Sub(before.At)
		switch breaks(before, after, during) {
		case 0:
			d := difference{before: &before, after: &after}
			d.counters(&out)
		case 1:
			out.Restarted = true
		default:
			// A server does not restart every few seconds: several take turns in
			// answering under one address, and none of them tells the whole.
		}
	}
	if out.AcceptLength.IsKnown() {
		return out
	}
	if recent := level(during, func(s *Sample) (m, p probes.Optional[float64]) { return s.accept, s.accept }); recent.N > 0 {
		out.AcceptLength, out.AcceptSource = probes.Known(recent.Mean), probes.AcceptGauge
	} else if after.lifetime.IsKnown() {
		out.AcceptLength, out.AcceptSource = after.lifetime, probes.AcceptLifetime
	}
	return out
}

// level describes a gauge; pick gives what its mean and its maximum are made of.
func level(samples []Sample, pick func(*Sample) (mean, peak probes.Optional[float64])) probes.Level {
	l := probes.Level{}
	sum := 0.0
	for i := range samples {
		m, p := pick(&samples[i])
		value, ok := m.Get()
		peak, _ := p.Get()
		if !ok {
			continue
		}
		if l.N == 0 || peak > l.Max {
			l.Max = peak
		}
		l.N++
		sum += value
	}
	if l.N > 0 {
		l.Mean = sum / float64(l.N)
	}
	return l
}

// breaks counts how often the next sample cannot come from the same process as
// the last: a counter went down or away, or the process started at another time.
func breaks(before, after Sample, during []Sample) (n int) {
	last := &before
	for i := range len(during) + 1 {
		next := &after
		if i < len(during) {
			next = &during[i]
		}
		if next.Engine != last.Engine || !next.counted {
			continue
		}
		if anotherProcess(last, next) {
			n++
		}
		last = next
	}
	return n
}

func anotherProcess(last, next *Sample) bool {
	then, known := last.started.Get()
	if now, ok := next.started.Get(); ok && known && now != then {
		return true
	}
	for q := range last.counters {
		was, had := last.counters[q].Get()
		is, has := next.counters[q].Get()
		if had && (!has && was > 0 || has && is < was) {
			return true
		}
	}
	return false
}

// difference subtracts counters.
type difference struct{ before, after *Sample }

// of is how much a counter grew. One that is new is taken to have been 0: clients
// create the series of a label when it is first counted.
func (d *difference) of(q quantity) (float64, bool) {
	after, ok := d.after.counters[q].Get()
	before, _ := d.before.counters[q].Get()
	return after - before, ok
}

// ratio is the growth of one counter over that of another; unknown when the
// latter did not grow.
func (d *difference) ratio(part, whole quantity) probes.Optional[float64] {
	p, ok := d.of(part)
	w, has := d.of(whole)
	if !ok || !has || w <= 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(p / w)
}

// share is the ratio of a part to its whole; more of the part than there is of the
// whole is a mistake of the page, and not known.
func (d *difference) share(part, whole quantity) probes.Optional[float64] {
	if r := d.ratio(part, whole); r.Or(0) <= 1 {
		return r
	}
	return probes.Optional[float64]{}
}

func (d *difference) counters(out *probes.ServerSummary) {
	out.AcceptLength = d.acceptLength()
	if out.AcceptLength.IsKnown() {
		out.AcceptSource = probes.AcceptCounters
	}
	out.AcceptanceRatio = d.share(accepted, draftTokens)
	out.PerPosition = d.perPosition()
	out.PrefixCache = d.prefixCache()
	out.Preemptions = d.count(preemptions)
	out.Requests = d.count(requests)
	out.TTFT = d.mean(ttftSum, ttftCount)
	out.TPOT = d.mean(tpotSum, tpotCount)
}

func (d *difference) acceptLength() probes.Optional[float64] {
	if rate, ok := d.ratio(accepted, drafts).Get(); ok {
		return probes.Known(1 + rate)
	}
	all, ok := d.of(emitted)
	fromDrafts, has := d.of(accepted)
	if ok && has && all > fromDrafts {
		return probes.Known(all / (all - fromDrafts))
	}
	steps, ok := d.of(verifySteps)
	tokens, has := d.of(generated)
	ended, _ := d.of(requests)
	if ok && has && steps > 0 && tokens > ended {
		return probes.Known((tokens - ended) / steps)
	}
	return probes.Optional[float64]{}
}

// perPosition is accepted drafts at each position over verify steps.
func (d *difference) perPosition() []float64 {
	steps, ok := d.of(drafts)
	if !ok || steps <= 0 || len(d.after.positions) == 0 {
		return nil
	}
	rates := make([]float64, 1+slices.Max(slices.Collect(maps.Keys(d.after.positions))))
	for i := range rates {
		rates[i] = (d.after.positions[i] - d.before.positions[i]) / steps
	}
	return rates
}

func (d *difference) prefixCache() (c probes.PrefixCache) {
	queried, ok := d.of(queriedTokens)
	if c.HitRatio = d.share(hitTokens, queriedTokens); ok && c.HitRatio.IsKnown() && len(d.after.tiers) > 0 {
		c.Tiers = map[string]float64{}
		for name, hits := range d.after.tiers {
			c.Tiers[name] = (hits - d.before.tiers[name]) / queried
		}
	}
	if c.HitRatio.IsKnown() {
		return c
	}
	reused, ok := d.of(hitBlocks)
	missed, has := d.of(missedBlocks)
	if ok && has && reused+missed > 0 {
		c.HitRatio = probes.Known(reused / (reused + missed))
	}
	return c
}

func (d *difference) count(q quantity) probes.Optional[int] {
	n, ok := d.of(q)
	if !ok {
		return probes.Optional[int]{}
	}
	return probes.Known(int(math.Round(n)))
}

func (d *difference) mean(sum, count quantity) probes.ServerMean {
	mean, ok := d.ratio(sum, count).Get()
	n, _ := d.of(count)
	if !ok {
		return probes.ServerMean{}
	}
	return probes.ServerMean{N: int(math.Round(n)), Mean: mean}
}

// Throughput is how many requests per second the server ended, by its own count, over
// the time from the first of the samples to the last, which are in order of time. It is
// unknown for pages without that count, and when several servers take turns in
// answering under one address. A server that was started anew counts from 0.
func Throughput(samples []Sample) probes.Optional[float64] {
	samples = slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return !s.counted })
	if len(samples) < 2 {
		return probes.Optional[float64]{}
	}
	sum, starts := 0.0, 0
	for i := range samples[1:] {
		last, next := &samples[i], &samples[i+1]
		after, ok := next.counters[requests].Get()
		if !ok || next.Engine != last.Engine {
			return probes.Optional[float64]{}
		}
		if anotherProcess(last, next) {
			starts++
			sum += after
			continue
		}
		before, _ := last.counters[requests].Get()
		sum += after - before
	}
	span := samples[len(samples)-1].At.Sub(samples[0].At)
	if starts > 1 || span <= 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(sum / span.Seconds())
}

// CountsRequests reports whether the page tells how many requests have ended.
func (s *Sample) CountsRequests() bool { return s.counters[requests].IsKnown() }
