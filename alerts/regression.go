package alerts

import (
	"fmt"
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// ownAlert are the metrics with an alert of their own, which says more.
const ownAlert = `metric!~"` + catalog.MetricCapacity + "|" + catalog.MetricAcceptLength + "|" + catalog.MetricPrefixCacheHits + `"`

func verdictIs(code int, matchers ...string) string {
	return highest(catalog.RegressionVerdict, matchers...) + fmt.Sprintf(" == %d", code)
}

// regressionRule is what the alerts about nights have in common. A verdict stands all
// day, so there is no need to wait for it long.
func regressionRule(t timing, r Rule) Rule {
	r.Category, r.Board = Regression, BoardRuns
	r.For, r.KeepFiring = t.short(5*time.Minute), t.short(30*time.Minute)
	r.Expr = lines(r.Expr, "and ignoring (metric)", fresh)
	return r
}

func regressionAlerts(t timing) Group {
	accept, hits := `metric="`+catalog.MetricAcceptLength+`"`, `metric="`+catalog.MetricPrefixCacheHits+`"`
	return Group{Name: "inferbeat.regression", Interval: t.short(time.Minute), Rules: []Rule{
		regressionRule(t, Rule{
			Alert: "InferbeatRegression", Severity: Warning, Expr: verdictIs(catalog.VerdictWorse, ownAlert),
			Summary:     "A benchmark result regressed against its baseline.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): {{ $labels.metric }} of probe {{ $labels.probe }} is worse than its baseline, confirmed over the nights.`,
		}),
		regressionRule(t, Rule{
			Alert: "InferbeatRegressionDrift", Severity: Info, Expr: verdictIs(catalog.VerdictDrift),
			Summary:     "A benchmark result creeps away from where it began.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): {{ $labels.metric }} of probe {{ $labels.probe }} has drifted without a step.`,
		}),
		regressionRule(t, Rule{
			Alert: "InferbeatRegressionUnstable", Severity: Info, Expr: verdictIs(catalog.VerdictUnstable),
			Summary:     "A benchmark result is too unstable to be judged.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): {{ $labels.metric }} of probe {{ $labels.probe }} jumps between nights; no regression of it can be seen.`,
		}),
		regressionRule(t, Rule{
			Alert: "InferbeatSpecAcceptLengthDrop", Severity: Warning,
			Expr:        lines(highest(catalog.RegressionEffect, accept)+" > 0.15", "and", verdictIs(catalog.VerdictWorse, accept)),
			Summary:     "Speculative decoding accepts fewer tokens than before.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): the accept length on probe {{ $labels.probe }} fell by {{ $value | humanizePercentage }} against its baseline.`,
		}),
		regressionRule(t, Rule{
			Alert: "InferbeatSpecAcceptLengthSpike", Severity: Info, Expr: highest(catalog.RegressionEffect, accept) + " < -0.3",
			Summary:     "Speculative decoding suddenly accepts far more tokens.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): the accept length on probe {{ $labels.probe }} rose sharply; looping output looks like this.`,
		}),
		regressionRule(t, Rule{
			Alert: "InferbeatPrefixCacheHitRatioDrop", Severity: Warning,
			Expr:        lines(highest(catalog.RegressionEffect, hits)+" > 0.2", "and", verdictIs(catalog.VerdictWorse, hits)),
			Summary:     "The prefix cache is hit less often than before.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): the prefix cache hit ratio on probe {{ $labels.probe }} fell by {{ $value | humanizePercentage }} against its baseline.`,
		}),
		comparisonDiverged(t),
	}}
}

// comparisonDiverged names each metric that is worse; the verdict of the whole would
// say it twice.
func comparisonDiverged(t timing) Rule {
	return Rule{
		Alert: "InferbeatComparisonDiverged", Severity: Warning, Category: Regression, Board: BoardCompare,
		For: t.short(5 * time.Minute), KeepFiring: t.short(30 * time.Minute),
		Expr: lines(
			highest(catalog.ComparisonVerdict, `metric!="overall"`)+fmt.Sprintf(" == %d", catalog.VerdictWorse),
			"and ignoring (metric)",
			group("time() - "+highest(catalog.ComparisonTimestamp), "<", highest(catalog.ComparisonStaleAfter)),
		),
		Summary:     "Candidate and reference targets differ.",
		Description: `Comparison {{ $labels.comparison }}: {{ $labels.metric }} of the candidate is worse than the reference's.`,
	}
}
