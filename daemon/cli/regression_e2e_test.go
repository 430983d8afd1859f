//go:build e2e

package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// firstRun has a daemon measure once and ends it.
func firstRun(t *testing.T, binary, config, listen, folder string) *probes.Run {
	t.Helper()
	daemon := startProcess(t, binary, "serve", "--config", config, "--listen", listen)
	var run *probes.Run
	eventually(t, "a first run that can be believed", func() bool {
		s, err := store.Open(t.Context(), store.Options{Path: folder, Access: store.Read})
		if err != nil {
			return false // not laid out yet
		}
		defer s.Close()
		runs, err := s.History(t.Context(), store.Query{Results: []probes.RunResult{probes.RunSuccess}, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) > 0 {
			run = runs[0]
		}
		return run != nil
	})
	if err := daemon.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Fatalf("end the daemon: %v", err)
	}
	return run
}

// pastNights fills a store with nights before a run that was like them, the last of which
// was as slow as tonight will be.
func pastNights(t *testing.T, folder string, run *probes.Run, nights int, slower float64) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: folder})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for back := nights; back >= 1; back-- {
		night := *run
		night.ID = fmt.Sprintf("%s-%d", run.ID, back)
		night.Start, night.End = run.Start.AddDate(0, 0, -back), run.End.AddDate(0, 0, -back)
		night.Validity = probes.Validity{State: probes.Valid}
		factor := 1 + 0.01*random.NormFloat64()
		if back == 1 {
			factor *= slower
		}
		night.Summary.Latency = map[probes.Signal]probes.Distribution{}
		for signal, d := range run.Summary.Latency {
			for _, v := range []*float64{&d.Mean, &d.Min, &d.P50, &d.P90, &d.P95, &d.P99, &d.Max} {
				*v *= factor
			}
			night.Summary.Latency[signal] = d
		}
		if err := s.Add(context.Background(), &night); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A night that the daemon itself measures and judges against those in its store tells
// somebody, and is over once somebody has accepted it.
func TestE2ESlowNightsAreToldUntilAccepted(t *testing.T) {
	t.Parallel() // it waits more than it works
	dir := t.TempDir()
	binary := filepath.Join(dir, "inferbeat")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/inferbeat/inferbeat").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	const slower = 1.8
	engine, err := fakellm.New(fakellm.Config{Model: "m", Script: &fakellm.Script{TTFT: []time.Duration{50 * time.Millisecond}, ITL: 5 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(engine.Handler())
	t.Cleanup(server.Close)
	listen := freeAddress(t)
	write := func(folder string) (config string) {
		config = filepath.Join(dir, folder+".yaml")
		writeText(t, config, fmt.Sprintf(`
storage: {path: %q}
environments: {staging: {max_in_flight: 8}}
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 104}}
probes:
  nightly: {kind: load, every: 6s, stale_after: 1h, workload: w, num_prompts: 24, max_concurrency: 6, regression: {}}
targets:
  - {name: ages, environment: staging, backend: vllm, url: %q, probes: [nightly]}
`, filepath.Join(dir, folder), server.URL))
		return config
	}
	healthy := firstRun(t, binary, write("first"), listen, filepath.Join(dir, "first"))
	pastNights(t, filepath.Join(dir, "nights"), healthy, 40, slower)
	config := write("nights")

	r := &rehearsal{T: t, inbox: &inbox{}}
	mail := httptest.NewServer(r.inbox)
	t.Cleanup(mail.Close)
	r.rules(binary, dir, listen, mail.URL, "60")
	set(t, engine, fakellm.Fault{Kind: fakellm.Slow, Factor: slower})
	began := time.Now()
	r.daemon = startProcess(t, binary, "serve", "--config", config, "--listen", listen)
	r.serve(dir, listen)
	told := r.follow("second slow night", "InferbeatRegression", "default", began)
	if told.labels["target"] != "ages" || told.labels["probe"] != "nightly" || told.labels["severity"] != "warning" {
		t.Errorf("told of %v, want target ages, probe nightly, severity warning", told.labels)
	}
	worse, _ := query(t, r.prometheus, `inferbeat_regression_verdict{target="ages", metric="tpot_p50"}`)
	effect, _ := query(t, r.prometheus, `inferbeat_regression_effect_ratio{target="ages", metric="tpot_p50"}`)
	if worse != 2 || effect < 0.4 || effect > 1.2 {
		t.Errorf("tpot_p50: verdict %v, effect %v; want 2 and about 0.8", worse, effect)
	}
	r.note("%-26s tpot_p50 %+.0f %%", "measured", 100*effect)

	accepted := time.Now()
	if out, err := exec.Command(binary, "ack", "ages", "nightly", "--config", config, "--author", "somebody", "--reason", "a larger model").CombinedOutput(); err != nil {
		t.Fatalf("ack: %v\n%s", err, out)
	}
	r.resolved("accepted", "InferbeatRegression", "default", accepted)
	t.Log("timeline, from the daemon's start, sixty times as fast:\n" + strings.Join(r.line, "\n"))
}
