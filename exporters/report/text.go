// Package report prints a run for people.
//
// The story of the data: [Text] prints two blocks. The first is the block of
// bench_serving, with its labels, order, widths and number formats, so that
// scripts and eyes that know it need to learn nothing. The second has what that
// block leaves out and what decides whether its numbers mean anything: failures
// by outcome, the n behind each series, how well the client kept its own
// schedule, connections, what the server says about itself, and validity, verdict and traps with their reasons.
//
// A sweep has another form: a table of its steps, what they say about the capacity,
// and the curve as a drawing of characters. So has a comparison: two targets stand
// beside each other.
//
// What is unknown prints as n/a, never as 0.
package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	width     = 50 // of rules; bench_serving's
	textWidth = 78 // at which sentences wrap
	unknown   = "n/a"
)

// Text writes both blocks, the sweep or the comparison, in one write.
func Text(w io.Writer, run *probes.Run) error {
	var p printer
	switch {
	case run.Spec.Kind == probes.Sweep:
		p.sweep(run)
	case run.Comparison != nil:
		p.comparison(run)
	default:
		p.benchServing(run)
		p.inferbeat(run)
	}
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// printer lays out rows and rules.
type printer struct{ strings.Builder }

// row pads the label to 40 and the value to 10, as bench_serving does, trailing
// blanks included.
func (p *printer) row(label, value string) {
	fmt.Fprintf(p, "%-40s %-10s\n", plain(label), plain(value))
}

// plain replaces control characters: model names and error texts come from
// servers, and must not move the cursor of the terminal that shows them.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func (p *printer) count(label string, n int) { p.row(label, strconv.Itoa(n)) }

func (p *printer) optionalCount(label string, n probes.Optional[int]) {
	if v, ok := n.Get(); ok {
		p.count(label, v)
	} else {
		p.row(label, unknown)
	}
}

func (p *printer) float(label string, f float64) { p.row(label, decimals(f)) }

func (p *printer) optional(label string, f probes.Optional[float64]) {
	if v, ok := f.Get(); ok {
		p.float(label, v)
	} else {
		p.row(label, unknown)
	}
}

// rule centres a title in a line of fill; the odd column goes to the right, as
// in Python's format.
func (p *printer) rule(title string, fill byte) {
	room := max(width-len(title), 0)
	left := room / 2
	for range left {
		p.WriteByte(fill)
	}
	p.WriteString(title)
	for range room - left {
		p.WriteByte(fill)
	}
	p.WriteByte('\n')
}

// latency prints statistics of a series in milliseconds.
func (p *printer) latency(name string, d probes.Distribution, stats ...probes.Statistic) {
	for _, stat := range stats {
		value := unknown
		if seconds, ok := d.Get(stat).Get(); ok {
			value = decimals(seconds * 1e3)
		}
		p.row(statNames[stat]+" "+name+" (ms):", value)
	}
}

var statNames = map[probes.Statistic]string{
	probes.StatMean: "Mean", probes.StatP50: "Median", probes.StatP90: "P90",
	probes.StatP95: "P95", probes.StatP99: "P99", probes.StatMax: "Max",
}

var benchStats = []probes.Statistic{probes.StatMean, probes.StatP50, probes.StatP90, probes.StatP95, probes.StatP99}

// sentence wraps text behind a bullet.
func (p *printer) sentence(text string) {
	const bullet, indent = "- ", "  "
	line := bullet
	for i, word := range strings.Fields(text) {
		word = plain(word)
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > textWidth:
			p.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	p.WriteString(line + "\n")
}

// reasons prints one bullet each, the code first: it is what rules and searches
// know.
func (p *printer) reasons(reasons []probes.Reason) {
	for _, r := range reasons {
		p.sentence(r.Code + ": " + r.Text)
	}
}

func decimals(f float64) string {
	switch {
	case math.IsNaN(f):
		return unknown
	case math.IsInf(f, 0):
		return "inf"
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// benchServing prints the first block.
func (p *printer) benchServing(run *probes.Run) {
	s := &run.Summary
	p.WriteByte('\n')
	p.rule(" Serving Benchmark Result ", '=')
	p.row("Backend:", run.Target.Backend)
	p.row("Traffic request rate:", requestRate(run.Spec.Arrivals))
	if n := run.Spec.Arrivals.MaxConcurrency; n > 0 {
		p.count("Max request concurrency:", n)
	} else {
		p.row("Max request concurrency:", "not set")
	}
	p.count("Successful requests:", s.Completed)
	p.optional("Benchmark duration (s):", duration(s))
	p.optionalCount("Total input tokens:", s.InputTokens)
	p.optionalCount("Total input text tokens:", s.TextTokens())
	if s.ImageTokens.IsKnown() {
		p.optionalCount("Total input vision tokens:", s.ImageTokens)
	}
	p.optionalCount("Total generated tokens:", s.OutputTokens)
	p.optionalCount("Total generated tokens (retokenized):", s.RetokenizedOutput)
	p.optional("Request throughput (req/s):", s.RequestThroughput)
	p.optional("Input token throughput (tok/s):", s.InputThroughput)
	p.optional("Output token throughput (tok/s):", s.OutputThroughput)
	p.optional("Peak output token throughput (tok/s):", s.PeakOutputThroughput)
	p.count("Peak concurrent requests:", s.PeakConcurrency)
	p.optional("Total token throughput (tok/s):", s.TotalThroughput)
	p.optional("Concurrency:", s.Concurrency)
	if s.AcceptLength.IsKnown() { // bench_serving has the row only for speculative servers
		p.optional("Accept length:", s.AcceptLength)
	}
	p.rule("End-to-End Latency", '-')
	p.latency("E2E Latency", s.Distribution(probes.E2E), benchStats...)
	p.rule("Time to First Token", '-')
	p.latency("TTFT", s.Distribution(probes.TTFT), benchStats...)
	p.rule("Time per Output Token (excl. 1st token)", '-')
	p.latency("TPOT", s.Distribution(probes.TPOT), benchStats...)
	p.rule("Inter-Token Latency", '-')
	p.latency("ITL", s.Distribution(probes.ITL), append(benchStats, probes.StatMax)...)
	p.rule("", '=')
}

// requestRate prints as Python does. A closed loop is what bench_serving calls an
// infinite rate behind a concurrency limit.
func requestRate(a probes.Arrivals) string {
	if a.OpenLoop() && a.Rate == 0 {
		return "trace"
	}
	switch {
	case a.Process == probes.FromTrace:
		return "trace"
	case !a.OpenLoop() || math.IsInf(a.Rate, 1):
		return "inf"
	}
	s := strconv.FormatFloat(a.Rate, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// duration is unknown for a run that sent nothing.
func duration(s *probes.Summary) probes.Optional[float64] {
	if s.Duration <= 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(s.Duration.Seconds())
}
