package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/exporters/store"
)

var localTime = regexp.MustCompile(`"2026-11-[^"]*"`)

func imported(name string) string {
	return filepath.Join("..", "..", "probes", "imports", "testdata", name)
}

// What import writes for each kind of result, to the byte.
func TestImportGolden(t *testing.T) {
	for _, name := range []string{"sgl_oai_mid_c8.jsonl", "bench_serving_old.jsonl", "vllm_bench_mid_c8.json",
		"bench_offline_throughput.jsonl", "bench_one_batch.jsonl", "bench_one_batch_server.jsonl"} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.jsonl")
			r := call(context.Background(), nil, "import", "--target", "gpu-7", "--model", "llama", "--output-file", out, imported(name))
			if r.code != exitPass || r.stderr != "" {
				t.Fatalf("exit %d, %s", r.code, r.stderr)
			}
			var got bytes.Buffer
			for line := range strings.Lines(readFile(t, out)) {
				line = localTime.ReplaceAllString(line, `"TIME"`) // the tool writes no zone
				line = strings.Replace(line, `"version":"`+buildVersion()+`"`, `"version":"VERSION"`, 1)
				if err := json.Indent(&got, []byte(line), "", " "); err != nil {
					t.Fatal(err)
				}
			}
			golden := filepath.Join("testdata", "import_"+name+".golden")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(readFile(t, golden), got.String()); d != "" {
				t.Errorf("line (-golden +got); -update writes it:\n%s", d)
			}
		})
	}
}

func TestImportReport(t *testing.T) {
	r := call(context.Background(), nil, "import", imported("bench_one_batch_server.jsonl"), imported("vllm_bench_mid_c8.json"))
	if r.code != exitPass {
		t.Fatalf("exit %d, %s", r.code, r.stderr)
	}
	contains(t, "report", r.stdout,
		"Imported from:                           bench_one_batch_server (bench_one_batch_server.jsonl:2)",
		"Prefill (last first token) (ms):         250.00",
		"Median decode step (ms):                 n/a",
		"Imported from:                           vllm_bench_serve (vllm_bench_mid_c8.json:1)",
		"Mean TTFT (ms):                          2585.36",
		"- imported: measured by vllm_bench_serve")
}

func TestImportMistakes(t *testing.T) {
	bad := writeFile(t, "r.jsonl", "{\"successful_requests\": 1, \"total_latency\": 2}\n{\"x\": }\n")
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"no file", "inferbeat import: needs a FILE; see 'inferbeat import --help'", nil},
		{"environment", `--environment: "lab" is none of production, staging and development`, []string{"--environment", "lab", bad}},
		{"tag", "--tag: has no effect without --output-file", []string{"--tag", "x", bad}},
		{"no such file", "open result file: open /nowhere: no such file or directory", []string{"/nowhere"}},
		{"bad line", bad + ":2: parse result: no JSON from byte 7 on", []string{bad}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := call(context.Background(), nil, append([]string{"import"}, test.args...)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, test.want) {
				t.Errorf("exit %d, %q; want 2 and %q", r.code, r.stderr, test.want)
			}
		})
	}
	// The good line was imported nevertheless.
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := call(context.Background(), nil, "import", "--output-file", out, bad)
	contains(t, "output", r.stdout, bad+": 1 results imported (1 of bench_offline_throughput)")
	if n := strings.Count(readFile(t, out), "\n"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// What is imported twice is in the store once.
func TestImportIntoAStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(t.Context(), store.Options{Path: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := imported("sgl_oai_mid_c8.jsonl")
	for range 2 {
		r := call(t.Context(), nil, "import", "--target", "old", "--storage-path", folder, file)
		if r.code != exitPass || r.stderr != "" {
			t.Fatalf("code %d, stderr %q; want it imported", r.code, r.stderr)
		}
	}
	r := call(t.Context(), nil, "export", "--format", "jsonl", "--storage-path", folder)
	if n := strings.Count(r.stdout, "\n"); n != 1 || !strings.Contains(r.stdout, `"source":`) {
		t.Errorf("the store has %d runs, want the imported one with its source:\n%s", n, r.stdout)
	}
}
