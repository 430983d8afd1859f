package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// compare lays targets side by side on the same probe.
func compare() *dashboard.DashboardBuilder {
	v := pairVars
	b := withPairs(frame(uidCompare, "Compare", "Is staging as good as production?", "now-24h"))
	b = b.WithRow(dashboard.NewRowBuilder("Side by side, the same probe"))
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
