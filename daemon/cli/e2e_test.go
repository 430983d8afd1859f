//go:build e2e

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// tool is a program that the gate installs; without it there is no end-to-end test.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("set %s to the program's path, as .ci/run does", variable)
	}
	return path
}

// process is a child that ends with the test.
type process struct {
	*exec.Cmd
	output bytes.Buffer
}

func startProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(name, args...)}
	p.Stdout, p.Stderr = &p.output, &p.output
	if err := p.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(name), p.output.String())
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func fetch(address string) (int, []byte) {
	resp, err := http.Get(address)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, body
}

// query asks Prometheus for an instant vector of one sample.
func query(t *testing.T, prometheus, expr string) (float64, bool) {
	t.Helper()
	code, body := fetch("http://" + prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	var answer struct {
		Status string
		Data   struct {
			Result []struct{ Value [2]any }
		}
	}
	if code != 200 || json.Unmarshal(body, &answer) != nil || answer.Status != "success" {
		t.Fatalf("query %s: status %d: %s", expr, code, body)
	}
	if len(answer.Data.Result) == 0 {
		return 0, false
	}
	if len(answer.Data.Result) > 1 {
		t.Fatalf("query %s: %d samples, want one", expr, len(answer.Data.Result))
	}
	v, err := strconv.ParseFloat(answer.Data.Result[0].Value[1].(string), 64)
	if err != nil {
		t.Fatalf("query %s: %v", expr, err)
	}
	return v, true
}

// The binary as it is shipped, against a scripted engine on a loopback port,
// scraped by a real Prometheus: what Prometheus reads is what was scripted.
func TestE2EPrometheusReadsTheTruth(t *testing.T) {
	promtool, prometheus := tool(t, "E2E_PROMTOOL"), tool(t, "E2E_PROMETHEUS")
	dir := t.TempDir()
	binary := filepath.Join(dir, "inferbeat")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/inferbeat/inferbeat").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}

	// TTFT 100 to 199 ms in turn, 10 ms between tokens.
	script := &fakellm.Script{ITL: 10 * time.Millisecond}
	for i := range 100 {
		script.TTFT = append(script.TTFT, time.Duration(100+i)*time.Millisecond)
	}
	engine, err := fakellm.New(fakellm.Config{Model: "scripted", Engine: fakellm.VLLM, Script: script, KeepRequests: 4096})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(engine.Handler())
	defer server.Close()

	listen, config := freeAddress(t), filepath.Join(dir, "inferbeat.yaml")
	writeText(t, config, fmt.Sprintf(`
results: {path: %q}
workloads: {w: {dataset: random, input_tokens: 64, output_tokens: 101}}
probes:
  load: {kind: load, every: 1s, workload: w, num_prompts: 100, request_rate: 20, arrivals: constant, warmup: {requests: 1}, stale_after: 1h}
targets:
  - {name: scripted, environment: staging, backend: vllm, url: %q, probes: [load]}
`, filepath.Join(dir, "results.jsonl"), server.URL))
	daemon := startProcess(t, binary, "serve", "--config", config, "--listen", listen)
	eventually(t, "the daemon is ready", func() bool { code, _ := fetch("http://" + listen + "/-/ready"); return code == 200 })

	scrape := freeAddress(t)
	promConfig := filepath.Join(dir, "prometheus.yml")
	writeText(t, promConfig, fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_native_histograms: true, always_scrape_classic_histograms: true}
scrape_configs: [{job_name: inferbeat, static_configs: [{targets: [%q]}]}]
`, listen))
	startProcess(t, prometheus, "--config.file="+promConfig, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+scrape)
	eventually(t, "Prometheus is ready", func() bool { code, _ := fetch("http://" + scrape + "/-/ready"); return code == 200 })
	eventually(t, "a finished run in Prometheus", func() bool {
		v, ok := query(t, scrape, `inferbeat_runs_total{target="scripted",result="success"}`)
		return ok && v >= 1
	})
	eventually(t, "its result in Prometheus", func() bool {
		_, ok := query(t, scrape, `inferbeat_result_latency_seconds{signal="ttft",stat="p99"}`)
		return ok
	})

	// On loopback the client may see a token up to 15 ms after it was due on a
	// busy machine, and never before.
	for _, c := range []struct {
		expr              string
		want, early, late float64
	}{
		{`inferbeat_result_latency_seconds{signal="ttft",stat="p99"}`, 0.19801, 0.001, 0.015},
		{`inferbeat_result_latency_seconds{signal="ttft",stat="p50"}`, 0.1495, 0.001, 0.015},
		// A first or last token 50 ms late moves 100 gaps by half a millisecond each.
		{`inferbeat_result_latency_seconds{signal="tpot",stat="p99"}`, 0.010, 0.0005, 0.0005},
		{`inferbeat_result_latency_seconds{signal="tpot",stat="mean"}`, 0.010, 0.0002, 0.0002},
		{`inferbeat_result_output_tokens_mean`, 101, 0, 0},
		{`inferbeat_result_input_tokens_mean`, 64, 0, 0},
		{`inferbeat_result_success_ratio`, 1, 0, 0},
		{`inferbeat_result_samples{signal="ttft"}`, 100, 0, 0},
		{`inferbeat_result_offered_requests_per_second`, 20, 1e-9, 1e-9},
		{`inferbeat_requests_total{outcome="error"}`, 0, 0, 0},
		// The native histogram's median, to within the width of its buckets (9 %).
		{`histogram_quantile(0.5, inferbeat_time_to_first_token_seconds)`, 0.1495, 0.0135, 0.0285},
	} {
		got, ok := query(t, scrape, c.expr)
		if !ok || got < c.want-c.early || got > c.want+c.late {
			t.Errorf("%s = %v (present %v), want %v -%v/+%v", c.expr, got, ok, c.want, c.early, c.late)
		}
	}
	checkAgainstEngine(t, engine, filepath.Join(dir, "results.jsonl"))

	_, page := fetch("http://" + listen + "/metrics")
	lint := exec.Command(promtool, "check", "metrics")
	lint.Stdin = bytes.NewReader(page)
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}

	stopped := time.Now()
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("the daemon ended with %v after SIGTERM, want status 0", err)
	}
	if took := time.Since(stopped); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	eventually(t, "the series to end in Prometheus", func() bool {
		_, ok := query(t, scrape, `inferbeat_result_latency_seconds{signal="ttft",stat="p99"}`)
		return !ok
	})
}

// checkAgainstEngine lays the first run's result beside the instants at which
// the engine really wrote its tokens, which no schedule of ours can falsify.
func checkAgainstEngine(t *testing.T, engine *fakellm.Engine, results string) {
	t.Helper()
	file, err := os.Open(results)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		MeanTTFT float64 `json:"mean_ttft_ms"`
		MeanTPOT float64 `json:"mean_tpot_ms"`
		Ours     struct {
			RunID string `json:"run_id"`
		} `json:"inferbeat"`
	}
	if err := json.Unmarshal(line, &result); err != nil {
		t.Fatal(err)
	}
	var ttft, tpot time.Duration
	n := 0
	for _, r := range engine.Stats().Requests {
		if strings.HasPrefix(r.ID, result.Ours.RunID+"-") && !strings.Contains(strings.TrimPrefix(r.ID, result.Ours.RunID), "w") {
			first, last := r.Sent[0].At, r.Sent[len(r.Sent)-1].At
			ttft += first
			tpot += (last - first) / time.Duration(r.OutputTokens()-1)
			n++
		}
	}
	if n != 100 {
		t.Fatalf("the engine remembers %d requests of the first run, want 100", n)
	}
	for _, c := range []struct {
		name             string
		got, truth, late float64
	}{
		{"TTFT", result.MeanTTFT, ttft.Seconds() * 1000 / float64(n), 5},
		{"TPOT", result.MeanTPOT, tpot.Seconds() * 1000 / float64(n), 0.05},
	} {
		if diff := c.got - c.truth; !(math.Abs(diff) <= c.late) {
			t.Errorf("mean %s %.3f ms, by the engine's own instants %.3f ms: %.3f ms apart", c.name, c.got, c.truth, diff)
		}
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
