// Package prom turns events and the daemon's state into /metrics.
//
// The story of the data:
//
//  1. [Exporter.SetPairs] says which pairs are configured. Every counter and
//     histogram of a pair exists from then on, at 0: a counter that is born at 1
//     loses its first increment in increase().
//  2. [Exporter.Export] takes events from the fanout and adds them up. Labels
//     come from closed lists and from the configuration; nothing that a server
//     or an error says becomes a label.
//  3. At a scrape, [Exporter.Gather] copies the sums, asks Snapshot and Daemon
//     once each for the state of this instant, and prints it as gauges. A gauge
//     without a value is absent.
//  4. A pair that is no longer configured loses its gauges at the next scrape,
//     and its counters and histograms five minutes later, so that the last
//     increments are still scraped. When it comes back before, it goes on.
//
// Names, kinds, labels and buckets are those of package catalog; a name that is
// not there is refused. The series are built without the registry of
// client_golang, whose checks would cost more than everything else at several
// hundred thousand series; the tests make the same checks.
package prom
