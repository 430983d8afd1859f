package alerts

import (
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// proberAlerts are about inferbeat itself. Those about one process keep its instance.
func proberAlerts(t timing) Group {
	return Group{Name: "inferbeat.prober", Interval: t.short(time.Minute), Rules: concat(
		aliveAlerts(t), coverageAlerts(t), targetAlerts(t), trustAlerts(t), housekeepingAlerts(t),
	)}
}

func concat(lists ...[]Rule) []Rule {
	var out []Rule
	for _, list := range lists {
		for _, r := range list {
			r.Category = Meta
			if r.Board == "" {
				r.Board = BoardHealth
			}
			out = append(out, r)
		}
	}
	return out
}

// aliveAlerts tell whether anybody is looking at all.
func aliveAlerts(t timing) []Rule {
	return []Rule{
		{
			// Out of the scheduler's tick, so that it ends when the daemon stalls as well as
			// when the scrape, Prometheus or Alertmanager does.
			Alert: "InferbeatHeartbeat", Severity: None,
			Expr:        "min by (job) (time() - " + catalog.SchedulerLastTick + ") < " + t.seconds(2*time.Minute),
			Summary:     "Inferbeat is alive; this alert always fires.",
			Description: `Route this alert to a dead man's switch. When it stops, inferbeat, its scrape, Prometheus or Alertmanager is broken.`,
		},
		{
			Alert: "InferbeatAbsent", Severity: Critical, For: t.short(10 * time.Minute),
			Expr:        "absent(" + catalog.BuildInfo + ")",
			Summary:     "No inferbeat is being scraped.",
			Description: `There has been no series of any inferbeat for ` + t.window(10*time.Minute) + `.`,
		},
		{
			// What it exposed says which job is ours, so no job's name is wired in.
			Alert: "InferbeatDown", Severity: Warning, For: t.short(5 * time.Minute),
			Expr: lines(
				"up == 0",
				"and on (job, instance)",
				"last_over_time("+catalog.BuildInfo+"["+t.window(time.Hour)+"])",
			),
			Summary:     "An inferbeat instance cannot be scraped.",
			Description: `{{ $labels.instance }} exposed metrics of inferbeat within the last hour and does not answer now.`,
		},
		{
			// Beside a heartbeat that takes all instances of a job together.
			Alert: "InferbeatStalled", Severity: Warning, For: t.short(5 * time.Minute),
			Expr:        "time() - " + catalog.SchedulerLastTick + " > " + t.seconds(2*time.Minute),
			Summary:     "The scheduler of an inferbeat instance stands still.",
			Description: `{{ $labels.instance }} answers scrapes, but its scheduler last looked at its queue {{ $value | humanizeDuration }} ago.`,
		},
	}
}

// coverageAlerts tell whether what should be probed is probed.
func coverageAlerts(t timing) []Rule {
	invalid := sel(catalog.Runs, `result="invalid"`)
	invalidInADay := "sum without (" + process + ", result) (increase(" + invalid + "[" + t.window(day) + "]))"
	within := "[" + t.window(6*time.Hour) + "]"
	skipped := "increase(" + sel(catalog.RunSkips, `reason!="paused"`) + within + ")"
	return []Rule{
		{
			Alert: "InferbeatProbeStale", Severity: Warning, For: t.short(5 * time.Minute), Board: BoardTarget,
			Expr: lines(
				group(
					"time()",
					"-",
					group(highest(catalog.RunLastSuccess), "or", highest(catalog.ProbeRegistered)),
				),
				">",
				highest(catalog.ProbeStaleAfter),
			),
			Summary:     "A probe has not succeeded for too long.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): probe {{ $labels.probe }} last succeeded, or was first known, {{ $value | humanizeDuration }} ago.`,
		},
		{
			Alert: "InferbeatRunsSkipped", Severity: Info, For: t.short(30 * time.Minute), KeepFiring: t.short(time.Hour), Board: BoardRuns,
			// A share of what was due, because a canary that comes every half minute gives way
			// to each load and comparison of its target, and that is as it should be. Soon after a start one
			// of them is a large share, hence half an hour.
			Expr: lines(
				group("sum without ("+process+") ("+skipped+") > 2.5"),
				"> ignoring (reason) group_left ()",
				"0.1 * "+group(
					"sum without ("+process+", reason) ("+skipped+")",
					"+",
					"sum without ("+process+", result) (increase("+catalog.Runs+within+"))",
				),
			),
			Summary:     "Scheduled runs are being skipped.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): {{ printf "%.0f" $value }} runs of probe {{ $labels.probe }} were skipped in 6 h: {{ $labels.reason }}.`,
		},
		{
			// A share of them, because a canary has a thousand runs a day.
			Alert: "InferbeatRunsInvalid", Severity: Warning, KeepFiring: t.short(time.Hour), Board: BoardRuns,
			Expr: lines(
				invalidInADay+" > 0.5",
				"and",
				group(
					invalidInADay,
					"/",
					"sum without ("+process+", result) (increase("+catalog.Runs+"["+t.window(day)+"]))",
				)+" > 0.05",
			),
			Summary:     "Runs were thrown away because their measurements cannot be believed.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): {{ printf "%.0f" $value }} runs of probe {{ $labels.probe }} were invalid in the last day.`,
		},
	}
}

// targetAlerts tell whether there is what should be probed, and what it is held to.
func targetAlerts(t timing) []Rule {
	active := "sum without (" + process + ") (" + sel(catalog.Targets, `state="active"`) + ")"
	return []Rule{
		{
			Alert: "InferbeatNoTargets", Severity: Warning, For: t.short(10 * time.Minute),
			Expr:        active + " == 0",
			Summary:     "Inferbeat has no active targets.",
			Description: `The configuration has no target that is probed.`,
		},
		{
			Alert: "InferbeatTargetsDropped", Severity: Warning, For: t.short(15 * time.Minute),
			Expr: lines(
				active,
				"<",
				"0.5 * max_over_time("+active+"["+t.window(6*time.Hour)+":"+t.window(5*time.Minute)+"])",
			),
			Summary:     "More than half of the targets disappeared.",
			Description: `{{ $value }} active targets are left.`,
		},
		{
			Alert: "InferbeatTargetsRejected", Severity: Warning, For: t.short(15 * time.Minute),
			Expr:        sel(catalog.Targets, `state="rejected"`) + " > 0",
			Summary:     "Discovered targets are not probed.",
			Description: `{{ $labels.instance }} does not probe {{ $value }} of what service discovery has found; its log says which and why.`,
		},
		{
			// Three failures, because watches break now and then; and no success, because one
			// mechanism may have several lists. A mechanism that only tells of changes has no
			// success while nothing changes, and no failures either.
			Alert: "InferbeatDiscoveryFailing", Severity: Warning, For: t.short(10 * time.Minute),
			Expr: lines(
				"increase("+catalog.DiscoveryFailures+"["+t.window(30*time.Minute)+"]) > 2.5",
				"unless",
				"time() - "+catalog.DiscoveryLastSuccess+" < "+t.seconds(15*time.Minute),
			),
			Summary:     "Service discovery fails.",
			Description: `{{ $labels.instance }}: {{ printf "%.0f" $value }} refreshes of {{ $labels.mechanism }} discovery failed in ` + t.window(30*time.Minute) + `; what is probed is what was found before.`,
		},
		{
			// A limit that is not there silently switches its alert off.
			Alert: "InferbeatProductionWithoutSLO", Severity: Info, For: t.short(time.Hour), Board: BoardSLO,
			Expr: lines(
				"count by (job, pool) ("+sel(catalog.TargetInfo, `target_env="production"`)+")",
				"unless on (job, pool)",
				"count by (job, pool) ("+catalog.SLOObjective+")",
			),
			Summary:     "A production pool has no SLO.",
			Description: `Pool {{ $labels.pool }} is probed but no objective is declared, so that no burn-rate alert covers it.`,
		},
	}
}

// trustAlerts tell whether what is measured can be believed.
func trustAlerts(t timing) []Rule {
	return []Rule{
		{
			Alert: "InferbeatClientSaturated", Severity: Warning, For: t.short(5 * time.Minute), KeepFiring: t.short(10 * time.Minute),
			Expr:        "avg_over_time(" + catalog.ClientSaturated + "[" + t.window(10*time.Minute) + "]) > 0.5",
			Summary:     "The load generator is saturated, its measurements are suspect.",
			Description: `{{ $labels.instance }} spent {{ $value | humanizePercentage }} of the last ` + t.window(10*time.Minute) + ` saturated.`,
		},
		{
			Alert: "InferbeatSelfTestFailing", Severity: Warning, For: t.short(10 * time.Minute), KeepFiring: t.short(10 * time.Minute),
			Expr:        "max without (signal) (abs(" + catalog.SelfTestError + ") > " + catalog.SelfTestTolerance + ")",
			Summary:     "Inferbeat mismeasures its own reference stream.",
			Description: `{{ $labels.instance }} is off by {{ $value | humanizeDuration }} against a stream whose times are known.`,
		},
		{
			Alert: "InferbeatSelfTestStale", Severity: Warning, For: t.short(5 * time.Minute),
			Expr:        "time() - " + catalog.SelfTestTimestamp + " > " + t.seconds(5*time.Minute),
			Summary:     "Inferbeat no longer measures its own reference stream.",
			Description: `{{ $labels.instance }} last measured its reference stream {{ $value | humanizeDuration }} ago; until it does, nothing proves its clock.`,
		},
	}
}

// housekeepingAlerts are about what wears out.
func housekeepingAlerts(t timing) []Rule {
	quarter := "[" + t.window(15*time.Minute) + "]"
	return []Rule{
		{
			Alert: "InferbeatConfigReloadFailed", Severity: Warning, For: t.short(5 * time.Minute),
			Expr:        catalog.ConfigReloadSuccessful + " == 0",
			Summary:     "The last reload of the configuration failed.",
			Description: `{{ $labels.instance }} runs with an older configuration.`,
		},
		{
			Alert: "InferbeatSeriesLimitReached", Severity: Warning, For: t.short(15 * time.Minute),
			Expr:        lines(catalog.MetricsSeries, ">", "0.9 * "+catalog.MetricsSeriesLimit),
			Summary:     "Inferbeat is close to its series limit.",
			Description: `{{ $labels.instance }} exposes {{ $value }} series.`,
		},
		{
			Alert: "InferbeatExporterFailing", Severity: Warning, KeepFiring: t.short(15 * time.Minute),
			Expr: lines(
				"increase("+catalog.ExporterDroppedEvents+quarter+")",
				"+",
				"increase("+catalog.ExporterErrors+quarter+")",
			) + " > 0",
			Summary:     "Finished measurements do not reach a sink.",
			Description: `{{ $labels.instance }}: {{ printf "%.0f" $value }} events were lost on their way to {{ $labels.sink }}.`,
		},
		{
			Alert: "InferbeatStoreFailing", Severity: Warning, KeepFiring: t.short(15 * time.Minute),
			Expr:        "sum without (operation) (increase(" + catalog.StoreErrors + quarter + ")) > 0",
			Summary:     "The result store refuses operations.",
			Description: `{{ $labels.instance }}: {{ printf "%.0f" $value }} operations of the result store failed; runs may not be remembered.`,
		},
		{
			Alert: "InferbeatPanicked", Severity: Warning, KeepFiring: t.short(time.Hour),
			Expr:        "increase(" + catalog.Panics + "[" + t.window(time.Hour) + "]) > 0",
			Summary:     "A panic was contained inside inferbeat.",
			Description: `{{ $labels.instance }}: {{ printf "%.0f" $value }} panics within an hour; each one ended a run as failed.`,
		},
	}
}
