package regression

import (
	"math"

	"github.com/inferbeat/inferbeat/probes"
)

// Class is what is known about a metric before its first night.
type Class struct {
	Metric    probes.RegressionMetric
	Direction int     // +1: lower is better
	Prior     float64 // usual spread from night to night, as a share
	Floor     float64 // smallest spread that is believed
	MinEffect float64 // smallest change that anybody wants to hear of, as a share
	// DisplayStep is the distance of two values that servers can show; 0 is none.
	DisplayStep float64
	// Secondary metrics are judged more strictly and never make a run fail: a p99 is
	// mostly the luck of its ten slowest requests.
	Secondary bool
	// Optional metrics are not mentioned where no night has them.
	Optional bool

	of      func(*probes.Run) probes.Optional[float64]
	applies func(*probes.Spec) bool
}

// classes are the metrics that are judged, in the order of the vocabulary. The
// success ratio, whose failures are counted, is not among them.
var classes = []Class{
	{Metric: probes.MetricTTFTp50, Direction: 1, Prior: 0.04, Floor: 0.005, MinEffect: 0.05, of: latency(probes.TTFT, probes.StatP50), applies: timed},
	{Metric: probes.MetricTTFTp99, Direction: 1, Prior: 0.10, Floor: 0.01, MinEffect: 0.15, Secondary: true, Optional: true, of: latency(probes.TTFT, probes.StatP99), applies: timed},
	{Metric: probes.MetricTPOTp50, Direction: 1, Prior: 0.02, Floor: 0.003, MinEffect: 0.03, of: pace(probes.StatP50), applies: timed},
	{Metric: probes.MetricTPOTp99, Direction: 1, Prior: 0.10, Floor: 0.01, MinEffect: 0.15, Secondary: true, Optional: true, of: pace(probes.StatP99), applies: timed},
	{Metric: probes.MetricE2Ep50, Direction: 1, Prior: 0.03, Floor: 0.005, MinEffect: 0.05, of: latency(probes.E2E, probes.StatP50), applies: timed},
	{Metric: probes.MetricOutputThroughput, Direction: -1, Prior: 0.02, Floor: 0.003, MinEffect: 0.03,
		of: func(r *probes.Run) probes.Optional[float64] { return r.Summary.OutputThroughput }, applies: bounded},
	{Metric: probes.MetricRequestThroughput, Direction: -1, Prior: 0.02, Floor: 0.003, MinEffect: 0.03,
		of: func(r *probes.Run) probes.Optional[float64] { return r.Summary.RequestThroughput }, applies: bounded},
	{Metric: probes.MetricCapacity, Direction: -1, Prior: 0.02, Floor: 0.005, MinEffect: 0.05, of: capacity, applies: sweeps},
	{Metric: probes.MetricAcceptLength, Direction: -1, Prior: 0.01, Floor: 0.003, MinEffect: 0.02, DisplayStep: 0.01, Optional: true,
		of: func(r *probes.Run) probes.Optional[float64] { return r.Summary.AcceptLength }, applies: serves},
	{Metric: probes.MetricPrefixCacheHits, Direction: -1, Prior: 0.05, Floor: 0.005, MinEffect: 0.05, Secondary: true, Optional: true,
		of: cacheHits, applies: cached},
}

// classOf is false for the success ratio.
func classOf(metric probes.RegressionMetric) (Class, bool) {
	for _, c := range classes {
		if c.Metric == metric {
			return c, true
		}
	}
	return Class{}, false
}

// Applies reports whether nights of the spec say anything about the metric.
func Applies(metric probes.RegressionMetric, spec *probes.Spec) bool {
	if c, ok := classOf(metric); ok {
		return c.applies(spec)
	}
	return serves(spec)
}

// serves: a sweep overloads on purpose; what its requests met is nobody's latency.
func serves(spec *probes.Spec) bool {
	return !spec.Kind.Continuous() && spec.Kind != probes.Sweep && spec.Kind != probes.Paired
}

func sweeps(spec *probes.Spec) bool { return spec.Kind == probes.Sweep }

// timed: in a peak, latency is a function of the concurrency with which it ended.
func timed(spec *probes.Spec) bool { return serves(spec) && spec.Kind != probes.Peak }

// bounded reports whether the server bounds the throughput. Under a rate that it can
// take, the throughput is the rate that was asked for.
func bounded(spec *probes.Spec) bool {
	if !serves(spec) || spec.Kind == probes.Replay || spec.Arrivals.Process == probes.FromTrace {
		return false
	}
	a := spec.Arrivals
	return !a.OpenLoop() || a.Process == probes.Burst || math.IsInf(a.Rate, 1) || spec.Kind == probes.Peak || spec.Kind == probes.Batch
}

// cached: a cold workload hits the cache by accident only.
func cached(spec *probes.Spec) bool { return serves(spec) && spec.Workload.Cache != probes.CacheCold }

// maxFailed is the share of requests that may fail in a night that says how fast the
// target is.
const maxFailed = 0.01

// tolerates reports whether a statistic is still that of all requests although some
// failed. They have no latency, and a server that drops its slowest requests must not
// look faster: at most half of the tail beyond a percentile may be missing.
func tolerates(s *probes.Summary, tail float64) bool {
	judged := s.Completed + s.Failed
	return judged > 0 && float64(s.Failed) <= min(maxFailed, tail/2)*float64(judged)
}

var tails = map[probes.Statistic]float64{probes.StatP50: 0.5, probes.StatP99: 0.01}

func latency(signal probes.Signal, statistic probes.Statistic) func(*probes.Run) probes.Optional[float64] {
	return func(r *probes.Run) probes.Optional[float64] {
		d := r.Summary.Distribution(signal)
		if !tolerates(&r.Summary, tails[statistic]) || statistic == probes.StatP99 && !d.Enough(statistic) {
			return probes.Optional[float64]{}
		}
		return d.Get(statistic)
	}
}

// minPaceTokens is the mean answer length from which time per output token is judged.
const minPaceTokens = 100

func pace(statistic probes.Statistic) func(*probes.Run) probes.Optional[float64] {
	of := latency(probes.TPOT, statistic)
	return func(r *probes.Run) probes.Optional[float64] {
		s := &r.Summary
		tokens, ok := s.OutputTokens.Get()
		if answers := s.Completed - s.UnknownOutputs + s.Cancelled; !ok || tokens < minPaceTokens*answers {
			return probes.Optional[float64]{}
		}
		return of(r)
	}
}

// capacity is unknown where the sweep never got past it: a lower bound is no value.
func capacity(r *probes.Run) probes.Optional[float64] {
	if !r.Capacity.Bracketed {
		return probes.Optional[float64]{}
	}
	return r.Capacity.Rate
}

// leastHits stands for a cache that is never hit: a ratio of 0 has no logarithm, and
// its loss must not be a missing night.
const leastHits = 0.001

func cacheHits(r *probes.Run) probes.Optional[float64] {
	ratio, ok := r.Summary.CacheHitRatio().Get()
	if !ok {
		return probes.Optional[float64]{}
	}
	return probes.Known(max(ratio, leastHits))
}
