package config

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

const kindsConfig = `
workloads: {w: {}}
probes:
  ceiling: {kind: peak, workload: w, max_concurrency: 100, start_concurrency: 16}
  single: {kind: batch, workload: w, batch_size: 8}
  nightly: {kind: load, workload: w, max_concurrency: 4, num_prompts: 50, repeats: 3}
targets:
  - {name: a, environment: staging, backend: vllm, url: "http://a", probes: [ceiling, single, nightly]}
`

func TestKinds(t *testing.T) {
	c, err := load(t, Source{}, kindsConfig)
	if err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Requests, Start, Repeats, Warmup, MostRequests, MostInFlight int
		Arrivals                                                     probes.Arrivals
	}
	got := map[string]shape{}
	for _, s := range c.Probes() {
		got[s.Probe] = shape{s.Requests, s.StartConcurrency, s.Repeats, s.Warmup.Requests, s.MostRequests(), s.MostInFlight(), s.Arrivals}
	}
	want := map[string]shape{
		// Steps of 16, 32, 64 and 100 workers: 64 requests, then 4 for each worker.
		"ceiling": {64, 16, 0, 1, 64 + 128 + 256 + 400, 100, probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 100}},
		"single":  {8, 0, 0, 8, 8, 8, probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}},
		"nightly": {50, 0, 3, 1, 150, 4, probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("probes (-want +got):\n%s", d)
	}
	printed, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(t, Source{}, string(printed))
	if err != nil {
		t.Fatalf("the printed configuration does not load: %v\n%s", err, printed)
	}
	if d := cmp.Diff(c.Probes(), again.Probes()); d != "" {
		t.Errorf("probes of the printed configuration (-read +printed):\n%s", d)
	}
}

// A peak's workers are requests in flight, however few its first steps have.
func TestPeakKeepsTheLimits(t *testing.T) {
	text := strings.Replace(kindsConfig, "workloads:", "environments: {staging: {max_in_flight: 64}}\nworkloads:", 1)
	_, err := load(t, Source{}, text)
	if err == nil || !strings.Contains(err.Error(), "probe ceiling exceeds environment staging: 100 requests in flight, max_in_flight is 64") {
		t.Errorf("error = %v, want one about 100 requests in flight", err)
	}
}

func TestExpect(t *testing.T) {
	c, err := load(t, Source{}, `
workloads: {w: {}}
probes: {c: {kind: canary, every: 2s, workload: w, expect: {prompt: "2+2=", equals: "4"}}}
targets: [{name: a, environment: staging, backend: vllm, url: "http://a", probes: [c]}]
`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(probes.Expect{Prompt: "2+2=", Equals: "4", MaxTokens: 32}, c.Probes()[0].Expect); d != "" {
		t.Errorf("expect (-want +got):\n%s", d)
	}
	printed, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(printed), "2+2=") {
		t.Errorf("the printed configuration holds the question:\n%s", printed)
	}
}

// The question is a request like the others to the limits of an environment.
func TestExpectKeepsTheLimits(t *testing.T) {
	_, err := load(t, Source{}, `
workloads: {w: {}}
probes: {c: {kind: canary, every: 1s, workload: w, expect: {prompt: "2+2=", equals: "4", max_tokens: 300}}}
targets: [{name: a, environment: production, backend: vllm, url: "http://a", probes: [c]}]
`)
	for _, want := range []string{"2 requests every 1s, max_rate is 1", "300 output tokens, max_output_tokens is 256"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

// Only a closed loop has workers to start together.
func TestStartTogetherElsewhere(t *testing.T) {
	for keys, want := range map[string]string{
		"kind: peak, max_concurrency: 4":                  "probes.p.start_together: must not be written: a peak is a closed loop, as fast as the answers come",
		"kind: batch, batch_size: 4":                      "probes.p.start_together: must not be written: a batch is batch_size requests at once",
		"kind: sweep, slo: {e2e: 9s}, max_concurrency: 7": "probes.p.start_together: does not belong to a sweep: its steps have a rate and no workers",
	} {
		_, err := load(t, Source{}, probe1(keys+", start_together: true"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q in it", keys, err, want)
		}
	}
}
