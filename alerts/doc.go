// Package alerts turns the metrics of the catalogue into alerts.
//
// The story of the data:
//
//  1. The groups in slo.go, availability.go, latency.go, regression.go, capacity.go
//     and prober.go are the rules as Go values. They take their names from
//     exporters/catalog and lay results beside the limits that the daemon exports
//     with them, so that one static file serves every configuration and any number
//     of targets.
//  2. [Options] are the user's own choices: the words of the severities, further
//     labels, where the runbooks and the boards are.
//  3. [Rules], [PrometheusRule] and [Alertmanager] print them: a rule file, the same
//     as a manifest for the Prometheus operator, and the routing with its inhibitions.
//     The files in rules/ and deploy/ are these functions with default options; go
//     generate writes them.
//  4. Each alert has a page runbooks/NAME.md, which its runbook_url names and
//     [Runbook] returns.
//
// What an alert promises is in testdata: scenarios in promtool's format, which the
// tests also run on synthetic time, and a program (alerts/mutate) that breaks the
// rules in every small way and expects a scenario to notice.
package alerts

//go:generate go run ./gen
