package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	d.until("there are no targets", func() bool {
		active, ok := d.metric("inferbeat_targets", "state", "active")
		return ok && active == 0 && len(d.Pairs()) == 0
	})
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

// inventory answers http_sd_configs with addresses.
type inventory struct{ addresses atomic.Pointer[[]string] }

func (i *inventory) set(addresses ...string) { i.addresses.Store(&addresses) }

func (i *inventory) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text, _ := json.Marshal([]map[string]any{{"targets": *i.addresses.Load()}})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// countAtOnce notices how many completions an engine answers at once.
func countAtOnce(h http.Handler, most *atomic.Int64) http.Handler {
	var now atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
		}
		h.ServeHTTP(w, r)
	})
}

// A target that discovery loses and finds again while a run of it goes on: the run ends
// as it would, it is not run twice, and nothing that was known of it is lost.
func TestDiscoveredTargetFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var most atomic.Int64
		engine := quickEngine(t, func(c *fakellm.Config) { c.Script = &fakellm.Script{TTFT: []time.Duration{25 * time.Second}} })
		address := addressOf(t, n.Serve(countAtOnce(engine.Handler(), &most)))
		list := &inventory{}
		list.set(address)
		d := n.daemon(fmt.Sprintf(`
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 1m, workload: w, timeouts: {first_token: 50s}, slos: [{name: fast, objective: 50%%, ttft: 40s}]}}
targets:
  - {name: fleet, environment: development, backend: sglang, model: m, probes: [canary], http_sd_configs: [{url: %q, refresh_interval: 10s, enable_http2: false}]}
`, n.Serve(list)))
		time.Sleep(3 * time.Minute)
		d.until("a run is going on", func() bool { return len(d.Pairs()) == 1 && d.Pairs()[0].Active })
		before := d.Pairs()[0]
		if before.Result == nil || before.LastSuccess.IsZero() {
			t.Fatalf("no result after three minutes: %+v", before)
		}
		runs, _ := d.metric("inferbeat_runs_total", "result", "success")

		list.set()
		time.Sleep(16 * time.Second) // a refresh, and the least time between two changes
		if got := len(d.Pairs()); got != 0 {
			t.Fatalf("%d pairs are left", got)
		}
		if v, _ := d.metric("inferbeat_targets", "state", "draining"); v != 1 {
			t.Errorf("%v targets are draining, want 1", v)
		}
		time.Sleep(30 * time.Second) // the run has ended meanwhile
		if v, _ := d.metric("inferbeat_targets", "state", "draining"); v != 0 {
			t.Errorf("%v targets are draining after the run, want 0", v)
		}
		list.set(address)
		time.Sleep(16 * time.Second)
		after := d.Pairs()
		if len(after) != 1 || after[0].Result == nil || !after[0].LastSuccess.After(before.LastSuccess) {
			t.Fatalf("the target has come back without its results, or without the run that it left in: %+v", after)
		}
		if again, _ := d.metric("inferbeat_runs_total", "result", "success"); again != runs+1 {
			t.Errorf("got %v runs, want the %v of before and one", again, runs)
		}
		if _, ok := d.metric("inferbeat_slo_error_budget_remaining_ratio", "slo", "fast"); !ok {
			t.Error("the error budget is gone")
		}
		for range 10 { // in and out, faster than its runs
			list.set()
			time.Sleep(16 * time.Second)
			list.set(address)
			time.Sleep(16 * time.Second)
		}
		if got := most.Load(); got != 1 {
			t.Errorf("%d requests at once, want 1", got)
		}
	})
}

// A reload changes targets and their discovery in one step, or not at all; a comparison
// waits for its side.
func TestReloadChangesDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, first := n.engine(nil)
		_, second := n.engine(nil)
		one, two := addressOf(t, first), addressOf(t, second)
		list := &inventory{}
		list.set(one, two)
		text := fmt.Sprintf(`
web: {enable_lifecycle: true}
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 1m, workload: w}}
targets:
  - {name: static, environment: development, backend: sglang, model: m, url: %q, probes: []}
  - name: fleet
    environment: development
    backend: sglang
    model: m
    probes: [canary]
    http_sd_configs: [{url: %q, enable_http2: false}]
comparisons:
  - {name: c, a: static, b: "fleet-%s", workload: w, every: 10m}
`, first, n.Serve(list), two)
		d := n.daemon(text)
		if got := len(d.Comparisons()); got != 0 {
			t.Errorf("%d comparisons before the target is there", got)
		}
		time.Sleep(time.Second)
		if got, want := d.names(), "fleet-"+one+" fleet-"+two+" static"; got != want || len(d.Comparisons()) != 1 {
			t.Fatalf("got targets %q and %d comparisons, want %q and 1", got, len(d.Comparisons()), want)
		}
		reload := func(text string) int {
			t.Helper()
			if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			status, _ := d.request("POST", "/-/reload")
			return status
		}
		rules := "    relabel_configs: [{source_labels: [__address__], regex: \"" + two + "\", action: drop}]\n"
		if got := reload(strings.Replace(text, "comparisons:", rules+"comparisons:", 1)); got != 200 {
			t.Fatalf("reload: %d", got)
		}
		if got, want := d.names(), "fleet-"+one+" static"; got != want || len(d.Comparisons()) != 0 {
			t.Errorf("right after the reload: got targets %q and %d comparisons, want %q and none", got, len(d.Comparisons()), want)
		}
		if got := reload(strings.Replace(text, "http_sd_configs", "htp_sd_configs", 1)); got == 200 {
			t.Error("a bad file is let pass")
		}
		time.Sleep(2 * time.Minute)
		if got, want := d.names(), "fleet-"+one+" static"; got != want {
			t.Errorf("after a reload that failed: got targets %q, want %q", got, want)
		}
		if got := reload("targets: [{name: static, environment: development, backend: sglang, model: m, url: \"" + first + "\", probes: []}]\nweb: {enable_lifecycle: true}\n"); got != 200 {
			t.Fatalf("reload: %d", got)
		}
		if got := d.names(); got != "static" {
			t.Errorf("without the entry: got targets %q", got)
		}
		if v, ok := d.metric("inferbeat_discovery_targets"); ok {
			t.Errorf("still %v targets of a mechanism that is not configured", v)
		}
	})
}

// The limit of series rejects what does not fit, and says so.
func TestDiscoveredTargetsBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		list := &inventory{}
		list.set("10.1.0.1:1", "10.1.0.2:1", "10.1.0.3:1")
		d := n.daemon(fmt.Sprintf(`
metrics: {max_series: 800}
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 1m, workload: w}}
targets: [{name: f, environment: development, backend: sglang, model: m, probes: [canary], http_sd_configs: [{url: %q, enable_http2: false}]}]
`, n.Serve(list)))
		time.Sleep(time.Second)
		if got, want := d.names(), "f-10.1.0.1:1 f-10.1.0.2:1"; got != want {
			t.Errorf("got targets %q, want %q", got, want)
		}
		for state, want := range map[string]float64{"active": 2, "rejected": 1, "paused": 0, "draining": 0} {
			if got, ok := d.metric("inferbeat_targets", "state", state); !ok || got != want {
				t.Errorf("%v targets are %s, want %v", got, state, want)
			}
		}
	})
}
