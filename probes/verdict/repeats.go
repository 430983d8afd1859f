package verdict

import (
	"fmt"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// countTolerance is by how much the tokens of two sides may differ for their
// times to be of the same work.
const countTolerance = 0.01

// OfRepeats is the validity of a median of runs. What makes one of them suspect
// makes the median suspect; one that is invalid is left out of it, which is a
// reason too, and more than half of them leave nothing to believe.
func OfRepeats(run *probes.Run) probes.Validity {
	v, left := ofParts(run)
	repeats := &run.Summary.Repeats
	return shortfall(v, RepeatsLost, "runs", repeats.Used, repeats.Runs, left)
}

// OfComparison is the validity of a comparison: as that of repeats, of which a pair
// is lost with either side. Sides that did not do the same work are suspect.
func OfComparison(run *probes.Run) probes.Validity {
	v, left := ofParts(run)
	c := run.Comparison
	for _, m := range c.Metrics {
		ratio, ok := m.Ratio.Get()
		if work := workOf[m.Name]; work != "" && ok && (ratio > 1+countTolerance || ratio < 1/(1+countTolerance)) {
			v = Doubt(v, UnequalWork, "%s of a run: %.0f on side A and %.0f on side B, by each side's own count", work, m.Reference, m.Candidate)
		}
	}
	return shortfall(v, PairsLost, "pairs", c.Used, c.Pairs, left)
}

// workOf names the numbers that are equal for the same work.
var workOf = map[string]string{
	"completed": "requests", "input_tokens": "input tokens", "output_tokens": "output tokens",
}

// ofParts gathers the doubts about those parts that can be believed, and says why
// the others cannot.
func ofParts(run *probes.Run) (v probes.Validity, left []string) {
	v.State = probes.Valid
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
	return v, left
}

// shortfall adds that not all of what was asked for is in a median.
func shortfall(v probes.Validity, code, what string, used, asked int, left []string) probes.Validity {
	if used == asked {
		return v
	}
	v.State = probes.Suspect
	if 2*used <= asked {
		v.State = probes.Invalid
	}
	text := fmt.Sprintf("only %d of %d %s can be believed", used, asked, what)
	for _, l := range left {
		text += "; " + l
	}
	v.Reasons = append(v.Reasons, probes.Reason{Code: code, Text: text})
	return v
}

// Unjudged is the verdict of a comparison: its numbers stand for themselves.
func Unjudged(v probes.Validity) probes.Verdict {
	code, text := NotJudged, "the medians and differences of a comparison are shown, not judged"
	if v.State == probes.Invalid {
		code, text = InvalidMeasurement, "invalid: "+codes(v.Reasons)
	}
	return probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{{Code: code, Text: text}}}
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
