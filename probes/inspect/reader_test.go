package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// pages is a server that has these paths; it notes what it is asked for.
type pages struct {
	bodies map[string]string
	asked  []string
}

func (p *pages) Get(_ context.Context, path string, _ int64) (int, http.Header, []byte, error) {
	p.asked = append(p.asked, path)
	if body, ok := p.bodies[path]; ok {
		return http.StatusOK, nil, []byte(body), nil
	}
	return http.StatusNotFound, nil, []byte(`{"detail":"Not Found"}`), nil
}

// handled asks a handler without a network between.
type handled struct {
	handler http.Handler
	key     string
}

func (h handled) Get(ctx context.Context, path string, _ int64) (int, http.Header, []byte, error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if h.key != "" {
		r.Header.Set("Authorization", "Bearer "+h.key)
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Code, w.Header(), w.Body.Bytes(), nil
}

const modelList = `{"object":"list","data":[{"id":"base","root":"/models/base-7b","owned_by":"%s","max_model_len":4096},{"id":"adapter","root":"org/adapter","parent":"base","owned_by":"%[1]s"}]}`

func list(owner string) string { return fmt.Sprintf(modelList, owner) }

func TestFacts(t *testing.T) {
	for _, tt := range []struct {
		name, backend, model string
		bodies               map[string]string
		want                 probes.ServerFacts
		asked                []string
	}{
		{"sglang", "sglang-oai", "", map[string]string{
			"/v1/models": list("sglang"),
			"/server_info": `{"version":"0.5.10","model_path":"/root/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f","served_model_name":"base",
				"revision":"main","weight_version":"step-40","dtype":"bfloat16","quantization":"fp8","kv_cache_dtype":"fp8_e5m2","tp_size":4,"pp_size":1,"dp_size":2,"ep_size":null,
				"attention_backend":"fa3","prefill_attention_backend":null,"decode_attention_backend":"flashinfer","speculative_algorithm":"EAGLE3","speculative_num_draft_tokens":4,
				"disable_radix_cache":false,"random_seed":917,"startup_time":31.5,"api_key":"sk-1","admin_api_key":"sk-2","internal_states":[{"avg_spec_accept_length":2.5},{"api_key":"sk-1"},{"avg_spec_accept_length":3.5}]}`,
			"/v1/loads": `{"accelerator":"NVIDIA H200","loads":[]}`,
		}, probes.ServerFacts{
			Engine: SGLang, Version: "0.5.10", Model: "base", Weights: "meta-llama/Llama-3.1-8B", Revision: "main step-40",
			Quantization: "fp8", DType: "bfloat16", KVCacheDType: "fp8_e5m2", TensorParallel: known(4), PipelineParallel: known(1), DataParallel: known(2),
			AttentionBackend: "fa3/flashinfer", SpeculativeAlgorithm: "EAGLE3", SpeculativeTokens: known(4), PrefixCaching: known(true),
			ContextLength: known(4096), Accelerator: "NVIDIA H200", Incarnation: "31.5 917",
		}, []string{"/metrics", "/v1/loads", "/get_load", "/v1/models", "/server_info", "/v1/loads"}},
		{"sglang, older", "sglang", "", map[string]string{
			"/get_server_info": `{"model_path":"m","served_model_name":"n","weight_version":"default","dtype":"torch.float16","quantization":null,"tp_size":1,"disable_radix_cache":true,"context_length":8192}`,
		}, probes.ServerFacts{Engine: SGLang, Model: "n", Weights: "m", Quantization: "none", DType: "float16", TensorParallel: known(1), PrefixCaching: known(false), ContextLength: known(8192)}, nil},
		{"sglang behind a router", "sglang", "", map[string]string{
			"/server_info": `{"prefill":[{"version":"p"}],"decode":[{"version":"0.5.9","tp_size":8,"internal_states":[{"avg_spec_accept_length":2}]},{"version":"other"}]}`,
		}, probes.ServerFacts{Engine: SGLang, Version: "0.5.9", TensorParallel: known(8)}, nil},
		{"sglang that only names its model", "sglang", "", map[string]string{"/model_info": `{"model_path":"m","weight_version":"7"}`},
			probes.ServerFacts{Engine: SGLang, Model: "m", Weights: "m", Revision: "7"}, nil},
		{"vllm", "vllm-chat", "adapter", map[string]string{
			"/v1/models": list("vllm"), "/version": `{"version":"0.18.0"}`, "/metrics": string(file(t, "pages/vllm.prom")),
		}, probes.ServerFacts{Engine: VLLM, Version: "0.18.0", Model: "adapter", Weights: "org/adapter", KVCacheDType: "fp8_e4m3", PrefixCaching: known(true)},
			[]string{"/metrics", "/version", "/v1/models", "/server_info?config_format=json"}},
		{"vllm in development mode", "vllm", "", map[string]string{
			"/server_info?config_format=json": `{"vllm_config":{"model_config":{"quantization":"awq","dtype":"torch.bfloat16","hf_token":"hf_x"},"parallel_config":{"tensor_parallel_size":2,"pipeline_parallel_size":1,"data_parallel_size":4},
				"cache_config":{"cache_dtype":"auto","enable_prefix_caching":false},"speculative_config":{"method":"eagle","num_speculative_tokens":3},"attention_config":{"backend":"FLASH_ATTN"}}}`,
		}, probes.ServerFacts{Engine: VLLM, Quantization: "awq", DType: "bfloat16", KVCacheDType: "auto", TensorParallel: known(2), PipelineParallel: known(1), DataParallel: known(4),
			PrefixCaching: known(false), SpeculativeAlgorithm: "eagle", SpeculativeTokens: known(3), AttentionBackend: "FLASH_ATTN"}, nil},
		{"vllm as Python prints it", "vllm", "", map[string]string{
			"/server_info?config_format=json": `{"vllm_config":"model='m', speculative_config=None, tokenizer='m', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, quantization=None, kv_cache_dtype=auto, enable_prefix_caching=True, use_async=True"}`,
		}, probes.ServerFacts{Engine: VLLM, Quantization: "none", DType: "bfloat16", KVCacheDType: "auto", TensorParallel: known(2), PipelineParallel: known(1), DataParallel: known(1), PrefixCaching: known(true)}, nil},
		{"tensorrt-llm", "trtllm-serve", "", map[string]string{
			"/v1/models": list("tensorrt_llm"), "/version": `{"version":"1.2.0"}`, "/prometheus/metrics": string(file(t, "pages/trtllm.prom")),
		}, probes.ServerFacts{Engine: TRTLLM, Version: "1.2.0", Model: "base", Weights: "base-7b", ContextLength: known(4096), DType: "bfloat16", Quantization: "FP8", Accelerator: "NVIDIA H100"},
			[]string{"/prometheus/metrics", "/version", "/v1/models"}},
		{"tensorrt-llm that nobody announced", "openai-chat", "", map[string]string{"/v1/models": list("tensorrt_llm"), "/prometheus/metrics": "trtllm_num_requests_running 1"},
			probes.ServerFacts{Engine: TRTLLM, Model: "base", Weights: "base-7b", ContextLength: known(4096)},
			// Its /metrics would lose what another reader is waiting for.
			[]string{"/v1/models", "/prometheus/metrics", "/version"}},
		{"lmdeploy", "lmdeploy-chat", "", map[string]string{"/v1/models": list("lmdeploy")},
			probes.ServerFacts{Engine: LMDeploy, Model: "base", Weights: "base-7b", ContextLength: known(4096)}, []string{"/metrics", "/v1/models"}},
		{"tgi", "tgi", "", map[string]string{"/info": `{"model_id":"org/m","model_sha":"abc","model_dtype":"torch.float16","version":"3.3.4","max_total_tokens":2048}`},
			probes.ServerFacts{Engine: TGI, Version: "3.3.4", Model: "org/m", Weights: "org/m", Revision: "abc", DType: "float16", ContextLength: known(2048)}, nil},
		{"triton", "trt", "ensemble", map[string]string{"/v2": `{"name":"triton","version":"2.52.0","extensions":[]}`},
			probes.ServerFacts{Engine: Triton, Version: "2.52.0"}, []string{"/v2"}},
		{"ollama", "ollama", "tiny", map[string]string{"/api/version": `{"version":"0.17.4"}`, "/api/tags": string(file(t, "ollama/api_tags.json"))},
			probes.ServerFacts{Engine: Ollama, Version: "0.17.4", Model: "tiny:latest", Weights: "tiny:latest", Quantization: "F16",
				Revision: "fd3aa286d70e40d7aa18186e191a42efcd7d9939ed08ca48bbc3ed59320d7e69"}, []string{"/api/version", "/api/tags"}},
		{"llama-server", "llamacpp", "", llamaServer(t, "llama-server"),
			probes.ServerFacts{Engine: LlamaCPP, Version: "b9000-173442644", Model: "tiny", Weights: "tiny.gguf", ContextLength: known(2048)}, []string{"/metrics", "/props", "/slots"}},
		{"llama-server with a draft model", "openai", "", llamaServer(t, "llama-server-speculative"),
			probes.ServerFacts{Engine: LlamaCPP, Version: "b9000-173442644", Model: "tiny", Weights: "tiny.gguf", ContextLength: known(2048), SpeculativeAlgorithm: "enabled"},
			[]string{"/v1/models", "/metrics", "/props", "/slots"}},
		{"llama-server, newer", "llamacpp", "", map[string]string{"/props": `{"model_alias":"/models/tiny.gguf","model_path":"/models/tiny.gguf","model_ftype":"Q4_K - Medium","build_info":"b9800-1"}`},
			probes.ServerFacts{Engine: LlamaCPP, Version: "b9800-1", Model: "tiny.gguf", Weights: "tiny.gguf", Quantization: "Q4_K - Medium"}, nil},
		{"a hosted API", "openai-chat", "gpt", map[string]string{"/v1/models": list("somebody")},
			probes.ServerFacts{Model: "base", Weights: "base-7b", ContextLength: known(4096)}, []string{"/v1/models", "/metrics"}},
		{"nothing at all", "openai", "", nil, probes.ServerFacts{}, []string{"/v1/models", "/metrics"}},
		{"types that have changed", "sglang", "", map[string]string{"/server_info": `{"version":5,"tp_size":"two","dp_size":1.5,"dtype":{"a":1},"disable_radix_cache":"no","internal_states":{},"quantization":["fp8"]}`},
			probes.ServerFacts{Engine: SGLang, Version: "5"}, nil},
		{"pages that are not JSON", "sglang", "", map[string]string{"/server_info": "<html>", "/v1/models": "[]", "/v1/loads": "{", "/get_load": "[1]", "/metrics": "<html>"},
			probes.ServerFacts{Engine: SGLang}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &pages{bodies: tt.bodies}
			got, _ := NewReader(server, tt.backend, "").Read(t.Context(), tt.model)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if tt.asked != nil {
				if diff := cmp.Diff(tt.asked, server.asked); diff != "" {
					t.Errorf("asked for (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func llamaServer(t *testing.T, dir string) map[string]string {
	return map[string]string{
		"/metrics": string(file(t, dir+"/get_metrics.txt")), "/props": string(file(t, dir+"/get_props.txt")),
		"/slots": string(file(t, dir+"/get_slots.txt")), "/v1/models": string(file(t, dir+"/get_v1_models.txt")),
	}
}

// Where the page is off, what else shows the load stands in.
func TestSourcesOfSamples(t *testing.T) {
	for _, tt := range []struct {
		name, backend string
		bodies        map[string]string
		want          Sample
	}{
		{"sglang loads", "sglang", map[string]string{"/v1/loads": `{"loads":[{"num_running_reqs":3,"num_waiting_reqs":1,"token_usage":0.25,"speculative":{"accept_length":2.5}},{"num_running_reqs":5,"num_waiting_reqs":0,"token_usage":0.75,"speculative":{"accept_length":0}}]}`},
			Sample{Engine: SGLang, Running: known(8.0), Waiting: known(1.0), KVUsage: known(0.5), KVPeak: known(0.75), accept: known(2.5)}},
		{"sglang load, older", "sglang", map[string]string{"/get_load": `[{"dp_rank":0,"num_reqs":7,"num_waiting_reqs":3,"num_tokens":9},{"dp_rank":1,"num_reqs":2,"num_waiting_reqs":0}]`},
			Sample{Engine: SGLang, Running: known(6.0), Waiting: known(3.0)}},
		{"llama-server slots", "llamacpp", map[string]string{"/slots": `[{"id":0,"is_processing":true,"prompt":"secret"},{"id":1,"is_processing":false},{"id":2,"is_processing":true}]`},
			Sample{Engine: LlamaCPP, Running: known(2.0)}},
		{"lists of something else", "sglang", map[string]string{"/get_load": `[{"cpu":0.5}]`, "/v1/loads": `{"loads":[{"a":1}]}`}, Sample{}},
		{"slots of something else", "llamacpp", map[string]string{"/slots": `[{"a":1}]`}, Sample{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &pages{bodies: tt.bodies}
			reader := NewReader(server, tt.backend, "")
			_, got := reader.Read(t.Context(), "")
			if diff := cmp.Diff(tt.want, got, sampleDiff); diff != "" {
				t.Errorf("Read's sample (-want +got):\n%s", diff)
			}
			server.asked = nil
			if diff := cmp.Diff(tt.want, reader.Sample(t.Context()), sampleDiff); diff != "" {
				t.Errorf("Sample (-want +got):\n%s", diff)
			}
			// During a run one request asks for one page, or none when there is none.
			if want := min(len(tt.bodies), 1); tt.want.Readable() && len(server.asked) != want || !tt.want.Readable() && len(server.asked) != 0 {
				t.Errorf("Sample asked for %q", server.asked)
			}
		})
	}
}

// Keys that SGLang prints among its launch arguments reach nothing that is kept.
func TestSecretsStayBehind(t *testing.T) {
	const key = "sk-very-secret-0123"
	engine, err := fakellm.New(fakellm.Config{APIKey: key, ServerInfo: map[string]any{
		"model_path": "https://user:" + key + "@hub.example/m?token=" + key, "hf_token": key, "tokenizer_path": key,
	}})
	if err != nil {
		t.Fatal(err)
	}
	facts, sample := NewReader(handled{engine.Handler(), key}, "sglang", "").Read(t.Context(), "")
	if facts.Weights != "https://hub.example/m" || facts.Version != "0.5.9" || facts.DType != "bfloat16" {
		t.Errorf("facts %+v: want those of a server that answered", facts)
	}
	shown, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%s %+v %#v %+v", shown, facts, facts, sample); strings.Contains(all, "very-secret") {
		t.Errorf("the key is in %s", all)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		" org/m ": "org/m", "a\x1b[2J\nb": "a[2Jb", "\xff\xfea": "a", "s3://k:s@bucket/m?sig=x#y": "s3://bucket/m",
		strings.Repeat("é", 100): strings.Repeat("é", 60), "C:/models/m": "C:/models/m",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// A server that fails or hangs costs a bounded time and no error.
func TestUnreachable(t *testing.T) {
	calls := 0
	hanging := getterFunc(func(ctx context.Context) error {
		calls++
		deadline, ok := ctx.Deadline()
		if !ok || time.Until(deadline) > getTime {
			t.Errorf("call %d may take %v, want at most %v", calls, time.Until(deadline), getTime)
		}
		return errors.New("refused")
	})
	facts, sample := NewReader(hanging, "vllm", "").Read(t.Context(), "m")
	if facts != (probes.ServerFacts{Engine: VLLM}) || sample.Readable() || calls == 0 {
		t.Errorf("facts %+v, readable %v after %d calls; want nothing but the dialect's engine", facts, sample.Readable(), calls)
	}
}

type getterFunc func(ctx context.Context) error

func (f getterFunc) Get(ctx context.Context, _ string, _ int64) (int, http.Header, []byte, error) {
	return 0, nil, nil, f(ctx)
}

func TestEngineOfBackend(t *testing.T) {
	for backend, want := range map[string]string{
		"sglang": SGLang, "sglang-native": SGLang, "sglang-oai-chat": SGLang, "vllm": VLLM, "vllm-chat": VLLM, "lmdeploy-chat": LMDeploy,
		"trt": Triton, "trtllm-serve": TRTLLM, "trtllm-serve-chat": TRTLLM, "tgi": TGI, "llamacpp": LlamaCPP, "ollama": Ollama, "dynamo": Dynamo,
		"openai": "", "openai-chat": "", "anthropic": "", "truss": "",
	} {
		if got := engineOf(backend); got != want {
			t.Errorf("engine of %s = %q, want %q", backend, got, want)
		}
	}
}

// The simulated engines' own pages are read to the last name.
func TestSimulatedPagesHaveNoUnreadName(t *testing.T) {
	for engine, want := range map[string][]quantity{
		fakellm.SGLang: {requests, generated, verifySteps, queriedTokens, hitTokens, ttftSum, ttftCount, tpotSum, tpotCount},
		fakellm.VLLM:   {requests, generated, drafts, draftTokens, accepted, queriedTokens, hitTokens, preemptions, ttftSum, ttftCount, tpotSum, tpotCount},
		fakellm.Triton: {requests},
	} {
		e, err := fakellm.New(fakellm.Config{Engine: engine, Speculation: fakellm.Speculation{DraftTokens: 3, AcceptLength: 2.8}})
		if err != nil {
			t.Fatal(err)
		}
		where, page := handled{e.Handler(), ""}, ""
		if engine == fakellm.Triton { // has it on a port of its own
			where, page = handled{e.MetricsHandler(), ""}, "http://h:8002/metrics"
		}
		_, sample := NewReader(where, engine, page).Read(t.Context(), "")
		var got []quantity
		for q, v := range sample.counters {
			if v.IsKnown() {
				got = append(got, quantity(q))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: counters (-want +got):\n%s", engine, diff)
		}
	}
}

// The page that was named is the only one that is asked, wherever the engine has its own.
func TestNamedPage(t *testing.T) {
	const page = "http://h:9000/metrics"
	for _, backend := range []string{"tgi", "trt", "sglang", "openai", "trtllm-serve"} {
		server := &pages{bodies: map[string]string{page: "tgi_queue_size 3\n", "/metrics": "tgi_queue_size 5\n", "/prometheus/metrics": "tgi_queue_size 7\n"}}
		reader := NewReader(server, backend, page)
		_, sample := reader.Read(t.Context(), "m")
		again := reader.Sample(t.Context())
		if sample.Waiting != known(3.0) || again.Waiting != known(3.0) || sample.Engine != TGI {
			t.Errorf("%s: queue %v of %q, then %v; want 3 of the page", backend, sample.Waiting, sample.Engine, again.Waiting)
		}
		if slices.Contains(server.asked, "/metrics") || slices.Contains(server.asked, "/prometheus/metrics") {
			t.Errorf("%s: asked %q", backend, server.asked)
		}
	}
	server := &pages{bodies: map[string]string{"/metrics": "tgi_queue_size 5\n"}}
	if _, sample := NewReader(server, "tgi", page).Read(t.Context(), "m"); sample.Readable() {
		t.Errorf("a sample of %q although its page is not there", sample.Engine)
	}
}

// A request of an ensemble is counted by each of its models, and is one request.
func TestTritonPage(t *testing.T) {
	s := parsePage([]byte(`nv_inference_request_success{model="ensemble",version="1"} 40
nv_inference_request_success{model="preprocessing",version="1"} 41
nv_inference_request_success{model="tensorrt_llm",version="1"} 40
nv_inference_request_success{model="postprocessing",version="1"} 40
nv_inference_request_failure{model="ensemble",reason="OTHER",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 7
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.6
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 2000
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
`))
	if s.Engine != Triton || s.counters[requests] != known(41.0) || s.Waiting != known(3.0) || s.Running != known(4.0) || s.KVUsage != known(0.6) {
		t.Errorf("engine %q, requests %v, waiting %v, running %v, kv %v", s.Engine, s.counters[requests], s.Waiting, s.Running, s.KVUsage)
	}
}
