package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// Judge holds a summary against the spec's limits and objectives. The gravest
// finding decides: fail, unknown, warn, pass (see [VerdictCodes]). A suspect
// measurement is judged like a valid one; its doubts stand beside the verdict.
func Judge(spec *probes.Spec, s *probes.Summary, v probes.Validity) probes.Verdict {
	j := &judge{spec: spec, s: s, verdict: probes.Verdict{State: probes.Pass}}
	switch {
	case v.State == probes.Invalid:
		j.add(probes.Unknown, InvalidMeasurement, "the measurement is invalid: %s", codes(v.Reasons))
		return j.verdict
	case s.Completed+s.Failed == 0:
		j.add(probes.Unknown, NothingMeasured, "none of %d requests was completed or failed", s.Requests)
		return j.verdict
	case s.Completed == 0:
		j.add(probes.Fail, NoSuccess, "none of %d requests was completed: %s", s.Failed, j.failures())
	case s.Failed > 0:
		j.add(probes.Warn, FailedRequests, "%d of %d requests failed: %s", s.Failed, s.Completed+s.Failed, j.failures())
	}
	switch s.Answer {
	case probes.AnswerWrong:
		j.add(probes.Fail, WrongAnswer, "the pinned question was answered wrong")
	case probes.AnswerMissing:
		j.add(probes.Warn, NoAnswer, "the pinned question got no answer")
	}
	for i := range spec.SLOs {
		j.objective(&spec.SLOs[i])
	}
	for _, l := range spec.Limits {
		j.limit(l)
	}
	if gap, ok := s.Offline.Gap.Get(); ok && gap > probes.MaxOfflineGap {
		offline, _ := s.Offline.Throughput.Get()
		j.add(probes.Warn, OfflineGap, "%.1f %% below the %.4g tokens per second of %s; up to %.0f %% are normal",
			gap*100, offline, s.Offline.Source, probes.NormalOfflineGap*100)
	}
	return j.verdict
}

type judge struct {
	spec    *probes.Spec
	s       *probes.Summary
	verdict probes.Verdict
}

// gravity orders the states; see VerdictCodes for why.
var gravity = map[probes.VerdictState]int{probes.Pass: 0, probes.Warn: 1, probes.Unknown: 2, probes.Fail: 3}

func (j *judge) add(state probes.VerdictState, code, format string, args ...any) {
	reason := probes.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
	// Limits of several severities on one statistic lack the same samples.
	if !slices.Contains(j.verdict.Reasons, reason) {
		j.verdict.Reasons = append(j.verdict.Reasons, reason)
	}
	if gravity[state] > gravity[j.verdict.State] {
		j.verdict.State = state
	}
}

func (j *judge) objective(slo *probes.SLO) {
	attained, ok := j.s.SLOAttainment[slo.Name]
	if !ok || attained >= slo.Objective {
		return
	}
	judged := j.s.Completed + j.s.Failed
	bad := judged - int(math.Round(attained*float64(judged)))
	state, remark := probes.Fail, ""
	switch {
	case j.spec.Kind.Continuous():
		state = probes.Warn
	case bad < MinBadEvents:
		state, remark = probes.Warn, fmt.Sprintf("; fewer than %d bad ones may be an accident", MinBadEvents)
	}
	j.add(state, SLOMissed, "%s: %d of %d requests were bad, %.4g %% good, promised %.4g %%%s",
		slo.Name, bad, judged, attained*100, slo.Objective*100, remark)
}

func (j *judge) limit(l probes.Limit) {
	d := j.s.Distribution(l.Signal)
	got, known := d.Get(l.Statistic).Get()
	mean, counted := meanOutput(j.s)
	switch {
	case d.N == 0 && j.s.Completed == 0:
		// No success says it all; a missing latency adds nothing.
	case d.N == 0:
		j.add(probes.Unknown, NoSamples, "%s %s: no samples from %d completed requests", l.Signal, l.Statistic, j.s.Completed)
	case paceSignal(l.Signal) && counted && mean < MinOutputTokens:
		j.add(probes.Unknown, ShortAnswers, "%s %s: answers of %.1f tokens on average, pace is judged from %d", l.Signal, l.Statistic, mean, MinOutputTokens)
	case !d.Enough(l.Statistic):
		j.add(probes.Unknown, TooFewSamples, "%s %s: %d samples, %d are needed", l.Signal, l.Statistic, d.N, needed(l.Statistic))
	case !known:
		j.add(probes.Unknown, NoSamples, "%s %s: not defined for these %d samples", l.Signal, l.Statistic, d.N)
	case l.Breached(d) == probes.Known(true):
		state := probes.Warn
		if l.Severity == probes.Critical {
			state = probes.Fail
		}
		j.add(state, LimitExceeded, "%s", exceeded(l, got, d))
	}
}

func exceeded(l probes.Limit, got float64, d probes.Distribution) string {
	if l.Statistic == probes.StatTailRatio {
		return fmt.Sprintf("%s p99/mean is %.2f (%s to %s), %s limit %.4g, n=%d",
			l.Signal, got, seconds(d.P99), seconds(d.Mean), l.Severity, l.Bound, d.N)
	}
	return fmt.Sprintf("%s %s is %s, %s limit %s, n=%d", l.Signal, l.Statistic, seconds(got), l.Severity, seconds(l.Bound), d.N)
}

// paceSignal reports whether the signal says how fast tokens follow each other.
func paceSignal(s probes.Signal) bool {
	return s == probes.TPOT || s == probes.ITL || s == probes.ChunkGap
}

// meanOutput is the mean length of answers. Requests that were cut have their
// tokens in the sum, so they are in the count as well.
func meanOutput(s *probes.Summary) (tokens float64, ok bool) {
	total, known := s.OutputTokens.Get()
	answers := s.Completed - s.UnknownOutputs + s.Cancelled
	if !known || s.Completed == s.UnknownOutputs || answers <= 0 {
		return 0, false // nothing but cut answers, whose length is that of our window
	}
	return float64(total) / float64(answers), true
}

// failures counts the outcomes that count against the target, in the order in
// which outcomes are documented.
func (j *judge) failures() string {
	var parts []string
	for _, o := range probes.Outcomes {
		if n := j.s.Outcomes[o]; n > 0 && o.Failed() {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}

func codes(reasons []probes.Reason) string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = r.Code
	}
	return strings.Join(names, ", ")
}
