package regression

import (
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// Verdict adds what the nights say to the verdict of a run: a regression of a primary
// metric by 10 % or more fails it, a smaller one, one of a secondary metric and a drift
// are a warning. A run that is not judged otherwise stays so.
func Verdict(v probes.Verdict, changes []probes.Change) probes.Verdict {
	v.Reasons = slices.Clip(v.Reasons)
	for i := range changes {
		c := &changes[i]
		state := probes.Pass
		switch class, _ := classOf(c.Metric); {
		case c.State == probes.ChangeWorse && !class.Secondary && Severity(c.Effect.Or(0)) != minor:
			state = probes.Fail
		case c.State == probes.ChangeWorse, c.State == probes.ChangeDrift:
			state = probes.Warn
		default:
			continue
		}
		v.Reasons = append(v.Reasons, c.Reasons...)
		if grave(state) > grave(v.State) {
			v.State = state
		}
	}
	return v
}

// grave orders states. Unknown outranks a warning: a promise that could not be judged
// may be broken.
func grave(s probes.VerdictState) int {
	return slices.Index([]probes.VerdictState{probes.Pass, probes.Warn, probes.Unknown, probes.Fail}, s)
}

// PrimarySeries is how many series of a probe count for a fleet's budget.
func PrimarySeries(spec *probes.Spec) (n int) {
	if !spec.Regression.Enabled {
		return 0
	}
	asked := spec.Regression.Metrics
	for _, class := range classes {
		if !class.Secondary && !class.Optional && class.applies(spec) && (len(asked) == 0 || slices.Contains(asked, class.Metric)) {
			n++
		}
	}
	return n
}
