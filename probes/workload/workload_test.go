package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func randomWorkload() probes.Workload {
	return probes.Workload{
		Name: "chat", Dataset: Random, InputTokens: 64, OutputTokens: 32, RangeRatio: 0.25,
		Tokenizer: TokenizerServer, Cache: probes.CacheCold, Seed: 7,
	}
}

func mustOpen(t testing.TB, w probes.Workload, o Options) *Source {
	t.Helper()
	s, err := Open(t.Context(), w, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

// take draws n measured and m warm-up requests.
func take(t testing.TB, s *Source, n, m int) (measured, warm []*probes.Request) {
	t.Helper()
	for i := range n {
		r, ok := s.Next()
		if !ok {
			t.Fatalf("Next ended at %d of %d: %v", i, n, s.Err())
		}
		measured = append(measured, r)
	}
	for i := range m {
		r, ok := s.NextWarmup()
		if !ok {
			t.Fatalf("NextWarmup ended at %d of %d: %v", i, m, s.Err())
		}
		warm = append(warm, r)
	}
	return measured, warm
}

func lengths(requests []*probes.Request) (out [][2]int) {
	for _, r := range requests {
		out = append(out, [2]int{r.InputTokens, r.MaxOutputTokens})
	}
	return out
}

// firstBlock is the first 16 tokens of a prompt, special tokens and opener included.
func firstBlock(t *testing.T, tok *fakeTokenizer, r *probes.Request) string {
	t.Helper()
	ids := r.TokenIDs
	if ids == nil {
		var err error
		if ids, err = tok.Tokenize(t.Context(), r.Prompt); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprint(ids[:min(16, len(ids))])
}

func TestRandomPromptsHaveTheDrawnLengthForTheServer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tok := &fakeTokenizer{
			before: rapid.SliceOfN(rapid.IntRange(1, 9), 0, 30).Draw(rt, "before"),
			after:  rapid.SliceOfN(rapid.IntRange(1, 9), 0, 9).Draw(rt, "after"),
			split:  map[string]bool{},
		}
		for _, word := range ordinaryWords[:rapid.IntRange(0, 800).Draw(rt, "split words")] {
			tok.split[word] = true
		}
		w := randomWorkload()
		w.Seed = rapid.Int64().Draw(rt, "seed")
		w.InputTokens = rapid.IntRange(1, 300).Draw(rt, "input")
		w.OutputTokens = rapid.IntRange(1, 300).Draw(rt, "output")
		w.RangeRatio = rapid.Float64Range(0, 1).Draw(rt, "ratio")
		o := Options{
			Tokenizer: tok, Salt: rapid.String().Draw(rt, "salt"), RunID: "r",
			Count: rapid.IntRange(0, 90).Draw(rt, "count"), Warmup: rapid.IntRange(0, 5).Draw(rt, "warmup"),
		}
		s := mustOpen(t, w, o)
		if err := s.Inexact(); err != nil {
			rt.Fatalf("inexact: %v", err)
		}
		measured, warm := take(t, s, 100, 8)
		shortest := len(tok.before) + len(tok.after) + 1 // the opener alone
		low := max(int(float64(w.InputTokens)*w.RangeRatio), 1)
		for _, r := range append(measured, warm...) {
			if got := tok.count(r.Prompt); got != r.InputTokens {
				rt.Fatalf("%s: server counts %d tokens, request says %d", r.ID, got, r.InputTokens)
			}
			if r.InputTokens < max(low, shortest) || r.InputTokens > max(w.InputTokens, shortest) {
				rt.Fatalf("%s: %d input tokens, want %d to %d, at least %d", r.ID, r.InputTokens, low, w.InputTokens, shortest)
			}
			if lowOut := max(int(float64(w.OutputTokens)*w.RangeRatio), 1); r.MaxOutputTokens < lowOut || r.MaxOutputTokens > w.OutputTokens {
				rt.Fatalf("%s: %d output tokens, want %d to %d", r.ID, r.MaxOutputTokens, lowOut, w.OutputTokens)
			}
			if r.InputSource != probes.TokensClient {
				rt.Fatalf("%s: source %q, want client", r.ID, r.InputSource)
			}
		}
	})
}

func TestLengthsReachBothEndsAndAreUniform(t *testing.T) {
	const full, ratio, n = 8, 0.5, 50_000 // 4 to 8
	var counts [full + 1]float64
	for i := range n {
		counts[length(3, forInputLength, i, full, ratio)]++
	}
	chi2 := 0.0
	for l, c := range counts {
		if l < 4 {
			if c != 0 {
				t.Fatalf("length %d drawn %v times, want none below 4", l, c)
			}
			continue
		}
		chi2 += (c - n/5.0) * (c - n/5.0) / (n / 5.0)
	}
	if chi2 > 18.47 { // 4 degrees of freedom, p = 0.001; the draws are fixed
		t.Errorf("chi-squared of lengths %v is %.1f, want below 18.47", counts, chi2)
	}
	for _, c := range []struct {
		full  int
		ratio float64
		want  int
	}{{1, 0, 1}, {1, 1, 1}, {100, 1, 100}} {
		if got := length(1, forOutputLength, 0, c.full, c.ratio); got != c.want {
			t.Errorf("length(full %d, ratio %v) = %d, want %d", c.full, c.ratio, got, c.want)
		}
	}
}

// The first prompts of a seed are written down: if they change, every stored run
// of every workload has lost its comparison, and generatorVersion must change.
func TestTraceIsFrozen(t *testing.T) {
	w := randomWorkload()
	w.InputTokens, w.Tokenizer = 20, TokenizerApprox
	s := mustOpen(t, w, Options{RunID: "run", Count: 2, Warmup: 1})
	measured, warm := take(t, s, 2, 1)
	want := []*probes.Request{
		{ID: "run-0", Index: 0, InputTokens: 20, InputSource: probes.TokensApprox, MaxOutputTokens: 25,
			Prompt: "a unit wild north hear train edge police wrong few degree baby item sense born cost three queen first eight"},
		{ID: "run-1", Index: 1, InputTokens: 14, InputSource: probes.TokensApprox, MaxOutputTokens: 30,
			Prompt: "a until wild north hear train edge term dog sea easy like hat cell"},
		{ID: "run-w0", Index: 0, InputTokens: 18, InputSource: probes.TokensApprox, MaxOutputTokens: 22, Warmup: true,
			Prompt: "a under wild north hear train edge jump true summer love count buy mark same swim stone tell"},
	}
	if diff := cmp.Diff(want, append(measured, warm...)); diff != "" {
		t.Errorf("trace of seed 7 (-want +got):\n%s", diff)
	}
	ids := newIDTrace(probes.Workload{Dataset: RandomIDs, InputTokens: 16, OutputTokens: 1, RangeRatio: 1, Seed: 7}, "")
	p, _ := ids.prompt(3)
	if diff := cmp.Diff([]int{9311, 17410, 13606, 25894, 10476, 15541, 26370, 12971, 24342, 27387, 17367, 27090, 23181, 23182, 23183, 23184}, p.ids); diff != "" {
		t.Errorf("ids of seed 7, index 3 (-want +got):\n%s", diff)
	}
}

func TestSaltChangesTheHeadAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*probes.Workload)
		// rest cuts the salted head off a prompt.
		rest func(*probes.Request) string
	}{
		{"words", func(*probes.Workload) {}, func(r *probes.Request) string {
			return strings.Join(strings.Fields(r.Prompt)[min(1+headSize, r.InputTokens):], " ")
		}},
		{"word-ids", func(w *probes.Workload) { w.TokenIDs = true }, func(r *probes.Request) string {
			return fmt.Sprint(r.TokenIDs[min(2+headSize, len(r.TokenIDs)):])
		}},
		{"ids", func(w *probes.Workload) { w.Dataset, w.TokenIDs = RandomIDs, true }, func(r *probes.Request) string {
			return fmt.Sprint(r.TokenIDs[min(headSize, len(r.TokenIDs)):])
		}},
		{"ids-as-text", func(w *probes.Workload) { w.Dataset = RandomIDs }, func(r *probes.Request) string {
			_, rest, _ := strings.Cut(r.Prompt, "\n")
			return rest
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := randomWorkload()
			w.RangeRatio = 0.5 // all prompts are longer than their heads
			tc.edit(&w)
			tok := &fakeTokenizer{before: []int{1}}
			o := Options{Tokenizer: tok, AcceptsTokenIDs: true, Count: 50, Warmup: 10}
			blocks := map[string]string{}
			var first []*probes.Request
			for run, salt := range []string{"night-1", "night-2", "night-3"} {
				o.Salt, o.RunID = salt, salt
				measured, warm := take(t, mustOpen(t, w, o), 80, 15)
				all := append(measured, warm...)
				for _, r := range all {
					block := firstBlock(t, tok, r)
					if other, ok := blocks[block]; ok {
						t.Errorf("%s and %s begin with the same block %s", r.ID, other, block)
					}
					blocks[block] = r.ID
				}
				if run == 0 {
					first = all
					continue
				}
				if diff := cmp.Diff(lengths(first), lengths(all)); diff != "" {
					t.Errorf("lengths of %s differ from the first run's (-first +%s):\n%s", salt, salt, diff)
				}
				for i, r := range all {
					if got, want := tc.rest(r), tc.rest(first[i]); got != want || got == "" {
						t.Errorf("%s: body %q, want that of the first run %q", r.ID, got, want)
					}
				}
			}
			o.Salt, o.RunID = "night-1", "night-1"
			measured, warm := take(t, mustOpen(t, w, o), 80, 15)
			for i, r := range append(measured, warm...) {
				if r.Prompt != first[i].Prompt || !cmp.Equal(r.TokenIDs, first[i].TokenIDs) {
					t.Errorf("%s: the same salt gave another prompt", r.ID)
				}
			}
		})
	}
}

func TestPromptsDoNotDependOnHowManyAreAskedFor(t *testing.T) {
	w := randomWorkload()
	var want []*probes.Request
	for _, count := range []int{0, 1, 40, 200} {
		tok := &fakeTokenizer{before: []int{1}}
		got, _ := take(t, mustOpen(t, w, Options{Tokenizer: tok, Salt: "s", Count: count, Warmup: 3}), 210, 0)
		if want == nil {
			want = got
		}
		for i := range got {
			if got[i].Prompt != want[i].Prompt || got[i].MaxOutputTokens != want[i].MaxOutputTokens {
				t.Fatalf("count %d: request %d is not that of count 0", count, i)
			}
		}
	}
}

// A prompt of two words has few heads; they must all be used before one repeats.
func TestShortHeadsRepeatOnlyWhenThereAreNoMore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		radix := rapid.IntRange(2, 40000).Draw(rt, "radix")
		size := rapid.IntRange(1, headSize).Draw(rt, "size")
		s := newSalter(rapid.Int64().Draw(rt, "seed"), rapid.String().Draw(rt, "salt"))
		n := int(min(200, math.Pow(float64(radix), float64(size))))
		warmups := rapid.IntRange(0, n).Draw(rt, "warmups")
		seen := map[string]int{}
		for i := -warmups; i < n-warmups; i++ {
			head := make([]int, size)
			s.head(head, i, radix)
			for _, digit := range head {
				if digit < 0 || digit >= radix {
					rt.Fatalf("digit %d outside radix %d", digit, radix)
				}
			}
			key := fmt.Sprint(head)
			if other, ok := seen[key]; ok {
				rt.Fatalf("requests %d and %d share head %s", other, i, key)
			}
			seen[key] = i
		}
	})
}

func TestRandomIDs(t *testing.T) {
	w := probes.Workload{
		Dataset: RandomIDs, InputTokens: 500, OutputTokens: 3, RangeRatio: 0.5,
		TokenIDs: true, Seed: 1, VocabSize: 700,
	}
	for _, tc := range []struct{ vocab, low, high int }{
		{700, 256, 699}, {511, 0, 510}, {16, 0, 15}, {0, 256, DefaultVocabSize - 1},
	} {
		w.VocabSize = tc.vocab
		measured, warm := take(t, mustOpen(t, w, Options{AcceptsTokenIDs: true, Count: 20, RunID: "r"}), 30, 5)
		span := tc.high - tc.low + 1
		for _, r := range append(measured, warm...) {
			if len(r.TokenIDs) != r.InputTokens || r.InputTokens < 250 || r.InputTokens > 500 || r.Prompt != "" {
				t.Errorf("vocab %d, %s: %d ids, %d input tokens, prompt %q", tc.vocab, r.ID, len(r.TokenIDs), r.InputTokens, r.Prompt)
			}
			if r.InputSource != probes.TokensServer {
				t.Errorf("vocab %d, %s: source %q, want server", tc.vocab, r.ID, r.InputSource)
			}
			for j, id := range r.TokenIDs {
				if id < tc.low || id > tc.high {
					t.Fatalf("vocab %d, %s: id %d is %d, outside %d to %d", tc.vocab, r.ID, j, id, tc.low, tc.high)
				}
				if j > headSize && (id-tc.low) != (r.TokenIDs[j-1]-tc.low+1)%span {
					t.Fatalf("vocab %d, %s: id %d is %d after %d, want the next one", tc.vocab, r.ID, j, id, r.TokenIDs[j-1])
				}
			}
		}
	}
}

func TestRandomIDsAsTextAreExact(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1, 2}, after: []int{3}}
	w := probes.Workload{Dataset: RandomIDs, InputTokens: 120, OutputTokens: 9, RangeRatio: 0.01, Seed: 4}
	s := mustOpen(t, w, Options{Tokenizer: tok, Salt: "s", Count: 40})
	calls := tok.calls
	measured, warm := take(t, s, 100, 5)
	if tok.calls != calls {
		t.Errorf("%d calls while requests were drawn, want none", tok.calls-calls)
	}
	for _, r := range append(measured, warm...) {
		if got := tok.count(r.Prompt); got != r.InputTokens || r.InputSource != probes.TokensClient {
			t.Errorf("%s: server counts %d tokens, request says %d (%s)", r.ID, got, r.InputTokens, r.InputSource)
		}
	}
	for i, r := range measured[:40] {
		if want := max(length(4, forInputLength, i, 120, 0.01), 4); r.InputTokens != want {
			t.Errorf("request %d has %d tokens, want the drawn %d", i, r.InputTokens, want)
		}
	}
}

func TestWordsAsIDs(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1, 2}, after: []int{3}}
	w := randomWorkload()
	w.TokenIDs = true
	measured, _ := take(t, mustOpen(t, w, Options{Tokenizer: tok, AcceptsTokenIDs: true, Count: 5}), 10, 0)
	w.TokenIDs = false
	texts, _ := take(t, mustOpen(t, w, Options{Tokenizer: tok, Count: 5}), 10, 0)
	for i, r := range measured {
		want, err := tok.Tokenize(t.Context(), texts[i].Prompt)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.TokenIDs); diff != "" {
			t.Errorf("request %d: ids are not those of the text (-text +ids):\n%s", i, diff)
		}
		if r.InputTokens != len(want) || r.InputSource != probes.TokensServer {
			t.Errorf("request %d: %d tokens (%s), want %d (server)", i, r.InputTokens, r.InputSource, len(want))
		}
	}
}

func TestTokenizerCallsAreFew(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1}}
	w := randomWorkload()
	var learnt Calibrations
	for _, tc := range []struct {
		name          string
		count, warmup int
		want          int
	}{
		{"two to calibrate and one per prompt", 20, 4, 26},
		{"remembered: one per prompt", 40, 4, 44},
		{"trusted: one", 1000, 10, 1},
		{"trusted: one again", 5, 0, 1},
	} {
		before := tok.calls
		mustOpen(t, w, Options{Tokenizer: tok, Count: tc.count, Warmup: tc.warmup, Cache: &learnt})
		if got := tok.calls - before; got != tc.want {
			t.Errorf("%s: %d calls, want %d", tc.name, got, tc.want)
		}
	}
	before := tok.calls
	mustOpen(t, w, Options{Tokenizer: tok, Count: 1000})
	if got := tok.calls - before; got != 2+verifySample {
		t.Errorf("large run without memory: %d calls, want %d", got, 2+verifySample)
	}
}

func TestAnotherTokenizerIsNoticed(t *testing.T) {
	var learnt Calibrations
	w := randomWorkload()
	mustOpen(t, w, Options{Tokenizer: &fakeTokenizer{before: []int{1}}, Count: 64, Cache: &learnt})
	tok := &fakeTokenizer{before: []int{1, 2, 3}}
	measured, _ := take(t, mustOpen(t, w, Options{Tokenizer: tok, Count: 64, Cache: &learnt}), 64, 0)
	for _, r := range measured {
		if got := tok.count(r.Prompt); got != r.InputTokens || r.InputSource != probes.TokensClient {
			t.Errorf("%s: server counts %d, request says %d (%s)", r.ID, got, r.InputTokens, r.InputSource)
		}
	}
}

// A tokenizer that joins two words contradicts the rule that words add up. What was
// counted is corrected, what was not is marked.
func TestPromptsThatMissTheirLengthAreCorrectedOrMarked(t *testing.T) {
	w := randomWorkload()
	w.InputTokens, w.RangeRatio = 2000, 1
	for _, count := range []int{10, 200} {
		tok := &fakeTokenizer{before: []int{1}, glue: " able above"}
		// Shorten the list that is found, so that the pair is frequent.
		tok.split = map[string]bool{}
		for _, word := range ordinaryWords[20:] {
			tok.split[word] = true
		}
		s := mustOpen(t, w, Options{Tokenizer: tok, Count: count})
		if s.Inexact() == nil {
			t.Errorf("count %d: Inexact is nil, want the number of misses", count)
		}
		measured, _ := take(t, s, count, 0)
		exact := 0
		for _, r := range measured {
			if r.InputTokens != 2000 {
				t.Errorf("%s: %d input tokens, want 2000 in every run", r.ID, r.InputTokens)
			}
			if r.InputSource == probes.TokensClient {
				exact++
				if got := tok.count(r.Prompt); got != 2000 {
					t.Errorf("%s: claims an exact 2000, server counts %d", r.ID, got)
				}
			}
		}
		if want := min(count, verifySample); exact != want {
			t.Errorf("count %d: %d exact prompts, want the %d that were counted", count, exact, want)
		}
	}
}

func TestUnreachableTokenizerStillGivesRequests(t *testing.T) {
	w := randomWorkload()
	fresh := mustOpen(t, w, Options{Tokenizer: &fakeTokenizer{fail: errUnreachable}, Count: 3, RunID: "r"})
	if !errors.Is(fresh.Inexact(), errUnreachable) {
		t.Errorf("Inexact = %v, want %v", fresh.Inexact(), errUnreachable)
	}
	measured, _ := take(t, fresh, 3, 0)
	for _, r := range measured {
		if words := len(strings.Fields(r.Prompt)); r.InputSource != probes.TokensApprox || words != r.InputTokens {
			t.Errorf("%s: %d words, %d tokens (%s), want equal and approx", r.ID, words, r.InputTokens, r.InputSource)
		}
	}
	exact := mustOpen(t, w, Options{Tokenizer: &fakeTokenizer{}, Count: 3})
	if fresh.Version() == exact.Version() {
		t.Error("version of an estimated trace equals that of the exact one")
	}

	var learnt Calibrations
	mustOpen(t, w, Options{Tokenizer: &fakeTokenizer{before: []int{1}}, Count: 3, Cache: &learnt})
	remembered := mustOpen(t, w, Options{Tokenizer: &fakeTokenizer{fail: errUnreachable}, Count: 3, Cache: &learnt})
	if got, _ := remembered.Next(); got.InputSource != probes.TokensClient || remembered.Version() != exact.Version() {
		t.Errorf("with a remembered tokenizer: source %s, same version %t; want client, true",
			got.InputSource, remembered.Version() == exact.Version())
	}
	late := mustOpen(t, w, Options{Tokenizer: &fakeTokenizer{fail: errUnreachable, failFrom: 5}, Count: 9})
	measured, _ = take(t, late, 9, 0)
	for i, r := range measured {
		want := probes.TokensApprox
		if i < 3 {
			want = probes.TokensClient
		}
		if r.InputSource != want {
			t.Errorf("tokenizer lost after three prompts: request %d is %s, want %s", i, r.InputSource, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		edit func(*probes.Workload)
		opts Options
		want string
	}{
		{"cancelled", cancelled, func(*probes.Workload) {}, Options{Tokenizer: &fakeTokenizer{fail: context.Canceled}}, "context canceled"},
		{"ids as text without tokenizer", t.Context(), func(w *probes.Workload) { w.Dataset = RandomIDs }, Options{},
			"set token_ids: true or tokenizer: server"},
		{"ids as text without detokenizer", t.Context(), func(w *probes.Workload) { w.Dataset = RandomIDs },
			Options{Tokenizer: &fakeTokenizer{fail: errUnreachable, failFrom: 2}}, "decode random ids: connection refused; set token_ids"},
		{"ids to a chat backend", t.Context(), func(w *probes.Workload) { w.Dataset, w.TokenIDs = RandomIDs, true }, Options{},
			"token_ids: the target's backend cannot send token ids"},
		{"words as ids without tokenizer", t.Context(), func(w *probes.Workload) { w.TokenIDs = true },
			Options{AcceptsTokenIDs: true, Tokenizer: &fakeTokenizer{fail: errUnreachable}}, "calibrate tokenizer: connection refused"},
		{"invalid", t.Context(), func(w *probes.Workload) { w.InputTokens = 0 }, Options{}, "input_tokens: 0 is not a length"},
		{"no file", t.Context(), func(w *probes.Workload) { w.Dataset, w.Path = ShareGPT, "testdata/none.json" }, Options{},
			"path: open testdata/none.json"},
		{"extra body", t.Context(), func(w *probes.Workload) { w.Sampling.ExtraBody = map[string]any{"f": math.Inf(1)} }, Options{},
			"extra_body: json: unsupported value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := randomWorkload()
			tc.edit(&w)
			_, err := Open(tc.ctx, w, tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), `open workload "chat": `) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestVersionChangesWithWhatIsComparedOnly(t *testing.T) {
	base := mustOpen(t, randomWorkload(), Options{Tokenizer: &fakeTokenizer{}, Salt: "one", RunID: "a", Count: 1}).Version()
	if len(base) != 32 {
		t.Errorf("version %q has %d characters, want 32", base, len(base))
	}
	same := map[string]func(*probes.Workload, *Options){
		"salt":   func(_ *probes.Workload, o *Options) { o.Salt = "two" },
		"run id": func(_ *probes.Workload, o *Options) { o.RunID = "b" },
		"count":  func(_ *probes.Workload, o *Options) { o.Count = 9 },
		"name":   func(w *probes.Workload, _ *Options) { w.Name = "other" },
	}
	different := map[string]func(*probes.Workload, *Options){
		"seed":        func(w *probes.Workload, _ *Options) { w.Seed++ },
		"input":       func(w *probes.Workload, _ *Options) { w.InputTokens++ },
		"output":      func(w *probes.Workload, _ *Options) { w.OutputTokens++ },
		"ratio":       func(w *probes.Workload, _ *Options) { w.RangeRatio = 0.5 },
		"cache":       func(w *probes.Workload, _ *Options) { w.Cache = probes.CacheWarm },
		"temperature": func(w *probes.Workload, _ *Options) { w.Sampling.Temperature = 1 },
		"top p":       func(w *probes.Workload, _ *Options) { w.Sampling.TopP = probes.Known(0.9) },
		"extra body":  func(w *probes.Workload, _ *Options) { w.Sampling.ExtraBody = map[string]any{"top_k": 1} },
		"lora":        func(w *probes.Workload, _ *Options) { w.Sampling.LoRA = "x" },
		"tokenizer":   func(w *probes.Workload, _ *Options) { w.Tokenizer = TokenizerApprox },
		"dataset":     func(w *probes.Workload, _ *Options) { w.Dataset = RandomIDs },
	}
	open := func(edit func(*probes.Workload, *Options)) string {
		w, o := randomWorkload(), Options{Tokenizer: &fakeTokenizer{}, Salt: "one", RunID: "a", Count: 1}
		edit(&w, &o)
		return mustOpen(t, w, o).Version()
	}
	seen := map[string]string{base: "base"}
	for name, edit := range same {
		if got := open(edit); got != base {
			t.Errorf("another %s changed the version", name)
		}
	}
	for name, edit := range different {
		got := open(edit)
		if other, ok := seen[got]; ok {
			t.Errorf("another %s has the version of %s", name, other)
		}
		seen[got] = name
	}
}

func TestValidate(t *testing.T) {
	valid := randomWorkload()
	if err := Validate(valid); err != nil {
		t.Errorf("valid workload: %v", err)
	}
	w := probes.Workload{
		Dataset: Random, InputTokens: -1, RangeRatio: math.NaN(), Path: "x", VocabSize: 3, Tokenizer: "server", ApplyChatTemplate: true, Cache: "hot",
		Sampling: probes.Sampling{Temperature: -1, TopP: probes.Known(0.0), ExtraBody: map[string]any{"stream": false}},
	}
	want := `input_tokens: -1 is not a length, it must be at least 1
output_tokens: 0 is not a length, it must be at least 1
range_ratio: NaN is outside 0 to 1 (0.5 means lengths from half of the full one to the full one)
path: dataset random reads no file
vocab_size: 3 is too small, it must be at least 16
apply_chat_template: tokenizer "server" has no template here, set tokenizer to the path of a tokenizer.json with its tokenizer_config.json
cache: unknown "hot", use cold, warm or shared
temperature: -1 is not a number of at least 0
top_p: 0 is outside 0 (exclusive) to 1
extra_body: stream cannot be set here, use the workload's own stream option`
	if diff := cmp.Diff(want, fmt.Sprint(Validate(w))); diff != "" {
		t.Errorf("all mistakes of a random workload (-want +got):\n%s", diff)
	}
	w = probes.Workload{Dataset: ShareGPT, FixedOutputTokens: 3, ContextTokens: -1, TokenIDs: true}
	want = `path: missing, name the ShareGPT JSON file
fixed_output_tokens: 3 is too short, it must be at least 4
context_tokens: -1 is negative
token_ids: dataset sharegpt is sent as text only`
	if diff := cmp.Diff(want, fmt.Sprint(Validate(w))); diff != "" {
		t.Errorf("all mistakes of a sharegpt workload (-want +got):\n%s", diff)
	}
	for field, edit := range map[string]func(*probes.Workload){
		"dataset: unknown \"mmlu\"":        func(w *probes.Workload) { w.Dataset = "mmlu" },
		"token_ids: words cannot be sent":  func(w *probes.Workload) { w.TokenIDs, w.Tokenizer = true, TokenizerApprox },
		"tokenizer: ids cannot be sent as": func(w *probes.Workload) { w.Dataset, w.Tokenizer = RandomIDs, TokenizerApprox },
		"apply_chat_template: random ids are sent as they are": func(w *probes.Workload) {
			w.Dataset, w.TokenIDs, w.Tokenizer, w.ApplyChatTemplate = RandomIDs, true, "tokenizer.json", true
		},
		"apply_chat_template: tokenizer \"approx\"": func(w *probes.Workload) { w.Tokenizer, w.ApplyChatTemplate = TokenizerApprox, true },
		"range_ratio: 1.01 is outside":              func(w *probes.Workload) { w.RangeRatio = 1.01 },
	} {
		w := randomWorkload()
		edit(&w)
		if err := Validate(w); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("got %v, want %q", err, field)
		}
	}
}

func BenchmarkComposeWords(b *testing.B) {
	w := randomWorkload()
	w.InputTokens, w.RangeRatio, w.Tokenizer = 1024, 1, TokenizerApprox
	t, err := openWords(b.Context(), w, Options{Count: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		t.compose(5, 0)
	}
}

func BenchmarkComposeIDs(b *testing.B) {
	w := probes.Workload{Dataset: RandomIDs, InputTokens: 1024, OutputTokens: 1, RangeRatio: 1, TokenIDs: true}
	t := newIDTrace(w, "salt")
	b.ReportAllocs()
	for b.Loop() {
		t.prompt(5)
	}
}
