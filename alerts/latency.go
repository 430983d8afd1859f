package alerts

import (
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// Recorded series of results.
const (
	resultAge   = "target_probe:inferbeat_result_age_seconds:min"
	resultFresh = "target_probe:inferbeat_result_fresh:bool"
	// fresh is what every alert about a result asks: a number of last week says nothing
	// about today.
	fresh = resultFresh + " == 1"

	requestRate  = "target_probe:inferbeat_requests:rate15m"
	failureRatio = "target_probe:inferbeat_request_failures_per_requests:ratio_rate15m"
)

func recordResults(t timing) Group {
	return Group{Name: "inferbeat.results", Interval: t.short(time.Minute), Rules: []Rule{
		// A sweep has no result but a capacity.
		{Record: resultAge, Expr: lines("time()", "-", group(highest(catalog.ResultTimestamp), "or", highest(catalog.CapacityTimestamp)))},
		{Record: resultFresh, Expr: lines(resultAge, "< bool", highest(catalog.ProbeStaleAfter))},
		{Record: requestRate, Expr: "sum without (" + process + ") (rate(" + catalog.Requests + "[" + t.window(15*time.Minute) + "]))"},
		{Record: failureRatio, Expr: lines(
			sel(requestRate, `outcome="error"`),
			"/ ignoring (outcome)",
			"(sum without (outcome) ("+sel(requestRate, `outcome=~"success|error"`)+") > 0)",
		)},
	}}
}

// above lays a statistic beside its limit of one severity. Limits carry the labels of
// results and the severity, so that a site's own labels survive on both sides.
func above(stat, severity string) string {
	return group(
		highest(catalog.ResultLatency, stat),
		"> ignoring (severity)",
		highest(catalog.LatencyThreshold, stat, `severity="`+severity+`"`),
	)
}

// enough asks for samples: a p99 of fifty is their maximum, a mean of ten an accident.
func enough(n string) string { return highest(catalog.ResultSamples) + " >= " + n }

// limitRule is what the alerts about limits of latency have in common.
func limitRule(t timing, r Rule) Rule {
	r.Category, r.Board = Latency, BoardTarget
	r.For, r.KeepFiring = t.short(10*time.Minute), t.short(15*time.Minute)
	if r.Description == "" {
		r.Description = `{{ $labels.target }} ({{ $labels.target_env }}): {{ $labels.stat }} {{ $labels.signal }} of probe {{ $labels.probe }} is {{ $value | humanizeDuration }}.`
	}
	return r
}

// Every limit that a configuration can hold has its alert: p99 and mean by name, the
// other statistics together, and each of the three severities.
func latencyAlerts(t timing) Group {
	const other = `stat!~"mean|p99"`
	twice := highest(catalog.BreachRuns, `severity="critical"`) + " >= 2"
	judged := func(stat, severity, n string) string {
		return lines(above(stat, severity), "and ignoring (stat)", enough(n), "and ignoring (signal, stat)", fresh)
	}
	p99, mean := `stat="p99"`, `stat="mean"`
	return Group{Name: "inferbeat.latency", Interval: t.short(time.Minute), Rules: []Rule{
		limitRule(t, Rule{
			Alert: "InferbeatP99LatencyHigh", Severity: Warning, Expr: judged(p99, "warning", "100"),
			Summary: "The p99 latency is above its limit.",
		}),
		limitRule(t, Rule{
			Alert: "InferbeatP99LatencyCritical", Severity: ByEnvironment,
			Expr:    lines(judged(p99, "critical", "100"), "and ignoring (severity)", twice),
			Summary: "The p99 latency was above its critical limit twice in a row.",
		}),
		limitRule(t, Rule{
			Alert: "InferbeatMeanLatencyHigh", Severity: Warning, Expr: judged(mean, "warning", "20"),
			Summary: "The mean latency is above its limit.",
		}),
		limitRule(t, Rule{
			Alert: "InferbeatLatencyHigh", Severity: Warning, Expr: judged(other, "warning", "20"),
			Summary: "A latency is above its limit.",
		}),
		limitRule(t, Rule{
			Alert: "InferbeatLatencyCritical", Severity: ByEnvironment,
			Expr:    lines(judged(`stat!="p99"`, "critical", "20"), "and ignoring (severity)", twice),
			Summary: "A latency was above its critical limit twice in a row.",
		}),
		limitRule(t, Rule{
			Alert: "InferbeatLatencyElevated", Severity: Info,
			Expr: lines(
				group(judged(`stat!="p99"`, "info", "20"), "or", judged(p99, "info", "100")),
			),
			Summary: "A latency is above the limit that is worth knowing.",
		}),
		tailRatio(t, "InferbeatTailRatioElevated", Info, `severity="info"`),
		// A critical limit of a tail is none that wakes somebody.
		tailRatio(t, "InferbeatTailRatioHigh", Warning, `severity=~"warning|critical"`),
		replicaOutlier(t),
		queue(t, "InferbeatServerQueueElevated", Info, "info"),
		queue(t, "InferbeatServerQueueOverload", Warning, "warning"),
	}}
}

func tailRatio(t timing, name string, severity Severity, limit string) Rule {
	return limitRule(t, Rule{
		Alert: name, Severity: severity,
		Expr: lines(
			group(
				highest(catalog.ResultTailRatio),
				">=",
				"min without ("+process+", severity) ("+sel(catalog.TailRatioThreshold, limit)+")",
			),
			"and",
			enough("100"),
			"and",
			group(
				"max without ("+process+", stat) ("+sel(catalog.ResultLatency, `stat="p99"`)+")",
				">=",
				highest(catalog.TailRatioFloor),
			),
			"and ignoring (signal)",
			fresh,
		),
		Summary:     "The latency tail is long compared with the mean.",
		Description: `{{ $labels.target }} ({{ $labels.target_env }}): p99/mean of {{ $labels.signal }} on probe {{ $labels.probe }} is {{ $value | humanize }}; 2 to 3 is usual, 4 is high, 5 needs a look.`,
	})
}

// replicaOutlier finds the slow one among equals: half as slow again as the median of
// at least three, by more than a distance in the network or a scheduler's tick.
func replicaOutlier(t timing) Rule {
	slower := func(signal, by string) string {
		median := highest(catalog.ResultLatency, `signal="`+signal+`"`, `stat="p50"`)
		pool := "quantile without (target, model) (0.5, " + median + ")"
		return group(
			median+" > ignoring (target, model) group_left () 1.5 * "+pool,
			"and",
			median+" - ignoring (target, model) group_left () "+pool+" > "+by,
		)
	}
	return Rule{
		Alert: "InferbeatReplicaOutlier", Severity: Warning, Category: Latency, Board: BoardTarget,
		For: t.short(15 * time.Minute), KeepFiring: t.short(15 * time.Minute),
		Expr: lines(
			group(slower("ttft", "0.05"), "or", slower("tpot", "0.005")),
			"and ignoring (target, model)",
			"count without (target, model) ("+highest(catalog.ResultLatency, `signal=~"ttft|tpot"`, `stat="p50"`)+") >= 3",
			"and ignoring (stat)",
			enough("20"),
			"and ignoring (signal, stat)",
			fresh,
		),
		Summary:     "A replica is much slower than its pool.",
		Description: `{{ $labels.target }} ({{ $labels.target_env }}): median {{ $labels.signal }} of probe {{ $labels.probe }} is {{ $value | humanizeDuration }}, more than 1.5 times that of pool {{ $labels.pool }}.`,
	}
}

func queue(t timing, name string, severity Severity, limit string) Rule {
	return Rule{
		Alert: name, Severity: severity, Category: Saturation, Board: BoardTarget,
		For: t.short(10 * time.Minute), KeepFiring: t.short(15 * time.Minute),
		Expr: lines(
			group(
				highest(catalog.ResultServerQueue, `stat="mean"`),
				"> ignoring (stat, severity)",
				highest(catalog.QueueThreshold, `severity="`+limit+`"`),
			),
			"and ignoring (stat)",
			fresh,
		),
		Summary:     "The server's waiting queue stayed long during the probe.",
		Description: `{{ $labels.target }} ({{ $labels.target_env }}): on average {{ $value | humanize }} requests waited while probe {{ $labels.probe }} ran.`,
	}
}
