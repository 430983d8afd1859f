package fakellm

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// dynamo is NVIDIA Dynamo's front end: the OpenAI routes, no space behind "data:",
// and annotations and errors as events that have a name and a comment.
var dynamo = flavour{
	version: "0.9.0",
	routes: map[string]*route{
		"POST /v1/completions":      {read: readDynamo(readCompletion), write: newDynamoRenderer},
		"POST /v1/chat/completions": {read: readDynamo(readChat), write: newDynamoRenderer, chat: true},
	},
	pages: map[string]handler{
		"GET /health": (*Engine).dynamoHealth, "GET /live": (*Engine).dynamoHealth, "GET /v1/models": (*Engine).models,
	},
	metrics:      (*Engine).dynamoMetrics,
	buckets:      vllm.buckets,
	guards:       underV1,
	unknownModel: "Model not found: %s",
	failure: func(dst []byte, _ *route, bad refusal) []byte {
		return fmt.Appendf(dst, `{"message":%s,"type":%q,"code":%d}`, appendString(nil, bad.message), http.StatusText(bad.status), bad.status)
	},
	report: func(dst []byte, _ *route, bad refusal) []byte {
		dst = append(dst, "event: error\n: "...)
		return append(appendString(dst, bad.message), "\n\n"...)
	},
}

// readDynamo takes the prompt's ids where the request brings them.
func readDynamo(read func(*Engine, *ask) error) func(*Engine, *ask) error {
	return func(e *Engine, a *ask) error {
		err := read(e, a)
		if ids := a.NvExt.TokenData; len(ids) > 0 {
			a.prompt, err = e.checkIDs("nvext.token_data", ids)
		}
		return err
	}
}

// dynamoWords tell the role in the first delta only.
var dynamoWords = wording{
	mark:       "data:",
	id:         [2]string{"cmpl-", "chatcmpl-"},
	apart:      [2]bool{true, true},
	usageApart: [2]bool{true, true},
	role:       inFirstDelta,
	reasoning:  "reasoning_content",
	finishBody: `{"content":null}`,
	choice:     logprobsChoice,
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		dst = continuousUsage(dst, r, at)
		if at >= inUsage {
			dst = r.x.appendNvExt(dst)
		}
		return dst
	},
	usage: cachedUsage,
	preamble: func(dst []byte, r *openaiRenderer) []byte {
		if !slices.Contains(r.x.ask.NvExt.Annotations, "llm_metrics") {
			return dst
		}
		dst = append(dst, "event: llm_metrics\n: "...)
		dst = appendField(dst, `{"input_tokens":`, len(r.x.seq.prompt))
		dst = appendField(dst, `,"output_tokens":`, r.n)
		return append(dst, "}\n\n"...)
	},
}

// appendNvExt writes the extra fields that were asked for.
func (x *exchange) appendNvExt(dst []byte) []byte {
	fields := x.ask.NvExt.ExtraFields
	worker, timing := slices.Contains(fields, "worker_id"), slices.Contains(fields, "timing")
	if !worker && !timing {
		return dst
	}
	dst = append(dst, `,"nvext":{`...)
	if worker {
		dst = append(dst, `"worker_id":{"decode_worker_id":7}`...)
	}
	if timing {
		dst = appendPart(dst, `"timing":{"ttft_ms":`)
		dst = strconv.AppendFloat(dst, float64(x.first.Sub(x.seq.received))/float64(time.Millisecond), 'g', -1, 64)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// dynamoRenderer adds the annotations that come before the first token.
type dynamoRenderer struct {
	*openaiRenderer
	id string
}

func newDynamoRenderer(x *exchange, id string) renderer {
	return dynamoRenderer{worded(&dynamoWords)(x, id).(*openaiRenderer), id}
}

func (r dynamoRenderer) opens() bool {
	return slices.Contains(r.x.ask.NvExt.Annotations, "request_id") || slices.Contains(r.x.ask.NvExt.Annotations, "token_ids")
}

func (r dynamoRenderer) open(dst []byte) []byte {
	if slices.Contains(r.x.ask.NvExt.Annotations, "request_id") {
		dst = append(dst, "event: request_id\n: "...)
		dst = append(appendString(dst, r.id), "\n\n"...)
	}
	if slices.Contains(r.x.ask.NvExt.Annotations, "token_ids") {
		dst = append(dst, "event: token_ids\n: "...)
		dst = append(appendJSON(dst, r.x.seq.prompt), "\n\n"...)
	}
	return dst
}

func (e *Engine) dynamoHealth(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"status": "healthy", "endpoints": []string{"dyn://dynamo.backend.generate"}}))
}

// dynamoMetrics are the front end's. The caller holds the lock.
func (e *Engine) dynamoMetrics(p *page) {
	g, t, d := e.gaugesLocked(), &e.totals, &e.done
	p.labels = labels("model", e.cfg.Model)
	p.family("counter", "dynamo_frontend_requests_total", "Total number of LLM requests processed")
	p.line("dynamo_frontend_requests_total", float64(d.requests[0]), "request_type", "unary", "status", "success")
	p.line("dynamo_frontend_requests_total", float64(d.requests[1]), "request_type", "stream", "status", "success")
	p.line("dynamo_frontend_requests_total", float64(t.Refused), "request_type", "unary", "status", "error")
	p.line("dynamo_frontend_requests_total", float64(t.Aborted), "request_type", "stream", "status", "error")
	p.value("gauge", "dynamo_frontend_inflight_requests", "Number of inflight requests", float64(g.running+g.waiting))
	p.value("gauge", "dynamo_frontend_queued_requests", "Number of requests that wait for their first token", float64(g.waiting))
	p.value("counter", "dynamo_frontend_output_tokens_total", "Total number of output tokens generated", float64(t.GeneratedTokens))
	p.histogram("dynamo_frontend_input_sequence_tokens", "Input sequence length in tokens", e.lat.prompt)
	p.histogram("dynamo_frontend_output_sequence_tokens", "Output sequence length in tokens", e.lat.output)
	p.histogram("dynamo_frontend_cached_tokens", "Number of cached tokens per request", e.lat.cached)
	p.histogram("dynamo_frontend_time_to_first_token_seconds", "Time to first token in seconds", e.lat.ttft)
	p.histogram("dynamo_frontend_inter_token_latency_seconds", "Inter-token latency in seconds", e.lat.itl)
	p.histogram("dynamo_frontend_request_duration_seconds", "Duration of LLM requests", e.lat.e2e)
	p.value("gauge", "dynamo_frontend_model_context_length", "Maximum context length", float64(e.cfg.ContextLength))
	p.value("gauge", "dynamo_frontend_model_kv_cache_block_size", "KV cache block size", float64(e.cfg.Cache.BlockTokens))
	p.value("gauge", "dynamo_frontend_model_max_num_seqs", "Maximum number of sequences in a batch", float64(e.cfg.MaxBatch))
}
