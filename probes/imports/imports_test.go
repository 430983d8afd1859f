package imports

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

func read(t *testing.T, name string) []*probes.Run {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	runs, err := Read(file.Name(), file, Options{Target: probes.Target{Name: "t", Model: "given"}, Probe: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func num(f float64) probes.Optional[float64] { return probes.Known(f) }

var nan = math.NaN()

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// A result with details, as the tool wrote it: with a bare Infinity.
func TestBenchServing(t *testing.T) {
	run := read(t, "sgl_oai_mid_c8.jsonl")[0]
	same(t, "origin", []string{run.Source, run.Origin, run.Target.Backend, run.Target.Model, run.Spec.Probe},
		[]string{BenchServing, "sgl_oai_mid_c8.jsonl:1", "sglang-oai", "given", "p"})
	same(t, "arrivals", run.Spec.Arrivals, probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), CV: 1, MaxConcurrency: 8, StartTogether: true})
	same(t, "workload", run.Spec.Workload, probes.Workload{Name: "imported", Dataset: "random-ids", InputTokens: 64, OutputTokens: 64, RangeRatio: 0.5})
	s := &run.Summary
	same(t, "duration", s.Duration, 19608365436*time.Nanosecond)
	same(t, "tokens", []probes.Optional[int]{s.InputTokens, s.OutputTokens}, []probes.Optional[int]{probes.Known(1546), probes.Known(1515)})
	same(t, "throughput", s.OutputThroughput, num(77.26294192878184))
	same(t, "peak concurrency", s.PeakConcurrency, 11)
	ttft := s.Distribution(probes.TTFT)
	ttft.Min = math.Round(ttft.Min*1e9) / 1e9
	same(t, "ttft", ttft, probes.Distribution{N: 32, Mean: 0.9941543718749557, Stddev: 0.8350469220222263, Min: 0.275416379,
		P50: 0.530959576999976, P90: 2.5120757050000066, P95: 2.5122799127499093, P99: 2.512693863029772, Max: 2.5128557099997124})
	// This dialect does not say how many tokens a chunk holds.
	if n := s.Distribution(probes.ITL).N; n != 0 {
		t.Errorf("%d inter-token latencies, want chunk gaps only", n)
	}
	if got := s.Distribution(probes.ChunkGap).P50; got != 0.03949697699999888 {
		t.Errorf("median chunk gap = %v, want 39.49697699999888 ms", got)
	}
}

func TestOldKeySets(t *testing.T) {
	runs := read(t, "bench_serving_old.jsonl")
	s := &runs[0].Summary
	same(t, "ttft", s.Latency[probes.TTFT], probes.Distribution{N: 10, Mean: 0.12, Stddev: 0.015, Min: nan, P50: 0.11, P90: nan, P95: nan, P99: 0.18, Max: nan})
	same(t, "itl of the native dialect", s.Latency[probes.ITL], probes.Distribution{N: 990, Mean: 0.0098, Stddev: 0.002, Min: nan, P50: 0.009, P90: nan, P95: nan, P99: 0.03, Max: nan})
	same(t, "e2e", s.Latency[probes.E2E], probes.Distribution{N: 10, Mean: 2.5, Stddev: nan, Min: nan, P50: 2.4, P90: nan, P95: nan, P99: nan, Max: nan})
	same(t, "unknown p90", s.Latency[probes.TTFT].Get(probes.StatP90), probes.Optional[float64]{})
	same(t, "accept length", s.AcceptLength, num(2.5))
	same(t, "burst", runs[0].Spec.Arrivals.Process, probes.Burst)
	same(t, "lengths that had no effect", runs[0].Spec.Workload, probes.Workload{Name: "imported", Dataset: "sharegpt"})

	// Zeros are how the tool writes that it has no samples.
	same(t, "series without samples", runs[1].Summary.Latency, map[probes.Signal]probes.Distribution{})
	same(t, "trace", runs[1].Spec.Arrivals, probes.Arrivals{Process: probes.FromTrace, MaxConcurrency: 4})
	same(t, "success ratio of nothing", runs[1].Summary.SuccessRatio, probes.Optional[float64]{})
}

func TestVLLMBenchServe(t *testing.T) {
	run := read(t, "vllm_bench_mid_c8.json")[0]
	s := &run.Summary
	same(t, "identity", []string{run.Source, run.Target.Backend, run.Target.Model}, []string{VLLMBenchServe, "openai", "mid"})
	same(t, "counts", []int{s.Requests, s.Completed, s.Failed, run.Spec.Requests}, []int{32, 31, 1, 32})
	same(t, "success ratio", s.SuccessRatio, num(31.0/32))
	same(t, "end", run.End, time.Date(2026, 11, 30, 16, 20, 8, 0, time.Local))
	same(t, "length", run.End.Sub(run.Start), s.Duration)
	same(t, "input throughput", s.InputThroughput, num(1984/17.733946703))
	same(t, "total throughput", s.TotalThroughput, num(136.63061249586877))
	ttft := s.Distribution(probes.TTFT)
	same(t, "ttft n, p99 and max", []float64{float64(ttft.N), ttft.P99, ttft.Max}, []float64{31, 2.883770898899866, 2.883820613999888})
	same(t, "e2e n", s.Distribution(probes.E2E).N, 31)
}

// A burstiness says something of a stream of a rate, and 1 says that it is Poisson's.
func TestVLLMBurstiness(t *testing.T) {
	text, err := os.ReadFile("testdata/vllm_bench_mid_c8.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rate       any
		burstiness float64
		process    probes.ArrivalProcess
		cv         float64
	}{
		{4.0, 0.25, probes.Gamma, 2}, {4.0, 1, probes.Poisson, 1}, {4.0, 0, probes.Poisson, 1}, {"inf", 0.25, probes.ClosedLoop, 1},
	} {
		var line map[string]any
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		line["request_rate"], line["burstiness"] = tt.rate, tt.burstiness
		changed, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := Read("a.json", bytes.NewReader(changed), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a := runs[0].Spec.Arrivals; a.Process != tt.process || a.CV != tt.cv {
			t.Errorf("rate %v, burstiness %v: got %s with CV %v, want %s with %v", tt.rate, tt.burstiness, a.Process, a.CV, tt.process, tt.cv)
		}
	}
}

func TestOffline(t *testing.T) {
	run := read(t, "bench_offline_throughput.jsonl")[0]
	s := &run.Summary
	same(t, "identity", []string{run.Source, run.Target.Backend, string(run.Spec.Kind)}, []string{BenchOfflineThroughput, "engine", "peak"})
	same(t, "numbers", []any{s.Completed, s.Duration, s.OutputThroughput, s.TotalThroughput}, []any{1000, 40 * time.Second, num(3200), num(16000)})
}

func TestOneBatch(t *testing.T) {
	runs := read(t, "bench_one_batch.jsonl")
	same(t, "batch", runs[0].Summary.Batch, probes.BatchTimes{Size: 2, Prefill: num(0.08), DecodeStep: num(0.02), Latency: num(0.12),
		InputThroughput: num(200), StepThroughput: num(100), OverallThroughput: num(183.33333333333334)})
	same(t, "a prefill alone has no step", runs[1].Summary.Batch.DecodeStep, probes.Optional[float64]{})
	same(t, "output throughput", runs[0].Summary.OutputThroughput, num(50))
	if runs[0].ID == runs[1].ID || read(t, "bench_one_batch.jsonl")[0].ID != runs[0].ID {
		t.Error("an id must be that of one result, however often it is read")
	}
}

func TestOneBatchServer(t *testing.T) {
	runs := read(t, "bench_one_batch_server.jsonl")
	same(t, "old", runs[0].Summary.Batch, probes.BatchTimes{Size: 16, Latency: num(0.5), OverallThroughput: num(33280)})
	same(t, "new", runs[1].Summary.Batch, probes.BatchTimes{Size: 4, Prefill: num(0.25), Latency: num(1.25),
		InputThroughput: num(1600), DecodeThroughput: num(200), OverallThroughput: num(480)})
	same(t, "no acceptance", runs[1].Summary.AcceptLength, probes.Optional[float64]{})
	same(t, "workload", runs[1].Spec.Workload.Name, "100x50")
}

func TestOneResultOverManyLines(t *testing.T) {
	runs, err := Read("a/r.json", strings.NewReader("\n{\n \"elapsed_time\": 2,\n \"num_requests\": 8,\n \"requests_per_second\": 4, \"tokens_per_second\": 900\n}\n"), Options{})
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, error %v; want one run", len(runs), err)
	}
	same(t, "run", []any{runs[0].Source, runs[0].Origin, runs[0].Summary.TotalThroughput}, []any{VLLMBenchThroughput, "r.json:2", num(900)})
}

// What is wrong is named by file and line, and spoils nothing else.
func TestBadResults(t *testing.T) {
	const good = `{"successful_requests": 1, "total_latency": 2}`
	tests := map[string]string{
		"":                               "f: holds no result",
		good + "\n" + `{"a": 1`:          "f:2: parse result: no JSON from byte 7 on: unexpected end of JSON input",
		good + "\n\n[1]\n" + good:        "f:3: parse result: must be an object, one to a line",
		`{"tps": 3}`:                     "f:1: parse result: its keys are of none of bench_one_batch, bench_one_batch_server, bench_offline_throughput, vllm_bench_throughput, vllm_bench_serve, bench_serving",
		good + "\n" + `{"inferbeat":{}}`: "f:2: parse result: is a line of inferbeat itself, which 'inferbeat merge' reads",
		`{"successful_requests": "many", "total_latency": 2}`:              "f:1: parse result of bench_offline_throughput: successful_requests: must be a number",
		`{"successful_requests": 1.5, "total_latency": 2}`:                 "f:1: parse result of bench_offline_throughput: successful_requests: must be a whole number from 0",
		`{"backend":"x","completed":1,"duration":1,"request_rate":"fast"}`: "f:1: parse result of bench_serving: request_rate: must be a number",
	}
	for text, want := range tests {
		runs, err := Read("f", strings.NewReader(text), Options{})
		if err == nil || err.Error() != want {
			t.Errorf("error of %q = %v, want %s", text, err, want)
		}
		if n := strings.Count(text, good); len(runs) != n {
			t.Errorf("%q gave %d runs, want the %d good ones", text, len(runs), n)
		}
	}
}

func TestBareWords(t *testing.T) {
	tests := map[string]string{
		`{"a": Infinity, "b": -Infinity, "c": [NaN]}`:   `{"a": "inf", "b": "-inf", "c": [null]}`,
		`{"a": "Infinity \" NaN", "b": "\\", "c": NaN}`: `{"a": "Infinity \" NaN", "b": "\\", "c": null}`,
		`{"a": 1}`: `{"a": 1}`,
	}
	for text, want := range tests {
		if got := string(strict([]byte(text))); got != want {
			t.Errorf("strict(%s) = %s, want %s", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"batch_size": 1e300, "prefill_latency": -1}`, `{"completed": 1, "duration": "inf", "backend": 3}`,
		`{"completed":2,"duration":1,"backend":"b","ttfts":[1,0,1e308],"itls":[[1]],"mean_ttft_ms":1}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		runs, _ := Read("f", strings.NewReader(text), Options{})
		for _, run := range runs {
			for signal, d := range run.Summary.Latency {
				if d.N <= 0 {
					t.Errorf("%s has %d samples, want none to be listed", signal, d.N)
				}
			}
		}
	})
}
