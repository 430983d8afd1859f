package probes

import "time"

// ChangeState is what the nights of a series say about its level.
type ChangeState string

const (
	ChangeNone      ChangeState = "none"      // at its baseline
	ChangeBetter    ChangeState = "better"    // a confirmed improvement, which is the new baseline
	ChangeSuspected ChangeState = "suspected" // one odd night; no news before another one agrees
	ChangeWorse     ChangeState = "worse"     // a confirmed regression that neither recovered nor was accepted
	ChangeDrift     ChangeState = "drift"     // no step, but a slow way off from where the segment began
	ChangeUnstable  ChangeState = "unstable"  // the series is bimodal or spiky; its alarms mean nothing
	ChangeLearning  ChangeState = "learning"  // not enough nights yet
)

// ChangeStates is the closed list.
var ChangeStates = []ChangeState{ChangeNone, ChangeBetter, ChangeSuspected, ChangeWorse, ChangeDrift, ChangeUnstable, ChangeLearning}

// RegressionMetric names a series that is judged over nights and in comparisons.
type RegressionMetric string

const (
	MetricTTFTp50           RegressionMetric = "ttft_p50"
	MetricTTFTp99           RegressionMetric = "ttft_p99"
	MetricTPOTp50           RegressionMetric = "tpot_p50"
	MetricTPOTp99           RegressionMetric = "tpot_p99"
	MetricE2Ep50            RegressionMetric = "e2e_p50"
	MetricOutputThroughput  RegressionMetric = "output_throughput"
	MetricRequestThroughput RegressionMetric = "request_throughput"
	MetricSuccessRatio      RegressionMetric = "success_ratio"
	MetricCapacity          RegressionMetric = "capacity"
	MetricAcceptLength      RegressionMetric = "spec_accept_length"
	MetricPrefixCacheHits   RegressionMetric = "prefix_cache_hit_ratio"
)

// RegressionMetrics is the closed list: the values of the label `metric`.
var RegressionMetrics = []RegressionMetric{
	MetricTTFTp50, MetricTTFTp99, MetricTPOTp50, MetricTPOTp99, MetricE2Ep50, MetricOutputThroughput,
	MetricRequestThroughput, MetricSuccessRatio, MetricCapacity, MetricAcceptLength, MetricPrefixCacheHits,
}

// Change is one metric of a pair laid beside its baseline. While the state is
// learning everything but the counts is unknown.
type Change struct {
	Metric RegressionMetric
	State  ChangeState
	// Effect is the change against the baseline as a share of it; positive is worse.
	// Low and High bound it with 95 % confidence.
	Effect, Low, High Optional[float64]
	// Baseline is the baseline's level in the metric's own unit.
	Baseline     Optional[float64]
	BaselineRuns int       // nights in the baseline
	BaselineAt   time.Time // when the baseline's segment began; zero: no baseline
	// Onset is the first night of the change that the state speaks of; zero: none.
	Onset time.Time
	// SmallestStep is the step, as a share, that this series can show within a week:
	// smaller ones drown in its noise.
	SmallestStep Optional[float64]
	// Renamed are the facts of the server that differ between the last night before
	// Onset and the first one of the change: its usual cause.
	Renamed []FactChange
	Reasons []Reason
}

// FactChange is something that the server says about itself and said otherwise before.
type FactChange struct{ Name, Before, After string }

func (c FactChange) String() string { return c.Name + " " + c.Before + " -> " + c.After }

// ErrorBudget is the unspent share of an objective's budget over its window, of all
// the targets of a pool: 1 is untouched, 0 used up, negative overspent.
type ErrorBudget struct {
	Pool, Environment, Model string
	Probe, SLO               string
	Remaining                float64
}

// Acknowledgement accepts a change as the new normal.
type Acknowledgement struct {
	Target, Probe string
	Metric        RegressionMetric // empty: all of the pair's
	At            time.Time        // when it was said
	Since         time.Time        // the first night that is accepted; zero: the open change's onset
	Author        string
	Reason        string
}

// GateAnswer is what a comparison says of one metric or of the whole.
type GateAnswer string

const (
	GatePass         GateAnswer = "pass"         // the candidate is not worse by the margin or more
	GateRegressed    GateAnswer = "regressed"    // it is worse, and by enough to matter
	GateInconclusive GateAnswer = "inconclusive" // more pairs would be needed than may be run
	GateUndecided    GateAnswer = "undecided"    // more pairs may decide it
	GateInvalid      GateAnswer = "invalid"      // the sides may not be compared, or too few runs can be believed
)

// ComparisonStatus is the daemon's view of one configured comparison.
type ComparisonStatus struct {
	Name                 string
	Reference, Candidate string // target names
	StaleAfter           time.Duration
	Interval             time.Duration // planned time between starts; 0 when unscheduled
	Active               bool
	NextStart            time.Time // zero: none planned
	LastCompletion       time.Time // zero: never
	// Skips counts the planned runs that did not start since the comparison was configured.
	Skips map[SkipReason]int
	Last  *Run // that ended last, without its records; nil before the first
	// Result is the last comparison that can be believed; nil before the first and
	// once it is older than StaleAfter.
	Result *Run
}

// Regression says how a probe's runs are judged against those of earlier nights. The
// zero value does not judge them.
type Regression struct {
	Enabled     bool
	Sensitivity Sensitivity
	// Metrics are judged; empty: all that the probe measures.
	Metrics []RegressionMetric
	// MinEffects replace the smallest change, as a share, that is worth telling.
	MinEffects map[RegressionMetric]float64
	// AutoAccept is after how many nights an open regression becomes the new normal by
	// itself; 0 leaves that to people.
	AutoAccept int
	// Confirm runs an odd load twice more at once, and takes the median.
	Confirm bool
}

// ConfirmRuns is how many runs a night has whose first one was odd.
const ConfirmRuns = 3

// Sensitivity is how much it takes to believe in a change.
type Sensitivity string

const (
	SensitivityHigh   Sensitivity = "high"
	SensitivityNormal Sensitivity = "normal"
	SensitivityLow    Sensitivity = "low"
)

// Sensitivities is the closed list.
var Sensitivities = []Sensitivity{SensitivityHigh, SensitivityNormal, SensitivityLow}

// Codes of a [Change]'s reasons.
const (
	ReasonRegression         = "regression"
	ReasonImprovement        = "improvement"
	ReasonOddNight           = "odd_night"
	ReasonDrift              = "drift"
	ReasonUnstableSeries     = "unstable_series"
	ReasonTooFewNights       = "too_few_nights"
	ReasonNoNights           = "no_nights"
	ReasonVersionChanged     = "version_changed"
	ReasonVersionUnchanged   = "version_unchanged"
	ReasonEnvironmentChanged = "environment_changed"
	ReasonHourly             = "hourly"
	ReasonSharedEnvironment  = "shared_environment"
	ReasonSharedVersion      = "shared_version"
	ReasonOutlier            = "outlier" // of a pair, not of a change
)
