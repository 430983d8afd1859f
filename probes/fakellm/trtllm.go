package fakellm

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// trtllm is trtllm-serve: the OpenAI routes, with how many tokens an iteration
// brought in every choice and cached tokens in every usage.
var trtllm = flavour{
	version: "1.3.0",
	routes: map[string]*route{
		"POST /v1/completions":      {read: readCompletion, write: worded(&trtllmWords)},
		"POST /v1/chat/completions": {read: readChat, write: worded(&trtllmWords), chat: true},
	},
	pages: map[string]handler{
		"GET /health": healthy, "GET /health_generate": healthy,
		"GET /v1/models": (*Engine).models, "GET /version": (*Engine).version,
		"GET /metrics": (*Engine).iterations,
	},
	metrics:     (*Engine).trtllmMetrics,
	metricsPath: "/prometheus/metrics",
	buckets:     vllm.buckets,
	logsSteps:   true,
	guards:      underV1,
	failure:     func(dst []byte, _ *route, bad refusal) []byte { return flatError(dst, bad) },
	report: func(dst []byte, _ *route, bad refusal) []byte {
		dst = append(dst, `data: {"error":`...)
		return append(flatError(dst, bad), "}\n\ndata: [DONE]\n\n"...)
	},
}

// trtllmWords name both channels in every delta, and leave a finish reason out
// until there is one. A line of the role chunk ends in a space.
var trtllmWords = wording{
	mark:       "data: ",
	id:         [2]string{"cmpl-", "chatcmpl-"},
	usageApart: [2]bool{true, true},
	varies:     true,
	roleChunk:  `{"role":"assistant","content":"","reasoning_content":""}`,
	roleEnd:    " \n\n",
	reasoning:  "reasoning_content",
	noThought:  `"reasoning_content":""`,
	noContent:  `"content":""`,
	choice: func(dst []byte, r *openaiRenderer, finished bool) []byte {
		if finished {
			dst = plainChoice(dst, r, true)
		}
		dst = append(dst, `,"avg_decoded_tokens_per_iter":`...)
		return strconv.AppendFloat(dst, ratio(int64(r.x.shown), int64(r.x.steps)), 'g', -1, 64)
	},
	extra: continuousUsage,
	usage: cachedUsage,
}

// stepRecord is what one step did.
type stepRecord struct {
	at               time.Time // its end
	length           time.Duration
	prefill          bool
	batch            int
	gauges           gauges
	drafts, accepted int64
	drafted          int64 // sequences that were verified
}

// maxStepRecords bounds what is kept for a reader that may never come.
const maxStepRecords = 1000

// logStep notes the step that has just ended. The caller holds the lock.
func (e *Engine) logStep(before *Totals, at time.Time) {
	if len(e.steps) == maxStepRecords {
		e.steps = slices.Delete(e.steps, 0, maxStepRecords/2)
	}
	t := &e.totals
	e.steps = append(e.steps, stepRecord{
		at: at, length: e.length, prefill: e.prefilling, batch: len(e.batch), gauges: e.gaugesLocked(),
		drafts: t.DraftTokens - before.DraftTokens, accepted: t.AcceptedTokens - before.AcceptedTokens,
		drafted: t.VerifySteps - before.VerifySteps,
	})
}

// iterations tells what each step did since somebody asked last.
func (e *Engine) iterations(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	steps, c, t := e.steps, e.cfg, e.totals
	e.steps = nil
	e.mu.Unlock()
	first := int(t.PrefillSteps+t.DecodeSteps) - len(steps)
	list := make([]object, len(steps))
	for i, s := range steps {
		list[i] = s.describe(first+i+1, c, &t)
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, list))
}

func (s *stepRecord) describe(iter int, c *Config, t *Totals) object {
	context, generation := 0, s.batch
	if s.prefill {
		context, generation = s.batch, 0
	}
	block := c.Cache.BlockTokens
	used := (s.gauges.tokens + block - 1) / block
	out := object{
		"iter": iter, "timestamp": s.at.UTC().Format("01-02-2006 15:04:05.000000"),
		"iterLatencyMS":     float64(s.length) / float64(time.Millisecond),
		"numActiveRequests": s.batch, "numQueuedRequests": s.gauges.waiting, "maxNumActiveRequests": c.MaxBatch,
		"kvCacheStats": object{
			"maxNumBlocks": c.KVTokens / block, "usedNumBlocks": used, "freeNumBlocks": c.KVTokens/block - used, "tokensPerBlock": block,
			"reusedBlocks": t.CachedTokens / int64(block), "cacheHitRate": ratio(t.CachedTokens, t.PromptTokens),
		},
		"inflightBatchingStats": object{
			"numScheduledRequests": s.batch, "numContextRequests": context, "numGenRequests": generation, "numPausedRequests": 0,
		},
	}
	if c.Speculation.DraftTokens > 0 && s.drafted > 0 {
		out["specDecodingStats"] = object{
			"numDraftTokens": s.drafts, "numAcceptedTokens": s.accepted, "numRequestsWithDraftTokens": s.drafted,
			"acceptanceLength": 1 + ratio(s.accepted, s.drafted),
		}
	}
	return out
}

// trtllmMetrics is the page at /prometheus/metrics. The caller holds the lock.
func (e *Engine) trtllmMetrics(p *page) {
	g, t := e.gaugesLocked(), &e.totals
	block := int64(e.cfg.Cache.BlockTokens)
	p.labels = labels("model_name", e.cfg.Model, "engine_type", "trtllm")
	p.value("gauge", "trtllm_num_requests_running", "Number of active requests.", float64(g.running))
	p.value("gauge", "trtllm_num_requests_waiting", "Number of queued requests.", float64(g.waiting))
	p.value("gauge", "trtllm_kv_cache_utilization", "KV cache utilization.", g.usage)
	p.value("gauge", "trtllm_kv_cache_hit_rate", "KV cache hit rate.", ratio(t.CachedTokens, t.PromptTokens))
	p.value("counter", "trtllm_kv_cache_reused_blocks_total", "Reused KV cache blocks.", float64(t.CachedTokens/block))
	p.value("counter", "trtllm_kv_cache_missed_blocks_total", "Missed KV cache blocks.", float64((t.PromptTokens-t.CachedTokens)/block))
	p.value("counter", "trtllm_prompt_tokens_total", "Number of prompt tokens.", float64(t.PromptTokens))
	p.value("counter", "trtllm_prompt_cached_tokens_total", "Number of prompt tokens found in the cache.", float64(t.CachedTokens))
	p.value("counter", "trtllm_generation_tokens_total", "Number of generated tokens.", float64(t.GeneratedTokens))
	p.byReason("trtllm_request_success_total", e.done.byReason)
	if e.cfg.Speculation.DraftTokens > 0 {
		p.value("counter", "trtllm_spec_decode_num_draft_tokens_total", "Number of draft tokens.", float64(t.DraftTokens))
		p.value("counter", "trtllm_spec_decode_num_accepted_tokens_total", "Number of accepted draft tokens.", float64(t.AcceptedTokens))
		p.value("gauge", "trtllm_spec_decode_acceptance_length", "Mean acceptance length.", t.AcceptLength())
	}
	p.histogram("trtllm_time_to_first_token_seconds", "Histogram of time to first token in seconds.", e.lat.ttft)
	p.histogram("trtllm_time_per_output_token_seconds", "Histogram of time per output token in seconds.", e.lat.tpot)
	p.histogram("trtllm_e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", e.lat.e2e)
	p.histogram("trtllm_request_queue_time_seconds", "Histogram of time in the queue in seconds.", e.lat.queue)
}
