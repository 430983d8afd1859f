package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func changedPair() probes.PairStatus {
	p := healthyPair()
	p.Changes = []probes.Change{
		{
			Metric: probes.MetricTPOTp50, State: probes.ChangeWorse, Effect: probes.Known(0.214), Low: probes.Known(0.1803), High: probes.Known(0.2497),
			Baseline: probes.Known(0.0201), BaselineRuns: 45, BaselineAt: noon.AddDate(0, -3, 0), Onset: noon.AddDate(0, 0, -2), SmallestStep: probes.Known(0.0312),
			Renamed: []probes.FactChange{{Name: "version", Before: "0.9.1", After: "0.9.2"}},
			Reasons: []probes.Reason{{Code: probes.ReasonRegression, Text: "it is worse"}},
		},
		{Metric: probes.MetricCapacity, State: probes.ChangeLearning},
		{Metric: probes.MetricSuccessRatio, State: probes.ChangeNone, Effect: probes.Known(-0.0004), Baseline: probes.Known(0.9996), BaselineRuns: 20},
	}
	return p
}

func TestChangeRows(t *testing.T) {
	want := []changeRow{
		{Metric: "tpot_p50", State: "fail", Word: "worse", Effect: "+21.4 %", Interval: "+18.0 … +25.0 %", Baseline: "20.1 ms", Nights: 45, Since: "2029-12-31", Smallest: "3.1 %", Server: "version 0.9.1 -> 0.9.2"},
		{Metric: "capacity", State: "waiting", Word: "learning", Effect: dash, Interval: dash, Baseline: dash, Since: dash, Smallest: dash},
		{Metric: "success_ratio", State: "pass", Word: "none", Effect: "-0.0 %", Interval: dash, Baseline: "99.9 %", Nights: 20, Since: dash, Smallest: dash},
	}
	if d := cmp.Diff(want, newChangeRows(changedPair().Changes)); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	for _, state := range probes.ChangeStates {
		if changeClasses[state] == "" {
			t.Errorf("state %s has no colour", state)
		}
	}
}

func TestChangesOnPageAndAPI(t *testing.T) {
	h := Handler(Options{Source: fixedSource{pairs: []probes.PairStatus{changedPair()}}, Metrics: http.NotFoundHandler()})
	_, page := get(t, h, "GET", "/")
	for _, want := range []string{"1 of 3 metrics changed over nights", "&#43;21.4 %", "version 0.9.1 -&gt; 0.9.2"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	_, body := get(t, h, "GET", "/api/v1/pairs")
	var pairs []struct {
		Changes []map[string]any
	}
	if err := json.Unmarshal([]byte(body), &pairs); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"metric": "capacity", "state": "learning", "effect": nil, "low": nil, "high": nil, "baseline": nil, "baseline_nights": 0.0,
		"baseline_at": nil, "onset": nil, "smallest_step": nil,
	}
	if d := cmp.Diff(want, pairs[0].Changes[1]); d != "" {
		t.Errorf("a learning series (-want +got):\n%s", d)
	}
	worse := pairs[0].Changes[0]
	if worse["effect"] != 0.214 || worse["onset"] != "2029-12-31T12:00:00Z" {
		t.Errorf("a regression is %v", worse)
	}
	if d := cmp.Diff(any([]any{map[string]any{"name": "version", "before": "0.9.1", "after": "0.9.2"}}), worse["server_changed"]); d != "" {
		t.Errorf("its cause (-want +got):\n%s", d)
	}
}
