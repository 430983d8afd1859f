package capacity

import (
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// converged is how close the lowest rate that failed is to the highest that passed.
	converged = 1.04
	// The first two rates of a search that knows an earlier result, and the factors by
	// which it looks further when the result has moved.
	warmLow, warmHigh      = 0.9, 1.1
	warmShrink, warmExpand = 0.85, 1.15
	// saturatedShare of requests over an objective is beyond any capacity.
	saturatedShare = 0.5
	// tries is how often one rate is measured when it cannot be believed. Another attempt
	// forgives an accident; a client that is too slow stays too slow.
	tries = 2
	// lowest is how far below its start a search looks.
	lowest = 1.0 / 1024
)

// Search decides the rates of a sweep.
type Search struct {
	Plan probes.SweepPlan
	// Last is an earlier result of the same probe, from which a search starts warm.
	Last probes.Optional[float64]
	// Alone is how long a request takes that has the server to itself, in seconds: a
	// search that knows nothing else begins with one request after the other.
	Alone probes.Optional[float64]
}

// Next is the rate to measure after the steps so far, or why there is none.
func (s Search) Next(steps []probes.Step) (rate float64, end probes.SweepEnd) {
	if len(s.Plan.Rates) > 0 {
		return s.nextGiven(steps)
	}
	limit := s.Plan.MaxSteps
	if limit == 0 {
		limit = probes.MaxSweepSteps
	}
	rate, end = s.nextSearched(steps)
	switch {
	case end != "":
		return 0, end
	case len(steps) >= limit:
		return 0, probes.SweepSteps
	case failedTries(steps, rate) >= tries:
		return 0, probes.SweepInvalid
	}
	return rate, ""
}

// nextGiven walks up the given rates.
func (s Search) nextGiven(steps []probes.Step) (float64, probes.SweepEnd) {
	if n := len(steps); n > 0 && beyond(&steps[n-1]) {
		return 0, probes.SweepSaturated
	}
	if len(steps) < len(s.Plan.Rates) {
		return s.Plan.Rates[len(steps)], ""
	}
	if len(Usable(steps)) == 0 {
		return 0, probes.SweepInvalid
	}
	return 0, probes.SweepRatesDone
}

// beyond reports whether a step was so far beyond the capacity that a higher
// rate could teach nothing.
func beyond(s *probes.Step) bool {
	if !s.Usable() || s.Passed {
		return false
	}
	if s.Aborted {
		return true
	}
	for _, over := range s.Over {
		if float64(over) > saturatedShare*float64(s.Judged) {
			return true
		}
	}
	return false
}

// nextSearched brackets the capacity and halves the bracket on the scale of the
// logarithm.
func (s Search) nextSearched(steps []probes.Step) (float64, probes.SweepEnd) {
	low, high := bracket(steps)
	switch {
	case low == 0 && math.IsInf(high, 1):
		return s.capped(s.start()), ""
	case low > 0 && !math.IsInf(high, 1):
		if high/low <= converged {
			return 0, probes.SweepConverged
		}
		return math.Sqrt(low * high), ""
	case low > 0: // nothing has failed yet
		if s.Plan.MaxRate > 0 && low >= s.Plan.MaxRate {
			return 0, probes.SweepCapped
		}
		return s.capped(s.higher(low)), ""
	}
	if high <= lowest*s.start() {
		return 0, probes.SweepBelow
	}
	if s.warm() {
		return high * warmShrink, ""
	}
	return high / 2, ""
}

func (s Search) warm() bool {
	last, ok := s.Last.Get()
	return ok && last > 0
}

func (s Search) start() float64 {
	if s.warm() {
		last, _ := s.Last.Get()
		return warmLow * last
	}
	if s.Plan.Start > 0 {
		return s.Plan.Start
	}
	if alone, ok := s.Alone.Get(); ok && alone > 0 {
		return 1 / alone
	}
	return 1
}

// higher is the next rate above one that passed: the far end of the warm bracket,
// then further out; cold, twice as much.
func (s Search) higher(passed float64) float64 {
	last, _ := s.Last.Get()
	switch {
	case !s.warm():
		return 2 * passed
	case passed < last:
		return warmHigh * last
	}
	return warmExpand * passed
}

func (s Search) capped(rate float64) float64 {
	if s.Plan.MaxRate > 0 {
		return min(rate, s.Plan.MaxRate)
	}
	return rate
}

// bracket is the lowest rate that failed and the highest one below it that passed;
// +Inf and 0 where there is none. A pass above a failure is an accident of one of the
// two; believing the failure keeps the search on the safe side, and the estimate
// weighs both.
func bracket(steps []probes.Step) (low, high float64) {
	high = math.Inf(1)
	for i := range steps {
		if s := &steps[i]; s.Usable() && !s.Passed {
			high = min(high, s.Rate)
		}
	}
	for i := range steps {
		if s := &steps[i]; s.Usable() && s.Passed && s.Rate < high {
			low = max(low, s.Rate)
		}
	}
	return low, high
}

// failedTries counts the steps at a rate that could not be used.
func failedTries(steps []probes.Step, rate float64) (n int) {
	for i := range steps {
		if steps[i].Rate == rate && !steps[i].Usable() {
			n++
		}
	}
	return n
}

// Valid reports whether rates are given in rising order and all above 0.
func Valid(rates []float64) bool {
	return len(rates) > 0 && rates[0] > 0 && slices.IsSorted(rates) &&
		len(slices.Compact(slices.Clone(rates))) == len(rates) && !math.IsInf(rates[len(rates)-1], 1)
}
