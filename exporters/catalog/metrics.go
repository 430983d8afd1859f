package catalog

import "slices"

// Classic bucket bounds in seconds. They cannot be configured: mixed layouts
// break every quantile over a fleet. No promise is judged by them.
var (
	// bucketsTTFT reach past ten minutes: a quantile must not stick at the top
	// bound while a cold model loads.
	bucketsTTFT = []float64{0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640}
	bucketsTPOT = []float64{0.0025, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	bucketsGap  = slices.Concat(bucketsTPOT, []float64{5, 10})
	bucketsE2E  = []float64{0.1, 0.2, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 60, 120, 240, 480, 960}
	// bucketsSpeed are output tokens per second.
	bucketsSpeed      = []float64{1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500}
	bucketsSendLag    = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}
	bucketsConnection = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	bucketsSchedule   = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300}
)

var metrics = slices.Concat(requestMetrics, resultMetrics, sweepMetrics, regressionMetrics, comparisonMetrics, pullMetrics, lifecycleMetrics, daemonMetrics)

// requestMetrics leave warm-up requests out, except for their own counter.
var requestMetrics = []Metric{
	requestHistogram(TimeToFirstToken, "Time from sending a request to its first token, streaming requests; of failed ones only those that timed out after a token.", bucketsTTFT, Lower),
	requestHistogram(TimePerOutputToken, "Mean time per output token after the first, one observation per successful request with at least two tokens.", bucketsTPOT, Lower),
	requestHistogram(InterTokenLatency, "Time between consecutive tokens of a successful streaming request, where the tokens of each chunk are known.", bucketsGap, Lower),
	requestHistogram(ChunkGap, "Time between consecutive chunks of a successful streaming request, however many tokens a chunk holds.", bucketsGap, Lower),
	requestHistogram(RequestDuration, "Time from sending a request to its last token, successful requests.", bucketsE2E, Lower),
	row(Metric{Name: RequestOutputTokensPerSecond, Kind: Histogram, Stability: Alpha, Labels: identity, Buckets: bucketsSpeed, Updated: OnRequest, Staleness: Cumulative, Better: Higher,
		Help: "Decode speed seen by one request, in output tokens per second."}),
	row(Metric{Name: RequestSendLag, Kind: Histogram, Labels: []string{LabelProbe}, Buckets: bucketsSendLag, Updated: OnRequest, Staleness: Cumulative, Better: Lower,
		Help: "Delay between the planned and the actual sending time of requests."}),
	row(Metric{Name: ConnectionPhase, Kind: Histogram, Labels: slices.Concat(targetIdentity, []string{LabelPhase}), Buckets: bucketsConnection, Updated: OnRequest, Staleness: Cumulative, Better: Lower,
		Help: "Duration of each phase of setting up a connection, new connections, failed ones included."}),
	requestCounter(Requests, "Probe requests by outcome, counted when they end.", LabelOutcome),
	requestCounter(RequestErrors, "Failed probe requests by error class.", LabelClass),
	requestCounter(WarmupRequests, "Warm-up requests, of any outcome; no other request metric counts them."),
	requestCounter(InputTokens, "Input tokens of successful requests."),
	row(Metric{Name: CachedInputTokens, Kind: Counter, Stability: Alpha, Labels: identity, Updated: OnRequest, Staleness: Cumulative,
		Help: "Input tokens that the server reported as read from its prefix cache, successful requests."}),
	requestCounter(OutputTokens, "Output tokens of successful requests."),
	row(Metric{Name: RequestsInFlight, Kind: Gauge, Labels: identity, Updated: OnScrape, Staleness: WithPair,
		Help: "Requests sent and not finished."}),
	row(Metric{Name: SLOEvents, Kind: Counter, Labels: pair(LabelSLO, LabelResult), Updated: OnRun, Staleness: Cumulative,
		Help: "Requests of continuous probes that met (good) or missed (bad) an objective, counted when their run ends; errors are bad, dropped and cancelled requests and invalid runs are not counted."}),
}

func requestHistogram(name, help string, buckets []float64, better Better) Metric {
	return row(Metric{Name: name, Kind: Histogram, Help: help, Labels: identity, Buckets: buckets,
		Updated: OnRequest, Staleness: Cumulative, Better: better})
}

func requestCounter(name, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: Counter, Help: help, Labels: pair(extra...), Updated: OnRequest, Staleness: Cumulative})
}

// resultMetrics are exact values of the last result that can be believed: a
// finished run, or the window of a continuous probe. An invalid run leaves them
// as they were.
var resultMetrics = []Metric{
	result(ResultLatency, Lower, "Exact latency statistic of the last valid result.", LabelSignal, LabelStat),
	result(ResultSamples, Neither, "Observations behind the last valid result.", LabelSignal),
	result(ResultTailRatio, Lower, "p99 divided by mean in the last valid result.", LabelSignal),
	result(ResultRequestsPerSecond, Higher, "Successful requests per second in the last valid result."),
	result(ResultInputTokensPerSecond, Higher, "Input tokens per second in the last valid result."),
	result(ResultOutputTokensPerSecond, Higher, "Output tokens per second in the last valid result."),
	result(ResultTotalTokensPerSecond, Higher, "Input and output tokens per second in the last valid result."),
	result(ResultPeakOutputTokensPerSecond, Higher, "Highest one-second output token rate in the last valid result."),
	result(ResultOfferedRequestsPerSecond, Neither, "Request rate that the probe planned; +Inf for a burst, absent in a closed loop."),
	result(ResultAchievedRequestsPerSecond, Neither, "Request rate that the prober reached; below the offered rate it was the prober that was slow."),
	alphaResult(ResultGoodputRequestsPerSecond, Higher, "Requests per second that met every objective."),
	result(ResultConcurrency, Neither, "Sum of request durations divided by the result's duration."),
	result(ResultMaxConcurrentRequests, Neither, "Highest number of requests in flight."),
	result(ResultSLOAttainment, Higher, "Share of requests that met an objective.", LabelSLO),
	result(ResultSuccess, Higher, "Successful share of the requests that succeeded or failed."),
	result(ResultInputTokensMean, Neither, "Mean input tokens per successful request."),
	result(ResultOutputTokensMean, Neither, "Mean output tokens per successful request; absent when requests were cut."),
	alphaResult(ResultRetokenized, Neither, "Tokens of the answers' texts by the workload's own tokenizer, divided by the server's count; far from 1 means garbled text or another tokenizer."),
	result(ResultDuration, Neither, "Duration of the last valid result."),
	result(ResultTimestamp, Neither, "Unix time at which the last valid result was complete."),
	result(ResultAcceptLength, Higher, "Tokens per speculative verify step, bonus token included; absent when the server only tells its average since its start."),
	result(ResultAcceptanceRatio, Higher, "Accepted share of drafted tokens, other traffic included."),
	result(ResultPrefixCacheHit, Higher, "Share of input tokens served from the prefix cache: of the probe's own requests where answers tell it, else of all traffic."),
	result(ResultServerQueue, Lower, "Requests waiting in the server during the probe, other traffic included.", LabelStat),
	result(ResultServerRunning, Neither, "Requests running in the server during the probe, other traffic included.", LabelStat),
	result(ResultServerKVCacheUsage, Neither, "KV cache in use during the probe; the mean is over ranks, the max that of the fullest rank.", LabelStat),
	alphaResult(ResultServerPreemptions, Lower, "Preemptions or retractions during the probe, other traffic included."),
	alphaResult(ResultServerTTFT, Lower, "Mean time to first token that the server itself measured during the probe, other traffic included."),
	alphaResult(ResultServerTPOT, Lower, "Mean time per output token that the server itself measured during the probe, other traffic included."),
	alphaResult(ResultClientTTFTExcess, Lower, "Mean time to first token of the client minus that of the server: connection, network and router; absent when the server had other traffic."),
	alphaResult(ResultOfflineGap, Lower, "Share by which the last valid result's throughput is below that of the engine without a server; absent without a result to compare with. 0.05 to 0.15 are normal."),
	result(ResultSuspect, Lower, "1 if the last valid result is only shown with reasons to doubt it, else 0."),
}

func result(name string, better Better, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: Gauge, Help: help, Labels: pair(extra...), Updated: OnResult, Staleness: WithResult, Better: better})
}

func alphaResult(name string, better Better, help string) Metric {
	return row(Metric{Name: name, Kind: Gauge, Stability: Alpha, Help: help, Labels: identity, Updated: OnResult, Staleness: WithResult, Better: better})
}

// sweepMetrics are what a sweep publishes in place of a result: it overloads on
// purpose, and must not trip alerts on latency.
var sweepMetrics = []Metric{
	sweep(CapacityKnee, Higher, "Highest request rate that kept every objective in the last sweep: where the share of requests over one of them reaches what it allows."),
	sweep(CapacityInterval, Neither, "95 % interval of the knee over fresh traces; an end that the sweep could not tell is absent.", LabelBound),
	sweep(CapacitySafe, Higher, "Request rate that one replica may take: knee times headroom."),
	sweep(CapacityBaseline, Neither, "Request rate that one replica could take in the baseline of its sweeps: the baseline's knee times headroom."),
	row(Metric{Name: CapacityHeadroom, Kind: Gauge, Stability: Alpha, Labels: identity, Updated: OnConfig, Staleness: WithPair,
		Help: "Factor from knee to safe capacity."}),
	sweep(CapacityBracketed, Neither, "1 if the sweep went past the knee, 0 if the knee is a lower bound."),
	sweep(CapacitySuspect, Lower, "1 if the last sweep is only shown with reasons to doubt it, else 0."),
	sweep(CapacityTimestamp, Neither, "Unix time at which the last sweep was complete."),
	sweep(SweepOffered, Neither, "Offered request rate at a step of the last sweep.", LabelStep),
	sweep(SweepAchieved, Neither, "Achieved request rate at a step of the last sweep.", LabelStep),
	sweep(SweepOutputTokens, Higher, "Output token rate at a step of the last sweep, in its steady state where there was one.", LabelStep),
	sweep(SweepTTFTp99, Lower, "p99 time from due to first token at a step of the last sweep.", LabelStep),
	sweep(SweepTPOTMean, Lower, "Mean time per output token at a step of the last sweep.", LabelStep),
	sweep(SweepQueue, Lower, "Mean number of requests waiting in the server at a step of the last sweep.", LabelStep),
}

func sweep(name string, better Better, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: Gauge, Stability: Alpha, Help: help, Labels: pair(extra...), Updated: OnResult, Staleness: WithResult, Better: better})
}

var comparisonMetrics = []Metric{
	comparison(ComparisonVerdict, Gauge, OnResult, Lower, "How the candidate compares with the reference: -1 better, 0 not worse, 1 suspected, 2 worse by the margin, 3 not enough data; always there.", LabelMetric),
	comparison(ComparisonRatio, Gauge, OnResult, Neither, "Candidate divided by reference in the last comparison that can be believed.", LabelMetric),
	comparison(ComparisonTimestamp, Gauge, OnResult, Neither, "Unix time at which the last comparison that can be believed was complete."),
	comparison(ComparisonStaleAfter, Gauge, OnConfig, Neither, "Age after which a comparison no longer stands."),
	comparison(ComparisonInfo, Info, OnConfig, Neither, "The two targets of a comparison.", "candidate", "reference"),
}

func comparison(name string, kind Kind, updated Updated, better Better, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: kind, Stability: Alpha, Help: help, Labels: slices.Concat([]string{LabelComparison}, extra),
		Updated: updated, Staleness: WithComparison, Better: better})
}

// pullMetrics answer a GET /probe, and have names of their own: the same run counts on
// /metrics too, where a canary's result is that of a window.
var pullMetrics = []Metric{
	pull(PullSuccess, Higher, "1 if the run had a successful request and no wrong answer to a pinned question, 0 if not; absent when no run started, the prober cut it or its measurement cannot be believed."),
	pull(PullSkipped, Neither, "1 when no run started, with the reason; absent otherwise.", LabelReason),
	pull(PullTimedOut, Lower, "1 if the run was not over when the scrape had to be answered, which then has no success, else 0; the run goes on and counts on /metrics. Absent when no run started."),
	pull(PullStart, Neither, "Unix time at which the run began; scrapes that overlap share one."),
	pull(PullDuration, Neither, "Duration of the run, until now if it is not over."),
	pull(PullResult, Neither, "1 for the result that the run had, 0 for the others.", LabelResult),
	pull(PullSuspect, Lower, "1 if there are reasons to doubt the run's numbers, else 0."),
	pull(PullRequests, Neither, "Requests of the run, warm-up left out.", LabelOutcome),
	pull(PullLatency, Lower, "Exact latency statistic of the run; mean, p50 and max always, p99 from 100 samples on, the others from 20.", LabelSignal, LabelStat),
	pull(PullInputTokens, Neither, "Input tokens of the run's successful requests."),
	pull(PullOutputTokens, Neither, "Output tokens of the run's successful requests."),
	pull(PullOutputRate, Higher, "Output tokens per second of the run."),
}

func pull(name string, better Better, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: Gauge, Stability: Alpha, Help: help, Labels: pair(extra...), Updated: OnPull, Staleness: InAnswer, Better: better})
}

// regressionMetrics lay a pair's last result beside its nights before. While the
// detector learns only the verdict and the baseline's runs are there.
var regressionMetrics = []Metric{
	regression(RegressionVerdict, Neither, "-1 better, 0 same, 1 suspected, 2 confirmed worse, 3 not enough nights, 4 slow drift, 5 too unstable to be judged."),
	regression(RegressionEffect, Lower, "Change against the baseline as a share of it, positive is worse."),
	regression(RegressionInterval, Neither, "95 % interval of the change against the baseline.", LabelBound),
	regression(RegressionSmallestStep, Lower, "Smallest step that this series can show within a week; smaller ones drown in its noise."),
	regression(RegressionBaselineRuns, Higher, "Nights in the baseline."),
	regression(RegressionBaselineTimestamp, Neither, "Unix time at which the baseline's segment began."),
	regression(RegressionOnsetTimestamp, Neither, "Unix time of the first night of the change; absent without one."),
}

func regression(name string, better Better, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: Gauge, Stability: Alpha, Help: help, Labels: pair(slices.Concat([]string{LabelMetric}, extra)...),
		Updated: OnResult, Staleness: WithResult, Better: better})
}

var lifecycleMetrics = []Metric{
	row(Metric{Name: Runs, Kind: Counter, Labels: pair(LabelResult), Updated: OnRun, Staleness: Cumulative,
		Help: "Finished runs by result."}),
	row(Metric{Name: RunSkips, Kind: Counter, Labels: pair(LabelReason), Updated: OnRun, Staleness: Cumulative,
		Help: "Scheduled runs that did not start."}),
	lifecycle(RunActive, OnRun, "1 while a run of the pair is in progress, else 0."),
	lifecycle(RunLastStart, OnRun, "Unix time at which a run last started; absent before the first."),
	lifecycle(RunLastCompletion, OnRun, "Unix time at which a run last ended, however it ended; absent before the first."),
	lifecycle(RunLastSuccess, OnRun, "Unix time at which a run last ended successfully; absent before the first."),
	lifecycle(RunNextStart, OnRun, "Unix time of the next planned start; absent when none is planned."),
	lifecycle(RunLastDuration, OnRun, "Duration of the last run, whatever its result."),
	lifecycle(ProbeUp, OnRun, "1 if the last run had a successful request, 0 if it had none; absent before the first run."),
	lifecycle(AnswerCorrect, OnRun, "1 if the pinned question of the last run was answered as expected, 0 if it was answered otherwise; absent when it was not asked or not answered."),
	lifecycle(ProbeInterval, OnConfig, "Planned time between starts; absent for a probe without a schedule."),
	lifecycle(ProbeStaleAfter, OnConfig, "Age after which the pair counts as stale; absent while paused."),
	lifecycle(ProbeRegistered, OnConfig, "Unix time at which the pair was first known."),
	lifecycle(ProbePaused, OnConfig, "1 while the pair is paused, else 0."),
	lifecycle(ConsecutiveFailures, OnRun, "Runs in a row that failed up to now."),
	lifecycle(SLOObjective, OnConfig, "Share of good events that an objective asks for.", LabelSLO),
	lifecycle(SLOWindow, OnConfig, "Length of an objective's rolling window.", LabelSLO),
	lifecycle(SLOLatencyLimit, OnConfig, "Latency up to which a request is good.", LabelSLO, LabelSignal),
	lifecycle(LatencyThreshold, OnConfig, "Latency above which a result breaches a limit; those of tpot and itl are absent while the result's mean output is too short to judge them.", LabelSignal, LabelStat, LabelSeverity),
	lifecycle(TailRatioFloor, OnConfig, "p99 below which the tail ratio is not judged.", LabelSignal),
	lifecycle(QueueThreshold, OnConfig, "Mean number of requests waiting in the server above which a result breaches a limit.", LabelSeverity),
	lifecycle(FailureThreshold, OnConfig, "Failed runs in a row that count as down."),
	row(Metric{Name: BreachRuns, Kind: Gauge, Labels: pair(LabelSignal, LabelStat, LabelSeverity), Updated: OnResult, Staleness: WithResult,
		Help: "Results in a row that breached a limit; those with too few samples do not count."}),
	row(Metric{Name: SLOBudgetRemaining, Kind: Gauge, Labels: []string{LabelPool, LabelTargetEnv, LabelModel, LabelProbe, LabelSLO},
		Updated: OnTimer, Staleness: WithPair, Better: Higher,
		Help: "Unspent share of a pool's error budget over the objective's window, out of the store: 1 untouched, 0 used up, negative overspent."}),
	lifecycle(TailRatioThreshold, OnConfig, "p99/mean at which a result breaches a limit; absent as inferbeat_latency_threshold_seconds.", LabelSignal, LabelSeverity),
}

func lifecycle(name string, updated Updated, help string, extra ...string) Metric {
	return row(Metric{Name: name, Kind: Gauge, Help: help, Labels: pair(extra...), Updated: updated, Staleness: WithPair})
}

var daemonMetrics = []Metric{
	row(Metric{Name: BuildInfo, Kind: Info, Stability: Stable, Labels: []string{"version", "revision", "goversion"}, Updated: OnStart, Staleness: WithProcess,
		Help: "Build facts."}),
	row(Metric{Name: ConfigInfo, Kind: Info, Stability: Stable, Labels: []string{"sha256"}, Updated: OnConfig, Staleness: WithProcess,
		Help: "Hash of the loaded configuration."}),
	row(Metric{Name: TargetInfo, Kind: Info, Updated: OnRun, Staleness: WithPair,
		Labels: slices.Concat(targetIdentity, []string{"backend", "site", "engine", "engine_version", "quantization", "dtype", "tensor_parallel",
			"data_parallel", "attention_backend", "speculative_algorithm", "accelerator"}),
		Help: "Facts about a target: what its server says about itself, empty where it does not, and those of its labels that the configuration allows."}),
	row(Metric{Name: ServerRequests, Kind: Gauge, Stability: Alpha, Labels: targetIdentity, Updated: OnTimer, Staleness: WithPair,
		Help: "Requests per second that the server itself counted over the last minute, all clients; absent when its page does not count them or the last reading is old."}),
	row(Metric{Name: ProbeInfo, Kind: Info, Updated: OnConfig, Staleness: WithPair,
		Labels: []string{LabelProbe, "kind", "workload", "dataset", "arrivals", "rate", "concurrency", "input_tokens", "output_tokens", "cache", "stream"},
		Help:   "Facts about a probe."}),
	daemon(ConfigReloadSuccessful, Gauge, Stable, OnConfig, "1 if the last load or reload of the configuration succeeded, else 0."),
	daemon(ConfigReloadTimestamp, Gauge, Stable, OnConfig, "Unix time of the last successful load or reload."),
	daemon(Targets, Gauge, Beta, OnConfig, "Targets by state: draining ones are gone, with a run that is not; rejected ones are discovered and not probed.", LabelState),
	daemon(DiscoveryTargets, Gauge, Beta, OnScrape, "Targets that a mechanism of service discovery reports, before relabelling; absent for one that is not configured.", LabelMechanism),
	daemon(DiscoveryFailures, Counter, Beta, OnScrape, "Refreshes of service discovery that failed; what was known before stands.", LabelMechanism),
	daemon(DiscoveryLastSuccess, Gauge, Beta, OnScrape, "Unix time of the last successful refresh, of kubernetes the last change; the oldest when there are several, absent until all have had one.", LabelMechanism),
	daemon(SchedulerLastTick, Gauge, Stable, OnSchedule, "Unix time of the scheduler's last tick."),
	daemon(SchedulerQueue, Gauge, Beta, OnScrape, "Runs that are due and wait for their target, or for one of max_concurrent_runs to end."),
	row(Metric{Name: SchedulerLag, Kind: Histogram, Buckets: bucketsSchedule, Updated: OnRun, Staleness: WithProcess, Better: Lower,
		Help: "Delay between the planned and the actual start of runs."}),
	daemon(MetricsSeries, Gauge, Beta, OnScrape, "Series exposed at this scrape."),
	daemon(MetricsSeriesLimit, Gauge, Beta, OnConfig, "Configured limit of the series of all pairs."),
	daemon(LogMessages, Counter, Beta, OnScrape, "Log lines by level.", LabelLevel),
	daemon(ExporterDroppedEvents, Counter, Beta, OnScrape, "Events that an exporter lost because its queue was full.", LabelSink),
	daemon(ExporterErrors, Counter, Beta, OnScrape, "Events that an exporter could not export.", LabelSink),
	daemon(Panics, Counter, Beta, OnScrape, "Panics that were contained."),
	row(Metric{Name: ClientLoopLag, Kind: Histogram, Buckets: bucketsSendLag, Updated: OnTimer, Staleness: WithProcess, Better: Lower,
		Help: "Lateness of a 10 ms timer inside the process; a timer that was missed counts too."}),
	daemon(ClientCPUSaturation, Gauge, Beta, OnTimer, "Process CPU time over the CPU time available to it (GOMAXPROCS), over the last second."),
	daemon(ClientSaturated, Gauge, Beta, OnScrape, "1 while the load generator cannot be trusted, else 0: CPU saturation above 0.85, or p99 of the timer's lateness or of the requests' send lag above 5 ms over the last minute, waits for max_concurrency and bursts left out."),
	daemon(StoreErrors, Counter, Beta, OnScrape, "Failed operations of the store; absent without a store.", LabelOperation),
	daemon(StoreSize, Gauge, Beta, OnTimer, "Bytes that the store's files take, measured every minute."),
	daemon(StoreLastWrite, Gauge, Beta, OnRun, "Unix time of the store's last successful write; absent before the first."),
	daemon(StoreUnwritten, Gauge, Beta, OnScrape, "Ended runs that the store could not write yet and that wait in memory; a restart loses them."),
	daemon(StoreLost, Counter, Beta, OnScrape, "Ended runs that the store will not have, because more than 64 MiB waited or the store refused them."),
	daemon(SelfTestError, Gauge, Beta, OnReference, "Measured minus written latency of the daemon's own reference stream: of ttft the difference, of itl the size of the largest one of a gap.", LabelSignal),
	daemon(SelfTestTolerance, Gauge, Beta, OnStart, "Error of the reference stream up to which measurements can be believed.", LabelSignal),
	daemon(SelfTestTimestamp, Gauge, Beta, OnReference, "Unix time at which the reference stream was last measured."),
}

func daemon(name string, kind Kind, stability Stability, updated Updated, help string, labels ...string) Metric {
	return row(Metric{Name: name, Kind: kind, Stability: stability, Help: help, Labels: labels, Updated: updated, Staleness: WithProcess})
}
