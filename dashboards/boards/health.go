package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// health is about the prober itself: a sick one is no evidence.
func health() *builderV1 {
	v := healthVars
	b := withWindow(frame(uidHealth, "Prober health", "Can we believe the prober?", "now-6h").
		WithVariable(choose(varInstance, "Instance", "label_values("+vars{varJob}.of(catalog.BuildInfo)+", instance)"))).
		Annotation(mark("Configuration reloads", "purple", true, v.of(catalog.ConfigReloadTimestamp)+" * 1000", "Configuration loaded", true)).
		Annotation(mark("Alerts", red, true, alerts(`instance=~"$instance|"`), "{{alertname}}", false))
	b = b.WithRow(dashboard.NewRowBuilder("Now"))
	for _, n := range healthNumbers(v) {
		b = b.WithPanel(n)
	}
	b = healthClock(b.WithRow(dashboard.NewRowBuilder("Clock and load generator")), v)
	b = healthWork(b.WithRow(dashboard.NewRowBuilder("Schedule, targets and results")), v)
	b = healthDiscovery(b.WithRow(dashboard.NewRowBuilder("Service discovery")), v)
	return healthProcess(b.WithRow(dashboard.NewRowBuilder("Process")), v)
}

func healthNumbers(v vars) []*statBuilder {
	return []*statBuilder{
		number("Trust", about{asks: "Can latencies be believed now?", good: "Healthy.",
			act: "Saturated: give the prober CPU, or fewer probes; its numbers are not the server's."},
			units.Short, line("max("+v.of(catalog.ClientSaturated)+")", "")).
			Mappings(valueNames(value{0, "healthy", green}, value{1, "saturated", red})).GraphMode(common.BigValueGraphModeNone),
		number("CPU used", about{asks: "How near is the prober to its CPU limit?", good: "Below 50 %.",
			act: "Above 85 % results are marked: raise the limit or shard the targets."},
			units.PercentUnit, line("max("+v.of(catalog.ClientCPUSaturation)+")", "")).
			Thresholds(steps(green, step{0.6, orange}, step{0.85, red})).Min(0).Max(1),
		number("Clock error", about{asks: "Which share of its tolerance is the error of the built-in stream of known times?", good: "Below 100 %.",
			act: "Above: no latency of this prober can be believed now; look at CPU and loop lag."},
			units.PercentUnit, line(fmt.Sprintf("max(abs(%s) / on (job, instance, signal) %s)", v.of(catalog.SelfTestError), v.of(catalog.SelfTestTolerance)), "")).
			Thresholds(steps(green, step{0.7, orange}, step{1, red})),
		number("Scheduler's last tick", about{asks: "Is the scheduler alive?", good: "Seconds ago.",
			act: "Minutes: the daemon hangs; restart it, and keep its goroutine dump (/debug/pprof)."},
			units.Seconds, line("max(time() - "+v.of(catalog.SchedulerLastTick)+")", "")).
			Thresholds(steps(green, step{30, orange}, step{120, red})),
		number("Configuration", about{asks: "Did the last reload succeed?", good: "Loaded.",
			act: "Refused: the old one is still in force; inferbeat check names file and line."},
			units.Short, line("min("+v.of(catalog.ConfigReloadSuccessful)+")", "")).
			Mappings(valueNames(value{1, "loaded", green}, value{0, "refused", red})).GraphMode(common.BigValueGraphModeNone),
		number("Series of the limit", about{asks: "Is there room for more targets?", good: "Below 80 %.",
			act: "Above, new targets are refused: shard, or choose the compact profile."},
			units.PercentUnit, line(fmt.Sprintf("max(%s / %s)", v.of(catalog.MetricsSeries), v.of(catalog.MetricsSeriesLimit)), "")).
			Thresholds(steps(green, step{0.8, orange}, step{0.95, red})),
		number("Panics", about{asks: "Did anything break inside?", good: "0.",
			act: "A contained panic is a failed run and a bug: report it with the log."},
			units.Short, line("sum(increase("+v.of(catalog.Panics)+"[1d]))", "")).Decimals(0).
			Thresholds(steps(green, step{1, red})),
		number("Events lost", about{asks: "Did an exporter lose events?", good: "0.",
			act: "A sink is slower than the runs: see losses by sink below."},
			units.Short, line("sum(increase("+v.of(catalog.ExporterDroppedEvents)+"[1d]))", "")).Decimals(0).
			Thresholds(steps(green, step{1, red})),
	}
}

func healthClock(b *builderV1, v vars) *builderV1 {
	lag := func(title, asks, act, name string, by string) *timeseries.PanelBuilder {
		legend := "p99"
		if by != "" {
			legend += " {{" + by + "}}"
		}
		return timeSeries(title, about{asks: asks, good: "Below the dashed 5 ms.", act: act, none: "Nothing was timed in the window."}, units.Seconds,
			query{expr: v.quantile(0.99, by, name), legend: legend}).
			Thresholds(steps(green, step{0.005, red})).Span(6).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	return b.WithPanel(timeSeries("CPU used of what is available", about{
		asks: "Is the prober starved?", good: "Below the dashed 85 %.",
		act: "Above: latencies include the prober's own queueing.",
	}, units.PercentUnit, line(v.of(catalog.ClientCPUSaturation), "{{instance}}")).Max(1).
		Thresholds(steps(green, step{0.85, red})).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))).
		WithPanel(timeSeries("Error of the reference stream", about{
			asks: "How wrong is a latency that is known?", good: "Below the dashed tolerance.",
			act: "Above: believe no result of that time.",
		}, units.Seconds, line("abs("+v.of(catalog.SelfTestError)+")", "{{signal}} {{instance}}"),
			line(maxBy("signal", v.of(catalog.SelfTestTolerance)), limitLegend+" {{signal}}"))).
		WithPanel(lag("Send lag p99", "Are requests sent when they are due?", "Above: arrivals are not what they claim; fewer streams, more CPU. Waits for max_concurrency are part of it: there it is the target that is slow.", catalog.RequestSendLag, "probe")).
		WithPanel(lag("Loop lag p99", "Does a timer fire when it should?", "Above: the process or its machine is starved, or GC runs wild.", catalog.ClientLoopLag, "")).
		WithPanel(timeSeries("Scheduler lag p99", about{
			asks: "Do runs start when they are due?", good: "Below a second.",
			act: "Above: too many runs are due at once; spread the schedules.", none: "No run started in the window.",
		}, units.Seconds, query{expr: v.quantile(0.99, "", catalog.SchedulerLag), legend: "p99"}).Span(6)).
		WithPanel(timeSeries("Runs that wait", about{
			asks: "How many runs are due and have not started?", good: "0, or a few for as long as a load holds their target.",
			act: "Many for long: runs take longer than their intervals (target_busy), or max_concurrent_runs is reached (prober_busy).",
		}, units.Short, line(v.of(catalog.SchedulerQueue), "{{instance}}")).Span(6))
}

// healthDiscovery says where targets come from that are written nowhere.
func healthDiscovery(b *builderV1, v vars) *builderV1 {
	const none = "No target is discovered: all are in the configuration."
	return b.WithPanel(timeSeries("Discovered targets", about{
		asks: "How many targets does discovery report, before relabelling?", good: "As many as there are replicas.",
		act: "A fall: the inventory lost some. Fewer active ones beside: relabelling drops them, or they are rejected.", none: none,
	}, units.Short, line(sumBy("mechanism", v.of(catalog.DiscoveryTargets)), "{{mechanism}}")).Span(8)).
		WithPanel(bars("Failed refreshes of discovery", about{
			asks: "Is the list of targets a fresh one?", good: "Nothing to see.",
			act: "What was found before is probed on; the log says why.", none: none,
		}, units.Short, line(sumBy("mechanism", increase(v.of(catalog.DiscoveryFailures))), "{{mechanism}}")).Span(8)).
		WithPanel(timeSeries("Age of the last refresh", about{
			asks: "Since when has nothing new been heard?", good: "Below the refresh interval; of kubernetes the time since the last change.",
			act: "Growing while refreshes fail: the targets are those of then.", none: none,
		}, units.Seconds, line("time() - "+minBy("mechanism, instance", v.of(catalog.DiscoveryLastSuccess)), "{{mechanism}} {{instance}}")).Span(8))
}

func healthWork(b *builderV1, v vars) *builderV1 {
	return b.WithPanel(timeSeries("Targets by state", about{
		asks: "How many targets are watched?", good: "All active.",
		act: "rejected: the series limit is reached, or a name occurs twice; the log says which. A fall: discovery lost some. draining: gone, with a run that still goes on.",
	}, units.Short, line(sumBy("state", v.of(catalog.Targets)), "{{state}}")).Span(8)).
		WithPanel(timeSeries("Series exposed", about{
			asks: "How large is a scrape?", good: "Far below the dashed limit.",
			act: "A growth without new targets is a bug; report it.",
		}, units.Short, line(v.of(catalog.MetricsSeries), "{{instance}}"), line(minBy("instance", v.of(catalog.MetricsSeriesLimit)), limitLegend+" {{instance}}")).Span(8)).
		WithPanel(bars("Losses and errors of exporters", about{
			asks: "Does every result reach every sink?", good: "Nothing to see.",
			act: "lost: the sink is too slow. failed: it refuses; the log says why.", none: "No exporter lost or refused anything in the window.",
		}, units.Short,
			line(sumBy("sink", increase(v.of(catalog.ExporterDroppedEvents))), "lost {{sink}}"),
			line(sumBy("sink", increase(v.of(catalog.ExporterErrors))), "failed {{sink}}")).Span(8)).
		WithPanel(bars("Log lines by level", about{
			asks: "Does the daemon complain?", good: "No errors, few warnings.",
			act: "Read the log at the time of the bars.", none: "No line was logged in the window.",
		}, units.Short, line(sumBy("level", increase(v.of(catalog.LogMessages))), "{{level}}")).Span(8).
			OverrideByName("error", fixed(red)).OverrideByName("warn", fixed(orange)).OverrideByName("info", fixed(blue)).OverrideByName("debug", fixed(grey))).
		WithPanel(bars("Errors of the store", about{
			asks: "Is everything kept that a restart must not forget?", good: "Nothing to see.",
			act: "add, state: the disk is full or read-only, and results are lost at a restart. read, prune: see the log.",
		}, units.Short, line(sumBy("operation", increase(v.of(catalog.StoreErrors))), "{{operation}}")).Span(8)).
		WithPanel(timeSeries("Size of the store", about{
			asks: "How much disk does the memory take?", good: "Grows for as long as results are kept, then stays.",
			act: "Growing on: shorten storage.retention or storage.samples_retention.", none: "The daemon keeps no store (storage.path).",
		}, units.BytesIEC, line(maxBy("instance", v.of(catalog.StoreSize)), "{{instance}}")).Span(8)).
		WithPanel(timeSeries("Age of the last write", about{
			asks: "Is the store still written?", good: "As young as the last run.",
			act: "A line that only rises while runs end: see the errors beside.", none: "The daemon keeps no store, or has written nothing yet.",
		}, units.Seconds, line("time() - "+maxBy("instance", v.of(catalog.StoreLastWrite)), "{{instance}}")).Span(8)).
		WithPanel(columns(rows("Builds and configurations", about{
			asks: "Which build runs with which configuration?", good: "One build everywhere.",
			act: "Different hashes behind one job: a daemon missed a reload.",
		}, units.Short, line("max by (instance, version, revision, goversion) ("+v.of(catalog.BuildInfo)+")", ""), line("max by (instance, sha256) ("+v.of(catalog.ConfigInfo)+")", "")),
			column{field: "instance", heading: "Instance"}, column{field: "version", heading: "Version"}, column{field: "revision", heading: "Revision"},
			column{field: "goversion", heading: "Go"}, column{field: "sha256", heading: "Configuration"}).Span(16).Height(8))
}

// healthProcess uses what every Go program exposes; those names are not ours.
func healthProcess(b *builderV1, v vars) *builderV1 {
	foreign := func(name string) string { return name + `{job=~"$job",instance=~"$instance"}` }
	small := func(title, asks, good, act, unit, expr string) *timeseries.PanelBuilder {
		return timeSeries(title, about{asks: asks, good: good, act: act}, unit, line(expr, "{{instance}}")).Span(6).Height(7)
	}
	return b.WithPanel(small("Resident memory", "Does it grow without end?", "Flat after the first hour.",
		"A steady rise is a leak: take a heap profile.", units.BytesIEC, foreign("process_resident_memory_bytes"))).
		WithPanel(small("Goroutines", "Do they grow without end?", "Rises and falls with the runs.",
			"A steady rise is a leak: take a goroutine profile.", units.Short, foreign("go_goroutines"))).
		WithPanel(small("Open files", "Is there room for more connections?", "Far below the limit.",
			"Near it connections fail: raise the limit of the service.", units.PercentUnit,
			foreign("process_open_fds")+" / "+foreign("process_max_fds"))).
		WithPanel(small("Scrape duration", "Is the scrape in time?", "Below a second.",
			"Near the scrape's timeout: fewer series, or a longer timeout.", units.Seconds, foreign("scrape_duration_seconds")))
}
