package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// fleet is the board that a page is opened on: is it one replica, one pool or
// all of them, and since when?
func fleet() *builderV1 {
	v := pairVars
	b := withWindow(withPairs(frame(uidFleet, "Fleet overview", "Who is broken, and since when?", "now-24h")))
	b = b.WithRow(dashboard.NewRowBuilder("Now"))
	for _, n := range fleetNumbers(v) {
		b = b.WithPanel(n)
	}
	return b.WithPanel(firingAlerts()).
		WithRow(dashboard.NewRowBuilder("Pools and targets")).
		WithPanel(poolTable(v)).
		WithRow(dashboard.NewRowBuilder("Timeline")).
		WithPanel(states("Failing targets", about{
			asks: "When did it start, and is it one target or many?",
			good: "Every band says that the target answers.",
			act:  "A single band: drill down into that target. All bands at once: look at the network, the router and the prober's health first.",
		}, valueNames(value{0, "answers", green}, value{1, "fails", red}),
			line(maxBy("target", v.failing("target, probe")), "{{target}}")).DataLinks(links(targetLink()))).
		WithPanel(verdicts("Nights", v, "target, probe", fmt.Sprintf(" < %d", catalog.VerdictLearning)).Height(6)).
		WithPanel(timeSeries("Success ratio by pool", about{
			asks: "Which share of the probes' requests is answered in full?",
			good: "A line at 100 %.",
			act:  "Open the target board: errors by class say whether it is the network, the server's limits or broken answers.",
			none: "No request ended in the window.",
		}, units.PercentUnit, line(v.successRatio("pool"), "{{pool}}")).Max(1).AxisSoftMin(0.9)).
		WithPanel(timeSeries("TTFT p99 of the last results", about{
			asks: "Which target is slow to its first token?",
			good: "Flat lines that lie together: replicas of a pool should not differ.",
			act:  "One line above the rest is a sick replica; all lines rising together are load or a new version.",
			none: "No valid result yet, or all of them are older than stale_after.",
		}, units.Seconds, line(maxBy("target, probe", v.latency("ttft", "p99")), "{{target}} {{probe}}")).
			DataLinks(links(targetLink(), runLink())).SpanNulls(common.BoolOrFloat64{Bool: p(true)})).
		WithPanel(timeSeries("TPOT p50 of the last results", about{
			asks: "Which target decodes slowly?",
			good: "Flat lines that lie together.",
			act:  "A step for one pool at a version mark is the new build; a slow rise is load, heat or a fuller batch.",
			none: "No valid result yet, or all of them are older than stale_after.",
		}, units.Seconds, line(maxBy("target, probe", v.latency("tpot", "p50")), "{{target}} {{probe}}")).
			DataLinks(links(targetLink(), runLink())).SpanNulls(common.BoolOrFloat64{Bool: p(true)})).
		WithPanel(timeSeries("Output tokens per second by pool", about{
			asks: "How many tokens a second do the probes of each pool get?",
			good: "The height is set by the probes' own rate; what matters is that it does not move.",
			act:  "A drop without failures: the server is slower, or runs are skipped (see the regression board).",
			none: "No token was received in the window.",
		}, "suffix: tok/s", line(sumBy("pool", rate(v.of(catalog.OutputTokens))), "{{pool}}")))
}

func fleetNumbers(v vars) []*statBuilder {
	judged := func(n *statBuilder, bad step) *statBuilder { return n.Thresholds(steps(green, bad)) }
	severity := func(name string) string { return count(alerts(is(catalog.LabelSeverity, name))) }
	return []*statBuilder{
		judged(number("Critical alerts", about{
			asks: "Must somebody act now?", good: "0.",
			act: "The table below names them; each has a runbook of the same name.",
		}, units.Short, line(severity("critical"), "")), step{1, red}),
		judged(number("Warnings", about{
			asks: "Is there something to look at today?", good: "0.",
			act: "The table below names them; none of them needs a night.",
		}, units.Short, line(severity("warning"), "")), step{1, orange}),
		judged(number("Targets failing", about{
			asks: "How many targets failed in their last runs?", good: "0.",
			act: "The timeline shows which and since when.",
		}, units.Short, line(count(maxBy("target", v.failing("target, probe"))+" > 0"), "")), step{1, red}),
		judged(number("Objectives burning", about{
			asks: "How many objectives spend their error budget faster than they may?", good: "0; 1 now and then is what a budget is for.",
			act: "The SLO board shows how fast, and who burns it.",
		}, units.Short, line(count(v.burnRate("1h")+" > 1"), "")), step{1, orange}),
		judged(number("Regressions", about{
			asks: "How many series of nights are confirmed to be worse than before?", good: "0.",
			act: "The regression board says which, by how much and since which night.",
		}, units.Short, line(count(fmt.Sprintf("%s == %d", maxBy("target, probe, metric", v.of(catalog.RegressionVerdict)), catalog.VerdictWorse)), "")), step{1, red}),
		judged(number("Stale probes", about{
			asks: "How many probes have not succeeded for longer than they may?", good: "0.",
			act: "The prober is down, overloaded or refused: see prober health, and the skips on the regression board.",
		}, units.Short, line(count(v.stale()), "")), step{1, orange}),
		number("Prober", about{
			asks: "Can the numbers be believed?", good: "Healthy.",
			act: "A saturated prober measures itself: see prober health before believing any latency on this board.",
		}, units.Short, line("max("+vars{varJob}.of(catalog.ClientSaturated)+")", "")).
			Mappings(valueNames(value{0, "healthy", green}, value{1, "saturated", red})).
			GraphMode(common.BigValueGraphModeNone),
		number("Probes on targets", about{
			asks: "How much of the fleet does this selection cover?", good: "As many as the configuration has.",
			act: "Too few: discovery lost targets, or a variable above is narrow.",
		}, units.Short, line(fmt.Sprintf("count(%s)", maxBy("target, probe", v.of(catalog.RunActive))), "")),
	}
}

func firingAlerts() *table.PanelBuilder {
	a := about{
		asks: "Which alerts fire, about what?", good: "An empty table.",
		act:  "Start with the most severe; an alert about the prober explains others away.",
		none: "No alert fires (or the shipped rules are not loaded).",
	}
	return columns(rows("Firing alerts", a, units.Short, line(alertRanks(), "")),
		column{field: "Value", heading: "Severity", width: 100, mappings: valueNames(value{3, "critical", red}, value{2, "warning", orange}, value{1, "info", blue})},
		column{field: "alertname", heading: "Alert"},
		column{field: "target_env", heading: "Environment", width: 120},
		column{field: "pool", heading: "Pool"},
		column{field: "target", heading: "Target", links: cellLink("Drill down into the target", uidTarget, catalog.LabelTarget, "Target")},
		column{field: "probe", heading: "Probe"},
		column{field: "slo", heading: "Objective", width: 120},
		column{field: "metric", heading: "Series", width: 160},
	).Height(7).SortBy(highestFirst("Severity"))
}

// alertRanks is 3 for critical alerts, 2 for warnings and 1 for hints: sorted by
// name, info would come before warning.
func alertRanks() string {
	const labels = "alertname, severity, target_env, pool, target, probe, slo, metric"
	rank := func(severity string, n int) string {
		return fmt.Sprintf("%d * %s", n, maxBy(labels, alerts(is(catalog.LabelSeverity, severity))))
	}
	return rank("critical", 3) + "\nor\n" + rank("warning", 2) + "\nor\n" + rank("info", 1)
}

func poolTable(v vars) *table.PanelBuilder {
	const labels = "pool, target_env, target, probe"
	failed := steps(green, step{0.01, orange}, step{0.1, red})
	limit := fmt.Sprintf("%s / on (target, probe) group_left () %s",
		maxBy(labels, v.latency("ttft", "p99")), minBy("target, probe", v.of(catalog.LatencyThreshold, is("signal", "ttft"), is("stat", "p99"))))
	return columns(rows("Pools and targets, worst first", about{
		asks: "How does every target do at a glance, beside the others of its pool?",
		good: "All names green; the rows of one pool alike.",
		act:  "Click a target to drill down. A pool with one odd row has a sick replica; a whole odd pool has a bad build or too much load.",
	}, units.Short,
		line(v.failing(labels), ""), line("1 - ("+v.successRatio(labels)+")", ""), line(maxBy(labels, v.latency("ttft", "p99")), ""), line(limit, ""),
		line(maxBy(labels, v.latency("tpot", "p50")), ""), line(maxBy(labels, v.of(catalog.ResultOutputTokensPerSecond)), ""),
		line(v.age(labels), "")),
		column{field: "Value #A", heading: "State", width: 80, mappings: valueNames(value{0, "answers", green}, value{1, "fails", red})},
		column{field: "pool", heading: "Pool"},
		column{field: "target_env", heading: "Environment", width: 120},
		column{field: "target", heading: "Target", links: cellLink("Drill down into the target", uidTarget, catalog.LabelTarget, "Target")},
		column{field: "probe", heading: "Probe", width: 120},
		column{field: "Value #B", heading: "Failed", width: 90, unit: units.PercentUnit, thresholds: failed},
		column{field: "Value #C", heading: "TTFT p99", width: 120, unit: units.Seconds},
		column{field: "Value #D", heading: "of its limit", width: 120, unit: units.PercentUnit, thresholds: steps(green, step{0.8, orange}, step{1, red})},
		column{field: "Value #E", heading: "TPOT p50", width: 120, unit: units.Seconds},
		column{field: "Value #F", heading: "Output tok/s", width: 120, unit: "suffix: tok/s"},
		column{field: "Value #G", heading: "Result's age", width: 120, unit: units.Seconds},
	).SortBy(highestFirst("State", "Failed", "of its limit")).Height(10)
}
