package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// sampleRun is a run whose TTFT is so many milliseconds, with records of it.
func sampleRun(id, target string, at time.Time, ttft float64) *probes.Run {
	run := &probes.Run{
		ID: id, Start: at, End: at.Add(time.Minute), Result: probes.RunSuccess, Complete: true,
		Target: probes.Target{Name: target, Pool: target, Environment: probes.Staging, Backend: "vllm", Model: "m", BaseURL: "http://10.0.0.1:1",
			Connection: probes.Connection{Policy: probes.ConnectionReuse}},
		Spec: probes.Spec{Probe: "nightly", Kind: probes.Load, Requests: 3, Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8, CV: 1},
			Workload: probes.Workload{Dataset: "random", InputTokens: 64, OutputTokens: 16, Cache: probes.CacheCold, Sampling: probes.Sampling{IgnoreEOS: true, Stream: true}}},
		Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
		Summary: probes.Summary{
			Requests: 3, Sent: 3, Completed: 3, SuccessRatio: probes.Known(1.0), OutputThroughput: probes.Known(1e5 / ttft),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 3, Mean: ttft / 1e3, P50: ttft / 1e3, P90: ttft / 1e3, P95: ttft / 1e3, P99: ttft / 1e3, Max: ttft / 1e3}},
		},
	}
	for i := range 3 {
		first := time.Duration(ttft*float64(time.Millisecond)) + time.Duration(i)*time.Millisecond
		run.Records = append(run.Records, probes.Record{
			ID: id + string(rune('a'+i)), Index: i, Outcome: probes.OK, FirstToken: probes.Known(first), LastToken: probes.Known(first + 15*time.Millisecond),
			OutputTokens: probes.Known(16), OutputSource: probes.TokensServer,
			Chunks: []probes.Chunk{{At: first, Tokens: 1}, {At: first + 15*time.Millisecond, Tokens: 15}},
		})
	}
	return run
}

// lineFile writes runs as the daemon does.
func lineFile(t *testing.T, name string, details bool, runs ...*probes.Run) string {
	t.Helper()
	var text []byte
	for _, run := range runs {
		line, err := jsonl.Lines(run, jsonl.Options{Details: details})
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, line...)
	}
	return writeFile(t, name, string(text))
}

func sampleRuns(target string, ttfts ...float64) (runs []*probes.Run) {
	day := time.Now().UTC().Truncate(time.Second).Add(-time.Duration(len(ttfts)) * 24 * time.Hour)
	for i, ttft := range ttfts {
		runs = append(runs, sampleRun(target+"-run-"+string(rune('1'+i)), target, day.Add(time.Duration(i)*24*time.Hour), ttft))
	}
	return runs
}

// unwrapped has one blank where lines were broken.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestCompareFiles(t *testing.T) {
	a := lineFile(t, "before.jsonl", true, sampleRuns("llama", 100, 101, 102, 103, 104)...)
	b := lineFile(t, "after.jsonl", true, sampleRuns("llama", 120, 121, 122, 123, 124)...)
	r := call(t.Context(), nil, "compare", a, "next="+b)
	if r.code != exitPass || r.stderr != "" {
		t.Fatalf("exit %d, stderr %q; want 0 and nothing", r.code, r.stderr)
	}
	contains(t, "text", unwrapped(r.stdout), "before vs next", "TTFT mean of next is higher by 19.61 %, which is worse (95 % interval 16.50 % to 22.77 %, p = 0.008, n = 5).",
		"8/s poisson", "No side tells: quantization, accelerator, dtype, tensor_parallel, attention_backend.")

	r = call(t.Context(), nil, "compare", "--benchfmt", a, b)
	contains(t, "benchmarks", r.stdout, "side: before\n", "side: after\n", "BenchmarkTTFT/stat=p50 1 0.12 sec/op\n")
	if got := strings.Count(r.stdout, "BenchmarkTTFT/stat=p50 1 "); got != 10 {
		t.Errorf("%d lines of TTFT p50, want one of each run", got)
	}

	page := filepath.Join(t.TempDir(), "page.html")
	if r = call(t.Context(), nil, "compare", "--html", "--output", page, a, b); r.code != exitPass || r.stdout != "" {
		t.Fatalf("exit %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	html := readFile(t, page)
	contains(t, "page", html, "<title>before vs after</title>", "Time to first token: share of requests below", `<div class="dark"><svg`)
	if strings.Contains(html, "<?xml") {
		t.Error("a drawing in the page has an XML declaration")
	}
	r = call(t.Context(), nil, "compare", "--markdown", a, b, a)
	contains(t, "markdown", r.stdout, "## before vs after vs before (2)", "| Δ after |", "### Risks")
}

// Other tools' files are laid beside ours, and what they do not write down is named.
func TestCompareWithAnotherTool(t *testing.T) {
	a := lineFile(t, "ours.jsonl", false, sampleRuns("llama", 100)...)
	r := call(t.Context(), nil, "compare", a, "../../exporters/jsonl/testdata/bench_serving.jsonl", "../../exporters/jsonl/testdata/vllm_bench.json")
	contains(t, "text", unwrapped(r.stdout), "ours vs bench_serving vs vllm_bench", "tool (differs)", "carries no claim: need >= 4", "Trap single_run", "Doubt imported (bench_serving, vllm_bench)")
	if r.code != exitPass {
		t.Errorf("exit %d, want 0: %s", r.code, r.stderr)
	}
}

// A comparison's line holds both of its sides, and a median all of its repeats.
func TestCompareParts(t *testing.T) {
	paired := sampleRun("p", "next", time.Now(), 120)
	paired.Comparison = &probes.Comparison{Reference: probes.Target{Name: "prod"}, Pairs: 2, Used: 2}
	for i, role := range []string{"pair 1 A", "pair 1 B", "pair 2 B", "pair 2 A"} {
		paired.Parts = append(paired.Parts, probes.Part{Role: role, Run: sampleRun(role, []string{"prod", "next", "next", "prod"}[i], time.Now(), 100)})
	}
	r := call(t.Context(), nil, "compare", lineFile(t, "paired.jsonl", false, paired))
	contains(t, "text", r.stdout, "prod vs next", "4 runs", "Key numbers (medians of 2 runs)")

	median := sampleRun("m", "llama", time.Now(), 101)
	for _, ttft := range []float64{100, 101, 102} {
		median.Parts = append(median.Parts, probes.Part{Role: "repeat 1", Run: sampleRun("r", "llama", time.Now(), ttft)})
	}
	r = call(t.Context(), nil, "report", lineFile(t, "median.jsonl", false, median))
	contains(t, "text", r.stdout, "Key numbers (medians of 3 runs)", "101.0 ± 1.000")
}

func TestCompareFromTheStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), store.Options{Path: folder})
	if err != nil {
		t.Fatal(err)
	}
	for _, runs := range [][]*probes.Run{sampleRuns("prod", 100, 101, 102, 103), sampleRuns("next", 120, 121, 122, 123)} {
		for _, run := range runs {
			if err := s.Add(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := call(t.Context(), nil, "compare", "--storage-path", folder, "prod/nightly", "next/nightly@3d12h")
	contains(t, "text", r.stdout, "prod/nightly vs next/nightly@3d12h", "Key numbers (medians of 4 and 3 runs)")
	r = call(t.Context(), nil, "compare", "--storage-path", folder, "prod-run-1", "next-run-1")
	contains(t, "text", r.stdout, "prod/nightly vs next/nightly", "prod-run-1", "next-run-1", "+20.0 % ?")
	r = call(t.Context(), nil, "report", "--storage-path", folder, "--html", "prod-run-1")
	contains(t, "the records of a stored run", r.stdout, "Time to first token: share of requests below")

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"compare", "nowhere.jsonl", "x.json"}, "read nowhere.jsonl: there is no such file\nread x.json: there is no such file"},
		{[]string{"compare", "--storage-path", folder, "prod-run", "next-run-1"}, "prod-run"},
		{[]string{"compare", "--storage-path", folder, "prod/hourly", "next-run-1"}, "has no run of target prod with probe hourly in the last 30d, and there is no such file"},
		{[]string{"compare", "--storage-path", folder, "prod/nightly@3", "next-run-1"}, `since "3": needs a unit, e.g. 30s`},
		{[]string{"compare", "--storage-path", folder, "prod-run-1"}, "compare prod-run-1: there is one side, and it takes two"},
		{[]string{"compare", "--storage-path", folder + "x", "a", "b"}, folder + "x"},
		{[]string{"compare"}, "needs two RESULTs or more"},
		{[]string{"report", "a", "b"}, "needs one RESULT, got 2"},
		{[]string{"compare", "--html", "--markdown", "a", "b"}, "exclude each other"},
	} {
		r := call(t.Context(), nil, tt.args...)
		if r.code != exitUsage || !strings.Contains(r.stderr, tt.want) || r.stdout != "" {
			t.Errorf("%q: exit %d, %q; want 2 and %q", tt.args, r.code, r.stderr, tt.want)
		}
	}
	if _, err := os.Stat(folder + "x"); err == nil {
		t.Error("looking into a store that is not there has made one")
	}
}

func TestInline(t *testing.T) {
	if got := inline([]byte("<?xml version=\"1.0\"?>\n<!-- x -->\n<svg></svg>")); got != "<svg></svg>" || !bytes.HasPrefix([]byte(inline([]byte("<svg>"))), []byte("<svg>")) {
		t.Errorf("got %q, want the drawing alone", got)
	}
}
