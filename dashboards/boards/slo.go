package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// slo shows promises over long windows: what is left of the error budget, how
// fast it burns, and who burns it.
func slo() *builderV1 {
	v := sloVars
	b := withWindow(withPairs(frame(uidSLO, "Objectives", "How fast does the error budget burn, and who burns it?", "now-24h"))).
		WithVariable(choose(catalog.LabelSLO, "Objective", "label_values("+pairVars.of(catalog.SLOObjective)+", slo)"))
	return b.WithRow(dashboard.NewRowBuilder("Budget")).
		WithPanel(objectives(v)).
		WithPanel(timeSeries("Error budget left", about{
			asks: "How much of each error budget is unspent?",
			good: "Above 0 %, and not falling faster than the window passes.",
			act:  "Below 25 %: stop risky changes. Below 0 %: the promise is broken until bad events leave the window.",
			none: "The daemon keeps no store, or no continuous probe of this selection has slos.",
		}, units.PercentUnit, line(minBy("pool, probe, slo", v.of(catalog.SLOBudgetRemaining)), "{{pool}} {{probe}} {{slo}}")).
			Max(1).Thresholds(steps(red, step{0, orange}, step{0.25, green})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))).
		WithPanel(timeSeries("Burn rate", about{
			asks: "How many times faster than allowed is each error budget spent?",
			good: "Below 1: at this speed the budget outlives its window.",
			act:  "Above 14.4 over an hour a thirty-day budget lives for two days, which pages; above 6 over six hours it lives for five. See who burns it below.",
			none: "No request of an objective ended within the hour: does a continuous probe of this selection have slos?",
		}, "suffix:x", line(v.burnRate("1h"), "{{pool}} {{probe}} {{slo}} 1h"), line(v.burnRate("6h"), "{{pool}} {{probe}} {{slo}} 6h")).
			Thresholds(steps(green, step{1, orange}, step{14.4, red})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)).
			Legend(legend("lastNotNull", "max"))).
		WithRow(dashboard.NewRowBuilder("Events")).
		WithPanel(bars("Bad events by target", about{
			asks: "Who burns the budget?",
			good: "No bars.",
			act:  "Open the target with the tallest bars; bars on every target of a pool mean the pool, not a replica.",
			none: "No event in the window.",
		}, units.Short, line("topk(10, "+sumBy("target, slo", increase(v.of(catalog.SLOEvents, is(catalog.LabelResult, catalog.ResultBad))))+")", "{{target}} {{slo}}")).
			DataLinks(links(targetLink()))).
		WithPanel(timeSeries("Events in the last hour", about{
			asks: "Is there enough data behind the burn rate?",
			good: "More than 20 an hour; the more nines, the more it needs.",
			act:  "Fewer: probe more often, or promise less.",
			none: "No event in the window.",
		}, units.Short, line(sumBy("pool, probe, slo", "increase("+v.of(catalog.SLOEvents)+"[1h])"), "{{pool}} {{probe}} {{slo}}")).
			Thresholds(steps(orange, step{20, green})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))).
		WithPanel(timeSeries("Share of good requests in the last result", about{
			asks: "Which share of each result's requests kept the promise?",
			good: "Above the dashed objective.",
			act:  "Below: see the latency distribution on the target board; two populations often mean cache hits and misses.",
			none: "No result of a probe with objectives.",
		}, units.PercentUnit,
			line(minBy("target, probe, slo", v.of(catalog.ResultSLOAttainment)), "{{target}} {{probe}} {{slo}}"),
			line(maxBy("slo", v.of(catalog.SLOObjective)), limitLegend+" {{slo}}")).Max(1).Span(24).DataLinks(links(targetLink(), runLink())))
}

const objectiveLabels = "pool, target_env, model, probe, slo"

func objectives(v vars) *table.PanelBuilder {
	left := maxBy(objectiveLabels, v.of(catalog.SLOBudgetRemaining))
	window := maxBy(objectiveLabels, v.of(catalog.SLOWindow))
	burn := steps(green, step{1, orange}, step{6, red})
	return columns(rows("Objectives, most spent first", about{
		asks: "Which promise is in danger, and how soon is it broken?",
		good: "Green budgets, burn rates below 1.",
		act:  "The pool that has spent most first; \"exhausted in\" says how much time there is at the speed of the last six hours.",
		none: "No probe of this selection has slos.",
	}, units.Short,
		line(maxBy(objectiveLabels, v.of(catalog.SLOObjective)), ""), line(window, ""), line("1 - "+left, ""),
		line(v.burnRate("1h"), ""), line(v.burnRate("6h"), ""),
		line(fmt.Sprintf("(%s > 0)\n*\n%s\n/\n(%s > 0)", left, window, v.burnRate("6h")), "")),
		column{field: "pool", heading: "Pool"}, column{field: "target_env", heading: "Environment", width: 110}, column{field: "model", heading: "Model"},
		column{field: "probe", heading: "Probe"}, column{field: "slo", heading: "Objective"},
		column{field: "Value #A", heading: "Promised", width: 90, unit: units.PercentUnit},
		column{field: "Value #B", heading: "Window", width: 100, unit: units.Seconds},
		column{field: "Value #C", heading: "Budget spent", width: 120, unit: units.PercentUnit, thresholds: steps(green, step{0.75, orange}, step{1, red})},
		column{field: "Value #D", heading: "Burn rate 1h", width: 120, unit: "suffix:x", thresholds: burn},
		column{field: "Value #E", heading: "Burn rate 6h", width: 120, unit: "suffix:x", thresholds: burn},
		column{field: "Value #F", heading: "Exhausted in", width: 120, unit: units.Seconds, thresholds: steps(red, step{86400, orange}, step{7 * 86400, green})},
	).SortBy(highestFirst("Budget spent")).Height(7)
}
