package summary

import (
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Ended is a record with the wall-clock time at which its request ended, which
// is the only thing that the records of different runs have in common.
type Ended struct {
	Record probes.Record
	At     time.Time
}

// Window returns the part of a continuous probe's records, oldest first, that
// its result is computed from: the last MinSamples ones, none of them older than
// MaxAge at now. A bound of 0 is no bound. The order is kept and the argument is
// not changed, so its answer may replace it.
//
// A record from the future stays: the wall clock may step back, and a result
// must not vanish for that.
func Window(all []Ended, bounds probes.Window, now time.Time) []Ended {
	kept := make([]Ended, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		if bounds.MinSamples > 0 && len(kept) == bounds.MinSamples {
			break
		}
		if bounds.MaxAge > 0 && now.Sub(all[i].At) > bounds.MaxAge {
			continue
		}
		kept = append(kept, all[i])
	}
	slices.Reverse(kept)
	return kept
}

// Records returns the records alone, for an [Input] with Pooled set.
func Records(ended []Ended) []probes.Record {
	records := make([]probes.Record, len(ended))
	for i := range ended {
		records[i] = ended[i].Record
	}
	return records
}
