package fakellm

import (
	"math"
	"math/rand/v2"
)

// mix hashes its words (splitmix64 finaliser over a running sum): the source of
// every draw that must not depend on the order of other draws.
func mix(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// unit maps a hash to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// hashString is FNV-1a.
func hashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// lognormal draws a factor of mean 1 and coefficient of variation cv.
func lognormal(r *rand.Rand, cv float64) float64 {
	variance := math.Log1p(cv * cv)
	return math.Exp(math.Sqrt(variance)*r.NormFloat64() - variance/2)
}

// draftAcceptance is the probability p with which each drafted token is accepted,
// given that those before it were, such that a verify step of k drafts yields
// length tokens in the mean: 1 + p + ... + p^k = length.
func draftAcceptance(s Speculation) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		p := (low + high) / 2
		sum, power := 1.0, 1.0
		for range s.DraftTokens {
			power *= p
			sum += power
		}
		if sum < s.AcceptLength {
			low = p
		} else {
			high = p
		}
	}
	return high
}
