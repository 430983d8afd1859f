// Package verdict says what a run is worth: whether it can be believed, whether
// the promises were kept, how it could still mislead, and with which runs it may
// be compared.
//
// The story of the data:
//
//  1. [Validity] reads the records, the summary and what the daemon noticed
//     beside them ([Evidence]). It asks one thing: was it the target that was
//     measured, and was it what had been asked for. A target that fails, queues
//     or crawls is no reason for doubt; a client that was late is.
//  2. [Judge] holds the summary against limits and objectives. An invalid run
//     gets no verdict, and neither has a limit that its samples cannot support:
//     the verdict is then unknown, which is not a pass.
//  3. [Traps] lists the ways in which a sound number is misread.
//  4. [Fingerprint] is equal for runs that asked the same thing in the same way.
//
// All of them are pure functions. Every reason has a code from a closed list, so
// that it may be a label, and a sentence with the numbers that led to it. The
// lists are data ([ValidityCodes], [VerdictCodes], [SweepCodes], [TrapCodes], [NightCodes]); REASONS.md is
// written from them.
package verdict
