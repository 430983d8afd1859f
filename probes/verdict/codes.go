package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Thresholds, each with its reason.
const (
	// LateSuspect is the p99 of the client's own lateness that is worth a remark.
	// It is not scaled by the gap between requests: a process that wakes up late
	// to send wakes up late to read too, at any rate.
	LateSuspect = 5 * time.Millisecond
	// LateInvalid is as long as several decode steps of a large model; times of
	// tokens that were stamped by such a process say nothing.
	LateInvalid = 50 * time.Millisecond
	// SaturatedCPUShare leaves room for what a share averages away: a process
	// that is busy for 85 % of a run has stretches in which it is busy all the time.
	SaturatedCPUShare = 0.85
	// ThrottledSuspect is the part of a run's duration, added up over threads, for
	// which a CPU quota may hold the process back. Periods of a quota are 100 ms long,
	// so a hundredth of a run is already several times as long as LateSuspect.
	ThrottledSuspect = 0.01
	// MinStamped is the share of reads that the kernel must have stamped for a late
	// reader to be no late token. What is left are single stamps that a step of the
	// wall clock made unusable.
	MinStamped = 0.99
	// MinAchievedRate is the share of the planned requests that must be sent while
	// the plan runs. Above it the load is the one that was asked for, to within
	// the precision with which a capacity is ever known.
	MinAchievedRate = 0.95
	// MaxInputMeanOff and MaxInputOff bound how far the served prompt lengths may
	// be from the asked ones, on average and for a single prompt. TTFT grows at
	// least in proportion to the length.
	MaxInputMeanOff = 0.01
	MaxInputOff     = 0.05
	// CacheHitSuspect is more than the common head of a chat template explains.
	CacheHitSuspect = 0.05
	// CacheHitInvalid: most of what should have been prefilled was not.
	CacheHitInvalid = 0.50
	// MaxZeroGaps is the share of chunk gaps that may be zero because one read
	// brought several events. From here on the high percentiles move.
	MaxZeroGaps = 0.05
	// MinOutputTokens is the mean answer length from which time per output token
	// is judged: shorter answers are mostly prefill and scheduling.
	MinOutputTokens = 100
	// MinBadEvents is how many bad requests it takes to fail an objective. One or
	// two of them miss it by accident too easily.
	MinBadEvents = 3
)

// Codes of validity.
const (
	Imported           = "imported"
	ClientSaturated    = "client_saturated"
	ClientLate         = "client_late"
	ClientThrottled    = "client_throttled"
	ClientCapped       = "client_capped"
	RateNotAchieved    = "rate_not_achieved"
	FingerprintChanged = "fingerprint_changed"
	ServerRestarted    = "server_restarted"
	ConcurrentRun      = "concurrent_run"
	Profiled           = "profiled"
	ProfilerLeftOn     = "profiler_left_on"
	Incomplete         = "incomplete"
	Stopped            = "stopped"
	DroppedRequests    = "dropped_requests"
	TooFewSamples      = "too_few_samples"
	CacheHitOnCold     = "cache_hit_on_cold"
	InputLengthOff     = "input_length_off"
	ApproxInputLengths = "approx_input_lengths"
	ShortOutput        = "short_output"
	TokenCountUnknown  = "token_count_unknown"
	TokenSourcesMixed  = "token_sources_mixed"
	UsageNotMonotone   = "usage_not_monotone"
	CountMismatch      = "count_mismatch"
	NotStreamed        = "not_streamed"
	OtherModel         = "other_model"
	UnparsableEvents   = "unparsable_events"
	Compressed         = "compressed"
	Coalesced          = "coalesced"
	RepeatsLost        = "repeats_lost"
	PairsLost          = "pairs_lost"
	UnequalWork        = "unequal_work"
	NotSaturated       = "not_saturated"
	UnusableSteps      = "unusable_steps"
)

// Codes of the verdict; TooFewSamples is one of them too.
const (
	InvalidMeasurement = "invalid_measurement"
	NotJudged          = "not_judged"
	NothingMeasured    = "nothing_measured"
	NoSuccess          = "no_success"
	FailedRequests     = "failed_requests"
	LimitExceeded      = "limit_exceeded"
	SLOMissed          = "slo_missed"
	NoSamples          = "no_samples"
	ShortAnswers       = "short_answers"
	OfflineGap         = "offline_online_gap"
	WrongAnswer        = "wrong_answer"
	NoAnswer           = "no_answer"
	NoCapacity         = "no_capacity"
	CapacityLowerBound = "capacity_lower_bound"
)

// Codes of traps; ApproxInputLengths is one of them too.
const (
	RandomAgainstPrefixCache = "random_against_prefix_cache"
	FixedPromptsWarmCache    = "fixed_prompts_warm_cache"
	FirstRequestCounted      = "first_request_counted"
	WarmupTooShort           = "warmup_too_short"
	RateBelowConcurrency     = "rate_below_concurrency"
	MeanWithoutP99           = "mean_without_p99"
	ShortOutputs             = "short_outputs"
	SingleRun                = "single_run"
	CoordinatedOmission      = "coordinated_omission"
	AllAtOnce                = "all_at_once"
)

// Row documents what one code does to a run. A code has one row for each state
// that it can lead to.
type Row struct {
	Code  string
	State string // a probes.ValidityState or probes.VerdictState; empty for a trap
	When  string
	Why   string
}

// ValidityCodes documents every reason of [Validity], in the order in which
// reasons are given. Invalid is what makes the numbers those of something else
// than the target under the asked load; what only narrows their meaning is suspect.
var ValidityCodes = []Row{
	{Imported, string(probes.Suspect), "the run is another tool's result",
		"its client may have been late or saturated without a word, and its definitions differ"},
	{ClientSaturated, string(probes.Invalid), "the process used more than 85 % of the CPU it may use",
		"tokens wait for the reader, so the client's queue is measured"},
	{ClientLate, string(probes.Suspect), "reads returned more than 5 ms after the kernel's receive stamp (p99 of the longest of each request), and more than 1 % of the reads have no such stamp",
		"what the kernel did not date is as late as its reader; where it did, a late reader spoils nothing"},
	{ClientThrottled, string(probes.Suspect), "the CPU quota of the process's cgroup held it back for more than 1 % of the run's duration, added up over its threads",
		"it sent nothing in that time, and stamped nothing itself"},
	{ClientLate, string(probes.Invalid), "p99 of the client's own send lag is above 50 ms; time spent waiting for a slot under max_concurrency is not the client's own, and a burst has no schedule to be late for",
		"a process that is late to send is late to stamp tokens"},
	{ClientLate, string(probes.Suspect), "p99 of the client's own send lag is above 5 ms",
		"small latencies may be the client's"},
	{ClientCapped, string(probes.Suspect), "in an open loop with a rate, p99 of the wait for a slot under max_concurrency is above 5 ms",
		"times from sent leave that wait out; use the view from due"},
	{RateNotAchieved, string(probes.Invalid), "fewer than 95 % of at least 20 requests were sent within the planned span of an open loop, and waiting for slots does not explain it",
		"the client gave the target an easier load than was asked"},
	{RateNotAchieved, string(probes.Suspect), "the same, but because the target's answers held the slots under max_concurrency",
		"the target was slower than the load, which is a result; but the load was not the asked one"},
	{FingerprintChanged, string(probes.Invalid), "model, version or settings of the server changed during the run",
		"the numbers are a mixture of two servers"},
	{ServerRestarted, string(probes.Suspect), "the server restarted during the run",
		"failures are real, but latencies are partly those of a cold server"},
	{ConcurrentRun, string(probes.Suspect), "another run was going on the target",
		"part of the load was not this run's"},
	{Profiled, string(probes.Suspect), "the server's profiler ran during the measurement",
		"it slows every step; such runs have a fingerprint of their own, so that they are nobody's baseline"},
	{ProfilerLeftOn, string(probes.Suspect), "the server's profiler could not be stopped after the run",
		"it goes on slowing whatever comes next"},
	{Stopped, string(probes.Suspect), "a limit of the environment's stop_when was passed, or the server asked for a pause, and the run was ended for the target's sake",
		"the load that is missing is the one that the server could not take"},
	{Incomplete, string(probes.Suspect), "the run was cut short",
		"the part that is there may not stand for the whole"},
	{DroppedRequests, string(probes.Suspect), "requests were never sent, for want of time or of descriptors",
		"the target was spared them"},
	{TooFewSamples, string(probes.Suspect), "fewer than 20 requests were completed, or fewer than 100 samples stand behind a p99 or tail ratio that a limit asks for; single runs of a continuous probe and batches are not judged, and neither is a run in which 20 requests and more failed and none succeeded",
		"a mean of a few and a p99 of less than 100 are accidents"},
	{CacheHitOnCold, string(probes.Invalid), "a cold workload found more than 50 % of its prompt tokens in the prefix cache, by the counts in the answers, else by the server's counters if it served nobody else",
		"the cache was measured"},
	{CacheHitOnCold, string(probes.Suspect), "the same, but more than 5 %",
		"TTFT is better than that of new prompts"},
	{InputLengthOff, string(probes.Suspect), "the server's prompt lengths are off by more than 1 % on average or 5 % for one prompt",
		"another length was measured than the one in the name of the workload"},
	{ApproxInputLengths, string(probes.Suspect), "prompt lengths were estimated without a tokenizer",
		"the asked lengths are not exact"},
	{ShortOutput, string(probes.Suspect), "answers were shorter than the length that was forced",
		"they are left out of the fixed-length series, and the load was lighter"},
	{TokenCountUnknown, string(probes.Suspect), "nobody counted the tokens of completed answers",
		"they have no TPOT, and there is no output throughput"},
	{TokenSourcesMixed, string(probes.Suspect), "output tokens were counted by the server for some answers and by the client for others",
		"the two counts differ by special tokens and by garbled text"},
	{UsageNotMonotone, string(probes.Suspect), "a running token count went down",
		"the server's counts cannot be trusted"},
	{CountMismatch, string(probes.Suspect), "the server gave two counts of one answer's tokens that differ",
		"one of them is wrong, and TPOT and throughput rest on one"},
	{NotStreamed, string(probes.Suspect), "a stream was asked for and one body came",
		"these answers have no TTFT"},
	{OtherModel, string(probes.Suspect), "answers name another model than the one asked for",
		"a router or an alias may have answered"},
	{UnparsableEvents, string(probes.Suspect), "events were not legal JSON",
		"tokens may be missing"},
	{Compressed, string(probes.Suspect), "the server compressed although identity was asked for",
		"the compressor holds tokens back"},
	{RepeatsLost, string(probes.Invalid), "at most half of the repeats of a load are complete and not invalid",
		"their median is that of a minority"},
	{RepeatsLost, string(probes.Suspect), "some repeats of a load were cut short or are invalid; they are left out of the median",
		"the median of fewer runs is less sure"},
	{PairsLost, string(probes.Invalid), "in at most half of the pairs of a comparison both sides are complete and not invalid",
		"their medians are those of a minority"},
	{PairsLost, string(probes.Suspect), "a side of some pairs of a comparison was cut short or is invalid; these pairs are left out",
		"medians of fewer pairs are less sure"},
	{UnequalWork, string(probes.Suspect), "the sides of a comparison differ by more than 1 % in requests, input tokens or output tokens",
		"tokenizers, templates or answer lengths differ, so that times and token rates are of different work"},
	{NotSaturated, string(probes.Suspect), "a peak ended although the throughput had still grown by 5 % and more at its last doubling",
		"the ceiling is higher than the number"},
	{Coalesced, string(probes.Suspect), "more than 5 % of the chunk gaps are zero because one read brought several events",
		"pace and tail of the gaps are the network's or the reader's"},
}

// VerdictCodes documents every reason of [Judge] and [Unjudged]. The gravest state wins: fail,
// unknown, warn, pass. Unknown outranks warn because a promise that could not be
// judged may be broken; it does not outrank fail, which stays true whatever the
// rest is.
var VerdictCodes = []Row{
	{InvalidMeasurement, string(probes.Unknown), "the run is invalid",
		"its numbers are not the target's"},
	{NotJudged, string(probes.Unknown), "two targets were compared",
		"medians and differences are shown; whether one is worse is left to the reader"},
	{NothingMeasured, string(probes.Unknown), "no request was completed or failed",
		"there is nothing to judge"},
	{NoSuccess, string(probes.Fail), "not one request was completed",
		"the target does not serve"},
	{FailedRequests, string(probes.Warn), "some requests failed",
		"an SLO says how many may; without one each is worth a look"},
	{SLOMissed, string(probes.Fail), "a batch run is below an objective, with at least 3 bad requests",
		"the promise is broken"},
	{SLOMissed, string(probes.Warn), "below an objective, but with fewer than 3 bad requests, or in the window of a continuous probe",
		"so few may be an accident, and burn rates over hours judge continuous probes"},
	{LimitExceeded, string(probes.Fail), "a statistic is above a critical limit", "the promise is broken"},
	{LimitExceeded, string(probes.Warn), "a statistic is above an info or warning limit; a tail ratio is only judged when the p99 is at least 0.2 s", "worth a look"},
	{WrongAnswer, string(probes.Fail), "the answer to the pinned question of a canary is not the expected one",
		"a server may be fast because it is broken"},
	{NoAnswer, string(probes.Warn), "the pinned question of a canary failed",
		"nobody knows whether the answers are right"},
	{OfflineGap, string(probes.Warn), "the throughput is more than 20 % below that of the engine without a server; 5 to 15 % are normal",
		"HTTP, tokenizing or streaming are the bottleneck: more workers, or a look at the network"},
	{NoSamples, string(probes.Unknown), "a limit's signal has no samples although requests were completed",
		"the promise could not be judged"},
	{TooFewSamples, string(probes.Unknown), "a limit's statistic has fewer samples than it needs: 100 for a p99 or tail ratio, 20 for any other",
		"the promise could not be judged"},
	{ShortAnswers, string(probes.Unknown), "a limit on tpot, itl or chunk_gap, and answers of fewer than 100 tokens on average",
		"pace shows in long answers only"},
}

// SweepCodes documents the reasons that only [SweepValidity] and [JudgeSweep] give. A
// sweep has the validity reasons of its steps besides, except for those that come
// with any load beyond the capacity: incomplete, dropped_requests, too_few_samples and
// client_capped.
var SweepCodes = []Row{
	{UnusableSteps, string(probes.Invalid), "no step of the sweep could be measured", "there is no result"},
	{UnusableSteps, string(probes.Suspect), "some steps were invalid and left out", "the result rests on fewer rates"},
	{NoCapacity, string(probes.Fail), "an objective was missed at every rate", "the target cannot keep the promise at all, or the lowest rate was too high"},
	{CapacityLowerBound, string(probes.Warn), "every objective was kept at the highest rate that was tried", "the capacity is at least that; try higher rates"},
}

// NightCodes documents the reasons of a change over nights, which package regression
// gives. The states are those of a change.
var NightCodes = []Row{
	{probes.ReasonRegression, string(probes.ChangeWorse), "the last nights are worse than the baseline by more than their scatter and the smallest effect explain", "it neither recovered nor was accepted; the baseline stays where it was"},
	{probes.ReasonHourly, string(probes.ChangeWorse), "the hours of a probe that runs hourly say so, and the nights do not yet", "fast news, less sure"},
	{probes.ReasonImprovement, string(probes.ChangeBetter), "at least three nights are better", "the better level is the new baseline, so that losing it is a regression"},
	{probes.ReasonOddNight, string(probes.ChangeSuspected), "tonight is more than 3.5 sigmas worse", "single nights are as bad as real regressions; only the next one tells"},
	{probes.ReasonDrift, string(probes.ChangeDrift), "the last seven nights are worse than the first thirty of the segment, without a step", "a baseline that follows the nights follows what creeps"},
	{probes.ReasonUnstableSeries, string(probes.ChangeUnstable), "a tenth of the last 60 nights is far from the others", "the benchmark is bimodal or spiky; its alarms would mean nothing"},
	{probes.ReasonTooFewNights, string(probes.ChangeLearning), "fewer than 12 nights of the segment", "the scatter is not known yet"},
	{probes.ReasonNoNights, string(probes.ChangeLearning), "no night has a value that can be judged", "too few samples, too many failures, or answers too short for a pace"},
	{probes.ReasonVersionChanged, "", "what the server says of itself differs between the last night before a change and the first one of it", "the usual cause"},
	{probes.ReasonVersionUnchanged, "", "it says the same", "the surroundings are suspected: clocks, neighbours, network, configuration that it does not tell"},
	{probes.ReasonSharedEnvironment, string(probes.ChangeSuspected), "at least three targets and 40 % of those that share a pool, host, node, rack, zone or network changed in the same direction within a night, and not for longer than three nights", "their surroundings are the likelier cause; each is on its own when it lasts"},
	{probes.ReasonSharedVersion, "", "the same new version came to several targets that changed", "one piece of news, not many"},
	{probes.ReasonOutlier, "", "a replica is more than 3.5 sigmas and the smallest effect worse than the median of at least two others of its pool", "a sick host, or another configuration than it should have"},
	{probes.ReasonEnvironmentChanged, "", "a new fingerprint has three nights", "the old level is told for information; the two are not comparable"},
}

// TrapCodes documents every reason of [Traps].
var TrapCodes = []Row{
	{RandomAgainstPrefixCache, "", "a random dataset on a workload that means to share prefixes",
		"random prompts have no common prefix, so the cache is never hit; use real conversations or generated shared prefixes"},
	{FixedPromptsWarmCache, "", "the workload sends the same prompts every run",
		"from the second run on the prefix cache answers; compare with warm runs only"},
	{FirstRequestCounted, "", "a load without warm-up",
		"the first requests pay for connections, compilation and empty caches; add a warm-up"},
	{WarmupTooShort, "", "no warm-up request succeeded, or the median TTFT of the first tenth of at least 100 requests is above 1.5 times that of the rest",
		"the server was still warming up when the measurement began"},
	{RateBelowConcurrency, "", "at the asked rate fewer than half of max_concurrency requests were in flight on average",
		"the result does not speak for that concurrency; choose the rate or a closed loop by the concurrency of real traffic"},
	{MeanWithoutP99, "", "fewer than 100 samples stand behind the TTFT, or limits look at a mean alone",
		"a mean hides the tail that users complain about"},
	{ShortOutputs, "", "answers of fewer than 100 tokens on average",
		"time per output token does not show in short answers"},
	{SingleRun, "", "a load that is run by hand, fewer than three times",
		"runs differ by several percent; publish the median of 3 to 5"},
	{CoordinatedOmission, "", "a closed loop, or an open one whose requests waited for slots so long that the mean TTFT from due is more than 1.1 times that from sent",
		"a slow server is asked less, so its queue is not seen; open-loop users would see it"},
	{AllAtOnce, "", "a burst: everything is due at once",
		"TTFT is the time to drain the queue and grows with the number of requests; it is no latency at a rate"},
	{ApproxInputLengths, "", "prompt lengths were estimated without a tokenizer",
		"they may be off by tens of percent and differ between models"},
}

// Reference is the text of REASONS.md.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Reasons\n\nWritten by probes/verdict from its tables; do not edit. `go test ./probes/verdict -update` writes it again.\n")
	table := func(title, state string, rows []Row) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if state != "" {
			fmt.Fprintf(&b, "| code | %s | when | why |\n| --- | --- | --- | --- |\n", state)
		} else {
			b.WriteString("| code | when | why |\n| --- | --- | --- |\n")
		}
		for _, r := range rows {
			if state != "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Code, r.State, r.When, r.Why)
			} else {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Code, r.When, r.Why)
			}
		}
	}
	table("Validity: can the run be believed", "run is", ValidityCodes)
	table("Verdict: were the promises kept", "verdict", VerdictCodes)
	table("Sweeps: what was found", "run or verdict is", SweepCodes)
	table("Nights: what has changed", "change is", NightCodes)
	table("Traps: how a sound number misleads", "", TrapCodes)
	return b.String()
}
