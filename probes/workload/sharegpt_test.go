package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func shareGPT(path string) probes.Workload {
	return probes.Workload{Name: "talk", Dataset: ShareGPT, Path: path, Tokenizer: TokenizerServer, Seed: 1}
}

// rowsOf drains the measured requests, sorted by prompt: prompt, input and output tokens.
func rowsOf(t *testing.T, s *Source) (rows []string) {
	t.Helper()
	for r, ok := s.Next(); ok; r, ok = s.Next() {
		rows = append(rows, fmt.Sprintf("%s | %d %d %s", r.Prompt, r.InputTokens, r.MaxOutputTokens, r.InputSource))
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(rows)
	return rows
}

func TestShareGPTRows(t *testing.T) {
	// The fake tokenizer has a word with its space as one token, a run of anything
	// else as another; the lengths below are counted by hand with that rule. Three
	// special tokens belong to the prompt and not to the answer.
	special := &fakeTokenizer{before: []int{1, 2}, after: []int{3}}
	rivers := "Name three rivers of Europe."
	brackets := `brackets ]}[{ and "quotes" \`
	vienna := "Wie heißt die Hauptstadt von Österreich? 維也納"
	for _, tc := range []struct {
		name  string
		edit  func(*probes.Workload)
		tok   Tokenizer
		want  []string
		short int
	}{
		{
			// Name+three+rivers+of+Europe+. = 6, and Rhine+,+Danube+and+Loire+. = 6.
			// "]}[{" takes the spaces around it as pieces of their own.
			name: "counted", tok: special, short: 17,
			want: []string{
				rivers + " | 9 6 client",
				vienna + " | 11 8 client",
				brackets + " | 13 11 client",
			},
		},
		{
			// Bytes over four, rounded up: 28 and 24; 52 and 42; 28 and 41. The answer
			// "Yes" is one token.
			name: "estimated", tok: nil, short: 17,
			want: []string{
				rivers + " | 7 6 approx",
				vienna + " | 13 11 approx",
				brackets + " | 7 11 approx",
			},
		},
		{
			name: "fixed output", tok: special, short: 16,
			edit: func(w *probes.Workload) { w.FixedOutputTokens = 4 },
			want: []string{
				rivers + " | 9 4 client",
				"The answer is too short here. | 10 4 client",
				vienna + " | 11 4 client",
				brackets + " | 13 4 client",
			},
		},
		{
			name: "context", tok: special, short: 18,
			edit: func(w *probes.Workload) { w.ContextTokens = 20 },
			want: []string{
				rivers + " | 9 6 client",
				vienna + " | 11 8 client",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := shareGPT("testdata/sharegpt.json")
			if tc.edit != nil {
				tc.edit(&w)
			}
			s := mustOpen(t, w, Options{Tokenizer: tc.tok, Count: 20})
			if s.Short() != tc.short {
				t.Errorf("short by %d, want %d", s.Short(), tc.short)
			}
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, rowsOf(t, s)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if r, ok := s.NextWarmup(); ok {
				t.Errorf("warm-up got %q after all rows were measured", r.Prompt)
			}
		})
	}
}

// writeRows makes a file of n rows whose prompts are all different.
func writeRows(t testing.TB, n int) string {
	t.Helper()
	type turn map[string]string
	var rows []map[string]any
	for i := range n {
		rows = append(rows, map[string]any{"id": i, "conversations": []turn{
			{"from": "human", "value": fmt.Sprintf("question number %d about %s", i, strings.Repeat(ordinaryWords[i%800]+" ", i%9))},
			{"from": "gpt", "value": strings.Repeat("answer ", 2+i%30)},
		}})
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rows.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShareGPTIsOneFrozenTraceBehindSaltedHeads(t *testing.T) {
	w := shareGPT(writeRows(t, 100))
	tok := &fakeTokenizer{before: []int{1}}
	plain, _ := take(t, mustOpen(t, w, Options{Tokenizer: tok, Count: 60, RunID: "r"}), 60, 0)
	var files Files
	blocks := map[string]string{}
	var first []*probes.Request
	for _, salt := range []string{"one", "two"} {
		s := mustOpen(t, w, Options{Tokenizer: tok, Count: 60, Warmup: 10, Salt: salt, RunID: salt, Files: &files})
		measured, warm := take(t, s, 60, 10)
		for i, r := range measured {
			if _, own, _ := strings.Cut(r.Prompt, headBreak); own != plain[i].Prompt {
				t.Errorf("%s: text %q, want row %q", r.ID, own, plain[i].Prompt)
			}
			// opener, twelve words and a line break
			if want := plain[i].InputTokens + 1 + headSize + 1; r.InputTokens != want || r.MaxOutputTokens != plain[i].MaxOutputTokens {
				t.Errorf("%s: %d in, %d out, want %d and %d", r.ID, r.InputTokens, r.MaxOutputTokens, want, plain[i].MaxOutputTokens)
			}
		}
		all := append(measured, warm...)
		for _, r := range all {
			if got := tok.count(r.Prompt); got != r.InputTokens {
				t.Errorf("%s: server counts %d, request says %d", r.ID, got, r.InputTokens)
			}
			block := firstBlock(t, tok, r)
			if other, ok := blocks[block]; ok {
				t.Errorf("%s and %s begin with the same block", r.ID, other)
			}
			blocks[block] = r.ID
		}
		if first == nil {
			first = all
		} else if diff := cmp.Diff(lengths(first), lengths(all)); diff != "" {
			t.Errorf("lengths of the two runs differ (-one +two):\n%s", diff)
		}
	}
	rows := map[string]bool{}
	for _, r := range first {
		_, own, _ := strings.Cut(r.Prompt, headBreak)
		if rows[own] {
			t.Errorf("row %q was drawn twice", own)
		}
		rows[own] = true
	}
	w.Seed = 2
	other, _ := take(t, mustOpen(t, w, Options{Tokenizer: tok, Count: 60}), 60, 0)
	if other[0].Prompt == plain[0].Prompt && other[1].Prompt == plain[1].Prompt && other[2].Prompt == plain[2].Prompt {
		t.Error("another seed drew the same rows first")
	}
}

// More rows than announced are read from the file while the run goes on: no calls
// to the target, so their lengths are estimates.
func TestShareGPTBeyondCount(t *testing.T) {
	path := writeRows(t, 100)
	tok := &fakeTokenizer{before: []int{1}}
	s := mustOpen(t, shareGPT(path), Options{Tokenizer: tok, Count: 10, Warmup: 5})
	calls := tok.calls
	all, _ := take(t, mustOpen(t, shareGPT(path), Options{Count: 100}), 95, 0)
	measured, _ := take(t, s, 95, 5)
	for i, r := range measured {
		want := probes.TokensClient
		if i >= 10 {
			want = probes.TokensApprox
		}
		if r.InputSource != want || r.Prompt != all[i].Prompt {
			t.Errorf("request %d: source %s, prompt %q; want %s, %q", i, r.InputSource, r.Prompt, want, all[i].Prompt)
		}
	}
	if r, ok := s.Next(); ok || s.Err() != nil {
		t.Errorf("after all rows: %v, error %v; want the end and no error", r, s.Err())
	}
	if tok.calls != calls {
		t.Errorf("%d calls while the run went on, want none", tok.calls-calls)
	}

	s = mustOpen(t, shareGPT(path), Options{Count: 1})
	if err := os.Truncate(path, 40); err != nil {
		t.Fatal(err)
	}
	take(t, s, 1, 0)
	for range 100 {
		if _, ok := s.Next(); !ok {
			break
		}
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "was the file replaced?") {
		t.Errorf("file cut while the run goes on: %v, want an error that says so", err)
	}
}

func TestShareGPTTokenizerLostHalfway(t *testing.T) {
	// Two calls to calibrate, one for the head, two for each of the first four rows.
	tok := &fakeTokenizer{before: []int{1}, fail: errUnreachable, failFrom: 11}
	s := mustOpen(t, shareGPT(writeRows(t, 50)), Options{Tokenizer: tok, Count: 20, Salt: "s"})
	measured, _ := take(t, s, 20, 0)
	for i, r := range measured {
		want := probes.TokensClient
		if i >= 4 {
			want = probes.TokensApprox
		}
		if r.InputSource != want {
			t.Errorf("request %d: source %s, want %s", i, r.InputSource, want)
		}
	}
	if tok.calls != 12 {
		t.Errorf("%d calls, want 12: a target that does not answer is not asked again", tok.calls)
	}
	if s.Inexact() == nil {
		t.Error("Inexact is nil, want the tokenizer's error")
	}
}

func TestShareGPTBadFiles(t *testing.T) {
	const good = `{"conversations":[{"value":"some words to ask"},{"value":"some words to answer"}]}`
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "is empty, want a JSON array"},
		{"blank", " \n", "is empty, want a JSON array"},
		{"lines", good + "\n" + good, `starts with '{', want a JSON array`},
		{"cut in the first", "[" + good[:20], "element 1: the file ends inside it"},
		{"cut in a string", "[" + good + `,{"a":"]}`, "element 2: the file ends inside it"},
		{"no end", "[" + good + "," + good, "element 3: the file ends before the end of the array"},
		{"no comma", "[" + good + " " + good + "]", `element 1: '{' at byte 84, want a comma`},
		{"number", "[" + good + ",7]", `element 2: '7' at byte 84, want an object`},
		{"trailing comma", "[" + good + ",]", `element 2: ']' at byte 84, want an object`},
		{"more", "[" + good + "] x", `byte 85: 'x' after the end of the array`},
		{"bad element", "[" + `{"conversations":[{"value":oops}]}` + "]", "element 1 (byte 1): invalid character 'o'"},
		{"wrong type", "[" + `{"conversations":[{"value":7},{"value":"x"}]}` + "]", "element 1 (byte 1): json: cannot unmarshal number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.json")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), shareGPT(path), Options{Count: 9})
			if err == nil || !strings.Contains(err.Error(), "read "+path+": ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q with the file's name", err, tc.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, shareGPT(path), Options{Count: 9})
	if _, ok := s.Next(); ok || s.Short() != 9 {
		t.Errorf("empty array: a request %t, short by %d; want none, 9", ok, s.Short())
	}
}

// The splitter must find what a JSON decoder finds, however the bytes are cut.
func TestSplitterAgreesWithDecoder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOf(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String()))).Draw(rt, "rows")
		indent := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(rt, "indent")
		if rows == nil {
			rows = []map[string][]string{}
		}
		text, err := json.MarshalIndent(rows, "", indent)
		if err != nil {
			rt.Fatal(err)
		}
		var want []json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil {
			rt.Fatal(err)
		}
		var s splitter
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "cut")
			if err := s.feed(rest[:n]); err != nil {
				rt.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := s.close(); err != nil {
			rt.Fatal(err)
		}
		var got []json.RawMessage
		for _, at := range s.rows {
			got = append(got, json.RawMessage(text[at.start:at.end]))
		}
		if !slices.EqualFunc(want, got, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			rt.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestFilesReadsAFileAgainOnlyWhenItChanged(t *testing.T) {
	path := writeRows(t, 5)
	var files Files
	first, err := files.open(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := files.open(path); err != nil || again != first {
		t.Errorf("unchanged file: %v, same index %t; want it remembered", err, again == first)
	}
	if err := os.Chtimes(path, time.Time{}, first.modified.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if again, err := files.open(path); err != nil || again == first || again.sha256 != first.sha256 {
		t.Errorf("touched file: %v, same index %t; want it read again with the same hash", err, again == first)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := files.open(path); err == nil {
		t.Error("removed file: no error")
	}
}

func TestShareGPTVersionFollowsTheBytes(t *testing.T) {
	open := func(text, name string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return mustOpen(t, shareGPT(path), Options{Count: 1}).Version()
	}
	if a, b := open("[]", "a.json"), open("[]", "b.json"); a != b {
		t.Errorf("the same bytes under another name: %s and %s, want equal", a, b)
	}
	if a, b := open("[]", "a.json"), open("[ ]", "a.json"); a == b {
		t.Errorf("other bytes have the same version %s", a)
	}
}

func TestShareGPTCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, shareGPT(writeRows(t, 3)), Options{Tokenizer: &fakeTokenizer{fail: context.Canceled}, Count: 1})
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got %v, want context canceled", err)
	}
}

func BenchmarkIndexRows(b *testing.B) {
	path := writeRows(b, 20_000)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := indexFile(path); err != nil {
			b.Fatal(err)
		}
	}
}

// A row that is no conversation ends the run, or is left out and counted.
func TestShareGPTBadRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.json")
	good := `{"conversations":[{"value":"What is a heartbeat?"},{"value":"A regular sign of life."}]}`
	if err := os.WriteFile(path, []byte("["+good+`,{"conversations":"none"},`+good+`,{"conversations":[{"value":7}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := shareGPT(path)
	if _, err := Open(t.Context(), w, Options{Count: 4}); err == nil || !strings.Contains(err.Error(), path+": element ") {
		t.Errorf("Open = %v, want an error that names the element", err)
	}
	w.SkipBadRows = true
	s := mustOpen(t, w, Options{Count: 4})
	if got := rowsOf(t, s); len(got) != 2 || s.Skipped() != 2 || s.Short() != 2 {
		t.Errorf("rows %q, skipped %d, short %d; want two of each", got, s.Skipped(), s.Short())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), w, Options{Count: 4}); err == nil {
		t.Error("a file that is gone was skipped like a row")
	}
}
