package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAlertsOnThePage(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	alerts := []Alert{
		{Name: "Skips", Severity: "info", Firing: true, Since: now.Add(-time.Hour), Annotations: map[string]string{"summary": "runs are skipped"}},
		{Name: "Soon", Severity: "critical", Since: now.Add(-time.Minute)},
		{Name: "Slow", Severity: "warning", Firing: true, Since: now.Add(-2 * time.Minute)},
		{Name: "Down", Severity: "critical", Firing: true, Since: now.Add(-90 * time.Second),
			Labels:      map[string]string{"pool": "<llama>", "target_env": "production", "job": "inferbeat", "severity": "critical"},
			Annotations: map[string]string{"summary": "down", "description": "pool <llama> is down", "runbook_url": "http://page/runbooks/Down.md"}},
	}
	v := view{Status: Status{Now: now}}
	v.showAlerts(alerts)
	want := []alertRow{
		{Name: "Down", State: "fail", Word: "critical", Summary: "down", Description: "pool <llama> is down", Runbook: "http://page/runbooks/Down.md", Labels: "pool <llama> · target_env production", Since: "1 min ago"},
		{Name: "Slow", State: "warn", Word: "warning", Since: "2 min ago"},
		{Name: "Skips", State: "waiting", Word: "info", Summary: "runs are skipped", Since: "1 h ago"},
		{Name: "Soon", State: "waiting", Word: "pending", Since: "1 min ago"},
	}
	if diff := cmp.Diff(want, v.Alerts); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}

	page := func(o Options) string {
		recorder := httptest.NewRecorder()
		o.Source, o.Metrics = fixedSource{status: Status{Now: now}}, http.NotFoundHandler()
		Handler(o).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
		return recorder.Body.String()
	}
	drawn := page(Options{Alerts: func() []Alert { return alerts }})
	for _, text := range []string{`<a href="http://page/runbooks/Down.md">Down</a>`, "pool &lt;llama&gt; is down", "runs are skipped"} {
		if !strings.Contains(drawn, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if drawn := page(Options{Alerts: func() []Alert { return nil }}); !strings.Contains(drawn, "No alert is pending or firing.") {
		t.Error("the page does not say that there is no alert")
	}
	if drawn := page(Options{}); strings.Contains(drawn, "Alerts") {
		t.Error("a daemon that evaluates no rules shows alerts")
	}
}
