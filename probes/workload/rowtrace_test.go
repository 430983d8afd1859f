package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func fileWorkload(dataset, file string) probes.Workload {
	return probes.Workload{
		Name: "file", Dataset: dataset, Path: file, OutputTokens: 64, Tokenizer: TokenizerServer,
		Cache: probes.CacheShared, Seed: 7,
	}
}

func chatOptions(tok Tokenizer) Options {
	return Options{Tokenizer: tok, Salt: "s1", RunID: "r", AcceptsTokenIDs: true, AcceptsMessages: true, AcceptsImages: true, Timed: true}
}

func write(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// all draws every measured request.
func all(t testing.TB, s *Source) (out []*probes.Request) {
	t.Helper()
	for {
		r, ok := s.Next()
		if !ok {
			break
		}
		out = append(out, r)
	}
	if err := s.Err(); err != nil {
		t.Fatalf("Next ended: %v", err)
	}
	return out
}

// outline is what a golden holds of a request.
type outline struct {
	At      time.Duration
	In, Out int
	Source  probes.TokenSource
	Session string
}

func outlines(requests []*probes.Request) (out []outline) {
	for _, r := range requests {
		out = append(out, outline{r.At.Or(-1), r.InputTokens, r.MaxOutputTokens, r.InputSource, r.Session})
	}
	return out
}

// Every dataset of a file, read by hand.
func TestRowFilesGolden(t *testing.T) {
	const ms = time.Millisecond
	mooncake := fileWorkload(Mooncake, "testdata/mooncake.jsonl")
	mooncake.Trace.BlockTokens = 16
	slow := mooncake
	slow.Trace.Slowdown, slow.ContextTokens = 1.5, 60
	rounds := mooncake
	rounds.Trace.Rounds = 2
	fixed := fileWorkload(Azure, "testdata/azure2024.csv")
	fixed.FixedOutputTokens = 3
	trace := fileWorkload(TraceRows, "testdata/trace.jsonl")
	trace.Trace.TimeUnit = "s"
	for _, test := range []struct {
		name string
		w    probes.Workload
		want []outline
	}{
		{"mooncake", mooncake, []outline{
			{0, 40, 5, "client", ""}, {3000 * ms, 48, 6, "client", ""}, {3000 * ms, 20, 7, "client", ""}, {6000 * ms, 60, 8, "client", ""}}},
		{"slowed down, long rows left out", slow, []outline{
			{0, 40, 5, "client", ""}, {4500 * ms, 48, 6, "client", ""}, {4500 * ms, 20, 7, "client", ""}}},
		{"rounds", rounds, []outline{
			{0, 40, 5, "client", "row0"}, {0, 40 + 5 + 64, 5, "approx", "row0"},
			{3000 * ms, 48, 6, "client", "row1"}, {3000 * ms, 48 + 6 + 64, 6, "approx", "row1"},
			{3000 * ms, 20, 7, "client", "row2"}, {3000 * ms, 20 + 7 + 64, 7, "approx", "row2"},
			{6000 * ms, 60, 8, "client", "row3"}, {6000 * ms, 60 + 8 + 64, 8, "approx", "row3"}}},
		{"a row without an answer's length is a failure", fileWorkload(BurstGPT, "testdata/burstgpt1.csv"), []outline{
			{0, 30, 18, "client", ""}, {113000 * ms, 25, 10, "client", ""}}},
		{"columns by name", fileWorkload(BurstGPT, "testdata/burstgpt2.csv"), []outline{
			{0, 30, 18, "client", "s1"}, {1750 * ms, 44, 11, "client", "s1"}}},
		{"times without a zone", fileWorkload(Azure, "testdata/azure2023.csv"), []outline{
			{0, 48, 10, "client", ""}, {52 * ms, 39, 6, "client", ""}}},
		{"times with a zone", fixed, []outline{{0, 24, 3, "client", ""}, {1000 * ms, 22, 3, "client", ""}}},
		// A head is 13 words and a line break; the fake tokenizer counts words,
		// punctuation and what stands around a prompt.
		{"own traffic", trace, []outline{
			{0, 2 + 13 + 1 + 6, 9, "client", "a"}, {500 * ms, 13 + 1 + 3 + 4, 7, "approx", "a"},
			{1250 * ms, 33, 4, "client", "12"}, {2750 * ms, 2 + 13 + 1 + 6, 64, "client", ""}}},
	} {
		o := chatOptions(&fakeTokenizer{before: []int{1}, after: []int{2}})
		got := outlines(all(t, mustOpen(t, test.w, o)))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Texts, roles and sampling of own traffic arrive as they were written, behind a head.
func TestTraceKeepsWhatWasAsked(t *testing.T) {
	w := fileWorkload(TraceRows, "testdata/trace.jsonl")
	w.Trace.TimeUnit = "s"
	w.Sampling = probes.Sampling{Stream: true, ExtraBody: map[string]any{"top_k": 1.0, "seed": 3.0}}
	o := chatOptions(&fakeTokenizer{})
	o.Salt = ""
	got := all(t, mustOpen(t, w, o))
	if got[0].Prompt != "Which river flows through Vienna?" || got[0].Messages != nil {
		t.Errorf("prompt %q, messages %v", got[0].Prompt, got[0].Messages)
	}
	want := []probes.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "And through Paris?"}}
	if diff := cmp.Diff(want, got[1].Messages); diff != "" || got[1].Prompt != "" {
		t.Errorf("prompt %q, messages (-want +got):\n%s", got[1].Prompt, diff)
	}
	sampling := probes.Sampling{Stream: true, Temperature: 0.7, LoRA: "sql", ExtraBody: map[string]any{"top_k": 5.0, "seed": 3.0}}
	if diff := cmp.Diff(sampling, got[1].Sampling); diff != "" {
		t.Errorf("sampling (-want +got):\n%s", diff)
	}
	if p, _ := got[3].Sampling.TopP.Get(); p != 0.5 || got[3].Sampling.ExtraBody["top_k"] != 1.0 {
		t.Errorf("sampling of the last row: %+v", got[3].Sampling)
	}
	o.Salt = "s1"
	for i, r := range all(t, mustOpen(t, w, o)) {
		text := r.Prompt
		if r.Messages != nil {
			text = r.Messages[0].Content
		}
		_, rest, _ := strings.Cut(text, headBreak)
		if wantText := []string{"Which river flows through Vienna?", "Be brief.", "", "No length is written here."}[i]; rest != wantText {
			t.Errorf("row %d: %q behind the head, want %q", i, rest, wantText)
		}
	}
}

func TestCustomRowsInTheirOrder(t *testing.T) {
	w := fileWorkload(Custom, "testdata/custom.jsonl")
	w.Cache = probes.CacheCold
	o := chatOptions(&fakeTokenizer{})
	o.Timed, o.Salt = false, ""
	got := all(t, mustOpen(t, w, o))
	want := []outline{{-1, 6, 12, "client", ""}, {-1, 7, 5, "client", ""}, {-1, 7, 64, "client", ""}}
	if diff := cmp.Diff(want, outlines(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[1].Prompt != "Hi there, who are you?" {
		t.Errorf("prompt %q", got[1].Prompt)
	}
}

// Prompts share exactly the leading blocks that their hash ids share, in every
// tokenizer, and no two salted runs share any.
func TestBlocksShareWhatTheirIDsShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tok := &fakeTokenizer{
			before: rapid.SliceOfN(rapid.IntRange(1, 9), 0, 4).Draw(rt, "before"),
			after:  rapid.SliceOfN(rapid.IntRange(1, 9), 0, 4).Draw(rt, "after"),
		}
		const block = 32
		w := fileWorkload(Mooncake, "")
		w.Trace.BlockTokens = block
		w.TokenIDs = rapid.Bool().Draw(rt, "ids")
		var lines strings.Builder
		var chains [][]int
		parents := [][]int{nil}
		for i := range rapid.IntRange(2, 8).Draw(rt, "rows") {
			// Ids name the whole chain up to them, as a trace's do.
			ids := append([]int{}, rapid.SampledFrom(parents).Draw(rt, "parent")...)
			for range rapid.IntRange(1, 3).Draw(rt, "blocks") {
				ids = append(ids, 100*i+len(ids)+1)
			}
			parents = append(parents, ids)
			chains = append(chains, ids)
			input := block*(len(ids)-1) + rapid.IntRange(9, block).Draw(rt, "rest")
			if input < 20 {
				input = 20
			}
			fmt.Fprintf(&lines, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":3,\"hash_ids\":%s}\n", i, input, strings.ReplaceAll(fmt.Sprint(ids), " ", ","))
		}
		w.Path = write(t, lines.String())
		o := chatOptions(tok)
		o.Count = len(chains)
		ids := func(salt string) (out [][]int) {
			o.Salt = salt
			for _, r := range all(t, mustOpen(t, w, o)) {
				text := r.TokenIDs
				if !w.TokenIDs {
					text, _ = tok.Tokenize(t.Context(), r.Prompt)
				}
				if len(text) != r.InputTokens {
					rt.Fatalf("%s has %d tokens, the request says %d", r.ID, len(text), r.InputTokens)
				}
				out = append(out, text)
			}
			return out
		}
		first, second := ids("one"), ids("two")
		for i := range first {
			for j := range first {
				if n := common(first[i][:min(16, len(first[i]))], second[j]); n == 16 {
					rt.Fatalf("rows %d and %d of two runs share their first block", i, j)
				}
				if i == j {
					continue
				}
				want := common(chains[i], chains[j]) * block
				got := common(first[i], first[j])
				// The end of a shorter prompt may cut a shared block.
				shortest := min(len(first[i]), len(first[j])) - len(tok.after)
				if got < min(want, shortest) || got > want+block/2 && want < shortest {
					rt.Fatalf("rows %d and %d share %d tokens, their ids %d", i, j, got, want)
				}
			}
		}
	})
}

func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Where no conversation can be sent, a later round of a session is the earlier one and
// more.
func TestRoundsExtendTheConversation(t *testing.T) {
	w := fileWorkload(Mooncake, "testdata/mooncake.jsonl")
	w.Trace.BlockTokens, w.Trace.Rounds = 16, 3
	o := chatOptions(&fakeTokenizer{})
	o.AcceptsMessages = false
	got := all(t, mustOpen(t, w, o))
	if len(got) != 12 {
		t.Fatalf("%d requests, want 12", len(got))
	}
	for i, r := range got {
		if i%3 > 0 && !strings.HasPrefix(r.Prompt, got[i-1].Prompt) {
			t.Errorf("round %d of %s does not begin like the one before", i%3+1, r.Session)
		}
	}
}

// Where one can, a later round is a question of its own, for whoever has the answers to
// put behind them. The first one is the prompt that a session of one round has.
func TestRoundsAreAConversation(t *testing.T) {
	w := fileWorkload(Mooncake, "testdata/mooncake.jsonl")
	w.Trace.BlockTokens = 16
	tok := &fakeTokenizer{before: []int{1}}
	single := all(t, mustOpen(t, w, chatOptions(tok)))
	w.Trace.Rounds = 3
	s := mustOpen(t, w, chatOptions(tok))
	untimed := chatOptions(tok)
	untimed.Timed = false
	if other := mustOpen(t, w, untimed); other.Version() == s.Version() {
		t.Error("a conversation and prompts of its length have one version")
	}
	questions := map[string]bool{}
	for i, r := range all(t, s) {
		row, turn := i/3, i%3+1
		if r.Turn != turn || r.Turns != 3 || r.KeepText != (turn < 3) || len(r.Messages) != 1 || r.Messages[0].Role != "user" || r.Prompt != "" {
			t.Fatalf("request %d: turn %d of %d, keeps its answer %v, messages %+v", i, r.Turn, r.Turns, r.KeepText, r.Messages)
		}
		text := r.Messages[0].Content
		if turn == 1 {
			if text != single[row].Prompt || r.InputTokens != single[row].InputTokens {
				t.Errorf("row %d: the first turn is not the prompt of a single round", row)
			}
			continue
		}
		if n := tok.count(text); n != followUpTokens || questions[text] {
			t.Errorf("request %d: a question of %d tokens, seen before: %v; want %d new ones", i, n, questions[text], followUpTokens)
		}
		questions[text] = true
	}
}

// Rows with a text: in a shared workload those that begin alike get one head, and no
// others; in a cold one every row has its own; salts change all of them.
func TestHeadsOfTexts(t *testing.T) {
	long := strings.Repeat("The same instructions for everybody. ", 4)
	w := fileWorkload(Custom, write(t, fmt.Sprintf("{\"prompt\":%q}\n{\"prompt\":%q}\n{\"prompt\":\"Something else.\"}\n", long+"First?", long+"Second?")))
	heads := func(class probes.CacheClass, salt string) (out [3]string) {
		w.Cache = class
		o := chatOptions(&fakeTokenizer{})
		o.Timed, o.Salt = false, salt
		for i, r := range all(t, mustOpen(t, w, o)) {
			out[i], _, _ = strings.Cut(r.Prompt, headBreak)
		}
		return out
	}
	shared, again, cold := heads(probes.CacheShared, "x"), heads(probes.CacheShared, "y"), heads(probes.CacheCold, "x")
	if shared[0] != shared[1] || shared[0] == shared[2] {
		t.Errorf("shared: heads %q", shared)
	}
	if cold[0] == cold[1] || cold[0] == cold[2] || cold[1] == cold[2] {
		t.Errorf("cold: heads %q", cold)
	}
	for i := range shared {
		if shared[i] == again[i] {
			t.Errorf("two runs begin row %d alike: %q", i, shared[i])
		}
	}
	if warm := heads(probes.CacheWarm, ""); warm[0] == warm[2] || strings.Contains(warm[2], opener+" ") {
		t.Errorf("warm: %q", warm)
	}
}

// Warm-up prompts have the lengths of the trace and none of its prompts.
func TestWarmupOfATraceHasItsLengths(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1}}
	w := fileWorkload(Mooncake, "testdata/mooncake.jsonl")
	w.Trace.BlockTokens = 16
	s := mustOpen(t, w, chatOptions(tok))
	measured := map[string]bool{}
	_, warm := take(t, s, 0, 6)
	for _, r := range all(t, s) {
		measured[firstBlock(t, tok, r)] = true
	}
	want := [][2]int{{40, 5}, {48, 6}, {20, 7}, {60, 8}, {40, 5}, {48, 6}}
	if diff := cmp.Diff(want, lengths(warm)); diff != "" {
		t.Errorf("lengths (-want +got):\n%s", diff)
	}
	for _, r := range warm {
		if !r.Warmup || measured[firstBlock(t, tok, r)] || tok.count(r.Prompt) != r.InputTokens {
			t.Errorf("%s begins like a measured prompt, or has %d tokens instead of %d", r.ID, tok.count(r.Prompt), r.InputTokens)
		}
	}
}

func TestBadRows(t *testing.T) {
	good := `{"timestamp":10,"input_length":20,"output_length":3}` + "\n"
	for _, test := range []struct{ row, want string }{
		{`{"timestamp":11,`, "unexpected end of JSON input"},
		{`{"timestamp":11}`, "has none of prompt, messages, conversations, text_input and input_length"},
		{`{"timestamp":9,"input_length":20,"output_length":3}`, "timestamp: goes back by 1s; sort the file by time"},
		{`{"input_length":20,"output_length":3}`, "timestamp: missing, a replay needs one in every row"},
		{`{"timestamp":"yesterday","input_length":20}`, `timestamp: "yesterday" is not a time such as`},
		{`{"timestamp":1e300,"input_length":20}`, `timestamp: "1e300" is out of range; is the unit right?`},
		{`{"timestamp":11,"input_length":0}`, "input_length: 0 is not from 1 to"},
		{`{"timestamp":11,"input_length":20,"output_length":-1}`, "output_length: -1 is not from 1 to"},
		{`{"timestamp":11,"input_length":512,"hash_ids":[1,2],"output_length":3}`, "hash_ids: 2 blocks of 512 tokens are more than an input_length of 512; is block_tokens right?"},
		{`{"timestamp":11,"prompt":""}`, "its prompt is empty"},
		{`{"timestamp":11,"messages":[]}`, "messages: is empty"},
		{`{"timestamp":11,"messages":[{"content":"x"}]}`, "messages[0]: has no role"},
		{`{"timestamp":11,"messages":[{"role":"user","content":[{"type":"audio"}]}]}`, `messages[0].content: part of type "audio" cannot be sent`},
		{`{"timestamp":11,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`, "an image must be a data URL"},
		{`{"timestamp":11,"prompt":"x","temperature":-1}`, "temperature: -1 is negative"},
		{`{"timestamp":11,"prompt":"x","top_p":2}`, "top_p: 2 is outside 0 (exclusive) to 1"},
		{`{"timestamp":11,"prompt":"x","extra_body":{"stream":false}}`, "extra_body: stream cannot be set by a row"},
	} {
		w := fileWorkload(TraceRows, write(t, good+test.row+"\n"+`{"timestamp":12,"input_length":30,"output_length":4}`+"\n"))
		w.Trace.TimeUnit = "s"
		_, err := Open(t.Context(), w, chatOptions(&fakeTokenizer{}))
		if where := fmt.Sprintf("read %s:2: ", w.Path); err == nil || !strings.Contains(err.Error(), where+test.want) && !(strings.Contains(err.Error(), where) && strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s:\n got %v\nwant %s%s", test.row, err, where, test.want)
			continue
		}
		w.SkipBadRows = true
		s := mustOpen(t, w, chatOptions(&fakeTokenizer{}))
		if got := lengths(all(t, s)); !cmp.Equal(got, [][2]int{{20, 3}, {30, 4}}) || s.Skipped() != 1 {
			t.Errorf("%s: skipping gave %v, %d skipped", test.row, got, s.Skipped())
		}
	}
}

// A row that only shows to be bad while the run goes on ends the source with its place.
func TestBadRowLaterOn(t *testing.T) {
	text := strings.Repeat(`{"timestamp":1,"input_length":20,"output_length":3}`+"\n", 50) + "broken\n"
	w := fileWorkload(Mooncake, write(t, text))
	s := mustOpen(t, w, chatOptions(&fakeTokenizer{}))
	take(t, s, 50, 0)
	if _, ok := s.Next(); ok {
		t.Fatal("Next gave a request for a broken row")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), w.Path+":51: ") {
		t.Errorf("Err() = %v, want the file and line 51", err)
	}
}

func TestRowFilesThatCannotBeOpened(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct {
		name, want string
		w          probes.Workload
		o          Options
	}{
		{"no file", "path: ", fileWorkload(Mooncake, "/nope"), chatOptions(nil)},
		{"an empty file", "holds no row that can be used (0 were skipped)", fileWorkload(Mooncake, write(t, "\n")), chatOptions(nil)},
		{"an empty CSV file", "is empty", fileWorkload(Azure, write(t, "")), chatOptions(nil)},
		{"another CSV file", `:1: the first line has no column "TIMESTAMP"`, fileWorkload(Azure, "testdata/burstgpt1.csv"), chatOptions(nil)},
		{"short lines", ":2: has 2 columns, the first line 3", fileWorkload(Azure, write(t, "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\n")), chatOptions(nil)},
		{"broken numbers", `:2: ContextTokens: "x" is not a number of tokens`, fileWorkload(Azure, write(t, "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,x,2\n")), chatOptions(nil)},
		{"no unit", "timestamp: 1700000000.25 is a number; say with time_unit", fileWorkload(TraceRows, "testdata/trace.jsonl"), chatOptions(nil)},
		{"a folder without the trace", filepath.Join(folder, "conversation_trace.jsonl"), fileWorkload(Mooncake, folder), chatOptions(nil)},
		{"a folder", "is a folder, name a file", fileWorkload(Custom, folder), chatOptions(nil)},
	} {
		if _, err := Open(t.Context(), test.w, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	w := fileWorkload(TraceRows, "testdata/trace.jsonl")
	w.Trace.TimeUnit = "s"
	o := chatOptions(nil)
	o.AcceptsMessages = false
	if _, err := Open(t.Context(), w, o); err == nil || !strings.Contains(err.Error(), "trace.jsonl:2: messages: the target's backend takes one prompt and no conversation") {
		t.Errorf("messages for a text backend: %v", err)
	}
}

// Lengths of more rows than the file has are said to be missing.
func TestShortFile(t *testing.T) {
	o := chatOptions(nil)
	o.Count = 10
	if s := mustOpen(t, fileWorkload(BurstGPT, "testdata/burstgpt2.csv"), o); s.Short() != 8 {
		t.Errorf("Short() = %d, want 8", s.Short())
	}
}

// The folder of the public traces holds one file for each name.
func TestMooncakeFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "toolagent_trace.jsonl"), []byte(`{"timestamp":0,"input_length":20,"output_length":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := fileWorkload(Mooncake, folder)
	w.Trace.Name = "toolagent"
	if got := all(t, mustOpen(t, w, chatOptions(nil))); len(got) != 1 {
		t.Errorf("%d requests, want 1", len(got))
	}
}

// Reading a row needs the same memory at the beginning and at the end of a long
// file: what is held does not grow with the rows.
func TestReadingNeedsBoundedMemory(t *testing.T) {
	held := func(rows int) uint64 {
		var text strings.Builder
		for i := range rows {
			fmt.Fprintf(&text, "{\"timestamp\":%d,\"input_length\":20,\"output_length\":3,\"hash_ids\":[%d]}\n", i, i)
		}
		w := fileWorkload(Mooncake, write(t, text.String()))
		text.Reset()
		s := mustOpen(t, w, chatOptions(nil))
		defer s.Close()
		n := 0
		for {
			if _, ok := s.Next(); !ok {
				break
			}
			n++
		}
		if n != rows || s.Err() != nil {
			t.Fatalf("%d of %d rows: %v", n, rows, s.Err())
		}
		runtime.GC()
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(s)
		return after.HeapAlloc
	}
	few, many := held(200), held(60_000)
	if many > few+256<<10 {
		t.Errorf("%d bytes are held after 200 rows, %d after 60000", few, many)
	}
}

// And what is allocated for a row does not depend on where it stands.
func TestAllocationsPerRow(t *testing.T) {
	row := `{"timestamp":5,"input_length":40,"output_length":3,"hash_ids":[7]}` + "\n"
	s := mustOpen(t, fileWorkload(Mooncake, write(t, strings.Repeat(row, 30_000))), chatOptions(nil))
	draw := func() {
		if _, ok := s.Next(); !ok {
			t.Fatal(s.Err())
		}
	}
	for range 10 * prepareRows { // small numbers in names need no memory
		draw()
	}
	early := testing.AllocsPerRun(100, draw)
	for range 25_000 {
		draw()
	}
	if late := testing.AllocsPerRun(100, draw); late != early {
		t.Errorf("%v allocations for an early row, %v for a late one", early, late)
	}
}

func TestNumberTime(t *testing.T) {
	for _, test := range []struct {
		text string
		unit time.Duration
		want time.Duration
	}{
		{"0", time.Second, 0}, {"27482", time.Millisecond, 27482 * time.Millisecond},
		{"1700000000.123456789", time.Second, 1700000000123456789}, {"1700000000123456789", time.Nanosecond, 1700000000123456789},
		{"1.5e3", time.Second, 1500 * time.Second}, {"-2.5", time.Second, -2500 * time.Millisecond}, {"0.001", time.Millisecond, time.Microsecond},
	} {
		if got, err := numberTime(test.text, test.unit); got != test.want || err != nil {
			t.Errorf("numberTime(%q, %v) = %v, %v, want %v", test.text, test.unit, got, err, test.want)
		}
	}
	for _, text := range []string{"", "x", "1700000000123456789", "NaN", "1.2.3", "1e400"} {
		if got, err := numberTime(text, time.Second); err == nil {
			t.Errorf("numberTime(%q) = %v, want an error", text, got)
		}
	}
}

func BenchmarkMooncakeRow(b *testing.B) {
	row := `{"timestamp":5,"input_length":6955,"output_length":52,"hash_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14]}` + "\n"
	w := fileWorkload(Mooncake, write(b, strings.Repeat(row, 20_000)))
	s := mustOpen(b, w, chatOptions(nil))
	b.ReportAllocs()
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		if _, ok := s.Next(); !ok {
			b.StopTimer()
			s = mustOpen(b, w, chatOptions(nil))
			b.StartTimer()
		}
	}
}
