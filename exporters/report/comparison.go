package report

import (
	"fmt"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// comparisonRows are the numbers that are printed side by side; all are in the JSON
// line.
var comparisonRows = []struct {
	name, label string
	scale       float64
}{
	{"completed", "Successful requests", 1}, {"input_tokens", "Input tokens", 1}, {"output_tokens", "Output tokens", 1},
	{"request_throughput", "Requests (req/s)", 1}, {"output_throughput", "Output (tok/s)", 1}, {"total_throughput", "Total (tok/s)", 1},
	{"ttft_mean_seconds", "Mean TTFT (ms)", 1e3}, {"ttft_p50_seconds", "Median TTFT (ms)", 1e3}, {"ttft_p99_seconds", "P99 TTFT (ms)", 1e3},
	{"tpot_mean_seconds", "Mean TPOT (ms)", 1e3}, {"tpot_p50_seconds", "Median TPOT (ms)", 1e3}, {"tpot_p99_seconds", "P99 TPOT (ms)", 1e3},
	{"itl_p99_seconds", "P99 ITL (ms)", 1e3},
	{"e2e_mean_seconds", "Mean E2E (ms)", 1e3}, {"e2e_p50_seconds", "Median E2E (ms)", 1e3}, {"e2e_p99_seconds", "P99 E2E (ms)", 1e3},
	{"accept_length", "Accept length", 1}, {"success_ratio", "Success (%)", 100},
}

// comparison prints both sides beside each other in place of the block of one.
func (p *printer) comparison(run *probes.Run) {
	c := run.Comparison
	p.WriteByte('\n')
	p.rule(" Inferbeat Comparison ", '=')
	p.row("Run:", run.ID)
	p.side("Side A (reference):", &c.Reference)
	p.side("Side B (candidate):", &run.Target)
	p.row("Traffic request rate:", requestRate(run.Spec.Arrivals))
	p.outcome(run)
	p.row("Pairs that can be believed:", fmt.Sprintf("%d of %d", c.Used, c.Pairs))
	p.rule("Medians over Pairs", '-')
	fmt.Fprintf(p, "%-20s %5s %11s %11s %11s %9s\n", "", "pairs", "A", "B", "B - A", "B / A")
	for _, row := range comparisonRows {
		for _, m := range c.Metrics {
			if m.Name == row.name {
				fmt.Fprintf(p, "%-20s %5d %11s %11s %11s %9s\n", row.label, m.N, decimals(m.Reference*row.scale), decimals(m.Candidate*row.scale),
					decimals(m.Difference*row.scale), ratio(m.Ratio))
			}
		}
	}
	p.sentence("B - A is the median of the differences of the pairs, B / A the ratio of the medians")
	p.parts(run)
	p.rule("Validity", '-')
	p.row("Validity:", orUnknown(string(run.Validity.State)))
	p.reasons(run.Validity.Reasons)
	p.gate(c)
	p.rule("Verdict", '-')
	if c.Answer != "" {
		p.row("Answer of the gate:", string(c.Answer))
	}
	p.row("Verdict:", orUnknown(string(run.Verdict.State)))
	p.reasons(run.Verdict.Reasons)
	p.rule("", '=')
}

func (p *printer) side(label string, t *probes.Target) {
	p.row(label, fmt.Sprintf("%s (%s)", t.Name, t.Environment))
	p.row("  URL:", t.BaseURL)
	p.row("  Backend:", t.Backend)
	p.row("  Model:", orUnknown(t.Model))
}

// ratio has a digit more than other numbers: a few per cent are what is looked for.
func ratio(r probes.Optional[float64]) string {
	if v, ok := r.Get(); ok {
		return fmt.Sprintf("%.3f", v)
	}
	return unknown
}

// gate prints how the candidate was judged.
func (p *printer) gate(c *probes.Comparison) {
	if c.Answer == "" {
		return
	}
	g := &c.Grounds
	p.rule("Gate", '-')
	p.row("Pairs judged, of looks at:", fmt.Sprintf("%d, %v", g.Pairs, g.Looks))
	fmt.Fprintf(p, "%-26s %9s %9s %21s %8s %9s %s\n", "", "margin", "B worse", fmt.Sprintf("%g %% interval", 100*(1-2*g.Alpha)), "p", "can see", "answer")
	for i := range c.Judgements {
		j := &c.Judgements[i]
		name := string(j.Metric)
		if j.Primary {
			name += " *"
		}
		fmt.Fprintf(p, "%-26s %9s %9s %21s %8s %9s %s\n", name, effect(j, probes.Known(j.Margin)), effect(j, j.Effect), between(j), chance(j.P), effect(j, j.Detectable), j.Answer)
	}
	p.sentence("* decides; worse is positive whichever way the metric goes; pp are percentage points; a smaller effect than 'can see' would be missed in more than one of five gates")
	// What differs in TTFT may be the cache, and what differs in TPOT the drafts.
	for _, behind := range []struct {
		metric probes.RegressionMetric
		format string
		scale  float64
	}{{probes.MetricPrefixCacheHits, "prefix cache hits: %.1f %% on side A, %.1f %% on side B", 100}, {probes.MetricAcceptLength, "accept length: %.2f on side A, %.2f on side B", 1}} {
		if j, ok := c.Judgement(behind.metric); ok && j.Effect.IsKnown() {
			p.sentence(fmt.Sprintf(behind.format, j.Reference*behind.scale, j.Candidate*behind.scale))
		}
	}
	for _, v := range g.Controls {
		text := fmt.Sprintf("%s: %s on side A, %s on side B", v.Variable, orUnknown(v.Reference), orUnknown(v.Candidate))
		if v.Varied {
			text += " (declared to vary)"
		}
		p.sentence(text)
	}
	if len(g.Unverified) > 0 {
		p.sentence("known on neither side: " + strings.Join(g.Unverified, ", "))
	}
}

// effect is in per cent, or in percentage points.
func effect(j *probes.Judgement, e probes.Optional[float64]) string {
	v, ok := e.Get()
	switch {
	case !ok:
		return unknown
	case j.Points:
		return fmt.Sprintf("%.2f pp", 100*v+0) // +0: no negative zero
	}
	return fmt.Sprintf("%.2f %%", 100*v+0)
}

func between(j *probes.Judgement) string {
	if !j.Low.IsKnown() || !j.High.IsKnown() {
		return unknown
	}
	return effect(j, j.Low) + " .. " + effect(j, j.High)
}

func chance(p probes.Optional[float64]) string {
	if v, ok := p.Get(); ok {
		return fmt.Sprintf("%.4f", v)
	}
	return unknown
}
