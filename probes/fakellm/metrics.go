package fakellm

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// latencies are the engine's own histograms, in seconds, measured at step ends:
// they know nothing of queues and networks in front of the engine.
type latencies struct{ ttft, itl, e2e *histogram }

type histogram struct {
	bounds []float64
	counts []int64 // one more than bounds
	sum    float64
	n      int64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64, times int) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i] += int64(times)
	h.n += int64(times)
	h.sum += v * float64(times)
}

// The bucket bounds of the two engines.
var (
	sglangTTFT = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangITL  = []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}
	sglangE2E  = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}
	vllmTTFT   = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	vllmITL    = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	vllmE2E    = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

func newLatencies(engine string) latencies {
	if engine == VLLM {
		return latencies{newHistogram(vllmTTFT), newHistogram(vllmITL), newHistogram(vllmE2E)}
	}
	return latencies{newHistogram(sglangTTFT), newHistogram(sglangITL), newHistogram(sglangE2E)}
}

// gauges is the engine's present.
type gauges struct {
	running, waiting, tokens int
	usage                    float64 // share of the KV pool
}

func (e *Engine) gauges() gauges {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gaugesLocked()
}

func (e *Engine) gaugesLocked() gauges {
	g := gauges{running: len(e.running) + e.scripts, waiting: len(e.waiting)}
	for _, s := range e.running {
		g.tokens += len(s.prompt) + s.produced
	}
	g.usage = min(1, float64(g.tokens)/float64(e.cfg.KVTokens))
	return g
}

func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	e.mu.Lock()
	p := &page{}
	if e.cfg.Engine == VLLM {
		e.vllmMetrics(p)
	} else {
		e.sglangMetrics(p)
	}
	e.mu.Unlock()
	_, _ = w.Write(p.Bytes())
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
	p.family("counter", "vllm:request_success_total", "Count of successfully processed requests.")
	reasons := maps.Clone(e.done.byReason)
	for _, always := range []string{"stop", "length", "abort"} {
		reasons[always] += 0
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		p.line("vllm:request_success_total", float64(reasons[reason]), "finished_reason", reason)
	}
	if e.cfg.Speculation.DraftTokens > 0 {
		p.value("counter", "vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts.", float64(t.VerifySteps))
		p.value("counter", "vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.", float64(t.DraftTokens))
		p.value("counter", "vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", float64(t.AcceptedTokens))
		p.family("counter", "vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens per draft position.")
		for i, n := range t.AcceptedPerPosition {
			p.line("vllm:spec_decode_num_accepted_tokens_per_pos_total", float64(n), "position", strconv.Itoa(i))
		}
	}
	p.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", e.lat.ttft)
	p.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", e.lat.itl)
	p.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", e.lat.e2e)
}

func sum(byStream [2]int64) float64 { return float64(byStream[0] + byStream[1]) }

// page writes the Prometheus text format.
type page struct {
	bytes.Buffer
	labels  []string // `name="value"` on every sample
	created bool     // counters have a _created companion, as prometheus_client writes them
}

func labels(pairs ...string) []string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, pairs[i]+`="`+escape.Replace(pairs[i+1])+`"`)
	}
	return list
}

func (p *page) family(kind, name, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// line writes one sample.
func (p *page) line(name string, v float64, pairs ...string) {
	all := append(slices.Clone(p.labels), labels(pairs...)...)
	number := strconv.FormatFloat(v, 'g', -1, 64)
	if math.IsInf(v, 1) {
		number = "+Inf"
	}
	fmt.Fprintf(p, "%s{%s} %s\n", name, strings.Join(all, ","), number)
}

// value writes a family that has one sample, or the first of several.
func (p *page) value(kind, name, help string, v float64, pairs ...string) {
	p.family(kind, name, help)
	p.line(name, v, pairs...)
	if base, ok := strings.CutSuffix(name, "_total"); ok && p.created {
		p.family("gauge", base+"_created", help)
		p.line(base+"_created", 1767225600, pairs...)
	}
}

func (p *page) byStream(name, help string, v [2]int64) {
	p.family("counter", name, help)
	p.line(name, float64(v[0]), "is_streaming", "false")
	p.line(name, float64(v[1]), "is_streaming", "true")
}

func (p *page) histogram(name, help string, h *histogram, pairs ...string) {
	p.family("histogram", name, help)
	var below int64
	for i, n := range h.counts {
		below += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = strconv.FormatFloat(h.bounds[i], 'g', -1, 64)
		}
		p.line(name+"_bucket", float64(below), append(slices.Clone(pairs), "le", bound)...)
	}
	p.line(name+"_sum", h.sum, pairs...)
	p.line(name+"_count", float64(h.n), pairs...)
}
