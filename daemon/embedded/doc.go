// Package embedded is a small Prometheus inside the daemon, for the machine that has
// no other: it keeps what /metrics shows, evaluates the shipped rules with
// Prometheus's own engine, sends the alerts on, and answers Prometheus's query API
// read-only, so that Grafana can be pointed at the daemon.
//
// The story of the data:
//
//  1. [Open] takes a folder, the handler of /metrics and the text of the rules, and
//     acquires everything that can fail: the time series database and its lock, the
//     rules, the places that alerts go to.
//  2. [Prometheus.Run] scrapes the handler over connections in memory. No port is
//     involved, so neither TLS nor a password of the page is in the way, and what is
//     stored is what a Prometheus outside would store, native histograms included.
//  3. The rules are evaluated on what was stored; [Prometheus.Alerts] shows what is
//     pending and firing. Alertmanagers are told by Prometheus's own notifier,
//     webhooks by a worker for each, which remembers what it has told over a restart.
//  4. [Prometheus.Handler] answers queries. Everything that could change or reveal
//     more than the series is not there.
//
// The pieces are Prometheus's packages; this one only joins them. They are not small:
// the README says what they cost.
package embedded
