// Package inspect reads what a server says about itself: what it is, and how its
// own counters and gauges moved while a run went on.
//
// The story of the data:
//
//  1. A [Reader] asks a target's Prometheus page, and the few pages on which its
//     engine describes itself, through a [Getter].
//  2. A page is scanned sample by sample; the names that mean something are in one
//     table of all engines, old names and new ones. Samples of one name
//     are added up over their labels, but tensor- and pipeline-parallel ranks
//     repeat each other and count once. The result is a [Sample].
//  3. The self-description becomes [probes.ServerFacts], field by field out of an
//     allow-list: those pages hold launch arguments, and these hold keys.
//  4. [Delta] turns the samples before, during and after a run into
//     [probes.ServerSummary]. When a counter went down the server has restarted,
//     and no difference means anything.
//
// What a server does not say is absent, never zero, and a server that says
// nothing is no error: a run needs none of this.
package inspect
