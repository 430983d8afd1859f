package alerts

import (
	"strconv"
	"strings"
	"time"
)

// Group is a list of rules that are evaluated one after the other, so that a rule
// sees what those before it have just recorded.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []Rule
}

// Rule records a series, or fires an alert for each series of its expression.
type Rule struct {
	Record string // the series; empty for an alert
	Alert  string // the alert's name, and that of its runbook
	Expr   string // PromQL
	// For is how long the expression must hold before the alert fires: one bad
	// evaluation, or a target that answers again at once, pages nobody.
	For time.Duration
	// KeepFiring is how long the alert goes on when the expression no longer holds: a
	// restart of the daemon is no recovery.
	KeepFiring time.Duration
	Severity   Severity
	Category   Category
	// Summary is the same for every alert of the rule; Description says which target
	// and what number. Both are templates of Prometheus.
	Summary, Description string
	Board                Board
}

// Severity says who hears of an alert.
type Severity string

const (
	Critical Severity = "critical" // wakes somebody
	Warning  Severity = "warning"  // a ticket
	Info     Severity = "info"     // worth knowing when one looks
	None     Severity = "none"     // not about trouble: the heartbeat
	// ByEnvironment is critical where target_env is production, else a warning.
	ByEnvironment Severity = "by_environment"
)

// Severities are the words that an alert can carry, from grave to none.
var Severities = []Severity{Critical, Warning, Info, None}

// Category groups alerts that have the same kind of cause; inhibitions speak of them.
type Category string

const (
	SLO          Category = "slo"
	Availability Category = "availability"
	Latency      Category = "latency"
	Saturation   Category = "saturation"
	Regression   Category = "regression"
	Capacity     Category = "capacity"
	Meta         Category = "meta" // about inferbeat itself
)

// Board is the uid of the dashboard that shows what an alert is about.
type Board string

const (
	BoardFleet    Board = "inferbeat-fleet"
	BoardSLO      Board = "inferbeat-slo"
	BoardTarget   Board = "inferbeat-target"
	BoardRuns     Board = "inferbeat-runs"
	BoardCapacity Board = "inferbeat-capacity"
	BoardCompare  Board = "inferbeat-compare"
	BoardHealth   Board = "inferbeat-health"
)

// timing shortens every duration of the rules by one factor, for rehearsals.
type timing struct{ faster float64 }

// short is the duration as it is rehearsed, in whole seconds and at least one.
func (t timing) short(d time.Duration) time.Duration {
	if d == 0 || t.faster == 1 {
		return d
	}
	return max(time.Second, (time.Duration(float64(d) / t.faster)).Round(time.Second))
}

// window is a duration as PromQL writes it.
func (t timing) window(d time.Duration) string { return duration(t.short(d)) }

// seconds is a duration as a number in PromQL.
func (t timing) seconds(d time.Duration) string {
	return strconv.FormatFloat(t.short(d).Seconds(), 'f', -1, 64)
}

const day = 24 * time.Hour

// duration is d in the largest units that Prometheus has below a week.
func duration(d time.Duration) string {
	var b strings.Builder
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.length; n > 0 {
			b.WriteString(strconv.Itoa(int(n)) + unit.name)
			d -= n * unit.length
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// groups are all rules, recorded series before those who read them.
func groups(t timing) []Group {
	return []Group{
		recordSLOEvents(t), recordSLOEventsLong(t), recordResults(t),
		sloAlerts(t), availabilityAlerts(t), latencyAlerts(t), regressionAlerts(t), capacityAlerts(t), proberAlerts(t),
	}
}
