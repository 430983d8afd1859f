package compare

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func TestControls(t *testing.T) {
	for _, tt := range []struct {
		name    string
		a, b    func(*probes.Run)
		vary    []string
		want    []probes.Control
		missing []string
	}{
		{"equal", nil, nil, nil, nil, nil},
		{"another attention backend", nil, func(r *probes.Run) { r.Facts.AttentionBackend = "triton" }, nil,
			[]probes.Control{{Variable: "attention_backend", Reference: "fa3", Candidate: "triton"}}, nil},
		{"which is what is compared", nil, func(r *probes.Run) { r.Facts.AttentionBackend = "triton" }, []string{"attention_backend"},
			[]probes.Control{{Variable: "attention_backend", Reference: "fa3", Candidate: "triton", Varied: true}}, nil},
		{"fp8 and bf16", nil, func(r *probes.Run) { r.Facts.Quantization = "none" }, nil,
			[]probes.Control{{Variable: "quantization", Reference: "fp8", Candidate: "none"}}, nil},
		{"one side does not tell its GPU", func(r *probes.Run) { r.Facts.Accelerator = "" }, nil, nil,
			[]probes.Control{{Variable: "accelerator", Candidate: "H100"}}, nil},
		{"but its label does", func(r *probes.Run) {
			r.Facts.Accelerator, r.Target.Labels = "", map[string]string{"gpu": "H200"}
		}, func(r *probes.Run) { r.Target.Labels = map[string]string{"gpu": "H100"} }, nil,
			[]probes.Control{{Variable: "accelerator", Reference: "H200", Candidate: "H100"}}, nil},
		{"neither tells", func(r *probes.Run) { r.Facts.DType = "" }, func(r *probes.Run) { r.Facts.DType = "" }, nil, nil, []string{"dtype"}},
		{"a label stands for what no server tells", func(r *probes.Run) {
			r.Facts.DType, r.Target.Labels = "", map[string]string{"dtype": "float16"}
		}, func(r *probes.Run) { r.Facts.DType, r.Target.Labels = "", map[string]string{"dtype": "bfloat16"} }, nil,
			[]probes.Control{{Variable: "dtype", Reference: "float16", Candidate: "bfloat16"}}, nil},
		{"a path and a name are no two checkpoints", func(r *probes.Run) { r.Facts.Model = "chat" }, func(r *probes.Run) { r.Facts.Weights, r.Facts.Model = "", "chat" }, nil, nil, nil},
		{"two names of what nobody describes", func(r *probes.Run) { r.Facts.Weights, r.Target.Model = "", "llama" }, func(r *probes.Run) { r.Facts.Weights, r.Target.Model = "", "qwen" }, nil,
			[]probes.Control{{Variable: "model", Reference: "llama", Candidate: "qwen"}}, nil},
		{"another trace", nil, func(r *probes.Run) { r.WorkloadVersion = "random-2" }, nil,
			[]probes.Control{{Variable: "dataset_version", Reference: "random-1", Candidate: "random-2"}}, nil},
		{"other lengths and a faster rate", nil, func(r *probes.Run) { r.Spec.Workload.OutputTokens, r.Spec.Arrivals.Rate = 64, 16 }, nil,
			[]probes.Control{
				{Variable: "dataset", Reference: "random, 512 in, 128 out, seed 0", Candidate: "random, 512 in, 64 out, seed 0"},
				{Variable: "rate", Reference: "8/s poisson", Candidate: "16/s poisson"},
			}, nil},
		{"bursts instead of Poisson", nil, func(r *probes.Run) { r.Spec.Arrivals.Process, r.Spec.Arrivals.CV = probes.Gamma, 2 }, nil,
			[]probes.Control{{Variable: "rate", Reference: "8/s poisson", Candidate: "8/s gamma cv 2"}}, nil},
		{"a shorter warm-up", nil, func(r *probes.Run) { r.Spec.Warmup = probes.Warmup{Requests: 2, Duration: time.Second} }, nil,
			[]probes.Control{{Variable: "warmup", Reference: "30s", Candidate: "2 requests, 1s"}}, nil},
		{"a warm cache and another temperature", nil, func(r *probes.Run) {
			r.Spec.Workload.Cache, r.Spec.Workload.Sampling.Temperature = probes.CacheWarm, 1
		}, nil, []probes.Control{
			{Variable: "cache", Reference: "cold", Candidate: "warm"},
			{Variable: "sampling", Reference: "temperature 0, exact length", Candidate: "temperature 1, exact length"},
		}, nil},
		{"another tool wrote less down", nil, func(r *probes.Run) {
			r.Source, r.Facts, r.WorkloadVersion, r.Target.Model = "bench_serving", probes.ServerFacts{}, "", "llama-70b"
			r.Spec.Warmup, r.Spec.Workload.Cache = probes.Warmup{}, ""
			r.Target.Connection = probes.Connection{}
		}, nil, []probes.Control{
			{Variable: "quantization", Reference: "fp8"}, {Variable: "accelerator", Reference: "H100"}, {Variable: "dtype", Reference: "bfloat16"},
			{Variable: "tensor_parallel", Reference: "4"}, {Variable: "attention_backend", Reference: "fa3"},
			{Variable: "dataset_version", Reference: "random-1"}, {Variable: "warmup", Reference: "30s"}, {Variable: "cache", Reference: "cold"},
			{Variable: "sampling", Reference: "temperature 0, exact length"},
			{Variable: "connection", Reference: "reuse"},
			{Variable: "tool", Reference: "inferbeat", Candidate: "bench_serving"},
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := side(1), side(1)
			if tt.a != nil {
				tt.a(a[0])
			}
			if tt.b != nil {
				tt.b(b[0])
			}
			got, missing := Controls(a, b, tt.vary)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("controls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.missing, missing); diff != "" {
				t.Errorf("told by neither (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunsOfASideThatDiffer(t *testing.T) {
	a, b := side(1, 1), side(1, 1)
	b[1].Facts.Quantization = "int4"
	got, _ := Controls(a, b, nil)
	want := []probes.Control{{Variable: "quantization", Reference: "fp8", Candidate: "fp8 and int4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("controls (-want +got):\n%s", diff)
	}
}

func TestDifferencesEndTheMatter(t *testing.T) {
	a, b := steady(1, 5), steady(0.5, 5)
	for _, r := range b {
		r.Facts.Quantization, r.Facts.AttentionBackend, r.Facts.Accelerator = "int4", "triton", ""
	}
	spec := loadSpec()
	spec.Gate.Vary = []string{"attention_backend"}
	answer, judgements, grounds := judgeOf(t, spec, a, b)
	if answer != probes.GateInvalid {
		t.Errorf("int4 against fp8: %s, want invalid", answer)
	}
	want := []probes.Reason{
		{Code: VariableDiffers, Text: "quantization differs: fp8 on side A and int4 on side B; make them equal, or declare it to be what is compared"},
		{Code: VariableUnknown, Text: "accelerator is H100 on side A and not known on side B"},
	}
	if diff := cmp.Diff(want, grounds.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if len(judgements) == 0 {
		t.Error("the numbers are not shown")
	}
	spec.Gate.Vary = append(spec.Gate.Vary, "quantization")
	if answer, _, grounds := judgeOf(t, spec, a, b); answer != probes.GatePass || codes(grounds) != VariableUnknown {
		t.Errorf("int4 against fp8 on purpose: %s with %q, want pass with a doubt about the GPU", answer, codes(grounds))
	}
}

func TestVariables(t *testing.T) {
	want := []string{
		"model", "revision", "quantization", "accelerator", "dtype", "kv_cache_dtype", "tensor_parallel", "pipeline_parallel",
		"data_parallel", "expert_parallel", "attention_backend", "speculative", "prefix_caching", "dataset", "dataset_version",
		"requests", "rate", "concurrency", "warmup", "cache", "sampling", "connection", "tool",
	}
	if diff := cmp.Diff(want, Variables()); diff != "" {
		t.Errorf("names are what users declare; -want +got:\n%s", diff)
	}
}
