// Package selftest says how far this host's measurements can be trusted.
//
// The story of the data:
//
//  1. Run starts a truth server (package truth) in a process of its own, so that
//     its processor time and its pauses are not the client's.
//  2. A client in another process sends it the load of one level. The client that
//     matters is inferbeat's own measuring path; a naive client and a reader that
//     parses nothing can be laid beside it.
//  3. Both processes report instants of the system's monotonic clock. The client's
//     stamp of an event minus the server's stamp of its write is the receive lag;
//     no error of the clock hides in it, since there is only one.
//  4. The figures of all levels become a [Report]: for each number of streams how
//     late the stamps are, what a TTFT and an ITL read by them is worth, what an
//     event costs, and up to how many streams the clock can be trusted.
//
// [Reference] is the same comparison made small and for ever: one short scripted
// stream every few seconds, inside the daemon, whose error says whether the
// daemon's clock can be believed now.
//
// A child process is this program again, told by an environment variable what it
// is to be; see [Worker].
package selftest
