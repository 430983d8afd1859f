package inspect

import (
	"bytes"
	"fmt"
	"testing"
)

// largePage has the shape of a real one: 2,000 lines, nearly all of them buckets
// and comments that nobody asks for.
func largePage() []byte {
	var page bytes.Buffer
	for engine := range 9 {
		for _, name := range []string{"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prefix_cache_queries_total", "prefix_cache_hits_total",
			"generation_tokens_total", "num_preemptions_total", "spec_decode_num_drafts_total", "spec_decode_num_accepted_tokens_total"} {
			fmt.Fprintf(&page, "vllm:%s{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-70B\"} 12345.0\n", name, engine)
		}
		for _, name := range []string{"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
			"request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds", "request_time_per_output_token_seconds"} {
			fmt.Fprintf(&page, "# HELP vllm:%s Histogram of something in seconds.\n# TYPE vllm:%s histogram\n", name, name)
			for le := range 25 {
				fmt.Fprintf(&page, "vllm:%s_bucket{engine=\"%d\",le=\"%d.5\",model_name=\"meta-llama/Llama-3.1-70B\"} 1234.0\n", name, engine, le)
			}
			fmt.Fprintf(&page, "vllm:%s_sum{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-70B\"} 99.5\n", name, engine)
			fmt.Fprintf(&page, "vllm:%s_count{engine=\"%d\",model_name=\"meta-llama/Llama-3.1-70B\"} 1234.0\n", name, engine)
		}
	}
	lines := bytes.SplitAfter(page.Bytes(), []byte("\n"))
	return bytes.Join(lines[:2000], nil)
}

func BenchmarkPage(b *testing.B) {
	page := largePage()
	if s := parsePage(page); s.Running != known(9*12345.0) {
		b.Fatalf("running = %v", s.Running)
	}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		parsePage(page)
	}
}
