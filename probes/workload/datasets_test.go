package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func groupWorkload() probes.Workload {
	return probes.Workload{
		Name: "groups", Dataset: GeneratedSharedPrefix, Tokenizer: TokenizerServer, Cache: probes.CacheShared, Seed: 7,
		Groups: probes.Groups{Count: 4, PromptsOfEach: 5, SystemTokens: 48, QuestionTokens: 24, OutputTokens: 8, RangeRatio: 1},
	}
}

// Lengths are exact, a group's prompts share its system prompt and nothing more,
// and neither groups nor salted runs share a block.
func TestGroupsShareTheirSystemPrompt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tok := &fakeTokenizer{
			before: rapid.SliceOfN(rapid.IntRange(1, 9), 0, 3).Draw(rt, "before"),
			after:  rapid.SliceOfN(rapid.IntRange(1, 9), 0, 3).Draw(rt, "after"),
		}
		w := groupWorkload()
		w.Seed = rapid.Int64().Draw(rt, "seed")
		w.TokenIDs = rapid.Bool().Draw(rt, "ids")
		draw := func(salt string) (ids [][]int) {
			o := Options{Tokenizer: tok, Salt: salt, RunID: "r", Count: 20, AcceptsTokenIDs: true}
			s := mustOpen(t, w, o)
			for _, r := range all(t, s) {
				text := r.TokenIDs
				if !w.TokenIDs {
					text, _ = tok.Tokenize(t.Context(), r.Prompt)
				}
				if len(text) != 72 || r.InputTokens != 72 || r.MaxOutputTokens != 8 {
					rt.Fatalf("%s: %d tokens, request says %d and %d", r.ID, len(text), r.InputTokens, r.MaxOutputTokens)
				}
				ids = append(ids, text)
			}
			if len(ids) != 20 {
				rt.Fatalf("%d requests, want 20 whatever is asked", len(ids))
			}
			return ids
		}
		first, second := draw("one"), draw("two")
		members := map[string]int{}
		for i := range first {
			members[keyOf(first[i][:48])]++
			for j := range first {
				if common(first[i], second[j]) >= 16 {
					rt.Fatalf("requests %d and %d of two runs share a block", i, j)
				}
				switch n := common(first[i], first[j]); {
				case i == j:
				case n >= 48 && n > 56:
					rt.Fatalf("requests %d and %d share %d tokens, more than their system prompt", i, j, n)
				case n < 48 && n >= 16:
					rt.Fatalf("requests %d and %d of two groups share %d tokens", i, j, n)
				}
			}
		}
		for _, n := range members {
			if n != 5 || len(members) != 4 {
				rt.Fatalf("groups have %v members, want 4 of 5", members)
			}
		}
	})
}

func keyOf(ids []int) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteRune(rune(id))
	}
	return b.String()
}

// The lengths stay the same from run to run, the order is shuffled, and warm-up
// prompts belong to none of the groups.
// Ordered prompts are those of the shuffled ones, a group after the other.
func TestOrderedGroups(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1}}
	w := groupWorkload()
	open := func() []*probes.Request {
		return all(t, mustOpen(t, w, Options{Tokenizer: tok, Salt: "one", RunID: "r"}))
	}
	shuffled := open()
	w.Groups.Ordered = true
	ordered := open()
	var blocks []string
	seen := map[string]bool{}
	for _, r := range ordered {
		seen[r.Prompt] = true
		if b := firstBlock(t, tok, r); len(blocks) == 0 || b != blocks[len(blocks)-1] {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) != w.Groups.Count || len(ordered) != len(shuffled) {
		t.Errorf("the group changes %d times in %d prompts, want %d groups in a row", len(blocks), len(ordered), w.Groups.Count)
	}
	for _, r := range shuffled {
		if !seen[r.Prompt] {
			t.Errorf("prompt %s is not among the ordered ones", r.ID)
		}
	}
}

func TestGroupsAreOneTrace(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1}}
	w := groupWorkload()
	w.Groups.RangeRatio = 0.5
	open := func(salt string) *Source {
		return mustOpen(t, w, Options{Tokenizer: tok, Salt: salt, RunID: "r", Count: 30, Warmup: 3})
	}
	s := open("one")
	if s.Short() != 10 {
		t.Errorf("Short() = %d of 30 asked, want 10", s.Short())
	}
	_, warm := take(t, s, 0, 3)
	first, second := all(t, s), all(t, open("two"))
	if diff := cmp.Diff(lengths(first), lengths(second)); diff != "" {
		t.Errorf("lengths of two runs (-one +two):\n%s", diff)
	}
	blocks := map[string]bool{}
	for i, r := range first {
		if r.InputTokens < 24+12 || r.InputTokens > 72 || r.MaxOutputTokens < 4 || r.MaxOutputTokens > 8 || tok.count(r.Prompt) != r.InputTokens {
			t.Errorf("request %d: %d and %d tokens, counted %d", i, r.InputTokens, r.MaxOutputTokens, tok.count(r.Prompt))
		}
		blocks[firstBlock(t, tok, r)] = true
	}
	if len(blocks) != 4 {
		t.Errorf("%d first blocks, want one for each of 4 groups", len(blocks))
	}
	inOrder := true
	for i := 1; i < 5; i++ {
		inOrder = inOrder && firstBlock(t, tok, first[i]) == firstBlock(t, tok, first[0])
	}
	if inOrder {
		t.Error("the groups follow each other, want them shuffled")
	}
	for _, r := range warm {
		if blocks[firstBlock(t, tok, r)] {
			t.Errorf("warm-up request %s computes a measured prefix", r.ID)
		}
	}
}

// Group k of a Zipf law has a share proportional to 1/(k+1)^alpha.
func TestGroupsOfUnequalPopularity(t *testing.T) {
	w := groupWorkload()
	w.Groups.Count, w.Groups.PromptsOfEach, w.Groups.ZipfAlpha = 4, 10_000, 1.2
	g, err := openGroups(t.Context(), w, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var counts [4]float64
	for slot := range 40_000 {
		counts[g.group(slot)]++
	}
	sum := 0.0
	for k := range counts {
		sum += math.Pow(float64(k+1), -1.2)
	}
	for k, n := range counts {
		p := math.Pow(float64(k+1), -1.2) / sum
		if sigma := math.Sqrt(40_000 * p * (1 - p)); math.Abs(n-40_000*p) > 4*sigma {
			t.Errorf("group %d has %v prompts, want %.0f +- %.0f", k, n, 40_000*p, 4*sigma)
		}
	}
}

func imageWorkload(format, content string) probes.Workload {
	return probes.Workload{
		Name: "pictures", Dataset: Image, InputTokens: 40, OutputTokens: 8, RangeRatio: 1, Tokenizer: TokenizerServer, Cache: probes.CacheCold, Seed: 7,
		Images: probes.ImageShape{Count: 2, Resolution: "96x160", Format: format, Content: content},
	}
}

func decode(t *testing.T, i probes.Image) image.Image {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(i.Base64)
	if err != nil {
		t.Fatal(err)
	}
	img, format, err := image.Decode(bytes.NewReader(raw))
	if err != nil || "image/"+format != i.MediaType {
		t.Fatalf("decode %s: %s, %v", i.MediaType, format, err)
	}
	return img
}

// Images have the asked size, format and content, are the same for the same salt,
// and are told apart by every server that looks at them.
func TestImages(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1}}
	for _, format := range []string{FormatJPEG, FormatPNG} {
		for _, content := range []string{ContentRandom, ContentBlank} {
			w := imageWorkload(format, content)
			draw := func(salt string) []*probes.Request {
				s := mustOpen(t, w, Options{Tokenizer: tok, Salt: salt, RunID: "r", Count: 3, Warmup: 2, AcceptsImages: true})
				measured, warm := take(t, s, 5, 2) // two more than were prepared
				return append(measured, warm...)
			}
			first, again, other := draw("one"), draw("one"), draw("two")
			marks := map[string]bool{}
			for i, r := range first {
				if len(r.Images) != 2 || tok.count(r.Prompt) != 40 || r.InputTokens != 40 {
					t.Fatalf("%s %s: %d images, %d tokens", format, content, len(r.Images), r.InputTokens)
				}
				if diff := cmp.Diff(r.Images, again[i].Images); diff != "" {
					t.Errorf("%s %s: the same salt gives other images", format, content)
				}
				for _, pictures := range [][]probes.Image{r.Images, other[i].Images} {
					for _, picture := range pictures {
						img := decode(t, picture)
						if size := img.Bounds().Size(); size != (image.Point{160, 96}) {
							t.Fatalf("size %v, want height 96 and width 160", size)
						}
						if dark := darkShare(img); content == ContentBlank && dark > 0 || content == ContentRandom && dark < 0.2 {
							t.Errorf("%s %s: %.2f of the pixels below the marks are dark", format, content, dark)
						}
						marks[mark(img)] = true
					}
				}
			}
			if len(marks) != 2*2*len(first) {
				t.Errorf("%s %s: %d different marks in %d images", format, content, len(marks), 2*2*len(first))
			}
		}
	}
}

// mark reads the squares back, as coarse as a server may see them.
func mark(img image.Image) string {
	var b strings.Builder
	for i := range marks {
		columns := img.Bounds().Dx() / markSize
		r, _, _, _ := img.At(i%columns*markSize+4, i/columns*markSize+4).RGBA()
		b.WriteByte("01"[min(r>>8/0xe8, 1)])
	}
	return b.String()
}

func darkShare(img image.Image) float64 {
	dark, n := 0, 0
	for y := 40; y < img.Bounds().Dy(); y++ {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0x7000 {
				dark++
			}
			n++
		}
	}
	return float64(dark) / float64(n)
}

func TestResolution(t *testing.T) {
	for text, want := range map[string]image.Point{
		"4k": {3840, 2160}, "1080p": {1920, 1080}, "720p": {1280, 720}, "360p": {640, 360}, "512x768": {768, 512},
	} {
		if got, err := resolution(text); got != (sizes{want, want}) || err != nil {
			t.Errorf("resolution(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1080", "63x100", "100x9000", "1080P", "x", "-1x100", "random:64x64", "random:64x64-", "random:63x64-80x80", "random:80x64-64x80", "random:64x64-9000x80"} {
		if got, err := resolution(text); err == nil {
			t.Errorf("resolution(%q) = %v, want an error", text, got)
		}
	}
}

// The number of images and the sides of each are drawn, the same for every run of a
// workload, and reach both ends of what is asked for.
func TestImagesOfRandomNumberAndSize(t *testing.T) {
	w := imageWorkload(FormatPNG, ContentBlank)
	w.Images.Count, w.Images.RandomCount, w.Images.Resolution = 3, true, "random:64x65-66x65"
	s := mustOpen(t, w, Options{Salt: "one", RunID: "r", Count: 2, AcceptsImages: true})
	again := mustOpen(t, w, Options{Salt: "two", RunID: "r", Count: 40, AcceptsImages: true})
	first, _ := take(t, s, 40, 0)
	second, _ := take(t, again, 40, 0)
	counts, heights := map[int]int{}, map[int]int{}
	for i, r := range first {
		counts[len(r.Images)]++
		if len(r.Images) != len(second[i].Images) {
			t.Fatalf("request %d: %d images in one run and %d in the other", i, len(r.Images), len(second[i].Images))
		}
		for k, picture := range r.Images {
			size := decode(t, picture).Bounds().Size()
			if other := decode(t, second[i].Images[k]).Bounds().Size(); other != size || size.X != 65 {
				t.Fatalf("request %d, image %d: size %v and %v, want width 65 in both runs", i, k, size, other)
			}
			heights[size.Y]++
		}
	}
	for _, drawn := range []map[int]int{counts, heights} {
		if len(drawn) != 3 {
			t.Errorf("drawn %v, want each of three values", drawn)
		}
	}
	for k := 1; k <= 3; k++ {
		if counts[k] < 5 {
			t.Errorf("numbers of images %v, want each of 1 to 3 about a third of 40 times", counts)
		}
	}
	if counts[0]+counts[4]+heights[63]+heights[67] != 0 {
		t.Errorf("numbers %v, heights %v, want 1 to 3 and 64 to 66", counts, heights)
	}
}

func TestImagesNeedABackendForThem(t *testing.T) {
	_, err := Open(t.Context(), imageWorkload(FormatPNG, ContentBlank), Options{})
	if err == nil || !strings.Contains(err.Error(), "cannot send images") {
		t.Errorf("Open = %v", err)
	}
}

// Pieces of a text file have the drawn lengths for the server, whatever its tokenizer
// makes of the text, and every prompt a head of its own.
func TestTextPiecesHaveTheDrawnLength(t *testing.T) {
	w := probes.Workload{
		Name: "poem", Dataset: Text, Path: "testdata/poem.txt", InputTokens: 90, OutputTokens: 10, RangeRatio: 0.3,
		Tokenizer: TokenizerServer, Cache: probes.CacheCold, Seed: 5,
	}
	tok := &fakeTokenizer{before: []int{1}, after: []int{2, 3}}
	blocks := map[string]bool{}
	for _, salt := range []string{"one", "two"} {
		s := mustOpen(t, w, Options{Tokenizer: tok, Salt: salt, RunID: "r", Count: 20, Warmup: 3})
		if err := s.Inexact(); err != nil {
			t.Fatalf("inexact: %v", err)
		}
		measured, warm := take(t, s, 20, 3)
		for _, r := range append(measured, warm...) {
			if got := tok.count(r.Prompt); got != r.InputTokens || r.InputSource != probes.TokensClient {
				t.Errorf("%s: %d tokens, request says %d (%s)", r.ID, got, r.InputTokens, r.InputSource)
			}
			if r.InputTokens < 27 || r.InputTokens > 90 || r.MaxOutputTokens < 3 || r.MaxOutputTokens > 10 {
				t.Errorf("%s: %d and %d tokens", r.ID, r.InputTokens, r.MaxOutputTokens)
			}
			blocks[firstBlock(t, tok, r)] = true
		}
		if len(measured[0].Prompt) < 40 || !strings.ContainsAny(measured[0].Prompt, "FTBHÄ") {
			t.Errorf("prompt %q holds no line of the poem", measured[0].Prompt)
		}
		if late, _ := take(t, s, 5, 0); late[0].InputSource != probes.TokensApprox || late[0].Prompt == "" {
			t.Errorf("a prompt beyond the prepared ones: %+v", late[0])
		}
		s.Close()
	}
	if len(blocks) != 2*23 {
		t.Errorf("%d different first blocks in %d prompts", len(blocks), 2*23)
	}
}

// Two opens of every dataset give the same requests, and another salt the same
// lengths.
func TestDatasetsAreFrozen(t *testing.T) {
	mooncake := fileWorkload(Mooncake, "testdata/mooncake.jsonl")
	mooncake.Trace.BlockTokens = 16
	trace := fileWorkload(TraceRows, "testdata/trace.jsonl")
	trace.Trace.TimeUnit = "s"
	text := probes.Workload{Dataset: Text, Path: "testdata/poem.txt", InputTokens: 50, OutputTokens: 9, RangeRatio: 1, Tokenizer: TokenizerServer}
	custom := fileWorkload(Custom, "testdata/custom.jsonl")
	for _, w := range []probes.Workload{
		groupWorkload(), imageWorkload(FormatJPEG, ContentBlank), mooncake, trace, text, custom,
		fileWorkload(BurstGPT, "testdata/burstgpt2.csv"), fileWorkload(Azure, "testdata/azure2024.csv"),
	} {
		draw := func(salt string) []*probes.Request {
			o := chatOptions(&fakeTokenizer{before: []int{1}})
			o.Salt, o.Count, o.Timed = salt, 2, false
			got, _ := take(t, mustOpen(t, w, o), 2, 0)
			return got
		}
		first, again, other := draw("one"), draw("one"), draw("two")
		if diff := cmp.Diff(first, again, cmp.AllowUnexported(probes.Request{}.At, probes.Sampling{}.TopP)); diff != "" {
			t.Errorf("%s: two opens differ (-first +second):\n%s", w.Dataset, diff)
		}
		if diff := cmp.Diff(lengths(first), lengths(other)); diff != "" {
			t.Errorf("%s: another salt has other lengths:\n%s", w.Dataset, diff)
		}
	}
}

// The content of a file decides whether two workloads can be compared, not its name.
func TestVersionIsTheContent(t *testing.T) {
	text := `{"timestamp":0,"input_length":20,"output_length":3}` + "\n"
	version := func(text string, change func(*probes.Workload)) string {
		w := fileWorkload(Mooncake, write(t, text))
		change(&w)
		return mustOpen(t, w, chatOptions(nil)).Version()
	}
	same := func(*probes.Workload) {}
	base := version(text, same)
	if version(text, func(w *probes.Workload) { w.Trace.Name = "mooncake" }) != base {
		t.Error("a name changes the version")
	}
	for name, other := range map[string]string{
		"content":  version(text+text, same),
		"slowdown": version(text, func(w *probes.Workload) { w.Trace.Slowdown = 2 }),
		"rounds":   version(text, func(w *probes.Workload) { w.Trace.Rounds = 2 }),
	} {
		if other == base {
			t.Errorf("another %s has the same version", name)
		}
	}
	var files Files
	o := chatOptions(nil)
	o.Files = &files
	w := fileWorkload(Mooncake, write(t, text))
	first := mustOpen(t, w, o).Version()
	if again := mustOpen(t, w, o).Version(); first != base || again != base {
		t.Errorf("versions %s, %s with remembered hashes, want %s", first, again, base)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, fileWorkload(Mooncake, write(t, text)), chatOptions(nil)); err == nil {
		t.Error("Open goes on although the run was given up")
	}
}

func TestValidateDatasets(t *testing.T) {
	for _, test := range []struct {
		name   string
		base   probes.Workload
		change func(*probes.Workload)
		want   string
	}{
		{"cold groups", groupWorkload(), func(w *probes.Workload) { w.Cache = probes.CacheCold }, "cache: prompts of dataset generated-shared-prefix share prefixes on purpose, use shared or warm"},
		{"no groups", groupWorkload(), func(w *probes.Workload) { w.Groups.Count = 0 }, "gsp_num_groups: 0 is not from 1 to 16777216"},
		{"too many", groupWorkload(), func(w *probes.Workload) { w.Groups.Count, w.Groups.PromptsOfEach = 1<<20, 1<<20 }, "gsp_prompts_per_group: 1048576 groups of 1048576 are too many prompts"},
		{"ratio", groupWorkload(), func(w *probes.Workload) { w.Groups.RangeRatio = math.NaN() }, "gsp_range_ratio: NaN is outside 0 to 1"},
		{"alpha", groupWorkload(), func(w *probes.Workload) { w.Groups.ZipfAlpha = 11 }, "gsp_zipf_alpha: 11 is outside 0 to 10; 0 makes all groups equally popular"},
		{"a file", groupWorkload(), func(w *probes.Workload) { w.Path = "x" }, "path: dataset generated-shared-prefix reads no file"},
		{"format", imageWorkload("webp", ""), func(*probes.Workload) {}, `image_format: unknown "webp", use jpeg or png`},
		{"content", imageWorkload("", "cats"), func(*probes.Workload) {}, `image_content: unknown "cats", use random or blank`},
		{"count", imageWorkload("", ""), func(w *probes.Workload) { w.Images.Count = 65 }, "image_count: 65 is not from 1 to 64"},
		{"cold trace of hash ids", fileWorkload(Mooncake, "x"), func(w *probes.Workload) { w.Cache = probes.CacheCold }, "cache: prompts of dataset mooncake share prefixes on purpose, use shared or warm"},
		{"no file", fileWorkload(Azure, ""), func(*probes.Workload) {}, "path: missing, name the file of dataset azure"},
		{"unit of a known file", fileWorkload(Mooncake, "x"), func(w *probes.Workload) { w.Trace.TimeUnit = "s" }, "time_unit: has no effect on dataset mooncake, whose unit is known"},
		{"unit", fileWorkload(TraceRows, "x"), func(w *probes.Workload) { w.Trace.TimeUnit = "min" }, `time_unit: unknown "min", use one of ["s" "ms" "us" "ns"]`},
		{"slowdown", fileWorkload(Mooncake, "x"), func(w *probes.Workload) { w.Trace.Slowdown = -1 }, "mooncake_slowdown_factor: -1 is not a factor above 0, such as 2 for half the speed"},
		{"rounds of others", fileWorkload(Azure, "x"), func(w *probes.Workload) { w.Trace.Rounds = 2 }, "mooncake_num_rounds: has no effect on dataset azure"},
		{"name", fileWorkload(Mooncake, "x"), func(w *probes.Workload) { w.Trace.Name = "agent" }, `mooncake_workload: unknown "agent", use one of ["conversation" "mooncake" "toolagent" "synthetic"]`},
		{"blocks", fileWorkload(Mooncake, "x"), func(w *probes.Workload) { w.Trace.BlockTokens = 8 }, "block_tokens: 8 is too small, it must be at least 16"},
		{"ids of texts", fileWorkload(Custom, "x"), func(w *probes.Workload) { w.TokenIDs = true }, "token_ids: dataset custom is sent as text only"},
		{"url without a sum", fileWorkload(Custom, ""), func(w *probes.Workload) { w.URL = "https://h/x" }, "sha256: missing: nothing is fetched without a checksum"},
		{"sum without a url", fileWorkload(Custom, "x"), func(w *probes.Workload) { w.SHA256 = "00" }, "sha256: belongs to a url, which is missing"},
		{"short sum", fileWorkload(Custom, ""), func(w *probes.Workload) { w.URL, w.SHA256 = "http://h/x", "00" }, "sha256: must be 64 hexadecimal digits"},
		{"other schemes", fileWorkload(Custom, ""), func(w *probes.Workload) { w.URL, w.SHA256 = "s3://h/x", strings.Repeat("0", 64) }, "url: must start with http:// or https://"},
	} {
		w := test.base
		test.change(&w)
		if err := Validate(w); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	w := fileWorkload(ShareGPT, "")
	w.URL, w.SHA256 = "https://h/sharegpt.json", strings.Repeat("0A", 32)
	if err := Validate(w); err != nil {
		t.Errorf("a dataset with url and sum: %v", err)
	}
}
