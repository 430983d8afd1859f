package alerts

import (
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// Recorded series of the objectives, by pool, probe and slo. The level has no target,
// so that a replica's restart is no new alert, and no model: a replica whose model is
// not known yet is still one of its pool.
const (
	badEvents   = "pool_probe_slo:inferbeat_slo_bad_events:increase"
	events      = "pool_probe_slo:inferbeat_slo_events:increase"
	burnRate    = "pool_probe_slo:inferbeat_slo_burn_rate:ratio"
	errorBudget = "pool_probe_slo:inferbeat_slo_error_budget:ratio"
)

// recordSLOEvents are the windows of the page, and what the long ones need.
func recordSLOEvents(t timing) Group {
	g := Group{Name: "inferbeat.slo.events", Interval: t.short(time.Minute), Rules: []Rule{{
		Record: errorBudget,
		Expr:   "1 - max without (" + process + ", target, model) (" + catalog.SLOObjective + ")",
	}}}
	for _, window := range []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour} {
		g.Rules = append(g.Rules, recordWindow(t, window)...)
	}
	return g
}

// recordSLOEventsLong are the windows of the tickets. They are read from the raw
// counters: added up from recorded five minutes, events between the tiles were lost.
// Two minutes, because at five the last recorded sample is at the edge of what
// Prometheus looks back, and every other evaluation would find nothing.
func recordSLOEventsLong(t timing) Group {
	g := Group{Name: "inferbeat.slo.events.long", Interval: t.short(2 * time.Minute)}
	for _, window := range []time.Duration{2 * time.Hour, 6 * time.Hour, day, 3 * day} {
		g.Rules = append(g.Rules, recordWindow(t, window)...)
	}
	return g
}

// recordWindow counts events of one window and holds their bad share against the
// budget: at 1 the budget lasts exactly as long as the objective's own window. Where
// nothing was asked there is no burn rate, rather than one of 0/0.
func recordWindow(t timing, window time.Duration) []Rule {
	over := "sum without (" + process + ", target, model, result) (increase("
	name := duration(window) // of the series, which a rehearsal does not rename
	return []Rule{
		{Record: badEvents + name, Expr: over + sel(catalog.SLOEvents, `result="bad"`) + "[" + t.window(window) + "]))"},
		{Record: events + name, Expr: over + catalog.SLOEvents + "[" + t.window(window) + "]))"},
		{Record: burnRate + name, Expr: lines(group(badEvents+name, "/", "("+events+name+" > 0)"), "/", errorBudget)},
	}
}

// burns is a pair of windows that burn faster than the factor: the long one says that
// it matters, the short one that it still goes on. atLeast is one less than the bad
// events it takes, and a half: increase() extrapolates, so that two events read as 2.1.
func burns(long, short, factor, atLeast string) string {
	return group(
		burnRate+long+" > "+factor,
		"and",
		burnRate+short+" > "+factor,
		"and",
		badEvents+long+" > "+atLeast,
	)
}

func sloAlerts(t timing) Group {
	return Group{Name: "inferbeat.slo", Interval: t.short(time.Minute), Rules: []Rule{
		{
			Alert: "InferbeatSLOBudgetBurnFast", Severity: ByEnvironment, Category: SLO, Board: BoardSLO,
			For: t.short(2 * time.Minute), KeepFiring: t.short(10 * time.Minute),
			Expr:        lines(burns("1h", "5m", "14.4", "2.5"), "or", burns("6h", "30m", "6", "2.5")),
			Summary:     "SLO error budget is burning fast.",
			Description: `{{ $labels.pool }} ({{ $labels.target_env }}): probe {{ $labels.probe }} burns the error budget of SLO {{ $labels.slo }} at {{ $value | humanize }} times the sustainable rate.`,
		},
		{
			Alert: "InferbeatSLOBudgetBurnSlow", Severity: Warning, Category: SLO, Board: BoardSLO,
			For: t.short(15 * time.Minute), KeepFiring: t.short(30 * time.Minute),
			Expr:        lines(burns("1d", "2h", "3", "4.5"), "or", burns("3d", "6h", "1", "9.5")),
			Summary:     "SLO error budget is burning steadily.",
			Description: `{{ $labels.pool }} ({{ $labels.target_env }}): probe {{ $labels.probe }} will miss SLO {{ $labels.slo }} if the last days continue: burn rate {{ $value | humanize }}.`,
		},
		{
			Alert: "InferbeatSLOBudgetExhausted", Severity: Warning, Category: SLO, Board: BoardSLO,
			For:         t.short(15 * time.Minute),
			Expr:        "min without (" + process + ", model) (" + catalog.SLOBudgetRemaining + ") <= 0",
			Summary:     "SLO error budget of the window is used up.",
			Description: `{{ $labels.pool }} ({{ $labels.target_env }}): SLO {{ $labels.slo }} on probe {{ $labels.probe }} has {{ $value | humanizePercentage }} of its budget left.`,
		},
		runSLOMissed(t),
	}}
}

// runSLOMissed judges single runs. Canaries, which have events, are left to the burn
// rates: a window of a hundred requests misses 99 % by two.
func runSLOMissed(t timing) Rule {
	attained := highest(catalog.ResultSLOAttainment)
	// Failed requests have no latency, so the samples alone would not count them.
	judged := group(
		"max without ("+process+", signal) ("+sel(catalog.ResultSamples, `signal="e2e"`)+")",
		"/",
		highest(catalog.ResultSuccess),
	)
	return Rule{
		Alert: "InferbeatRunSLOMissed", Severity: Warning, Category: SLO, Board: BoardRuns,
		For: t.short(5 * time.Minute), KeepFiring: t.short(15 * time.Minute),
		Expr: lines(
			group(attained, "<", highest(catalog.SLOObjective)),
			"and",
			group("(1 - "+attained+")", "* ignoring (slo) group_left ()", judged)+" > 2.5",
			"and ignoring (slo)",
			judged+" >= 100",
			"and ignoring (slo)",
			fresh,
			"unless on (job, probe)",
			sel(catalog.ProbeInfo, `kind="canary"`),
		),
		Summary:     "The last benchmark run missed its SLO.",
		Description: `{{ $labels.target }} ({{ $labels.target_env }}): {{ $value | humanizePercentage }} of the requests of probe {{ $labels.probe }} met SLO {{ $labels.slo }}.`,
	}
}
