package probes

// Metrics that are judged in comparisons beside those that are judged over nights.
const (
	MetricE2Ep90 RegressionMetric = "e2e_p90"
	// MetricOverall stands for the answer of the whole comparison.
	MetricOverall RegressionMetric = "overall"
)

// ComparisonMetrics is the closed list of what a comparison judges, in the order it
// is documented; [MetricOverall] is none of them.
var ComparisonMetrics = []RegressionMetric{
	MetricTTFTp50, MetricTTFTp99, MetricTPOTp50, MetricTPOTp99, MetricE2Ep50, MetricE2Ep90, MetricOutputThroughput,
	MetricRequestThroughput, MetricSuccessRatio, MetricCapacity, MetricAcceptLength, MetricPrefixCacheHits,
}

// Gate says how the candidate of a comparison is judged, beside [Spec].Margins.
type Gate struct {
	// Primary are the metrics that decide; nil is those that suit the load.
	Primary []RegressionMetric
	// Vary names the controlled variables that are meant to differ.
	Vary []string
}

// Grounds are what the answer of a comparison rests on.
type Grounds struct {
	Reasons []Reason
	// Pairs stand behind the numbers, and Looks are the numbers of pairs at which it was
	// to be asked whether they decide.
	Pairs int
	Looks []int
	// Alpha is the one-sided error of this look; intervals hold with 1 - 2 Alpha.
	Alpha float64
	// History says that the pairs are nights of two series and were not interleaved.
	History bool
	// Controls are the controlled variables that differ or are known on one side only.
	Controls []Control
	// Unverified are the controlled variables that neither side tells.
	Unverified []string
}

// Judgement is one metric of a comparison held against the margin by which the
// candidate may be worse: the Hodges-Lehmann estimate of by how much it has moved,
// with its exact interval.
type Judgement struct {
	Metric  RegressionMetric
	Answer  GateAnswer
	Primary bool // it takes part in the comparison's answer
	N       int  // values of each side, the smaller number of two
	// Reference and Candidate are the medians in the metric's own unit.
	Reference, Candidate float64
	// HigherBetter says that a larger value is a better one. Points says that effects
	// are differences of a ratio in points of it, not shares of the reference.
	HigherBetter, Points bool
	// Margin is a share of the reference, of a ratio its points (0.005 is half a
	// percentage point).
	Margin float64
	// Effect is by how much the candidate is worse, as the margin; negative is better.
	// For a metric of which more is better it is reference/candidate - 1. Low and High
	// bound it. All are unknown where the pairs do not carry them.
	Effect, Low, High Optional[float64]
	// Surely is the bound that a regression must have above zero: as Low, but with the
	// error shared among all the primary metrics.
	Surely Optional[float64]
	// P is the exact two-sided probability of sides that are so far apart by accident.
	P Optional[float64]
	// Detectable is the smallest effect that so many values of this noise show in four
	// of five cases.
	Detectable Optional[float64]
	Reasons    []Reason
}

// Change is an effect as the metric itself has moved: candidate/reference - 1, or
// in points, whichever direction is the better one.
func (j *Judgement) Change(effect float64) float64 {
	switch {
	case j.Points && j.HigherBetter:
		return 0 - effect // no negative zero
	case j.HigherBetter:
		return 1/(1+effect) - 1
	}
	return effect
}

// Control is a variable that must be equal on both sides for a comparison to be one
// of what it names. An empty value is not known.
type Control struct {
	Variable             string
	Reference, Candidate string
	Varied               bool // it was declared to be what the comparison is about
}

// Differs reports whether both sides are known and not equal.
func (c Control) Differs() bool {
	return c.Reference != "" && c.Candidate != "" && c.Reference != c.Candidate
}

// Code is the judgement of one metric as inferbeat_comparison_verdict has it: -1
// better, 0 not worse, 1 suspected, 2 worse, 3 not enough data. A metric that does
// not decide is suspected at most, because none of them fails a gate alone; one
// whose answer is still open is suspected when it looks worse by half of the margin.
func (j *Judgement) Code() int {
	effect, known := j.Effect.Get()
	high, bounded := j.High.Get()
	switch j.Answer {
	case GateRegressed:
		if j.Primary {
			return 2
		}
		return 1
	case GatePass:
		if known && bounded && high < 0 && effect <= -j.Margin/2 {
			return -1
		}
		return 0
	case GateUndecided, GateInconclusive:
		if known && bounded && effect >= j.Margin/2 {
			return 1
		}
	}
	return 3
}

// Code is the answer of the whole, likewise: better takes all deciding metrics to be
// not worse and one of them to be better.
func (c *Comparison) Code() int {
	switch c.Answer {
	case GateRegressed:
		return 2
	case GatePass:
		return c.codeOr(-1, 0)
	case GateUndecided, GateInconclusive:
		return c.codeOr(1, 3)
	}
	return 3
}

// codeOr is the code when a deciding metric has it.
func (c *Comparison) codeOr(code, otherwise int) int {
	for i := range c.Judgements {
		if j := &c.Judgements[i]; j.Primary && j.Code() == code {
			return code
		}
	}
	return otherwise
}
