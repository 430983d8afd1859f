package cli

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/inferbeat/inferbeat/probes"
)

func resolveKind(kind probes.Kind, args ...string) (probes.Spec, error) {
	flags := &flagSet{FlagSet: newFlags()}
	o := defineKindFlags(flags, kind)
	if err := flags.parse(string(kind), args); err != nil {
		return probes.Spec{}, err
	}
	_, spec, err := o.resolve(flags.FlagSet, nil)
	return spec, err
}

func TestKindDefaults(t *testing.T) {
	burst := probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	closed := func(n int) probes.Arrivals {
		return probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), MaxConcurrency: n}
	}
	for _, test := range []struct {
		kind probes.Kind
		args string
		want probes.Spec
	}{
		{probes.Peak, "", probes.Spec{Requests: 64, StartConcurrency: 1, Arrivals: closed(256), Warmup: probes.Warmup{Requests: 1}}},
		{probes.Peak, "--start-concurrency 8 --max-concurrency 8 --num-prompts 5", probes.Spec{Requests: 5, StartConcurrency: 8, Arrivals: closed(8), Warmup: probes.Warmup{Requests: 1}}},
		{probes.Batch, "--batch-size 16,32", probes.Spec{Requests: 16, Arrivals: burst, Warmup: probes.Warmup{Requests: 16}}},
		{probes.Batch, "--batch-size 16 32", probes.Spec{Requests: 16, Arrivals: burst, Warmup: probes.Warmup{Requests: 16}}},
		{probes.Batch, "--batch-size 4 --warmup-requests 0", probes.Spec{Requests: 4, Arrivals: burst}},
	} {
		got, err := resolveKind(test.kind, strings.Fields(test.args)...)
		if err != nil {
			t.Errorf("%s %s: %v", test.kind, test.args, err)
			continue
		}
		got.Workload = probes.Workload{}
		test.want.Kind, test.want.Probe = test.kind, string(test.kind)
		same(t, string(test.kind)+" "+test.args, got, test.want)
	}
}

func TestKindMistakes(t *testing.T) {
	for _, test := range []struct {
		kind       probes.Kind
		args, want string
	}{
		{probes.Peak, "--request-rate 4", "unknown flag --request-rate"},
		{probes.Peak, "--max-concurrency 0", "--max-concurrency: 0 is less than one worker"},
		{probes.Peak, "--start-concurrency 9 --max-concurrency 8", "--start-concurrency: 9 is not from 1 to --max-concurrency, which is 8"},
		{probes.Peak, "--num-prompts 0", "--num-prompts: 0 needs a --duration"},
		{probes.Peak, "--offline-result /none", "--offline-result: /none: no such file or directory"},
		{probes.Batch, "--batch-size 4,0", "--batch-size: 0 is less than one request"},
		{probes.Batch, "--disable-stream", "--disable-stream: leaves no first token to end the prefill of a batch"},
		{probes.Batch, "--random-range-ratio 0.5", "--dataset-name: a batch needs prompts of one length"},
		{probes.Load, "--repeats 0", "--repeats: 0 is less than one run"},
	} {
		if _, err := resolveKind(test.kind, strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %q", test.kind, test.args, err, test.want)
		}
	}
}

// numbers reads the lines of a result file.
func numbers(t *testing.T, file string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(readFile(t, file)) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestKindsOnAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		url, _ := n.server(nil, nil)
		out := filepath.Join(t.TempDir(), "out.jsonl")
		common := []string{"--backend", "vllm", "--base-url", url, "--random-input-len", "32", "--random-output-len", "4", "--output-file", out}
		with := func(args ...string) []string { return append(args, common...) }

		r := n.call(with("batch", "--batch-size", "2,3")...)
		contains(t, "batch", r.stdout, "Batch size:                              2", "Batch size:                              3", "Prefill (last first token) (ms):")
		r = n.call(with("peak", "--max-concurrency", "2", "--num-prompts", "8")...)
		contains(t, "peak", r.stdout, "concurrency 1 ", "concurrency 2 ")
		r = n.call(with("run", "--num-prompts", "3", "--repeats", "2", "--random-range-ratio", "1", "--offline-result", out)...)
		contains(t, "repeats", r.stdout, "Every number is the median of (runs):    2 of 2", "repeat 2", "Offline result of:                       peak", "two runs have no median")

		lines := numbers(t, out)
		if len(lines) != 4 {
			t.Fatalf("%d lines, want one for each batch, for the peak and for the run: %s", len(lines), r.stderr)
		}
		ours := func(i int, key string) any { return lines[i]["inferbeat"].(map[string]any)[key] }
		if size := ours(1, "batch").(map[string]any)["size"]; size != 3.0 {
			t.Errorf("size of the second batch = %v, want 3", size)
		}
		if parts := ours(2, "parts").([]any); len(parts) != 2 || parts[1].(map[string]any)["role"] != "concurrency 2" || parts[1].(map[string]any)["max_concurrency"] != 2.0 {
			t.Errorf("parts of the peak = %v, want two whole lines", parts)
		}
		repeats := ours(3, "repeats").(map[string]any)
		if repeats["used"] != 2.0 || repeats["spread"].(map[string]any)["output_throughput"].(map[string]any)["median"] != lines[3]["output_throughput"] {
			t.Errorf("repeats = %v, want two whose median is the line's output throughput %v", repeats, lines[3]["output_throughput"])
		}
		if gap := ours(3, "offline").(map[string]any)["gap_ratio"].(float64); math.Abs(gap-(1-lines[3]["output_throughput"].(float64)/lines[2]["output_throughput"].(float64))) > 1e-12 {
			t.Errorf("gap = %v, want that of the run below the peak", gap)
		}
	})
}

// What --format vllm writes is read back as a result of vllm bench serve.
func TestVLLMFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		url, _ := n.server(nil, nil)
		out := filepath.Join(t.TempDir(), "out.json")
		r := n.call(short(url, "--max-concurrency", "2", "--output-file", out, "--output-details", "--format", "vllm", "--tag", "x")...)
		if r.code != exitPass {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		line := numbers(t, out)[0]
		for key, want := range map[string]any{"label": "x", "backend": "vllm", "model_id": "m", "num_prompts": 3.0, "request_rate": "inf",
			"burstiness": 1.0, "max_concurrency": 2.0, "completed": 3.0, "failed": 0.0, "total_output_tokens": 12.0, "request_goodput": nil} {
			if line[key] != want {
				t.Errorf("%s = %v, want %v", key, line[key], want)
			}
		}
		r = n.call("import", "--output-file", out+"l", out)
		contains(t, "import", r.stdout+r.stderr, "1 results imported (1 of vllm_bench_serve)")
		back := numbers(t, out+"l")[0]
		for _, key := range []string{"output_throughput", "median_ttft_ms", "p99_tpot_ms", "duration", "max_concurrent_requests"} {
			if back[key] != line[key] {
				t.Errorf("%s read back = %v, want %v", key, back[key], line[key])
			}
		}
		if _, err := resolveKind(probes.Load, "--output-file", "x", "--format", "csv"); err == nil || !strings.Contains(err.Error(), `--format: "csv" is none of sglang, vllm`) {
			t.Errorf("--format csv: %v, want a refusal", err)
		}
	})
}
