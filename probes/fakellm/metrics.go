package fakellm

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// latencies are the engine's own histograms, in seconds, measured at step ends:
// they know nothing of queues and networks in front of the engine.
type latencies struct{ ttft, itl, e2e *histogram }

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
	return latencies{newHistogram(b[0]), newHistogram(b[1]), newHistogram(b[2])}
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
