package fakellm

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads /metrics: the sum of each family over its labels; of a histogram
// the count under name_count and the sum under name_sum.
func scrape(t *testing.T, r *rig) (map[string]float64, map[string]*dto.MetricFamily) {
	t.Helper()
	return scrapeAt(t, r, "/metrics")
}

// scrapeAt reads a page elsewhere; an empty path is /metrics.
func scrapeAt(t *testing.T, r *rig, path string) (map[string]float64, map[string]*dto.MetricFamily) {
	t.Helper()
	if path == "" {
		path = "/metrics"
	}
	got := r.metrics(path)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(got.raw))
	if err != nil {
		t.Fatalf("parse /metrics: %v\n%s", err, got.raw)
	}
	sums := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				sums[name] += m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				sums[name] += m.Gauge.GetValue()
			case dto.MetricType_HISTOGRAM:
				sums[name+"_count"] += float64(m.Histogram.GetSampleCount())
				sums[name+"_sum"] += m.Histogram.GetSampleSum()
			default:
				t.Errorf("%s: unexpected type %v", name, f.GetType())
			}
		}
	}
	return sums, families
}

// metrics reads the page where the engine has it.
func (r *rig) metrics(path string) reply {
	if !r.engine.flavour.metricsApart {
		return r.get(path)
	}
	w := httptest.NewRecorder()
	r.engine.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return reply{status: w.Code, raw: w.Body.String()}
}

// load sends a mixture through the engine: two turns of equal prompts, one
// request that leaves, one not streamed.
func load(r *rig) {
	for range 2 {
		r.together("/v1/completions", completionBody(words(40), 30), completionBody(words(40)+" x", 50), completionBody(words(7), 10))
	}
	r.post("/v1/completions", strings.Replace(completionBody(words(20), 5), `"stream":true`, `"stream":false`, 1))
}

func TestSGLangMetricsEqualStats(t *testing.T) {
	c := exact()
	c.Cache.Blocks, c.Speculation, c.Model = 100, Speculation{3, 2.5}, `a "quoted" \ name`
	bubble(t, c, func(r *rig) {
		load(r)
		got, families := scrape(t, r)
		s := r.engine.Stats()
		for name, want := range map[string]float64{
			"sglang:num_running_reqs":                  0,
			"sglang:num_queue_reqs":                    0,
			"sglang:token_usage":                       0,
			"sglang:prompt_tokens_total":               float64(s.PromptTokens),
			"sglang:generation_tokens_total":           float64(s.GeneratedTokens),
			"sglang:cached_tokens_total":               float64(s.CachedTokens),
			"sglang:spec_verify_calls_total":           float64(s.VerifySteps),
			"sglang:num_requests_total":                7,
			"sglang:num_aborted_requests_total":        0,
			"sglang:time_to_first_token_seconds_count": 7,
			"sglang:e2e_request_latency_seconds_count": 7,
			"sglang:inter_token_latency_seconds_count": float64(s.GeneratedTokens - 7),
		} {
			if got[name] != want {
				t.Errorf("%s: got %v, want %v", name, got[name], want)
			}
		}
		if s.PromptTokens != 2*(41+42+8)+21 || s.GeneratedTokens != 2*90+5 || s.CachedTokens != 2*32+16 {
			t.Errorf("totals: got %+v", s.Totals)
		}
		for _, m := range families["sglang:generation_tokens_total"].Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			want := map[string]float64{"true": 180, "false": 5}[labels["is_streaming"]]
			if m.Counter.GetValue() != want || labels["model_name"] != c.Model {
				t.Errorf("generation_tokens_total%v: got %v, want %v", labels, m.Counter.GetValue(), want)
			}
		}
	})
}

func TestVLLMMetricsEqualStats(t *testing.T) {
	c := exact()
	c.Engine, c.Cache.Blocks, c.Speculation = VLLM, 100, Speculation{3, 2.5}
	bubble(t, c, func(r *rig) {
		load(r)
		got, families := scrape(t, r)
		s := r.engine.Stats()
		for name, want := range map[string]float64{
			"vllm:num_requests_running":                          0,
			"vllm:num_requests_waiting":                          0,
			"vllm:kv_cache_usage_perc":                           0,
			"vllm:prompt_tokens_total":                           float64(s.PromptTokens),
			"vllm:generation_tokens_total":                       float64(s.GeneratedTokens),
			"vllm:prefix_cache_queries_total":                    float64(s.PromptTokens),
			"vllm:prefix_cache_hits_total":                       float64(s.CachedTokens),
			"vllm:spec_decode_num_drafts_total":                  float64(s.VerifySteps),
			"vllm:spec_decode_num_draft_tokens_total":            float64(s.DraftTokens),
			"vllm:spec_decode_num_accepted_tokens_total":         float64(s.AcceptedTokens),
			"vllm:spec_decode_num_accepted_tokens_per_pos_total": float64(s.AcceptedTokens),
			"vllm:request_success_total":                         7,
			"vllm:time_to_first_token_seconds_count":             7,
			"vllm:e2e_request_latency_seconds_count":             7,
			"vllm:inter_token_latency_seconds_count":             float64(s.GeneratedTokens - 7),
		} {
			if got[name] != want {
				t.Errorf("%s: got %v, want %v", name, got[name], want)
			}
		}
		if length := 1 + got["vllm:spec_decode_num_accepted_tokens_total"]/got["vllm:spec_decode_num_drafts_total"]; length != s.AcceptLength() {
			t.Errorf("accept length: got %v, want %v", length, s.AcceptLength())
		}
		if families["vllm:prompt_tokens_created"].GetType() != dto.MetricType_GAUGE {
			t.Error("vllm:prompt_tokens_created: got no gauge")
		}
	})
}

func TestGaugesShowThePresent(t *testing.T) {
	for engine, names := range map[string][3]string{
		SGLang: {"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"},
		VLLM:   {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"},
	} {
		c := exact()
		c.Engine, c.MaxBatch, c.KVTokens = engine, 2, 1000
		bubble(t, c, func(r *rig) {
			done := make(chan []reply)
			body := completionBody(words(9), 10)
			go func() { done <- r.together("/v1/completions", body, body, body) }()
			// Prefill of two until 30 ms, then steps of 12 ms: at 60 ms both have 3
			// tokens behind prompts of 10.
			time.Sleep(60 * time.Millisecond)
			got, _ := scrape(t, r)
			want := map[string]float64{names[0]: 2, names[1]: 1, names[2]: 0.026}
			for name, v := range want {
				if got[name] != v {
					t.Errorf("%s: got %v, want %v", name, got[name], v)
				}
			}
			if engine == SGLang {
				if raw := r.get("/get_load").raw; raw != `[{"dp_rank":0,"num_reqs":3,"num_tokens":26,"num_waiting_reqs":1}]` {
					t.Errorf("/get_load: got %s", raw)
				}
				want := `{"accelerator":"SIMULATED","loads":[{"dp_rank":0,"max_running_requests":2,"max_total_num_tokens":1000,"num_running_reqs":2,"num_used_tokens":26,"num_waiting_reqs":1,"token_usage":0.026}],"num_accelerators":1,"version":"0.5.9"}`
				if raw := r.get("/v1/loads").raw; raw != want {
					t.Errorf("/v1/loads:\n got %s\nwant %s", raw, want)
				}
				if flush := r.get("/flush_cache"); flush.status != 400 {
					t.Errorf("flush while running: got status %d, want 400", flush.status)
				}
			}
			<-done
		})
	}
}

func TestHistogramsHoldExactTimes(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		r.post("/generate", generateBody(words(9), 4))   // 20 ms, then 3 x 10 ms
		r.post("/generate", generateBody(words(189), 2)) // 200 ms, then 10 ms
		got, families := scrape(t, r)
		for name, want := range map[string]float64{
			"sglang:time_to_first_token_seconds_sum": 0.22,
			"sglang:inter_token_latency_seconds_sum": 0.04,
			"sglang:e2e_request_latency_seconds_sum": 0.26,
		} {
			if diff := got[name] - want; diff > 1e-12 || diff < -1e-12 {
				t.Errorf("%s: got %v, want %v", name, got[name], want)
			}
		}
		counts := map[float64]uint64{}
		for _, b := range families["sglang:time_to_first_token_seconds"].Metric[0].Histogram.Bucket {
			counts[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		if counts[0.1] != 1 || counts[0.2] != 2 {
			t.Errorf("TTFT buckets: got %v, want 1 below 0.1, 2 below 0.2", counts)
		}
	})
}

func TestServerInfoRollsUpAcceptLengthLate(t *testing.T) {
	c := exact()
	c.Speculation = Speculation{3, 2.5}
	avg := func(r *rig) any {
		var info struct {
			States []map[string]any `json:"internal_states"`
		}
		if err := json.Unmarshal([]byte(r.get("/server_info").raw), &info); err != nil {
			t.Fatal(err)
		}
		return info.States[0]["avg_spec_accept_length"]
	}
	bubble(t, c, func(r *rig) {
		r.post("/generate", generateBody(words(9), 20))
		if got := avg(r); got != nil {
			t.Errorf("before 40 steps: got %v, want no such key", got)
		}
		before := r.engine.Stats().VerifySteps
		r.post("/generate", generateBody(words(9), 400))
		s := r.engine.Stats()
		got, ok := avg(r).(float64)
		// The steps since the last roll-up are missing, so it differs from the truth.
		if rolled := (s.VerifySteps / 40) * 40; !ok || got < 1 || got > 4 || r.engine.rolled.steps != rolled || rolled == before {
			t.Errorf("got %v over %d steps, want the mean over %d", got, r.engine.rolled.steps, rolled)
		}
		if want := float64(r.engine.rolled.tokens) / float64(r.engine.rolled.steps); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		r.get("/flush_cache")
		if got := avg(r); got != nil {
			t.Errorf("after a flush: got %v, want no such key", got)
		}
	})
}

func TestServerInfoEchoesTheKey(t *testing.T) {
	// As the real one does: whoever reads this page has to keep the key out.
	c := exact()
	c.APIKey, c.ServerInfo = "k-123", map[string]any{"quantization": "fp8", "tp_size": 4}
	c = c.withDefaults()
	info := c.launchArguments()
	want := map[string]any{"api_key": "k-123", "admin_api_key": "admin-k-123", "quantization": "fp8", "tp_size": 4,
		"max_running_requests": 32, "disable_radix_cache": true, "speculative_algorithm": nil}
	got := map[string]any{}
	for k := range want {
		got[k] = info[k]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInfoRoutes(t *testing.T) {
	for _, tt := range []struct{ engine, path, want string }{
		{SGLang, "/v1/models", `{"data":[{"created":1767225600,"id":"m","max_model_len":32768,"object":"model","owned_by":"sglang","parent":null,"root":"w"}],"object":"list"}`},
		{VLLM, "/version", `{"version":"0.18.0"}`},
		{SGLang, "/model_info", `{"architectures":["LlamaForCausalLM"],"has_audio_understanding":false,"has_image_understanding":false,"is_generation":true,"model_path":"w","model_type":"llama","preferred_sampling_params":null,"served_model_name":"m","tokenizer_path":"w","weight_version":"default"}`},
		{SGLang, "/get_model_info", `{"architectures":["LlamaForCausalLM"],"has_audio_understanding":false,"has_image_understanding":false,"is_generation":true,"model_path":"w","model_type":"llama","preferred_sampling_params":null,"served_model_name":"m","tokenizer_path":"w","weight_version":"default"}`},
		{SGLang, "/health", ""},
		{VLLM, "/ping", ""},
		{SGLang, "/flush_cache", "Cache flushed.\n"},
	} {
		c := exact()
		c.Engine, c.Model, c.Weights = tt.engine, "m", "w"
		bubble(t, c, func(r *rig) {
			if got := r.get(tt.path); got.status != 200 || got.raw != tt.want {
				t.Errorf("%s%s:\n got %d %s\nwant 200 %s", tt.engine, tt.path, got.status, got.raw, tt.want)
			}
		})
	}
}

func TestResetPrefixCacheInDevMode(t *testing.T) {
	c := exact()
	c.Engine, c.DevMode, c.Cache.Blocks = VLLM, true, 100
	bubble(t, c, func(r *rig) {
		r.post("/v1/completions", completionBody(words(40), 1))
		if n := r.engine.Stats().CachedBlocks; n != 2 {
			t.Errorf("got %d cached blocks, want 2", n)
		}
		if got := r.post("/reset_prefix_cache", ""); got.status != 200 || got.raw != "" {
			t.Errorf("got %d %q, want an empty 200", got.status, got.raw)
		}
		if n := r.engine.Stats().CachedBlocks; n != 0 {
			t.Errorf("after the reset: got %d cached blocks, want 0", n)
		}
	})
}
