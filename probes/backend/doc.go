// Package backend carries out one request as one HTTP exchange in the dialect of
// the target's engine and leaves a [probes.Record] behind.
//
// The story of the data:
//
//  1. [New] takes a target; its backend's name selects a [dialect] from one
//     literal table: path, request body, how an answer is read.
//  2. [Client.Do] writes the body, notes Sent, and lets package wire make the
//     exchange on a connection it owns.
//  3. Each read of the body is stamped as soon as it returned; package stream cuts
//     it into events; package jsonscan checks each event and pulls what it says.
//  4. A reading adds the events up: token events, counts of the server, text. What
//     an event says is taken over only when the whole event is legal JSON.
//  5. The end (end mark, end of body, a bound of ours, a failure) decides the one
//     outcome out of the closed list.
//
// Nothing is retried. What the server did not say stays unknown: chunks are never
// counted as tokens, the requested length never stands in for the real one.
package backend
