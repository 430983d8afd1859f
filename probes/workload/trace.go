package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The generator is written out here instead of taken from math/rand: a trace must
// be the same for years, whatever the toolchain does to its random numbers.

// purpose keeps the random numbers of different uses apart, so that drawing one
// more of one kind moves none of another.
type purpose uint64

const (
	forInputLength purpose = iota + 1
	forOutputLength
	forBody
	forOffset
	forShuffle
	forHead
	forBlock
	forTail
	forGroup
	forGroupBody
	forImage
	forPlace
	forAdapter
	forImageCount
	forImageSize
)

// sequence is a SplitMix64 generator.
type sequence struct{ state uint64 }

const goldenGamma = 0x9e3779b97f4a7c15

// newSequence starts the numbers of one use at one index of a trace. Warm-up
// requests have negative indices, see warmupIndex.
func newSequence(seed int64, use purpose, index int) sequence {
	return sequence{mix(mix(uint64(seed)+uint64(use)*goldenGamma) + uint64(index)*goldenGamma)}
}

func (s *sequence) next() uint64 {
	s.state += goldenGamma
	return mix(s.state)
}

// below is uniform in [0, n); the bias of the multiplication is n/2^64.
func (s *sequence) below(n int) int {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int(hi)
}

// mix is the SplitMix64 finaliser, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// warmupIndex puts warm-up requests into an index space of their own.
func warmupIndex(n int) int { return -1 - n }

// length draws a length as sglang does: an integer uniform in
// [max(int(full*ratio), 1), full], both ends included.
func length(seed int64, use purpose, index, full int, ratio float64) int {
	low := max(int(float64(full)*ratio), 1)
	draw := newSequence(seed, use, index)
	return low + draw.below(full-low+1)
}

// headSize is how many words or ids at the start of a prompt depend on the salt.
// With the opener and a few special tokens they fit into one 16-token block, the
// unit in which servers cache prefixes.
const headSize = 12

// salter writes the heads of a run's prompts.
//
// Within a run heads are consecutive numbers in the radix of the vocabulary, so two
// requests are equal only when there are more requests than heads of that size; a
// hash alone would repeat itself in short prompts. Warm-up requests count downwards
// from the same start. Digits beyond 62 bits are hashed.
type salter struct {
	start uint64
	key   int64
}

func newSalter(seed int64, salt string) salter {
	sum := sha256.Sum256(fmt.Appendf(nil, "inferbeat head\n%d\n%s", seed, salt))
	return salter{
		start: binary.LittleEndian.Uint64(sum[:8]),
		key:   int64(binary.LittleEndian.Uint64(sum[8:16])),
	}
}

// head fills dst with digits below radix for the request at index.
func (s salter) head(dst []int, index, radix int) {
	span, digits := uint64(1), 0
	for digits < len(dst) && span < 1<<62/uint64(radix) {
		span *= uint64(radix)
		digits++
	}
	at := s.start % span
	if step := uint64(max(index, -index)) % span; index >= 0 {
		at = (at + step) % span
	} else {
		at = (at + span - step) % span
	}
	for i := range digits {
		// Least significant digit first: prompts part at the first word already.
		dst[i] = int(at % uint64(radix))
		at /= uint64(radix)
	}
	rest := newSequence(s.key, forHead, index)
	for i := digits; i < len(dst); i++ {
		dst[i] = rest.below(radix)
	}
}
