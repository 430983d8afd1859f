package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// A sweep is what its keys say, within the limits of its environment.
func TestSweepKeys(t *testing.T) {
	c := mustLoad(t, Source{}, `
environments:
  development: {max_rate: 20, max_in_flight: 64}
workloads: {w: {}}
probes:
  given: {kind: sweep, workload: w, rates: [1, 2, 4], num_prompts: 300, warmup: {requests: 5}, slo: {ttft: 1s, tpot: {p95: 50ms, p90: 40ms}},
          slos: [{name: whole, objective: 95%, e2e: 9s}]}
  search: {kind: sweep, workload: w, start_rate: 2, max_rate: 50, max_steps: 9, burstiness: 4, slo: {e2e: {p99: 9s}}, max_concurrency: 7}
targets:
  - {name: t, environment: staging, backend: vllm, url: "http://t", probes: [given, search]}
  - {name: u, environment: development, backend: vllm, url: "http://t", probes: [search]}
`)
	slo := func(name string, objective float64, signal probes.Signal, bound time.Duration) probes.SLO {
		return probes.SLO{Name: name, Objective: objective, Bounds: map[probes.Signal]time.Duration{signal: bound}}
	}
	whole := slo("whole", 0.95, probes.E2E, 9*time.Second)
	whole.Window = 30 * 24 * time.Hour
	type sweep struct {
		Plan     probes.SweepPlan
		Arrivals probes.Arrivals
		Requests int
		Warmup   probes.Warmup
		SLOs     []probes.SLO
	}
	var got []sweep
	for _, p := range c.Pairs() {
		s := &p.Spec
		got = append(got, sweep{s.Sweep, s.Arrivals, s.Requests, s.Warmup, s.SLOs})
	}
	gamma := probes.Arrivals{Process: probes.Gamma, CV: 0.5, MaxConcurrency: 7}
	e2e := []probes.SLO{slo("e2e_p99", 0.99, probes.E2E, 9*time.Second)}
	want := []sweep{
		{probes.SweepPlan{Rates: []float64{1, 2, 4}}, probes.Arrivals{Process: probes.Poisson, MaxConcurrency: 512}, 300, probes.Warmup{Requests: 5}, []probes.SLO{
			whole, slo("ttft_p99", 0.99, probes.TTFT, time.Second), slo("tpot_p90", 0.9, probes.TPOT, 40*time.Millisecond), slo("tpot_p95", 0.95, probes.TPOT, 50*time.Millisecond),
		}},
		{probes.SweepPlan{Start: 2, MaxRate: 50, MaxSteps: 9}, gamma, 0, probes.Warmup{}, e2e},
		{probes.SweepPlan{Start: 2, MaxRate: 20, MaxSteps: 9}, gamma, 0, probes.Warmup{}, e2e},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sweeps (-want +got):\n%s", diff)
	}
	again := mustLoad(t, Source{}, redacted(t, c))
	if diff := cmp.Diff(c.Pairs()[0].Spec, again.Pairs()[0].Spec); diff != "" {
		t.Errorf("the printed configuration means something else (-first +again):\n%s", diff)
	}
}

func TestSweepRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spec  probes.Spec
		n     float64
		known bool
	}{
		{"given", probes.Spec{Requests: 100, Warmup: probes.Warmup{Requests: 10}, Sweep: probes.SweepPlan{Rates: []float64{1, 2, 4}}}, 330, true},
		{"searched", probes.Spec{Requests: 100, Warmup: probes.Warmup{Requests: 10}, Sweep: probes.SweepPlan{MaxSteps: 5}}, 550, true},
		{"searched to the end", probes.Spec{Requests: 100, Warmup: probes.Warmup{Requests: 10}}, 1760, true},
		{"timed", probes.Spec{Duration: time.Minute, Warmup: probes.Warmup{Duration: 10 * time.Second}, Sweep: probes.SweepPlan{Rates: []float64{1, 4}}}, 560, true},
		{"timed up to a rate", probes.Spec{Duration: time.Minute, Warmup: probes.Warmup{Requests: 1}, Sweep: probes.SweepPlan{MaxRate: 2, MaxSteps: 3}}, 363, true},
		{"timed without one", probes.Spec{Duration: time.Minute, Warmup: probes.Warmup{Requests: 1}}, 0, false},
		{"automatic", probes.Spec{Sweep: probes.SweepPlan{Rates: []float64{1}}}, 0, false},
		{"automatic warm-up", probes.Spec{Requests: 100, Sweep: probes.SweepPlan{Rates: []float64{1}}}, 0, false},
	} {
		if n, known := sweepRequests(tt.spec); n != tt.n || known != tt.known {
			t.Errorf("%s: %v, %v, want %v, %v", tt.name, n, known, tt.n, tt.known)
		}
	}
}
