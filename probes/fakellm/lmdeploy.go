package fakellm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// lmdeploy speaks the OpenAI routes and a /generate that looks like SGLang's but
// sends deltas.
var lmdeploy = flavour{
	version: "0.16.0",
	routes: map[string]*route{
		"POST /generate":            {read: readLMDeployGenerate, write: newLMDeployRenderer, native: true},
		"POST /v1/completions":      {read: readLMDeployCompletion, write: worded(&lmdeployWords)},
		"POST /v1/chat/completions": {read: readChat, write: worded(&lmdeployWords), chat: true},
	},
	pages: map[string]handler{
		"GET /health": func(_ *Engine, w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte(`{"status":"healthy"}`))
		},
		"GET /v1/models":  (*Engine).models,
		"POST /v1/encode": (*Engine).lmdeployEncode,
	},
	metrics:      (*Engine).lmdeployMetrics,
	buckets:      vllm.buckets,
	guards:       underV1,
	unknownModel: "The model '%s' does not exist.",
	failure: func(dst []byte, _ *route, bad refusal) []byte {
		return fmt.Appendf(dst, `{"message":%s,"type":"invalid_request_error","code":%d,"param":null,"object":"error"}`,
			appendString(nil, bad.message), bad.status)
	},
	report: func(dst []byte, _ *route, bad refusal) []byte {
		return fmt.Appendf(dst, "data: {\"error\":{\"message\":%s,\"type\":\"internal_error\",\"code\":%d,\"param\":null,\"object\":\"error\"}}\n\ndata: [DONE]\n\n",
			appendString(nil, bad.message), bad.status)
	},
}

// readLMDeployGenerate reads /generate: unlike in SGLang the sampling fields are
// not in an object of their own.
func readLMDeployGenerate(e *Engine, a *ask) (err error) {
	a.limit, a.usual, a.temperature, a.ignoreEOS = a.MaxTokens, 128, a.Temperature, a.IgnoreEOS
	if raw := bytes.TrimSpace(a.InputIDs); len(raw) > 0 && string(raw) != "null" {
		a.prompt, err = e.plainTokens("input_ids", raw)
		return err
	}
	a.prompt, err = e.plainTokens("prompt", a.Prompt)
	return err
}

// readLMDeployCompletion refuses a flat list of ids, which here is a list of
// prompts that are no strings.
func readLMDeployCompletion(e *Engine, a *ask) error {
	var ids []int
	if json.Unmarshal(a.Prompt, &ids) == nil && len(ids) > 0 {
		return errors.New("prompt must be a string or a list of strings")
	}
	if a.MaxCompletionTokens != nil {
		a.MaxTokens = a.MaxCompletionTokens
	}
	return readCompletion(e, a)
}

// lmdeployWords repeat the role and give the finish reason a chunk of its own. A
// tool call comes in one piece.
var lmdeployWords = wording{
	mark:       "data: ",
	apart:      [2]bool{true, true},
	usageApart: [2]bool{true, true},
	roleChunk:  `{"role":"assistant","content":""}`,
	role:       inEveryDelta,
	reasoning:  "reasoning_content",
	noContent:  `"content":""`,
	finishBody: `{"role":"assistant","content":""}`,
	wholeCalls: true,
	choice:     plainChoice,
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		if r.x.ask.StreamOptions.IncludeUsage && at < inUsage {
			return append(dst, `,"usage":null`...)
		}
		return dst
	},
	usage: func(dst []byte, r *openaiRenderer) []byte {
		if r.chat == 0 {
			return plainUsage(dst, r)
		}
		dst = r.appendCounts(dst, r.n)
		dst = appendField(dst, `,"prompt_tokens_details":{"cached_tokens":`, r.x.cached())
		dst = appendField(dst, `},"completion_tokens_details":{"reasoning_tokens":`, r.reasoned())
		return append(dst, "}}"...)
	},
}

// lmdeployRenderer writes /generate.
type lmdeployRenderer struct{ draft }

func newLMDeployRenderer(x *exchange, _ string) renderer {
	return &lmdeployRenderer{draft{x: x}}
}

func (r *lmdeployRenderer) event(dst []byte, n int, last bool) []byte {
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	from, _, to := r.advance(n)
	if last && n == 1 && r.x.seq.answer.stops {
		return dst // the end of sequence shows in the final event's count alone
	}
	dst = append(dst, `data: {"text":"`...)
	dst = r.x.seq.answer.appendText(dst, from, to)
	return append(r.appendRest(dst, from, to, "null"), "\n\n"...)
}

// appendRest writes what follows the text.
func (r *lmdeployRenderer) appendRest(dst []byte, from, to int, finish string) []byte {
	dst = append(dst, `","output_ids":[`...)
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(r.x.seq.answer.id(i)), 10)
	}
	dst = append(dst, `],"meta_info":{"finish_reason":`...)
	dst = append(dst, finish...)
	dst = appendField(dst, `,"output_token_logprobs":null,"prompt_tokens":`, len(r.x.seq.prompt))
	dst = appendField(dst, `,"completion_tokens":`, r.n)
	return append(dst, "}}"...)
}

func (r *lmdeployRenderer) reason() string {
	return `{"type":"` + r.x.seq.answer.finishReason() + `"}`
}

func (r *lmdeployRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		return r.x.e.flavour.report(dst, r.x.route, refusal{status: 500, message: failure})
	}
	dst = append(dst, `data: {"text":"`...)
	return append(r.appendRest(dst, 0, 0, r.reason()), "\n\ndata: [DONE]\n\n"...)
}

func (r *lmdeployRenderer) whole(dst []byte) []byte {
	dst = append(dst, `{"text":"`...)
	dst = append(dst, r.text...)
	return r.appendRest(dst, 0, r.n, r.reason())
}

// lmdeployEncode tokenizes.
func (e *Engine) lmdeployEncode(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Input        string `json:"input"`
		DoPreprocess bool   `json:"do_preprocess"` // apply the chat template
		AddBOS       *bool  `json:"add_bos"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		e.fail(w, *badRequest("JSON decode error: %v", err))
		return
	}
	tokens := e.encode(in.Input, in.AddBOS == nil || *in.AddBOS)
	if in.DoPreprocess {
		text, err := json.Marshal(in.Input)
		if err == nil {
			tokens, err = e.chatTokens([]message{{Role: "user", Content: text}}, openaiParts)
		}
		if err != nil {
			e.fail(w, *badRequest("%v", err))
			return
		}
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"input_ids": tokens, "length": len(tokens)}))
}

// lmdeployMetrics are vLLM's in all but names. The caller holds the lock.
func (e *Engine) lmdeployMetrics(p *page) {
	g, t := e.gaugesLocked(), &e.totals
	p.labels = labels("engine", "0", "model_name", e.cfg.Model)
	p.value("gauge", "lmdeploy:num_requests_running", "Number of requests in model execution batches.", float64(g.running))
	p.value("gauge", "lmdeploy:num_requests_waiting", "Number of requests waiting to be processed.", float64(g.waiting))
	p.value("gauge", "lmdeploy:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", g.usage)
	p.value("gauge", "lmdeploy:prefix_cache_hit_rate", "Prefix cache hit rate.", ratio(t.CachedTokens, t.PromptTokens))
	p.value("counter", "lmdeploy:prompt_tokens_total", "Number of prefill tokens processed.", float64(t.PromptTokens))
	p.value("counter", "lmdeploy:cached_tokens_total", "Number of prompt tokens found in the prefix cache.", float64(t.CachedTokens))
	p.value("counter", "lmdeploy:generation_tokens_total", "Number of generation tokens processed.", float64(t.GeneratedTokens))
	p.byReason("lmdeploy:request_success_total", e.done.byReason)
	p.speculation("lmdeploy:", e)
	p.histogram("lmdeploy:time_to_first_token_seconds", "Histogram of time to first token in seconds.", e.lat.ttft)
	p.histogram("lmdeploy:time_per_output_token_seconds", "Histogram of time per output token in seconds.", e.lat.itl)
	p.histogram("lmdeploy:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", e.lat.e2e)
	p.histogram("lmdeploy:request_queue_time_seconds", "Histogram of time in the queue.", e.lat.queue)
	p.histogram("lmdeploy:request_prefill_time_seconds", "Histogram of time in prefill.", e.lat.prefill)
	p.histogram("lmdeploy:request_decode_time_seconds", "Histogram of time in decode.", e.lat.decode)
}
