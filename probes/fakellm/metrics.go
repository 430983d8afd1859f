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
type latencies struct {
	ttft, itl, e2e *histogram

	// Of requests that have ended. Prefill runs to the first token, decode from it
	// to the last; tpot is decode over tokens but one.
	// inference is both together.
	queue, prefill, decode, inference, tpot *histogram
	// Tokens; skipped are those that speculation won.
	prompt, cached, output, skipped *histogram
}

// buckets are the upper bounds of a histogram.
type buckets []float64

type histogram struct {
	bounds buckets
	counts []int64 // one more than bounds
	sum    float64
	n      int64
}

func newHistogram(bounds buckets) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64, times int) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i] += int64(times)
	h.n += int64(times)
	h.sum += v * float64(times)
}

func newLatencies(b [3]buckets) latencies {
	l := latencies{ttft: newHistogram(b[0]), itl: newHistogram(b[1]), e2e: newHistogram(b[2]), tpot: newHistogram(b[1])}
	l.queue, l.prefill, l.decode = newHistogram(b[2]), newHistogram(b[2]), newHistogram(b[2])
	l.inference = newHistogram(b[2])
	for _, h := range []**histogram{&l.prompt, &l.cached, &l.output, &l.skipped} {
		*h = newHistogram(tokenBuckets)
	}
	return l
}

// tokenBuckets are the bounds of lengths.
var tokenBuckets = buckets{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}

// conclude observes a request that has all its tokens.
func (l *latencies) conclude(s *sequence) {
	l.e2e.observe(s.last.Sub(s.received).Seconds(), 1)
	l.queue.observe(s.admitted.Sub(s.received).Seconds(), 1)
	l.prefill.observe(s.first.Sub(s.admitted).Seconds(), 1)
	l.decode.observe(s.last.Sub(s.first).Seconds(), 1)
	l.inference.observe(s.last.Sub(s.admitted).Seconds(), 1)
	if s.produced > 1 {
		l.tpot.observe(s.last.Sub(s.first).Seconds()/float64(s.produced-1), 1)
	}
	l.prompt.observe(float64(len(s.prompt)), 1)
	l.cached.observe(float64(s.cached), 1)
	l.output.observe(float64(s.produced), 1)
	l.skipped.observe(float64(s.spec.accepted), 1)
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
	e.flavour.metrics(e, p)
	e.mu.Unlock()
	_, _ = w.Write(p.Bytes())
}

func sum(byStream [2]int64) float64 { return float64(byStream[0] + byStream[1]) }

// ratio is 0 of nothing.
func ratio(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// byReason writes finished requests by the reason of their end.
func (p *page) byReason(name string, counts map[string]int64) {
	p.family("counter", name, "Count of successfully processed requests.")
	reasons := maps.Clone(counts)
	for _, always := range []string{"stop", "length", "abort"} {
		reasons[always] += 0
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		p.line(name, float64(reasons[reason]), "finished_reason", reason)
	}
}

// speculation writes the counters of speculative decoding, where there is any.
func (p *page) speculation(prefix string, e *Engine) {
	if e.cfg.Speculation.DraftTokens == 0 {
		return
	}
	t := &e.totals
	prefix += "spec_decode_num_"
	p.value("counter", prefix+"drafts_total", "Number of spec decoding drafts.", float64(t.VerifySteps))
	p.value("counter", prefix+"draft_tokens_total", "Number of draft tokens.", float64(t.DraftTokens))
	p.value("counter", prefix+"accepted_tokens_total", "Number of accepted tokens.", float64(t.AcceptedTokens))
	p.family("counter", prefix+"accepted_tokens_per_pos_total", "Accepted tokens per draft position.")
	for i, n := range t.AcceptedPerPosition {
		p.line(prefix+"accepted_tokens_per_pos_total", float64(n), "position", strconv.Itoa(i))
	}
}

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
	if len(all) == 0 {
		fmt.Fprintf(p, "%s %s\n", name, number)
		return
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
