package compare

import (
	"math"

	"github.com/inferbeat/inferbeat/probes"
)

// Metric is one number of a run that a comparison judges.
type Metric struct {
	Name         probes.RegressionMetric
	HigherBetter bool
	// Points: the number is a ratio whose differences are told in points; its logarithm
	// would make nothing of 0 and much of next to nothing.
	Points bool
	// Margin is by how much it may be worse unless somebody says otherwise: as much as
	// the class of the metric scatters without a cause, and as somebody would notice.
	Margin float64
	of     func(*probes.Run) probes.Optional[float64]
}

// Metrics lists them in the order of [probes.ComparisonMetrics].
var Metrics = []Metric{
	{Name: probes.MetricTTFTp50, Margin: 0.10, of: latency(probes.TTFT, probes.StatP50)},
	{Name: probes.MetricTTFTp99, Margin: 0.20, of: latency(probes.TTFT, probes.StatP99)},
	{Name: probes.MetricTPOTp50, Margin: 0.05, of: latency(probes.TPOT, probes.StatP50)},
	{Name: probes.MetricTPOTp99, Margin: 0.20, of: latency(probes.TPOT, probes.StatP99)},
	{Name: probes.MetricE2Ep50, Margin: 0.10, of: latency(probes.E2E, probes.StatP50)},
	{Name: probes.MetricE2Ep90, Margin: 0.10, of: latency(probes.E2E, probes.StatP90)},
	{Name: probes.MetricOutputThroughput, HigherBetter: true, Margin: 0.05,
		of: summarized(func(s *probes.Summary) probes.Optional[float64] { return s.OutputThroughput })},
	{Name: probes.MetricRequestThroughput, HigherBetter: true, Margin: 0.05,
		of: summarized(func(s *probes.Summary) probes.Optional[float64] { return s.RequestThroughput })},
	{Name: probes.MetricSuccessRatio, HigherBetter: true, Points: true, Margin: 0.005,
		of: summarized(func(s *probes.Summary) probes.Optional[float64] { return s.SuccessRatio })},
	{Name: probes.MetricCapacity, HigherBetter: true, Margin: 0.05, of: capacity},
	{Name: probes.MetricAcceptLength, HigherBetter: true, Margin: 0.05,
		of: summarized(func(s *probes.Summary) probes.Optional[float64] { return s.AcceptLength })},
	{Name: probes.MetricPrefixCacheHits, HigherBetter: true, Points: true, Margin: 0.05,
		of: summarized((*probes.Summary).CacheHitRatio)},
}

// Value is the metric's value in a run, in its own unit: seconds, tokens or requests
// per second, a ratio. It is unknown when the run does not have it, and for a number
// that has no logarithm.
func (m *Metric) Value(run *probes.Run) probes.Optional[float64] {
	v, ok := m.of(run).Get()
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) || !m.Points && v <= 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(v)
}

// worse maps a value to a scale on which differences are effects: up is worse.
func (m *Metric) worse(v float64) float64 {
	if !m.Points {
		v = math.Log(v)
	}
	if m.HigherBetter {
		return -v
	}
	return v
}

// effect maps a difference on that scale to a share of the reference, or to points.
func (m *Metric) effect(shift float64) float64 {
	if m.Points {
		return shift
	}
	return math.Expm1(shift)
}

// shift is the inverse of effect.
func (m *Metric) shift(effect float64) float64 {
	if m.Points {
		return effect
	}
	return math.Log1p(effect)
}

func summarized(of func(*probes.Summary) probes.Optional[float64]) func(*probes.Run) probes.Optional[float64] {
	return func(run *probes.Run) probes.Optional[float64] { return of(&run.Summary) }
}

func latency(signal probes.Signal, stat probes.Statistic) func(*probes.Run) probes.Optional[float64] {
	return summarized(func(s *probes.Summary) probes.Optional[float64] { return s.Distribution(signal).Get(stat) })
}

// capacity is that of a sweep which got past it; a lower bound is no value.
func capacity(run *probes.Run) probes.Optional[float64] {
	if !run.Capacity.Bracketed {
		return probes.Optional[float64]{}
	}
	return run.Capacity.Rate
}

// Primary are the metrics that decide a comparison of loads of this kind, unless
// the user names others: one number for each thing that users of the target feel.
// The throughput is one of them only where it is not the offered rate. At most five
// decide: the error is shared among them, and with five pairs there is no more of it.
func Primary(spec *probes.Spec) []probes.RegressionMetric {
	switch {
	case spec.Gate != nil && len(spec.Gate.Primary) > 0:
		return spec.Gate.Primary
	case spec.Kind == probes.Sweep:
		return []probes.RegressionMetric{probes.MetricCapacity}
	case spec.Kind == probes.Peak || spec.Kind == probes.Batch:
		return []probes.RegressionMetric{probes.MetricOutputThroughput, probes.MetricSuccessRatio}
	}
	out := []probes.RegressionMetric{probes.MetricTTFTp50, probes.MetricTPOTp50, probes.MetricE2Ep90, probes.MetricSuccessRatio}
	if a := spec.Arrivals; !a.OpenLoop() || a.Process == probes.Burst || math.IsInf(a.Rate, 1) {
		out = append(out, probes.MetricOutputThroughput)
	}
	return out
}
