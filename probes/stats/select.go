package stats

import (
	"math/bits"
	"slices"
	"sort"
)

// sortBelow is the length from which sorting beats partitioning.
const sortBelow = 48

// place reorders s until each of the ascending ranks holds the value that it
// would hold after sorting. That is about four times cheaper than sorting,
// which matters because a canary's window is described again after each request.
func place(s []float64, ranks []int) {
	placeWithin(s, 0, ranks, 2*bits.Len(uint(len(s))))
}

// placeWithin works on the part of the samples whose first rank is base. It sorts what is left after budget splits, so that no order of the
// samples costs quadratic time.
func placeWithin(s []float64, base int, ranks []int, budget int) {
	for len(ranks) > 0 {
		if len(s) <= sortBelow || budget == 0 {
			slices.Sort(s)
			return
		}
		budget--
		cut := partition(s)
		split := sort.SearchInts(ranks, base+cut)
		placeWithin(s[:cut], base, ranks[:split], budget)
		s, base, ranks = s[cut:], base+cut, ranks[split:]
	}
}

// partition moves the smaller samples before the returned index and the larger
// ones behind it; both sides hold at least one. Samples equal to the pivot go to
// both sides, so that a set of equal gaps is halved and not peeled.
func partition(s []float64) int {
	pivot := middle(s[0], s[len(s)/2], s[len(s)-1])
	i, j := 0, len(s)-1
	for {
		for s[i] < pivot {
			i++
		}
		for s[j] > pivot {
			j--
		}
		if i >= j {
			break
		}
		s[i], s[j] = s[j], s[i]
		i++
		j--
	}
	// Everything before i is <= pivot and everything from i on is >= pivot. As the
	// median of three, the pivot has another sample on either side, or its equal.
	return i
}

func middle(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }
