package regression

import (
	"math"
	"slices"
)

// Numbers of the detector that are the same for every series. They were tuned
// together; the false alarms that SIMULATION.md states are those of these values.
const (
	clipAt = 3.0 // sigmas that one night can contribute, so that an outlier never fires alone

	fastSigmas = 4.5 // of each of two nights in a row that need no third
	fastEffect = 0.10

	priorWeight = 8.0 // nights that the metric class's usual spread counts for

	recoveryScore  = 4.5 // log likelihood ratio of "at the baseline" against "still shifted"
	recoveryNights = 5

	suspectSigmas = 3.5 // of one night that is worth a second look
	rerunSigmas   = 2.0 // of one run that two more should confirm

	unstableWindow = 60
	unstableAfter  = 20 // nights, before which no series is called unstable
	unstableSigmas = 6.0
	unstableEffect = 0.15
	unstableShare  = 0.10 // of the window's nights; half of it to remain unstable

	refineFrom, refineUntil = 5, 12 // nights after the onset in which the shift is estimated anew
)

// Rule is how the nights of a series are scanned. The zero value is not useful.
type Rule struct {
	// Window is how many points the baseline has at most and Longest how long a
	// change may be for the scan to see it whole.
	Window, Longest int
	// Learn is how many points a baseline has at least; fewer say too little about the
	// spread.
	Learn int
	// Creeping looks for drifts too.
	Creeping bool
	// Share is the part of the points' variance that is autocorrelated and Phi how
	// much of it the next point inherits. Points that resemble their neighbours say
	// less than as many independent ones.
	Share, Phi float64
}

// Nightly is the rule for points that are a day apart, and Hourly for those of an
// hour: it looks back a week, and believes a neighbouring hour much less.
var (
	Nightly = Rule{Window: 45, Longest: 15, Learn: 10, Creeping: true, Share: 0.25, Phi: 0.6}
	Hourly  = Rule{Window: 168, Longest: 24, Learn: 72, Share: 0.5, Phi: 0.9}
)

// variances are those of the sums of the last k points in units of one point's, for
// k = 0 to Longest.
func (r Rule) variances() []float64 {
	v := make([]float64, r.Longest+1)
	for k := range v {
		sum, power := 0.0, 1.0
		for j := 1; j < k; j++ {
			power *= r.Phi
			sum += float64(k-j) * power
		}
		v[k] = float64(k) + 2*r.Share*sum
	}
	return v
}

// medianVariance is that of the median of n points in units of one point's: pi/2 of
// the mean's, for points that resemble their neighbours.
func (r Rule) medianVariance(n int) float64 {
	return 1.57 / float64(n) * (1 + 2*r.Share*r.Phi/(1-r.Phi))
}

// level is what a stretch of nights says about where a series is and how much it
// scatters.
type level struct {
	center, sigma float64
	n             int
}

// describe is the robust level of nights: median and MAD, the latter with the usual
// spread of the metric as if it had been seen for priorWeight nights. A series of
// equal values has no MAD; floor keeps it from calling the first other one a step.
func (s *scanner) describe(nights []float64) level {
	n := float64(len(nights))
	center := s.median(nights)
	s.deviations = s.deviations[:0]
	for _, y := range nights {
		s.deviations = append(s.deviations, math.Abs(y-center))
	}
	mad := 1.4826 * s.median(s.deviations) * (1 + 0.8/(n-0.8))
	prior := s.Prior
	sigma := math.Sqrt((priorWeight*prior*prior + n*mad*mad) / (priorWeight + n))
	return level{center, max(sigma, s.floor(center)), len(nights)}
}

// floor is the smallest spread that is believed. Where the server rounds what it
// shows, half of its last digit is a spread as well.
func (s *scanner) floor(center float64) float64 {
	if s.DisplayStep == 0 {
		return s.Floor
	}
	return max(s.Floor, s.DisplayStep/2/math.Exp(float64(s.Direction)*center))
}

// scanner computes over nights. It keeps its scratch space, because a scan sorts
// some fifty numbers several times a night.
type scanner struct {
	Settings
	rule       Rule
	variance   []float64
	sorted     []float64
	deviations []float64
}

func newScanner(settings Settings, rule Rule) *scanner {
	return &scanner{Settings: settings, rule: rule, variance: rule.variances()}
}

func (s *scanner) median(values []float64) float64 {
	s.sorted = append(s.sorted[:0], values...)
	slices.Sort(s.sorted)
	n := len(s.sorted)
	if n%2 == 1 {
		return s.sorted[n/2]
	}
	return 0.5 * (s.sorted[n/2-1] + s.sorted[n/2])
}

// scanned is the most convincing shift of the last nights against those before.
type scanned struct {
	base   level
	inflow float64 // variance of base.center, in units of sigma squared
	score  float64
	k      int     // nights that are shifted
	shift  float64 // median of those less base.center, along the sign that was asked for
}

// scan looks for a shift upwards. It is false while there are too few nights for a
// baseline and two more.
func (s *scanner) scan(y []float64) (scanned, bool) {
	n := len(y)
	if n < s.rule.Learn+2 {
		return scanned{}, false
	}
	base := s.describe(y[max(0, n-s.longest(n)-s.rule.Window) : n-s.longest(n)])
	return s.search(y, base, 1), true
}

// longest is how many of n nights are not part of the baseline.
func (s *scanner) longest(n int) int { return min(s.rule.Longest, n-s.rule.Learn) }

// search finds the most convincing shift against a baseline, upwards (sign 1) or
// downwards (sign -1).
func (s *scanner) search(y []float64, base level, sign float64) scanned {
	n := len(y)
	out := scanned{base: base, inflow: s.rule.medianVariance(base.n), score: math.Inf(-1)}
	sum := 0.0
	for k := 1; k <= s.longest(n); k++ {
		sum += clip(sign*(y[n-k]-base.center)/base.sigma, -clipAt, clipAt)
		if k < 2 {
			continue
		}
		score := sum / math.Sqrt(s.variance[k]+float64(k*k)*out.inflow)
		if score > out.score {
			out.score, out.k = score, k
		}
	}
	out.shift = sign * (s.median(y[n-out.k:]) - base.center)
	return out
}

// halfWidth is half of the 95 % interval of the shift of k nights.
func (s *scanner) halfWidth(r *scanned, k int) float64 {
	ofMedian := 1.0
	if k > 2 { // the median of two is their mean
		ofMedian = math.Pi / 2
	}
	k = min(k, s.rule.Longest)
	variance := s.variance[k] / float64(k*k) * ofMedian
	return 1.96 * r.base.sigma * math.Sqrt(variance+r.inflow)
}

// worse reports whether the nights show a regression, and of how many of them.
func (s *scanner) worse(y []float64, r *scanned) (k int, ok bool) {
	if r.score > s.Threshold && r.shift > math.Log1p(s.MinEffect) {
		return r.k, true
	}
	return 2, s.fast(y, r)
}

// fast reports whether the last two nights leave no doubt. A series that has nights
// like them now and then needs more of them.
func (s *scanner) fast(y []float64, r *scanned) bool {
	n := len(y)
	far := fastSigmas * r.base.sigma
	if min(y[n-1], y[n-2])-r.base.center <= max(far, math.Log1p(fastEffect)) {
		return false
	}
	earlier := 0
	for _, v := range y[max(0, n-s.rule.Window-2) : n-2] {
		if v-r.base.center > far {
			earlier++
		}
	}
	return earlier <= 1
}

// unstable reports whether the series jumps to and fro. The nights of one block at
// the end are a step and not counted. A series that is unstable remains so until
// fewer nights are far off.
func (s *scanner) unstable(y []float64, sigma float64, was bool) bool {
	window := y[max(0, len(y)-unstableWindow):]
	center := s.median(window)
	bound := max(unstableSigmas*sigma, math.Log1p(unstableEffect))
	end := len(window)
	for end > 0 && math.Abs(window[end-1]-center) > bound {
		end--
	}
	far := 0
	for _, v := range window[:end] {
		if math.Abs(v-center) > bound {
			far++
		}
	}
	few, share := 3.0, unstableShare
	if was {
		few, share = 2, unstableShare/2
	}
	return end >= unstableAfter && float64(far) >= max(few, share*float64(end))
}

func clip(x, low, high float64) float64 { return min(max(x, low), high) }
