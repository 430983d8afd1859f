// Package imports reads the result files of other benchmarks.
//
// The story of the data:
//
//  1. [Read] takes a file apart into results: one to a line, or one that is
//     spread over the whole file. Python's bare Infinity and NaN, which no strict
//     reader of JSON accepts, are put right first.
//  2. The keys of a result tell which tool wrote it ([Tools]). Keys that nobody
//     here knows are ignored, and what an older version did not write is unknown.
//  3. Each result becomes a [probes.Run] with its Source set: a spec as far as
//     the tool wrote down what it did, and a summary of the statistics that it
//     wrote. Statistics that it left out are computed where it kept the samples.
//
// The numbers stay those of the tool: its first-token rule, its clock, its way
// of counting. What it calls inter-token latency is filed as that only where it
// is one sample per token; where it is one per chunk it is a chunk gap, as
// everywhere else here. A row of zeros, which is how these tools write that they
// have no samples, is no sample.
package imports
