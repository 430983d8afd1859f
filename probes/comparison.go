package probes

// Comparison lays the run's target, the candidate (B), beside a reference (A).
// Both were given the same prompts at the same times, a pair of runs after the
// other, in the order A B, B A, A B, ... so that a drift of the surroundings meets
// both alike. The parts of the run are all runs, in order.
type Comparison struct {
	Reference Target
	// Pairs is how many were asked for and Used in how many of them both runs can
	// be believed; the numbers are of those.
	Pairs, Used int
	Metrics     []Contrast
	// Answer and Judgements say whether the candidate may take the reference's place,
	// and Grounds what that rests on; all are empty for a comparison that nobody has
	// judged.
	Answer     GateAnswer
	Judgements []Judgement
	Grounds    Grounds
}

// Contrast is one number on both sides, in the unit that its name ends with. The
// median of the differences is not the difference of the medians: a pair has the
// weather of its own minute in common, which the first takes out.
type Contrast struct {
	Name       string // as in [Spread]
	N          int    // pairs in which it is known on both sides
	Reference  float64
	Candidate  float64
	Difference float64 // median over pairs of candidate - reference
	// Ratio is Candidate / Reference, unknown where the reference is 0.
	Ratio Optional[float64]
}

// contrastNames are the names of contrasts that are not the metric's own.
var contrastNames = map[RegressionMetric]string{
	MetricTTFTp50: "ttft_p50_seconds", MetricTTFTp99: "ttft_p99_seconds", MetricTPOTp50: "tpot_p50_seconds",
	MetricTPOTp99: "tpot_p99_seconds", MetricE2Ep50: "e2e_p50_seconds", MetricE2Ep90: "e2e_p90_seconds",
	MetricAcceptLength: "accept_length",
}

// Contrast finds what the comparison says of a metric; false when no pair has it.
func (c *Comparison) Contrast(m RegressionMetric) (Contrast, bool) {
	name, ok := contrastNames[m]
	if !ok {
		name = string(m)
	}
	for _, contrast := range c.Metrics {
		if contrast.Name == name {
			return contrast, true
		}
	}
	return Contrast{}, false
}

// Judgement finds how a metric was judged; false when it was not.
func (c *Comparison) Judgement(m RegressionMetric) (Judgement, bool) {
	for _, j := range c.Judgements {
		if j.Metric == m {
			return j, true
		}
	}
	return Judgement{}, false
}
