package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// regression is the board of the nights: exact results as points, one for each
// run, and whether the runs took place at all.
func regression() *dashboard.DashboardBuilder {
	v := pairVars
	b := withWindow(withPairs(frame(uidRegression, "Nightly regression", "Is tonight worse than the last two weeks?", "now-14d")))
	b = b.WithRow(dashboard.NewRowBuilder("Results, run by run"))
	for _, r := range []struct{ title, signal, stat, asks string }{
		{"TTFT p50", "ttft", "p50", "Does the usual wait for the first token get longer?"},
		{"TTFT p99", "ttft", "p99", "Does the tail of the wait get longer?"},
		{"TPOT p50", "tpot", "p50", "Does decoding get slower?"},
		{"E2E p50", "e2e", "p50", "Does the whole answer take longer?"},
	} {
		b = b.WithPanel(nights(r.title, r.asks, units.Seconds, v.latency(r.signal, r.stat)))
	}
	b = b.WithPanel(nights("Output throughput", "Do fewer tokens come out?", tokensPerSecond, v.of(catalog.ResultOutputTokensPerSecond))).
		WithPanel(nights("Accept length", "Does speculative decoding bring less?", units.Short, v.of(catalog.ResultAcceptLength)))
	return runsPanels(b.WithRow(dashboard.NewRowBuilder("Did the runs take place?")), v)
}

// nights are results that stand until the next run replaces them.
func nights(title, asks, unit, expr string) *timeseries.PanelBuilder {
	return timeSeries(title, about{
		asks: asks,
		good: "A band as wide as before. One night outside it is noise, two are not.",
		act:  "Look for a version mark at the step, then compare both builds in pairs (see the compare board).",
		none: noResult,
	}, unit, line(maxBy("target, probe", expr), "{{target}} {{probe}}")).
		LineInterpolation(common.LineInterpolationStepAfter).FillOpacity(0).
		DataLinks(links(runLink(), targetLink()))
}

func runsPanels(b *dashboard.DashboardBuilder, v vars) *dashboard.DashboardBuilder {
	return b.WithPanel(bars("Runs by result", about{
		asks: "How many runs ended how?",
		good: "Success only.",
		act:  "invalid: the prober could not be believed. failed: the target gave nothing. aborted: a limit or a shutdown stopped it.",
		none: "No run ended in the window.",
	}, units.Short, line(sumBy("result", increase(v.of(catalog.Runs)))+" > 0", "{{result}}")).
		OverrideByName("success", fixed(green)).OverrideByName("failed", fixed(red)).
		OverrideByName("invalid", fixed(orange)).OverrideByName("aborted", fixed("purple"))).
		WithPanel(bars("Skipped runs by reason", about{
			asks: "Which planned runs did not start?",
			good: "None.",
			act:  "overlap: the run takes longer than its interval. target_busy: another probe is on the target, spread the schedules. paused: somebody stopped it.",
			none: "No run was skipped in the window.",
		}, units.Short, line(sumBy("probe, reason", increase(v.of(catalog.RunSkips)))+" > 0", "{{probe}} {{reason}}"))).
		WithPanel(timeSeries("Duration as a share of the interval", about{
			asks: "Does a run still end before the next one begins?",
			good: "Well below 100 %.",
			act:  "Above 80 %: fewer requests, a higher rate, or a longer interval.",
			none: "No run of a probe with a schedule has ended.",
		}, units.PercentUnit, line(fmt.Sprintf("%s / %s", maxBy("target, probe", v.of(catalog.RunLastDuration)), maxBy("target, probe", v.of(catalog.ProbeInterval))), "{{target}} {{probe}}")).
			Thresholds(steps(green, step{0.8, orange}, step{1, red})).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)).
			DataLinks(links(runLink()))).
		WithPanel(columns(rows("Last and next runs", about{
			asks: "When did it last run, and when will it again?",
			good: "Last: minutes or hours ago, as scheduled. Next: in the future.",
			act:  "No next time: the probe has no schedule or is paused.",
		}, units.Short,
			line(maxBy("target, probe", v.of(catalog.RunLastSuccess))+" * 1000", ""), line(maxBy("target, probe", v.of(catalog.RunLastStart))+" * 1000", ""),
			line(minBy("target, probe", v.of(catalog.RunNextStart))+" * 1000", ""),
			line(maxBy("target, probe", v.of(catalog.RunLastDuration)), "")),
			column{field: "target", heading: "Target", links: cellLink("Drill down into the target", uidTarget, catalog.LabelTarget, "Target")},
			column{field: "probe", heading: "Probe"},
			column{field: "Value #A", heading: "Last success", unit: "dateTimeFromNow"},
			column{field: "Value #B", heading: "Last start", unit: "dateTimeFromNow"},
			column{field: "Value #C", heading: "Next start", unit: "dateTimeFromNow"},
			column{field: "Value #D", heading: "Duration", unit: units.Seconds},
		).Span(12).Height(8))
}
