package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

type object = map[string]any

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"object": "list", "data": []object{{
		"id": c.Model, "object": "model", "created": 1767225600, "owned_by": c.Engine,
		"root": c.Weights, "parent": nil, "max_model_len": c.ContextLength,
	}}}))
}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"version": e.config().Version}))
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

// resetPrefixCache is vLLM's; it exists in development mode only.
func (e *Engine) resetPrefixCache(w http.ResponseWriter, _ *http.Request) {
	if !e.config().DevMode {
		writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
		return
	}
	if !e.FlushCache() {
		writeJSON(w, http.StatusInternalServerError, appendError(nil, e.config(),
			refusal{500, "InternalServerError", "", "Failed to reset the prefix cache: requests are running or waiting."}))
		return
	}
	w.WriteHeader(http.StatusOK)
}

// tokenize answers for a prompt (a string, or in SGLang a list of them) or for
// messages.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	c := e.config()
	var in struct {
		Prompt           json.RawMessage `json:"prompt"`
		Messages         []message       `json:"messages"`
		AddSpecialTokens *bool           `json:"add_special_tokens"`
		ReturnTokenStrs  bool            `json:"return_token_strs"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, c, completions, false, *badRequest("JSON decode error: %v", err))
		return
	}
	special := in.AddSpecialTokens == nil || *in.AddSpecialTokens
	if in.Messages != nil {
		tokens, err := e.chatTokens(in.Messages)
		if err != nil {
			refuse(w, c, completions, false, *badRequest("%v", err))
			return
		}
		writeJSON(w, http.StatusOK, e.tokenization(c, in.ReturnTokenStrs, tokens))
		return
	}
	var text string
	if err := json.Unmarshal(in.Prompt, &text); err == nil {
		writeJSON(w, http.StatusOK, e.tokenization(c, in.ReturnTokenStrs, e.encode(text, special)))
		return
	}
	var texts []string
	if err := json.Unmarshal(in.Prompt, &texts); err != nil || c.Engine != SGLang {
		refuse(w, c, completions, false, *badRequest("prompt must be a string"))
		return
	}
	lists, counts := make([][]int32, len(texts)), make([]int, len(texts))
	for i, text := range texts {
		lists[i] = e.encode(text, special)
		counts[i] = len(lists[i])
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"tokens": lists, "count": counts, "max_model_len": c.ContextLength}))
}

func (e *Engine) encode(text string, special bool) []int32 {
	tokens := []int32{}
	if special {
		tokens = append(tokens, tokenBOS)
	}
	return e.tok.append(tokens, text)
}

func (e *Engine) tokenization(c *Config, withText bool, tokens []int32) []byte {
	out := object{"tokens": tokens, "count": len(tokens), "max_model_len": c.ContextLength}
	if c.Engine == VLLM {
		out["token_strs"] = nil
		if withText {
			strs := make([]string, len(tokens))
			for i, id := range tokens {
				strs[i], _ = e.tok.text(int(id))
			}
			out["token_strs"] = strs
		}
	}
	return appendJSON(nil, out)
}

// detokenize turns ids (in SGLang also a list of id lists) back into text.
func (e *Engine) detokenize(w http.ResponseWriter, r *http.Request) {
	c := e.config()
	var in struct {
		Tokens json.RawMessage `json:"tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, c, completions, false, *badRequest("JSON decode error: %v", err))
		return
	}
	key := "text"
	if c.Engine == VLLM {
		key = "prompt"
	}
	var lists [][]int
	batch := bytes.HasPrefix(bytes.TrimSpace(in.Tokens), []byte("[[")) && c.Engine == SGLang
	var err error
	if batch {
		err = json.Unmarshal(in.Tokens, &lists)
	} else {
		lists = make([][]int, 1)
		err = json.Unmarshal(in.Tokens, &lists[0])
	}
	if err != nil {
		refuse(w, c, completions, false, *badRequest("tokens must be a list of token ids"))
		return
	}
	texts := make([]string, len(lists))
	for i, ids := range lists {
		if texts[i], err = e.decode(ids); err != nil {
			refuse(w, c, completions, false, *badRequest("%v", err))
			return
		}
	}
	if batch {
		writeJSON(w, http.StatusOK, appendJSON(nil, object{key: texts}))
		return
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{key: texts[0]}))
}

func (e *Engine) decode(ids []int) (string, error) {
	var text strings.Builder
	for i, id := range ids {
		piece, ok := e.tok.text(id)
		if !ok {
			return "", fmt.Errorf("tokens[%d]: token id %d is out of vocabulary", i, id)
		}
		text.WriteString(piece)
	}
	return text.String(), nil
}
