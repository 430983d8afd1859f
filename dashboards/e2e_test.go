//go:build e2e

package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// Every query of every board has an answer on the demo, in a Prometheus with
// native histograms and in one without; and none is answered with a warning.
func TestE2EEveryQueryHasAnAnswer(t *testing.T) {
	prometheus := os.Getenv("E2E_PROMETHEUS")
	if prometheus == "" {
		t.Fatal("set E2E_PROMETHEUS to the program's path, as .ci/run does")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "inferbeat")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/inferbeat/inferbeat").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	demo, extra := freeAddress(t), freeAddress(t)
	start(t, binary, "demo", "--listen", demo)
	start(t, binary, "serve", "--config", extras(t, dir), "--listen", extra)
	// As fast as the demo's own, so that alerts for the boards to show are there soon.
	rules := filepath.Join(dir, "rules")
	if out, err := exec.Command(binary, "alerts", "--output-dir", rules, "--faster", "30").CombinedOutput(); err != nil {
		t.Fatalf("write the rules: %v\n%s", err, out)
	}
	servers := map[string]string{}
	for form, scrape := range map[string]string{
		"native":  "scrape_native_histograms: true",
		"classic": "scrape_native_histograms: false",
	} {
		address, config := freeAddress(t), filepath.Join(dir, form+".yml")
		write(t, config, fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s, %s}
rule_files: [%s/*.yml]
scrape_configs: [{job_name: inferbeat, static_configs: [{targets: [%q, %q]}]}]
`, scrape, rules, demo, extra))
		start(t, prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, form), "--web.listen-address="+address)
		servers[form] = "http://" + address
	}
	for form, server := range servers {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			waitForAnswers(t, form, server, questions(t))
		})
	}
}

// extras is a second daemon's configuration, of what the demo has no use for: a
// tokenizer of one's own, a throughput without a server, an engine that gets a new version
// while it is looked at, one that spends half of what its objective allows, and one
// that is discovered.
func extras(t *testing.T, dir string) string {
	t.Helper()
	offline, err := filepath.Abs("../probes/imports/testdata/bench_offline_throughput.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	renewed := engine(t, fakellm.Config{Version: "0.11.0"}, fakellm.Config{Version: "0.11.1"})
	wavering := engine(t, fakellm.Config{Faults: []fakellm.Fault{{Kind: fakellm.Truncate, Probability: 0.25, AfterTokens: 10}}})
	name := filepath.Join(dir, "extras.yaml")
	write(t, filepath.Join(dir, "found.json"), `[{"targets": ["127.0.0.1:9"]}]`)
	write(t, name, fmt.Sprintf(`
workloads: {w: {dataset: random, input_tokens: 64, output_tokens: 101, tokenizer: "tiktoken:cl100k_base"}}
probes:
  load: {kind: load, every: 10s, workload: w, num_prompts: 10, max_concurrency: 2, offline_result: %q}
  canary: {kind: canary, every: 2s, workload: w, num_prompts: 4, max_concurrency: 2, slos: [{name: half, objective: 50%%}]}
targets:
- {name: renewed, environment: staging, backend: vllm, url: %q, probes: [load]}
- {name: wavering, environment: staging, backend: vllm, url: %q, probes: [canary]}
- {name: found, environment: staging, backend: vllm, probes: [], file_sd_configs: [{files: [found.json]}]}
`, offline, renewed, wavering))
	return name
}

// versionLasts is how many answers an engine gives before the next version takes its place:
// those of two runs of the load.
const versionLasts = 20

// engine is a simulated vLLM, one version after the other.
func engine(t *testing.T, versions ...fakellm.Config) (url string) {
	t.Helper()
	var handlers []http.Handler
	for _, version := range versions {
		version.Model, version.Engine = "extra", fakellm.VLLM
		engine, err := fakellm.New(version)
		if err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, engine.Handler())
	}
	var answers atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := answers.Load()
		if r.URL.Path == "/v1/completions" {
			now = answers.Add(1) - 1
		}
		handlers[min(int(now/versionLasts), len(handlers)-1)].ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// question is one query of a board.
type question struct{ board, panel, expr string }

func (q question) String() string { return q.board + "/" + q.panel }

func questions(t *testing.T) []question {
	var out []question
	for _, m := range models(t) {
		for _, p := range m.data() {
			for _, target := range p.Targets {
				out = append(out, question{m.UID, p.Title + " " + target.RefID, target.Expr})
			}
		}
		for _, a := range m.Annotations.List {
			out = append(out, question{m.UID, "annotation " + a.Name, a.Target.Expr})
		}
		for _, v := range m.Templating.List {
			if match := labelValues.FindStringSubmatch(v.expr()); match != nil {
				out = append(out, question{m.UID, "variable " + v.Name, "count by (" + match[2] + ") (" + match[1] + ")"})
			}
		}
	}
	return out
}

// longest is several times what the slowest answer takes on two cores: the demo's
// comparisons, whose interval is minutes.
const longest = 5 * time.Minute

// waitForAnswers asks until everything is answered.
func waitForAnswers(t *testing.T, form, server string, pending []question) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		before := len(pending)
		pending = slices.DeleteFunc(pending, func(q question) bool { return ask(t, server, q) })
		passed := time.Since(began).Round(time.Second)
		if len(pending) == 0 {
			t.Logf("%s: all queries have an answer after %s", form, passed)
			return
		}
		if len(pending) != before && len(pending) < 10 {
			t.Logf("%s: no answer yet after %s: %s", form, passed, pending)
		}
		if passed > longest {
			for _, q := range pending {
				t.Errorf("%s: no answer to %s: %s", form, q, q.expr)
			}
			return
		}
	}
}

var variableMatcher = regexp.MustCompile(`"\$\w+(\|?)"`)

// ask reports whether the query has an answer, with every variable at All. What changed
// is looked for after seconds instead of minutes.
func ask(t *testing.T, server string, q question) bool {
	t.Helper()
	expr := expand.Replace(variableMatcher.ReplaceAllString(q.expr, `".*$1"`))
	expr = strings.ReplaceAll(expr, "offset 5m", "offset 15s")
	resp, err := http.Get(server + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return false // not up yet
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false
	}
	var answer struct {
		Status          string
		Warnings, Infos []string
		Data            struct{ Result []any }
	}
	if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%s: status %d: %s\n%s", q, resp.StatusCode, body, expr)
	}
	if len(answer.Warnings)+len(answer.Infos) > 0 {
		t.Errorf("%s: %q %q\n%s", q, answer.Warnings, answer.Infos, expr)
	}
	return answer.Status == "success" && len(answer.Data.Result) > 0
}

// start runs a program that ends with the test.
func start(t *testing.T, name string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
		if t.Failed() {
			lines := strings.Split(output.String(), "\n")
			t.Logf("end of the output of %s:\n%s", filepath.Base(name), strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
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

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
