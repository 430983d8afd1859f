package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Two processes send the halves of a load, and their files become one result.
func TestShardsToMergedResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		url, _ := n.server(nil, nil)
		dir := t.TempDir()
		file := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%d.jsonl", i)) }
		at := time.Now().Add(4 * time.Second).UTC().Format(time.RFC3339Nano)
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				r := n.call(short(url, "--shard", fmt.Sprintf("%d/2", i), "--start-at", at, "--output-file", file(i), "--output-details")...)
				if r.code != exitPass {
					t.Errorf("shard %d: exit status %d, want 0: %s", i, r.code, r.stderr)
				}
				contains(t, "standard error", r.stderr, fmt.Sprintf("shard %d of 2, the load starts at %s", i, at))
				contains(t, "report", r.stdout, fmt.Sprintf("%d of 2 (a part of the load)", i))
			})
		}
		both.Wait()

		out := filepath.Join(dir, "merged.jsonl")
		r := n.call("merge", "--output-file", out, "--output-details", "--tag", "x", file(1), file(0))
		contains(t, "report", r.stdout, "Serving Benchmark Result", "Merged from shards:")
		var line struct {
			Tag       string
			Completed int
			Texts     []string `json:"generated_texts"`
			Inferbeat struct {
				Merged   int `json:"merged_shards"`
				Requests int
				Warmup   int
				Start    string
				Shard    any
				Details  struct {
					Records []struct{ Index int }
				}
			}
		}
		if err := json.Unmarshal([]byte(readFile(t, out)), &line); err != nil {
			t.Fatal(err)
		}
		if i := line.Inferbeat; line.Completed != 3 || line.Tag != "x" || i.Merged != 2 || i.Requests != 3 || i.Warmup != 1 || i.Shard != nil || i.Start != at {
			t.Errorf("merged line %+v; want 3 completed of 3 with one warm-up, from 2 shards, started at %s", line, at)
		}
		for i := range 3 {
			if line.Inferbeat.Details.Records[i].Index != i || line.Texts[i] == "" {
				t.Errorf("entry %d is request %d with the text %q, want the request of that index with a text", i, line.Inferbeat.Details.Records[i].Index, line.Texts[i])
			}
		}

		for _, tt := range []struct {
			args []string
			want string
		}{
			{nil, "inferbeat merge: needs the FILE of each shard; see 'inferbeat merge --help'\n"},
			{[]string{"--tag", "x", file(0)}, "inferbeat merge: --output-file: is needed for --output-details and --tag to have an effect\n"},
			{[]string{file(0)}, "inferbeat merge: merge shards: shard 1 of 2 is missing; " + file(0) + ":1 and the others are not the whole load\n"},
			{[]string{file(0), file(1), file(0)}, "inferbeat merge: " + file(0) + ":1: shard 0 of 2 is in " + file(0) + ":1 too; leave one of them out\n"},
			{[]string{out}, "inferbeat merge: " + out + ":1: is no shard: it was run without --shard\n"},
			{[]string{filepath.Join(dir, "none")}, "inferbeat merge: open result file: open " + filepath.Join(dir, "none") + ": no such file or directory\n"},
		} {
			r := n.call(append([]string{"merge"}, tt.args...)...)
			if r.code != exitUsage || r.stderr != tt.want || r.stdout != "" {
				t.Errorf("merge %q: status %d, %q; want 2, %q", tt.args, r.code, r.stderr, tt.want)
			}
		}
	})
}

func TestParseStart(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]string{
		"+90s": "2026-01-02T03:05:35Z", "+0s": "2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00": "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.25Z": "2026-01-02T03:04:05.25Z",
	} {
		if got, ok := parseStart(text, now); !ok || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %s, %v; want %s", text, got.Format(time.RFC3339Nano), ok, want)
		}
	}
	for _, text := range []string{"", "+", "+-1s", "90s", "2026-01-02", "2026-01-02T03:04:05"} {
		if got, ok := parseStart(text, now); ok {
			t.Errorf("%q is read as %s, want it refused", text, got)
		}
	}
}
