package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

type fixedSource struct {
	pairs    []probes.PairStatus
	compared []probes.ComparisonStatus
	status   Status
}

func (s fixedSource) Comparisons() []probes.ComparisonStatus { return s.compared }

func (s fixedSource) Pairs() []probes.PairStatus { return s.pairs }
func (s fixedSource) Status() Status             { return s.status }

func healthyPair() probes.PairStatus {
	return probes.PairStatus{
		Pair: probes.Pair{Target: "llama-a", Environment: probes.Staging, Model: "m", Probe: "canary"}, Kind: probes.Canary,
		NextStart: noon.Add(12 * time.Second), LastCompletion: noon.Add(-90 * time.Second),
		Last: &probes.Run{ID: "r1", Result: probes.RunSuccess, Verdict: probes.Verdict{State: probes.Pass}},
		Result: &probes.Result{
			Verdict: probes.Verdict{State: probes.Pass}, Validity: probes.Validity{State: probes.Valid},
			Summary: probes.Summary{
				SuccessRatio: probes.Known(0.9996), OutputThroughput: probes.Known(123.4),
				Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 40, P50: 0.1234, P99: 12.5}},
			},
		},
	}
}

func get(t *testing.T, h http.Handler, method, path string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRowSaysWhatIsKnownAndNothingElse(t *testing.T) {
	p := healthyPair()
	got := newRow(&p, noon)
	want := row{
		Probe: "canary", Kind: probes.Canary, State: "pass", Reasons: got.Reasons,
		TTFTp50: "123 ms", TTFTp99: "12.5 s", TPOTp50: dash, E2Ep99: dash, Output: "123 tok/s", Success: "99.9 %", Samples: "40",
		Tail: true, LastRun: "success, 1 min ago", NextRun: "in 12 s",
	}
	if len(got.Reasons) != 0 {
		t.Errorf("reasons = %q, want none", got.Reasons)
	}
	if gotText, wantText := asJSON(t, got), asJSON(t, want); gotText != wantText {
		t.Errorf("row:\n got %s\nwant %s", gotText, wantText)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A target that has just gone down must not look well because of what it did before.
func TestLastFailureOutweighsTheStandingResult(t *testing.T) {
	p := healthyPair()
	p.Last = &probes.Run{Result: probes.RunFailed, Error: "no request succeeded",
		Verdict: probes.Verdict{State: probes.Fail, Reasons: []probes.Reason{{Code: "x", Text: "0 of 1 requests succeeded"}}}}
	got := newRow(&p, noon)
	if got.State != "fail" || len(got.Reasons) != 2 || got.Reasons[0] != "no request succeeded" {
		t.Errorf("state %q reasons %q, want fail with the run's error first", got.State, got.Reasons)
	}
}

func TestPageEscapesAndCounts(t *testing.T) {
	p := healthyPair()
	p.Pair.Target = `<script>alert(1)</script>`
	h := Handler(Options{Source: fixedSource{pairs: []probes.PairStatus{p}, status: Status{Now: noon, Started: noon.Add(-time.Hour), Ready: true}}, Metrics: http.NotFoundHandler(), Refresh: time.Second})
	code, body := get(t, h, "GET", "/")
	if code != 200 || strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;alert(1)") {
		t.Errorf("status %d; the target's name is not escaped", code)
	}
	if !strings.Contains(body, "<b>1</b> pass") {
		t.Error("the head does not count one passing pair")
	}
}

func TestHealthAndReadiness(t *testing.T) {
	for _, ready := range []bool{true, false} {
		h := Handler(Options{Source: fixedSource{status: Status{Ready: ready}}, Metrics: http.NotFoundHandler()})
		if code, _ := get(t, h, "GET", "/-/healthy"); code != 200 {
			t.Errorf("healthy = %d, want 200", code)
		}
		want := map[bool]int{true: 200, false: 503}[ready]
		if code, _ := get(t, h, "GET", "/-/ready"); code != want {
			t.Errorf("ready = %d, want %d when ready is %v", code, want, ready)
		}
	}
}

// Only a GET on purpose runs a probe: no link checker's HEAD, no picture on a page of
// another site.
func TestProbeIsAskedForOnPurpose(t *testing.T) {
	ran := 0
	on := Handler(Options{Source: fixedSource{}, Metrics: http.NotFoundHandler(), Probe: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ })})
	for _, c := range []struct {
		name, method string
		header       []string
		want         int
	}{
		{"scrape", "GET", nil, 200},
		{"typed into a browser", "GET", []string{"Sec-Fetch-Site", "none"}, 200},
		{"another site", "GET", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"head", "HEAD", nil, 405},
		{"post", "POST", nil, 405},
	} {
		if code, _ := get(t, on, c.method, "/probe?target=t&probe=p", c.header...); code != c.want {
			t.Errorf("%s: status %d, want %d", c.name, code, c.want)
		}
	}
	if ran != 2 {
		t.Errorf("%d probes were run, want 2", ran)
	}
	off := Handler(Options{Source: fixedSource{}, Metrics: http.NotFoundHandler()})
	if code, body := get(t, off, "GET", "/probe?target=t&probe=p"); code != 403 || !strings.Contains(body, "web.enable_probe") {
		t.Errorf("while off: %d %q, want 403 naming the setting", code, body)
	}
}

func TestOrders(t *testing.T) {
	var paused []bool
	reload := errors.New("line 3: bad")
	on := Orders{Reload: func(context.Context) error { return reload }, Pause: func(b bool) { paused = append(paused, b) }}
	source := fixedSource{status: Status{Now: noon}}
	h := Handler(Options{Source: source, Metrics: http.NotFoundHandler(), Orders: on})
	for _, c := range []struct {
		name, method, path string
		header             []string
		want               int
	}{
		{"reload-fails", "POST", "/-/reload", nil, 500},
		{"pause", "POST", "/-/pause", nil, 200},
		{"resume", "POST", "/-/resume", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"get-is-no-order", "GET", "/-/pause", nil, 405},
		{"other-site", "POST", "/-/pause", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if code, _ := get(t, h, c.method, c.path, c.header...); code != c.want {
			t.Errorf("%s: status %d, want %d", c.name, code, c.want)
		}
	}
	if len(paused) != 2 || !paused[0] || paused[1] {
		t.Errorf("pause orders = %v, want [true false]", paused)
	}
	off := Handler(Options{Source: source, Metrics: http.NotFoundHandler()})
	if code, body := get(t, off, "POST", "/-/reload"); code != 403 || !strings.Contains(body, "web.enable_lifecycle") {
		t.Errorf("reload while off: %d %q, want 403 naming the setting", code, body)
	}
}

func TestPairsJSONKeepsUnknownAbsent(t *testing.T) {
	p := healthyPair()
	p.Result = nil
	p.Last = nil
	p.NextStart = time.Time{}
	h := Handler(Options{Source: fixedSource{pairs: []probes.PairStatus{p}, status: Status{}}, Metrics: http.NotFoundHandler()})
	_, body := get(t, h, "GET", "/api/v1/pairs")
	var got []map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"next_start", "last_run", "result"} {
		if v, present := got[0][key]; !present || v != nil {
			t.Errorf("%s = %v (present %v), want null", key, v, present)
		}
	}
}

func TestReasonsOfOneKindShareALine(t *testing.T) {
	got := texts([]probes.Reason{
		{Code: tooFewSamples, Text: "ttft p99: 3 samples, 100 are needed"},
		{Code: "limit_exceeded", Text: "ttft mean is 2s"},
		{Code: tooFewSamples, Text: "ttft mean: 3 samples, 20 are needed"},
	})
	want := "ttft p99: 3 samples, 100 are needed (and 1 more like it)|ttft mean is 2s"
	if strings.Join(got, "|") != want {
		t.Errorf("texts() = %q, want %q", got, want)
	}
}
