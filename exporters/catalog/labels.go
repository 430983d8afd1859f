package catalog

import "slices"

// Label names. Run and request ids, URLs, prompts and error texts are never
// labels.
const (
	LabelTarget    = "target"
	LabelPool      = "pool"
	LabelTargetEnv = "target_env"
	LabelModel     = "model"
	LabelProbe     = "probe"

	LabelOutcome   = "outcome"
	LabelClass     = "class"
	LabelResult    = "result"
	LabelReason    = "reason"
	LabelPhase     = "phase"
	LabelSignal    = "signal"
	LabelStat      = "stat"
	LabelSLO       = "slo"
	LabelSeverity  = "severity"
	LabelState     = "state"
	LabelSink      = "sink"
	LabelStep      = "step"
	LabelBound     = "bound"
	LabelLevel     = "level"
	LabelOperation = "operation"
	LabelMechanism = "mechanism"

	LabelMetric     = "metric"
	LabelComparison = "comparison"
)

// Label documents one label.
type Label struct {
	Name string
	Help string
	// Values is the closed list of values; nil when the configuration decides.
	// The label result has two: of runs and of SLO events.
	Values []string
}

// Labels lists the labels in the order they are documented.
func Labels() []Label { return slices.Clone(labels) }

// Values of the label outcome of inferbeat_requests_total.
const (
	OutcomeSuccess   = "success"
	OutcomeError     = "error"
	OutcomeDropped   = "dropped"
	OutcomeCancelled = "cancelled"
)

// Values of the label result of inferbeat_slo_events_total.
const (
	ResultGood = "good"
	ResultBad  = "bad"
)

// Values of the label metric that have alerts of their own.
const (
	MetricCapacity        = "capacity"
	MetricAcceptLength    = "spec_accept_length"
	MetricPrefixCacheHits = "prefix_cache_hit_ratio"
)

// Values of inferbeat_regression_verdict.
const (
	VerdictBetter    = -1
	VerdictSame      = 0
	VerdictSuspected = 1
	VerdictWorse     = 2
	VerdictLearning  = 3 // not enough nights
	VerdictDrift     = 4
	VerdictUnstable  = 5
)

var labels = []Label{
	{LabelTarget, "Unique name of the target, from the configuration or discovery.", nil},
	{LabelPool, "Replicas that serve the same thing; the target's name by default.", nil},
	{LabelTargetEnv, "Environment of the target.", []string{"production", "staging", "development"}},
	{LabelModel, "Model name that is sent in requests.", nil},
	{LabelProbe, "Name of the probe.", nil},
	{LabelOutcome, "How requests ended: by the server's success or failure, never sent by us, or cut by us.",
		[]string{OutcomeSuccess, OutcomeError, OutcomeDropped, OutcomeCancelled}},
	{LabelClass, "Why a request failed.", []string{
		"http_4xx", "http_429", "http_5xx", "dns", "connect", "tls", "timeout_first_token", "timeout_idle",
		"timeout_total", "truncated", "stream_error", "bad_response", "empty",
	}},
	{LabelResult, "Of runs: how they ended. Of SLO events: whether the promise was kept.",
		[]string{"success", "failed", "invalid", "aborted", ResultGood, ResultBad}},
	{LabelReason, "Why a run did not start.", []string{"overlap", "target_busy", "prober_busy", "retry_after", "load_budget", "paused", "missed"}},
	{LabelPhase, "Phase of setting up a new connection.", []string{"dns", "connect", "tls"}},
	{LabelSignal, "Latency series: from sent, or from due (what a user of an open system feels).",
		[]string{"ttft", "ttft_from_due", "tpot", "itl", "chunk_gap", "e2e", "e2e_from_due", "ttft_first", "ttft_second"}},
	{LabelStat, "Statistic of a result.", []string{"mean", "p50", "p90", "p95", "p99", "max", "stddev"}},
	{LabelSLO, "Name of an objective of the probe.", nil},
	{LabelSeverity, "Severity of a limit.", []string{"info", "warning", "critical"}},
	{LabelState, "State of targets.", []string{"active", "paused", "draining", "rejected"}},
	{LabelStep, "Step of a sweep in the order of rates; the rate is a value, because a search picks any.",
		[]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}},
	{LabelBound, "End of a 95 % interval.", []string{"low", "high"}},
	{LabelSink, "Exporter inside the daemon.", nil},
	{LabelMetric, "Series that is judged over nights and in comparisons; overall is the answer of a comparison as a whole.", []string{
		"ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "e2e_p50", "output_throughput", "request_throughput",
		"success_ratio", "capacity", "spec_accept_length", "prefix_cache_hit_ratio",
		"e2e_p90", "overall",
	}},
	{LabelComparison, "Name of a comparison.", nil},
	{LabelOperation, "What the store was asked for: to add a run, to keep a state, to read, or to delete what is old.", []string{"add", "state", "read", "prune"}},
	{LabelMechanism, "Mechanism of service discovery.", []string{"dns", "file", "http", "kubernetes"}},
	{LabelLevel, "Level of a log line.", []string{"debug", "info", "warn", "error"}},
}
