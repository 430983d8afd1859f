package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/probes"
)

func TestDemoNights(t *testing.T) {
	for _, tt := range []struct{ now, last string }{
		{"2026-11-30T12:00:00Z", "2026-11-30T03:30:00Z"},
		{"2026-11-30T03:30:00Z", "2026-11-29T03:30:00Z"}, // tonight's would not have ended
		{"2026-11-30T00:10:00Z", "2026-11-29T03:30:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		runs := demoNights(now)
		if got := runs[len(runs)-1].Start.Format(time.RFC3339); got != tt.last || len(runs) != 4*demoNightsBack {
			t.Errorf("at %s: %d runs, the last at %s; want %d and %s", tt.now, len(runs), got, 4*demoNightsBack, tt.last)
		}
	}
}

// TestDemoLooksBack: one of the two staging replicas has become slower with its new
// version; nothing else has happened to either.
func TestDemoLooksBack(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "demo.yaml")
	replicas := demoReplicas()
	for i, r := range replicas {
		r.URL = fmt.Sprintf("http://127.0.0.1:%d", i+1) // nothing is asked
	}
	if err := writeDemoConfig(file, "127.0.0.1:0", filepath.Join(folder, "store"), replicas); err != nil {
		t.Fatal(err)
	}
	app, err := daemon.New(daemon.Options{ConfigFiles: []string{file}, LogTo: os.Stderr, Overrides: map[string]any{"log.level": "error", "pause": true}})
	if err != nil {
		t.Fatal(err)
	}
	app.Relive(demoNights(time.Now().UTC()), marked)
	defer func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := app.Run(ended); err != nil {
			t.Error(err)
		}
	}()
	type states map[probes.RegressionMetric]probes.ChangeState
	got := map[string]states{}
	verdicts := map[string]probes.VerdictState{}
	for _, p := range app.Pairs() {
		if p.Pair.Probe != demoProbe && p.Pair.Probe != demoSweep {
			continue
		}
		pair := p.Pair.Target + " " + p.Pair.Probe
		if p.Result == nil {
			t.Fatalf("%s: no result", pair)
		}
		verdicts[pair], got[pair] = p.Result.Verdict.State, states{}
		for _, c := range p.Changes {
			got[pair][c.Metric] = c.State
			if want := []probes.FactChange{{Name: "version", Before: "0.11.0", After: "0.11.1"}}; c.State == probes.ChangeWorse && !cmp.Equal(c.Renamed, want) {
				t.Errorf("%s of %s: the server changed %v, want %v", c.Metric, pair, c.Renamed, want)
			}
		}
	}
	none, worse := probes.ChangeNone, probes.ChangeWorse
	want := map[string]states{
		"llama-staging-a nightly": {
			probes.MetricTTFTp50: none, probes.MetricTTFTp99: none, probes.MetricTPOTp50: none, probes.MetricTPOTp99: none, probes.MetricE2Ep50: none,
			probes.MetricSuccessRatio: none, probes.MetricAcceptLength: none,
		},
		"llama-staging-a nightly-capacity": {probes.MetricCapacity: none},
		"llama-staging-b nightly": {
			probes.MetricTTFTp50: none, probes.MetricTTFTp99: none, probes.MetricTPOTp50: worse, probes.MetricTPOTp99: worse, probes.MetricE2Ep50: worse,
			probes.MetricSuccessRatio: none,
		},
		"llama-staging-b nightly-capacity": {probes.MetricCapacity: worse},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("states (-want +got):\n%s", d)
	}
	wantVerdicts := map[string]probes.VerdictState{
		"llama-staging-a nightly": probes.Pass, "llama-staging-a nightly-capacity": probes.Pass,
		"llama-staging-b nightly": probes.Fail, "llama-staging-b nightly-capacity": probes.Fail,
	}
	if d := cmp.Diff(wantVerdicts, verdicts); d != "" {
		t.Errorf("verdicts (-want +got):\n%s", d)
	}
}
