// Package stats turns samples into numbers: mean, population standard deviation
// and linear percentiles. It knows no word of inference, does no I/O and keeps
// no state.
//
// The data's way: a slice of float64 goes in, a [Description] comes out. Nothing
// is ignored on the way. A sample that is NaN, infinite or absurdly large is a
// mistake of the caller and panics, because one such value would spoil every
// statistic of the set without leaving a trace. An empty set is no mistake: its
// description has N = 0 and says nothing else.
//
// Percentiles are those of numpy.percentile with its default method: percentile p
// of n ordered samples lies at rank p/100*(n-1), counted from 0, and is
// interpolated linearly between the two ranks around it. The standard deviation is
// numpy.std's default, that of the population (divided by n).
package stats

import (
	"fmt"
	"math"
	"slices"
)

// Description holds the statistics of N samples, in their unit. With N = 0 the
// other fields mean nothing.
//
// Its fields are those of probes.Distribution, so that one converts to the other.
type Description struct {
	N      int
	Mean   float64
	Stddev float64
	Min    float64
	P50    float64
	P90    float64
	P95    float64
	P99    float64
	Max    float64
}

// maxMagnitude keeps sums of squares finite for any number of samples.
const maxMagnitude = 1e140

// Describe computes all statistics on a copy of samples.
//
// It panics if a sample is NaN, infinite or beyond 1e140.
func Describe(samples []float64) Description { return DescribeInPlace(slices.Clone(samples)) }

// DescribeInPlace is Describe without the copy: it reorders samples.
//
// It panics if a sample is NaN, infinite or beyond 1e140.
func DescribeInPlace(samples []float64) Description {
	n := len(samples)
	if n == 0 {
		return Description{}
	}
	d := moments(samples)
	percents := [...]int{50, 90, 95, 99}
	var ranks [2 * len(percents)]int
	for i, p := range percents {
		ranks[2*i], ranks[2*i+1], _ = position(n, p)
	}
	place(samples, ranks[:])
	d.P50, d.P90 = at(samples, percents[0]), at(samples, percents[1])
	d.P95, d.P99 = at(samples, percents[2]), at(samples, percents[3])
	return d
}

// Percentile is the linear percentile of ascending samples, for 0 <= percent <= 100.
//
// It panics if there are no samples or percent is out of range.
func Percentile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 || percent < 0 || percent > 100 {
		panic(fmt.Sprintf("stats: percentile %d of %d samples", percent, len(sorted)))
	}
	return at(sorted, percent)
}

// Mean is the arithmetic mean; false without samples.
//
// It panics if a sample is NaN, infinite or beyond 1e140.
func Mean(samples []float64) (float64, bool) {
	if len(samples) == 0 {
		return 0, false
	}
	return moments(samples).Mean, true
}

// Stddev is the standard deviation of the population; false without samples.
//
// It panics if a sample is NaN, infinite or beyond 1e140.
func Stddev(samples []float64) (float64, bool) {
	if len(samples) == 0 {
		return 0, false
	}
	return moments(samples).Stddev, true
}

// moments fills N, Mean, Stddev, Min and Max of at least one sample. Deviations
// are taken from a first estimate of the mean and that estimate is corrected by
// their sum, which a long plain sum is in need of. The spread is taken from the
// deviations because a plain sum of squares would lose every digit of it when the
// samples lie far from zero.
func moments(samples []float64) Description {
	n := float64(len(samples))
	d := Description{N: len(samples), Min: samples[0], Max: samples[0]}
	var sum float64
	for i, x := range samples {
		if !(math.Abs(x) <= maxMagnitude) { // NaN fails every comparison
			panic(fmt.Sprintf("stats: sample %d of %d is %v", i, len(samples), x))
		}
		sum += x
		d.Min, d.Max = min(d.Min, x), max(d.Max, x)
	}
	first := clamp(sum/n, d.Min, d.Max)
	var dev, squares float64
	for _, x := range samples {
		e := x - first
		dev += e
		squares += float64(e * e) // the conversion forbids a fused multiply-add: same digits on every machine
	}
	d.Mean = clamp(first+dev/n, d.Min, d.Max)
	d.Stddev = math.Sqrt(squares / n)
	return d
}

// clamp undoes the rounding that can put a mean of equal samples beside them.
func clamp(x, low, high float64) float64 { return min(max(x, low), high) }

// position is where a percentile of n samples lies: between two neighbouring
// ranks, at weight of the way from low to high. Whole numbers keep the weight
// exact; 0.9*(n-1) would already be off by more than the sum that follows.
func position(n, percent int) (low, high int, weight float64) {
	hundredths := percent * (n - 1)
	low = hundredths / 100
	return low, min(low+1, n-1), float64(hundredths%100) / 100
}

// at reads a percentile from samples whose two ranks around it are in place.
func at(s []float64, percent int) float64 {
	low, high, w := position(len(s), percent)
	return s[low] + float64((s[high]-s[low])*w)
}
