package verdict

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

type judgeCase struct {
	name   string
	change func(*probes.Run)
	state  probes.VerdictState
	codes  []string
	text   string
}

func limit(signal probes.Signal, statistic probes.Statistic, severity probes.Severity, bound float64) func(*probes.Run) {
	return func(run *probes.Run) {
		run.Spec.Limits = append(run.Spec.Limits, probes.Limit{Signal: signal, Statistic: statistic, Severity: severity, Bound: bound})
	}
}

func distribution(signal probes.Signal, n int, mean, p99 float64) func(*probes.Run) {
	return func(run *probes.Run) {
		d := steady(n, mean)
		d.P99, d.Max = p99, p99
		run.Summary.Latency[signal] = d
	}
}

func failed(completed, failures int, o probes.Outcome) func(*probes.Run) {
	return func(run *probes.Run) {
		s := &run.Summary
		s.Completed, s.Failed, s.Requests = completed, failures, completed+failures
		s.Outcomes = map[probes.Outcome]int{probes.OK: completed, o: failures}
		s.SuccessRatio = known(float64(completed) / float64(completed+failures))
	}
}

// attained declares an SLO of which bad requests of n were bad.
func attained(objective float64, bad, n int) func(*probes.Run) {
	return func(run *probes.Run) {
		run.Spec.SLOs = []probes.SLO{{Name: "ttft", Objective: objective, Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second}}}
		run.Summary.Completed = n
		run.Summary.SLOAttainment = map[string]float64{"ttft": float64(n-bad) / float64(n)}
	}
}

func outputTokens(total int) func(*probes.Run) {
	return func(run *probes.Run) { run.Summary.OutputTokens = known(total) }
}

func answer(a probes.Answer) func(*probes.Run) {
	return func(run *probes.Run) { run.Summary.Answer = a }
}

func offline(gap float64) func(*probes.Run) {
	return func(run *probes.Run) {
		run.Summary.Offline = probes.Offline{Throughput: known(1000.0), Source: "bench_offline_throughput", Gap: known(gap)}
	}
}

var judgeCases = []judgeCase{
	{name: "nothing_promised", state: probes.Pass},
	{name: "right_answer", change: answer(probes.AnswerRight), state: probes.Pass},
	{name: "wrong_answer", change: answer(probes.AnswerWrong), state: probes.Fail, codes: []string{WrongAnswer}},
	{name: "no_answer", change: answer(probes.AnswerMissing), state: probes.Warn, codes: []string{NoAnswer}},
	{name: "a_server_costs_20_percent", change: offline(0.2), state: probes.Pass},
	{name: "a_server_costs_21_percent", change: offline(0.21), state: probes.Warn, codes: []string{OfflineGap},
		text: "21.0 % below the 1000 tokens per second of bench_offline_throughput; up to 15 % are normal"},
	{name: "invalid", change: func(run *probes.Run) {
		run.Validity = probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: ClientSaturated}, {Code: Incomplete}}}
		failed(0, 5, probes.Connect)(run)
	}, state: probes.Unknown, codes: []string{InvalidMeasurement}, text: "client_saturated, incomplete"},
	{name: "suspect", change: func(run *probes.Run) {
		run.Validity = probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: Incomplete}}}
	}, state: probes.Pass},
	{name: "nothing_measured", change: func(run *probes.Run) {
		run.Summary = probes.Summary{Requests: 7, Cancelled: 4, Dropped: 3}
	}, state: probes.Unknown, codes: []string{NothingMeasured}, text: "none of 7"},
	{name: "no_success", change: all(failed(0, 5, probes.Connect), func(run *probes.Run) { run.Summary.Latency = nil },
		limit(probes.TTFT, probes.StatP99, probes.Critical, 1)),
		state: probes.Fail, codes: []string{NoSuccess}, text: "none of 5 requests was completed: 5 connect"},
	{name: "refusing", change: all(failed(40, 60, probes.HTTP5xx), distribution(probes.TTFT, 40, 0.5, 0.5),
		limit(probes.TTFT, probes.StatMean, probes.Critical, 2)),
		state: probes.Warn, codes: []string{FailedRequests}, text: "60 of 100 requests failed: 60 http_5xx"},

	{name: "objective_kept", change: attained(0.99, 2, 200), state: probes.Pass},
	{name: "objective_missed", change: attained(0.99, 3, 200), state: probes.Fail, codes: []string{SLOMissed},
		text: "ttft: 3 of 200 requests were bad, 98.5 % good, promised 99 %"},
	{name: "objective_missed_by_two", change: attained(0.999, 2, 200), state: probes.Warn, codes: []string{SLOMissed},
		text: "fewer than 3 bad ones may be an accident"},
	{name: "objective_missed_by_a_canary", change: all(attained(0.99, 50, 100), func(run *probes.Run) { run.Spec.Kind = probes.Canary }),
		state: probes.Warn, codes: []string{SLOMissed}, text: "50 of 100"},

	{name: "critical_at_the_bound", change: all(distribution(probes.TTFT, 200, 0.3, 1), limit(probes.TTFT, probes.StatP99, probes.Critical, 1)), state: probes.Pass},
	{name: "critical_above", change: all(distribution(probes.TTFT, 200, 0.3, 1.32), limit(probes.TTFT, probes.StatP99, probes.Critical, 1)),
		state: probes.Fail, codes: []string{LimitExceeded}, text: "ttft p99 is 1.32s, critical limit 1s, n=200"},
	{name: "warning_above", change: all(distribution(probes.TTFT, 200, 0.3, 1.32), limit(probes.TTFT, probes.StatP99, probes.Warning, 1)),
		state: probes.Warn, codes: []string{LimitExceeded}},
	{name: "info_above", change: all(distribution(probes.TTFT, 200, 0.3, 1.32), limit(probes.TTFT, probes.StatMean, probes.Info, 0.2)),
		state: probes.Warn, codes: []string{LimitExceeded}, text: "ttft mean is 300ms, info limit 200ms, n=200"},
	{name: "two_grades", change: all(distribution(probes.TTFT, 200, 0.3, 1.32),
		limit(probes.TTFT, probes.StatP99, probes.Warning, 1), limit(probes.TTFT, probes.StatP99, probes.Critical, 2)),
		state: probes.Warn, codes: []string{LimitExceeded}},

	{name: "p99_of_99_samples", change: all(distribution(probes.TTFT, 99, 0.3, 5), limit(probes.TTFT, probes.StatP99, probes.Critical, 1)),
		state: probes.Unknown, codes: []string{TooFewSamples}, text: "ttft p99: 99 samples, 100 are needed"},
	{name: "mean_of_99_samples", change: all(distribution(probes.TTFT, 99, 0.3, 5), limit(probes.TTFT, probes.StatMean, probes.Critical, 1)), state: probes.Pass},
	{name: "mean_of_19_samples", change: all(distribution(probes.TTFT, 19, 0.3, 5), limit(probes.TTFT, probes.StatMean, probes.Critical, 1)),
		state: probes.Unknown, codes: []string{TooFewSamples}, text: "19 samples, 20 are needed"},
	{name: "unknown_does_not_hide_a_failure", change: all(distribution(probes.TTFT, 50, 3, 5),
		limit(probes.TTFT, probes.StatP99, probes.Critical, 1), limit(probes.TTFT, probes.StatMean, probes.Critical, 1)),
		state: probes.Fail, codes: []string{TooFewSamples, LimitExceeded}},
	{name: "unknown_hides_a_warning", change: all(distribution(probes.TTFT, 50, 3, 5),
		limit(probes.TTFT, probes.StatMean, probes.Warning, 1), limit(probes.TTFT, probes.StatP99, probes.Critical, 1)),
		state: probes.Unknown, codes: []string{LimitExceeded, TooFewSamples}},
	{name: "no_samples", change: limit(probes.FirstAnswer, probes.StatMean, probes.Warning, 1),
		state: probes.Unknown, codes: []string{NoSamples}, text: "first_answer mean: no samples from 200 completed requests"},

	{name: "tail_ratio_below", change: all(distribution(probes.TTFT, 200, 0.3, 1.19), limit(probes.TTFT, probes.StatTailRatio, probes.Info, 4)), state: probes.Pass},
	{name: "tail_ratio_above", change: all(distribution(probes.TTFT, 200, 0.25, 1.3), limit(probes.TTFT, probes.StatTailRatio, probes.Warning, 5)),
		state: probes.Warn, codes: []string{LimitExceeded}, text: "ttft p99/mean is 5.20 (1.3s to 250ms), warning limit 5, n=200"},
	{name: "tail_ratio_at_the_bound", change: all(distribution(probes.TTFT, 200, 0.25, 1.25), limit(probes.TTFT, probes.StatTailRatio, probes.Warning, 5)),
		state: probes.Warn, codes: []string{LimitExceeded}},
	{name: "tail_ratio_of_little", change: all(distribution(probes.TTFT, 200, 0.006, 0.199), limit(probes.TTFT, probes.StatTailRatio, probes.Warning, 5)), state: probes.Pass},
	{name: "tail_ratio_at_the_floor", change: all(distribution(probes.TTFT, 200, 0.006, 0.2), limit(probes.TTFT, probes.StatTailRatio, probes.Warning, 5)),
		state: probes.Warn, codes: []string{LimitExceeded}},
	{name: "tail_ratio_of_few", change: all(distribution(probes.TTFT, 99, 0.25, 1.3), limit(probes.TTFT, probes.StatTailRatio, probes.Warning, 5)),
		state: probes.Unknown, codes: []string{TooFewSamples}},
	{name: "tail_ratio_of_nothing", change: all(distribution(probes.SendLag, 200, 0, 0), limit(probes.SendLag, probes.StatTailRatio, probes.Warning, 5)),
		state: probes.Unknown, codes: []string{NoSamples}, text: "not defined"},

	{name: "pace_of_short_answers", change: all(outputTokens(200*99), limit(probes.TPOT, probes.StatMean, probes.Critical, 0.001)),
		state: probes.Unknown, codes: []string{ShortAnswers}, text: "tpot mean: answers of 99.0 tokens on average, pace is judged from 100"},
	{name: "pace_of_long_answers", change: all(outputTokens(200*100), limit(probes.TPOT, probes.StatMean, probes.Critical, 0.001)),
		state: probes.Fail, codes: []string{LimitExceeded}, text: "tpot mean is 3ms, critical limit 1ms"},
	{name: "pace_with_cut_answers", change: all(outputTokens(200*100+50), func(run *probes.Run) { run.Summary.Cancelled = 1 },
		limit(probes.TPOT, probes.StatMean, probes.Critical, 0.001)), state: probes.Unknown, codes: []string{ShortAnswers}},
	{name: "ttft_of_short_answers", change: all(outputTokens(200*10), limit(probes.TTFT, probes.StatMean, probes.Critical, 0.05)),
		state: probes.Fail, codes: []string{LimitExceeded}},
}

func TestJudge(t *testing.T) {
	for _, tt := range judgeCases {
		t.Run(tt.name, func(t *testing.T) {
			run := sound()
			if tt.change != nil {
				tt.change(run)
			}
			v := Judge(&run.Spec, &run.Summary, run.Validity)
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

func TestVerdictTable(t *testing.T) {
	proven := map[string]bool{NotJudged + " unknown": true} // by TestUnjudged
	for _, tt := range judgeCases {
		if len(tt.codes) == 1 {
			proven[tt.codes[0]+" "+string(tt.state)] = true
		}
	}
	for _, row := range rows(VerdictCodes) {
		if !proven[row] {
			t.Errorf("row %q is proven by no case", row)
		}
		delete(proven, row)
	}
	for row := range proven {
		t.Errorf("the table has no row %q", row)
	}
}

type trapCase struct {
	name   string
	change func(*probes.Run)
	codes  []string
	text   string
}

// ttfts sets the time to first token of the i-th request sent.
func ttfts(of func(i int) time.Duration) func(*probes.Run) {
	return func(run *probes.Run) {
		for i := range run.Records {
			run.Records[i].FirstToken = known(run.Records[i].Sent + of(i))
		}
	}
}

func process(a probes.Arrivals) func(*probes.Run) {
	return func(run *probes.Run) { run.Spec.Arrivals = a }
}

var trapCases = []trapCase{
	{name: "sound"},
	{name: "random_shared", change: func(run *probes.Run) { run.Spec.Workload.Cache = probes.CacheShared },
		codes: []string{RandomAgainstPrefixCache}},
	{name: "sharegpt_shared", change: func(run *probes.Run) {
		run.Spec.Workload.Cache, run.Spec.Workload.Dataset = probes.CacheShared, "sharegpt"
	}},
	{name: "warm", change: func(run *probes.Run) { run.Spec.Workload.Cache = probes.CacheWarm }, codes: []string{FixedPromptsWarmCache}},

	{name: "no_warmup", change: func(run *probes.Run) { run.Spec.Warmup = probes.Warmup{} }, codes: []string{FirstRequestCounted}},
	{name: "warmup_by_time", change: func(run *probes.Run) { run.Spec.Warmup = probes.Warmup{Duration: time.Second} }},
	{name: "canary_without_warmup", change: func(run *probes.Run) {
		run.Spec.Kind, run.Spec.Warmup = probes.Canary, probes.Warmup{}
	}},
	{name: "warmup_failed", change: func(run *probes.Run) { run.Warmup[0].Outcome = probes.HTTP5xx }, codes: []string{WarmupTooShort}, text: "none of 1"},
	{name: "first_tenth_slower", change: all(ttfts(func(i int) time.Duration {
		if i < 20 {
			return 151 * ms
		}
		return 100 * ms
	}), func(run *probes.Run) { slices.Reverse(run.Records) }), codes: []string{WarmupTooShort}, text: "the first 20 requests is 151ms, of the others 100ms"},
	{name: "first_tenth_a_little_slower", change: ttfts(func(i int) time.Duration {
		if i < 20 {
			return 150 * ms
		}
		return 100 * ms
	})},
	{name: "first_of_few_slower", change: all(ttfts(func(i int) time.Duration { return time.Second / time.Duration(i+1) }),
		func(run *probes.Run) { run.Records = run.Records[:99] })},

	{name: "half_the_concurrency", change: process(probes.Arrivals{Process: probes.Poisson, Rate: 10, MaxConcurrency: 8})},
	{name: "less_than_half_the_concurrency", change: process(probes.Arrivals{Process: probes.Poisson, Rate: 10, MaxConcurrency: 9}),
		codes: []string{RateBelowConcurrency}, text: "at 10 requests per second 4.0 of 9 requests were in flight"},
	{name: "one_at_a_time", change: all(process(probes.Arrivals{Process: probes.Constant, Rate: 0.1, MaxConcurrency: 1}),
		func(run *probes.Run) { run.Summary.Concurrency = known(0.1) })},

	{name: "99_samples", change: distribution(probes.TTFT, 99, 0.1, 0.1), codes: []string{MeanWithoutP99}, text: "99 samples"},
	{name: "100_samples", change: distribution(probes.TTFT, 100, 0.1, 0.1)},
	{name: "limit_on_the_mean", change: limit(probes.TTFT, probes.StatMean, probes.Warning, 1), codes: []string{MeanWithoutP99}, text: "mean of ttft alone"},
	{name: "limits_on_mean_and_tail", change: all(limit(probes.TTFT, probes.StatMean, probes.Warning, 1), limit(probes.TTFT, probes.StatP99, probes.Warning, 1))},
	{name: "short_outputs", change: outputTokens(200 * 99), codes: []string{ShortOutputs}, text: "99.0 tokens"},
	{name: "outputs_of_100", change: outputTokens(200 * 100)},
	{name: "by_hand", change: func(run *probes.Run) { run.Spec.Schedule = probes.Schedule{} }, codes: []string{SingleRun}},
	{name: "canary_by_hand", change: func(run *probes.Run) { run.Spec.Kind, run.Spec.Schedule = probes.Canary, probes.Schedule{} }},

	{name: "closed_loop", change: process(probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}), codes: []string{CoordinatedOmission}, text: "closed loop of 4"},
	{name: "waiting_for_slots", change: all(process(probes.Arrivals{Process: probes.Constant, Rate: 10, MaxConcurrency: 4}),
		distribution(probes.TTFTFromDue, 200, 0.111, 0.2)), codes: []string{CoordinatedOmission}, text: "111ms from due but 100ms from sent"},
	{name: "hardly_waiting_for_slots", change: all(process(probes.Arrivals{Process: probes.Constant, Rate: 10, MaxConcurrency: 4}),
		distribution(probes.TTFTFromDue, 200, 0.11, 0.2))},
	{name: "late_without_slots", change: distribution(probes.TTFTFromDue, 200, 0.2, 0.2)},
	{name: "burst", change: process(probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}), codes: []string{AllAtOnce}, text: "200 requests were due at once"},
	{name: "burst_of_one", change: all(process(probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}),
		func(run *probes.Run) { run.Summary.Requests = 1 })},
	{name: "approx", change: func(run *probes.Run) { run.Spec.Workload.Tokenizer = "approx" }, codes: []string{ApproxInputLengths}},
}

func TestTraps(t *testing.T) {
	proven := map[string]bool{}
	for _, tt := range trapCases {
		t.Run(tt.name, func(t *testing.T) {
			run := sound()
			if tt.change != nil {
				tt.change(run)
			}
			got := Traps(run)
			wantCodes(t, got, tt.codes...)
			if tt.text != "" && (len(got) != 1 || !strings.Contains(got[0].Text, tt.text)) {
				t.Errorf("traps = %q, want one with %q", got, tt.text)
			}
		})
		for _, c := range tt.codes {
			proven[c] = true
		}
	}
	for _, row := range TrapCodes {
		if !proven[row.Code] {
			t.Errorf("trap %q is proven by no case", row.Code)
		}
		delete(proven, row.Code)
	}
	for code := range proven {
		t.Errorf("the table has no trap %q", code)
	}
}

func TestLimitsOfSeveralSeveritiesLackTheSameSamplesOnce(t *testing.T) {
	spec := &probes.Spec{Limits: []probes.Limit{
		{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Warning, Bound: 1},
		{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Critical, Bound: 2},
	}}
	s := &probes.Summary{Requests: 30, Completed: 30, Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 30, Mean: 0.1, P99: 0.2}}}
	got := Judge(spec, s, probes.Validity{State: probes.Valid})
	if len(got.Reasons) != 1 || got.Reasons[0].Code != TooFewSamples || got.State != probes.Unknown {
		t.Errorf("Judge() = %+v, want unknown with one too_few_samples", got)
	}
}

func TestCutAnswersAloneHaveNoMeanLength(t *testing.T) {
	s := &probes.Summary{Requests: 3, Cancelled: 3, OutputTokens: probes.Known(0)}
	if mean, ok := meanOutput(s); ok {
		t.Errorf("meanOutput() = %v, want unknown: no answer was completed", mean)
	}
}
