package jsonl

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func judgedRun() *probes.Run {
	r := run()
	p := func(x float64) probes.Optional[float64] { return probes.Known(x) }
	r.Validity = probes.Validity{State: probes.Valid}
	r.Comparison = &probes.Comparison{
		Pairs: 7, Used: 5, Answer: probes.GateRegressed,
		Reference: probes.Target{Name: "prod", Pool: "prod", Environment: probes.Production, Backend: "vllm", BaseURL: "http://u:p@a:1/?key=1"},
		Judgements: []probes.Judgement{
			{Metric: probes.MetricTPOTp50, Answer: probes.GateRegressed, Primary: true, N: 5, Reference: 0.02, Candidate: 0.025, Margin: 0.05,
				Effect: p(0.25), Low: p(0.2), High: p(0.3), Surely: p(0.1), P: p(0.008), Detectable: p(0.02)},
			{Metric: probes.MetricOutputThroughput, Answer: probes.GateUndecided, HigherBetter: true, N: 3, Reference: 1000, Candidate: 500, Margin: 0.05, Effect: p(1)},
			{Metric: probes.MetricSuccessRatio, Answer: probes.GatePass, HigherBetter: true, Points: true, N: 5, Reference: 1, Candidate: 0.998, Margin: 0.005, Effect: p(0.002)},
			{Metric: probes.MetricAcceptLength, Answer: probes.GateUndecided, HigherBetter: true, Margin: 0.05},
		},
		Grounds: probes.Grounds{
			Reasons: []probes.Reason{{Code: "worse", Text: "tpot"}}, Pairs: 5, Looks: []int{5, 7}, Alpha: 0.02, Unverified: []string{"dtype"},
			Controls: []probes.Control{{Variable: "quantization", Reference: "fp8"}, {Variable: "model", Reference: "a", Candidate: "b", Varied: true}},
		},
	}
	return r
}

func TestEncodeGate(t *testing.T) {
	text, err := EncodeGate(judgedRun(), 1, "v1")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	metrics := got["metrics"]
	for _, key := range []string{"metrics", "candidate", "start", "end"} {
		delete(got, key)
	}
	want := map[string]any{
		"version": "v1", "run_id": "0195-run", "exit_status": 1.0, "error": nil, "validity": map[string]any{"state": "valid"},
		"reference": map[string]any{"name": "prod", "pool": "prod", "environment": "production", "site": nil, "backend": "vllm", "model": nil,
			"base_url": "http://a:1/", "connection_policy": ""},
		"answer": "regressed", "reasons": []any{map[string]any{"code": "worse", "text": "tpot"}}, "pairs": 5.0, "looks": []any{5.0, 7.0},
		"confidence": 0.96, "interleaved": true,
		"controlled_variables": []any{
			map[string]any{"variable": "quantization", "reference": "fp8", "candidate": nil, "declared_to_vary": false},
			map[string]any{"variable": "model", "reference": "a", "candidate": "b", "declared_to_vary": true},
		},
		"unverified_variables": []any{"dtype"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gate (-want +got):\n%s", diff)
	}
	metric := func(answer, better, unit string, primary bool, n float64, numbers ...any) map[string]any {
		out := map[string]any{"answer": answer, "better": better, "effect_unit": unit, "primary": primary, "n": n}
		for i, key := range []string{"reference_median", "candidate_median", "change", "margin", "effect", "low", "high", "low_shared_by_primaries", "p", "detectable"} {
			out[key] = numbers[i]
		}
		return out
	}
	wantMetrics := map[string]any{
		"tpot_p50":          metric("regressed", "lower", "share", true, 5, 0.02, 0.025, 0.25, 0.05, 0.25, 0.2, 0.3, 0.1, 0.008, 0.02),
		"output_throughput": metric("undecided", "higher", "share", false, 3, 1000.0, 500.0, -0.5, 0.05, 1.0, nil, nil, nil, nil, nil),
		"success_ratio":     metric("pass", "higher", "points", false, 5, 1.0, 0.998, -0.002, 0.005, 0.002, nil, nil, nil, nil, nil),
		// One side has none, so there is no median to lay beside the other.
		"spec_accept_length": metric("undecided", "higher", "share", false, 0, nil, nil, nil, 0.05, nil, nil, nil, nil, nil, nil),
	}
	if diff := cmp.Diff(wantMetrics, metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestGateOfAnImpossibleComparison(t *testing.T) {
	r := run()
	r.Error, r.Comparison = "reach a: no such host", &probes.Comparison{Pairs: 10}
	text, err := EncodeGate(r, 3, "v1")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if _, answered := got["answer"]; answered || got["error"] != "reach a: no such host" || got["exit_status"] != 3.0 {
		t.Errorf("got %s, want an error, the status 3 and no answer", text)
	}
}

func TestLinesHoldTheGate(t *testing.T) {
	judged := encode(t, judgedRun(), Options{})["inferbeat"].(map[string]any)["comparison"].(map[string]any)
	if judged["judged"] != true || judged["gate"].(map[string]any)["answer"] != "regressed" {
		t.Errorf("comparison = %v, want it judged and the answer of its gate", judged)
	}
	r := judgedRun()
	r.Comparison.Answer = ""
	shown := encode(t, r, Options{})["inferbeat"].(map[string]any)["comparison"].(map[string]any)
	if _, there := shown["gate"]; there || shown["judged"] != false {
		t.Errorf("comparison = %v, want no gate where nobody judged", shown)
	}
}
