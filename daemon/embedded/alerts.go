package embedded

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/rules"
)

// Alert is one alert that is pending or firing.
type Alert struct {
	Name        string
	Firing      bool      // else pending: its condition holds, but not for long enough
	Since       time.Time // when the condition began to hold
	Value       float64
	Labels      map[string]string // without the name
	Annotations map[string]string
}

// Alerts are the alerts now: firing before pending, then by name and age.
func (p *Prometheus) Alerts() []Alert {
	var out []Alert
	for _, rule := range p.rules.AlertingRules() {
		for _, a := range rule.ActiveAlerts() {
			if a.State != rules.StateFiring && a.State != rules.StatePending {
				continue
			}
			labels := a.Labels.Map()
			delete(labels, "alertname")
			out = append(out, Alert{
				Name: rule.Name(), Firing: a.State == rules.StateFiring, Since: a.ActiveAt, Value: a.Value,
				Labels: labels, Annotations: a.Annotations.Map(),
			})
		}
	}
	slices.SortStableFunc(out, func(a, b Alert) int {
		switch {
		case a.Firing != b.Firing && a.Firing:
			return -1
		case a.Firing != b.Firing:
			return 1
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since))
	})
	return out
}

// notify is called by the rules for alerts that have to be told: those that began to
// fire, again from time to time while they do, and those that were resolved.
func (p *Prometheus) notify(_ context.Context, _ string, alerts ...*rules.Alert) {
	if len(alerts) == 0 {
		return
	}
	told := make([]*notifier.Alert, len(alerts))
	for i, a := range alerts {
		ends := a.ValidUntil
		if !a.ResolvedAt.IsZero() {
			ends = a.ResolvedAt
		}
		told[i] = &notifier.Alert{
			Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.FiredAt, EndsAt: ends,
			GeneratorURL: p.options.ExternalURL.JoinPath("/").String() + "#" + a.Labels.Get(labels.AlertName),
		}
	}
	for _, hook := range p.webhooks {
		hook.tell(told)
	}
	p.notifier.Send(told...)
}
