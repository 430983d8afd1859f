package web

import (
	"slices"
	"strings"
	"time"
)

// Alert is an alert that is pending or firing.
type Alert struct {
	Name        string            `json:"name"`
	Severity    string            `json:"severity"`
	Firing      bool              `json:"firing"` // else pending: it holds, but not for long enough
	Since       time.Time         `json:"since"`  // when it began to hold
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alertRow is an alert as finished text.
type alertRow struct {
	Name        string
	State       string // CSS class: fail, warn, waiting
	Word        string
	Summary     string
	Description string
	Runbook     string
	Labels      string
	Since       string
}

// shownLabels say what an alert is about, in this order; the others repeat its name.
var shownLabels = []string{"target", "pool", "target_env", "model", "probe", "slo", "signal", "stat", "metric", "comparison", "reason", "sink"}

func newAlertRow(a *Alert, now time.Time) alertRow {
	r := alertRow{
		Name: a.Name, State: "waiting", Word: a.Severity,
		Summary: a.Annotations["summary"], Description: a.Annotations["description"], Runbook: a.Annotations["runbook_url"],
		Since: span(now.Sub(a.Since)) + " ago",
	}
	switch {
	case !a.Firing:
		r.Word = "pending"
	case a.Severity == "critical":
		r.State = "fail"
	case a.Severity == "warning":
		r.State = "warn"
	}
	var about []string
	for _, name := range shownLabels {
		if value := a.Labels[name]; value != "" {
			about = append(about, name+" "+value)
		}
	}
	r.Labels = strings.Join(about, " · ")
	return r
}

// urgency orders alerts for a reader: what pages somebody comes first, what does not
// fire yet last.
func urgency(a Alert) int {
	if !a.Firing {
		return 3
	}
	return max(0, slices.Index([]string{"critical", "warning", "info"}, a.Severity))
}
