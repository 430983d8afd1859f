package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTiktokenGolden lays the embedded encodings beside the Python package.
func TestTiktokenGolden(t *testing.T) {
	var g golden
	readJSON(t, "golden.json", &g)
	var want map[string][][]int
	readJSON(t, "tiktoken.json", &want)
	want["gpt2"] = want["r50k_base"]
	for _, name := range TiktokenNames() {
		t.Run(name, func(t *testing.T) {
			tok, err := Open(TiktokenPrefix + name)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range g.Texts {
				got, err := tok.Encode(text)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want[name][i]) {
					t.Errorf("Encode(%q) = %v, want %v", text, got, want[name][i])
				}
				if back, err := tok.Decode(got); err != nil || back != text {
					t.Errorf("Decode(Encode(%q)) = %q, %v", text, back, err)
				}
			}
		})
	}
}

// TestWhitespaceRun is an answer whose fifteen blanks are one token of the text, though
// the model may have written them one by one.
func TestWhitespaceRun(t *testing.T) {
	tok, err := Open(TiktokenPrefix + "cl100k_base")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tok.Count("a" + strings.Repeat(" ", 15) + "b"); err != nil || n != 3 {
		t.Errorf("Count = %d, %v, want 3", n, err)
	}
}

// TestByteLevelRoundTrip: what a byte-level tokenizer encodes, it decodes to the same.
func TestByteLevelRoundTrip(t *testing.T) {
	toks := map[string]*Tokenizer{"gpt2": open(t, "gpt2"), "deepseek": open(t, "deepseek"), "o200k": open(t, "o200k")}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		for name, tok := range toks {
			ids, err := tok.coder.encode(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tok.Decode(ids); err != nil || got != text {
				t.Fatalf("%s: Decode(%v) = %q, %v, want %q", name, ids, got, err, text)
			}
		}
	})
}

// TestScanAndOrderAgree: short and long words are merged by different code.
func TestScanAndOrderAgree(t *testing.T) {
	b := open(t, "gpt2").coder.(*pipeline).model.(*bpe)
	letters := rapid.SampledFrom([]string{"a", "t", "h", "e", " ", "r", "s", "o", "n", "é", "中"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(letters, 1, 200).Draw(t, "letters"), "")
		s := &scratch{}
		scanned := b.scan(b.symbols(nil, text), s)
		ordered := b.order(b.symbols(nil, text), s)
		if !slices.Equal(scanned, ordered) {
			t.Fatalf("scan(%q) = %v, order = %v", text, scanned, ordered)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	var g golden
	readJSON(t, "golden.json", &g)
	tok := open(t, "llama3")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, text := range g.Texts {
				if ids, err := tok.coder.encode([]int{}, text); err != nil || !slices.Equal(ids, g.Tokenizers["llama3"].Rows[i].IDs) {
					t.Errorf("encode(%q) = %v, %v", text, ids, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestOpenFileAndFolder(t *testing.T) {
	folder, err := Open("testdata/gpt2")
	if err != nil {
		t.Fatal(err)
	}
	file, err := Open("testdata/gpt2/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open("testdata/bert")
	if err != nil {
		t.Fatal(err)
	}
	if folder.Hash() != file.Hash() || folder.Hash() == other.Hash() || len(folder.Hash()) != 64 {
		t.Errorf("hashes %s, %s, other file %s", folder.Hash(), file.Hash(), other.Hash())
	}
	if template, err := folder.Template(); template != nil || err != nil {
		t.Errorf("Template = %v, %v, want none", template, err)
	}
}

func TestOpenErrors(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), fileName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name, open, want string
	}{
		{"missing", "testdata/nowhere", "nothing is downloaded"},
		{"folder without a file", t.TempDir(), "no such file"},
		{"tiktoken name", "tiktoken:cl100k", `unknown encoding "cl100k", known are cl100k_base, gpt2, o200k_base`},
		{"no json", write("{"), "unexpected end"},
		{"model", write(`{"model":{"type":"Magic"}}`), `model: unknown type "Magic", known are BPE`},
		{"normalizer", write(`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Wild"}]},"model":{"type":"BPE"}}`), `normalizer: unknown type "Wild"`},
		{"precompiled", write(`{"normalizer":{"type":"Precompiled"},"model":{"type":"BPE"}}`), "use tokenizer: server"},
		{"pre-tokenizer", write(`{"pre_tokenizer":{"type":"UnicodeScripts"},"model":{"type":"BPE"}}`), `pre_tokenizer: unknown type "UnicodeScripts"`},
		{"behavior", write(`{"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Eaten"},"model":{"type":"BPE"}}`), `unknown behavior "Eaten"`},
		{"regexp", write(`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Removed"},"model":{"type":"BPE"}}`), "compile pattern"},
		{"no pattern", write(`{"pre_tokenizer":{"type":"Split","behavior":"Removed"},"model":{"type":"BPE"}}`), "no pattern"},
		{"merge", write(`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`), "merges: entry 0"},
		{"merge form", write(`{"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}}`), "is not two tokens"},
		{"unknown token", write(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"?"}}`), `unk_token "?"`},
		{"unk id", write(`{"model":{"type":"Unigram","vocab":[["a",-1.5]],"unk_id":1}}`), "unk_id 1"},
		{"wordpiece", write(`{"model":{"type":"WordPiece","vocab":{"a":0}}}`), `unk_token "[UNK]"`},
		{"decoder", write(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"CTC"}}`), `decoder: unknown type "CTC"`},
		{"post-processor", write(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"post_processor":{"type":"Odd"}}`), `post_processor: unknown type "Odd"`},
		{"template without text", write(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"post_processor":{"type":"TemplateProcessing","single":[]}}`), "does not hold the text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(tt.open)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open(%q) = %v, want an error with %q", tt.open, err, tt.want)
			}
		})
	}
	if _, err := Open("testdata/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v does not say that there is no such file", err)
	}
}

func TestUnigramWithoutUnknown(t *testing.T) {
	tok, err := parse([]byte(`{"model":{"type":"Unigram","vocab":[["a",-1.5],["aa",-1]]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tok.Encode("aaa"); err != nil || !slices.Equal(got, []int{1, 0}) && !slices.Equal(got, []int{0, 1}) {
		t.Errorf("Encode(aaa) = %v, %v", got, err)
	}
	if _, err := tok.Encode("ab"); !errors.Is(err, errUnknownCharacter) {
		t.Errorf("Encode(ab) = %v, want %v", err, errUnknownCharacter)
	}
}

func TestDecodeUnknownID(t *testing.T) {
	for _, id := range []int{-1, 1 << 30} {
		if _, err := open(t, "gpt2").Decode([]int{id}); err == nil || !strings.Contains(err.Error(), "not in the vocabulary") {
			t.Errorf("Decode(%d) = %v", id, err)
		}
	}
}

// folder copies a tokenizer and puts files beside it.
func folder(t *testing.T, from string, files map[string]string) *Tokenizer {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", from, fileName))
	if err != nil {
		t.Fatal(err)
	}
	files = maps.Clone(files)
	files[fileName] = string(text)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestTemplateFiles(t *testing.T) {
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	const turn = "{{ bos_token }}[{{ messages[0].content }}]{{ eos_token }}"
	tests := []struct {
		name, tokenizer string
		files           map[string]string
		want            string
	}{
		{"entry of the config", "gpt2", map[string]string{configName: `{"chat_template":` + quoted(turn) + `,"eos_token":"<|endoftext|>"}`}, "[Hi]<|endoftext|>"},
		{"named entries", "gpt2", map[string]string{configName: `{"chat_template":[{"name":"tool_use","template":"no"},{"name":"default","template":` + quoted(turn) + `}]}`}, "[Hi]"},
		{"own file goes first", "gpt2", map[string]string{configName: `{"chat_template":"old","eos_token":{"content":"E"}}`, templateName: turn}, "[Hi]E"},
		{"own file alone", "gpt2", map[string]string{templateName: turn}, "[Hi]"},
		{"bos that the tokenizer adds", "llama3", map[string]string{configName: `{"bos_token":"<|begin|>"}`, templateName: turn}, "[Hi]"},
		{"bos that it does not add", "qwen", map[string]string{configName: `{"bos_token":"<|begin|>"}`, templateName: turn}, "<|begin|>[Hi]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			template, err := folder(t, tt.tokenizer, tt.files).Template()
			if err != nil || template == nil {
				t.Fatalf("Template = %v, %v", template, err)
			}
			if got, err := template.Render("Hi"); err != nil || got != tt.want {
				t.Errorf("Render = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestTemplateErrors: a bad template does not keep texts from being counted.
func TestTemplateErrors(t *testing.T) {
	tests := []struct{ name, file, content, want string }{
		{"syntax", templateName, "{% for %}", "compile chat template"},
		{"config", configName, "{", "read "},
		{"no default", configName, `{"chat_template":[{"name":"rag","template":"x"}]}`, `named "default"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tok := folder(t, "gpt2", map[string]string{tt.file: tt.content})
			if _, err := tok.Template(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Template = %v, want an error with %q", err, tt.want)
			}
			if n, err := tok.Count("dog"); err != nil || n == 0 {
				t.Errorf("Count = %d, %v", n, err)
			}
		})
	}
}

// TestOneBOS: a rendered prompt that is tokenized as a prompt begins with one BOS.
func TestOneBOS(t *testing.T) {
	tok := folder(t, "llama3", map[string]string{configName: `{"bos_token":"<|begin|>"}`, templateName: "{{ bos_token }}{{ messages[0].content }}"})
	template, err := tok.Template()
	if err != nil {
		t.Fatal(err)
	}
	text, err := template.Render("dog")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tok.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tok.Encode("dog")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
