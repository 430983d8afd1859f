package jsonl

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/inferbeat/inferbeat/probes"
)

// Every key that vllm bench serve wrote is there, in its order; its p50 is the
// median under another name.
func TestVLLMKeys(t *testing.T) {
	captured, err := os.ReadFile("testdata/vllm_bench.json")
	if err != nil {
		t.Fatal(err)
	}
	line, err := Encode(run(), Options{Details: true, Format: FormatVLLM})
	if err != nil {
		t.Fatal(err)
	}
	got := keys(t, line)
	last := -1
	for _, key := range keys(t, captured) {
		if strings.HasPrefix(key, "p50_") {
			continue
		}
		at := slices.Index(got, key)
		if at <= last {
			t.Errorf("key %s stands at %d after one at %d in %v", key, at, last, got)
		}
		last = at
	}
	if slices.Contains(got, "inferbeat") {
		t.Error("the line holds a key that vllm bench serve does not know")
	}
}

func TestVLLMValues(t *testing.T) {
	m := encode(t, run(), Options{Details: true, Format: FormatVLLM})
	for key, want := range map[string]any{
		"num_prompts": 2.0, "failed": 1.0, "request_rate": 4.0, "burstiness": 1.0, "total_token_throughput": 25.2, "request_goodput": 0.4,
		"mean_e2el_ms": 1000.0, "p90_ttft_ms": 2004.0, "mean_itl_ms": nil, "spec_decode_acceptance_length": 1.75, "date": "20260301-020002",
	} {
		if m[key] != want {
			t.Errorf("%s = %v, want %v", key, m[key], want)
		}
	}
	if ttfts := m["ttfts"].([]any); ttfts[0] != 0.1 || ttfts[1] != nil {
		t.Errorf("ttfts = %v, want 0.1 and, for the failed request, null", ttfts)
	}
}

func TestBurstiness(t *testing.T) {
	for want, a := range map[float64]probes.Arrivals{
		1: {Process: probes.Poisson, CV: 1}, 4: {Process: probes.Gamma, CV: 0.5}, math.Inf(1): {Process: probes.Constant},
	} {
		if got := burstiness(a); float64(got) != want {
			t.Errorf("burstiness of %s = %v, want %v", a.Process, got, want)
		}
	}
}
