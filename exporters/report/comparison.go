package report

import (
	"fmt"

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
	p.row("Result:", resultText(run))
	if run.Error != "" {
		p.sentence(run.Error)
	}
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
	p.rule("Verdict", '-')
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
