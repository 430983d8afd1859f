package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

func TestRunPasses(t *testing.T) {
	url, engine := fakeServer(t, nil, nil)
	got := call(t.Context(), nil, short(url)...)
	if got.code != exitPass || got.stderr != "" {
		t.Errorf("code %d, stderr %q; want 0 and nothing", got.code, got.stderr)
	}
	contains(t, "the report", got.stdout, "Backend:                                 vllm      \n",
		"Successful requests:                     3         \n", "Total generated tokens:                  12        \n",
		"Warm-up requests (not counted above):    1         \n", "Verdict:                                 pass      \n")
	if strings.ContainsAny(got.stdout, "\r\x1b") {
		t.Errorf("the report holds control characters: %q", got.stdout)
	}
	if n := engine.Stats().Received; n != 4 {
		t.Errorf("the server saw %d requests, want 3 and 1 of the warm-up", n)
	}
}

// Each way for a run to end has its exit status, and those that are not fine say why.
func TestRunExitStatus(t *testing.T) {
	faulty := func(kind fakellm.FaultKind) func(*fakellm.Config) {
		return func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: kind}} }
	}
	for name, tt := range map[string]struct {
		change func(*fakellm.Config)
		args   []string
		code   int
		stderr string
	}{
		"refused": {faulty(fakellm.Unavailable), nil, exitFail,
			"inferbeat run: 3 of 3 requests to {url} failed (backend vllm)\n  3 http_5xx: status 503 "},
		"wrong key": {func(c *fakellm.Config) { c.APIKey = "sk-right" }, nil, exitFail,
			"    check the key: --api-key-file or OPENAI_API_KEY, api_key_file in a configuration\n"},
		"wrong model": {nil, []string{"--model", "other"}, exitFail,
			"    check the backend, the URL's prefix and the model's name\n"},
		"html": {faulty(fakellm.Garbage), nil, exitFail,
			"    check that an inference server is behind the URL, and that it speaks the backend's dialect\n"},
		"hangs": {faulty(fakellm.HangBeforeHeaders), []string{"--timeout-first-token", "20ms"}, exitFail,
			"  3 timeout_first_token: "},
		"one of three": {func(c *fakellm.Config) { c.Faults = []fakellm.Fault{{Kind: fakellm.Unavailable, Requests: []int{2}}} },
			[]string{"--max-concurrency", "1"}, exitPass, "inferbeat run: 1 of 3 requests to {url} failed (backend vllm)\n  1 http_5xx: "},
		"no flush": {nil, []string{"--flush-cache"}, exitUnknown,
			"inferbeat run: nothing was measured: flush cache of run: flush cache: start the server with VLLM_SERVER_DEV_MODE=1: status 404 Not Found: Not Found\n"},
		"no profiler": {nil, []string{"--profile"}, exitUnknown,
			"inferbeat run: nothing was measured: profile run: start profile: start the server with a profiler (vLLM: --profiler-config; SGLang: SGLANG_TORCH_PROFILER_DIR): status 404 Not Found: Not Found\n"},
		"profiled": {func(c *fakellm.Config) { c.Profiler = true }, []string{"--profile"}, exitPass, ""},
		"wrong flag": {nil, []string{"--seed", "x"}, exitUsage,
			"inferbeat run: invalid argument \"x\" for \"--seed\" flag: must be an integer; see 'inferbeat run --help'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := fakeServer(t, tt.change, nil)
			got := call(t.Context(), nil, short(url, tt.args...)...)
			if got.code != tt.code {
				t.Errorf("code %d, want %d", got.code, tt.code)
			}
			contains(t, "stderr", got.stderr, strings.ReplaceAll(tt.stderr, "{url}", url))
			if reported := strings.Contains(got.stdout, "Serving Benchmark Result"); reported == (name == "no flush" || name == "no profiler" || name == "wrong flag") {
				t.Errorf("report printed: %v", reported)
			}
		})
	}
}

// What flags say about a request is what the server gets.
func TestRequestOnTheWire(t *testing.T) {
	var header http.Header
	var body string
	url, _ := fakeServer(t, nil, func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/completions" {
				text, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				header, body = r.Header.Clone(), string(text)
				r.Body = io.NopCloser(strings.NewReader(body))
			}
			engine.ServeHTTP(w, r)
		})
	})
	got := call(t.Context(), []string{"OPENAI_API_KEY=sk-one"}, short(url, "--num-prompts", "1", "--warmup-requests", "0", "--temperature", "0.5",
		"--header", "X-Tenant=a=b", "--extra-request-body", `{"priority": 12345678901234567890, "nested": {"top_k": 3}}`)...)
	if got.code != exitPass {
		t.Errorf("code %d, stderr %q", got.code, got.stderr)
	}
	contains(t, "the body", body, `"priority":12345678901234567890`, `"nested":{"top_k":3}`, `"temperature":0.5`, `"max_tokens":4`, `"model":"m"`, `"stream":true`)
	for name, want := range map[string]string{"Authorization": "Bearer sk-one", "X-Tenant": "a=b", "User-Agent": "inferbeat/" + buildVersion()} {
		if header.Get(name) != want {
			t.Errorf("header %s is %q, want %q", name, header.Get(name), want)
		}
	}
}

// A redirect is not followed, and where it leads is told without its query.
func TestRunRedirected(t *testing.T) {
	url, _ := fakeServer(t, nil, func(http.Handler) http.Handler {
		return http.RedirectHandler("http://127.0.0.1:1/login?token=SECRET", http.StatusFound)
	})
	got := call(t.Context(), nil, short(url)...)
	want := "  3 bad_response: status 302 Found: redirect to http://127.0.0.1:1/login is not followed\n" +
		"    use the URL that it redirects to, or follow_redirects in a configuration\n"
	if got.code != exitFail || !strings.HasSuffix(got.stderr, want) || strings.Contains(got.stdout, "SECRET") {
		t.Errorf("code %d, stderr:\n%swant 1 and:\n%s", got.code, got.stderr, want)
	}
}

func TestRunOnNobody(t *testing.T) {
	url := deadURL(t)
	got := call(t.Context(), nil, short(url)...)
	want := fmt.Sprintf("inferbeat run: 3 of 3 requests to %s failed (backend vllm)\n"+
		"  3 connect: open connection: dial tcp %s: connect: connection refused\n"+
		"    check host and port, and that the server is up\n", url, strings.TrimPrefix(url, "http://"))
	if got.code != exitFail || got.stderr != want {
		t.Errorf("code %d, stderr:\n%swant 1 and:\n%s", got.code, got.stderr, want)
	}
}

// configuration is two targets with one probe, and a second probe of the first.
func configuration(t *testing.T, url, limits string) string {
	return writeFile(t, "inferbeat.yaml", fmt.Sprintf(`
workloads:
  w: {dataset: random, input_tokens: 32, output_tokens: 4}
probes:
  p: {kind: load, workload: w, num_prompts: 20, max_concurrency: 20, limits: %s}
  q: {kind: load, workload: w, num_prompts: 2, max_concurrency: 1}
targets:
  - {name: a, environment: staging, backend: vllm, url: %q, probes: [p, q]}
  - {name: b, environment: staging, backend: vllm, url: %q, probes: [p]}
`, limits, url, url))
}

func TestRunFromConfig(t *testing.T) {
	for _, tt := range []struct {
		name, limits string
		args         []string
		code         int
		received     int64
		stderr       string
	}{
		{"kept", "{ttft: {mean: {critical: 10s}}}", []string{"--target", "b"}, exitPass, 21, ""},
		{"broken", "{ttft: {mean: {critical: 1ms}}}", []string{"--target", "b"}, exitFail, 21, ""},
		{"too few for a p99", "{ttft: {p99: {critical: 10s}}}", []string{"--target", "a", "--probe", "p"}, exitUnknown, 21, ""},
		{"by probe", "{}", []string{"--probe", "q"}, exitPass, 3, ""},
		{"several", "{}", nil, exitUsage, 0, "inferbeat run: --config: it has several pairs of target and probe; choose one of: " +
			"--target a --probe p, --target a --probe q, --target b --probe p\n"},
		{"none", "{}", []string{"--target", "b", "--probe", "q"}, exitUsage, 0, "inferbeat run: --config: it has no such pair of target and probe; choose one of: " +
			"--target a --probe p, --target a --probe q, --target b --probe p\n"},
		{"changed", "{}", []string{"--target", "b", "--num-prompts", "3", "--seed", "2"}, exitUsage, 0, "inferbeat run: 2 problems\n" +
			"--num-prompts: cannot be combined with --config; change the configuration\n--seed: cannot be combined with --config; change the configuration\n"},
		{"wrong", "{ttft: {p9: 1s}}", nil, exitUsage, 0, `inferbeat.yaml:5: probes.p.limits.ttft.p9: unknown key, did you mean "p90"?` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				url, engine := n.server(nil, nil)
				got := n.call(append([]string{"run", "--config", configuration(t, url, tt.limits)}, tt.args...)...)
				if got.code != tt.code || !strings.HasSuffix(got.stderr, tt.stderr) || tt.stderr == "" && got.stderr != "" {
					t.Errorf("code %d, stderr:\n%swant %d and:\n%s\n%s", got.code, got.stderr, tt.code, tt.stderr, got.stdout)
				}
				if saw := engine.Stats().Received; saw != tt.received {
					t.Errorf("the server saw %d requests, want %d with the warm-up", saw, tt.received)
				}
			})
		})
	}
}

// A run that is cut reports what it has, and says that it is no answer.
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int32
	url, _ := fakeServer(t, func(c *fakellm.Config) {
		c.Faults = []fakellm.Fault{{Kind: fakellm.HangBeforeHeaders, Requests: []int{3}}}
	}, func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/completions" && asked.Add(1) == 3 {
				cancel()
			}
			engine.ServeHTTP(w, r)
		})
	})
	out := filepath.Join(t.TempDir(), "out.jsonl")
	got := call(ctx, nil, short(url, "--max-concurrency", "1", "--warmup-requests", "0", "--output-file", out)...)
	if got.code != exitUnknown || got.stderr != "inferbeat run: ended before it was complete\n" {
		t.Errorf("code %d, stderr %q; want 3 and why", got.code, got.stderr)
	}
	contains(t, "the report", got.stdout, "Successful requests:                     2         \n", "Cancelled requests:                      1         \n",
		"Result:                                  aborted (cut short)\n")
	var line struct {
		Completed int
		Inferbeat struct {
			Result   string
			Complete bool
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, out)), &line); err != nil || line.Completed != 2 || line.Inferbeat.Result != "aborted" || line.Inferbeat.Complete {
		t.Errorf("the result line says %+v, %v; want 2 completed of an aborted run", line, err)
	}
}

// A terminal that goes away ends a run, unless it was started to outlive it.
func TestRunAndHangup(t *testing.T) {
	for _, tt := range []struct {
		nohup bool
		code  int
		done  string
	}{
		{false, exitUnknown, "Cancelled requests:                      1         \n"},
		{true, exitPass, "Successful requests:                     1         \n"},
	} {
		hangup := make(chan os.Signal, 1)
		answer := make(chan struct{})
		url, _ := fakeServer(t, nil, func(engine http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/completions" {
					hangup <- syscall.SIGHUP
					if !tt.nohup {
						<-answer
					}
				}
				engine.ServeHTTP(w, r)
			})
		})
		var stdout, stderr strings.Builder
		code := Main(t.Context(), Process{
			Args:   short(url, "--num-prompts", "1", "--warmup-requests", "0"),
			Stdout: &stdout, Stderr: &stderr, Hangup: hangup, Nohup: tt.nohup,
		})
		close(answer)
		if code != tt.code || !strings.Contains(stdout.String(), tt.done) {
			t.Errorf("nohup %v: code %d, stderr %q, want %d; want %q in:\n%s", tt.nohup, code, stderr.String(), tt.code, tt.done, stdout.String())
		}
	}
}

// One cut before it began has nothing to report.
func TestRunCancelledBefore(t *testing.T) {
	url, engine := fakeServer(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := call(ctx, nil, short(url)...)
	if got.code != exitUnknown || got.stdout != "" || got.stderr != "inferbeat run: ended before anything was measured\n" {
		t.Errorf("code %d, stdout %q, stderr %q; want 3, nothing, and why", got.code, got.stdout, got.stderr)
	}
	if n := engine.Stats().Received; n != 0 {
		t.Errorf("the server saw %d requests, want none", n)
	}
}

// Results are appended, one strict JSON line for each run.
func TestOutputFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		url, _ := n.server(nil, nil)
		path := filepath.Join(t.TempDir(), "out.jsonl")
		if err := os.WriteFile(path, []byte("{\"earlier\":1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--tag", "night"}, {"--output-details", "--request-rate", "1000"}} {
			if got := n.call(short(url, append(args, "--output-file", path)...)...); got.code != exitPass {
				t.Fatalf("code %d, stderr %q", got.code, got.stderr)
			}
		}
		text := readFile(t, path)
		lines := strings.SplitAfter(text, "\n")
		if len(lines) != 4 || lines[0] != "{\"earlier\":1}\n" || lines[3] != "" {
			t.Fatalf("got %d lines, want the earlier one and two more:\n%s", len(lines)-1, text)
		}
		type line struct {
			Tag            *string
			Backend        string
			RequestRate    any `json:"request_rate"`
			Completed      int
			OutputTokens   int       `json:"total_output_tokens"`
			OutputLens     []int     `json:"output_lens"`
			TTFTs          []float64 `json:"ttfts"`
			GeneratedTexts []string  `json:"generated_texts"`
		}
		var first, second line
		for i, l := range []*line{&first, &second} {
			if err := json.Unmarshal([]byte(lines[1+i]), l); err != nil {
				t.Fatalf("line %d is not strict JSON: %v", 2+i, err)
			}
		}
		night := "night"
		if diff := cmp.Diff(line{Tag: &night, Backend: "vllm", RequestRate: "inf", Completed: 3, OutputTokens: 12}, first); diff != "" {
			t.Errorf("line without details (-want +got):\n%s", diff)
		}
		if len(second.TTFTs) != 3 || len(second.GeneratedTexts) != 3 || strings.Count(strings.TrimSpace(second.GeneratedTexts[0]), " ") != 3 {
			t.Errorf("details hold TTFTs %v and texts %q, want three of each, texts of four words", second.TTFTs, second.GeneratedTexts)
		}
		second.TTFTs, second.GeneratedTexts = nil, nil
		if diff := cmp.Diff(line{Backend: "vllm", RequestRate: 1000.0, Completed: 3, OutputTokens: 12, OutputLens: []int{4, 4, 4}}, second); diff != "" {
			t.Errorf("line with details (-want +got):\n%s", diff)
		}
	})
}

// A file that cannot be written is found out before anything is asked.
func TestOutputFileMistakes(t *testing.T) {
	url, engine := fakeServer(t, nil, nil)
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                    "inferbeat run: --output-file: " + dir + " cannot be opened for appending: is a directory\n",
		dir + "/none/out.json": "inferbeat run: --output-file: " + dir + "/none/out.json cannot be made: its folder does not exist\n",
	} {
		if got := call(t.Context(), nil, short(url, "--output-file", path)...); got.code != exitUsage || got.stderr != want || got.stdout != "" {
			t.Errorf("code %d, stdout %q, stderr %q; want 2 and %q", got.code, got.stdout, got.stderr, want)
		}
	}
	if n := engine.Stats().Received; n != 0 {
		t.Errorf("the server saw %d requests, want none", n)
	}
}

// A server that repeats the credentials it was sent does not get them printed.
func TestSecretsStayInside(t *testing.T) {
	url, _ := fakeServer(t, nil, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal("refused " + r.Header.Get("Authorization") + " and " + r.Header.Get("X-Tenant"))
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error": %s}`, text)
		})
	})
	file := writeFile(t, "key", "SECRET-in-a-file\n")
	out := filepath.Join(t.TempDir(), "out.jsonl")
	env := []string{"OPENAI_API_KEY=SECRET-in-the-environment"}
	for _, args := range [][]string{
		nil,
		{"--api-key-file", file},
		{"--header", "Authorization=Bearer SECRET-in-a-header"},
	} {
		args = append(args, "--header", "X-Tenant=SECRET-tenant", "--output-file", out, "--output-details")
		got := call(t.Context(), env, short(url, args...)...)
		all := got.stdout + got.stderr + readFile(t, out)
		if got.code != exitFail || !strings.Contains(got.stderr, "refused") || !strings.Contains(got.stderr, "<secret>") {
			t.Errorf("code %d, stderr %q; want 1 and what the server said, secrets hidden", got.code, got.stderr)
		}
		if at := strings.Index(all, "SECRET"); at >= 0 {
			t.Errorf("%q: a secret is shown: %s", args, all[max(0, at-60):at+30])
		}
	}
	for _, args := range [][]string{{"--header", "SECRET"}, {"--header", "A=Bearer", "SECRET"}, {"--api-key-file", "SECRET"}, {"--base-url", "http://u:SECRET@h"}} {
		if got := call(t.Context(), env, append([]string{"run"}, args...)...); got.code != exitUsage || strings.Contains(got.stdout+got.stderr, "SECRET") {
			t.Errorf("%q: code %d, said %q", args, got.code, got.stdout+got.stderr)
		}
	}
}

// The exit status follows the verdict, and no verdict is better than a wrong one.
func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		result  probes.RunResult
		verdict probes.VerdictState
		want    int
	}{
		{probes.RunSuccess, probes.Pass, exitPass},
		{probes.RunSuccess, probes.Warn, exitPass},
		{probes.RunSuccess, probes.Fail, exitFail},
		{probes.RunSuccess, probes.Unknown, exitUnknown},
		{probes.RunFailed, probes.Fail, exitFail},
		{probes.RunFailed, probes.Unknown, exitUnknown},
		{probes.RunInvalid, probes.Pass, exitUnknown},
		{probes.RunInvalid, probes.Fail, exitUnknown},
		{probes.RunAborted, probes.Pass, exitUnknown},
		{probes.RunAborted, probes.Fail, exitUnknown},
	} {
		r := &probes.Run{Result: tt.result, Verdict: probes.Verdict{State: tt.verdict}}
		if got := exitCode(r); got != tt.want {
			t.Errorf("%s and %s: exit status %d, want %d", tt.result, tt.verdict, got, tt.want)
		}
	}
}

// Many ways to fail are told by the first few.
func TestTroublesAreFew(t *testing.T) {
	run := &probes.Run{Target: probes.Target{BaseURL: "http://h", Backend: "vllm"}}
	for i := range 7 {
		for range 1 + i%2 {
			run.Records = append(run.Records, probes.Record{Outcome: probes.StreamError, Error: fmt.Sprint("kind ", i)})
		}
	}
	run.Records = append(run.Records, probes.Record{Outcome: probes.OK}, probes.Record{Outcome: probes.Cancelled, Error: "cut"})
	want := `inferbeat run: 10 of 12 requests to http://h failed (backend vllm)
  1 stream_error: kind 0
  2 stream_error: kind 1
  1 stream_error: kind 2
  2 stream_error: kind 3
  1 stream_error: kind 4
  and 2 other ways
`
	if diff := cmp.Diff(want, troubles("run", run)); diff != "" {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
}
