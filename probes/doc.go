// Package probes is the vocabulary of inferbeat: the nouns that every stage
// reads and writes, as plain values.
//
// The story of the data:
//
//  1. A [Target] is one addressable replica; a [Spec] is a probe as it will be
//     executed on it (workload, arrivals, timeouts, promises).
//  2. The workload turns into [Request] values, the arrivals into due offsets.
//  3. Each exchange leaves one [Record]: when it was due, when it was sent, when
//     each chunk of the answer arrived, how many tokens it held, how it ended.
//  4. Records are condensed into a [Summary].
//  5. [Validity] says whether the measurement can be believed, [Verdict] whether
//     the promises were kept.
//  6. All of it together is a [Run], which is never changed after it has been
//     handed to the exporters.
//
// All instants of a run are monotonic offsets from its start, read from one
// [Clock]; no value in this package is the difference of two clocks. What is
// not known is absent (see [Optional]), never zero.
//
// The package imports nothing of ours, does no I/O and starts no goroutine.
package probes
