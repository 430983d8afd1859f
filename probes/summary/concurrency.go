package summary

import (
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// totalResidence is the time in seconds that completed requests spent at the
// server, from sent to last token. Divided by the span it is the mean number of
// requests in flight (Little). Answers shorter than forced are left out of the
// E2E series, but not here: they occupied the server all the same.
func totalResidence(records []probes.Record) float64 {
	var sum float64
	for i := range records {
		r := &records[i]
		if r.Outcome != probes.OK {
			continue
		}
		last, ok := r.LastToken.Get()
		if r.Flags.Has(probes.NotStreamed) {
			last, ok = r.End.Get()
		}
		if ok {
			sum += (last - r.Sent).Seconds()
		}
	}
	return sum
}

// peakConcurrency is the most requests in flight at one instant, over half-open
// intervals from sent to end: a request that starts in the very instant in which
// another one ends takes over its place, as in a closed loop. Requests of any
// outcome count, since each of them was in flight.
func peakConcurrency(records []probes.Record) int {
	starts := make([]int64, 0, len(records))
	ends := make([]int64, 0, len(records))
	for i := range records {
		r := &records[i]
		if end := lastInstant(r); r.Outcome != probes.Dropped && end > r.Sent {
			starts = append(starts, int64(r.Sent))
			ends = append(ends, int64(end))
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	peak, ended := 0, 0
	for started, at := range starts {
		for ends[ended] <= at {
			ended++
		}
		peak = max(peak, started+1-ended)
	}
	return peak
}
