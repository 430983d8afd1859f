// Package wire makes one HTTP exchange on a connection it owns, so that a
// benchmark knows every phase of it and no goroutine stands between the socket
// and the stamp.
//
// The story of the data:
//
//  1. [Client.Do] finds the route (direct or through a proxy) and takes the idle
//     connection that was used last, or opens one: look-up, connect (with a
//     proxy's tunnel), TLS, each timed on the run's clock.
//  2. The request is encoded into one buffer and leaves in one write.
//  3. A caller's goroutine reads the answer; the package has none, but timers and
//     contexts that end call it for an instant. Bytes are dated where they enter,
//     below TLS: by the kernel's receive stamp on TCP sockets of Linux, elsewhere
//     by the instant at which the read returned. Interim answers are skipped.
//  4. [Response.Read] hands out body bytes as soon as any are there, without the
//     framing and, if the server compressed against our wish, decompressed.
//     [Response.Stream] does so until the body ends; streams of one client then share
//     the waiting and the reading, so that a token costs one read (see poller).
//  5. [Response.Close] keeps the connection for the next exchange when its
//     answer is complete, and closes it otherwise.
//
// HTTP/2, when asked for, is spoken on the same connections: one exchange at a time on
// each, so that no request waits for a stream, a window or a frame of another, and the
// phases and stamps mean the same. Only the framing differs. A proxy serves it for https
// targets alone, and a server's pushes are refused.
//
// It does not use http.Transport, whose read loop hands bytes from goroutine to
// goroutine, whose pool opens more connections than there are workers, and which
// cannot say when a reused connection had been closed by its server. Nothing is
// retried, with one exception that is reported: a reused connection that failed
// before the first byte of an answer is replaced once by a new one.
//
// Bounds are deadlines of the socket. A cancelled context breaks the connection.
package wire
