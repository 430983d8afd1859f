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
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// emptyWhenHealthy are the queries that nothing in the demo answers while it is
// as it should be, and why. Each of them is a panel's only if it says so in its
// text for "no value".
var emptyWhenHealthy = map[string]string{
	"*/annotation Engine versions":                "no engine changes its version while it is looked at",
	"inferbeat-capacity/Knee and safe capacity C": "the demo's sweeps have no nights behind them",
}

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
	rules, err := filepath.Abs("../alerts/rules")
	if err != nil {
		t.Fatal(err)
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
		waitForAnswers(t, form, server, questions(t))
	}
}

// extras is a second daemon's configuration, of what the demo has no use for: a
// tokenizer of one's own, and a throughput without a server.
func extras(t *testing.T, dir string) string {
	t.Helper()
	engine, err := fakellm.New(fakellm.Config{Model: "extra", Engine: fakellm.VLLM})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(engine.Handler())
	t.Cleanup(server.Close)
	offline, err := filepath.Abs("../probes/imports/testdata/bench_offline_throughput.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "extras.yaml")
	write(t, name, fmt.Sprintf(`
workloads: {w: {dataset: random, input_tokens: 64, output_tokens: 101, tokenizer: "tiktoken:cl100k_base"}}
probes: {load: {kind: load, every: 10s, workload: w, num_prompts: 10, max_concurrency: 2, offline_result: %q}}
targets: [{name: extra, environment: staging, backend: vllm, url: %q, probes: [load]}]
`, offline, server.URL))
	return name
}

// question is one query of a board.
type question struct{ board, panel, expr string }

func (q question) String() string { return q.board + "/" + q.panel }

// mayBeEmpty says why nothing need answer.
func (q question) mayBeEmpty() (why string, ok bool) {
	for _, key := range []string{q.String(), "*/" + q.panel} {
		if why, ok := emptyWhenHealthy[key]; ok {
			return why, true
		}
	}
	return "", false
}

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

// waitForAnswers asks until everything that should be answered is. The slowest
// is the demo's sweep.
func waitForAnswers(t *testing.T, form, server string, pending []question) {
	t.Helper()
	for deadline := time.Now().Add(6 * time.Minute); ; time.Sleep(time.Second) {
		pending = slices.DeleteFunc(pending, func(q question) bool {
			_, excused := q.mayBeEmpty()
			return ask(t, server, q) || excused
		})
		if len(pending) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, q := range pending {
				t.Errorf("%s: no answer to %s: %s", form, q, q.expr)
			}
			return
		}
	}
}

var variableMatcher = regexp.MustCompile(`"\$\w+(\|?)"`)

// ask reports whether the query has an answer, with every variable at All.
func ask(t *testing.T, server string, q question) bool {
	t.Helper()
	expr := expand.Replace(variableMatcher.ReplaceAllString(q.expr, `".*$1"`))
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

// An excuse that nobody needs is deleted, so that the list stays short.
func TestExcusesAreForQueries(t *testing.T) {
	used := map[string]bool{}
	for _, q := range questions(t) {
		used[q.String()], used["*/"+q.panel] = true, true
	}
	for key := range emptyWhenHealthy {
		if !used[key] {
			t.Errorf("%s is excused, but no board asks it", key)
		}
	}
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
