package verdict

import (
	"fmt"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// OfRepeats is the validity of a median of runs. What makes one of them suspect
// makes the median suspect; one that is invalid is left out of it, which is a
// reason too, and more than half of them leave nothing to believe.
func OfRepeats(run *probes.Run) probes.Validity {
	v := probes.Validity{State: probes.Valid}
	repeats := &run.Summary.Repeats
	var left []string
	for _, part := range run.Parts {
		if part.Run.Validity.State == probes.Invalid || !part.Run.Complete {
			left = append(left, fmt.Sprintf("%s: %s", part.Role, codes(part.Run.Validity.Reasons)))
			continue
		}
		for _, reason := range part.Run.Validity.Reasons {
			known := func(r probes.Reason) bool { return r.Code == reason.Code }
			if !slices.ContainsFunc(v.Reasons, known) {
				v.Reasons = append(v.Reasons, probes.Reason{Code: reason.Code, Text: part.Role + ": " + reason.Text})
			}
			v.State = probes.Suspect
		}
	}
	if repeats.Used == repeats.Runs {
		return v
	}
	v.State = probes.Suspect
	if 2*repeats.Used <= repeats.Runs {
		v.State = probes.Invalid
	}
	text := fmt.Sprintf("only %d of %d runs can be believed", repeats.Used, repeats.Runs)
	for _, l := range left {
		text += "; " + l
	}
	v.Reasons = append(v.Reasons, probes.Reason{Code: RepeatsLost, Text: text})
	return v
}

// JudgeRepeats judges a median of runs. The median is held against the promises;
// failed requests count whichever run they were in.
func JudgeRepeats(run *probes.Run) probes.Verdict {
	j := &judge{spec: &run.Spec, s: &run.Summary, verdict: Judge(&run.Spec, &run.Summary, run.Validity)}
	if j.verdict.State == probes.Unknown && run.Validity.State == probes.Invalid {
		return j.verdict
	}
	for _, part := range run.Parts {
		if s := &part.Run.Summary; s.Failed > 0 && s.Completed > 0 {
			failures := (&judge{s: s}).failures()
			j.add(probes.Warn, FailedRequests, "%s: %d of %d requests failed: %s", part.Role, s.Failed, s.Completed+s.Failed, failures)
		}
	}
	return j.verdict
}
