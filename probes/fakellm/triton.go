package fakellm

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// triton is TensorRT-LLM behind Triton: streams end with the body, errors are
// bare strings. Its metrics page is on a port of its own.
var triton = flavour{
	version: "2.60.0",
	adapter: tritonAdapter,
	routes: map[string]*route{
		"POST /v2/models/{model}/generate_stream":                    &tritonStream,
		"POST /v2/models/{model}/versions/{version}/generate_stream": &tritonStream,
		"POST /v2/models/{model}/generate":                           &tritonWhole,
		"POST /v2/models/{model}/versions/{version}/generate":        &tritonWhole,
	},
	pages: map[string]handler{
		"GET /v2/health/ready":          healthy,
		"GET /v2/health/live":           healthy,
		"GET /v2":                       (*Engine).tritonServer,
		"GET /v2/models/{model}":        (*Engine).tritonModel,
		"GET /v2/models/{model}/ready":  healthy,
		"GET /v2/models/{model}/config": (*Engine).tritonConfig,
	},
	metrics:      (*Engine).tritonMetrics,
	metricsApart: true,
	buckets:      vllm.buckets,
	guards:       func(string) bool { return false }, // there are no keys
	failure:      func(dst []byte, _ *route, bad refusal) []byte { return bareError(dst, bad) },
	report:       tritonReport,
	lost: func(w http.ResponseWriter, status int) {
		writeJSON(w, status, bareError(nil, refusal{message: http.StatusText(status)}))
	},
}

func tritonReport(dst []byte, _ *route, bad refusal) []byte {
	return append(bareError(append(dst, "data: "...), bad), "\n\n"...)
}

var (
	tritonStream = route{read: readTriton, write: newTritonRenderer, native: true, stream: always}
	tritonWhole  = route{read: readTriton, write: newTritonRenderer, native: true, stream: never}
)

// The models of the usual repository. The ensemble sends deltas; the other one
// sends all text so far when it is asked to accumulate tokens.
const (
	tritonEnsemble = "ensemble"
	tritonScripted = "tensorrt_llm_bls"
)

// tritonModelOf is the model in a path; empty if it is not served.
func tritonModelOf(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) < 4 || parts[3] != tritonEnsemble && parts[3] != tritonScripted {
		return ""
	}
	return parts[3]
}

// readTriton reads a generate request. There is no ignore_eos: an end_id that is no
// token does the same.
func readTriton(e *Engine, a *ask) error {
	if tritonModelOf(a.path) == "" {
		return badRequest("Request for unknown model: '%s' is not found", strings.Split(a.path, "/")[3])
	}
	a.limit, a.usual, a.temperature = a.MaxTokens, 16, a.Temperature
	a.minTokens = max(a.MinLength, a.MinTokens)
	a.ignoreEOS = a.EndID >= firstSeenToken+maxSeenTokens
	if a.TextInput == "" {
		return fmt.Errorf("expected input 'text_input' for model '%s'", tritonModelOf(a.path))
	}
	a.prompt = e.tok.append([]int32{tokenBOS}, a.TextInput)
	return nil
}

// tritonRenderer writes generate_stream and generate.
type tritonRenderer struct {
	draft
	head       []byte // an event up to the text
	cumulative bool
}

func newTritonRenderer(x *exchange, _ string) renderer {
	model := tritonModelOf(x.ask.path)
	r := &tritonRenderer{draft: draft{x: x}, cumulative: model == tritonScripted && x.ask.AccumulateTokens}
	if _, wrong := x.faults.find(WrongModel); wrong {
		model = x.model()
	}
	r.head = fmt.Appendf(nil, `{"model_name":%q,"model_version":"1","sequence_end":false,"sequence_id":0,"sequence_index":0,"sequence_start":false,"text_output":"`, model)
	return r
}

func (r *tritonRenderer) event(dst []byte, n int, _ bool) []byte {
	a := &r.x.seq.answer
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	dst = append(dst, "data: "...)
	dst = append(dst, r.head...)
	if r.cumulative {
		r.collect(n)
		dst = append(dst, r.text...)
	} else {
		from, _, to := r.advance(n)
		dst = a.appendText(dst, from, to)
	}
	return append(r.appendAsked(dst, n), "\n\n"...)
}

// appendAsked closes an event with what the request asked for. The number of
// output tokens is that of this event, as the backend counts.
func (r *tritonRenderer) appendAsked(dst []byte, n int) []byte {
	dst = append(dst, '"')
	ask := r.x.ask
	if ask.ReturnNumInputTokens {
		dst = appendField(dst, `,"num_input_tokens":`, len(r.x.seq.prompt))
	}
	if ask.ReturnNumOutputTokens {
		dst = appendField(dst, `,"num_output_tokens":`, n)
	}
	if ask.ReturnPerfMetrics {
		block, cached := r.x.cfg.Cache.BlockTokens, r.x.cached()
		blocks := (len(r.x.seq.prompt) + block - 1) / block
		dst = appendField(dst, `,"kv_cache_reused_blocks":`, cached/block)
		dst = appendField(dst, `,"kv_cache_alloc_new_blocks":`, blocks-cached/block)
		dst = appendField(dst, `,"kv_cache_alloc_total_blocks":`, blocks)
		dst = append(dst, `,"acceptance_rate":`...)
		dst = strconv.AppendFloat(dst, ratio(int64(r.x.accepted), int64(r.x.drafts)), 'g', -1, 64)
		dst = appendField(dst, `,"total_accepted_draft_tokens":`, r.x.accepted)
		dst = appendField(dst, `,"total_draft_tokens":`, r.x.drafts)
	}
	return append(dst, '}')
}

func (r *tritonRenderer) finish(dst []byte, failure string) []byte {
	if failure == "" {
		return dst
	}
	return tritonReport(dst, nil, refusal{message: failure})
}

func (r *tritonRenderer) whole(dst []byte) []byte {
	dst = append(dst, r.head...)
	dst = append(dst, r.text...)
	return r.appendAsked(dst, r.n)
}

func (e *Engine) tritonServer(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"name": "triton", "version": e.config().Version,
		"extensions": []string{"classification", "sequence", "model_repository", "schedule_policy", "model_configuration", "statistics", "generate"},
	}))
}

type tensor struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
}

// tritonModel lists the inputs under their newer names and the older ones that are
// still taken.
func (e *Engine) tritonModel(w http.ResponseWriter, r *http.Request) {
	model := tritonModelOf(r.URL.Path)
	if model == "" {
		e.fail(w, *badRequest("Request for unknown model: '%s' is not found", r.PathValue("model")))
		return
	}
	var inputs, outputs []tensor
	for _, in := range [][2]string{{"text_input", "BYTES"}, {"max_tokens", "INT32"}, {"end_id", "INT32"}, {"temperature", "FP32"},
		{"top_p", "FP32"}, {"min_tokens", "INT32"}, {"min_length", "INT32"}, {"stream", "BOOL"}, {"return_num_input_tokens", "BOOL"},
		{"return_num_output_tokens", "BOOL"}, {"return_perf_metrics", "BOOL"}} {
		inputs = append(inputs, tensor{in[0], in[1], []int{-1, 1}})
	}
	for _, out := range [][2]string{{"text_output", "BYTES"}, {"num_input_tokens", "INT32"}, {"num_output_tokens", "INT32"}} {
		outputs = append(outputs, tensor{out[0], out[1], []int{-1, -1}})
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"name": model, "versions": []string{"1"}, "platform": "ensemble", "inputs": inputs, "outputs": outputs,
	}))
}

func (e *Engine) tritonConfig(w http.ResponseWriter, r *http.Request) {
	model := tritonModelOf(r.URL.Path)
	if model == "" {
		e.fail(w, *badRequest("Request for unknown model: '%s' is not found", r.PathValue("model")))
		return
	}
	c := e.config()
	value := func(s string) object { return object{"string_value": s} }
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"name": model, "platform": "ensemble", "max_batch_size": c.MaxBatch,
		"model_transaction_policy": object{"decoupled": true},
		"parameters": object{
			"gpt_model_path": value(c.Weights), "gpt_model_type": value("inflight_fused_batching"),
			"max_tokens_in_paged_kv_cache": value(strconv.Itoa(c.KVTokens)),
			"enable_kv_cache_reuse":        value(strconv.FormatBool(c.Cache.Blocks > 0)),
		},
	}))
}

// tritonMetrics are the server's and the backend's. The caller holds the lock.
func (e *Engine) tritonMetrics(p *page) {
	g, t := e.gaugesLocked(), &e.totals
	p.labels = labels("model", tritonEnsemble, "version", "1")
	p.value("counter", "nv_inference_request_success", "Number of successful inference requests, all batch sizes", float64(t.Finished))
	p.value("counter", "nv_inference_request_failure", "Number of failed inference requests, all batch sizes", float64(t.Aborted+t.Refused), "reason", "OTHER")
	p.value("counter", "nv_inference_count", "Number of inferences performed (does not include cached requests)", float64(t.Finished))
	p.value("counter", "nv_inference_request_duration_us", "Cumulative inference request duration in microseconds", micros(e.lat.e2e))
	p.value("counter", "nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds", micros(e.lat.queue))
	p.histogram("nv_llm_input_token_len", "Input lengths in tokens", e.lat.prompt, "response_metric_type", "total_input_tokens")
	p.histogram("nv_llm_output_token_len", "Output lengths in tokens", e.lat.output, "response_metric_type", "total_output_tokens")
	p.family("gauge", "nv_trt_llm_request_metrics", "TRT LLM request metrics")
	for _, m := range []struct {
		kind string
		n    int
	}{{"active", g.running + g.waiting}, {"scheduled", g.running}, {"waiting", g.waiting}, {"max", e.cfg.MaxBatch}} {
		p.line("nv_trt_llm_request_metrics", float64(m.n), "request_type", m.kind)
	}
	block := e.cfg.Cache.BlockTokens
	used, most := (g.tokens+block-1)/block, e.cfg.KVTokens/block
	p.family("gauge", "nv_trt_llm_kv_cache_block_metrics", "TRT LLM KV cache block metrics")
	for _, m := range []struct {
		kind string
		v    float64
	}{{"used", float64(used)}, {"free", float64(most - used)}, {"max", float64(most)}, {"tokens_per", float64(block)}, {"fraction", g.usage}} {
		p.line("nv_trt_llm_kv_cache_block_metrics", m.v, "kv_cache_block_type", m.kind)
	}
}

// micros is the sum of a histogram of seconds, in whole microseconds.
func micros(h *histogram) float64 { return float64(int64(h.sum*1e6 + .5)) }
