package daemon

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// targetsFile writes a file for file_sd_configs the way that editors and Kubernetes do:
// as a new file in place of the old one.
func targetsFile(t *testing.T, file string, groups ...map[string]any) {
	t.Helper()
	text, err := json.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	if groups == nil {
		text = []byte("[]")
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func group(labels map[string]string, addresses ...string) map[string]any {
	return map[string]any{"targets": addresses, "labels": labels}
}

func addressOf(t *testing.T, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (d *runningDaemon) names() string {
	var names []string
	for _, target := range d.current().Targets() {
		names = append(names, target.Name)
	}
	return strings.Join(names, " ")
}

const discoveredCanary = `
web: {enable_lifecycle: true}
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 1s, workload: w}}
targets:
  - name: fleet
    environment: development
    backend: sglang
    pool: llama
    probes: [canary]
    labels: {gpu: h100}
    file_sd_configs: [{files: [targets.json]}]
    relabel_configs:
      - {source_labels: [drain], regex: "yes", action: drop}
      - {source_labels: [replica], target_label: target}
      - {action: labeldrop, regex: replica}
`

// Targets of a file come, go and come back while the daemon runs.
func TestDaemonDiscoversTargetsOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "targets.json")
	_, first := engineAt(t, nil)
	_, second := engineAt(t, func(c *fakellm.Config) { c.Model = "other" })
	one, two := addressOf(t, first), addressOf(t, second)
	targetsFile(t, file, group(map[string]string{"replica": "a", "rack": "7"}, one))
	if err := os.WriteFile(filepath.Join(dir, "inferbeat.yaml"), []byte(discoveredCanary), 0o600); err != nil {
		t.Fatal(err)
	}
	d := daemonWith(t, Options{ConfigFiles: []string{filepath.Join(dir, "inferbeat.yaml")}, Version: "test", Watch: 5 * time.Millisecond, discoverEvery: time.Millisecond})

	d.until("the first target has run", func() bool {
		runs, _ := d.metric("inferbeat_runs_total", "target", "a", "result", "success")
		return runs > 0
	})
	target := d.current().Targets()[0]
	if got, want := fmt.Sprint(target.Name, " ", target.Pool, " ", target.BaseURL, " ", target.Environment, " ", target.Backend, " ", target.Labels),
		"a llama http://"+one+" development sglang map[gpu:h100 rack:7]"; got != want {
		t.Errorf("got target %s, want %s", got, want)
	}
	if got, _ := d.metric("inferbeat_probe_registered_timestamp_seconds", "target", "a", "model", "m"); got == 0 {
		t.Error("the target's model is not the one that it has named")
	}

	targetsFile(t, file,
		group(map[string]string{"replica": "a", "rack": "7"}, one),
		group(nil, two), group(map[string]string{"drain": "yes"}, "127.0.0.1:9"))
	d.until("the second target has run", func() bool {
		runs, _ := d.metric("inferbeat_runs_total", "target", "fleet-"+two, "model", "other", "result", "success")
		return runs > 0
	})
	if got, want := d.names(), "a fleet-"+two; got != want {
		t.Errorf("got targets %q, want %q", got, want)
	}
	runs, _ := d.metric("inferbeat_runs_total", "target", "a", "result", "success")

	// The list is empty: what was there is gone, as with Prometheus.
	targetsFile(t, file)
	d.until("there are no targets", func() bool { return len(d.Pairs()) == 0 })
	if got, ok := d.metric("inferbeat_targets", "state", "active"); !ok || got != 0 {
		t.Errorf("got %v active targets, %v, want 0", got, ok)
	}
	// And a file that is broken changes nothing.
	if err := os.WriteFile(file, []byte(`[{"targets": `), 0o600); err != nil {
		t.Fatal(err)
	}
	d.until("the broken file is counted", func() bool {
		failures, _ := d.metric("inferbeat_discovery_refresh_failures_total", "mechanism", "file")
		return failures > 0
	})
	targetsFile(t, file, group(map[string]string{"replica": "a", "rack": "7"}, one))
	d.until("the target is back, with its history", func() bool {
		pairs := d.Pairs()
		return len(pairs) == 1 && !pairs[0].LastSuccess.IsZero()
	})
	if again, ok := d.metric("inferbeat_runs_total", "target", "a", "result", "success"); !ok || again < runs {
		t.Errorf("after the return: got %v runs, %v, want at least the %v of before", again, ok, runs)
	}
}
