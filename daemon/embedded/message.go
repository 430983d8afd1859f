package embedded

import (
	"fmt"
	"maps"
	"net/url"
	"time"
)

// message is what Alertmanager sends to a webhook, version 4.
type message struct {
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   int               `json:"truncatedAlerts"`
	Status            string            `json:"status"`
	Receiver          string            `json:"receiver"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Alerts            []messageAlert    `json:"alerts"`
}

type messageAlert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // of a firing one the zero time
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

const firing, resolved = "firing", "resolved"

func newMessage(alerts []standing, external *url.URL) message {
	m := message{
		Version: "4", GroupKey: "{}:{}", Status: resolved, Receiver: job, ExternalURL: external.String(),
		GroupLabels: map[string]string{}, Alerts: make([]messageAlert, 0, len(alerts)),
	}
	for i, a := range alerts {
		one := messageAlert{
			Status: firing, Labels: a.alert.Labels.Map(), Annotations: a.alert.Annotations.Map(),
			StartsAt: a.alert.StartsAt, GeneratorURL: a.alert.GeneratorURL, Fingerprint: fmt.Sprintf("%016x", a.alert.Labels.Hash()),
		}
		if a.resolved {
			one.Status, one.EndsAt = resolved, a.alert.EndsAt
		} else {
			m.Status = firing
		}
		if i == 0 {
			m.CommonLabels, m.CommonAnnotations = maps.Clone(one.Labels), maps.Clone(one.Annotations)
		}
		keepEqual(m.CommonLabels, one.Labels)
		keepEqual(m.CommonAnnotations, one.Annotations)
		m.Alerts = append(m.Alerts, one)
	}
	return m
}

// keepEqual leaves in common what is the same in other.
func keepEqual(common, other map[string]string) {
	maps.DeleteFunc(common, func(name, value string) bool {
		theirs, ok := other[name]
		return !ok || theirs != value
	})
}
