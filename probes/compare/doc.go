// Package compare says whether a candidate is worse than a reference.
//
// The story of the data:
//
//  1. Runs of both sides come in, pair by pair; a run is one value of each metric,
//     because requests of one run share its batch and its queue.
//  2. Variables that have to be equal on both sides are laid beside each other
//     ([Controls]). One that differs ends the matter, unless it was declared to be
//     what the comparison is about.
//  3. For each metric, values become logarithms that rise when things get worse. The
//     median of all differences between the sides is the shift (Hodges and Lehmann
//     1963), and the exact law of Mann and Whitney's U bounds it ([Estimate]).
//  4. At 5, 7 and 10 pairs it is asked whether this decides ([Judge]). A metric passes
//     when the shift is surely below its margin. It has regressed when it is surely
//     worse, and by half of the margin at least. The candidate passes when all primary
//     metrics do; one that has regressed is enough to refuse it.
//
// Everything is a function of its input. Nothing is assumed of the noise but that it is
// the same on both sides, which is why runs are interleaved: a drift that meets blocks
// of runs looks like a difference, and more runs make it look surer.
package compare
