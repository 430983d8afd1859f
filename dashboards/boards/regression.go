package boards

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// regression is the board of the nights: exact results as points, one for each
// run, and whether the runs took place at all.
func regression() *builderV1 {
	v := pairVars
	b := withWindow(withPairs(frame(uidRegression, "Nightly regression", "Is tonight worse than the last two weeks?", "now-14d")))
	b = b.Annotation(mark("Regressions", red, true, v.of(catalog.RegressionOnsetTimestamp)+" * 1000", "{{metric}} of {{target}} changed", true)).
		WithRow(dashboard.NewRowBuilder("What the nights say")).
		WithPanel(effects(v)).WithPanel(verdicts("Verdicts", v, "target, probe, metric", "").Height(10)).
		WithPanel(timeSeries("Effect against the baseline", about{
			asks: "By how much is each series worse (up) or better (down) than its baseline?",
			good: "Around 0 %, within the noise.",
			act:  "Look for the version mark at the step; the table says how sure it is.",
			none: noNights,
		}, units.PercentUnit, line(maxBy("target, probe, metric", v.of(catalog.RegressionEffect)), "{{target}} {{probe}} {{metric}}")).
			LineInterpolation(common.LineInterpolationStepAfter).FillOpacity(0).Span(24).
			DataLinks(links(runLink(), targetLink()))).
		WithRow(dashboard.NewRowBuilder("Results, run by run"))
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
	return zoomed(title, about{
		asks: asks,
		good: "A band as wide as before. One night outside it is noise, two are not.",
		act:  "Look for a version mark at the step, then compare both builds in pairs (see the compare board).",
		none: noResult,
	}, unit, line(maxBy("target, probe", expr), "{{target}} {{probe}}")).
		LineInterpolation(common.LineInterpolationStepAfter).FillOpacity(0).
		DataLinks(links(runLink(), targetLink()))
}

func runsPanels(b *builderV1, v vars) *builderV1 {
	return b.WithPanel(bars("Runs by result", about{
		asks: "How many runs ended how?",
		good: "Success only.",
		act:  "invalid: the prober could not be believed. failed: the target gave nothing. aborted: a limit or a shutdown stopped it.",
		none: "No run ended in the window.",
	}, units.Short, line(sumBy("result", increase(v.of(catalog.Runs))), "{{result}}")).
		OverrideByName("success", fixed(green)).OverrideByName("failed", fixed(red)).
		OverrideByName("invalid", fixed(orange)).OverrideByName("aborted", fixed("purple"))).
		WithPanel(bars("Skipped runs by reason", about{
			asks: "Which planned runs did not start?",
			good: "None.",
			act:  "overlap: the run takes longer than its interval. target_busy: another probe is on the target, spread the schedules. paused: somebody stopped it.",
			none: "No run was skipped in the window.",
		}, units.Short, line(sumBy("reason", increase(v.of(catalog.RunSkips))), "{{reason}}"))).
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

const noNights = "No probe of this selection has regression detection, or there are too few nights yet."

// verdictNames are the words for the values of inferbeat_regression_verdict.
func verdictNames() []dashboard.ValueMapping {
	return valueNames(
		value{catalog.VerdictBetter, "better", blue}, value{catalog.VerdictSame, "same", green},
		value{catalog.VerdictSuspected, "suspected", "yellow"}, value{catalog.VerdictWorse, "worse", red},
		value{catalog.VerdictLearning, "learning", grey}, value{catalog.VerdictDrift, "slow drift", orange},
		value{catalog.VerdictUnstable, "unstable", "purple"},
	)
}

// verdicts draws the worst verdict of each group; which takes verdicts out that are
// no judgement.
func verdicts(title string, v vars, by, which string) *statetimeline.PanelBuilder {
	legend := "{{" + strings.ReplaceAll(by, ", ", "}} {{") + "}}"
	return states(title, about{
		asks: "Which series of nights changed, and when?",
		good: "same, everywhere.",
		act:  "suspected: one night, wait for the re-run. worse: a confirmed step. slow drift: no single night is to blame. unstable: the test itself is too noisy.",
		none: noNights,
	}, verdictNames(), line(maxBy(by, v.of(catalog.RegressionVerdict)+which), legend)).
		DataLinks(links(runLink(), targetLink()))
}

// effects is the verdict on each series with what stands behind it.
func effects(v vars) *table.PanelBuilder {
	const labels = "target, probe, metric"
	bound := func(end string) string {
		return maxBy(labels, v.of(catalog.RegressionInterval, is(catalog.LabelBound, end)))
	}
	return columns(rows("Effects, worst first", about{
		asks: "What is worse tonight, by how much, and how sure is that?",
		good: "All same.",
		act:  "Worse, with an interval that excludes 0: compare the builds before and after the onset. A wide interval, or a smallest step above what you care about: give the probe more requests or repeats.",
		none: noNights,
	}, units.Short,
		line(maxBy(labels, v.of(catalog.RegressionVerdict)), ""), line(maxBy(labels, v.of(catalog.RegressionEffect)), ""),
		line(bound("low"), ""), line(bound("high"), ""), line(maxBy(labels, v.of(catalog.RegressionSmallestStep)), ""),
		line(maxBy(labels, v.of(catalog.RegressionBaselineRuns)), ""), line(maxBy(labels, v.of(catalog.RegressionOnsetTimestamp))+" * 1000", "")),
		column{field: "target", heading: "Target", links: cellLink("Drill down into the target", uidTarget, catalog.LabelTarget, "Target")},
		column{field: "probe", heading: "Probe"}, column{field: "metric", heading: "Series"},
		column{field: "Value #A", heading: "Verdict", mappings: verdictNames()},
		column{field: "Value #B", heading: "Effect", unit: units.PercentUnit},
		column{field: "Value #C", heading: "from", unit: units.PercentUnit},
		column{field: "Value #D", heading: "to", unit: units.PercentUnit},
		column{field: "Value #E", heading: "Smallest step seen", unit: units.PercentUnit},
		column{field: "Value #F", heading: "Nights behind it"},
		column{field: "Value #G", heading: "Since", unit: "dateTimeFromNow"},
	).SortBy(highestFirst("Effect"))
}
