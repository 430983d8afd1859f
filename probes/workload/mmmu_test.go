package workload

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/inferbeat/inferbeat/probes"
)

// fullRow has the columns of MMMU that matter here, and some that do not.
type fullRow struct {
	ID       string     `parquet:"id"`
	Question string     `parquet:"question"`
	Options  string     `parquet:"options"`
	Image1   *fullImage `parquet:"image_1,optional"`
	Image2   *fullImage `parquet:"image_2,optional"`
	Answer   string     `parquet:"answer"`
}

type fullImage struct {
	Bytes []byte `parquet:"bytes"`
	Path  string `parquet:"path"`
}

// questions writes a parquet file of n rows, each with an image of its own shade, PNG
// and JPEG in turn, one of them transparent; every fifth row has no image.
func questions(t *testing.T, n int) string {
	t.Helper()
	var rows []fullRow
	for i := range n {
		r := fullRow{ID: fmt.Sprint("test_Math_", i), Question: fmt.Sprintf("What is %d plus one? <image 1>", i), Options: "['1', '2']", Answer: "?"}
		if i%5 != 4 {
			img := image.NewNRGBA(image.Rect(0, 0, 128, 80))
			for p := range 128 * 80 {
				img.SetNRGBA(p%128, p/128, color.NRGBA{uint8(10 * i), 100, 50, 128})
			}
			var b bytes.Buffer
			if i%2 == 0 {
				_ = png.Encode(&b, img)
			} else {
				_ = jpeg.Encode(&b, img, nil)
			}
			r.Image1 = &fullImage{b.Bytes(), "x.png"}
		}
		rows = append(rows, r)
	}
	file := filepath.Join(t.TempDir(), "test-00000-of-00001.parquet")
	if err := parquet.WriteFile(file, rows); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMMMU(t *testing.T) {
	tok := &fakeTokenizer{before: []int{1}}
	w := probes.Workload{Name: "math", Dataset: MMMU, Path: questions(t, 20), OutputTokens: 30, Tokenizer: TokenizerServer, Cache: probes.CacheCold, Seed: 3}
	draw := func(salt string) []*probes.Request {
		s := mustOpen(t, w, Options{Tokenizer: tok, Salt: salt, RunID: "r", Count: 8, Warmup: 2, AcceptsImages: true})
		defer s.Close()
		_, warm := take(t, s, 0, 2)
		return append(all(t, s), warm...)
	}
	first, again, other, plain := draw("one"), draw("one"), draw("two"), draw("")
	if len(first) != 16 {
		t.Fatalf("%d requests, want the 16 rows with an image", len(first))
	}
	asked, marked := map[string]bool{}, map[string]bool{}
	for i, r := range first {
		if diff := cmp.Diff([]any{r.Prompt, r.Images}, []any{again[i].Prompt, again[i].Images}); diff != "" {
			t.Errorf("request %d is another one with the same salt:\n%s", i, diff)
		}
		head, text, _ := strings.Cut(r.Prompt, headBreak)
		if text != plain[i].Prompt || !strings.HasPrefix(text, "Question: What is ") || !strings.HasSuffix(text, " plus one? <image 1>\n\nAnswer: ") {
			t.Errorf("request %d asks %q, without a salt %q", i, text, plain[i].Prompt)
		}
		if otherHead, _, _ := strings.Cut(other[i].Prompt, headBreak); head == otherHead {
			t.Errorf("request %d begins alike in two runs: %q", i, head)
		}
		if i < 8 && (tok.count(r.Prompt) != r.InputTokens || r.InputSource != probes.TokensClient) || r.MaxOutputTokens != 30 {
			t.Errorf("request %d: %d tokens (%s), counted %d", i, r.InputTokens, r.InputSource, tok.count(r.Prompt))
		}
		asked[text] = true
		var n int
		if _, err := fmt.Sscanf(text, "Question: What is %d plus", &n); err != nil {
			t.Fatal(err)
		}
		img := decode(t, plain[i].Images[0])
		red, green, _, alpha := img.At(60, 60).RGBA()
		// JPEG has no transparency: the pixels were mixed with black when they were written.
		wantRed, wantGreen := uint32(10*n), uint32(100)
		if n%2 == 1 {
			wantRed, wantGreen = wantRed/2, wantGreen/2
		}
		if d := int(red>>8) - int(wantRed); alpha>>8 != 0xff || d < -3 || d > 3 || max(green>>8, wantGreen)-min(green>>8, wantGreen) > 3 {
			t.Errorf("question %d: pixel %d, %d, alpha %d, want %d, %d", n, red>>8, green>>8, alpha>>8, wantRed, wantGreen)
		}
		marked[mark(decode(t, r.Images[0]))] = true
		marked[mark(decode(t, other[i].Images[0]))] = true
	}
	if len(asked) != 16 || len(marked) != 32 {
		t.Errorf("%d different questions and %d different marks, want 16 and 32", len(asked), len(marked))
	}
}

func TestMMMUFilesThatCannotBeUsed(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare.parquet")
	if err := parquet.WriteFile(bare, []struct {
		Question string `parquet:"question"`
	}{{"x"}}); err != nil {
		t.Fatal(err)
	}
	cut := questions(t, 5)
	text, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	noImage := filepath.Join(t.TempDir(), "none.parquet")
	if err := parquet.WriteFile(noImage, []fullRow{{Question: "x"}}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"/nope": "path: ", "testdata/poem.txt": "is it a parquet file of MMMU?", cut: "is it a parquet file of MMMU?",
		bare: `has no column "image_1"`, noImage: "holds no row with an image",
	} {
		w := probes.Workload{Dataset: MMMU, Path: file, OutputTokens: 3}
		if _, err := Open(t.Context(), w, Options{AcceptsImages: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
