package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

const compared = `
environments:
  production: {max_in_flight: 1, max_rate: 0.5, tokens_per_day: 2M, max_output_tokens: 128}
workloads:
  chat: {input_tokens: 512, output_tokens: 128, seed: 7}
probes:
  canary: {kind: canary, every: 1m, workload: chat, limits: {ttft: {p99: 1s}}, timeouts: {first_token: 5s}}
  night: {kind: load, workload: chat, num_prompts: 100, request_rate: 4, warmup: {requests: 8}, repeats: 3, slos: [{name: fast, objective: 99%, ttft: 1s}]}
targets:
  - {name: prod, backend: vllm, url: "http://h:1", probes: [canary], timeouts: {total: 9s}}
  - {name: stage-a, environment: staging, backend: vllm, url: "http://h:2", probes: [night]}
  - {name: stage-b, environment: staging, backend: vllm-chat, url: "http://h:3", probes: []}
comparisons:
  - {name: gate, a: prod, b: stage-a, workload: chat, every: 12h, pairs: 7, margins: {ttft_p50: 10%, tpot_p50: 0.05}, primary: [tpot_p50, ttft_p50], vary: [quantization]}
  - {name: builds, a: stage-a, b: stage-b, probe: night, schedule: "0 1 * * 6"}
  - {name: alive, a: stage-b, b: prod, probe: canary, stale_after: 2h}
`

func loadText(t *testing.T, text string) *Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{Files: []string{file}}, stages)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A load comes from a probe with all it says of it, or is a canary-sized loop that
// the strictest limits let pass.
func TestComparisons(t *testing.T) {
	c := loadText(t, compared)
	got := map[string]Comparison{}
	var order []string
	for _, one := range c.Comparisons() {
		order = append(order, one.Spec.Probe)
		got[one.Spec.Probe] = one
	}
	if d := cmp.Diff([]string{"alive", "builds", "gate"}, order); d != "" {
		t.Fatalf("comparisons (-want +got):\n%s", d)
	}
	chat := c.specs[0].Workload
	load := probes.Timeouts{Connect: 10 * time.Second, FirstToken: 5 * time.Minute, Idle: 6 * time.Minute, Total: 30 * time.Minute}
	for _, test := range []struct {
		name, reference, candidate     string
		referenceTimes, candidateTimes probes.Timeouts
		spec                           probes.Spec
	}{
		{"gate", "prod", "stage-a", withTotal(load, 9*time.Second), load, probes.Spec{
			Workload: chat, Requests: 20, Warmup: probes.Warmup{Requests: 1},
			Arrivals: probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1, Rate: 0.5},
			Pairs:    7, Margins: map[probes.RegressionMetric]float64{probes.MetricTTFTp50: 0.1, probes.MetricTPOTp50: 0.05},
			Gate:     &probes.Gate{Primary: []probes.RegressionMetric{probes.MetricTPOTp50, probes.MetricTTFTp50}, Vary: []string{"quantization"}},
			Schedule: probes.Schedule{Every: 12 * time.Hour}, StaleAfter: 36 * time.Hour,
		}},
		{"builds", "stage-a", "stage-b", load, load, probes.Spec{
			Workload: chat, Requests: 100, Warmup: probes.Warmup{Requests: 8}, Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 4},
			SLOs: c.specs[1].SLOs, Pairs: 5, Schedule: probes.Schedule{Cron: "0 1 * * 6"}, StaleAfter: 21 * day,
		}},
		{"alive", "stage-b", "prod", withFirst(canaryTimeouts), withTotal(withFirst(canaryTimeouts), 9*time.Second), probes.Spec{
			Workload: chat, Requests: 1, Arrivals: probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1, Rate: 0.5},
			Pairs: 5, StaleAfter: 2 * time.Hour,
		}},
	} {
		if test.spec.Gate == nil {
			test.spec.Gate = &probes.Gate{}
		}
		test.spec.Probe, test.spec.Kind, test.spec.Repeats = test.name, probes.Paired, 1
		one := got[test.name]
		if d := cmp.Diff(test.spec, one.Spec, cmp.AllowUnexported(probes.Optional[float64]{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
		sides := []any{one.Reference.Name, one.Reference.Timeouts, one.Candidate.Name, one.Candidate.Timeouts}
		if d := cmp.Diff([]any{test.reference, test.referenceTimes, test.candidate, test.candidateTimes}, sides); d != "" {
			t.Errorf("sides of %s (-want +got):\n%s", test.name, d)
		}
	}
}

func withTotal(t probes.Timeouts, total time.Duration) probes.Timeouts {
	t.Total = total
	return t
}

func withFirst(t timeouts) probes.Timeouts {
	t.FirstToken = 5 * time.Second
	return probes.Timeouts(t)
}

// What is printed as the effective configuration means the same when it is loaded.
func TestComparisonsRoundTrip(t *testing.T) {
	c := loadText(t, compared)
	text, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	again := loadText(t, string(text))
	if d := cmp.Diff(c.Comparisons(), again.Comparisons(), cmp.AllowUnexported(probes.Optional[float64]{})); d != "" {
		t.Errorf("comparisons after a round trip (-first +second):\n%s\n%s", d, text)
	}
	if c.SHA256() != again.SHA256() {
		t.Error("the effective configuration has another hash after a round trip")
	}
}
