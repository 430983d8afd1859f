//go:build e2e

package cli

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// The shipped scrape configuration, in a real Prometheus: each scrape is a run, the
// labels are inferbeat's own, and a dead target is a scrape without success.
func TestE2EPrometheusSaysWhen(t *testing.T) {
	promtool, prometheus := tool(t, "E2E_PROMTOOL"), tool(t, "E2E_PROMETHEUS")
	dir := t.TempDir()
	binary := filepath.Join(dir, "inferbeat")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/inferbeat/inferbeat").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	engine, err := fakellm.New(fakellm.Config{Model: "scripted", Engine: fakellm.VLLM, MeanOutputTokens: 1_000_000, Script: &fakellm.Script{TTFT: []time.Duration{100 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(engine.Handler())
	defer server.Close()
	listen, config := freeAddress(t), filepath.Join(dir, "inferbeat.yaml")
	writeText(t, config, fmt.Sprintf(`
web: {enable_probe: true}
workloads: {w: {input_tokens: 64, output_tokens: 8}}
probes: {canary: {kind: canary, workload: w}}
targets:
  - {name: llama-prod, environment: production, backend: vllm, url: "http://127.0.0.1:1", model: gone, probes: [canary]}
  - {name: llama-next, environment: staging, backend: vllm, url: %q, probes: [canary]}
`, server.URL))
	startProcess(t, binary, "serve", "--config", config, "--listen", listen)
	eventually(t, "the daemon is ready", func() bool { code, _ := fetch("http://" + listen + "/-/ready"); return code == 200 })

	shipped, err := os.ReadFile("../../deploy/prometheus/probe.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("127.0.0.1:9799", listen, "scrape_interval: 1m", "scrape_interval: 2s", "scrape_timeout: 30s", "scrape_timeout: 2s").Replace(string(shipped))
	if strings.Count(text, listen) != 1 || strings.Count(text, ": 2s") != 2 {
		t.Fatalf("the shipped configuration has no address, interval and timeout to replace:\n%s", text)
	}
	scrape, promConfig := freeAddress(t), filepath.Join(dir, "prometheus.yml")
	writeText(t, promConfig, text)
	startProcess(t, prometheus, "--config.file="+promConfig, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+scrape)
	eventually(t, "Prometheus is ready", func() bool { code, _ := fetch("http://" + scrape + "/-/ready"); return code == 200 })
	for _, c := range []struct {
		expr string
		want float64
	}{
		{`up{job="inferbeat-probe",instance="` + listen + `",target="llama-next",probe="canary"}`, 1},
		{`inferbeat_probe_success{job="inferbeat-probe",target="llama-next",pool="llama-next",target_env="staging",model="scripted",probe="canary"}`, 1},
		{`inferbeat_probe_output_tokens{target="llama-next"}`, 8},
		{`inferbeat_probe_success{target="llama-prod",pool="llama-prod",target_env="production",model="gone",probe="canary"}`, 0},
		{`up{target="llama-prod"}`, 1},
		{`count({exported_target=~".+"} or {exported_probe=~".+"}) or vector(0)`, 0},
	} {
		var got float64
		eventually(t, c.expr, func() (ok bool) { got, ok = query(t, scrape, c.expr); return ok })
		if got != c.want {
			t.Errorf("%s = %v, want %v", c.expr, got, c.want)
		}
	}
	if ttft, ok := query(t, scrape, `inferbeat_probe_latency_seconds{target="llama-next",signal="ttft",stat="p50"}`); !ok || ttft < 0.1 || ttft > 0.2 {
		t.Errorf("ttft %v (present %v), want the 0.1 s of the script", ttft, ok)
	}
	eventually(t, "runs of three scrapes", func() bool {
		_, page := fetch("http://" + listen + "/metrics")
		return strings.Contains(string(page), `inferbeat_runs_total{model="scripted",pool="llama-next",probe="canary",result="success",target="llama-next",target_env="staging"} 3`)
	})
	_, page := fetch("http://" + listen + "/probe?target=llama-next&probe=canary")
	lint := exec.Command(promtool, "check", "metrics")
	lint.Stdin = strings.NewReader(string(page))
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
