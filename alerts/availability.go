package alerts

import (
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

func availabilityAlerts(t timing) Group {
	failing := group(lowest(catalog.ConsecutiveFailures), ">=", highest(catalog.FailureThreshold))
	return Group{Name: "inferbeat.availability", Interval: t.short(time.Minute), Rules: []Rule{
		{
			Alert: "InferbeatTargetFailing", Severity: Warning, Category: Availability, Board: BoardTarget,
			For: t.short(time.Minute), KeepFiring: t.short(5 * time.Minute),
			Expr:        lines(lowest(catalog.ConsecutiveFailures), ">=", highest(catalog.FailureThreshold)),
			Summary:     "A target fails its probes.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}) failed the last {{ $value }} runs of probe {{ $labels.probe }}.`,
		},
		{
			// A replica that has never named its model is still one of its pool: by model it
			// would be a pool of its own, and page alone.
			Alert: "InferbeatPoolDown", Severity: ByEnvironment, Category: Availability, Board: BoardFleet,
			For: t.short(time.Minute), KeepFiring: t.short(5 * time.Minute),
			Expr: lines(
				"count without (target, model) "+failing,
				"==",
				"count without (target, model) ("+lowest(catalog.ConsecutiveFailures)+")",
			),
			Summary:     "Every target of a pool fails its probes.",
			Description: `All {{ $value }} targets of pool {{ $labels.pool }} ({{ $labels.target_env }}) fail probe {{ $labels.probe }}.`,
		},
		{
			Alert: "InferbeatAnswerWrong", Severity: Warning, Category: Availability, Board: BoardTarget,
			For: t.short(5 * time.Minute), KeepFiring: t.short(10 * time.Minute),
			Expr:        highest(catalog.AnswerCorrect) + " == 0",
			Summary:     "A target answers the pinned question wrongly.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}) answers, but not what probe {{ $labels.probe }} expects.`,
		},
	}}
}
