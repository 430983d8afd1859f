// Package arrival turns an arrival process and a seed into due offsets: when,
// counted from the start of sending, each request of a run is wanted.
//
// The story of the data:
//
//  1. [probes.Arrivals] names a process and a rate; [Validate] refuses settings
//     that would mean an endless sleep, a division by zero or unlimited load.
//  2. The seed alone gives a sequence of unit gaps with mean 1. Rate, count and
//     time of day have no part in it, so the nights of one probe replay one
//     frozen trace, and the steps of a rate sweep the same trace squeezed.
//  3. [Offsets] divides the running sum of the gaps by the rate. When the number
//     of requests is known the sum is scaled so that the offered rate is exact
//     instead of being off by the luck of the draw.
//  4. [Planned] says beforehand how many requests a run will ask and over which
//     span, for the load that a target must expect and for the rate achieved.
//
// Everything is a pure function of its arguments: no clock, no sleeping, no
// global random state.
package arrival

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// MaxRate is the highest accepted rate in requests per second. One client
	// cannot send faster, and gaps would shrink towards the clock's resolution.
	MaxRate = 1e6
	// MaxCV is the highest accepted coefficient of variation. Above it
	// practically every gap is zero and the process is a burst by another name.
	MaxCV = 100
	// constantBelow is the coefficient of variation under which gaps are equal:
	// they would differ by less than a millionth, and the gamma shape 1/CV^2 runs
	// out of floating-point range further down.
	constantBelow = 1e-6
)

// Validate reports everything that is wrong with a, joined, each error naming
// its field. An infinite rate is legal for a burst only: whoever reads
// "rate: inf" from a user chooses [probes.Burst] with it, so that a process never
// claims gaps which it does not have.
func Validate(a probes.Arrivals) error {
	var errs []error
	if !slices.Contains(probes.ArrivalProcesses, a.Process) {
		errs = append(errs, fmt.Errorf("process: %q is unknown, use one of %q", a.Process, probes.ArrivalProcesses))
	} else if err := validateRate(a); err != nil {
		errs = append(errs, err)
	}
	// The comparison is written so that NaN fails it.
	if !(a.CV >= 0 && a.CV <= MaxCV) {
		errs = append(errs, fmt.Errorf(
			"cv: must be from 0 (constant) to %d, is %v; a burstiness b is cv 1/sqrt(b) and must be positive", MaxCV, a.CV))
	}
	switch paced := a.Process != probes.Burst && a.Process != probes.ClosedLoop && a.Process != probes.FromTrace; {
	case a.Ramp < 0:
		errs = append(errs, fmt.Errorf("ramp: must not be negative, is %v", a.Ramp))
	case a.Ramp > 0 && !paced:
		errs = append(errs, fmt.Errorf("ramp: %s arrivals have no rate that could rise; choose constant, poisson or gamma", a.Process))
	}
	switch {
	case a.MaxConcurrency < 0:
		errs = append(errs, fmt.Errorf("max_concurrency: must not be negative, is %d", a.MaxConcurrency))
	case a.MaxConcurrency == 0 && a.Process == probes.ClosedLoop:
		errs = append(errs, errors.New("max_concurrency: a closed loop needs at least 1, it is the number of workers"))
	}
	if a.StartTogether && a.Process != probes.ClosedLoop {
		errs = append(errs, fmt.Errorf("start_together: belongs to a closed loop, not to %s arrivals", a.Process))
	}
	return errors.Join(errs...)
}

// A closed loop's start is spread: a millisecond is a connect on a local network,
// and a second is soon over in any run that is worth its result.
const (
	slotGap    = time.Millisecond
	slotSpread = time.Second
)

// SlotGap is how long after one worker of a closed loop the next one starts.
func SlotGap(a probes.Arrivals) time.Duration {
	if a.Process != probes.ClosedLoop || a.StartTogether || a.MaxConcurrency <= 1 {
		return 0
	}
	return min(slotGap, slotSpread/time.Duration(a.MaxConcurrency))
}

// Gap is the least time between two requests of a closed loop with a bound on its
// rate; 0 for none and for other processes.
func Gap(a probes.Arrivals) time.Duration {
	if a.Process != probes.ClosedLoop || a.Rate <= 0 || math.IsInf(a.Rate, 1) {
		return 0
	}
	return nanoseconds(1e9 / a.Rate)
}

func validateRate(a probes.Arrivals) error {
	switch a.Process {
	case probes.ClosedLoop: // the answers set the pace; a rate only bounds it
		if !(a.Rate >= 0) || a.Rate > MaxRate && !math.IsInf(a.Rate, 1) {
			return fmt.Errorf("rate: the bound of a closed loop must be from 0 (none) to %g requests per second, is %v", MaxRate, a.Rate)
		}
		return nil
	case probes.FromTrace:
		if a.Rate != 0 {
			return fmt.Errorf("rate: a trace has its own times, is %v; leave it out, or stretch the trace", a.Rate)
		}
		return nil
	case probes.Burst:
		if a.Rate != 0 && !math.IsInf(a.Rate, 1) {
			return fmt.Errorf("rate: a burst has none, is %v; leave it out, or choose constant, poisson or gamma", a.Rate)
		}
		return nil
	}
	switch {
	case math.IsInf(a.Rate, 1):
		return fmt.Errorf("rate: an infinite rate is a burst, not %s; choose burst", a.Process)
	case !(a.Rate > 0): // NaN fails the comparison
		return fmt.Errorf("rate: must be above 0 requests per second, is %v", a.Rate)
	case a.Rate > MaxRate:
		return fmt.Errorf("rate: must not be above %g requests per second, is %v", MaxRate, a.Rate)
	}
	return nil
}

// Offsets yields the due offsets of n requests from the start of sending, in
// order; the first is 0. With n = 0 it does not end. It may be ranged over any
// number of times and yields the same offsets each time; a must be valid.
//
//   - constant: request i is due at i/rate, computed from i and not from its
//     predecessor, so that rounding never adds up.
//   - poisson: exponential gaps of mean 1/rate.
//   - gamma: gaps of mean 1/rate and coefficient of variation CV; 0 is constant
//     and 1 is poisson, gap for gap.
//   - burst: every offset is 0. A burst of unknown size is empty: endlessly many
//     requests due at one instant could be neither sent nor dropped.
//   - closed loop: nil, since a request is due when an earlier one has ended;
//     the load generator takes the absence of offsets for a closed loop.
//   - trace: nil, since the requests themselves say when they are due.
//
// For poisson and gamma with n > 1 the gaps are scaled so that the last request
// is due at exactly (n-1)/rate. The offered rate is then the asked one, whereas
// the free sum of n gaps misses it by about CV/sqrt(n). vLLM scales likewise (to
// n/rate, as it waits before the first request too). Offsets reads all n gaps
// for that before it returns.
//
// The same seed at another rate gives the same gaps, divided by that rate.
//
// A ramp stretches the first gaps: the running sum counts requests, and [due] says
// when so many are wanted. The sequence of gaps stays what it is.
//
// Offsets beyond the range of [time.Duration] stay at its maximum.
func Offsets(a probes.Arrivals, n int, seed int64) iter.Seq[time.Duration] {
	switch {
	case a.Process == probes.ClosedLoop || a.Process == probes.FromTrace:
		return nil
	case a.Process == probes.Burst || n < 0:
		return zeros(n)
	case isConstant(a):
		return constant(a, n)
	}
	cv := 1.0
	if a.Process == probes.Gamma {
		cv = a.CV
	}
	if n == 0 {
		return free(a, cv, seed)
	}
	return scaled(a, cv, n, seed)
}

func isConstant(a probes.Arrivals) bool {
	return a.Process == probes.Constant || a.Process == probes.Gamma && a.CV < constantBelow
}

func zeros(n int) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for range n { // not once for a negative n
			if !yield(0) {
				return
			}
		}
	}
}

func constant(a probes.Arrivals, n int) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for i := 0; n == 0 || i < n; i++ {
			if !yield(due(a, float64(i))) {
				return
			}
		}
	}
}

// due is when a cumulative number of requests is wanted. While the rate rises from
// 0 their number grows with the square of time; after a ramp of length r everything
// is r/2 later than without one.
func due(a probes.Arrivals, requests float64) time.Duration {
	ramp := float64(a.Ramp)
	if a.Ramp == 0 {
		return nanoseconds(requests * 1e9 / a.Rate)
	}
	if requests < a.Rate*ramp/2/1e9 {
		return nanoseconds(math.Sqrt(2 * ramp * requests * 1e9 / a.Rate))
	}
	return nanoseconds(requests*1e9/a.Rate + ramp/2)
}

// free yields the running sum of the gaps as they fall.
func free(a probes.Arrivals, cv float64, seed int64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		gaps := newUnitGaps(cv, seed)
		for sum := 0.0; yield(due(a, sum)); {
			sum += gaps.next()
		}
	}
}

// scaled yields each running sum as a share of the whole. The gaps are drawn
// twice, once for the whole and once for the sums, which costs less than
// keeping them.
func scaled(a probes.Arrivals, cv float64, n int, seed int64) iter.Seq[time.Duration] {
	total := 0.0
	gaps := newUnitGaps(cv, seed)
	for range n - 1 {
		total += gaps.next()
	}
	return func(yield func(time.Duration) bool) {
		gaps := newUnitGaps(cv, seed)
		sum := 0.0
		for i := range n {
			share := 0.0
			if i > 0 && i == n-1 {
				share = 1 // also when every gap has underflowed to 0
			} else if total > 0 {
				share = sum / total
			}
			if !yield(due(a, share*float64(n-1))) {
				return
			}
			sum += gaps.next()
		}
	}
}

// nanoseconds rounds to the nearest nanosecond and stays at the maximum where
// the conversion to an integer would wrap to a time in the past.
func nanoseconds(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Round(ns))
}

// Planned says how many requests are due and the span they are spread over, for
// a run of n requests (0: no bound) and a length of d (0: no bound). A request
// due at d or later is not asked.
//
// The span is d or count/rate (later by half a ramp), whichever is shorter, so that
// count/span is the offered rate: the last request owns a gap like every other. A burst has no
// span, nor has a closed loop or a trace, whose count is n or, when only d bounds
// it, unknown and given as 0. A run without any bound has neither.
func Planned(a probes.Arrivals, n int, d time.Duration, seed int64) (count int, span time.Duration) {
	switch {
	case n < 0 || d < 0 || n == 0 && d == 0:
		return 0, 0
	case a.Process == probes.Burst || a.Process == probes.ClosedLoop || a.Process == probes.FromTrace:
		return n, 0
	case d == 0:
		return n, due(a, float64(n))
	case isConstant(a):
		limit := n
		if n == 0 {
			limit = math.MaxInt
		}
		count = sort.Search(limit, func(i int) bool { return due(a, float64(i)) >= d })
	default:
		for offset := range Offsets(a, n, seed) {
			if offset >= d {
				break
			}
			count++
		}
	}
	if count == n {
		return count, min(d, due(a, float64(n)))
	}
	return count, d
}
