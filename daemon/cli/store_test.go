package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// keeping is a configuration whose store a daemon has open.
func keeping(t *testing.T, runs ...*probes.Run) (file string, s *store.Store) {
	t.Helper()
	file = writeFile(t, "inferbeat.yaml", "storage: {path: data}\n")
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(filepath.Dir(file), "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, run := range runs {
		if err := s.Add(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	return file, s
}

func keptRun(n int) *probes.Run {
	start := time.Date(2026, 5, 1+n, 2, 0, 0, 0, time.UTC)
	d := probes.Distribution{N: 100, Mean: 0.1, P50: 0.0805, P90: 0.1, P95: 0.1, P99: 0.25, Max: 0.3, Min: 0.05}
	return &probes.Run{
		ID: fmt.Sprintf("run-%d", n), Start: start, End: start.Add(time.Minute), Result: probes.RunSuccess, Complete: true, Fingerprint: "f00d",
		Target: probes.Target{Name: "a", Pool: "p", Environment: probes.Staging, Backend: "vllm"}, Spec: probes.Spec{Probe: "nightly", Kind: probes.Load},
		Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
		Summary: probes.Summary{Requests: 1, Completed: 1, Duration: time.Second, OutputThroughput: probes.Known(1234.56),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: d, probes.TPOT: {N: 1, P50: 0.0125}}},
		Records: []probes.Record{{ID: fmt.Sprintf("run-%d-0", n), Outcome: probes.OK, StatusCode: 200, Sent: time.Millisecond}},
	}
}

func keptRuns() []*probes.Run {
	suspect, invalid, sweep := keptRun(1), keptRun(2), keptRun(3)
	suspect.Validity = probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "client_late"}}}
	invalid.Result, invalid.Validity, invalid.Verdict = probes.RunInvalid, probes.Validity{State: probes.Invalid}, probes.Verdict{State: probes.Unknown}
	invalid.Summary = probes.Summary{Requests: 1}
	sweep.Spec.Probe, sweep.Spec.Kind, sweep.Summary.Latency = "capacity", probes.Sweep, nil
	sweep.Capacity = probes.Capacity{Rate: probes.Known(12.5), Bracketed: true}
	return []*probes.Run{keptRun(0), suspect, invalid, sweep}
}

func TestHistory(t *testing.T) {
	file, _ := keeping(t, keptRuns()...)
	want := `START                RUN    TARGET  PROBE     RESULT   VALIDITY   VERDICT  TTFT P50  TTFT P99   TPOT P50  OUTPUT TOK/S  CAPACITY
2026-05-01 02:00:00  run-0  a       nightly   success  valid      pass     80.50 ms  250.00 ms  12.50 ms  1234.6        -
2026-05-02 02:00:00  run-1  a       nightly   success  ? suspect  pass     80.50 ms  250.00 ms  12.50 ms  1234.6        -
2026-05-03 02:00:00  run-2  a       nightly   invalid  ! invalid  unknown  -         -          -         -             -
2026-05-04 02:00:00  run-3  a       capacity  success  valid      pass     -         -          -         1234.6        12.50
`
	got := call(t.Context(), nil, "history", "--config", file)
	if diff := cmp.Diff(want, got.stdout); diff != "" || got.code != 0 || got.stderr != "" {
		t.Errorf("history: exit %d, %s (-want +got):\n%s", got.code, got.stderr, diff)
	}
	for _, c := range []struct{ flags, runs string }{
		{"--probe nightly --limit 2", "run-1 run-2"},
		{"--since 2026-05-02 --until 2026-05-03T02:00:00Z", "run-1"},
		{"--target b", ""},
		{"--fingerprint f00d --pool p --environment staging --limit 1", "run-3"},
	} {
		got := call(t.Context(), nil, append([]string{"history", "--json", "--config", file}, strings.Fields(c.flags)...)...)
		var ids []string
		for line := range strings.Lines(got.stdout) {
			_, rest, _ := strings.Cut(line, `"run_id":"`)
			id, _, _ := strings.Cut(rest, `"`)
			ids = append(ids, id)
		}
		if strings.Join(ids, " ") != c.runs || got.code != 0 {
			t.Errorf("history %s: got %v, exit %d, %s; want %s", c.flags, ids, got.code, got.stderr, c.runs)
		}
	}
}

func TestAck(t *testing.T) {
	file, s := keeping(t, keptRun(0))
	got := call(t.Context(), nil, "ack", "a", "nightly", "--metric", "ttft_p50", "--since", "2026-05-01", "--author", "kim", "--reason", "new image", "--config", file)
	if got.code != 0 || got.stdout != "Kept: kim accepts the change of nightly on a; a daemon that is running shows it within seconds.\n" {
		t.Errorf("ack: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	acks, err := s.Acknowledgements(t.Context(), "a", "nightly")
	if err != nil || len(acks) != 1 || time.Since(acks[0].At) > time.Minute {
		t.Fatalf("acknowledgements: got %v, %v, want one of now", acks, err)
	}
	want := probes.Acknowledgement{Target: "a", Probe: "nightly", Metric: probes.MetricTTFTp50, At: acks[0].At, Since: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), Author: "kim", Reason: "new image"}
	if diff := cmp.Diff(want, acks[0]); diff != "" {
		t.Errorf("acknowledgement (-want +got):\n%s", diff)
	}
	got = call(t.Context(), nil, "history", "--acks", "--config", file)
	contains(t, "history --acks", got.stdout, "a       nightly  ttft_p50  2026-05-01  kim     new image\n")

	for _, c := range []struct{ args, want string }{
		{"a nightly --author kim --reason x --metric speed", `--metric: "speed" is none of`},
		{"a --author kim --reason x", "needs a TARGET and a PROBE"},
		{"a nightly", "--author: missing"},
		{"a nightly", "--reason: missing"},
		{"a other --author kim --reason x", "the store has no run of probe other on target a"},
	} {
		got := call(t.Context(), nil, append([]string{"ack", "--config", file}, strings.Fields(c.args)...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("ack %s: exit %d, %s; want 2 and %q", c.args, got.code, got.stderr, c.want)
		}
	}
}

func TestExport(t *testing.T) {
	file, _ := keeping(t, keptRuns()...)
	for _, c := range []struct{ flags, begins, holds string }{
		{"--format csv", "run_id,start,", "\nrun-0,2026-05-01T02:00:00Z,2026-05-01T02:01:00Z,a,p,staging,,nightly,load,success,valid,pass,f00d,"},
		{"--format csv --samples", "run_id,target,probe,request_id,", "\nrun-0,a,nightly,run-0-0,0,ok,200,0,0.001,"},
		{"--format jsonl --limit 1", `{"tag":null,`, `"run_id":"run-3"`},
		{"--samples --limit 1", `{"tag":null,`, `"request_ids":["run-3-0"]`},
		{"--format parquet", "PAR1", "run-2"},
	} {
		got := call(t.Context(), nil, append([]string{"export", "--config", file}, strings.Fields(c.flags)...)...)
		if got.code != 0 || !strings.HasPrefix(got.stdout, c.begins) || !strings.Contains(got.stdout, c.holds) {
			t.Errorf("export %s: exit %d, %s, %.400q; want it to begin with %q and hold %q", c.flags, got.code, got.stderr, got.stdout, c.begins, c.holds)
		}
	}
	out := filepath.Join(t.TempDir(), "runs.csv")
	got := call(t.Context(), nil, "export", "--format", "csv", "--output", out, "--config", file)
	if got.code != 0 || got.stdout != out+": 4 runs\n" || strings.Count(readFile(t, out), "\n") != 5 {
		t.Errorf("export into a file: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	got = call(t.Context(), nil, "export", "--format", "xml", "--output", out, "--config", file)
	if got.code != exitUsage || !strings.Contains(got.stderr, `--format: "xml" is none of jsonl, csv and parquet`) {
		t.Errorf("export as xml: exit %d, %s", got.code, got.stderr)
	}
	if got = call(t.Context(), nil, "export", "--output", out, "--config", file); got.code != exitUsage || !strings.Contains(got.stderr, "--output: ") {
		t.Errorf("export over a file: exit %d, %s; want a refusal", got.code, got.stderr)
	}
}

func TestStoreBackupAndCheck(t *testing.T) {
	file, s := keeping(t, keptRuns()...)
	folder := t.TempDir()
	copied := filepath.Join(folder, "inferbeat.db")
	if got := call(t.Context(), nil, "store", "backup", copied, "--config", file); got.code != 0 || got.stdout != copied+": a copy of "+s.Path()+"\n" {
		t.Errorf("backup: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	got := call(t.Context(), nil, "store", "check", "--storage-path", folder)
	if got.code != 0 || !strings.HasPrefix(got.stdout, copied+": ok, 0.1 MB") {
		t.Errorf("check of the copy: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no order":   {[]string{"store"}, "needs backup FILE, or check"},
		"no store":   {[]string{"store", "check"}, "--config: missing, name the configuration file, or the store's folder with --storage-path"},
		"none kept":  {[]string{"history", "--config", writeFile(t, "x.yaml", "{}\n")}, "--config: has no storage.path"},
		"none there": {[]string{"history", "--storage-path", t.TempDir()}, "there is no store yet"},
		"since":      {[]string{"history", "--since", "soon"}, `--since: "soon" is neither a time nor a duration`},
		"limit":      {[]string{"history", "--limit", "-1"}, "--limit: -1 is negative"},
	} {
		if got := call(t.Context(), nil, c.args...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: exit %d, %s; want 2 and %q", name, got.code, got.stderr, c.want)
		}
	}
	if err := os.WriteFile(copied, []byte(strings.Repeat("damaged ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := call(t.Context(), nil, "store", "check", "--storage-path", folder); got.code != exitUsage || !strings.Contains(got.stderr, "it is no database") {
		t.Errorf("check of something else: exit %d, %s", got.code, got.stderr)
	}
}

func TestReadTime(t *testing.T) {
	now := time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "2026-05-01": time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), "2026-05-01T02:00:00+02:00": time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		"36h": now.Add(-36 * time.Hour), "30d": now.Add(-30 * 24 * time.Hour), "90m": now.Add(-90 * time.Minute),
	} {
		if got, err := readTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("time %q: got %v, %v, want %v", text, got, err, want)
		}
	}
}
