package summary

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// requestSignals are the series with at most one sample a request.
var requestSignals = []struct {
	signal probes.Signal
	of     func(*probes.Record) probes.Optional[time.Duration]
}{
	{probes.TTFT, (*probes.Record).TTFT},
	{probes.TTFTFromDue, (*probes.Record).TTFTFromDue},
	{probes.TTFTAfterConnect, (*probes.Record).TTFTAfterConnect},
	{probes.FirstAnswer, (*probes.Record).TimeToFirstAnswer},
	{probes.TPOT, (*probes.Record).TPOT},
	{probes.E2E, (*probes.Record).E2E},
	{probes.E2EFromDue, (*probes.Record).E2EFromDue},
	{probes.SendLag, sendLag},
	{probes.ConnectSetup, connectSetup},
}

// latency describes every signal that has samples. One buffer serves all
// signals: describing reorders samples, and nobody needs them afterwards.
func latency(spec *probes.Spec, records []probes.Record) map[probes.Signal]probes.Distribution {
	out := make(map[probes.Signal]probes.Distribution, len(probes.Signals))
	buf := make([]float64, 0, sampleCapacity(records))
	describe := func(signal probes.Signal, samples []float64) {
		if len(samples) > 0 {
			out[signal] = probes.Distribution(stats.DescribeInPlace(samples))
		}
	}
	for _, rs := range requestSignals {
		samples := buf[:0]
		for i := range records {
			if d, ok := rs.of(&records[i]).Get(); ok {
				samples = append(samples, d.Seconds())
			}
		}
		describe(rs.signal, samples)
	}

	if followed(spec) {
		for position, signal := range []probes.Signal{probes.TTFTFirst, probes.TTFTSecond} {
			samples := buf[:0]
			for i := range records {
				if d, ok := records[i].TTFT().Get(); ok && records[i].Index == position {
					samples = append(samples, d.Seconds())
				}
			}
			describe(signal, samples)
		}
	}

	itl, onePerChunk := buf[:0], true
	for i := range records {
		before := len(itl)
		itl = records[i].AppendITL(itl)
		onePerChunk = onePerChunk && len(itl)-before == chunkGaps(&records[i])
	}
	describe(probes.ITL, itl)
	if onePerChunk && len(itl) > 0 {
		// Every chunk held one token: both series have the same samples, and they
		// are by far the largest of a run.
		out[probes.ChunkGap] = out[probes.ITL]
		return out
	}
	gaps := itl[:0]
	for i := range records {
		gaps = records[i].AppendChunkGaps(gaps)
	}
	describe(probes.ChunkGap, gaps)
	return out
}

// followed reports whether the second request of each run is sent as soon as the
// first has ended, so that the two show what a pause costs.
func followed(spec *probes.Spec) bool {
	a := &spec.Arrivals
	return spec.Kind.Continuous() && a.Process == probes.ClosedLoop && a.MaxConcurrency == 1 && spec.Requests >= 2
}

// sampleCapacity is room for the largest series without growing.
func sampleCapacity(records []probes.Record) int {
	gaps, tokens := 0, 0
	for i := range records {
		r := &records[i]
		gaps += len(r.Chunks)
		for _, c := range r.Chunks {
			tokens += int(c.Tokens)
		}
	}
	return max(len(records), gaps, tokens)
}

// chunkGaps is how many samples the record adds to the chunk gaps.
func chunkGaps(r *probes.Record) int {
	if r.Outcome != probes.OK || r.Flags&(probes.ShortOutput|probes.NotStreamed) != 0 {
		return 0
	}
	return max(0, len(r.Chunks)-1)
}

func sendLag(r *probes.Record) probes.Optional[time.Duration] {
	if r.Outcome == probes.Dropped {
		return probes.Optional[time.Duration]{}
	}
	return probes.Known(r.Lag())
}

// connectSetup is the price of a new connection. An attempt that brought none
// has a duration too, but that is the length of a failure.
func connectSetup(r *probes.Record) probes.Optional[time.Duration] {
	c := &r.Connection
	attempted := c.DNS.IsKnown() || c.Connect.IsKnown() || c.TLS.IsKnown()
	switch r.Outcome {
	case probes.DNS, probes.Connect, probes.TLSError, probes.Dropped:
		attempted = false
	}
	if c.Reused || !attempted {
		return probes.Optional[time.Duration]{}
	}
	return probes.Known(c.Setup())
}
