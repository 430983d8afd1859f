package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// slo shows promises over long windows: what is left of the error budget, how
// fast it burns, and who burns it.
func slo() *dashboard.DashboardBuilder {
	v := sloVars
	b := withWindow(withPairs(frame(uidSLO, "Objectives", "How fast does the error budget burn, and who burns it?", "now-24h"))).
		WithVariable(choose(catalog.LabelSLO, "Objective", "label_values("+pairVars.of(catalog.SLOObjective)+", slo)"))
	return b.WithRow(dashboard.NewRowBuilder("Budget")).
		WithPanel(timeSeries("Burn rate", about{
			asks: "How many times faster than allowed is each error budget spent?",
			good: "Below 1: at this speed the budget outlives its window.",
			act:  "Above 14.4 over an hour a thirty-day budget lives for two days, which pages; above 6 over six hours it lives for five. See who burns it below.",
			none: "No request of an objective ended within the hour: does a continuous probe of this selection have slos?",
		}, "suffix:x", line(v.burnRate("1h"), "{{pool}} {{probe}} {{slo}} 1h"), line(v.burnRate("6h"), "{{pool}} {{probe}} {{slo}} 6h")).
			Span(16).Thresholds(steps(green, step{1, orange}, step{14.4, red})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)).
			Legend(legend("lastNotNull", "max"))).
		WithPanel(number("Budget left at this rate", about{
			asks: "If the last six hours went on, in what time would a whole budget be spent?",
			good: "More than the objective's window.",
			act:  "Less than a day: stop what changed. Less than a week: look today.",
			none: "Nothing is being spent.",
		}, units.Seconds, line("min("+maxBy("pool, target_env, model, probe, slo", v.of(catalog.SLOWindow))+"\n/\n("+v.burnRate("6h")+" > 0))", "")).
			Span(8).Height(8).Thresholds(steps(red, step{86400, orange}, step{7 * 86400, green}))).
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
