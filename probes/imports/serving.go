package imports

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// benchServing reads a line of sglang's bench_serving. It counts no failures
// unless it was told to keep details.
func benchServing(f *fields, run *probes.Run) {
	serving(f, run)
	s, w := &run.Summary, &run.Spec.Workload
	w.Dataset = f.text("dataset_name")
	w.InputTokens, w.OutputTokens = f.whole("random_input_len"), f.whole("random_output_len")
	w.RangeRatio, _ = f.number("random_range_ratio").Get()
	w.FixedOutputTokens = f.whole("sharegpt_output_len")
	if !strings.HasPrefix(w.Dataset, "random") {
		w.InputTokens, w.OutputTokens, w.RangeRatio = 0, 0, 0 // the tool writes defaults that had no effect
	}
	s.TotalThroughput = f.number("total_throughput")
	s.AcceptLength = f.number("accept_length")
	if s.AcceptLength.IsKnown() {
		s.AcceptSource = probes.AcceptLifetime // the tool asks the server for its average since start
	}
	s.Concurrency = f.number("concurrency")
	s.Latency[probes.E2E] = distribution(f, "e2e_latency", nil, s.Completed)
	gap := probes.ChunkGap
	if run.Target.Backend == "sglang" || run.Target.Backend == "sglang-native" {
		gap = probes.ITL // the native dialect says how many tokens a chunk holds
	}
	gaps(f, s, gap)
	prune(s)
}

// vllmServe reads the JSON of `vllm bench serve`.
func vllmServe(f *fields, run *probes.Run) {
	serving(f, run)
	s, w := &run.Summary, &run.Spec.Workload
	w.Dataset = "unknown" // the tool does not write it down
	run.Target.Model = cmp.Or(f.text("model_id"), run.Target.Model)
	if b, ok := f.number("burstiness").Get(); ok && b > 0 && b != 1 && run.Spec.Arrivals.Process == probes.Poisson {
		run.Spec.Arrivals.Process, run.Spec.Arrivals.CV = probes.Gamma, probes.BurstinessToCV(b)
	}
	if at, err := time.ParseInLocation("20060102-150405", f.text("date"), time.Local); err == nil {
		run.End = at
		run.Start = at.Add(-s.Duration)
	}
	s.Failed = f.whole("failed")
	s.TotalThroughput = f.number("total_token_throughput")
	s.Goodput = f.number("request_goodput")
	if length := f.number("spec_decode_acceptance_length"); length.IsKnown() {
		s.AcceptLength, s.AcceptSource = length, probes.AcceptCounters
	}
	s.Latency[probes.E2E] = distribution(f, "e2el", f.numbers("latencies"), s.Completed)
	gaps(f, s, probes.ChunkGap)
	prune(s)
}

// serving reads what both tools write under the same keys.
func serving(f *fields, run *probes.Run) {
	s := &run.Summary
	run.Spec.Requests = f.whole("num_prompts")
	run.Spec.Arrivals = arrivals(f)
	s.OfferedRate = probes.Optional[float64]{}
	if a := run.Spec.Arrivals; a.OpenLoop() && a.Rate > 0 {
		s.OfferedRate = probes.Known(a.Rate)
	}
	s.Duration = seconds(f.number("duration"))
	s.Completed = f.whole("completed")
	for _, text := range f.texts("errors") {
		if text != "" {
			s.Failed++
		}
	}
	s.InputTokens, s.OutputTokens = f.count("total_input_tokens"), f.count("total_output_tokens")
	s.RetokenizedOutput = f.count("total_output_tokens_retokenized")
	if ours, ok := s.RetokenizedOutput.Get(); ok {
		if served, ok := s.OutputTokens.Get(); ok && served > 0 {
			s.RetokenizedRatio = probes.Known(float64(ours) / float64(served))
		}
	}
	s.RequestThroughput = f.number("request_throughput")
	s.OutputThroughput = f.number("output_throughput")
	s.InputThroughput = f.number("input_throughput")
	if n, ok := s.InputTokens.Get(); ok && !s.InputThroughput.IsKnown() && s.Duration > 0 {
		s.InputThroughput = probes.Known(float64(n) / s.Duration.Seconds())
	}
	s.PeakOutputThroughput = f.number("max_output_tokens_per_s")
	if peak, ok := f.number("max_concurrent_requests").Get(); ok {
		s.PeakConcurrency = int(peak)
	}
	s.Latency[probes.TTFT] = distribution(f, "ttft", f.numbers("ttfts"), s.Completed)
	s.Latency[probes.TPOT] = distribution(f, "tpot", nil, s.Completed)
	if run.Spec.Requests == 0 {
		run.Spec.Requests = s.Completed + s.Failed
	}
}

// arrivals reads rate and concurrency. An infinite rate behind a bound is a
// closed loop; the word trace leaves the rate unknown.
func arrivals(f *fields) probes.Arrivals {
	rate, known := f.rate("request_rate")
	a := probes.Arrivals{Process: probes.Poisson, Rate: rate, CV: 1, MaxConcurrency: f.whole("max_concurrency")}
	switch {
	case !known:
		a = probes.Arrivals{Process: probes.FromTrace, MaxConcurrency: a.MaxConcurrency}
	case math.IsInf(rate, 1) && a.MaxConcurrency > 0:
		a.Process, a.StartTogether = probes.ClosedLoop, true // their tools send the first of all slots at once
	case math.IsInf(rate, 1):
		a.Process = probes.Burst
	}
	return a
}

// gaps reads the tool's inter-token latencies into the signal that they are.
func gaps(f *fields, s *probes.Summary, signal probes.Signal) {
	var samples []float64
	for _, list := range f.lists("itls") {
		samples = append(samples, list...)
	}
	bound := s.Completed
	if tokens, ok := s.OutputTokens.Get(); ok {
		bound = max(0, tokens-s.Completed)
	}
	s.Latency[signal] = distribution(f, "itl", samples, bound)
}

// distribution reads the statistics of a series, which the tools write in
// milliseconds. What they left out comes from the samples, in seconds, when they
// kept them: zeros, which stand for requests without one, are left out, and so is
// everything when a statistic could not be of these samples. Without samples N is
// the most that there can have been.
func distribution(f *fields, name string, samples []float64, most int) probes.Distribution {
	get := func(stat string) float64 {
		if ms, ok := f.number(stat + "_" + name + "_ms").Get(); ok {
			return ms / 1e3
		}
		return math.NaN()
	}
	d := probes.Distribution{
		N: most, Mean: get("mean"), Stddev: get("std"), Min: math.NaN(), P50: get("median"),
		P90: get("p90"), P95: get("p95"), P99: get("p99"), Max: get("max"),
	}
	if kept := positive(samples); len(kept) > 0 {
		own := stats.DescribeInPlace(kept)
		d.N, d.Min = own.N, own.Min
		for _, missing := range []struct {
			of    *float64
			value float64
		}{{&d.Mean, own.Mean}, {&d.Stddev, own.Stddev}, {&d.P50, own.P50}, {&d.P90, own.P90}, {&d.P95, own.P95}, {&d.P99, own.P99}, {&d.Max, own.Max}} {
			if math.IsNaN(*missing.of) {
				*missing.of = missing.value
			}
		}
	}
	if !(d.Mean > 0) && !(d.P50 > 0) {
		d.N = 0
	}
	return d
}

func positive(samples []float64) []float64 {
	var kept []float64
	for _, x := range samples {
		if x > 0 && x < 1e9 {
			kept = append(kept, x)
		}
	}
	return kept
}

// prune drops the series without samples.
func prune(s *probes.Summary) {
	for signal, d := range s.Latency {
		if d.N == 0 {
			delete(s.Latency, signal)
		}
	}
}

// lengths names a workload by its two lengths.
func lengths(in, out int) string { return strconv.Itoa(in) + "x" + strconv.Itoa(out) }
