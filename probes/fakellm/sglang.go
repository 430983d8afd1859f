package fakellm

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// sglang speaks SGLang's own /generate and the OpenAI routes.
var sglang = flavour{
	version: "0.5.9",
	adapter: sglangAdapter,
	routes: map[string]*route{
		"POST /generate":            &sglangGenerate,
		"PUT /generate":             &sglangGenerate,
		"POST /v1/completions":      {read: readCompletion, write: worded(&sglangWords), lateHeaders: true},
		"POST /v1/chat/completions": {read: readChat, write: worded(&sglangWords), chat: true, lateHeaders: true},
	},
	pages: map[string]handler{
		"GET /health": healthy, "GET /v1/models": (*Engine).models,
		"POST /tokenize": (*Engine).tokenize, "POST /v1/tokenize": (*Engine).tokenize,
		"POST /detokenize": (*Engine).detokenize, "POST /v1/detokenize": (*Engine).detokenize,
		"/flush_cache":    (*Engine).flushCache,
		"/start_profile":  (*Engine).startProfile,
		"/stop_profile":   (*Engine).stopProfile,
		"GET /get_load":   (*Engine).load,
		"GET /v1/loads":   (*Engine).loads,
		"GET /model_info": (*Engine).modelInfo, "GET /get_model_info": (*Engine).modelInfo,
		"GET /server_info": (*Engine).serverInfo, "GET /get_server_info": (*Engine).serverInfo,
	},
	metrics: (*Engine).sglangMetrics,
	buckets: [3]buckets{
		{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400},
		{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8},
		{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400},
	},
	// All but health and metrics need the key.
	guards:      func(path string) bool { return !strings.HasPrefix(path, "/health") && path != "/metrics" },
	jsonOnly:    true,
	echoesModel: true,
	failure: func(dst []byte, rt *route, bad refusal) []byte {
		if rt != nil && rt.native && bad.status == http.StatusBadRequest {
			dst = append(dst, `{"error":{"message":`...)
			dst = appendString(dst, bad.message)
			return append(dst, "}}"...)
		}
		return flatError(dst, bad)
	},
	report: func(dst []byte, rt *route, bad refusal) []byte {
		if bad.early {
			return earlyReport(dst, bad)
		}
		dst = append(dst, `data: {"error":{"message":`...)
		dst = appendString(dst, bad.message)
		return fmt.Appendf(dst, ",\"type\":\"invalid_request_error\",\"code\":%d,\"retryable\":false}}\n\ndata: [DONE]\n\n", bad.status)
	},
}

var sglangGenerate = route{read: readGenerate, write: newNativeRenderer, native: true, inBand: wrongRequests}

// readGenerate reads SGLang's /generate.
func readGenerate(e *Engine, a *ask) (err error) {
	p := a.SamplingParams
	a.limit, a.usual, a.temperature, a.ignoreEOS, a.minTokens = p.MaxNewTokens, 128, p.Temperature, p.IgnoreEOS, p.MinNewTokens
	if a.InputIDs != nil {
		a.prompt, err = e.plainTokens("input_ids", a.InputIDs)
		return err
	}
	a.prompt, err = e.plainTokens("text", a.Text)
	return err
}

// sglangWords writes a null for what is not there. The finish reason of a chat has
// a chunk of its own.
var sglangWords = wording{
	mark:       "data: ",
	apart:      [2]bool{false, true},
	usageApart: [2]bool{true, true},
	roleChunk:  `{"reasoning_content":null,"role":"assistant","content":""}`,
	reasoning:  "reasoning_content",
	noThought:  `"reasoning_content":null`,
	finishBody: `{"reasoning_content":null}`,
	noCalls:    `,"tool_calls":null`,
	nulls:      true,
	choice: func(dst []byte, r *openaiRenderer, finished bool) []byte {
		dst = logprobsChoice(dst, r, finished)
		if finished && r.x.seq.answer.stops {
			return appendField(dst, `,"matched_stop":`, tokenEOS)
		}
		return append(dst, `,"matched_stop":null`...)
	},
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		if at == inWhole && r.extended() {
			return r.appendExt(dst)
		}
		return continuousUsage(dst, r, at)
	},
	usage: func(dst []byte, r *openaiRenderer) []byte {
		dst = r.appendCounts(dst, r.n)
		if cached := r.x.cached(); r.x.cfg.CacheReport && cached > 0 {
			dst = appendField(dst, `,"prompt_tokens_details":{"cached_tokens":`, cached)
			dst = append(dst, '}')
		} else {
			dst = append(dst, `,"prompt_tokens_details":null`...)
		}
		dst = appendField(dst, `,"reasoning_tokens":`, r.reasoned())
		return append(dst, '}')
	},
	closing: func(dst []byte, r *openaiRenderer) []byte {
		if !r.extended() {
			return dst
		}
		dst = append(dst, r.mark...)
		dst = append(dst, r.before...)
		dst = append(dst, `],"usage":null`...)
		dst = r.appendExt(dst)
		return append(dst, "}\n\n"...)
	},
	// A failure takes the place of the finish chunk; the usage still follows.
	failed: func(dst []byte, r *openaiRenderer, message string) []byte {
		dst = append(dst, `data: {"error": {"object": "error", "message": `...)
		dst = appendString(dst, message)
		dst = append(dst, `, "type": "INTERNAL_SERVER_ERROR", "param": null, "code": 500}}`+"\n\n"...)
		return r.conclude(dst)
	},
}

// extended reports whether SGLang's extension object was asked for.
func (r *openaiRenderer) extended() bool {
	return r.x.ask.ReturnCachedTokensDetails || r.x.ask.ReturnSpecTokensDetails
}

// appendExt writes SGLang's extension object.
func (r *openaiRenderer) appendExt(dst []byte) []byte {
	s, open := r.x.seq, byte('{')
	dst = append(dst, `,"sglext":`...)
	if r.x.ask.ReturnCachedTokensDetails {
		dst = fmt.Appendf(dst, `%c"cached_tokens_details":{"device":%d,"host":0}`, open, s.cached)
		open = ','
	}
	if r.x.ask.ReturnSpecTokensDetails {
		dst = append(dst, open)
		dst = append(dst, `"spec_tokens_details":`...)
		if c := s.spec; c.steps == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = fmt.Appendf(dst, `{"spec_verify_ct":%d,"spec_num_correct_drafts":%d,"spec_num_proposed_drafts":%d,"spec_accept_length":%v}`,
				c.steps, c.accepted, c.drafts, float64(r.n)/float64(c.steps))
		}
	}
	return append(dst, '}')
}

func (e *Engine) modelInfo(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"model_path": c.Weights, "tokenizer_path": c.Weights, "served_model_name": c.Model, "is_generation": true,
		"preferred_sampling_params": nil, "weight_version": "default", "has_image_understanding": false,
		"has_audio_understanding": false, "model_type": "llama", "architectures": []string{"LlamaForCausalLM"},
	}))
}

// launchArguments are SGLang's, which it shows with the keys in them.
func (c *Config) launchArguments() object {
	args := object{
		"model_path": c.Weights, "tokenizer_path": c.Weights, "served_model_name": c.Model, "revision": nil,
		"host": "0.0.0.0", "port": 30000, "api_key": nil, "admin_api_key": nil,
		"dtype": "bfloat16", "quantization": nil, "kv_cache_dtype": "auto", "context_length": c.ContextLength,
		"tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1, "nnodes": 1, "random_seed": c.Seed,
		"attention_backend": "fa3", "prefill_attention_backend": nil, "decode_attention_backend": nil,
		"sampling_backend": "flashinfer", "schedule_policy": "fcfs", "disable_radix_cache": c.Cache.Blocks == 0,
		"page_size": c.Cache.BlockTokens, "mem_fraction_static": 0.88, "chunked_prefill_size": -1,
		"max_running_requests": c.MaxBatch, "enable_hierarchical_cache": false, "stream_interval": 1,
		"incremental_streaming_output": false, "disaggregation_mode": "null", "enable_metrics": true,
		"enable_cache_report": c.CacheReport, "weight_version": "default",
		"speculative_algorithm": nil, "speculative_draft_model_path": nil, "speculative_num_steps": nil,
		"speculative_eagle_topk": nil, "speculative_num_draft_tokens": nil,
	}
	if c.APIKey != "" {
		// The real one prints them too: whoever reads this page must not keep them.
		args["api_key"], args["admin_api_key"] = c.APIKey.Reveal(), "admin-"+c.APIKey.Reveal()
	}
	if n := c.Speculation.DraftTokens; n > 0 {
		args["speculative_algorithm"], args["speculative_draft_model_path"] = "EAGLE", c.Weights+"-draft"
		args["speculative_num_steps"], args["speculative_eagle_topk"], args["speculative_num_draft_tokens"] = n, 1, n+1
	}
	maps.Copy(args, c.ServerInfo)
	return args
}

func (e *Engine) serverInfo(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	info, state := c.launchArguments(), c.launchArguments()
	state["memory_usage"] = object{"weight": 14.9, "kvcache": 48.2, "token_capacity": c.KVTokens, "graph": 0.6}
	state["effective_max_running_requests_per_dp"] = c.MaxBatch
	e.mu.Lock()
	r := e.rolled
	e.mu.Unlock()
	if steps := r.steps - r.baseSteps; steps > 0 {
		state["avg_spec_accept_length"] = float64(r.tokens-r.baseTokens) / float64(steps)
	}
	info["internal_states"] = []object{state}
	info["version"] = c.Version
	info["max_total_num_tokens"] = c.KVTokens
	info["max_req_input_len"] = c.ContextLength - 1
	writeJSON(w, http.StatusOK, appendJSON(nil, info))
}

func (e *Engine) load(w http.ResponseWriter, _ *http.Request) {
	s := e.gauges()
	writeJSON(w, http.StatusOK, appendJSON(nil, []object{{
		"dp_rank": 0, "num_reqs": s.running + s.waiting, "num_waiting_reqs": s.waiting, "num_tokens": s.tokens,
	}}))
}

// loads is the newer form of load, with what is known of speculation.
func (e *Engine) loads(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	c, g, accept, rate := e.cfg, e.gaugesLocked(), e.rolled.recent, e.acceptRate()
	e.mu.Unlock()
	load := object{
		"dp_rank": 0, "num_running_reqs": g.running, "num_waiting_reqs": g.waiting, "num_used_tokens": g.tokens,
		"max_total_num_tokens": c.KVTokens, "max_running_requests": c.MaxBatch, "token_usage": g.usage,
	}
	if c.Speculation.DraftTokens > 0 {
		load["speculative"] = object{"accept_length": accept, "accept_rate": rate}
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"version": c.Version, "accelerator": "SIMULATED", "num_accelerators": 1, "loads": []object{load},
	}))
}

func (e *Engine) flushCache(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !e.FlushCache() {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintln(w, "Flush cache failed: requests are running or waiting.")
		return
	}
	_, _ = fmt.Fprintln(w, "Cache flushed.")
}

// acceptRate is the share of drafts accepted in the last log interval. The caller
// holds the lock.
func (e *Engine) acceptRate() float64 {
	n := e.cfg.Speculation.DraftTokens
	if n == 0 || e.rolled.recent == 0 {
		return 0
	}
	return (e.rolled.recent - 1) / float64(n)
}

// sglangMetrics counts requests when they end, as SGLang does. The caller holds
// the lock.
func (e *Engine) sglangMetrics(p *page) {
	g, d := e.gaugesLocked(), &e.done
	request := labels("model_name", e.cfg.Model, "engine_type", "unified")
	scheduler := append(slices.Clone(request), labels("tp_rank", "0", "pp_rank", "0", "moe_ep_rank", "0")...)
	p.labels = scheduler
	p.value("gauge", "sglang:num_running_reqs", "The number of running requests.", float64(g.running))
	p.value("gauge", "sglang:num_queue_reqs", "The number of requests in the waiting queue.", float64(g.waiting))
	p.value("gauge", "sglang:num_used_tokens", "The number of used tokens.", float64(g.tokens))
	p.value("gauge", "sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", float64(e.cfg.KVTokens))
	p.value("gauge", "sglang:token_usage", "The token usage.", g.usage)
	p.value("gauge", "sglang:spec_accept_length", "The average acceptance length of speculative decoding.", e.rolled.recent)
	p.value("gauge", "sglang:spec_accept_rate", "The average acceptance rate of speculative decoding.", e.acceptRate())
	p.labels = request
	p.byStream("sglang:prompt_tokens_total", "Number of prefill tokens processed.", d.prompt)
	p.byStream("sglang:generation_tokens_total", "Number of generation tokens processed.", d.generated)
	p.byStream("sglang:num_requests_total", "Number of requests processed.", d.requests)
	p.value("counter", "sglang:cached_tokens_total", "Number of cached prompt tokens.", sum(d.cached), "cache_source", "device")
	p.value("counter", "sglang:spec_verify_calls_total", "Number of speculative verify calls.", sum(d.verify))
	p.value("counter", "sglang:num_aborted_requests_total", "Number of requests aborted.", float64(d.byReason["abort"]))
	p.histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", e.lat.ttft, "is_streaming", "true")
	p.histogram("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", e.lat.itl)
	p.histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds.", e.lat.e2e, "is_streaming", "true")
}
