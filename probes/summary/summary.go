// Package summary condenses the records of a run into its statistics.
//
// The story of the data:
//
//  1. [Summarize] takes the measured records of one run (warm-up is only a
//     number here) and what was planned.
//  2. Every request falls under one outcome. Requests that failed, were cut or
//     were never sent add to no latency series; the one exception is the TTFT of
//     a request that a timeout ended later.
//  3. Raw samples of all requests are pooled per signal and described exactly
//     (see [probes.Distribution]); nothing is averaged twice.
//  4. Tokens are the counts that somebody made: the server's, else one
//     tokenisation. Only requests that the end of the window has cut are counted
//     by their chunks, since nobody reports a number for them.
//  5. [Good] holds single requests against a promise; attainment and goodput are
//     made of it, so that no quantile and no bucket decides about an SLO.
//
// A continuous probe has no run worth judging alone. [Window] keeps its last
// requests, and their summary is made with [Input].Pooled.
//
// Everything is a pure function. What cannot be known is absent: a run in which
// every request failed has outcomes, a success ratio of 0 and no latency at all.
package summary

import (
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Input is what a summary is made of.
type Input struct {
	Spec    *probes.Spec
	Records []probes.Record // measured requests, in any order
	Warmup  int             // warm-up requests, of any outcome

	// Start and End are the window of a run that is bounded by time. Unknown
	// means from the first due time to the end of the last request.
	Start, End probes.Optional[time.Duration]

	// OfferedRate is the planned rate in requests per second and PlannedSpan the
	// time over which its requests are due; both are unknown in a closed loop,
	// and a burst has no span.
	OfferedRate probes.Optional[float64]
	PlannedSpan probes.Optional[time.Duration]

	// Server is what the server's own counters say about the time of the run.
	Server probes.ServerSummary
	// Process is what this process says about itself for the same time.
	Process probes.Process

	// Pooled says that the records come from several runs. Their offsets have no
	// common origin then, so everything that is counted per second or at one
	// instant is unknown, and Duration is 0.
	Pooled bool
}

// Summarize computes all of [probes.Summary]. It changes nothing of its input.
func Summarize(in Input) probes.Summary {
	s := probes.Summary{
		Outcomes:    map[probes.Outcome]int{},
		Flags:       map[string]int{},
		Warmup:      in.Warmup,
		OfferedRate: in.OfferedRate,
	}
	countOutcomes(&s, in.Records)
	s.Latency = latency(in.Spec, in.Records)
	s.Server, s.Client, s.Timings = in.Server, clientOf(in), timings(in.Records)
	s.AcceptLength, s.AcceptSource = acceptLength(in)
	s.Input = inputLengths(in.Records)
	countInput(&s, in)

	window := span{}
	if !in.Pooled {
		window = spanOf(in)
		s.Duration = window.length()
		if s.Completed > 0 {
			s.Concurrency = window.perSecond(totalResidence(in.Records))
		}
		s.PeakConcurrency = peakConcurrency(in.Records)
		s.AchievedRate = achievedRate(in, window)
	}
	countOutput(&s, in, window)
	countRetokenized(&s, in.Records)
	s.RequestThroughput = window.perSecond(float64(s.Completed))
	s.InputThroughput = perSecondOf(window, s.InputTokens)
	if in, out, ok := both(s.InputThroughput, s.OutputThroughput); ok {
		s.TotalThroughput = probes.Known(in + out)
	}
	s.Steady = steady(&s, in)
	judgeRequests(&s, in, window)
	s.Batch = batchTimes(in.Spec, in.Records)
	return s
}

func countOutcomes(s *probes.Summary, records []probes.Record) {
	for i := range records {
		r := &records[i]
		s.Requests++
		s.Outcomes[r.Outcome]++
		switch {
		case r.Outcome == probes.OK:
			s.Completed++
		case r.Outcome == probes.Cancelled:
			s.Cancelled++
		case r.Outcome == probes.Dropped:
			s.Dropped++
		default:
			s.Failed++
		}
		if r.Flags != 0 {
			for _, name := range r.Flags.Names() {
				s.Flags[name]++
			}
		}
	}
	s.Sent = s.Requests - s.Dropped
	if judged := s.Completed + s.Failed; judged > 0 {
		s.SuccessRatio = probes.Known(float64(s.Completed) / float64(judged))
	}
}

// span is the time that rates are taken over.
type span struct{ start, end time.Duration }

// spanOf prefers the planned window. Without one it ends with the last thing
// that happened, a failure included: the time that the server spent on refusing
// is part of the time in which the others were served.
func spanOf(in Input) span {
	var w span
	first := true
	for i := range in.Records {
		r := &in.Records[i]
		if first || r.Due < w.start {
			w.start = r.Due
		}
		first = false
		if r.Outcome != probes.Dropped { // it never had an end
			w.end = max(w.end, lastInstant(r))
		}
	}
	if start, ok := in.Start.Get(); ok {
		w.start = start
	}
	if end, ok := in.End.Get(); ok {
		w.end = end
	}
	return w
}

// lastInstant is when a request that was sent was over, as far as is known.
func lastInstant(r *probes.Record) time.Duration {
	last := r.Sent
	for _, at := range []probes.Optional[time.Duration]{r.FirstByte, r.FirstToken, r.LastToken, r.End} {
		d, _ := at.Get()
		last = max(last, d)
	}
	return last
}

func (w span) length() time.Duration { return max(0, w.end-w.start) }

// perSecond is unknown for a span without length, instead of infinite.
func (w span) perSecond(amount float64) probes.Optional[float64] {
	if w.length() == 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(amount / w.length().Seconds())
}

func perSecondOf(w span, count probes.Optional[int]) probes.Optional[float64] {
	n, ok := count.Get()
	if !ok {
		return probes.Optional[float64]{}
	}
	return w.perSecond(float64(n))
}

func both(a, b probes.Optional[float64]) (x, y float64, ok bool) {
	x, okX := a.Get()
	y, okY := b.Get()
	return x, y, okX && okY
}

// achievedRate counts the requests that were sent while the plan ran. A late
// client, or a cap that makes requests wait, pushes the last ones out of the
// planned span and so lowers the rate; requests sent after it are no part of the
// load that was asked for.
func achievedRate(in Input, w span) probes.Optional[float64] {
	planned, ok := in.PlannedSpan.Get()
	if !ok || planned <= 0 {
		return probes.Optional[float64]{}
	}
	sent := 0
	for i := range in.Records {
		r := &in.Records[i]
		if r.Outcome != probes.Dropped && r.Sent-w.start < planned {
			sent++
		}
	}
	return probes.Known(float64(sent) / planned.Seconds())
}

// acceptLength takes the most trusted source. The server's counters come before
// the reports of single answers: those of SGLang count the token of the prefill
// step as if it had been verified. Its gauges come after them, because they
// average over other times than the run's.
func acceptLength(in Input) (probes.Optional[float64], probes.AcceptSource) {
	if in.Server.AcceptSource == probes.AcceptCounters {
		return in.Server.AcceptLength, probes.AcceptCounters
	}
	if reported := reportedAcceptLength(in.Records); reported.IsKnown() {
		return reported, probes.AcceptRequests
	}
	return in.Server.AcceptLength, in.Server.AcceptSource
}

// reportedAcceptLength is tokens over verify steps. Each request reports its own ratio,
// so its steps are its tokens divided by that; a plain mean of the ratios would
// overrate the requests that needed few steps.
func reportedAcceptLength(records []probes.Record) probes.Optional[float64] {
	var tokens, steps float64
	for i := range records {
		r := &records[i]
		n, counted := r.OutputTokens.Get()
		length, reported := r.AcceptLength.Get()
		if r.Outcome != probes.OK || !counted || n <= 0 || !reported || !(length > 0) || math.IsInf(length, 1) {
			continue
		}
		tokens += float64(n)
		steps += float64(n) / length
	}
	if steps == 0 {
		return probes.Optional[float64]{}
	}
	return probes.Known(tokens / steps)
}
