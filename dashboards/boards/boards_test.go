package boards

import (
	"testing"

	"github.com/inferbeat/inferbeat/dashboards"
)

// What is checked in is what the boards say; go generate ./dashboards writes it.
func TestFilesAreWhatTheBoardsSay(t *testing.T) {
	built, err := All()
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := dashboards.All()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, d := range shipped {
		files[d.UID] = string(d.Model)
	}
	for _, b := range built {
		if files[b.UID] != string(b.JSON) {
			t.Errorf("grafana/%s.json is not what the board says; run go generate ./dashboards", b.UID)
		}
		delete(files, b.UID)
	}
	for uid := range files {
		t.Errorf("grafana/%s.json has no board", uid)
	}
}

func TestUnknownMetricPanics(t *testing.T) {
	defer func() {
		if got := recover(); got != "metric inferbeat_typo is not in the catalogue" {
			t.Errorf("got %v, want a panic that names the metric", got)
		}
	}()
	pairVars.of("inferbeat_typo")
}

func TestQueries(t *testing.T) {
	one := vars{"job", "target", "sink"}
	for _, c := range []struct{ got, want string }{
		{one.of("inferbeat_run_active", `probe="x"`), `inferbeat_run_active{job=~"$job",target=~"$target",probe="x"}`},
		{vars{"instance"}.of("inferbeat_panics_total"), `inferbeat_panics_total{instance=~"$instance"}`},
		{
			one.quantile(0.99, "target", "inferbeat_time_to_first_token_seconds"),
			`histogram_quantile(0.99, sum by (target) (rate(inferbeat_time_to_first_token_seconds{job=~"$job",target=~"$target"}[$window])))` +
				"\nor\n" +
				`histogram_quantile(0.99, sum by (target, le) (rate(inferbeat_time_to_first_token_seconds_bucket{job=~"$job",target=~"$target"}[$window])))`,
		},
		{
			vars{"job"}.quantile(0.5, "", "inferbeat_scheduler_lag_seconds"),
			`histogram_quantile(0.5, sum by () (rate(inferbeat_scheduler_lag_seconds{job=~"$job"}[$window])))` +
				"\nor\n" +
				`histogram_quantile(0.5, sum by (le) (rate(inferbeat_scheduler_lag_seconds_bucket{job=~"$job"}[$window])))`,
		},
		{count("x > 1"), "count(x > 1) or vector(0)"},
		{vars{}.burnRate("1h"), "sum by (pool, target_env, model, probe, slo) (increase(inferbeat_slo_events_total{result=\"bad\"}[1h]))\n/\n" +
			"(sum by (pool, target_env, model, probe, slo) (increase(inferbeat_slo_events_total{}[1h])) > 0)\n/\n" +
			"(1 - max by (pool, target_env, model, probe, slo) (inferbeat_slo_objective_ratio{}))"},
	} {
		if c.got != c.want {
			t.Errorf("got\n%s\nwant\n%s", c.got, c.want)
		}
	}
}
