package compare

import (
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// MostNights is how many common nights of two series are taken for pairs: as many as
// the last look of a gate has.
const MostNights = 10

// night is how far the two runs of a pair may be apart.
const night = 12 * time.Hour

// Nights pairs the runs of two series that were made in the same night, the last ones
// of those that can be believed. Each run is in one pair at most, with the nearest run
// of the other side.
func Nights(reference, candidate []*probes.Run) (a, b []*probes.Run) {
	reference, candidate = usableRuns(reference), usableRuns(candidate)
	taken := map[*probes.Run]bool{}
	for _, own := range slices.Backward(candidate) {
		var nearest *probes.Run
		for _, other := range reference {
			if taken[other] || apart(own, other) > night {
				continue
			}
			if nearest == nil || apart(own, other) < apart(own, nearest) {
				nearest = other
			}
		}
		if nearest == nil {
			continue
		}
		taken[nearest] = true
		if a, b = append(a, nearest), append(b, own); len(a) == MostNights {
			break
		}
	}
	slices.Reverse(a)
	slices.Reverse(b)
	return a, b
}

func apart(a, b *probes.Run) time.Duration { return a.Start.Sub(b.Start).Abs() }

// usableRuns are the complete ones that can be believed, oldest first.
func usableRuns(runs []*probes.Run) []*probes.Run {
	out := slices.DeleteFunc(slices.Clone(runs), func(r *probes.Run) bool {
		return r.Validity.State == probes.Invalid || r.Error != "" || !r.Complete
	})
	slices.SortStableFunc(out, func(a, b *probes.Run) int { return a.Start.Compare(b.Start) })
	return out
}
