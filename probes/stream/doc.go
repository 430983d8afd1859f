// Package stream turns the bytes of a streamed answer into events, each stamped
// with the instant at which the read that completed it returned.
//
//  1. The reader of a connection notes the time as soon as its read returns, and
//     hands bytes and time to [SSE.Feed] or [NDJSON.Feed].
//  2. [SSE.Next] or [NDJSON.Next] gives the events which those bytes complete. The
//     same events come out however the network cut the bytes; only their stamps tell
//     the cuts.
//  3. At the end of the body [SSE.Finish] or [NDJSON.Finish] gives what was left open.
//
// The package knows no HTTP and no JSON. It accepts what servers, proxies and
// gateways really send under the name of server-sent events: LF, CRLF or lone CR;
// a byte order mark; data with no, one or more blanks; payloads over several
// lines; comments as heartbeats; an error in a field of its own; an event that has
// a name and a comment but no data.
package stream
