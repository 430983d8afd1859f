// Package capacity turns the steps of a sweep into the rate that a server can take.
//
// The story of the data:
//
//  1. A sweep measures one rate after the other; [Search.Next] says which, given
//     the steps so far, and why there is none. It keeps no state: the same steps
//     give the same answer.
//  2. [Length] says how long a step must last: a queue needs many residence times
//     to build, and a step that is too short finds a capacity that is too high by
//     8-22 %. [TooMany] says when a step need not be finished.
//  3. [Judge] counts the requests of a step that missed an objective.
//  4. [Estimate] finds the rate at which the share of such requests reaches what an
//     objective allows: the logits of the shares, made monotone in the rate,
//     interpolated over the logarithm of the rate.
//
// Steps that cannot be believed are left out everywhere. Everything is a pure function.
package capacity

import (
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// abortedLogit is the least logit of a step that was given up: it was over by so
	// much that the rest was not asked, whatever share had been counted until then.
	abortedLogit = 0.2
)

// Estimate finds the capacity from the usable steps. It is unknown when there are
// none. end is why the sweep took no further step.
func Estimate(steps []probes.Step, slos []probes.SLO, end probes.SweepEnd) probes.Capacity {
	c := probes.Capacity{End: end}
	usable := Usable(steps)
	if len(usable) == 0 || len(slos) == 0 {
		return c
	}
	for i := range slos {
		if one := crossing(usable, &slos[i]); lower(one, c) {
			c.Rate, c.Low, c.High, c.Bracketed, c.Objective = one.Rate, one.Low, one.High, one.Bracketed, one.Objective
		}
	}
	if rate, ok := c.Rate.Get(); ok {
		c.Safe = probes.Known(probes.Headroom * rate)
	}
	c.Bend = bend(usable)
	return c
}

// lower reports whether a is missed at a lower rate than b. Where a rate is unknown
// the lowest step failed, and nothing is lower than that.
func lower(a, b probes.Capacity) bool {
	x, known := a.Rate.Get()
	y, ok := b.Rate.Get()
	switch {
	case b.Objective == "":
		return true
	case !ok:
		return false
	case !known:
		return true
	case x == y:
		return a.Bracketed && !b.Bracketed
	}
	return x < y
}

// Usable are the steps that may be part of a result, by rising rate.
func Usable(steps []probes.Step) []probes.Step {
	out := make([]probes.Step, 0, len(steps))
	for i := range steps {
		if steps[i].Usable() {
			out = append(out, steps[i])
		}
	}
	slices.SortStableFunc(out, func(a, b probes.Step) int {
		switch {
		case a.Rate < b.Rate:
			return -1
		case a.Rate > b.Rate:
			return 1
		}
		return 0
	})
	return out
}

// crossing is the capacity by one objective, of usable steps in rising order.
func crossing(steps []probes.Step, slo *probes.SLO) probes.Capacity {
	c := probes.Capacity{Objective: slo.Name}
	curve := newCurve(steps, slo)
	rate, where := curve.cross()
	if where == below {
		return c
	}
	c.Rate, c.Bracketed = probes.Known(rate), where == between
	low, high := curve.interval()
	c.Low = low
	if c.Bracketed {
		c.High = high
	}
	return c
}

// curve is the steps as one objective sees them.
type curve struct {
	level    float64 // logit of the share that the objective allows
	logRates []float64
	judged   []float64
	over     []float64
	effect   []float64
	aborted  []bool
	scatter  float64 // standard deviation of ln capacity between traces
}

func newCurve(steps []probes.Step, slo *probes.SLO) *curve {
	c := &curve{level: logit(1 - slo.Objective)}
	for i := range steps {
		s := &steps[i]
		c.logRates = append(c.logRates, math.Log(s.Rate))
		c.judged = append(c.judged, float64(s.Judged))
		c.over = append(c.over, float64(s.Over[slo.Name]))
		c.effect = append(c.effect, max(1, s.Effect[slo.Name]))
		c.aborted = append(c.aborted, s.Aborted)
		if d := s.Summary.Distribution(probes.E2E); i == 0 || s.Passed {
			c.scatter = scatter(s, d)
		}
	}
	return c
}

// scatter is what the luck of a trace does to the result, by how many residence times
// a step lasted.
func scatter(s *probes.Step, e2e probes.Distribution) float64 {
	span := float64(s.Judged) / s.Rate
	if e2e.N == 0 || e2e.P50 <= 0 || s.Judged == 0 {
		return traceScatter
	}
	return traceScatter * math.Pow(residences*e2e.P50/span, traceShrink)
}

// logits are those of the shares over the objective, made monotone in the rate. The
// shares are smoothed by half a request, so that none and all have a logit too.
func (c *curve) logits() []float64 {
	values, weights := make([]float64, len(c.over)), make([]float64, len(c.over))
	for i, over := range c.over {
		values[i], weights[i] = logit((over+0.5)/(c.judged[i]+1)), 1
		if c.aborted[i] {
			values[i] = max(values[i], abortedLogit)
		}
	}
	return isotonic(values, weights)
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

type place int

const (
	below   place = iota // the lowest rate is over the level already
	between              // the level is crossed
	above                // the highest rate is still under the level
)

// cross finds the rate at which the curve reaches the level; beyond its ends there is
// none, and the rate is that of the end.
func (c *curve) cross() (rate float64, at place) {
	values := c.logits()
	last := len(values) - 1
	switch {
	case values[0] > c.level:
		return math.Exp(c.logRates[0]), below
	case values[last] <= c.level:
		return math.Exp(c.logRates[last]), above
	}
	// The first value over the level and the last one under it are neighbours.
	i := slices.IndexFunc(values, func(v float64) bool { return v > c.level })
	a, b := c.logRates[i-1], c.logRates[i]
	share := (c.level - values[i-1]) / (values[i] - values[i-1])
	return math.Exp(a + share*(b-a)), between
}

// isotonic is the non-decreasing sequence closest to values by weighted squares (pool
// adjacent violators). Weights are positive; neither slice is changed.
func isotonic(values, weights []float64) []float64 {
	type pool struct {
		mean, weight float64
		n            int
	}
	var pools []pool
	for i, v := range values {
		pools = append(pools, pool{v, weights[i], 1})
		for k := len(pools) - 1; k > 0 && pools[k-1].mean > pools[k].mean; k-- {
			a, b := pools[k-1], pools[k]
			weight := a.weight + b.weight
			pools[k-1] = pool{(a.mean*a.weight + b.mean*b.weight) / weight, weight, a.n + b.n}
			pools = pools[:k]
		}
	}
	out := make([]float64, 0, len(values))
	for _, p := range pools {
		for range p.n {
			out = append(out, p.mean)
		}
	}
	return out
}

const (
	minBendSteps = 4
	// minBendRise is how much TTFT p99 must rise over the sweep for a bend to mean anything.
	minBendRise = 3
	// minBendDepth is how far the curve must lie below the line, as a share of its height.
	minBendDepth = 0.1
)

// bend is where the monotone curve of TTFT p99 lies furthest below the line between its
// ends (the idea of Kneedle).
func bend(steps []probes.Step) probes.Optional[float64] {
	var rates, values, weights []float64
	for i := range steps {
		if d := steps[i].Summary.Distribution(probes.TTFTFromDue); d.N > 0 && d.P99 > 0 {
			rates = append(rates, steps[i].Rate)
			values = append(values, d.P99)
			weights = append(weights, 1)
		}
	}
	if len(rates) < minBendSteps {
		return probes.Optional[float64]{}
	}
	values = isotonic(values, weights)
	last := len(rates) - 1
	width, height := rates[last]-rates[0], values[last]-values[0]
	if values[last] < minBendRise*values[0] || width <= 0 {
		return probes.Optional[float64]{}
	}
	best, furthest := -1, minBendDepth
	for i := range rates {
		if d := (rates[i]-rates[0])/width - (values[i]-values[0])/height; d > furthest {
			best, furthest = i, d
		}
	}
	if best < 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(rates[best])
}
