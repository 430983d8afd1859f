package jsonl

import "github.com/inferbeat/inferbeat/probes"

// statistics are those of one latency in milliseconds, all null without samples. The
// types below are the same under the keys that a latency has.
type statistics struct{ Mean, Median, Std, P90, P95, P99 *number }

func inMilliseconds(d probes.Distribution) statistics {
	ms := func(seconds float64) *number { return milliseconds(seconds, d.N) }
	return statistics{ms(d.Mean), ms(d.P50), ms(d.Stddev), ms(d.P90), ms(d.P95), ms(d.P99)}
}

// milliseconds is null for a statistic of no samples.
func milliseconds(seconds float64, samples int) *number {
	if samples == 0 {
		return nil
	}
	return new(number(seconds * 1e3))
}

type (
	ttftMilliseconds struct {
		Mean   *number `json:"mean_ttft_ms"`
		Median *number `json:"median_ttft_ms"`
		Std    *number `json:"std_ttft_ms"`
		P90    *number `json:"p90_ttft_ms"`
		P95    *number `json:"p95_ttft_ms"`
		P99    *number `json:"p99_ttft_ms"`
	}
	tpotMilliseconds struct {
		Mean   *number `json:"mean_tpot_ms"`
		Median *number `json:"median_tpot_ms"`
		Std    *number `json:"std_tpot_ms"`
		P90    *number `json:"p90_tpot_ms"`
		P95    *number `json:"p95_tpot_ms"`
		P99    *number `json:"p99_tpot_ms"`
	}
	itlMilliseconds struct {
		Mean   *number `json:"mean_itl_ms"`
		Median *number `json:"median_itl_ms"`
		Std    *number `json:"std_itl_ms"`
		P90    *number `json:"p90_itl_ms"`
		P95    *number `json:"p95_itl_ms"`
		P99    *number `json:"p99_itl_ms"`
	}
	e2eMilliseconds struct { // bench_serving's
		Mean   *number `json:"mean_e2e_latency_ms"`
		Median *number `json:"median_e2e_latency_ms"`
		Std    *number `json:"std_e2e_latency_ms"`
		P90    *number `json:"p90_e2e_latency_ms"`
		P95    *number `json:"p95_e2e_latency_ms"`
		P99    *number `json:"p99_e2e_latency_ms"`
	}
	e2elMilliseconds struct { // of vllm bench serve
		Mean   *number `json:"mean_e2el_ms"`
		Median *number `json:"median_e2el_ms"`
		Std    *number `json:"std_e2el_ms"`
		P90    *number `json:"p90_e2el_ms"`
		P95    *number `json:"p95_e2el_ms"`
		P99    *number `json:"p99_e2el_ms"`
	}
)
