package summary

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// Median is the summary of runs that were to be equal: each number is the median
// of its values, so that one bad run moves none of them, and its smallest and
// largest value stand in Repeats. Counts, outcomes and everything that the server
// said are those of the run at index typical, which has the median output
// throughput (the lower one of two). Ran is how many were run, those included
// that are left out here because nobody can believe them.
func Median(runs []*probes.Summary, ran int) (s probes.Summary, typical int) {
	typical = typicalRun(runs)
	s = *runs[typical]
	s.Repeats = probes.Repeats{Runs: ran, Used: len(runs)}
	s.Latency = map[probes.Signal]probes.Distribution{}
	lengths := make([]float64, len(runs))
	for i, run := range runs {
		lengths[i] = run.Duration.Seconds()
	}
	s.Duration = time.Duration(stats.Describe(lengths).P50*1e9 + 0.5)

	median := func(name string, of func(*probes.Summary) probes.Optional[float64]) probes.Optional[float64] {
		spread := spreadOf(name, runs, of)
		if spread.N == 0 {
			return probes.Optional[float64]{}
		}
		s.Repeats.Spread = append(s.Repeats.Spread, spread)
		return probes.Known(spread.Median)
	}
	for _, rate := range rates {
		*rate.of(&s) = median(rate.name, func(run *probes.Summary) probes.Optional[float64] { return *rate.of(run) })
	}
	s.SLOAttainment = maps.Clone(s.SLOAttainment) // the run keeps its own
	for _, name := range slices.Sorted(maps.Keys(s.SLOAttainment)) {
		attained, _ := median("slo_attainment_"+name, func(run *probes.Summary) probes.Optional[float64] {
			share, ok := run.SLOAttainment[name]
			if !ok {
				return probes.Optional[float64]{}
			}
			return probes.Known(share)
		}).Get()
		s.SLOAttainment[name] = attained
	}
	for _, signal := range probes.Signals {
		d := probes.Distribution{N: runs[typical].Distribution(signal).N}
		for _, stat := range distributionStats {
			value := median(string(signal)+"_"+stat.name+"_seconds", func(run *probes.Summary) probes.Optional[float64] {
				described := run.Distribution(signal)
				if described.N == 0 {
					return probes.Optional[float64]{}
				}
				return probes.Known(*stat.of(&described))
			})
			*stat.of(&d), _ = value.Get()
		}
		if d.N > 0 {
			s.Latency[signal] = d
		}
	}
	return s, typical
}

// rates are the numbers that a run has once.
var rates = []struct {
	name string
	of   func(*probes.Summary) *probes.Optional[float64]
}{
	{"request_throughput", func(s *probes.Summary) *probes.Optional[float64] { return &s.RequestThroughput }},
	{"input_throughput", func(s *probes.Summary) *probes.Optional[float64] { return &s.InputThroughput }},
	{"output_throughput", func(s *probes.Summary) *probes.Optional[float64] { return &s.OutputThroughput }},
	{"total_throughput", func(s *probes.Summary) *probes.Optional[float64] { return &s.TotalThroughput }},
	{"peak_output_throughput", func(s *probes.Summary) *probes.Optional[float64] { return &s.PeakOutputThroughput }},
	{"concurrency", func(s *probes.Summary) *probes.Optional[float64] { return &s.Concurrency }},
	{"achieved_rate", func(s *probes.Summary) *probes.Optional[float64] { return &s.AchievedRate }},
	{"success_ratio", func(s *probes.Summary) *probes.Optional[float64] { return &s.SuccessRatio }},
	{"goodput", func(s *probes.Summary) *probes.Optional[float64] { return &s.Goodput }},
	{"accept_length", func(s *probes.Summary) *probes.Optional[float64] { return &s.AcceptLength }},
}

// distributionStats are the statistics of a latency.
var distributionStats = []struct {
	name string
	of   func(*probes.Distribution) *float64
}{
	{"mean", func(d *probes.Distribution) *float64 { return &d.Mean }},
	{"stddev", func(d *probes.Distribution) *float64 { return &d.Stddev }},
	{"min", func(d *probes.Distribution) *float64 { return &d.Min }},
	{"p50", func(d *probes.Distribution) *float64 { return &d.P50 }},
	{"p90", func(d *probes.Distribution) *float64 { return &d.P90 }},
	{"p95", func(d *probes.Distribution) *float64 { return &d.P95 }},
	{"p99", func(d *probes.Distribution) *float64 { return &d.P99 }},
	{"max", func(d *probes.Distribution) *float64 { return &d.Max }},
}

// spreadOf is the median of the known values and how far they are apart.
func spreadOf(name string, runs []*probes.Summary, of func(*probes.Summary) probes.Optional[float64]) probes.Spread {
	var values []float64
	for _, run := range runs {
		if v, ok := of(run).Get(); ok {
			values = append(values, v)
		}
	}
	d := stats.DescribeInPlace(values)
	return probes.Spread{Name: name, N: d.N, Median: d.P50, Min: d.Min, Max: d.Max}
}

// typicalRun is the one with the median output throughput, or request throughput
// where nobody counted tokens.
func typicalRun(runs []*probes.Summary) int {
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	throughput := func(i int) float64 {
		if v, ok := runs[i].OutputThroughput.Get(); ok {
			return v
		}
		v, _ := runs[i].RequestThroughput.Get()
		return v
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(throughput(a), throughput(b)) })
	return order[(len(order)-1)/2]
}
