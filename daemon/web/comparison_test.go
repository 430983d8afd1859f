package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func comparedPair() probes.ComparisonStatus {
	run := &probes.Run{
		ID: "r7", End: noon.Add(-2 * time.Hour), Result: probes.RunSuccess, Validity: probes.Validity{State: probes.Valid},
		Comparison: &probes.Comparison{
			Pairs: 5, Used: 4, Answer: probes.GateRegressed,
			Metrics: []probes.Contrast{
				{Name: "ttft_p50_seconds", N: 4, Reference: 0.2, Candidate: 0.25, Difference: 0.05, Ratio: probes.Known(1.25)},
				{Name: "success_ratio", N: 4, Reference: 1, Candidate: 1, Ratio: probes.Known(1.0)},
			},
			Judgements: []probes.Judgement{
				{Metric: probes.MetricTTFTp50, Answer: probes.GateRegressed, Primary: true, Margin: 0.1, Effect: probes.Known(0.25), Low: probes.Known(0.2), High: probes.Known(0.3)},
			},
		},
	}
	return probes.ComparisonStatus{
		Name: "gate", Reference: "prod", Candidate: "<stage>", StaleAfter: 24 * time.Hour, NextStart: noon.Add(time.Hour),
		LastCompletion: noon.Add(-2 * time.Hour), Last: run, Result: run, Skips: map[probes.SkipReason]int{probes.SkipTargetBusy: 2},
	}
}

func TestComparisonRow(t *testing.T) {
	c := comparedPair()
	want := comparisonRow{
		Name: "gate", Reference: "prod", Candidate: "<stage>", State: "fail", Reasons: []string{}, Pairs: "4 of 5",
		LastRun: "success, 2 h ago", NextRun: "in 1 h",
		Metrics: []metricCell{{"ttft_p50", "1.250", "fail"}, {"tpot_p50", dash, ""}, {"e2e_p50", dash, ""}, {"output_throughput", dash, ""}, {"success_ratio", "1.000", ""}},
	}
	if d := cmp.Diff(want, newComparisonRow(&c, Status{Now: noon})); d != "" {
		t.Errorf("row (-want +got):\n%s", d)
	}

	never := probes.ComparisonStatus{Name: "gate", Reference: "a", Candidate: "b"}
	got := newComparisonRow(&never, Status{Now: noon, Paused: true})
	if got.State != "waiting" || got.LastRun != "never" || got.NextRun != "paused" || got.Pairs != dash || got.Metrics[0] != (metricCell{Name: "ttft_p50", Ratio: dash}) {
		t.Errorf("row before the first comparison: %+v", got)
	}

	// The answer was given with the old result; the last run says why there is none.
	c.Result, c.Active = nil, true
	c.Last = &probes.Run{Result: probes.RunFailed, Error: "no route to prod"}
	got = newComparisonRow(&c, Status{Now: noon})
	if d := cmp.Diff([]string{"unknown", "no route to prod", "running", dash}, []string{got.State, strings.Join(got.Reasons, "|"), got.NextRun, got.Metrics[0].Ratio}); d != "" {
		t.Errorf("row after a failure (-want +got):\n%s", d)
	}
}

func TestComparisonsOnPageAndAPI(t *testing.T) {
	h := Handler(Options{
		Source:  fixedSource{compared: []probes.ComparisonStatus{comparedPair()}, status: Status{Now: noon, Started: noon}},
		Metrics: http.NotFoundHandler(),
	})
	_, page := get(t, h, "GET", "/")
	for _, want := range []string{"<h2>Comparisons</h2>", "&lt;stage&gt; / prod", `<td class="n fail">1.250</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "No target has a probe") {
		t.Error("the page asks for probes although there is a comparison")
	}
	code, body := get(t, h, "GET", "/api/v1/comparisons")
	var got []map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 {
		t.Fatalf("the API answered %d, %v", code, err)
	}
	result := got[0]["result"].(map[string]any)
	ttft := result["metrics"].([]any)[0].(map[string]any)
	judged := result["judgements"].([]any)[0].(map[string]any)
	skips := got[0]["skips"].(map[string]any)
	if ttft["ratio"] != 1.25 || judged["answer"] != "regressed" || judged["low"] != 0.2 || skips["target_busy"] != 2.0 || result["pairs_used"] != 4.0 || got[0]["stale_after_seconds"] != 86400.0 {
		t.Errorf("the API answered %s", body)
	}
	_, none := get(t, Handler(Options{Source: fixedSource{}, Metrics: http.NotFoundHandler()}), "GET", "/api/v1/comparisons")
	if none != "[]\n" {
		t.Errorf("without comparisons the API answered %q, want an empty list", none)
	}
}
