package catalog

// Use says what a metric is for that no shipped rule, board or runbook reads.
type Use struct{ Name, For string }

// Unread are the metrics that only the user's own queries read, with what they are for.
// Every other one on /metrics is read by something that is shipped: one that nobody
// reads and nobody can explain is not worth its series.
func Unread() []Use {
	return []Use{
		{ChunkGap, "what a stream looks like to a client that shows chunks, and the one latency of decoding where an engine hides the tokens of a chunk"},
		{RequestOutputTokensPerSecond, "speed as users name it, per request"},
		{ConnectionPhase, "whether a slow first token was spent before the request was sent"},
		{WarmupRequests, "load of a target that no other counter shows"},
		{ResultInputTokensPerSecond, "prefill throughput, to lay beside bench_serving"},
		{ResultTotalTokensPerSecond, "throughput as some tools print it, to lay beside them"},
		{ResultPeakOutputTokensPerSecond, "the best second of a run, to lay beside bench_serving"},
		{ResultDuration, "how long a run took to become the result"},
		{ResultServerTTFT, "the server's own latency, of which inferbeat_result_client_ttft_excess_seconds is the difference"},
		{ResultServerTPOT, "the server's own decode time, beside that of the client"},
		{CapacityHeadroom, "the factor behind every safe capacity, for queries that want another one"},
		{SweepAchieved, "whether the prober reached the rate of a step"},
		{RunLastCompletion, "when a run last ended, for a board of one's own"},
		{ProbePaused, "for silences of one's own; a paused pair has no inferbeat_probe_stale_after_seconds, which is what the rules go by"},
		{SLOLatencyLimit, "the bound behind an objective, to draw beside a latency"},
	}
}
