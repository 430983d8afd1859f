package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type golden struct {
	Texts      []string `json:"texts"`
	Tokenizers map[string]struct {
		Rows   []goldenRow `json:"rows"`
		Noise  []goldenRow `json:"noise"`
		Around []int       `json:"around"`
		Dog    []int       `json:"dog"`
	} `json:"tokenizers"`
}

type goldenRow struct {
	IDs     []int  `json:"ids"`
	Decoded string `json:"decoded"`
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
}

func open(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestGolden lays the ids and the texts of every type of tokenizer beside those of the
// Python package.
func TestGolden(t *testing.T) {
	var g golden
	readJSON(t, "golden.json", &g)
	if len(g.Tokenizers) != 12 || len(g.Texts) < 100 {
		t.Fatalf("golden.json has %d tokenizers and %d texts", len(g.Tokenizers), len(g.Texts))
	}
	for name, want := range g.Tokenizers {
		t.Run(name, func(t *testing.T) {
			tok := open(t, name)
			for round := range 2 { // the second time words come from the cache
				for i, text := range g.Texts {
					ids, err := tok.coder.encode([]int{}, text)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want.Rows[i].IDs, ids); diff != "" {
						t.Errorf("round %d: encode(%q): (-want +got)\n%s", round, text, diff)
					}
					if n, err := tok.Count(text); err != nil || n != len(want.Rows[i].IDs) {
						t.Errorf("Count(%q) = %d, %v, want %d", text, n, err, len(want.Rows[i].IDs))
					}
				}
			}
			for _, row := range append(want.Rows, want.Noise...) {
				if got, err := tok.Decode(row.IDs); err != nil || got != row.Decoded {
					t.Errorf("Decode(%v) = %q, %v, want %q", row.IDs, got, err, row.Decoded)
				}
			}
			if got, err := tok.Encode("dog"); err != nil || !cmp.Equal(got, want.Around) {
				t.Errorf("Encode(dog) = %v, %v, want %v", got, err, want.Around)
			}
			if n, err := tok.Count("dog"); err != nil || n != len(want.Dog) {
				t.Errorf("Count(dog) = %d, %v, want %d", n, err, len(want.Dog))
			}
		})
	}
}

type goldenStages struct {
	Texts         []string `json:"texts"`
	PreTokenizers []struct {
		Stage  json.RawMessage `json:"stage"`
		Pieces [][]string      `json:"pieces"`
	} `json:"pre_tokenizers"`
	Normalizers []struct {
		Stage json.RawMessage `json:"stage"`
		Out   []string        `json:"out"`
	} `json:"normalizers"`
}

// TestStages lays single normalizers and pre-tokenizers beside the Python package.
func TestStages(t *testing.T) {
	var g goldenStages
	readJSON(t, "stages.json", &g)
	for _, want := range g.Normalizers {
		t.Run(string(want.Stage), func(t *testing.T) {
			var s stage
			if err := json.Unmarshal(want.Stage, &s); err != nil {
				t.Fatal(err)
			}
			n, err := newNormalizer(&s)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range g.Texts {
				if got := n(text); got != want.Out[i] {
					t.Errorf("normalize(%q) = %q, want %q", text, got, want.Out[i])
				}
			}
		})
	}
	for _, want := range g.PreTokenizers {
		t.Run(string(want.Stage), func(t *testing.T) {
			var s stage
			if err := json.Unmarshal(want.Stage, &s); err != nil {
				t.Fatal(err)
			}
			p, err := newSplitter(&s, false)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range g.Texts {
				pieces := []string{}
				if text != "" {
					if err := p.split(text, true, func(piece string, _ bool) error {
						pieces = append(pieces, piece)
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(want.Pieces[i], pieces); diff != "" {
					t.Errorf("split(%q): (-want +got)\n%s", text, diff)
				}
			}
		})
	}
}
