package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// fixedRuns answers with one run, and notes what it was asked for.
type fixedRuns struct {
	run   *probes.Run
	asked *string
}

func (f fixedRuns) Run(_ context.Context, id string) (*probes.Run, error) {
	if !strings.HasPrefix(f.run.ID, id) {
		return nil, ErrNoRun
	}
	return f.run, nil
}

func (f fixedRuns) History(_ context.Context, target, probe string, until time.Time, limit int) ([]*probes.Run, error) {
	b, _ := json.Marshal([]any{target, probe, until.UTC(), limit})
	*f.asked = string(b)
	return []*probes.Run{f.run}, nil
}

func storedRun() *probes.Run {
	return &probes.Run{
		ID: "run-1", Start: noon, End: noon.Add(90 * time.Second), Result: probes.RunSuccess, Fingerprint: "f00d",
		Target: probes.Target{Name: "llama/a", Pool: "llama", Environment: probes.Staging, Model: "m<1>", Connection: probes.Connection{APIKey: "hunter2"}},
		Spec:   probes.Spec{Probe: "nightly", Kind: probes.Load}, Facts: probes.ServerFacts{Engine: "vllm", Version: "0.11"},
		Validity: probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "client_late", Text: "requests left late"}}},
		Verdict:  probes.Verdict{State: probes.Warn}, Traps: []probes.Reason{{Code: "single_run", Text: "this is one run"}},
		Summary: probes.Summary{
			Requests: 40, Completed: 39, Failed: 1, SuccessRatio: probes.Known(0.975), OutputThroughput: probes.Known(321.4),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 39, Mean: 0.2, P50: 0.1234, P90: 0.3, P95: 0.4, P99: 1.5, Max: 2, Stddev: 0.01}},
		},
		Records: []probes.Record{{Text: "hunter2"}},
	}
}

func TestRunPages(t *testing.T) {
	var asked string
	h := Handler(Options{Source: fixedSource{}, Metrics: http.NotFoundHandler(), Runs: fixedRuns{storedRun(), &asked}})
	for _, c := range []struct {
		path  string
		code  int
		asked string
		holds []string
	}{
		{"/ui/runs/run-1", 200, "", []string{
			"run run-1", `<td class="n">123 ms</td>`, "requests left late", "this is one run", "39 of 40 requests completed, 1 failed", "97.5 %",
			"engine vllm", "m&lt;1&gt;", "fingerprint f00d", "times of 1 requests are kept", `href="/ui/targets/llama%2Fa/probes/nightly"`, "success, suspect",
		}},
		{"/ui/runs/run", 200, "", []string{"run run-1"}},
		{"/ui/runs/other", 404, "", []string{"no such run"}},
		{"/ui/targets/llama%2Fa/probes/nightly?at=1893585600000", 200, `["llama/a","nightly","2030-01-02T12:00:00Z",50]`, []string{`<a href="/ui/runs/run-1">2030-01-02 12:00:00 UTC</a>`, "1500 ms", "321"}},
		{"/ui/targets/a/probes/b?limit=3&at=2030-01-02T12:00:00Z", 200, `["a","b","2030-01-02T12:00:00Z",3]`, nil},
		{"/ui/targets/a/probes/b?at=noon", 400, "", []string{"at must be milliseconds since 1970"}},
		{"/api/v1/runs?target=a&probe=b&limit=1000", 200, `["a","b","0001-01-01T00:00:00Z",1000]`, []string{`"id": "run-1"`, `"target": "llama/a"`}},
		{"/api/v1/runs?limit=1001", 400, "", []string{"limit must be a number from 1 to 1000"}},
		{"/api/v1/runs/run-1", 200, "", []string{`"success_ratio": 0.975`, `"p50": 0.1234`, `"engine": "vllm"`, `"fingerprint": "f00d"`, `"code": "single_run"`}},
		{"/api/v1/runs/none", 404, "", []string{"no such run"}},
	} {
		asked = ""
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		body := w.Body.String()
		if w.Code != c.code || asked != c.asked {
			t.Errorf("%s: got %d, asked for %s; want %d, %s", c.path, w.Code, asked, c.code, c.asked)
		}
		for _, want := range c.holds {
			if !strings.Contains(body, want) {
				t.Errorf("%s: lacks %q:\n%s", c.path, want, body)
			}
		}
		if strings.Contains(body, "hunter2") {
			t.Errorf("%s: holds a secret or an answer", c.path)
		}
		if w.Code == 200 && !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: got headers %v, want those of every page", c.path, w.Header())
		}
	}
}

func TestRunPagesWithoutStore(t *testing.T) {
	h := Handler(Options{Source: fixedSource{}, Metrics: http.NotFoundHandler()})
	for _, path := range []string{"/ui/runs/x", "/ui/targets/a/probes/b", "/api/v1/runs", "/api/v1/runs/x"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 404 || !strings.Contains(w.Body.String(), "set storage.path in the configuration") {
			t.Errorf("%s: got %d, %s; want 404 and what to do", path, w.Code, w.Body)
		}
	}
}
