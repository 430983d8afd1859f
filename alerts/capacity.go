package alerts

import (
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

func capacityAlerts(t timing) Group {
	return Group{Name: "inferbeat.capacity", Interval: t.short(time.Minute), Rules: []Rule{
		{
			// Only a knee that the sweep went past is a capacity; else it is a lower bound.
			Alert: "InferbeatCapacityRegression", Severity: Warning, Category: Capacity, Board: BoardCapacity,
			For: t.short(5 * time.Minute), KeepFiring: t.short(30 * time.Minute),
			Expr: lines(
				group(highest(catalog.CapacitySafe), "/", highest(catalog.CapacityBaseline))+" < 0.9",
				"and ignoring (metric)",
				verdictIs(catalog.VerdictWorse, `metric="`+catalog.MetricCapacity+`"`),
				"and",
				highest(catalog.CapacityBracketed)+" == 1",
				"and",
				fresh,
			),
			Summary:     "The safe capacity of a replica fell.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): the safe capacity on probe {{ $labels.probe }} is {{ $value | humanizePercentage }} of its baseline.`,
		},
		{
			// The smallest of several workloads' capacities: which of them the live traffic is
			// like, nobody knows. A knee that no sweep went past is not the smallest but a lower
			// bound. While inferbeat itself loads the target the traffic is not live.
			Alert: "InferbeatCapacityHeadroomLow", Severity: Warning, Category: Capacity, Board: BoardCapacity,
			For: t.short(15 * time.Minute), KeepFiring: t.short(15 * time.Minute),
			Expr: lines(
				highest(catalog.ServerRequests),
				">",
				"min without ("+process+", probe) ("+catalog.CapacitySafe+" and "+catalog.CapacityBracketed+" == 1)",
				"unless",
				"group without ("+process+", probe) ("+catalog.RunActive+" == 1 and on (job, probe) "+sel(catalog.ProbeInfo, `kind!="canary"`)+")",
			),
			Summary:     "Live traffic exceeds the measured safe capacity of a replica.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}) serves {{ $value | humanize }} requests/s, more than its safe capacity by the smallest of its sweeps.`,
		},
		{
			Alert: "InferbeatOfflineOnlineGapHigh", Severity: Info, Category: Capacity, Board: BoardCapacity,
			For:         t.short(5 * time.Minute),
			Expr:        highest(catalog.ResultOfflineGap) + " > 0.2",
			Summary:     "Online throughput is far below offline throughput.",
			Description: `{{ $labels.target }} ({{ $labels.target_env }}): throughput on probe {{ $labels.probe }} is {{ $value | humanizePercentage }} below that of the engine without a server; 5 to 15 % is usual.`,
		},
	}}
}
