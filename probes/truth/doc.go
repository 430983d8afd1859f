// Package truth is a streaming server that knows when it really wrote every
// token, so that what a client reports can be laid beside what happened.
//
// The story of the data:
//
//  1. Server.Serve accepts connections; each has a goroutine that reads HTTP/1.1
//     requests from it. Received is the instant at which a request's body had been
//     read.
//  2. The whole answer of a completions request is encoded at once, and a due time
//     is set for each of its writes: Received + TTFT, then one gap after the other.
//     The schedule is absolute; a write that was late delays no other.
//  3. One pacer for all streams sleeps until the next write is due, takes a stamp
//     and writes straight to the socket. A token costs it one system call, no
//     allocation and no hand-over between goroutines.
//  4. The last write takes the end mark along. The [Stream] with all its stamps is
//     then there for Server.Take; it names the X-Request-Id of its request.
//
// Stamps are taken just before the write, on the caller's clock. A stamp of a
// client on the same clock is therefore never smaller, and their difference is
// the client's lag plus the way through the kernel.
//
// Over net.Pipe inside a testing/synctest bubble every time is exact. Nothing is
// generated: the text of an answer counts, and its length is what was asked for.
package truth
