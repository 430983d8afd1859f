package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/probes"
)

// sweepSpecOf parses a call of sweep up to its spec.
func sweepSpecOf(args ...string) (probes.Spec, error) {
	f := &flagSet{FlagSet: newFlags()}
	o := defineSweepFlags(f)
	if err := f.parse("sweep", args); err != nil {
		return probes.Spec{}, err
	}
	var own mistakes
	o.drawing(&own)
	_, spec, err := o.resolveAs(o.buildSweep, f.FlagSet, nil)
	if err != nil {
		own = append(own, err)
	}
	return spec, own.join()
}

// Each flag that only sweep has, or means differently, changes what is run.
func TestSweepFlags(t *testing.T) {
	base, err := sweepSpecOf()
	if err != nil {
		t.Fatal(err)
	}
	one := func(name string, objective float64, signal probes.Signal, bound time.Duration) probes.SLO {
		return probes.SLO{Name: name, Objective: objective, Bounds: map[probes.Signal]time.Duration{signal: bound}}
	}
	if diff := cmp.Diff([]probes.SLO{one("ttft_p99", 0.99, probes.TTFT, time.Second)}, base.SLOs); diff != "" || base.Kind != probes.Sweep || base.Arrivals.Rate != 0 ||
		base.Arrivals.Process != probes.Poisson || base.Requests != 0 || base.Warmup != (probes.Warmup{}) || base.Sweep.MaxSteps != 16 {
		t.Errorf("without flags: %+v\n%s", base, diff)
	}
	covered := map[string]bool{"plot": true, "plot-theme": true} // see TestSweepCommand
	for _, tt := range []struct {
		args string
		want func(*probes.Spec)
	}{
		{"--rates 1,2,4.5", func(s *probes.Spec) { s.Sweep.Rates = []float64{1, 2, 4.5} }},
		{"--start-rate 3", func(s *probes.Spec) { s.Sweep.Start = 3 }},
		{"--max-rate 9", func(s *probes.Spec) { s.Sweep.MaxRate = 9 }},
		{"--max-steps 5", func(s *probes.Spec) { s.Sweep.MaxSteps = 5 }},
		{"--slo-ttft-p99 2s", func(s *probes.Spec) { s.SLOs = []probes.SLO{one("ttft_p99", 0.99, probes.TTFT, 2*time.Second)} }},
		{"--slo-ttft-p95 2s", func(s *probes.Spec) { s.SLOs = []probes.SLO{one("ttft_p95", 0.95, probes.TTFT, 2*time.Second)} }},
		{"--slo-tpot-p99 50ms --slo-tpot-p95 40ms", func(s *probes.Spec) {
			s.SLOs = []probes.SLO{one("tpot_p99", 0.99, probes.TPOT, 50*time.Millisecond), one("tpot_p95", 0.95, probes.TPOT, 40*time.Millisecond)}
		}},
		{"--slo-e2e-p99 9s --slo-e2e-p95 8s --disable-stream", func(s *probes.Spec) {
			s.SLOs = []probes.SLO{one("e2e_p99", 0.99, probes.E2E, 9*time.Second), one("e2e_p95", 0.95, probes.E2E, 8*time.Second)}
			s.Workload.Sampling.Stream = false
		}},
		{"--num-prompts 50", func(s *probes.Spec) { s.Requests = 50 }},
		{"--duration 50s", func(s *probes.Spec) { s.Duration = 50 * time.Second }},
		{"--warmup-requests 5", func(s *probes.Spec) { s.Warmup.Requests = 5 }},
		{"--burstiness inf", func(s *probes.Spec) { s.Arrivals.Process, s.Arrivals.CV = probes.Constant, 0 }},
		{"--max-concurrency 5", func(s *probes.Spec) { s.Arrivals.MaxConcurrency = 5 }},
		{"--flush-cache", func(s *probes.Spec) { s.FlushCache = true }},
	} {
		got, err := sweepSpecOf(strings.Fields(tt.args)...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		want := base
		tt.want(&want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
		for _, arg := range strings.Fields(tt.args) {
			covered[strings.TrimPrefix(arg, "--")] = true
		}
	}
	ofRun := &flagSet{FlagSet: newFlags()}
	defineRunFlags(ofRun)
	ofRun.join()
	flags := &flagSet{FlagSet: newFlags()}
	defineSweepFlags(flags)
	flags.join()
	flags.VisitAll(func(f *pflag.Flag) {
		same := ofRun.Lookup(f.Name)
		if !covered[f.Name] && (same == nil || same.Usage != f.Usage) {
			t.Errorf("no test knows what --%s changes", f.Name)
		}
	})
}

func TestSweepMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"--rates 1,x":              `--rates: "x" is not a number; rates are written 1,2,4`,
		"--rates 2,1":              "--rates: must be above 0, finite, and rise from one to the next",
		"--rates 1,inf":            "--rates: must be above 0, finite, and rise from one to the next",
		"--rates 1,2 --max-rate 3": "--max-rate: is part of a search and contradicts --rates",
		"--rates 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17": "--rates: holds 17 rates, more than 16",
		"--max-steps 17":                          "--max-steps: 17 is not from 1 to 16",
		"--start-rate 4 --max-rate 3":             "--start-rate: 4 is above --max-rate 3",
		"--start-rate -1":                         "--start-rate: -1 is negative",
		"--slo-ttft-p99 0s":                       "--slo-ttft-p99: 0s must be above 0",
		"--num-prompts 5 --duration 5s":           "--duration: contradicts --num-prompts; leave one of them out",
		"--disable-stream":                        "--disable-stream: leaves no TTFT and no TPOT to hold against objective ttft_p99; use --slo-e2e-p99 or --slo-e2e-p95",
		"--plot x.jpg":                            "--plot: x.jpg must end with .svg or .png",
		"--plot /nowhere/x.svg":                   "--plot: /nowhere/x.svg cannot be made: its folder does not exist",
		"--plot-theme dark":                       "--plot-theme: has no effect without --plot",
		"--plot-theme grey --plot /nowhere/x.svg": "--plot-theme: \"grey\" is neither light nor dark\n--plot: /nowhere/x.svg cannot be made: its folder does not exist",
		"--max-concurrency -1 --backend x":        "",
	} {
		_, err := sweepSpecOf(strings.Fields(args)...)
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// The whole command, against a server that is never too slow: its capacity is at least
// the highest rate, and it is drawn.
func TestSweepCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		url, _ := n.server(nil, nil)
		for _, tt := range []struct {
			file, theme, begins string
		}{{"c.svg", "light", "<?xml"}, {"c.png", "dark", "\x89PNG"}} {
			drawing := filepath.Join(t.TempDir(), tt.file)
			results := filepath.Join(t.TempDir(), "out.jsonl")
			got := n.call("sweep", "--output-file", results, "--backend", "vllm", "--base-url", url, "--tokenizer", "approx", "--random-input-len", "8", "--random-output-len", "2",
				"--random-range-ratio", "1", "--rates", "100,200", "--num-prompts", "100", "--warmup-requests", "2", "--slo-ttft-p95", "10s",
				"--plot", drawing, "--plot-theme", tt.theme)
			if got.code != exitPass || got.stderr != "" {
				t.Fatalf("code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
			}
			contains(t, "the report", got.stdout, "Capacity (req/s):                        at least 200.00\n", "Safe load, 0.8 of it (req/s):            160.00    \n",
				"Limited by objective:                    ttft_p95  \n", "Verdict:                                 warn      \n", "- capacity_lower_bound: ",
				"Requests:                                200       \n", "Warm-up requests (not counted above):    9         \n")
			if text := readFile(t, drawing); !strings.HasPrefix(text, tt.begins) {
				t.Errorf("%s begins with %.8q", tt.file, text)
			}
			if lines := strings.Count(readFile(t, results), "\n"); lines != 3 {
				t.Errorf("%d lines of results, want 2 steps and a sweep", lines)
			}
		}
	})
}

// Of a configuration only the probes that are sweeps are chosen from.
func TestSweepFromConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		url, _ := n.server(nil, nil)
		file := writeFile(t, "inferbeat.yaml", fmt.Sprintf(`
workloads:
  w: {dataset: random, input_tokens: 8, output_tokens: 2, tokenizer: approx}
probes:
  p: {kind: load, workload: w, num_prompts: 20, max_concurrency: 20}
  c: {kind: sweep, workload: w, num_prompts: 100, warmup: {requests: 1}, rates: [200], slo: {ttft: {p95: 10s}}}
targets:
  - {name: a, environment: staging, backend: vllm, url: %q, probes: [p, c]}
  - {name: b, environment: staging, backend: vllm, url: %q, probes: [p]}
`, url, url))
		got := n.call("sweep", "--config", file)
		if got.code != exitPass {
			t.Errorf("code %d, stderr %q", got.code, got.stderr)
		}
		contains(t, "the report", got.stdout, "Probe:                                   c         \n", "Capacity (req/s):                        at least 200.00\n")
		got = n.call("sweep", "--config", file, "--target", "b")
		if want := "inferbeat sweep: --config: it has no such pair of target and probe; choose one of: --target a --probe c\n"; got.code != exitUsage || got.stderr != want {
			t.Errorf("code %d, stderr %q, want %q", got.code, got.stderr, want)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(readFile(t, file), "[p, c]", "[p]")), 0o600); err != nil {
			t.Fatal(err)
		}
		got = n.call("sweep", "--config", file)
		if want := "inferbeat sweep: --config: no target of the configuration has a probe of the kind sweep\n"; got.code != exitUsage || got.stderr != want {
			t.Errorf("code %d, stderr %q, want %q", got.code, got.stderr, want)
		}
	})
}
