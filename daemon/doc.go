// Package daemon joins the stages into a running program; it is the only
// package that knows them all.
//
//  1. The configuration, and what service discovery finds for it, becomes pairs: one
//     probe on one target each.
//  2. The scheduler says when a pair is due, or lets a scrape of /probe have its turn; a
//     guard may refuse; [App] starts a run for it.
//  3. [Runner] carries the run out: workload and arrivals go into loadgen, the
//     records come back, and become a summary, a validity and a verdict.
//  4. The [tracker] keeps what stands for each pair; the page and the gauges on
//     /metrics are views of its snapshot.
//  5. Everything that happens is also an event to the exporters, whose queues
//     never hold up a measurement. With a store, a run is in it before it is
//     reported, and a start takes up what the last process knew.
//  6. A night's run is judged against the pair's earlier nights; a comparison
//     runs two targets in turns and judges one against the other.
//  7. With the embedded Prometheus the daemon scrapes itself and evaluates the
//     shipped alert rules.
//
// Reload builds and checks everything new first, then swaps, and what discovery finds
// is taken over the same way; running probes
// finish under the configuration they started with. Stop ends runs at once,
// records them as aborted, drains the exporters and is bounded in time.
package daemon
