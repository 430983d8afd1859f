package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
	"github.com/grafana/grafana-foundation-sdk/go/xychart"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

const noSweep = "No sweep is complete yet: a probe of kind sweep measures capacity."

// capacity shows how much a replica takes, how much of it is in use, and the
// curve that says why.
func capacity() *builderV1 {
	v := pairVars
	b := withWindow(withPairs(frame(uidCapacity, "Capacity", "How much can this replica take, and how close are we?", "now-7d")))
	b = b.WithRow(dashboard.NewRowBuilder("Now"))
	for _, n := range capacityNumbers(v) {
		b = b.WithPanel(n)
	}
	b = capacityInUse(b.WithRow(dashboard.NewRowBuilder("How close")), v)
	b = capacityOverTime(b.WithRow(dashboard.NewRowBuilder("Over time")), v)
	return capacityCurves(b.WithRow(dashboard.NewRowBuilder("The curve of the last sweep")), v)
}

func capacityNumbers(v vars) []*statBuilder {
	rate := func(title, asks, good, act, expr string) *statBuilder {
		return number(title, about{asks: asks, good: good, act: act, none: noSweep}, units.RequestsPerSecond, line(expr, "")).Span(6)
	}
	doubt := func(title, asks, good, act, expr string) *statBuilder {
		return number(title, about{asks: asks, good: good, act: act, none: noSweep}, units.Short, line(count(expr), "")).
			Thresholds(steps(green, step{1, orange})).Span(6)
	}
	return []*statBuilder{
		rate("Safe capacity, selected", "What may all selected replicas take together?", "More than the busiest hour brings.",
			"Less: add replicas before the next busy hour. Of a replica with several sweeps the smallest counts.", "sum("+minBy("target", v.of(catalog.CapacitySafe))+")"),
		rate("Weakest replica", "What may the weakest selected replica take?", "The same as its neighbours.",
			"A router that spreads evenly is limited by this one.", "min("+v.of(catalog.CapacitySafe)+")"),
		doubt("Lower bounds", "How many sweeps ended before the knee?", "0: every knee was passed.",
			"The true capacity is higher: give the sweep higher rates.", maxBy("target, probe", v.of(catalog.CapacityBracketed))+" == 0"),
		doubt("Doubtful sweeps", "How many sweeps are only shown with reasons to doubt them?", "0.",
			"The run's page lists the reasons.", maxBy("target, probe", v.of(catalog.CapacitySuspect))+" == 1"),
	}
}

// capacityInUse lays the traffic beside what the sweeps found. Of several
// workloads' capacities the smallest counts: which of them the traffic is like,
// nobody knows; one that ended below its knee has found no capacity but a lower bound.
// The alert about headroom compares the same two.
func capacityInUse(b *builderV1, v vars) *builderV1 {
	all, safe := maxBy("target", v.of(catalog.ServerRequests)), minBy("target", v.of(catalog.CapacitySafe)+" and "+v.of(catalog.CapacityBracketed)+" == 1")
	none := "The engine does not count its requests, or no sweep of the target has passed the knee yet."
	return b.
		WithPanel(timeSeries("Live load as a share of safe capacity", about{
			asks: "How near is the traffic of all clients to what the replica takes?",
			good: "Below 80 % in the busiest hour.",
			act:  "Above 100 % requests wait: add replicas. Only while a sweep runs: that is the sweep itself, see beside.",
			none: none,
		}, units.PercentUnit, line(fmt.Sprintf("%s\n/ on (target)\n%s", all, safe), "{{target}}")).
			Thresholds(steps(green, step{0.8, orange}, step{1, red})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)).
			DataLinks(links(targetLink()))).
		WithPanel(timeSeries("Traffic beside safe capacity", about{
			asks: "How many requests a second does the server answer, and how many of them are inferbeat's?",
			good: "All clients below the dashed safe capacity, inferbeat a small part of them.",
			act:  "Traffic above the line: add replicas. Mostly inferbeat's: a sweep, or probes that ask for too much of a small target.",
			none: none,
		}, units.RequestsPerSecond, line(all, "all clients {{target}}"), line(ownRequests(v), "inferbeat {{target}}"), line(safe, limitLegend+" {{target}}")).
			DataLinks(links(targetLink())))
}

func capacityOverTime(b *builderV1, v vars) *builderV1 {
	return b.
		WithPanel(timeSeries("Knee and safe capacity", about{
			asks: "Does the capacity change from sweep to sweep?",
			good: "Steps within the dotted 95 % interval of the sweeps before.",
			act:  "A step beyond the interval at a version mark is the new build; see the curve below for which objective broke first.",
			none: noSweep,
		}, units.RequestsPerSecond,
			line(maxBy("target, probe", v.of(catalog.CapacityKnee)), "knee {{target}} {{probe}}"),
			line(maxBy("target, probe", v.of(catalog.CapacitySafe)), "safe {{target}} {{probe}}"),
			line(maxBy("target, probe", v.of(catalog.CapacityBaseline)), "baseline {{target}} {{probe}}"),
			line(maxBy("target, probe, bound", v.of(catalog.CapacityInterval)), "95 % {{bound}} {{target}} {{probe}}")).
			LineInterpolation(common.LineInterpolationStepAfter).
			OverrideByRegexp("/^95 % .*/", []dashboard.DynamicConfigValue{
				property("custom.lineStyle", map[string]any{"fill": "dot", "dash": []int{2, 4}}), property("custom.fillOpacity", 0), property("custom.lineWidth", 1),
			}).Span(13).Height(9).DataLinks(links(runLink()))).
		WithPanel(columns(rows("Last sweeps, oldest first", about{
			asks: "What did each sweep find, and when?",
			good: "Knees passed, and younger than a week.",
			act:  "An old sweep says nothing about a new build.",
			none: noSweep,
		}, units.Short,
			line(maxBy("target, probe", v.of(catalog.CapacityKnee)), ""), line(maxBy("target, probe", v.of(catalog.CapacitySafe)), ""),
			line(maxBy("target, probe", v.of(catalog.CapacityBracketed)), ""),
			line("time() - "+maxBy("target, probe", v.of(catalog.CapacityTimestamp)), "")),
			column{field: "target", heading: "Target"}, column{field: "probe", heading: "Probe", width: 140},
			column{field: "Value #A", heading: "Knee", width: 85, unit: units.RequestsPerSecond},
			column{field: "Value #B", heading: "Safe", width: 85, unit: units.RequestsPerSecond},
			column{field: "Value #C", heading: "Knee passed", width: 120, mappings: valueNames(value{1, "yes", green}, value{0, "no: lower bound", orange})},
			column{field: "Value #D", heading: "Age", width: 90, unit: units.Seconds},
		).Span(11).SortBy(highestFirst("Age")))
}

func capacityCurves(b *builderV1, v vars) *builderV1 {
	return b.
		WithPanel(curve("TTFT p99 against offered rate", "From which rate on do requests wait?",
			"Flat up to the knee, then steep.", "A curve that rises from the start has no spare capacity at all.", units.Seconds, v, catalog.SweepTTFTp99)).
		WithPanel(curve("Output tokens against offered rate", "Where does throughput stop to grow?",
			"Grows with the rate, then flattens.", "A fall beyond the knee is thrashing: preemption, or an overfull queue.", tokensPerSecond, v, catalog.SweepOutputTokens)).
		WithPanel(curve("TPOT against offered rate", "What does a fuller batch cost each token?",
			"A gentle rise.", "A jump: the batch fell off a fast kernel, or memory bandwidth is used up.", units.Seconds, v, catalog.SweepTPOTMean)).
		WithPanel(curve("Waiting in the server against offered rate", "From which rate on does the server queue?",
			"0 up to the knee.", "A queue below the knee points to a limit on running sequences, not to compute.", units.Short, v, catalog.SweepQueue)).
		WithPanel(timeSeries("Offline against online throughput", about{
			asks: "How much does serving cost against the bare engine?",
			good: "5 to 15 %.",
			act:  "Above 20 %: the front end, tokenisation or scheduling costs more than it should.",
			none: "No offline result to compare with (inferbeat import, or a peak probe).",
		}, units.PercentUnit, line(maxBy("target, probe", v.of(catalog.ResultOfflineGap)), "{{target}} {{probe}}")).
			Span(24).Height(7).Thresholds(steps(green, step{0.15, orange}, step{0.2, red})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)))
}

// curve draws a value of the last sweep's steps over their offered rates: two
// tables joined by the step, which is a label because the rates are values, and
// parted into one frame for each sweep. The first number of a frame is x.
func curve(title, asks, good, act, unit string, v vars, name string) *xychart.PanelBuilder {
	a := about{asks: asks, good: good, act: act, none: noSweep}
	const labels = "target, probe, step"
	x, y := line(maxBy(labels, v.of(catalog.SweepOffered)), ""), line(maxBy(labels, v.of(name)), "")
	return xychart.NewPanelBuilder().Title(title).Description(a.description([]query{x, y})).NoValue(a.noValue()).
		Datasource(datasource()).Span(12).Height(9).Unit(unit).Min(0).Thresholds(steps(blue)).
		ColorScheme(colorBy(dashboard.FieldColorModeIdPaletteClassic)).
		Mapping(xychart.SeriesMappingAuto).Show(xychart.XYShowModePointsAndLines).LineWidth(2).
		Legend(legend()).Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeSingle).Sort(common.SortOrderNone)).
		// The measured values are named by the sweep they belong to; a name of their own
		// would be the same for all.
		DisplayName("${__field.labels.target} ${__field.labels.probe}").
		OverrideByName(offeredField, []dashboard.DynamicConfigValue{property("unit", units.RequestsPerSecond)}).
		WithTarget(now(x).Format("table")).WithTarget(now(y).Format("table")).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"includeByName": map[string]any{"target": true, "probe": true, "Value #A": true, "Value #B": true}, "excludeByName": map[string]any{},
			"indexByName":  map[string]any{"target": 0, "probe": 1, "Value #A": 2, "Value #B": 3},
			"renameByName": map[string]any{"Value #A": offeredField},
		}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "sortBy", Options: map[string]any{
			"fields": map[string]any{}, "sort": []any{map[string]any{"field": offeredField, "desc": false}},
		}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "partitionByValues", Options: map[string]any{
			"fields": []string{"target", "probe"}, "keepFields": false, "naming": map[string]any{"asLabels": true},
		}})
}

const offeredField = "Offered rate"
