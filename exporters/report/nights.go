package report

import (
	"fmt"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// nights lays each metric beside the nights before the run. It is left out for a run
// that was not judged over nights.
func (p *printer) nights(changes []probes.Change) {
	if len(changes) == 0 {
		return
	}
	p.rule("Nights", '-')
	fmt.Fprintf(p, "%-23s %-10s %8s %17s %7s %10s  %s\n", "", "", "change %", "95 % interval", "nights", "since", "smallest step %")
	for i := range changes {
		c := &changes[i]
		interval, since := unknown, "-"
		if low, ok := c.Low.Get(); ok {
			interval = decimals(low*100) + " .. " + known(c.High, 100)
		}
		if !c.Onset.IsZero() {
			since = c.Onset.Format(time.DateOnly)
		}
		fmt.Fprintf(p, "%-23s %-10s %8s %17s %7d %10s  %s\n", c.Metric, c.State, known(c.Effect, 100), interval, c.BaselineRuns, since, known(c.SmallestStep, 100))
	}
	p.sentence("positive changes are for the worse")
	for i := range changes {
		if c := &changes[i]; c.State != probes.ChangeNone && c.State != probes.ChangeLearning {
			p.reasons(c.Reasons)
		}
	}
}
