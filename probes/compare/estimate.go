package compare

import (
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// minRuns is how many values each side needs for a two-sided claim at 5 %: with
// three of each the most extreme order has a probability of 10 %.
const minRuns = 4

// Estimate is by how much the values of b lie above those of a.
type Estimate struct {
	Shift float64
	// Low and High bound the shift with a one-sided error of alpha each; unknown when
	// there are too few values.
	Low, High probes.Optional[float64]
	// P is the exact two-sided probability; unknown below minRuns values.
	P probes.Optional[float64]
	// Noise is the robust standard deviation of a value within its side, and Visible
	// the smallest shift that is found in four of five cases; unknown when most
	// values are equal.
	Noise, Visible probes.Optional[float64]
}

// estimate needs at least one value on each side.
func estimate(a, b []float64, alpha float64) Estimate {
	d := differences(a, b)
	out := Estimate{Shift: median(d)}
	out.Low, out.High = bounds(d, cut(len(a), len(b), alpha))
	if min(len(a), len(b)) >= minRuns {
		out.P = probes.Known(probability(a, b))
	}
	if noise := scatter(a, b); noise > 0 {
		out.Noise = probes.Known(noise)
		out.Visible = probes.Known(visible * noise * math.Sqrt(1/float64(len(a))+1/float64(len(b))))
	}
	return out
}

// visible is z(0.95) + z(0.80): a one-sided error of 5 %, found in 80 % of cases. k
// runs on each side show a shift of visible * sd * sqrt(2/k).
const visible = 2.49

// differences are all b - a, ordered.
func differences(a, b []float64) []float64 {
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	return d
}

// bounds are the c-th of the ordered differences from either end.
func bounds(d []float64, c int) (low, high probes.Optional[float64]) {
	if c < 1 {
		return low, high
	}
	return probes.Known(d[c-1]), probes.Known(d[len(d)-c])
}

// scatter is the robust standard deviation of values within their sides: the root
// mean square of both. One bad run moves it little.
func scatter(a, b []float64) float64 {
	x, y := deviation(a), deviation(b)
	return math.Sqrt((x*x + y*y) / 2)
}

// deviation is 1.4826 times the median distance from the median, which for normal
// values is their standard deviation; the last factor undoes what that is too small
// by in small samples.
func deviation(values []float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return 0
	}
	centre := median(slices.Clone(values))
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - centre)
	}
	return 1.4826 * median(away) * (1 + 0.8/(n-0.8))
}

// median reorders values.
func median(values []float64) float64 { return stats.DescribeInPlace(values).P50 }
