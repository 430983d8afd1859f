package jsonl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// sweptRun is a sweep of a usable step and an aborted one.
func sweptRun() *probes.Run {
	r := run()
	r.Spec.Kind, r.Spec.Arrivals.Rate, r.Spec.Arrivals.MaxConcurrency = probes.Sweep, 0, 0
	measured := r.Summary
	measured.AchievedRate = probes.Known(1.99)
	measured.Server.Queue = probes.Level{N: 3, Mean: 0.5}
	r.Steps = []probes.Step{
		{Rate: 2, Judged: 2, Over: map[string]int{"a": 1}, Effect: map[string]float64{"a": 1.5}, Passed: true, Stationary: true,
			Summary: measured, Validity: probes.Validity{State: probes.Valid}, Records: r.Records},
		{Rate: 4, Aborted: true, Validity: probes.Validity{State: probes.Invalid}},
	}
	r.Records = nil
	r.Capacity = probes.Capacity{Rate: probes.Known(3.5), Low: probes.Known(3.0), Bracketed: true, Objective: "a", Safe: probes.Known(2.8), End: probes.SweepConverged}
	return r
}

// A sweep is a line for each step, which is a run as any other, and one for the whole.
func TestSweepLines(t *testing.T) {
	r := sweptRun()
	data, err := Lines(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 2 steps and the sweep", len(lines))
	}
	type decoded struct {
		RequestRate *float64 `json:"request_rate"`
		Completed   int      `json:"completed"`
		Inferbeat   struct {
			RunID  string `json:"run_id"`
			Result string
			Sweep  map[string]any
		}
	}
	var got [3]decoded
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &got[i]); err != nil {
			t.Fatal(err)
		}
	}
	if s := got[0]; *s.RequestRate != 2 || s.Completed != 1 || s.Inferbeat.RunID != "0195-run-0" || s.Inferbeat.Result != "success" || s.Inferbeat.Sweep != nil {
		t.Errorf("first step: %+v", s)
	}
	if s := got[1]; *s.RequestRate != 4 || s.Inferbeat.RunID != "0195-run-1" || s.Inferbeat.Result != "invalid" {
		t.Errorf("second step: %+v", s)
	}
	if got[2].RequestRate != nil {
		t.Errorf("the sweep has the rate %v, want null", *got[2].RequestRate)
	}
	want := map[string]any{
		"capacity": 3.5, "low": 3.0, "high": nil, "bracketed": true, "objective": "a", "safe": 2.8, "bend": nil, "end": "converged",
		"steps": []any{
			map[string]any{"run_id": "0195-run-0", "rate": 2.0, "achieved_rate": 1.99, "judged": 2.0, "over": map[string]any{"a": 1.0}, "design_effect": map[string]any{"a": 1.5},
				"passed": true, "usable": true, "aborted": false, "stationary": true, "ttft_from_due_p50_seconds": 5.003, "ttft_from_due_p99_seconds": 5.006,
				"tpot_mean_seconds": 3.0, "output_tokens_per_second": 1.2, "server_queue_mean": 0.5},
			map[string]any{"run_id": "0195-run-1", "rate": 4.0, "achieved_rate": nil, "judged": 0.0, "over": nil, "design_effect": nil,
				"passed": false, "usable": false, "aborted": true, "stationary": false, "ttft_from_due_p50_seconds": nil, "ttft_from_due_p99_seconds": nil,
				"tpot_mean_seconds": nil, "output_tokens_per_second": nil, "server_queue_mean": nil},
		},
	}
	if diff := cmp.Diff(want, got[2].Inferbeat.Sweep); diff != "" {
		t.Errorf("sweep (-want +got):\n%s", diff)
	}
}
