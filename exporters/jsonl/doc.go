// Package jsonl writes one line of JSON per run, with the keys of bench_serving,
// so that existing notebooks read it.
//
// The story of the data: [Encode] lays a run out under bench_serving's keys, in
// its order and units (milliseconds, seconds in the arrays), and adds what that
// tool does not record under the one key "inferbeat". [File] is the sink that
// appends such lines to a file.
//
// The lines are strict JSON, which bench_serving's are not: an infinite rate is
// the string "inf", and what is unknown is null, never 0. Keys that belong to
// features a run did not use are null too.
//
// Secrets cannot get in: of a target only named fields are written, never its
// connection settings, and its URL without user info, query and fragment.
package jsonl
