package fakellm

import (
	"net/http"
	"strconv"
	"strings"
)

// vllm speaks the OpenAI routes.
var vllm = flavour{
	version: "0.18.0",
	routes: map[string]*route{
		"POST /v1/completions":      {read: readCompletion, write: worded(&vllmWords)},
		"POST /v1/chat/completions": {read: readChat, write: worded(&vllmWords), chat: true},
	},
	pages: map[string]handler{
		"GET /health": healthy, "GET /ping": healthy, "GET /v1/models": (*Engine).models, "GET /version": (*Engine).version,
		"POST /tokenize": (*Engine).tokenize, "POST /detokenize": (*Engine).detokenize,
		"POST /reset_prefix_cache": (*Engine).resetPrefixCache,
		"POST /start_profile":      (*Engine).startProfile,
		"POST /stop_profile":       (*Engine).stopProfile,
	},
	metrics: (*Engine).vllmMetrics,
	buckets: [3]buckets{
		{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560},
		{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80},
		{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680},
	},
	guards:       underV1,
	unknownModel: "The model `%s` does not exist.",
	failure:      func(dst []byte, _ *route, bad refusal) []byte { return nestedError(dst, bad) },
	report: func(dst []byte, _ *route, bad refusal) []byte {
		if bad.early {
			return earlyReport(dst, bad)
		}
		dst = append(dst, `data: {"error": {"message": `...)
		dst = appendString(dst, bad.message)
		return append(dst, `, "type": "InternalServerError", "param": null, "code": 500}}`+"\n\ndata: [DONE]\n\n"...)
	},
}

// underV1 guards what is under /v1.
func underV1(path string) bool { return strings.HasPrefix(path, "/v1/") }

// vllmWords leave out what is not there. The finish reason sits in the last
// token's chunk.
var vllmWords = wording{
	mark:       "data: ",
	id:         [2]string{"cmpl-", "chatcmpl-"},
	usageApart: [2]bool{true, true},
	roleChunk:  `{"role":"assistant","content":""}`,
	reasoning:  "reasoning",
	noCalls:    `,"tool_calls":[]`,
	nulls:      true,
	choice: func(dst []byte, r *openaiRenderer, finished bool) []byte {
		dst = logprobsChoice(dst, r, finished)
		switch {
		case r.chat == 0:
			return append(dst, `,"stop_reason":null`...)
		case finished:
			return append(dst, `,"stop_reason":null,"token_ids":null`...)
		}
		return dst
	},
	extra: continuousUsage,
	usage: func(dst []byte, r *openaiRenderer) []byte {
		dst = r.appendCounts(dst, r.n)
		if r.x.cfg.CacheReport {
			dst = appendField(dst, `,"prompt_tokens_details":{"cached_tokens":`, r.x.cached())
			dst = append(dst, '}')
		}
		if n := r.reasoned(); n > 0 {
			dst = appendField(dst, `,"completion_tokens_details":{"reasoning_tokens":`, n)
			dst = append(dst, '}')
		}
		return append(dst, '}')
	},
}

// resetPrefixCache is vLLM's; it exists in development mode only.
func (e *Engine) resetPrefixCache(w http.ResponseWriter, _ *http.Request) {
	if !e.config().DevMode {
		writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
		return
	}
	if !e.FlushCache() {
		e.fail(w, refusal{status: 500, kind: "InternalServerError", message: "Failed to reset the prefix cache: requests are running or waiting."})
		return
	}
	w.WriteHeader(http.StatusOK)
}

// vllmMetrics counts tokens as they are produced, as vLLM does. The caller holds
// the lock.
func (e *Engine) vllmMetrics(p *page) {
	g, t := e.gaugesLocked(), &e.totals
	p.created = true
	p.labels = labels("engine", "0", "model_name", e.cfg.Model)
	p.value("gauge", "vllm:num_requests_running", "Number of requests in model execution batches.", float64(g.running))
	p.value("gauge", "vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(g.waiting))
	p.value("gauge", "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", g.usage)
	p.value("gauge", "vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1,
		"block_size", strconv.Itoa(e.cfg.Cache.BlockTokens), "cache_dtype", "auto",
		"enable_prefix_caching", map[bool]string{false: "False", true: "True"}[e.cfg.Cache.Blocks > 0],
		"gpu_memory_utilization", "0.9", "num_gpu_blocks", strconv.Itoa(e.cfg.KVTokens/e.cfg.Cache.BlockTokens))
	p.value("counter", "vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", float64(t.PromptTokens))
	p.value("counter", "vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", float64(t.CachedTokens))
	p.value("counter", "vllm:prompt_tokens_total", "Number of prefill tokens processed.", float64(t.PromptTokens))
	p.value("counter", "vllm:generation_tokens_total", "Number of generation tokens processed.", float64(t.GeneratedTokens))
	p.value("counter", "vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", 0)
	p.byReason("vllm:request_success_total", e.done.byReason)
	p.speculation("vllm:", e)
	p.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", e.lat.ttft)
	p.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", e.lat.itl)
	p.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", e.lat.e2e)
}
