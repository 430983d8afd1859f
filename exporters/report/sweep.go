package report

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// sweepRow has the widths of the columns of the table of steps.
const sweepRow = "%9s %9s %10s %10s %10s %11s %8s %8s  %s\n"

// sweep prints the table, the result and the curve.
func (p *printer) sweep(run *probes.Run) {
	p.WriteByte('\n')
	p.rule(" Capacity Sweep ", '=')
	p.row("Run:", run.ID)
	p.row("Probe:", run.Spec.Probe)
	p.row("Target:", fmt.Sprintf("%s (%s)", run.Target.Name, run.Target.Environment))
	p.row("Backend:", run.Target.Backend)
	p.row("Model:", orUnknown(run.Target.Model))
	p.outcome(run)
	p.requests(&run.Summary)
	p.rule("Steps", '-')
	p.steps(run)
	p.capacity(&run.Capacity)
	p.chart(run)
	p.conclusions(run)
	p.traps(run)
}

// steps prints one line for each step, in the order in which they were measured.
func (p *printer) steps(run *probes.Run) {
	fmt.Fprintf(p, sweepRow, "rate", "achieved", "TTFT p50", "TTFT p99", "TPOT mean", "output", "queue", "good", "")
	fmt.Fprintf(p, sweepRow, "(req/s)", "(req/s)", "(ms)", "(ms)", "(ms)", "(tok/s)", "(mean)", "(%)", "")
	for i := range run.Steps {
		s := &run.Steps[i]
		ttft := s.Summary.Distribution(probes.TTFTFromDue)
		queue := probes.Optional[float64]{}
		if s.Summary.Server.Queue.N > 0 {
			queue = probes.Known(s.Summary.Server.Queue.Mean)
		}
		fmt.Fprintf(p, sweepRow, known(probes.Known(s.Rate), 1), known(s.Summary.AchievedRate, 1), known(ttft.Get(probes.StatP50), 1e3),
			known(ttft.Get(probes.StatP99), 1e3), known(s.Summary.Distribution(probes.TPOT).Get(probes.StatMean), 1e3),
			known(s.Summary.SustainedOutput(), 1), known(queue, 1), known(goodShare(s), 100), remark(s))
	}
}

// goodShare is the share of requests that kept the objective that was missed most.
func goodShare(s *probes.Step) probes.Optional[float64] {
	if s.Judged == 0 {
		return probes.Optional[float64]{}
	}
	worst := 0
	for _, over := range s.Over {
		worst = max(worst, over)
	}
	return probes.Known(1 - float64(worst)/float64(s.Judged))
}

func remark(s *probes.Step) string {
	text := "missed"
	switch {
	case !s.Usable():
		if len(s.Validity.Reasons) == 0 {
			return "not used"
		}
		return "not used: " + s.Validity.Reasons[len(s.Validity.Reasons)-1].Code
	case s.Passed:
		text = "kept"
	case s.Aborted:
		text = "given up"
	}
	if !s.Stationary {
		text += ", queue growing"
	}
	return text
}

// capacity prints the result.
func (p *printer) capacity(c *probes.Capacity) {
	p.rule("Capacity", '-')
	rate := known(c.Rate, 1)
	if c.Rate.IsKnown() && !c.Bracketed {
		rate = "at least " + rate
	}
	p.row("Capacity (req/s):", rate)
	interval := unknown
	if c.Low.IsKnown() || c.High.IsKnown() {
		interval = known(c.Low, 1) + " to " + known(c.High, 1)
	}
	p.row("95 % interval (req/s):", interval)
	p.row("Limited by objective:", orUnknown(c.Objective))
	p.row(fmt.Sprintf("Safe load, %s of it (req/s):", strconv.FormatFloat(probes.Headroom, 'g', -1, 64)), known(c.Safe, 1))
	p.row("Bend of TTFT p99, a hint (req/s):", known(c.Bend, 1))
	p.row("Ended because:", orUnknown(endings[c.End]))
}

var endings = map[probes.SweepEnd]string{
	probes.SweepConverged: "the capacity is known to 4 %", probes.SweepRatesDone: "all rates were measured",
	probes.SweepSaturated: "the target was saturated", probes.SweepCapped: "the highest allowed rate was kept",
	probes.SweepBelow: "every rate was too much", probes.SweepSteps: "the number of steps was used up",
	probes.SweepInvalid: "a rate could not be measured", probes.SweepCut: "it was cut short",
}

const (
	chartWidth  = 64
	chartHeight = 8
	chartMargin = 10
)

// chart draws three curves over the rate. Columns of | are the capacity, of : the safe
// rate.
func (p *printer) chart(run *probes.Run) {
	var steps []*probes.Step
	for i := range run.Steps {
		if run.Steps[i].Usable() {
			steps = append(steps, &run.Steps[i])
		}
	}
	if len(steps) < 2 {
		return
	}
	slices.SortStableFunc(steps, func(a, b *probes.Step) int {
		if a.Rate < b.Rate {
			return -1
		}
		return 1
	})
	for _, c := range []struct {
		title string
		unit  float64
		value func(*probes.Summary) probes.Optional[float64]
	}{
		{"TTFT p99 (ms)", 1e3, func(s *probes.Summary) probes.Optional[float64] {
			return s.Distribution(probes.TTFTFromDue).Get(probes.StatP99)
		}},
		{"TPOT mean (ms)", 1e3, func(s *probes.Summary) probes.Optional[float64] {
			return s.Distribution(probes.TPOT).Get(probes.StatMean)
		}},
		{"Output (tok/s)", 1, func(s *probes.Summary) probes.Optional[float64] { return s.SustainedOutput() }},
	} {
		var x, y []float64
		for _, s := range steps {
			if v, ok := c.value(&s.Summary).Get(); ok {
				x, y = append(x, s.Rate), append(y, v*c.unit)
			}
		}
		if len(x) > 1 {
			p.rule(c.title, '-')
			p.curve(x, y, steps[len(steps)-1].Rate, &run.Capacity)
		}
	}
}

// curve draws points over a field whose lower left corner is 0, 0.
func (p *printer) curve(x, y []float64, most float64, c *probes.Capacity) {
	top := slices.Max(y)
	if top <= 0 || most <= 0 {
		return
	}
	field := make([][]byte, chartHeight)
	for i := range field {
		field[i] = bytes.Repeat([]byte{' '}, chartWidth)
	}
	column := func(rate float64) int { return min(chartWidth-1, int(rate/most*(chartWidth-1)+0.5)) }
	for _, mark := range []struct {
		at   probes.Optional[float64]
		with byte
	}{{c.Safe, ':'}, {c.Rate, '|'}} {
		if rate, ok := mark.at.Get(); ok && c.Bracketed && rate <= most {
			for i := range field {
				field[i][column(rate)] = mark.with
			}
		}
	}
	for i := range x {
		field[chartHeight-1-int(y[i]/top*(chartHeight-1)+0.5)][column(x[i])] = '*'
	}
	for i, line := range field {
		label := ""
		switch i {
		case 0:
			label = decimals(top)
		case chartHeight - 1:
			label = "0"
		}
		fmt.Fprintf(p, "%*s |%s\n", chartMargin, label, bytes.TrimRight(line, " "))
	}
	right := decimals(most) + " req/s"
	fmt.Fprintf(p, "%*s +%s\n", chartMargin, "", strings.Repeat("-", chartWidth))
	fmt.Fprintf(p, "%*s  0%*s\n", chartMargin, "", chartWidth-1, right)
}
