package fakellm

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

// The numbers of every metrics page are those of Stats after a mixed load.
func TestEveryMetricsPageEqualsStats(t *testing.T) {
	type numbers = map[string]float64
	paths := map[string]string{
		LMDeploy: "/v1/completions", TRTLLM: "/v1/completions", TGI: "/v1/completions", LlamaCPP: "/v1/completions", Dynamo: "/v1/completions",
		Triton: "/v2/models/ensemble/generate_stream",
	}
	for engine, want := range map[string]func(s Stats) numbers{
		LMDeploy: func(s Stats) numbers {
			return numbers{"lmdeploy:num_requests_running": 0, "lmdeploy:num_requests_waiting": 0, "lmdeploy:gpu_cache_usage_perc": 0,
				"lmdeploy:prompt_tokens_total": float64(s.PromptTokens), "lmdeploy:cached_tokens_total": float64(s.CachedTokens),
				"lmdeploy:prefix_cache_hit_rate": float64(s.CachedTokens) / float64(s.PromptTokens), "lmdeploy:generation_tokens_total": float64(s.GeneratedTokens),
				"lmdeploy:request_success_total": 6, "lmdeploy:spec_decode_num_drafts_total": float64(s.VerifySteps),
				"lmdeploy:spec_decode_num_draft_tokens_total": float64(s.DraftTokens), "lmdeploy:spec_decode_num_accepted_tokens_total": float64(s.AcceptedTokens),
				"lmdeploy:spec_decode_num_accepted_tokens_per_pos_total": float64(s.AcceptedTokens), "lmdeploy:time_to_first_token_seconds_count": 6,
				"lmdeploy:time_per_output_token_seconds_count": float64(s.GeneratedTokens - 6), "lmdeploy:e2e_request_latency_seconds_count": 6,
				"lmdeploy:request_queue_time_seconds_count": 6, "lmdeploy:request_prefill_time_seconds_count": 6, "lmdeploy:request_decode_time_seconds_count": 6}
		},
		TRTLLM: func(s Stats) numbers {
			return numbers{"trtllm_num_requests_running": 0, "trtllm_num_requests_waiting": 0, "trtllm_kv_cache_utilization": 0,
				"trtllm_kv_cache_hit_rate": float64(s.CachedTokens) / float64(s.PromptTokens), "trtllm_kv_cache_reused_blocks_total": float64(s.CachedTokens / 16),
				"trtllm_prompt_tokens_total": float64(s.PromptTokens), "trtllm_prompt_cached_tokens_total": float64(s.CachedTokens),
				"trtllm_generation_tokens_total": float64(s.GeneratedTokens), "trtllm_request_success_total": 6,
				"trtllm_spec_decode_num_draft_tokens_total": float64(s.DraftTokens), "trtllm_spec_decode_num_accepted_tokens_total": float64(s.AcceptedTokens),
				"trtllm_spec_decode_acceptance_length": s.AcceptLength(), "trtllm_time_to_first_token_seconds_count": 6,
				"trtllm_time_per_output_token_seconds_count": 6, "trtllm_e2e_request_latency_seconds_count": 6, "trtllm_request_queue_time_seconds_count": 6}
		},
		TGI: func(s Stats) numbers {
			return numbers{"tgi_batch_current_size": 0, "tgi_queue_size": 0, "tgi_request_count": 7, "tgi_request_success": 6, "tgi_request_failure": 1,
				"tgi_request_duration_count": 6, "tgi_request_queue_duration_count": 6, "tgi_request_inference_duration_count": 6,
				"tgi_request_mean_time_per_token_duration_count": 6, "tgi_request_input_length_sum": float64(s.PromptTokens),
				"tgi_request_generated_tokens_sum": float64(s.GeneratedTokens), "tgi_request_skipped_tokens_sum": float64(s.AcceptedTokens)}
		},
		LlamaCPP: func(s Stats) numbers {
			return numbers{"llamacpp:prompt_tokens_total": float64(s.PromptTokens - s.CachedTokens), "llamacpp:tokens_predicted_total": float64(s.GeneratedTokens),
				"llamacpp:n_decode_total": float64(s.PrefillSteps + s.DecodeSteps), "llamacpp:requests_processing": 0, "llamacpp:requests_deferred": 0,
				"llamacpp:n_tokens_max": 42 + 50}
		},
		Dynamo: func(s Stats) numbers {
			return numbers{"dynamo_frontend_requests_total": 7, "dynamo_frontend_inflight_requests": 0, "dynamo_frontend_queued_requests": 0,
				"dynamo_frontend_output_tokens_total": float64(s.GeneratedTokens), "dynamo_frontend_input_sequence_tokens_sum": float64(s.PromptTokens),
				"dynamo_frontend_output_sequence_tokens_sum": float64(s.GeneratedTokens), "dynamo_frontend_cached_tokens_sum": float64(s.CachedTokens),
				"dynamo_frontend_time_to_first_token_seconds_count": 6, "dynamo_frontend_inter_token_latency_seconds_count": float64(s.GeneratedTokens - 6),
				"dynamo_frontend_request_duration_seconds_count": 6, "dynamo_frontend_model_context_length": 32768,
				"dynamo_frontend_model_kv_cache_block_size": 16, "dynamo_frontend_model_max_num_seqs": 32}
		},
		Triton: func(s Stats) numbers {
			return numbers{"nv_inference_request_success": 6, "nv_inference_request_failure": 1, "nv_inference_count": 6,
				"nv_llm_input_token_len_sum": float64(s.PromptTokens), "nv_llm_output_token_len_sum": float64(s.GeneratedTokens)}
		},
	} {
		c := endless(engine)
		c.Cache.Blocks, c.Speculation = 100, Speculation{3, 2.5}
		bubble(t, c, func(r *rig) {
			var bodies []string
			for _, q := range []struct {
				prompt string
				n      string
			}{{words(40), "30"}, {words(40) + " x", "50"}, {words(7), "10"}} {
				if engine == Triton {
					bodies = append(bodies, `{"text_input":"`+q.prompt+`","max_tokens":`+q.n+`}`)
				} else {
					bodies = append(bodies, `{"prompt":"`+q.prompt+`","max_tokens":`+q.n+`,"stream":true}`)
				}
			}
			for range 2 {
				r.together(paths[engine], bodies...)
			}
			r.post(paths[engine], `{`) // refused
			s := r.engine.Stats()
			if s.GeneratedTokens != 180 || s.CachedTokens != 2*32 || s.PromptTokens != 2*(41+42+8) || s.Refused != 1 || s.AcceptedTokens == 0 {
				t.Errorf("%s: totals: got %+v", engine, s.Totals)
			}
			got, _ := scrapeAt(t, r, map[string]string{TRTLLM: "/prometheus/metrics"}[engine])
			for name, v := range want(s) {
				if g, ok := got[name]; !ok || g != v {
					t.Errorf("%s: %s: got %v (%v), want %v", engine, name, g, ok, v)
				}
			}
		})
	}
}

// The present is shown too: two of three run, with 13 tokens each.
func TestEveryMetricsPageShowsThePresent(t *testing.T) {
	for engine, tt := range map[string]struct {
		path string
		want map[string]float64
	}{
		LMDeploy: {"", map[string]float64{"lmdeploy:num_requests_running": 2, "lmdeploy:num_requests_waiting": 1, "lmdeploy:gpu_cache_usage_perc": 0.026}},
		TRTLLM:   {"/prometheus/metrics", map[string]float64{"trtllm_num_requests_running": 2, "trtllm_num_requests_waiting": 1, "trtllm_kv_cache_utilization": 0.026}},
		TGI:      {"", map[string]float64{"tgi_batch_current_size": 2, "tgi_queue_size": 1}},
		LlamaCPP: {"", map[string]float64{"llamacpp:requests_processing": 2, "llamacpp:requests_deferred": 1}},
		Dynamo:   {"", map[string]float64{"dynamo_frontend_inflight_requests": 3, "dynamo_frontend_queued_requests": 1}},
	} {
		c := endless(engine)
		c.MaxBatch, c.KVTokens = 2, 1000
		bubble(t, c, func(r *rig) {
			done := make(chan []reply)
			body := completionBody(words(9), 10)
			go func() { done <- r.together("/v1/completions", body, body, body) }()
			time.Sleep(60 * time.Millisecond)
			got, _ := scrapeAt(t, r, tt.path)
			for name, v := range tt.want {
				if got[name] != v {
					t.Errorf("%s: %s: got %v, want %v", engine, name, got[name], v)
				}
			}
			if engine == LlamaCPP {
				type slot struct {
					ID   int
					Busy bool `json:"is_processing"`
					Next []struct {
						Decoded int `json:"n_decoded"`
						Remain  int `json:"n_remain"`
					} `json:"next_token"`
				}
				var slots []slot
				if err := json.Unmarshal([]byte(r.get("/slots").raw), &slots); err != nil {
					t.Fatal(err)
				}
				for i, s := range slots {
					if s.ID != i || !s.Busy || len(s.Next) != 1 || s.Next[0].Decoded != 3 || s.Next[0].Remain != 7 {
						t.Errorf("slot %d: got %+v, want 3 of 10 tokens", i, s)
					}
				}
				if len(slots) != 2 {
					t.Errorf("got %d slots, want 2", len(slots))
				}
			}
			<-done
		})
	}
}

// llama-server's page has the names, kinds and order of a recorded one.
func TestLlamaMetricsHaveTheNamesOfARecordedPage(t *testing.T) {
	sample, err := os.ReadFile("testdata/captured/llama-metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	families := func(page string) (list []string) {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "# TYPE") {
				list = append(list, line)
			} else if !strings.HasPrefix(line, "#") && (strings.Contains(line, "{") || len(strings.Fields(line)) != 2) {
				t.Errorf("got sample %q, want no labels", line)
			}
		}
		return list
	}
	bubble(t, endless(LlamaCPP), func(r *rig) {
		// 20 ms of prefill, then 3 steps of 10 ms.
		r.post("/completion", `{"prompt":"`+words(9)+`","n_predict":4}`)
		page := r.get("/metrics").raw
		if diff := cmp.Diff(families(string(sample)), families(page)); diff != "" {
			t.Errorf("(-recorded +got):\n%s", diff)
		}
		for _, want := range []string{"\nllamacpp:tokens_predicted_seconds_total 0.03\n", "\nllamacpp:n_decode_total 4\n", "\nllamacpp:n_busy_slots_per_decode 1\n", "\nllamacpp:n_tokens_max 14\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("got %s\nwant it to contain %q", page, want)
			}
		}
	})
}

func TestTritonGauges(t *testing.T) {
	c := endless(Triton)
	c.MaxBatch, c.KVTokens = 2, 1600
	bubble(t, c, func(r *rig) {
		done := make(chan []reply)
		body := `{"text_input":"` + words(9) + `","max_tokens":10}`
		go func() { done <- r.together("/v2/models/ensemble/generate_stream", body, body, body) }()
		time.Sleep(60 * time.Millisecond)
		_, families := scrapeAt(t, r, "")
		got := map[string]float64{}
		for _, name := range []string{"nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"} {
			for _, m := range families[name].Metric {
				got[m.Label[2].GetValue()] = m.Gauge.GetValue()
			}
		}
		// Two of 13 tokens in blocks of 16.
		want := map[string]float64{"active": 3, "scheduled": 2, "waiting": 1, "max": 100, "used": 2, "free": 98, "tokens_per": 16, "fraction": 26. / 1600}
		if families["nv_trt_llm_request_metrics"].GetType() != dto.MetricType_GAUGE {
			t.Error("request metrics: got no gauge")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		<-done
	})
}

// The pages that inspection and health checks read.
func TestInfoPagesOfEveryEngine(t *testing.T) {
	for _, tt := range []struct{ engine, method, path, body, want string }{
		{LMDeploy, "GET", "/health", "", `{"status":"healthy"}`},
		{LMDeploy, "GET", "/v1/models", "", `{"data":[{"created":1767225600,"id":"m","max_model_len":64,"object":"model","owned_by":"lmdeploy","parent":null,"root":"w"}],"object":"list"}`},
		{Triton, "GET", "/v2/health/ready", "", ""},
		{Triton, "GET", "/v2/health/live", "", ""},
		{Triton, "GET", "/v2", "", `{"extensions":["classification","sequence","model_repository","schedule_policy","model_configuration","statistics","generate"],"name":"triton","version":"7"}`},
		{Triton, "GET", "/v2/models/ensemble/config", "", `{"max_batch_size":2,"model_transaction_policy":{"decoupled":true},"name":"ensemble","parameters":{"enable_kv_cache_reuse":{"string_value":"false"},"gpt_model_path":{"string_value":"w"},"gpt_model_type":{"string_value":"inflight_fused_batching"},"max_tokens_in_paged_kv_cache":{"string_value":"131072"}},"platform":"ensemble"}`},
		{TRTLLM, "GET", "/version", "", `{"version":"7"}`},
		{TRTLLM, "GET", "/health", "", ""},
		{Truss, "GET", "/v1/models/model", "", "{}"},
		{Truss, "GET", "/", "", ""},
		{TGI, "GET", "/info", "", `{"docker_label":null,"max_best_of":2,"max_client_batch_size":4,"max_concurrent_requests":128,"max_input_tokens":63,"max_stop_sequences":4,"max_total_tokens":64,"model_id":"w","model_pipeline_tag":"text-generation","model_sha":null,"router":"text-generation-router","sha":"0000000000000000000000000000000000000000","validation_workers":2,"version":"7"}`},
		{TGI, "POST", "/tokenize", `{"inputs":" bafeli bababa"}`, `[{"id":262144,"start":0,"stop":0,"text":"\u003cs\u003e"},{"id":606,"start":0,"stop":7,"text":" bafeli"},{"id":0,"start":7,"stop":14,"text":" bababa"}]`},
		{LlamaCPP, "GET", "/health", "", `{"status":"ok"}`},
		{LlamaCPP, "POST", "/tokenize", `{"content":" bafeli bababa","add_special":true}`, `{"tokens":[262144,606,0]}`},
		{LlamaCPP, "POST", "/tokenize", `{"content":" bafeli","with_pieces":true}`, `{"tokens":[{"id":606,"piece":" bafeli"}]}`},
		{LlamaCPP, "POST", "/detokenize", `{"tokens":[606,0]}`, `{"content":" bafeli bababa"}`},
		{LlamaCPP, "POST", "/apply-template", `{"messages":[{"role":"user","content":"hi"}]}`, `{"prompt":"\u003c|im_start|\u003euser\nhi\u003c|im_end|\u003e\n\u003c|im_start|\u003eassistant\n"}`},
		{LlamaCPP, "POST", "/slots/1?action=erase", "", `{"id_slot":1,"n_erased":0}`},
		{Ollama, "GET", "/", "", "Ollama is running"},
		{Ollama, "GET", "/api/version", "", `{"version":"7"}`},
		{Ollama, "GET", "/v1/models", "", `{"data":[{"created":1767225600,"id":"m:latest","object":"model","owned_by":"library"}],"object":"list"}`},
		{Ollama, "POST", "/api/show", `{"model":"m"}`, `{"capabilities":["completion"],"details":{"families":["llama"],"family":"llama","format":"gguf","parameter_size":"8.0B","parent_model":"","quantization_level":"Q4_K_M"},"model_info":{"general.architecture":"llama","general.parameter_count":8030261312,"llama.context_length":64},"modified_at":"2026-01-01T00:00:00Z","parameters":"num_ctx 64"}`},
		{Dynamo, "GET", "/health", "", `{"endpoints":["dyn://dynamo.backend.generate"],"status":"healthy"}`},
		{Anthropic, "GET", "/v1/models", "", `{"data":[{"created_at":"2026-01-01T00:00:00Z","display_name":"m","id":"m","type":"model"}],"first_id":"m","has_more":false,"last_id":"m"}`},
		{OpenAIResponses, "GET", "/v1/models", "", `{"data":[{"created":1767225600,"id":"m","max_model_len":64,"object":"model","owned_by":"openai-responses","parent":null,"root":"w"}],"object":"list"}`},
	} {
		c := exact()
		c.Engine, c.Model, c.Weights, c.Version, c.ContextLength, c.MaxBatch = tt.engine, "m", "w", "7", 64, 2
		bubble(t, c, func(r *rig) {
			got := r.get
			if tt.method == "POST" {
				got = func(path string) reply { return r.post(path, tt.body) }
			}
			if page := got(tt.path); page.status != 200 || page.raw != tt.want {
				t.Errorf("%s%s:\n got %d %s\nwant 200 %s", tt.engine, tt.path, page.status, page.raw, tt.want)
			}
		})
	}
}

// Recorded pages and simulated ones have the same fields.
func TestPagesHaveTheShapesOfRecordedOnes(t *testing.T) {
	for _, tt := range []struct {
		engine, path, sample string
		drop                 []string
	}{
		{Ollama, "/api/tags", "ollama-api_tags.json", nil},
		{Ollama, "/api/ps", "ollama-api_ps.json", nil},
		{Ollama, "/v1/models", "ollama-v1_models.json", nil},
		// Fields without a value there.
		{LlamaCPP, "/v1/models", "llama-v1_models.json", []string{"modified_at", "size", "digest", "description", "tags", "parameters", "details"}},
	} {
		bubble(t, endless(tt.engine), func(r *rig) {
			raw, err := os.ReadFile("testdata/captured/" + tt.sample)
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(r.get(tt.path).raw), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(shape(want, tt.drop...), shape(got, tt.drop...)); diff != "" {
				t.Errorf("%s (-recorded +got):\n%s", tt.path, diff)
			}
		})
	}
}

func TestLlamaPropsTellTheBuild(t *testing.T) {
	bubble(t, endless(LlamaCPP), func(r *rig) {
		var props struct {
			Slots    int    `json:"total_slots"`
			Build    string `json:"build_info"`
			Path     string `json:"model_path"`
			Settings struct {
				Context int `json:"n_ctx"`
			} `json:"default_generation_settings"`
		}
		if err := json.Unmarshal([]byte(r.get("/props").raw), &props); err != nil {
			t.Fatal(err)
		}
		if props.Slots != 32 || props.Build != "b9000-173442644" || props.Path != "/models/fake-8b.gguf" || props.Settings.Context != 32768 {
			t.Errorf("got %+v", props)
		}
	})
}

func TestKeysOfEveryEngine(t *testing.T) {
	for _, tt := range []struct {
		engine, path string
		header       [2]string
		wrong        string // the answer without a key
	}{
		{LMDeploy, "/v1/models", [2]string{"Authorization", "Bearer k"}, `{"error":"Unauthorized"}`},
		{TRTLLM, "/v1/models", [2]string{"Authorization", "Bearer k"}, `{"error":"Unauthorized"}`},
		{Truss, "/v1/models/model", [2]string{"Authorization", "Api-Key k"}, `{"error":"Unauthorized"}`},
		{TGI, "/v1/models", [2]string{"Authorization", "Bearer k"}, `{"error":"Unauthorized"}`},
		{LlamaCPP, "/props", [2]string{"Authorization", "Bearer k"}, `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`},
		{Dynamo, "/v1/models", [2]string{"Authorization", "Bearer k"}, `{"error":"Unauthorized"}`},
		{Anthropic, "/v1/models", [2]string{"x-api-key", "k"}, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`},
		{OpenAIResponses, "/v1/models", [2]string{"Authorization", "Bearer k"}, `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`},
	} {
		c := endless(tt.engine)
		c.APIKey = "k"
		bubble(t, c, func(r *rig) {
			if got := r.get(tt.path); got.status != 401 || got.raw != tt.wrong {
				t.Errorf("%s%s without a key:\n got %d %s\nwant 401 %s", tt.engine, tt.path, got.status, got.raw, tt.wrong)
			}
			for key, want := range map[string]int{tt.header[1]: 200, tt.header[1] + "x": 401} {
				if got := r.getWith(tt.path, tt.header[0], key); got.status != want {
					t.Errorf("%s%s with %q: got %d, want %d", tt.engine, tt.path, key, got.status, want)
				}
			}
		})
	}
}
