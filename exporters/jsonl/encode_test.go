package jsonl

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

const ms = time.Millisecond

var start = time.Date(2026, 3, 1, 2, 0, 0, 250e6, time.UTC)

// run is a finished run of two requests; every value in it is distinct.
func run() *probes.Run {
	d := func(n int, base float64) probes.Distribution {
		return probes.Distribution{N: n, Mean: base, Stddev: base + 0.001, Min: base + 0.002, P50: base + 0.003,
			P90: base + 0.004, P95: base + 0.005, P99: base + 0.006, Max: base + 0.007}
	}
	return &probes.Run{
		ID: "0195-run", Start: start, End: start.Add(2500 * ms), Result: probes.RunSuccess, Complete: true, Fingerprint: "f00d",
		Target: probes.Target{
			Name: "a", Pool: "llama", Environment: probes.Staging, Site: "lab", Backend: "sglang-oai", Model: "llama-3",
			BaseURL: "http://10.0.0.5:8000/v", Labels: map[string]string{"gpu": "h100"},
			Connection: probes.Connection{Policy: probes.ConnectionReuse},
		},
		Spec: probes.Spec{
			Probe: "nightly", Kind: probes.Load,
			Workload: probes.Workload{Name: "chat", Dataset: "random-ids", InputTokens: 64, OutputTokens: 32, RangeRatio: 0.5,
				Tokenizer: "server", Cache: probes.CacheCold, Seed: 42, Sampling: probes.Sampling{IgnoreEOS: true, Stream: true}},
			Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 4, MaxConcurrency: 8},
		},
		Records: []probes.Record{
			{ // the records come in the order in which they ended
				ID: "req-1", Index: 1, Outcome: probes.HTTP5xx, Error: "500: overloaded", Due: 250 * ms, Sent: 251 * ms, RequestedInput: 40,
				Connection: probes.ConnectionTrace{Reused: true},
			},
			{
				ID: "req-0", Index: 0, Outcome: probes.OK, Due: 0, Sent: 1 * ms, Text: "<a> & b",
				FirstToken: probes.Known(101 * ms), LastToken: probes.Known(141 * ms),
				Chunks:       []probes.Chunk{{At: 101 * ms, Tokens: 1}, {At: 141 * ms, Tokens: 2}},
				PromptTokens: probes.Known(60), CachedTokens: probes.Known(16), OutputTokens: probes.Known(3), OutputSource: probes.TokensServer,
			},
		},
		Summary: probes.Summary{
			Duration: 2500 * ms, Requests: 2, Sent: 2, Completed: 1, Failed: 1, Warmup: 3,
			Outcomes: map[probes.Outcome]int{probes.OK: 1, probes.HTTP5xx: 1}, Flags: map[string]int{"coalesced": 1},
			Latency:     map[probes.Signal]probes.Distribution{probes.E2E: d(1, 1), probes.TTFT: d(2, 2), probes.TPOT: d(3, 3), probes.ITL: d(4, 4), probes.TTFTFromDue: d(5, 5)},
			InputTokens: probes.Known(60), InputSource: probes.TokensServer, CachedTokens: probes.Known(16), OutputTokens: probes.Known(3), OutputSource: probes.TokensServer,
			RequestThroughput: probes.Known(0.4), InputThroughput: probes.Known(24.0), OutputThroughput: probes.Known(1.2), TotalThroughput: probes.Known(25.2),
			PeakOutputThroughput: probes.Known(3.0), Concurrency: probes.Known(0.056), PeakConcurrency: 2,
			OfferedRate: probes.Known(4.0), AchievedRate: probes.Known(3.9), SuccessRatio: probes.Known(0.5),
			Goodput: probes.Known(0.4), SLOAttainment: map[string]float64{"fast": 0.5}, AcceptLength: probes.Known(1.75),
			Steady: probes.SteadyState{Start: probes.Known(1500 * ms), End: probes.Known(9000 * ms), Completed: 60, RequestThroughput: probes.Known(8.0)},
			Input:  probes.InputLengths{N: 1, MeanRequested: 64, MeanServer: 60, MaxDeviation: 0.0625, Off: 1},
		},
		Validity: probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "few_samples", Text: "n is 1"}}},
		Verdict:  probes.Verdict{State: probes.Warn, Reasons: []probes.Reason{{Code: "limit", Text: "p99 is high"}}},
		Traps:    []probes.Reason{{Code: "mean_without_p99", Text: "look at the tail"}},
	}
}

func encode(t *testing.T, r *probes.Run, o Options) map[string]any {
	t.Helper()
	data, err := Encode(r, o)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(data, '\n') {
		t.Errorf("line holds a line end: %q", data)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("not strict JSON: %v in %s", err, data)
	}
	return m
}

// keys lists the keys of an object in their order.
func keys(t *testing.T, object []byte) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var out []string
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, key.(string))
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestKeysAreThoseOfBenchServing(t *testing.T) {
	theirs, err := os.ReadFile("testdata/bench_serving.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := keys(t, bytes.Replace(theirs, []byte("Infinity"), []byte(`"inf"`), 1))
	ours, err := Encode(run(), Options{Details: true})
	if err != nil {
		t.Fatal(err)
	}
	got := keys(t, ours)
	// Newer versions of the tool have max_itl_ms after p99_itl_ms.
	want = slices.Insert(want, slices.Index(want, "p99_itl_ms")+1, "max_itl_ms")
	if d := cmp.Diff(append(want, "inferbeat"), got); d != "" {
		t.Errorf("keys (-bench_serving +ours):\n%s", d)
	}
}

func TestValues(t *testing.T) {
	m := encode(t, run(), Options{Tag: "night", Version: "1.2.3"})
	delete(m, "inferbeat")
	want := map[string]any{
		"tag": "night", "backend": "sglang-oai", "dataset_name": "random-ids", "request_rate": 4.0, "max_concurrency": 8.0,
		"sharegpt_output_len": nil, "random_input_len": 64.0, "random_output_len": 32.0, "random_range_ratio": 0.5, "server_info": nil,
		"duration": 2.5, "completed": 1.0, "total_input_tokens": 60.0, "total_input_text_tokens": 60.0, "total_input_vision_tokens": 0.0,
		"total_output_tokens": 3.0, "total_output_tokens_retokenized": nil,
		"request_throughput": 0.4, "input_throughput": 24.0, "output_throughput": 1.2, "total_throughput": 25.2,
		"concurrency": 0.056, "accept_length": 1.75, "max_output_tokens_per_s": 3.0, "max_concurrent_requests": 2.0,
	}
	for name, base := range map[string]float64{"e2e_latency": 1, "ttft": 2, "tpot": 3, "itl": 4} {
		if name == "itl" {
			want["max_itl_ms"] = (base + 0.007) * 1e3
		}
		for stat, plus := range map[string]float64{"mean": 0, "std": 0.001, "median": 0.003, "p90": 0.004, "p95": 0.005, "p99": 0.006} {
			want[stat+"_"+name+"_ms"] = (base + plus) * 1e3
		}
	}
	if d := cmp.Diff(want, m); d != "" {
		t.Errorf("line (-want +got):\n%s", d)
	}
}

func TestOurs(t *testing.T) {
	got := encode(t, run(), Options{Version: "1.2.3"})["inferbeat"]
	dist := func(n, base float64) map[string]any {
		return map[string]any{"n": n, "mean": base, "stddev": base + 0.001, "min": base + 0.002, "p50": base + 0.003,
			"p90": base + 0.004, "p95": base + 0.005, "p99": base + 0.006, "max": base + 0.007}
	}
	want := map[string]any{
		"version": "1.2.3", "run_id": "0195-run", "probe": "nightly", "kind": "load",
		"target": map[string]any{"name": "a", "pool": "llama", "environment": "staging", "site": "lab", "backend": "sglang-oai", "model": "llama-3",
			"base_url": "http://10.0.0.5:8000/v", "labels": map[string]any{"gpu": "h100"}, "connection_policy": "reuse"},
		"start": "2026-03-01T02:00:00.25Z", "end": "2026-03-01T02:00:02.75Z", "result": "success", "complete": true, "error": nil, "fingerprint": "f00d",
		"validity": map[string]any{"state": "suspect", "reasons": []any{map[string]any{"code": "few_samples", "text": "n is 1"}}},
		"verdict":  map[string]any{"state": "warn", "reasons": []any{map[string]any{"code": "limit", "text": "p99 is high"}}},
		"traps":    []any{map[string]any{"code": "mean_without_p99", "text": "look at the tail"}},
		"workload": map[string]any{"name": "chat", "dataset": "random-ids", "tokenizer": "server", "cache": "cold", "seed": 42.0, "ignore_eos": true, "stream": true},
		"arrivals": map[string]any{"process": "poisson", "rate": 4.0, "cv": nil, "max_concurrency": 8.0},
		"requests": 2.0, "sent": 2.0, "failed": 1.0, "cancelled": 0.0, "dropped": 0.0, "warmup": 3.0,
		"outcomes": map[string]any{"ok": 1.0, "http_5xx": 1.0}, "flags": map[string]any{"coalesced": 1.0},
		"success_ratio": 0.5, "offered_rate": 4.0, "achieved_rate": 3.9, "goodput": 0.4, "slo_attainment": map[string]any{"fast": 0.5},
		"latency_seconds":    map[string]any{"e2e": dist(1, 1), "ttft": dist(2, 2), "tpot": dist(3, 3), "itl": dist(4, 4), "ttft_from_due": dist(5, 5)},
		"steady_state":       map[string]any{"start": 1.5, "end": 9.0, "completed": 60.0, "request_throughput": 8.0, "output_throughput": nil},
		"input_token_source": "server", "output_token_source": "server", "unknown_outputs": 0.0, "retokenized_ratio": nil, "cached_tokens": 16.0,
		"input_lengths":        map[string]any{"n": 1.0, "mean_requested": 64.0, "mean_server": 60.0, "max_deviation": 0.0625, "off": 1.0},
		"connections":          map[string]any{"new": 1.0, "reused": 1.0, "reopened": 0.0},
		"accept_length_source": nil, "prefix_cache_hit_ratio": 16.0 / 60, "client": nil, "client_ttft_excess_seconds": nil, "server": nil,
		"source": nil, "origin": nil, "batch": nil, "answer": nil, "repeats": nil, "offline": nil,
	}
	if d := cmp.Diff(any(want), got); d != "" {
		t.Errorf("inferbeat (-want +got):\n%s", d)
	}
}

func TestServer(t *testing.T) {
	r := run()
	r.Facts = probes.ServerFacts{
		Engine: "vllm", Version: "0.18.0", Quantization: "fp8", TensorParallel: probes.Known(4), PrefixCaching: probes.Known(false), Incarnation: "917",
	}
	s := &r.Summary
	s.AcceptLength, s.AcceptSource = probes.Known(2.75), probes.AcceptCounters
	s.Latency[probes.TTFT] = probes.Distribution{N: 2, Mean: 0.5}
	s.Server = probes.ServerSummary{
		Span: 3 * time.Second, AcceptLength: probes.Known(2.75), AcceptSource: probes.AcceptCounters, AcceptanceRatio: probes.Known(0.5), PerPosition: []float64{0.75, 0.25},
		PrefixCache: probes.PrefixCache{HitRatio: probes.Known(0.375), Tiers: map[string]float64{"device": 0.25, "host": 0.125}},
		Queue:       probes.Level{N: 2, Mean: 1.5, Max: 3}, KVUsage: probes.Level{N: 2, Mean: 0.25, Max: 0.5},
		Preemptions: probes.Known(1), Requests: probes.Known(2), TTFT: probes.ServerMean{N: 2, Mean: 0.375},
	}
	s.Timings = probes.ServerTimings{Prefill: probes.ServerMean{N: 2, Mean: 0.25}, DecodeRate: probes.Known(64.0)}
	ours := encode(t, r, Options{})["inferbeat"].(map[string]any)
	want := map[string]any{
		"facts":        map[string]any{"engine": "vllm", "version": "0.18.0", "quantization": "fp8", "tensor_parallel": 4.0, "prefix_caching": false},
		"span_seconds": 3.0, "restarted": false, "requests": 2.0, "accept_length": 2.75, "accept_length_source": "counters", "acceptance_ratio": 0.5,
		"acceptance_per_position": []any{0.75, 0.25}, "prefix_cache_hit_ratio": 0.375, "prefix_cache_tiers": map[string]any{"device": 0.25, "host": 0.125},
		"queue_requests": map[string]any{"n": 2.0, "mean": 1.5, "max": 3.0}, "running_requests": nil,
		"kv_cache_usage_ratio": map[string]any{"n": 2.0, "mean": 0.25, "max": 0.5}, "preemptions": 1.0,
		"ttft_seconds": map[string]any{"n": 2.0, "mean": 0.375}, "tpot_seconds": nil,
		"timings": map[string]any{"prefill_seconds": map[string]any{"n": 2.0, "mean": 0.25}, "decode_seconds": nil, "decode_tokens_per_second": 64.0},
	}
	if d := cmp.Diff(any(want), ours["server"]); d != "" {
		t.Errorf("server (-want +got):\n%s", d)
	}
	for key, want := range map[string]any{"accept_length_source": "counters", "client_ttft_excess_seconds": 0.125, "prefix_cache_hit_ratio": 16.0 / 60} {
		if ours[key] != want {
			t.Errorf("%s = %v, want %v", key, ours[key], want)
		}
	}
	// A server that told no facts and only that it restarted.
	r.Facts, s.Server, s.Timings = probes.ServerFacts{}, probes.ServerSummary{Restarted: true}, probes.ServerTimings{}
	alone := encode(t, r, Options{})["inferbeat"].(map[string]any)["server"].(map[string]any)
	if alone["restarted"] != true || alone["queue_requests"] != nil || alone["acceptance_per_position"] != nil {
		t.Errorf("server = %v, want nothing but the restart", alone)
	}
}

func TestClient(t *testing.T) {
	r := run()
	r.Summary.Client = probes.Client{
		ReceiveLag: probes.Distribution{N: 2, Mean: 0.003, Stddev: 0.001, Min: 0.002, P50: 0.003, P90: 0.0038, P95: 0.0039, P99: 0.00398, Max: 0.004},
		Stamped:    probes.Known(0.75), Coalesced: probes.Known(0.25),
		Process: probes.Process{
			CPUShare: probes.Known(0.5), GCPauses: probes.Known(0), GCPauseTotal: probes.Known(time.Duration(0)), GCPauseMax: probes.Known(time.Millisecond),
			ThrottledPeriods: probes.Known(3), Throttled: probes.Known(250 * time.Millisecond), DescriptorRoom: probes.Known(1000),
		},
	}
	want := map[string]any{
		"receive_lag_seconds":  map[string]any{"n": 2.0, "mean": 0.003, "stddev": 0.001, "min": 0.002, "p50": 0.003, "p90": 0.0038, "p95": 0.0039, "p99": 0.00398, "max": 0.004},
		"kernel_stamped_ratio": 0.75, "coalesced_gaps_ratio": 0.25, "cpu_ratio": 0.5,
		"gc_pauses": 0.0, "gc_pause_total_seconds": 0.0, "gc_pause_max_seconds": 0.001,
		"throttled_periods": 3.0, "throttled_seconds": 0.25, "open_files_room": 1000.0, "local_ports_room": nil,
	}
	got := encode(t, r, Options{})["inferbeat"].(map[string]any)["client"]
	if d := cmp.Diff(any(want), got); d != "" {
		t.Errorf("client (-want +got):\n%s", d)
	}
}

func TestDetailsAreInRequestOrder(t *testing.T) {
	m := encode(t, run(), Options{Details: true})
	want := map[string]any{
		"input_lens": []any{60.0, 40.0}, "output_lens": []any{3.0, nil}, "ttfts": []any{0.1, nil},
		"itls": []any{[]any{0.02, 0.02}, []any{}}, "generated_texts": []any{"<a> & b", ""}, "errors": []any{"", "500: overloaded"},
	}
	for key, w := range want {
		if d := cmp.Diff(w, m[key]); d != "" {
			t.Errorf("%s (-want +got):\n%s", key, d)
		}
	}
	wantOurs := map[string]any{
		"request_ids": []any{"req-0", "req-1"}, "outcomes": []any{"ok", "http_5xx"}, "due": []any{0.0, 0.25}, "sent": []any{0.001, 0.251},
		"e2e": []any{0.14, nil}, "chunk_gaps": []any{[]any{0.04}, []any{}}, "cached_tokens": []any{16.0, nil},
	}
	ours := m["inferbeat"].(map[string]any)["details"].(map[string]any)
	for _, lossless := range []string{"spec", "facts", "process", "sending", "records"} { // see TestReadGivesBackWhatWasWritten
		delete(ours, lossless)
	}
	if d := cmp.Diff(wantOurs, ours); d != "" {
		t.Errorf("inferbeat.details (-want +got):\n%s", d)
	}
}

func TestUnknownIsNull(t *testing.T) {
	m := encode(t, &probes.Run{
		ID: "r", Result: probes.RunFailed, Error: "ask for the model: connection refused",
		Spec:    probes.Spec{Arrivals: probes.Arrivals{Process: probes.ClosedLoop}},
		Summary: probes.Summary{Requests: 5, Sent: 5, Failed: 5, Outcomes: map[probes.Outcome]int{probes.Connect: 5}},
	}, Options{Details: true})
	for key, v := range m {
		switch key {
		case "backend", "dataset_name", "request_rate", "duration", "completed", "total_input_vision_tokens", "max_concurrent_requests", "inferbeat":
		case "input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors":
			if len(v.([]any)) != 0 {
				t.Errorf("%s = %v, want []", key, v)
			}
		default:
			if v != nil {
				t.Errorf("%s = %v, want null", key, v)
			}
		}
	}
	ours := m["inferbeat"].(map[string]any)
	for _, key := range []string{"start", "end", "fingerprint", "connections", "input_lengths", "cached_tokens", "input_token_source", "success_ratio", "offered_rate"} {
		if v, there := ours[key]; v != nil || !there {
			t.Errorf("inferbeat.%s = %v, there: %v; want null", key, v, there)
		}
	}
	if got := ours["error"]; got != "ask for the model: connection refused" {
		t.Errorf("inferbeat.error = %v", got)
	}
}

func TestNumbersAreStrictJSON(t *testing.T) {
	r := run()
	r.Spec.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	r.Summary.OfferedRate = probes.Known(math.Inf(1))
	r.Summary.OutputThroughput = probes.Known(math.NaN())
	r.Summary.Latency[probes.TTFT] = probes.Distribution{N: 1, Mean: math.NaN(), Max: math.Inf(-1)}
	m := encode(t, r, Options{})
	if got := m["request_rate"]; got != "inf" {
		t.Errorf("request_rate = %v, want the string inf", got)
	}
	if m["max_concurrency"] != nil || m["output_throughput"] != nil || m["mean_ttft_ms"] != nil {
		t.Errorf("max_concurrency %v, output_throughput %v, mean_ttft_ms %v: want null", m["max_concurrency"], m["output_throughput"], m["mean_ttft_ms"])
	}
	ours := m["inferbeat"].(map[string]any)
	ttft := ours["latency_seconds"].(map[string]any)["ttft"].(map[string]any)
	if ours["offered_rate"] != "inf" || ttft["mean"] != nil || ttft["max"] != "-inf" {
		t.Errorf("offered_rate %v, ttft mean %v, max %v: want inf, null, -inf", ours["offered_rate"], ttft["mean"], ttft["max"])
	}
}

func TestArguments(t *testing.T) {
	tests := []struct {
		name   string
		change func(*probes.Run)
		key    string
		want   any
	}{
		{"closed_loop_is_a_burst_behind_a_limit", func(r *probes.Run) { r.Spec.Arrivals.Process = probes.ClosedLoop }, "request_rate", "inf"},
		{"sharegpt_output", func(r *probes.Run) { r.Spec.Workload.FixedOutputTokens = 128 }, "sharegpt_output_len", 128.0},
		{"sharegpt_has_no_random_lengths", func(r *probes.Run) { r.Spec.Workload.Dataset = "sharegpt" }, "random_input_len", nil},
		{"retokenized", func(r *probes.Run) { r.Summary.RetokenizedOutput = probes.Known(4) }, "total_output_tokens_retokenized", 4.0},
		{"not_retokenized", func(r *probes.Run) { r.Summary.OutputSource = probes.TokensClient }, "total_output_tokens_retokenized", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run()
			tt.change(r)
			if got := encode(t, r, Options{})[tt.key]; got != tt.want {
				t.Errorf("%s = %v, want %v", tt.key, got, tt.want)
			}
		})
	}
}

func TestNoSecretIsWritten(t *testing.T) {
	r := run()
	r.Target.BaseURL = "https://user:hunter2@host:8000/v1?token=hunter2#hunter2"
	r.Target.Connection.APIKey = "hunter2"
	r.Target.Connection.Headers = map[string]probes.Secret{"Authorization": "Bearer hunter2"}
	r.Target.Connection.Proxy = "http://proxyuser:hunter2@proxy:3128"
	r.Target.Connection.TLS.KeyFile = "/secret/hunter2.pem"
	r.Spec.Workload.Sampling.ExtraBody = map[string]any{"api_key": "hunter2"}
	data, err := Encode(r, Options{Details: true, Tag: "t", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "user:", "proxyuser", "Authorization"} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("line holds %q: %s", secret, data)
		}
	}
	if !strings.Contains(string(data), `"base_url":"https://host:8000/v1"`) {
		t.Errorf("line lacks the URL without its secrets: %s", data)
	}
	r.Target.BaseURL = "http://user:hunter2@host:bad port/"
	if data, err = Encode(r, Options{}); err != nil || bytes.Contains(data, []byte("hunter2")) {
		t.Errorf("a URL that cannot be read was written: %s, %v", data, err)
	}
}

func BenchmarkEncode(b *testing.B) {
	r := run()
	for i := range 1000 {
		rec := r.Records[1]
		rec.Index = i + 2
		r.Records = append(r.Records, rec)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(r, Options{Details: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestChanges: what a learning series does not know is null.
func TestChanges(t *testing.T) {
	r := run()
	if _, there := encode(t, r, Options{})["inferbeat"].(map[string]any)["changes"]; there {
		t.Error("a run that was not judged over nights has changes")
	}
	onset := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	r.Changes = []probes.Change{
		{Metric: probes.MetricTPOTp50, State: probes.ChangeWorse, Effect: probes.Known(0.2), Low: probes.Known(0.1), High: probes.Known(0.3), Baseline: probes.Known(0.02),
			BaselineRuns: 45, BaselineAt: onset.AddDate(0, -1, 0), Onset: onset, SmallestStep: probes.Known(0.03),
			Renamed: []probes.FactChange{{Name: "version", Before: "1", After: "2"}}, Reasons: []probes.Reason{{Code: "regression", Text: "worse"}}},
		{Metric: probes.MetricCapacity, State: probes.ChangeLearning},
	}
	want := []any{
		map[string]any{"metric": "tpot_p50", "state": "worse", "effect": 0.2, "low": 0.1, "high": 0.3, "baseline": 0.02, "baseline_nights": 45.0,
			"baseline_at": "2026-02-01T02:00:00Z", "onset": "2026-03-01T02:00:00Z", "smallest_step": 0.03,
			"server_changed": []any{map[string]any{"name": "version", "before": "1", "after": "2"}}, "reasons": []any{map[string]any{"code": "regression", "text": "worse"}}},
		map[string]any{"metric": "capacity", "state": "learning", "effect": nil, "low": nil, "high": nil, "baseline": nil, "baseline_nights": 0.0,
			"baseline_at": nil, "onset": nil, "smallest_step": nil, "reasons": []any{}},
	}
	if d := cmp.Diff(any(want), encode(t, r, Options{})["inferbeat"].(map[string]any)["changes"]); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}
