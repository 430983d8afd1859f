package capacity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

const (
	// residences is how many median residence times a step lasts, and warmups how many
	// 95th percentiles pass before it counts.
	residences, warmups = 60, 3
	// minLength is for servers whose requests take less than a second: with 30 s a small one
	// was found to take 9 % too much, with 60 s 5 % (40 seeds).
	minLength = 60 * time.Second
	// minRequests are needed for a share of 1 %, minRequestsLoose for 5 % and more.
	minRequests, minRequestsLoose = 300, 100
	looseObjective                = 0.95
	// blocks of a step in time, over which the scatter of the share is taken.
	blocks = 10
	// growth of the median TTFT from the first to the second half of a step from
	// which the step is not stationary.
	growth = 1.5
)

// Length is how long a step at a rate must last, and how long its warm-up: 60 median
// residence times, enough requests for the tightest objective, at least 60 s; and 3
// times the 95th percentile. e2e are residence times at a load as close as there is
// from below.
func Length(rate float64, e2e probes.Distribution, slos []probes.SLO) (measure, warmup time.Duration) {
	n := float64(minRequestsLoose)
	for i := range slos {
		if slos[i].Objective > looseObjective {
			n = minRequests
		}
	}
	seconds := max(residences*e2e.P50, n/rate, minLength.Seconds())
	return time.Duration(seconds * 1e9), time.Duration(warmups * e2e.P95 * 1e9)
}

// TooMany reports whether so many of the planned requests of a step are over an
// objective already that the step cannot pass: more than 3 times the allowed number
// and 4 of its standard deviations, so that a step at the capacity is never cut.
func TooMany(over, planned int, objective float64) bool {
	allowed := (1 - objective) * float64(planned)
	return float64(over) > 3*allowed+4*math.Sqrt(allowed)+3
}

// FromDue is the objective as a user of an open system sees it: times run from when
// the request was due. A client that held requests back would hide the queue.
func FromDue(slo probes.SLO) probes.SLO {
	bounds := make(map[probes.Signal]time.Duration, len(slo.Bounds))
	for signal, bound := range slo.Bounds {
		switch signal {
		case probes.TTFT:
			signal = probes.TTFTFromDue
		case probes.E2E:
			signal = probes.E2EFromDue
		}
		bounds[signal] = bound
	}
	slo.Bounds = bounds
	return slo
}

// Judge fills in what the step's records say about the objectives: Judged, Over,
// Effect, Passed and Stationary. good holds one request against an objective and says
// whether it counts.
func Judge(step *probes.Step, slos []probes.SLO, good func(*probes.Record, *probes.SLO) (good, counts bool)) {
	order := byDue(step.Records)
	step.Over, step.Effect = map[string]int{}, map[string]float64{}
	step.Passed = len(slos) > 0
	for i := range slos {
		slo := FromDue(slos[i])
		var misses []bool
		over := 0
		for _, r := range order {
			ok, counts := good(r, &slo)
			if !counts {
				continue
			}
			misses = append(misses, !ok)
			if !ok {
				over++
			}
		}
		step.Judged = len(misses)
		step.Over[slo.Name], step.Effect[slo.Name] = over, designEffect(misses)
		allowed := (1 - slo.Objective) * float64(len(misses))
		// The margin keeps 1 - 0.99 of 300 at 3.
		step.Passed = step.Passed && !step.Aborted && float64(over) <= allowed*(1+1e-9)
	}
	step.Stationary = stationary(order)
}

func byDue(records []probes.Record) []*probes.Record {
	order := make([]*probes.Record, len(records))
	for i := range records {
		order[i] = &records[i]
	}
	slices.SortStableFunc(order, func(a, b *probes.Record) int { return cmp.Compare(a.Due, b.Due) })
	return order
}

// designEffect is Pearson's chi-squared of the misses over ten blocks of time, per degree
// of freedom: 1 on average for independent requests, more when misses come in crowds.
func designEffect(misses []bool) float64 {
	n, over := len(misses), 0
	for _, miss := range misses {
		if miss {
			over++
		}
	}
	if n < blocks || over == 0 || over == n {
		return 1
	}
	p := float64(over) / float64(n)
	chi := 0.0
	for b := range blocks {
		block := misses[b*n/blocks : (b+1)*n/blocks]
		count := 0
		for _, miss := range block {
			if miss {
				count++
			}
		}
		m := float64(len(block))
		d := float64(count) - p*m
		chi += d * d / (m * p * (1 - p))
	}
	return max(1, chi/(blocks-1))
}

// stationary compares the median TTFT of the two halves of the arrivals.
func stationary(order []*probes.Record) bool {
	var halves [2][]float64
	for i, r := range order {
		if ttft, ok := r.TTFTFromDue().Get(); ok {
			half := 2 * i / len(order)
			halves[half] = append(halves[half], ttft.Seconds())
		}
	}
	first, second := stats.DescribeInPlace(halves[0]), stats.DescribeInPlace(halves[1])
	return first.N == 0 || second.N == 0 || second.P50 <= growth*first.P50
}
