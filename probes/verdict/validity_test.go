package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

type validityCase struct {
	name     string
	change   func(*probes.Run)
	evidence Evidence
	state    probes.ValidityState
	codes    []string
	text     string // part of the only reason's text
}

func flagged(f probes.Flags, n int) func(*probes.Run) {
	return func(run *probes.Run) {
		run.Summary.Flags[f.Names()[0]] = n
		for i := range n {
			run.Records[i].Flags |= f
		}
	}
}

// sendAt moves the sending of request i, and all that follows, to at(i, due).
func sendAt(at func(i int, due time.Duration) time.Duration) func(*probes.Run) {
	return func(run *probes.Run) {
		for i := range run.Records {
			due := run.Records[i].Due
			run.Records[i] = answered(due, at(i, due), 400*ms)
		}
	}
}

// queueBehind lets every request wait for one of slots and take length.
func queueBehind(slots int, length, clientDelay time.Duration) func(*probes.Run) {
	return func(run *probes.Run) {
		run.Spec.Arrivals.MaxConcurrency = slots
		free := make([]time.Duration, slots)
		for i := range run.Records {
			due := run.Records[i].Due
			sent := max(due, free[i%slots]) + clientDelay
			run.Records[i] = answered(due, sent, length)
			free[i%slots] = sent + length
		}
	}
}

func cachedTokens(n int) func(*probes.Run) {
	return func(run *probes.Run) {
		for i := range run.Records {
			run.Records[i].CachedTokens = known(n)
		}
	}
}

// serverHits lets the server count the hits that its answers do not tell.
func serverHits(ratio float64, requests int) func(*probes.Run) {
	return func(run *probes.Run) {
		for i := range run.Records {
			run.Records[i].CachedTokens = probes.Optional[int]{}
		}
		run.Summary.Sent = len(run.Records)
		run.Summary.Server = probes.ServerSummary{PrefixCache: probes.PrefixCache{HitRatio: known(ratio)}, Requests: known(requests)}
	}
}

// client sets what is known of the process in a run of 10 s.
func client(c probes.Client) func(*probes.Run) {
	return func(run *probes.Run) { run.Summary.Client, run.Summary.Duration = c, 10*time.Second }
}

// all applies changes one after the other.
func all(changes ...func(*probes.Run)) func(*probes.Run) {
	return func(run *probes.Run) {
		for _, c := range changes {
			c(run)
		}
	}
}

func dropLast(n int) func(*probes.Run) {
	return func(run *probes.Run) {
		for i := 200 - n; i < 200; i++ {
			run.Records[i] = probes.Record{Outcome: probes.Dropped, Due: run.Records[i].Due}
		}
		run.Summary.Dropped, run.Summary.Completed = n, 200-n
	}
}

var (
	suspect  = probes.Suspect
	invalid  = probes.Invalid
	validRun = probes.Valid
)

// validityCases has for every code the run that fires it and its neighbour that does not.
var validityCases = []validityCase{
	{name: "sound", state: validRun},
	{name: "imported", change: func(run *probes.Run) { run.Source, run.Records, run.Complete = "bench_serving", nil, false },
		state: suspect, codes: []string{Imported}, text: "measured by bench_serving"},
	{name: "a_batch_of_four", change: func(run *probes.Run) {
		run.Spec.Kind, run.Spec.Arrivals.Process, run.Summary.Completed = probes.Batch, probes.Burst, 4
	}, state: validRun},

	{name: "cpu_at_the_bound", change: client(probes.Client{Process: probes.Process{CPUShare: known(0.85)}}), state: validRun},
	{name: "cpu_above", change: client(probes.Client{Process: probes.Process{CPUShare: known(0.91)}}), state: invalid, codes: []string{ClientSaturated}, text: "91 %"},

	{name: "read_late_and_stamped_by_the_kernel", change: client(probes.Client{Stamped: known(0.99), ReceiveLag: probes.Distribution{N: 200, P99: 0.5}}), state: validRun},
	{name: "read_5_ms_late_without_stamps", change: client(probes.Client{Stamped: known(0.5), ReceiveLag: probes.Distribution{N: 200, P99: 0.005}}), state: validRun},
	{name: "read_6_ms_late_without_stamps", change: client(probes.Client{Stamped: known(0.5), ReceiveLag: probes.Distribution{N: 200, P99: 0.006}}),
		state: suspect, codes: []string{ClientLate}, text: "6ms after the bytes had come (p99, n=200), more than 5ms, and 50.0 % of the reads"},
	{name: "nobody_stamps", change: client(probes.Client{Stamped: known(0.0)}), state: validRun},
	{name: "throttled_for_a_hundredth", change: client(probes.Client{Process: probes.Process{Throttled: known(100 * ms)}}), state: validRun},
	{name: "throttled_for_more", change: client(probes.Client{Process: probes.Process{Throttled: known(101 * ms)}}),
		state: suspect, codes: []string{ClientThrottled}, text: "101ms in a run of 10s"},

	{name: "sent_5_ms_late", change: sendAt(func(_ int, due time.Duration) time.Duration { return due + 5*ms }), state: validRun},
	{name: "sent_6_ms_late", change: sendAt(func(_ int, due time.Duration) time.Duration { return due + 6*ms }),
		state: suspect, codes: []string{ClientLate}, text: "6ms late (p99, n=200), more than 5ms"},
	{name: "one_of_two_hundred_late", change: sendAt(func(i int, due time.Duration) time.Duration {
		if i == 77 {
			return due + 80*ms
		}
		return due
	}), state: validRun},
	{name: "sent_50_ms_late", change: sendAt(func(_ int, due time.Duration) time.Duration { return due + 50*ms }),
		state: suspect, codes: []string{ClientLate}, text: "50ms late"},
	{name: "sent_51_ms_late", change: sendAt(func(_ int, due time.Duration) time.Duration { return due + 51*ms }),
		state: invalid, codes: []string{ClientLate}, text: "more than 50ms"},
	{name: "late_in_a_burst", change: all(
		func(run *probes.Run) { run.Spec.Arrivals = probes.Arrivals{Process: probes.Burst} },
		sendAt(func(i int, due time.Duration) time.Duration { return due + 70*ms })), state: validRun},
	{name: "late_in_a_closed_loop", change: all(
		func(run *probes.Run) {
			run.Spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}
		},
		sendAt(func(i int, due time.Duration) time.Duration { return due + 7*ms })), state: suspect, codes: []string{ClientLate}},

	// Four slots of 400 ms carry 10 requests a second to the instant.
	{name: "slots_that_suffice", change: queueBehind(4, 400*ms, 0), state: validRun},
	// Each round of four falls 3 ms behind: 150 ms after 50 rounds.
	{name: "waiting_for_slots", change: queueBehind(4, 403*ms, 0), state: suspect, codes: []string{ClientCapped}, text: "for one of 4 slots"},
	{name: "late_beside_full_slots", change: queueBehind(4, 380*ms, 10*ms), state: suspect, codes: []string{ClientLate}, text: "10ms late"},
	{name: "slots_without_end", change: queueBehind(1, 500*ms, 0), state: suspect,
		codes: []string{ClientCapped, RateNotAchieved}},

	{name: "a_long_queue_and_a_client_of_1_ms", change: queueBehind(1, 500*ms, ms), state: suspect,
		codes: []string{ClientCapped, RateNotAchieved}},

	// The last of 200 is due at 19.9 s and the plan ends at 20 s.
	{name: "drift_to_95_percent", change: sendAt(func(i int, due time.Duration) time.Duration {
		if i < 190 {
			return due
		}
		return 20 * time.Second
	}), state: invalid, codes: []string{ClientLate}},
	{name: "drift_below_95_percent", change: sendAt(func(i int, due time.Duration) time.Duration {
		if i < 189 {
			return due
		}
		return 20 * time.Second
	}), state: invalid, codes: []string{ClientLate, RateNotAchieved}},
	{name: "sent_in_the_last_gap", change: sendAt(func(_ int, due time.Duration) time.Duration { return due + time.Second }),
		state: invalid, codes: []string{ClientLate}},
	{name: "drift_of_nineteen_requests", change: all(sendAt(func(i int, due time.Duration) time.Duration { return due + time.Duration(i)*ms }),
		func(run *probes.Run) { run.Records = run.Records[:19] }), state: suspect, codes: []string{ClientLate}},
	{name: "rate_of_a_closed_loop", change: all(
		func(run *probes.Run) {
			run.Spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}
		},
		dropLast(12)), state: suspect, codes: []string{DroppedRequests}},
	{name: "dropped_without_a_cap", change: dropLast(11), state: invalid, codes: []string{RateNotAchieved, DroppedRequests}},
	{name: "dropped_for_want_of_slots", change: all(
		func(run *probes.Run) { run.Spec.Arrivals.MaxConcurrency = 64 }, dropLast(11)),
		state: suspect, codes: []string{RateNotAchieved, DroppedRequests}},
	{name: "few_dropped", change: dropLast(2), state: suspect, codes: []string{DroppedRequests}, text: "2 of 200"},

	{name: "server_changed", evidence: Evidence{Changed: []probes.Fact{{Name: "version", Value: "0.5.10"}, {Name: "tensor_parallel", Value: "4"}}}, state: invalid, codes: []string{FingerprintChanged},
		text: "it is now version 0.5.10, tensor_parallel 4"},
	{name: "server_restarted", evidence: Evidence{ServerRestarted: true}, state: suspect, codes: []string{ServerRestarted}},
	{name: "another_run", evidence: Evidence{Concurrent: true}, state: suspect, codes: []string{ConcurrentRun}},
	{name: "profiled", change: func(run *probes.Run) { run.Spec.Profile = &probes.Profile{} }, state: suspect, codes: []string{Profiled}},
	{name: "profiler_left_on", evidence: Evidence{ProfilerLeftOn: "stop profile: status 500"}, state: suspect, codes: []string{ProfilerLeftOn},
		text: "may still be running: stop profile: status 500"},
	{name: "interrupted", evidence: Evidence{Interrupted: true}, state: suspect, codes: []string{Incomplete}, text: "after 200 completed"},
	{name: "stopped", evidence: Evidence{Interrupted: true, Stopped: "12 are waiting"}, change: func(run *probes.Run) { run.Complete = false }, state: suspect,
		codes: []string{Stopped}, text: "12 are waiting"},
	{name: "stopped_too_late", evidence: Evidence{Stopped: "12 are waiting"}, state: validRun},
	{name: "not_complete", change: func(run *probes.Run) { run.Complete = false }, state: suspect, codes: []string{Incomplete}},

	{name: "twenty_completed", change: func(run *probes.Run) { run.Summary.Completed = 20 }, state: validRun},
	{name: "nineteen_completed", change: func(run *probes.Run) { run.Summary.Completed = 19 },
		state: suspect, codes: []string{TooFewSamples}, text: "19 requests were completed, a mean needs 20"},
	{name: "one_run_of_a_canary", change: func(run *probes.Run) { run.Spec.Kind, run.Summary.Completed = probes.Canary, 1 }, state: validRun},
	{name: "window_of_a_canary", change: func(run *probes.Run) {
		run.Spec.Kind, run.Summary.Completed, run.Complete = probes.Canary, 1, false
	}, evidence: Evidence{Window: true}, state: suspect, codes: []string{TooFewSamples}},
	{name: "lags_of_a_window", change: sendAt(func(_ int, due time.Duration) time.Duration { return due + time.Second }),
		evidence: Evidence{Window: true}, state: validRun},
	{name: "every_request_failed", change: func(run *probes.Run) {
		run.Summary.Completed, run.Summary.Failed, run.Summary.Latency = 0, 200, nil
		run.Summary.SuccessRatio = known(0.0)
	}, state: validRun},
	{name: "all_of_five_failed", change: func(run *probes.Run) {
		run.Records = run.Records[:5]
		run.Summary.Completed, run.Summary.Failed, run.Summary.Latency = 0, 5, nil
	}, state: suspect, codes: []string{TooFewSamples}},
	{name: "ten_of_forty_completed", change: func(run *probes.Run) { run.Summary.Completed, run.Summary.Failed = 10, 30 },
		state: suspect, codes: []string{TooFewSamples}},
	{name: "p99_of_99", change: func(run *probes.Run) {
		run.Spec.Limits = []probes.Limit{{Signal: probes.TTFT, Statistic: probes.StatP99, Bound: 1}}
		run.Summary.Latency[probes.TTFT] = steady(99, 0.1)
	}, state: suspect, codes: []string{TooFewSamples}, text: "ttft p99 rests on 99 samples, it needs 100"},
	{name: "p99_of_100", change: func(run *probes.Run) {
		run.Spec.Limits = []probes.Limit{{Signal: probes.TTFT, Statistic: probes.StatP99, Bound: 1}}
		run.Summary.Latency[probes.TTFT] = steady(100, 0.1)
	}, state: validRun},

	{name: "cold_but_for_the_template", change: cachedTokens(50), state: validRun},
	{name: "not_quite_cold", change: cachedTokens(51), state: suspect, codes: []string{CacheHitOnCold}, text: "10200 of 200000 prompt tokens (5.1 %)"},
	{name: "half_cold", change: cachedTokens(500), state: suspect, codes: []string{CacheHitOnCold}},
	{name: "not_cold", change: cachedTokens(992), state: invalid, codes: []string{CacheHitOnCold}, text: "99.2 %"},
	{name: "not_cold_by_the_server", change: serverHits(0.992, 210), state: invalid, codes: []string{CacheHitOnCold}, text: "99.2 %"},
	{name: "not_quite_cold_by_the_server", change: serverHits(0.06, 200), state: suspect, codes: []string{CacheHitOnCold}, text: "6.0 %"},
	{name: "cold_by_the_server", change: serverHits(0.05, 200), state: validRun},
	{name: "others_hit_the_cache", change: serverHits(0.992, 221), state: validRun},
	{name: "answers_outrank_the_server", change: all(serverHits(0.992, 200), cachedTokens(0)), state: validRun},
	{name: "warm_by_the_server_on_purpose", change: all(serverHits(0.992, 200),
		func(run *probes.Run) { run.Spec.Workload.Cache = probes.CacheWarm }), state: validRun},
	{name: "server_counters_beside_a_window", change: serverHits(0.992, 200), evidence: Evidence{Window: true}, state: validRun},
	{name: "warm_on_purpose", change: all(cachedTokens(992),
		func(run *probes.Run) { run.Spec.Workload.Cache = probes.CacheWarm }), state: validRun},

	{name: "lengths_exact_enough", change: func(run *probes.Run) {
		run.Summary.Input = probes.InputLengths{N: 200, MeanRequested: 1000, MeanServer: 1010, MaxDeviation: 0.05, Off: 200}
	}, state: validRun},
	{name: "lengths_off_on_average", change: func(run *probes.Run) {
		run.Summary.Input = probes.InputLengths{N: 4, MeanRequested: 1000, MeanServer: 1029, MaxDeviation: 0.048, Off: 3}
	}, state: suspect, codes: []string{InputLengthOff}, text: "asked for 1000.0 prompt tokens on average, the server counted 1029.0; 3 of 4 differ, the worst by 4.8 %"},
	{name: "one_length_off", change: func(run *probes.Run) {
		run.Summary.Input = probes.InputLengths{N: 4, MeanRequested: 1000, MeanServer: 1000, MaxDeviation: 0.061, Off: 2}
	}, state: suspect, codes: []string{InputLengthOff}, text: "6.1 %"},
	{name: "approximate_lengths", change: func(run *probes.Run) { run.Spec.Workload.Tokenizer = "approx" },
		state: suspect, codes: []string{ApproxInputLengths}},
	{name: "token_ids_are_exact", change: func(run *probes.Run) {
		run.Spec.Workload.Tokenizer, run.Spec.Workload.TokenIDs = "approx", true
	}, state: validRun},

	{name: "eleven_of_64_tokens", change: all(flagged(probes.ShortOutput, 1), func(run *probes.Run) {
		run.Records[0].OutputTokens, run.Records[0].RequestedOutput = known(11), 64
	}), state: suspect, codes: []string{ShortOutput}, text: "1 of 200 requests: answers were shorter than forced, the shortest had 11 of 64 tokens (0.172)"},
	{name: "64_of_64_tokens", change: func(run *probes.Run) {
		run.Records[0].OutputTokens, run.Records[0].RequestedOutput = known(64), 64
	}, state: validRun},
	{name: "tokens_unknown", change: func(run *probes.Run) { run.Summary.UnknownOutputs = 3 },
		state: suspect, codes: []string{TokenCountUnknown}, text: "3 of 200"},
	{name: "sources_mixed", change: func(run *probes.Run) { run.Records[5].OutputSource = probes.TokensClient },
		state: suspect, codes: []string{TokenSourcesMixed}, text: "by the server for 199 answers, by the client for 1, estimated for 0"},
	{name: "all_counted_by_the_client", change: func(run *probes.Run) {
		for i := range run.Records {
			run.Records[i].OutputSource = probes.TokensClient
		}
	}, state: validRun},
	{name: "source_of_a_failed_request", change: func(run *probes.Run) {
		run.Records[5].Outcome, run.Records[5].OutputSource = probes.Truncated, probes.TokensClient
	}, state: validRun},
	{name: "two_counts", change: flagged(probes.CountMismatch, 3), state: suspect, codes: []string{CountMismatch}, text: "3 of 200"},
	{name: "usage_down", change: flagged(probes.UsageNotMonotone, 2), state: suspect, codes: []string{UsageNotMonotone}, text: "2 of 200"},

	{name: "whole_bodies", change: flagged(probes.NotStreamed, 200), state: suspect, codes: []string{NotStreamed}},
	{name: "whole_bodies_as_asked", change: all(flagged(probes.NotStreamed, 200), func(run *probes.Run) {
		run.Spec.Workload.Sampling.Stream = false
	}), state: validRun},
	{name: "other_model", change: flagged(probes.OtherModel, 1), state: suspect, codes: []string{OtherModel}},
	{name: "broken_event", change: flagged(probes.UnparsableEvent, 1), state: suspect, codes: []string{UnparsableEvents}},
	{name: "compressed", change: flagged(probes.Compressed, 1), state: suspect, codes: []string{Compressed}},
	{name: "stale_reuse_is_no_doubt", change: flagged(probes.StaleReuse, 9), state: validRun},
	{name: "few_zero_gaps", change: zeroGaps(10), state: validRun},
	{name: "many_zero_gaps", change: zeroGaps(11), state: suspect, codes: []string{Coalesced}, text: "11 of 200 chunk gaps (5.5 %)"},

	{name: "several", change: all(flagged(probes.Compressed, 1), cachedTokens(992), flagged(probes.OtherModel, 1)),
		evidence: Evidence{Concurrent: true}, state: invalid, codes: []string{ConcurrentRun, CacheHitOnCold, OtherModel, Compressed}},
}

// zeroGaps lets both chunks of n requests come with one read.
func zeroGaps(n int) func(*probes.Run) {
	return func(run *probes.Run) {
		for i := range n {
			run.Records[i].Chunks[1].At = run.Records[i].Chunks[0].At
		}
	}
}

func TestValidity(t *testing.T) {
	for _, tt := range validityCases {
		t.Run(tt.name, func(t *testing.T) {
			run := sound()
			if tt.change != nil {
				tt.change(run)
			}
			v := Validity(run, tt.evidence)
			if v.State != tt.state {
				t.Errorf("state = %s, want %s", v.State, tt.state)
			}
			wantCodes(t, v.Reasons, tt.codes...)
			if tt.text != "" && (len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0].Text, tt.text)) {
				t.Errorf("reasons = %q, want one with %q", v.Reasons, tt.text)
			}
		})
	}
}

// TestValidityTable: each row of the table is proven by a case of its own, and
// no case leads to a state that the table does not name.
func TestValidityTable(t *testing.T) {
	proven := map[string]bool{}
	for _, tt := range validityCases {
		if len(tt.codes) == 1 {
			proven[tt.codes[0]+" "+string(tt.state)] = true
			if !containsRow(ValidityCodes, tt.codes[0], string(tt.state)) {
				t.Errorf("case %s: the table has no row %s %s", tt.name, tt.codes[0], tt.state)
			}
		}
	}
	// These cannot come alone: whoever misses the rate was late, or dropped or capped.
	// Those of repeats and peaks come from runs of several parts; see TestOfRepeats, TestOfComparison and TestDoubt.
	for _, row := range []string{RateNotAchieved + " invalid", RateNotAchieved + " suspect",
		RepeatsLost + " invalid", RepeatsLost + " suspect", PairsLost + " invalid", PairsLost + " suspect", UnequalWork + " suspect", NotSaturated + " suspect"} {
		proven[row] = true
	}
	for _, row := range rows(ValidityCodes) {
		if !proven[row] {
			t.Errorf("row %q is proven by no case", row)
		}
	}
}

// TestSplitLags: two slots, five requests due 10 ms apart, 100 ms each, and a client that needs 2 ms to use a slot that came free.
func TestSplitLags(t *testing.T) {
	run := &probes.Run{Spec: probes.Spec{Arrivals: probes.Arrivals{Process: probes.Constant, Rate: 100, MaxConcurrency: 2}}}
	for _, x := range []struct{ due, sent time.Duration }{{0, 1}, {10, 10}, {20, 103}, {30, 112}, {40, 205}} {
		run.Records = append(run.Records, answered(x.due*ms, x.sent*ms, 100*ms))
	}
	run.Records = append(run.Records, probes.Record{Outcome: probes.Dropped, Due: 50 * ms})
	want := []lateness{
		{own: 1 * ms}, {},
		{own: 2 * ms, slot: 81 * ms},
		{own: 2 * ms, slot: 80 * ms}, // the slot that came free at 101 ms was not for it
		{own: 2 * ms, slot: 163 * ms},
		{},
	}
	if diff := cmp.Diff(want, splitLags(run), cmp.AllowUnexported(lateness{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	run.Spec.Arrivals.MaxConcurrency = 6 // always a slot free
	if got := splitLags(run)[3]; got != (lateness{own: 82 * ms}) {
		t.Errorf("below the cap: %v, want 82ms of the client's own", got)
	}
	run.Spec.Arrivals.MaxConcurrency = 0
	if got := splitLags(run)[2]; got != (lateness{own: 83 * ms}) {
		t.Errorf("without a cap: %v, want 83ms of the client's own", got)
	}
}

// TestWarmupHoldsSlots: a slot taken by a warm-up request is not free.
func TestWarmupHoldsSlots(t *testing.T) {
	run := &probes.Run{
		Spec:    probes.Spec{Arrivals: probes.Arrivals{Process: probes.Constant, Rate: 1, MaxConcurrency: 1}},
		Warmup:  []probes.Record{{Outcome: probes.OK, Sent: -50 * ms, End: known(40 * ms)}},
		Records: []probes.Record{answered(0, 40*ms, 100*ms)},
	}
	if got := splitLags(run)[0]; got != (lateness{slot: 40 * ms}) {
		t.Errorf("got %v, want 40ms of waiting for the slot", got)
	}
}

func TestSeconds(t *testing.T) {
	for _, tt := range []struct {
		in   float64
		want string
	}{{0, "0s"}, {0.0123456, "12.3ms"}, {1.0849, "1.08s"}, {0.2, "200ms"}, {83.4567, "1m23.5s"}, {1e-9, "1ns"}} {
		if got := seconds(tt.in); got != tt.want {
			t.Errorf("seconds(%v) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func BenchmarkValidity(b *testing.B) {
	run := sound()
	queueBehind(4, 403*ms, 0)(run)
	b.ReportAllocs()
	for b.Loop() {
		Validity(run, Evidence{})
	}
}
