package summary

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Good holds one request against a promise. It counts when it was completed or
// failed; requests that we cut or never sent say nothing about the target. It is
// good when it was completed within every bound, the bound itself included.
//
// Where a series leaves a request out because it would spoil the series, the
// promise is still judged, by what its user has seen: an answer shorter than
// forced by its own times; an answer that came as one body had its first token
// at its end; one of a single token kept any pace; one whose tokens nobody
// counted by its mean chunk gap, which is never shorter than its TPOT.
func Good(r *probes.Record, slo *probes.SLO) (good, counts bool) {
	if r.Outcome.Failed() {
		return false, true
	}
	if r.Outcome != probes.OK {
		return false, false
	}
	seen := *r
	seen.Flags &^= probes.ShortOutput | probes.NotStreamed
	if r.Flags.Has(probes.NotStreamed) {
		seen.FirstToken, seen.FirstAnswer, seen.LastToken, seen.Chunks = r.End, r.End, r.End, nil
	}
	for signal, bound := range slo.Bounds {
		if !within(&seen, signal, bound) {
			return false, true
		}
	}
	return true, true
}

func within(r *probes.Record, signal probes.Signal, bound time.Duration) bool {
	var value probes.Optional[time.Duration]
	switch signal {
	case probes.TTFT:
		value = r.TTFT()
	case probes.TTFTFromDue:
		value = r.TTFTFromDue()
	case probes.TTFTAfterConnect:
		value = r.TTFTAfterConnect()
	case probes.FirstAnswer:
		value = r.TimeToFirstAnswer()
	case probes.E2E:
		value = r.E2E()
	case probes.E2EFromDue:
		value = r.E2EFromDue()
	case probes.TPOT:
		value = pace(r)
	}
	d, ok := value.Get()
	return ok && d <= bound
}

// pace is TPOT, or what bounds it from above where it is unknown.
func pace(r *probes.Record) probes.Optional[time.Duration] {
	if tpot := r.TPOT(); tpot.IsKnown() {
		return tpot
	}
	if r.OutputTokens.IsKnown() || len(r.Chunks) < 2 {
		return probes.Known(time.Duration(0)) // nothing came after the first token event
	}
	gaps := len(r.Chunks) - 1
	return probes.Known((r.Chunks[gaps].At - r.Chunks[0].At) / time.Duration(gaps))
}

// judgeRequests fills attainment and goodput.
func judgeRequests(s *probes.Summary, in Input, w span) {
	slos := in.Spec.SLOs
	if len(slos) == 0 {
		return
	}
	met := make([]int, len(slos))
	allMet := 0
	for i := range in.Records {
		r := &in.Records[i]
		all := true
		for j := range slos {
			good, _ := Good(r, &slos[j])
			if good {
				met[j]++
			}
			all = all && good
		}
		if all {
			allMet++
		}
	}
	s.Goodput = w.perSecond(float64(allMet))
	judged := s.Completed + s.Failed
	if judged == 0 {
		return
	}
	s.SLOAttainment = make(map[string]float64, len(slos))
	for j := range slos {
		s.SLOAttainment[slos[j].Name] = float64(met[j]) / float64(judged)
	}
}
