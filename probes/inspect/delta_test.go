package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

var summaryDiff = cmp.Options{cmpopts.EquateApprox(0, 1e-12), cmpopts.EquateEmpty(), cmp.Transformer("known", func(o probes.Optional[float64]) []float64 {
	if v, ok := o.Get(); ok {
		return []float64{v}
	}
	return nil
})}

// at makes a sample of a page n seconds into a run.
func at(seconds int, page string) Sample {
	s := parsePage([]byte(page))
	s.At = time.Unix(1796055120+int64(seconds), 0)
	return s
}

func TestDelta(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after string
		during        []string
		want          probes.ServerSummary
	}{
		{"vllm", `
vllm:spec_decode_num_drafts_total{engine="0"} 100
vllm:spec_decode_num_draft_tokens_total{engine="0"} 300
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 100
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 60
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 30
vllm:prefix_cache_queries_total 1000
vllm:prefix_cache_hits_total 100
vllm:num_preemptions_total 4
vllm:request_success_total{finished_reason="stop"} 10
vllm:time_to_first_token_seconds_sum 1
vllm:time_to_first_token_seconds_count 10
vllm:inter_token_latency_seconds_sum 5
vllm:inter_token_latency_seconds_count 100`, `
vllm:spec_decode_num_drafts_total{engine="0"} 200
vllm:spec_decode_num_draft_tokens_total{engine="0"} 600
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 280
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 150
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 100
vllm:prefix_cache_queries_total 3000
vllm:prefix_cache_hits_total 600
vllm:num_preemptions_total 5
vllm:request_success_total{finished_reason="stop"} 12
vllm:request_success_total{finished_reason="length"} 18
vllm:time_to_first_token_seconds_sum 4
vllm:time_to_first_token_seconds_count 30
vllm:inter_token_latency_seconds_sum 9
vllm:inter_token_latency_seconds_count 300`, []string{
			"vllm:num_requests_running{engine=\"0\"} 2\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.1\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.3",
			"", // could not be read
			"vllm:num_requests_running{engine=\"0\"} 4\nvllm:num_requests_waiting 5\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.6",
		}, probes.ServerSummary{
			AcceptLength: known(2.8), AcceptSource: probes.AcceptCounters, AcceptanceRatio: known(0.6), PerPosition: []float64{0.9, 0.7},
			PrefixCache: probes.PrefixCache{HitRatio: known(0.25), Tiers: map[string]float64{"device": 0.25}},
			Queue:       probes.Level{N: 2, Mean: 2.5, Max: 5}, Running: probes.Level{N: 2, Mean: 3, Max: 4}, KVUsage: probes.Level{N: 2, Mean: 0.3, Max: 0.6},
			Preemptions: known(1), Requests: known(20),
			TTFT: probes.ServerMean{N: 20, Mean: 0.15}, TPOT: probes.ServerMean{N: 200, Mean: 0.02},
		}},
		{"vllm V0", "vllm:spec_decode_num_accepted_tokens_total 100\nvllm:spec_decode_num_emitted_tokens_total 200\nvllm:spec_decode_num_draft_tokens_total 400",
			"vllm:spec_decode_num_accepted_tokens_total 160\nvllm:spec_decode_num_emitted_tokens_total 300\nvllm:spec_decode_num_draft_tokens_total 520", nil,
			probes.ServerSummary{AcceptLength: known(2.5), AcceptSource: probes.AcceptCounters, AcceptanceRatio: known(0.5)}},
		// Ten requests of 29 tokens: the prefill step makes one of each, the other 280
		// take 100 steps. The gauge is another average and is passed over.
		{"sglang", "sglang:generation_tokens_total{is_streaming=\"true\"} 1000\nsglang:num_requests_total{is_streaming=\"true\"} 7\nsglang:spec_verify_calls_total 300",
			"sglang:generation_tokens_total{is_streaming=\"true\"} 1203\nsglang:generation_tokens_total{is_streaming=\"false\"} 87\n" +
				"sglang:num_requests_total{is_streaming=\"true\"} 14\nsglang:num_requests_total{is_streaming=\"false\"} 3\nsglang:spec_verify_calls_total 400",
			[]string{"sglang:spec_accept_length 9"},
			probes.ServerSummary{AcceptLength: known(2.8), AcceptSource: probes.AcceptCounters, Requests: known(10)}},
		{"sglang without its newer counters", "sglang:num_running_reqs 0", "sglang:num_running_reqs 0",
			[]string{"sglang:spec_accept_length 0", "sglang:spec_accept_length{dp_rank=\"0\"} 2\nsglang:spec_accept_length{dp_rank=\"1\"} 4", "sglang:spec_accept_length 2"},
			probes.ServerSummary{AcceptLength: known(2.5), AcceptSource: probes.AcceptGauge, Running: probes.Level{N: 3}}},
		{"sglang without speculation", "sglang:spec_verify_calls_total 0\nsglang:generation_tokens_total 5", "sglang:spec_verify_calls_total 0\nsglang:generation_tokens_total 50", nil, probes.ServerSummary{}},
		// Clients create the series of a label when it is first counted.
		{"first requests of a server's life", "sglang:num_running_reqs 0",
			"sglang:prompt_tokens_total 400\nsglang:cached_tokens_total{cache_source=\"device\"} 60\nsglang:cached_tokens_total{cache_source=\"host\"} 40", nil,
			probes.ServerSummary{PrefixCache: probes.PrefixCache{HitRatio: known(0.25), Tiers: map[string]float64{"device": 0.15, "host": 0.1}}}},
		{"hits that no tier is named for", "sglang:prompt_tokens_total 0\nsglang:cached_tokens_total 0", "sglang:prompt_tokens_total 10\nsglang:cached_tokens_total 5", nil,
			probes.ServerSummary{PrefixCache: probes.PrefixCache{HitRatio: known(0.5)}}},
		{"tensorrt-llm counts blocks", "trtllm_kv_cache_reused_blocks_total 10\ntrtllm_kv_cache_missed_blocks_total 10", "trtllm_kv_cache_reused_blocks_total 40\ntrtllm_kv_cache_missed_blocks_total 20", nil,
			probes.ServerSummary{PrefixCache: probes.PrefixCache{HitRatio: known(0.75)}}},
		{"llama-server", "llamacpp:tokens_predicted_total 400\nllamacpp:tokens_predicted_seconds_total 4", "llamacpp:tokens_predicted_total 500\nllamacpp:tokens_predicted_seconds_total 4.5", nil,
			probes.ServerSummary{TPOT: probes.ServerMean{N: 100, Mean: 0.005}}},
		{"llama-server, newer", "llamacpp:prompt_tokens_total 100\nllamacpp:prompt_tokens_cached_total 0\nllamacpp:spec_decode_num_drafts_total 0\nllamacpp:spec_decode_num_accepted_tokens_total 0\nllamacpp:spec_decode_num_draft_tokens_total 0",
			"llamacpp:prompt_tokens_total 250\nllamacpp:prompt_tokens_cached_total 50\nllamacpp:spec_decode_num_drafts_total 10\nllamacpp:spec_decode_num_accepted_tokens_total 15\nllamacpp:spec_decode_num_draft_tokens_total 60", nil,
			probes.ServerSummary{AcceptLength: known(2.5), AcceptSource: probes.AcceptCounters, AcceptanceRatio: known(0.25), PrefixCache: probes.PrefixCache{HitRatio: known(0.25)}}},
		{"nothing happened", "vllm:prefix_cache_queries_total 10\nvllm:prefix_cache_hits_total 10\nvllm:num_preemptions_total 1\nvllm:spec_decode_num_drafts_total 5\nvllm:spec_decode_num_accepted_tokens_total 5",
			"vllm:prefix_cache_queries_total 10\nvllm:prefix_cache_hits_total 10\nvllm:num_preemptions_total 1\nvllm:spec_decode_num_drafts_total 5\nvllm:spec_decode_num_accepted_tokens_total 5", nil,
			probes.ServerSummary{Preemptions: known(0)}},

		{"parts beyond their whole", "vllm:prefix_cache_queries_total 10\nvllm:prefix_cache_hits_total 0\nvllm:spec_decode_num_draft_tokens_total 0\nvllm:spec_decode_num_accepted_tokens_total 0",
			"vllm:prefix_cache_queries_total 20\nvllm:prefix_cache_hits_total 1e20\nvllm:spec_decode_num_draft_tokens_total 5\nvllm:spec_decode_num_accepted_tokens_total 6", nil,
			probes.ServerSummary{}},

		// A restart makes every difference meaningless; gauges stay.
		{"a counter went down", "vllm:num_preemptions_total 9\nvllm:request_success_total 5", "vllm:num_preemptions_total 12\nvllm:request_success_total 4",
			[]string{"vllm:num_requests_running 3\nvllm:num_preemptions_total 9\nvllm:request_success_total 5"},
			probes.ServerSummary{Restarted: true, Running: probes.Level{N: 1, Mean: 3, Max: 3}}},
		{"a counter went down on the way", "vllm:request_success_total 5", "vllm:request_success_total 50", []string{"vllm:request_success_total 2"}, probes.ServerSummary{Restarted: true}},
		{"a counter went away", "sglang:num_requests_total 5\nsglang:num_running_reqs 1", "sglang:num_running_reqs 1", nil, probes.ServerSummary{Restarted: true}},
		{"another process", "process_start_time_seconds 100\nvllm:request_success_total 0", "process_start_time_seconds 200\nvllm:request_success_total 7", nil, probes.ServerSummary{Restarted: true}},
		// Two replicas take turns under one address.
		{"back and forth", "vllm:request_success_total 500\nvllm:num_preemptions_total 9", "vllm:request_success_total 520\nvllm:num_preemptions_total 9",
			[]string{"vllm:request_success_total 40", "vllm:request_success_total 510\nvllm:num_requests_running 2", "vllm:request_success_total 45\nvllm:num_requests_running 4"},
			probes.ServerSummary{Running: probes.Level{N: 2, Mean: 3, Max: 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			during := make([]Sample, len(tt.during))
			for i, page := range tt.during {
				if page != "" && !strings.Contains(page, "request_success") && !tt.want.Restarted {
					page += "\n" + tt.before // a page always has all its counters
				}
				during[i] = at(1+i, page)
			}
			tt.want.Span = 10 * time.Second
			if diff := cmp.Diff(tt.want, Delta(at(0, tt.before), at(10, tt.after), during), summaryDiff); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

// Two readings of one page, or of what cannot be compared, tell nothing.
func TestDeltaNeedsTwoReadings(t *testing.T) {
	page := at(0, "vllm:request_success_total 5\nvllm:num_preemptions_total 1")
	loads := parseLoads([]byte(`{"loads":[{"num_running_reqs":1,"num_waiting_reqs":0}]}`))
	for name, pair := range map[string][2]Sample{
		"none":           {},
		"only before":    {page, {}},
		"only after":     {{}, page},
		"another engine": {page, at(9, "sglang:num_requests_total 9")},
		"gauges only":    {loads, loads},
		// The page did not answer and something poorer did.
		"another source": {at(0, "sglang:num_requests_total 9"), loads},
	} {
		if diff := cmp.Diff(probes.ServerSummary{}, Delta(pair[0], pair[1], nil), summaryDiff); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The average since the start is the last resort, and says so.
func TestLifetimeAcceptLength(t *testing.T) {
	after := Sample{lifetime: known(3.25)}
	got := Delta(Sample{}, after, nil)
	if got.AcceptLength != known(3.25) || got.AcceptSource != probes.AcceptLifetime {
		t.Errorf("accept length %v from %q, want 3.25 from lifetime", got.AcceptLength, got.AcceptSource)
	}
	got = Delta(Sample{}, after, []Sample{at(1, "sglang:spec_accept_length 2")})
	if got.AcceptLength != known(2.0) || got.AcceptSource != probes.AcceptGauge {
		t.Errorf("accept length %v from %q, want 2 from gauge", got.AcceptLength, got.AcceptSource)
	}
}

func TestThroughput(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pages []string // 15 s apart; empty could not be read
		want  probes.Optional[float64]
	}{
		{"none", nil, probes.Optional[float64]{}},
		{"one", []string{"vllm:request_success_total 5"}, probes.Optional[float64]{}},
		{"two", []string{"vllm:request_success_total 5", "vllm:request_success_total 65"}, known(4.0)},
		{"a minute", []string{"vllm:request_success_total 5", "vllm:request_success_total 5", "vllm:request_success_total 35", "vllm:request_success_total 35", "vllm:request_success_total 95"}, known(1.5)},
		{"idle", []string{"vllm:request_success_total 5", "vllm:request_success_total 5"}, known(0.0)},
		{"both spellings and no suffix", []string{"vllm_request_success 5", "vllm:request_success 35"}, known(2.0)},
		{"reasons and ranks", []string{
			"vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 10\nvllm:request_success_total{engine=\"1\",finished_reason=\"stop\"} 20",
			"vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 25\nvllm:request_success_total{engine=\"1\",finished_reason=\"stop\"} 20\nvllm:request_success_total{engine=\"1\",finished_reason=\"length\"} 15",
		}, known(2.0)},
		{"ranks that repeat", []string{
			"sglang:num_requests_total{tp_rank=\"0\",dp_rank=\"0\"} 10\nsglang:num_requests_total{tp_rank=\"1\",dp_rank=\"0\"} 10\nsglang:num_requests_total{tp_rank=\"0\",dp_rank=\"1\"} 7",
			"sglang:num_requests_total{tp_rank=\"0\",dp_rank=\"0\"} 40\nsglang:num_requests_total{tp_rank=\"1\",dp_rank=\"0\"} 40\nsglang:num_requests_total{tp_rank=\"0\",dp_rank=\"1\"} 22",
		}, known(3.0)},
		{"a page was missed", []string{"vllm:request_success_total 5", "", "vllm:request_success_total 65"}, known(2.0)},
		{"started anew", []string{"vllm:request_success_total 500", "vllm:request_success_total 530", "vllm:request_success_total 15"}, known(1.5)},
		{"two servers in turn", []string{"vllm:request_success_total 500", "vllm:request_success_total 10", "vllm:request_success_total 530", "vllm:request_success_total 25"}, probes.Optional[float64]{}},
		{"first request", []string{"vllm:num_requests_running 1", "vllm:num_requests_running 0\nvllm:request_success_total 30"}, known(2.0)},
		{"no count", []string{"llamacpp:requests_processing 1", "llamacpp:requests_processing 1"}, probes.Optional[float64]{}},
		{"another engine", []string{"vllm:request_success_total 5", "sglang:num_requests_total 65"}, probes.Optional[float64]{}},
		{"tgi", []string{"tgi_request_success 5", "tgi_request_success 20"}, known(1.0)},
		{"triton", []string{"nv_inference_request_success{model=\"ensemble\"} 5\nnv_inference_request_success{model=\"tensorrt_llm\"} 5", "nv_inference_request_success{model=\"ensemble\"} 20\nnv_inference_request_success{model=\"tensorrt_llm\"} 20"}, known(1.0)},
	} {
		var samples []Sample
		for i, page := range tt.pages {
			samples = append(samples, at(15*i, page))
		}
		if got := Throughput(samples); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	// The same instant twice has no rate.
	if got := Throughput([]Sample{at(0, "tgi_request_success 1"), at(0, "tgi_request_success 2")}); got.IsKnown() {
		t.Errorf("no time has passed: got %v", got)
	}
}
