package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// compare lays targets side by side on the same probe.
func compare() *builderV1 {
	v := pairVars
	b := withPairs(frame(uidCompare, "Compare", "Is staging as good as production?", "now-24h"))
	b = comparisons(b.WithVariable(chooseOne(varComparison, "Comparison", "label_values("+vars{varJob}.of(catalog.ComparisonInfo)+", comparison)")))
	b = b.WithRow(dashboard.NewRowBuilder("Side by side, the same probe (separate runs)"))
	for _, s := range []struct{ title, asks, unit, expr string }{
		{"TTFT p99", "Who makes the unlucky wait longer?", units.Seconds, v.latency("ttft", "p99")},
		{"TTFT p50", "Who makes everybody wait longer?", units.Seconds, v.latency("ttft", "p50")},
		{"TPOT p50", "Who decodes more slowly?", units.Seconds, v.latency("tpot", "p50")},
		{"Output throughput", "Who gives more tokens a second?", tokensPerSecond, v.of(catalog.ResultOutputTokensPerSecond)},
		{"Success ratio", "Who fails more requests?", units.PercentUnit, v.of(catalog.ResultSuccess)},
		{"Accept length", "Who gains more by speculative decoding?", units.Short, v.of(catalog.ResultAcceptLength)},
	} {
		b = b.WithPanel(sideBySide(s.title, s.asks, s.unit, s.expr).Span(8))
	}
	return b.WithRow(dashboard.NewRowBuilder("What differs")).WithPanel(facts(v))
}

// sideBySide compares what is comparable: lines of one probe.
func sideBySide(title, asks, unit, expr string) *timeseries.PanelBuilder {
	return timeSeries(title, about{
		asks: asks,
		good: "Lines of one probe lie together.",
		act:  "Two separate runs differ by their noise; let a paired comparison decide whether the gap is real.",
		none: noResult,
	}, unit, line(maxBy("target, probe", expr), "{{target}} {{probe}}")).
		SpanNulls(common.BoolOrFloat64{Bool: p(true)}).DataLinks(links(runLink(), targetLink()))
}

const noComparison = "No comparison of this selection is complete, or its last one is too old to stand."

// comparisons are decided on pairs of runs that take turns, which removes most
// of the noise that separate runs have.
func comparisons(b *builderV1) *builderV1 {
	v, all := comparisonVars, vars{varJob}
	names := valueNames(value{-1, "better", blue}, value{0, "as good", green}, value{1, "undecided", orange}, value{2, "worse", red}, value{3, "not enough data", grey})
	overall := all.of(catalog.ComparisonVerdict, is(catalog.LabelMetric, "overall"))
	return b.WithRow(dashboard.NewRowBuilder("Comparisons (pairs of runs in turns)")).
		WithPanel(columns(rows("Answers", about{
			asks: "May the candidate replace the reference?",
			good: "as good, or better.",
			act:  "worse: the ratios say in what. undecided: more pairs, or a wider margin. not enough data: runs were invalid, their pages say why.",
			none: noComparison,
		}, units.Short,
			line(maxBy("comparison, candidate, reference", all.of(catalog.ComparisonInfo)), ""), line(maxBy("comparison", overall), ""),
			line("time() - "+maxBy("comparison", all.of(catalog.ComparisonTimestamp)), ""), line(maxBy("comparison", all.of(catalog.ComparisonStaleAfter)), "")),
			column{field: "comparison", heading: "Comparison"}, column{field: "candidate", heading: "Candidate"}, column{field: "reference", heading: "Reference"},
			column{field: "Value #B", heading: "Answer", width: 130, mappings: names},
			column{field: "Value #C", heading: "Age", width: 85, unit: units.Seconds}, column{field: "Value #D", heading: "Stands for", width: 95, unit: units.Seconds},
		).Span(12).Height(8)).
		WithPanel(ratios(v)).
		WithPanel(states("Verdicts by series", about{
			asks: "In what does the candidate differ, and since when?",
			good: "as good.",
			act:  "A change at a version mark is that build.",
			none: noComparison,
		}, names, line(maxBy("metric", v.of(catalog.ComparisonVerdict)), "{{metric}}")).Height(11)).
		WithPanel(timeSeries("Candidate to reference over time", about{
			asks: "Does the gap grow from comparison to comparison?",
			good: "Around 100 %.",
			act:  "For latencies above is worse, for throughput below is.",
			none: noComparison,
		}, units.PercentUnit, line(maxBy("metric", v.of(catalog.ComparisonRatio)), "{{metric}}")).
			AxisSoftMin(0.8).AxisSoftMax(1.2).LineInterpolation(common.LineInterpolationStepAfter).FillOpacity(0).Span(24))
}

func ratios(v vars) *bargauge.PanelBuilder {
	return gauges("Candidate to reference, now", about{
		asks: "What is different, and by how much?",
		good: "100 % everywhere.",
		act:  "Latencies above 100 % are slower, throughput below 100 % is less; whether it matters is the verdict's business, not the bar's.",
		none: noComparison,
	}, units.PercentUnit, line(maxBy("metric", v.of(catalog.ComparisonRatio)), "{{metric}}")).
		Min(0.5).Max(1.5).Thresholds(steps(blue))
}
