package summary

import (
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// Compare lays the runs of two sides beside each other, number by number. Runs at
// one index are a pair. A number counts in the pairs in which both sides have it,
// so that its two medians are of the same minutes; one that no pair has is left out.
func Compare(reference, candidate []*probes.Summary) (out []probes.Contrast) {
	for _, n := range numbers() {
		var a, b, difference []float64
		for i := range reference {
			x, known := n.of(reference[i]).Get()
			y, both := n.of(candidate[i]).Get()
			if known && both {
				a, b, difference = append(a, x), append(b, y), append(difference, y-x)
			}
		}
		if len(a) == 0 {
			continue
		}
		c := probes.Contrast{
			Name: n.name, N: len(a), Reference: stats.DescribeInPlace(a).P50, Candidate: stats.DescribeInPlace(b).P50,
			Difference: stats.DescribeInPlace(difference).P50,
		}
		if c.Reference > 0 {
			c.Ratio = probes.Known(c.Candidate / c.Reference)
		}
		out = append(out, c)
	}
	return out
}

type number struct {
	name string
	of   func(*probes.Summary) probes.Optional[float64]
}

// numbers are what a comparison tells of a run: how much work it was, its rates and
// its latencies.
func numbers() []number {
	out := []number{
		{"completed", func(s *probes.Summary) probes.Optional[float64] { return probes.Known(float64(s.Completed)) }},
		{"input_tokens", func(s *probes.Summary) probes.Optional[float64] { return count(s.InputTokens) }},
		{"output_tokens", func(s *probes.Summary) probes.Optional[float64] { return count(s.OutputTokens) }},
	}
	for _, rate := range rates {
		out = append(out, number{rate.name, func(s *probes.Summary) probes.Optional[float64] { return *rate.of(s) }})
	}
	for _, signal := range probes.Signals {
		for _, stat := range distributionStats {
			out = append(out, number{string(signal) + "_" + stat.name + "_seconds", func(s *probes.Summary) probes.Optional[float64] {
				d := s.Distribution(signal)
				if d.N == 0 {
					return probes.Optional[float64]{}
				}
				return probes.Known(*stat.of(&d))
			}})
		}
	}
	return out
}

func count(n probes.Optional[int]) probes.Optional[float64] {
	if n, ok := n.Get(); ok {
		return probes.Known(float64(n))
	}
	return probes.Optional[float64]{}
}
