package verdict

import (
	"fmt"
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// overloadCodes are doubts about a step that are no doubts about a sweep: a load beyond
// the capacity cannot be sent to its end, and is not meant to.
var overloadCodes = []string{Incomplete, DroppedRequests, TooFewSamples, ClientCapped}

// SweepValidity says whether the capacity that a sweep found can be believed. It needs
// Steps, Capacity and Complete of the run. Steps that cannot be believed are not part of
// the result, which is therefore only suspect; without any usable step there is none.
func SweepValidity(run *probes.Run) probes.Validity {
	v := probes.Validity{State: probes.Valid}
	doubt := func(code, text string) {
		if !slices.ContainsFunc(v.Reasons, func(r probes.Reason) bool { return r.Code == code }) {
			v.Reasons = append(v.Reasons, probes.Reason{Code: code, Text: text})
		}
		v.State = probes.Suspect
	}
	usable, excluded := 0, 0
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Usable() {
			usable++
		} else {
			excluded++
		}
		for _, r := range s.Validity.Reasons {
			if !slices.Contains(overloadCodes, r.Code) {
				doubt(r.Code, fmt.Sprintf("at %.4g requests per second: %s", s.Rate, r.Text))
			}
		}
	}
	for i := range run.Spec.SLOs {
		if slo := &run.Spec.SLOs[i]; usable > 0 && fewest(run.Steps) < allowsOne(slo) {
			doubt(TooFewSamples, fmt.Sprintf("objective %s: a step has %d requests, of which one miss is more than is allowed; send at least %d",
				slo.Name, fewest(run.Steps), allowsOne(slo)))
		}
	}
	if excluded > 0 {
		doubt(UnusableSteps, fmt.Sprintf("%d of %d steps could not be used", excluded, len(run.Steps)))
	}
	if !run.Complete {
		doubt(Incomplete, fmt.Sprintf("the sweep was cut short after %d steps", len(run.Steps)))
	}
	if usable == 0 {
		if excluded == 0 {
			doubt(UnusableSteps, "no step was measured")
		}
		v.State = probes.Invalid
	}
	return v
}

// allowsOne is the number of requests from which an objective allows one miss.
func allowsOne(slo *probes.SLO) int { return int(math.Ceil(1/(1-slo.Objective) - 1e-9)) }

// fewest is the smallest number of requests of a step that was neither given up nor
// left out.
func fewest(steps []probes.Step) int {
	n := math.MaxInt
	for i := range steps {
		if s := &steps[i]; s.Usable() && !s.Aborted {
			n = min(n, s.Judged)
		}
	}
	return n
}

// JudgeSweep says what a sweep found. A sweep overloads on purpose, so that its
// requests are no test of the objectives; it fails when even its lowest rate is too
// much, and warns when it never reached the limit. It needs Validity too.
func JudgeSweep(run *probes.Run) probes.Verdict {
	c := &run.Capacity
	verdict := func(state probes.VerdictState, code, format string, args ...any) probes.Verdict {
		return probes.Verdict{State: state, Reasons: []probes.Reason{{Code: code, Text: fmt.Sprintf(format, args...)}}}
	}
	rate, known := c.Rate.Get()
	switch {
	case run.Validity.State == probes.Invalid:
		return verdict(probes.Unknown, InvalidMeasurement, "the measurement is invalid: %s", codes(run.Validity.Reasons))
	case run.Summary.Completed+run.Summary.Failed == 0:
		return verdict(probes.Unknown, NothingMeasured, "none of %d requests was completed or failed", run.Summary.Requests)
	case run.Summary.Completed == 0:
		return verdict(probes.Fail, NoSuccess, "none of %d requests was completed", run.Summary.Failed)
	case !known:
		return verdict(probes.Fail, NoCapacity, "objective %s was missed at every rate that was tried", c.Objective)
	case !c.Bracketed:
		return verdict(probes.Warn, CapacityLowerBound, "every objective was kept up to %.4g requests per second; the limit is higher", rate)
	}
	return probes.Verdict{State: probes.Pass}
}
