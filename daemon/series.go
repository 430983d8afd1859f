package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/inferbeat/inferbeat/alerts"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/embedded"
	"github.com/inferbeat/inferbeat/daemon/web"
	"github.com/inferbeat/inferbeat/exporters/prom"
)

// openEmbedded opens the Prometheus inside the daemon when the configuration wants
// it. It reads /metrics past the listener, so its TLS and passwords do not matter.
func (a *App) openEmbedded(c *config.Config) error {
	e := c.Embedded
	if !e.Enabled {
		return nil
	}
	external, err := url.Parse(cmp.Or(c.Web.ExternalURL, a.URL()))
	if err != nil {
		return fmt.Errorf("read web.external_url: %w", err)
	}
	rules, err := alerts.Rules(alerts.Options{RunbookBaseURL: external.JoinPath("runbooks").String(), Faster: e.RulesFaster})
	if err != nil {
		return err
	}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", a.prom.Handler())
	a.embedded, err = embedded.Open(embedded.Options{
		Dir: e.Path, Retention: e.Retention, MaxSize: int64(e.MaxSize), ScrapeInterval: e.ScrapeInterval, EvaluationInterval: e.EvaluationInterval,
		Metrics: metrics, Instance: a.listener.Addr().String(), Rules: rules, ExternalURL: external,
		Alertmanagers: destinations(e.To), Webhooks: destinations(e.Hooks), Log: a.log.With("component", "embedded"),
	})
	if err != nil {
		return err
	}
	return a.registry.Register(a.embedded.Collector())
}

func destinations(list []config.Destination) []embedded.Destination {
	out := make([]embedded.Destination, len(list))
	for i, d := range list {
		out[i] = embedded.Destination{Name: d.Name, URL: d.URL.Reveal(), BearerToken: d.BearerToken.Reveal()}
	}
	return out
}

// webAlerts are those for the page. An alert that always fires, for a dead man's
// switch, is no news there.
func (a *App) webAlerts() []web.Alert {
	out := []web.Alert{}
	for _, alert := range a.embedded.Alerts() {
		if severity := alert.Labels["severity"]; severity != "none" {
			out = append(out, web.Alert{
				Name: alert.Name, Severity: severity, Firing: alert.Firing, Since: alert.Since,
				Labels: alert.Labels, Annotations: alert.Annotations,
			})
		}
	}
	return out
}

// webhookSinks are the webhooks as sinks: a message that did not get through is an
// error of its destination.
func (a *App) webhookSinks() []prom.SinkState {
	var out []prom.SinkState
	if a.embedded == nil {
		return nil
	}
	for name, counts := range a.embedded.Webhooks() {
		out = append(out, prom.SinkState{Name: "webhook " + name, Errors: counts.Failed})
	}
	return out
}

// keepSeries runs the embedded Prometheus until ctx ends. That it fails to close is
// said, and stops nothing: the measurements do not depend on it.
func (a *App) keepSeries(ctx context.Context) {
	if err := a.embedded.Run(ctx); err != nil {
		a.log.Error("close the embedded Prometheus", "err", err)
	}
}
