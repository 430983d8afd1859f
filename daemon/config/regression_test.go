package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

const regressionConfig = `
regression: {false_alarms_per_year: 6}
workloads: {w: {}}
probes:
  plain: {kind: load, workload: w, max_concurrency: 4, num_prompts: 50}
  nightly: {kind: load, workload: w, max_concurrency: 4, num_prompts: 50, schedule: "0 2 * * *", regression: {}}
  thrice: {kind: load, workload: w, max_concurrency: 4, num_prompts: 50, repeats: 3, regression: {sensitivity: high}}
  ceiling: {kind: peak, workload: w, max_concurrency: 4, regression: {metrics: [output_throughput], min_effects: {output_throughput: 4%}, auto_accept_nights: 30}}
  trusting: {kind: batch, workload: w, batch_size: 8, regression: {confirm: false}}
targets:
  - {name: a, environment: staging, backend: vllm, url: "http://a", probes: [nightly]}
`

func TestRegression(t *testing.T) {
	c, err := load(t, Source{}, regressionConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]probes.Regression{
		"plain":   {},
		"nightly": {Enabled: true, Confirm: true},
		"thrice":  {Enabled: true, Sensitivity: probes.SensitivityHigh},
		"ceiling": {
			Enabled: true, Metrics: []probes.RegressionMetric{probes.MetricOutputThroughput}, AutoAccept: 30,
			MinEffects: map[probes.RegressionMetric]float64{probes.MetricOutputThroughput: 0.04},
		},
		"trusting": {Enabled: true},
	}
	check := func(c *Config) {
		t.Helper()
		got := map[string]probes.Regression{}
		for _, s := range c.Probes() {
			got[s.Probe] = s.Regression
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("regression (-want +got):\n%s", d)
		}
		if c.FalseAlarms != 6 {
			t.Errorf("false alarms = %v, want 6", c.FalseAlarms)
		}
	}
	check(c)
	if got := c.Pairs()[0].Spec.MostRequests(); got != 150 {
		t.Errorf("a load that may be confirmed sends at most %d requests, want 3 times 50", got)
	}
	printed, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(t, Source{}, string(printed))
	if err != nil {
		t.Fatalf("the printed configuration does not load: %v\n%s", err, printed)
	}
	check(again)
}

func TestRegressionRefused(t *testing.T) {
	for _, tt := range []struct{ probe, want string }{
		{"{kind: canary, workload: w, every: 30s, regression: {}}", "probes.p.regression: does not belong to a canary: its results are windows, not nights; use a load with a schedule"},
		{"{kind: peak, workload: w, max_concurrency: 4, regression: {confirm: true}}", "probes.p.regression.confirm: has no effect on a peak; it belongs to load, replay and batch"},
		{"{kind: load, workload: w, max_concurrency: 4, num_prompts: 5, repeats: 3, regression: {confirm: true}}", "must not be written beside repeats"},
		{"{kind: load, workload: w, max_concurrency: 4, num_prompts: 5, regression: {metrics: [p99]}}", `regression.metrics: must be one of`},
		{"{kind: load, workload: w, max_concurrency: 4, num_prompts: 5, regression: {min_effects: {ttft_p50: 0%}}}", "min_effects.ttft_p50"},
	} {
		_, err := load(t, Source{}, "workloads: {w: {}}\nprobes: {p: "+tt.probe+"}\n")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.probe, err, tt.want)
		}
	}
}
