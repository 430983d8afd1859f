package summary

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// steady finds the steady state of a run that has one: a burst only drains, and the rate of
// a trace is not the same all the time.
func steady(s *probes.Summary, in Input) probes.SteadyState {
	process := in.Spec.Arrivals.Process
	if in.Pooled || process == probes.Burst || process == probes.FromTrace || s.Completed == 0 {
		return probes.SteadyState{}
	}
	w := steadySpan(s, in)
	out := probes.SteadyState{}
	for i := range in.Records {
		if r := &in.Records[i]; r.Outcome == probes.OK && w.holds(lastInstant(r)) {
			out.Completed++
		}
	}
	if out.Completed < probes.MinSamplesMean || w.length() == 0 {
		return probes.SteadyState{}
	}
	out.Start, out.End = probes.Known(w.start), probes.Known(w.end)
	out.RequestThroughput = w.perSecond(float64(out.Completed))
	if tokens, ok := arrivedTokens(in, w); ok {
		out.OutputThroughput = w.perSecond(tokens)
	}
	return out
}

// steadySpan begins when the asked rate has been there for one residence time,
// because until then more requests come than go, and ends when the last one was sent,
// because from then on none comes.
func steadySpan(s *probes.Summary, in Input) span {
	var w span
	for i := range in.Records {
		r := &in.Records[i]
		if i == 0 || r.Due < w.start {
			w.start = r.Due
		}
		if r.Outcome != probes.Dropped {
			w.end = max(w.end, r.Sent)
		}
	}
	if start, ok := in.Start.Get(); ok {
		w.start = start
	}
	if end, ok := in.End.Get(); ok {
		w.end = min(w.end, end)
	}
	residence := totalResidence(in.Records) / float64(s.Completed)
	w.start += in.Spec.Arrivals.Ramp + time.Duration(residence*float64(time.Second))
	return w
}

// holds reports whether an instant lies in the span; what ends with it belongs to it.
func (w span) holds(at time.Duration) bool { return at > w.start && at <= w.end }

// arrivedTokens are the output tokens that arrived in the span.
func arrivedTokens(in Input, w span) (float64, bool) {
	ratio := tokensPerChunk(in.Records)
	sum := 0.0
	for i := range in.Records {
		r := &in.Records[i]
		if r.Outcome != probes.OK && r.Outcome != probes.Cancelled {
			continue
		}
		silent, ok := silentChunk(r, ratio)
		if !ok || r.Flags.Has(probes.NotStreamed) || r.Outcome == probes.OK && !r.OutputTokens.IsKnown() {
			return 0, false
		}
		for _, c := range r.Chunks {
			switch {
			case !w.holds(c.At):
			case c.Tokens > 0:
				sum += float64(c.Tokens)
			default:
				sum += silent
			}
		}
	}
	return sum, true
}
