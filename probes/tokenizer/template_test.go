package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type goldenTemplates struct {
	Texts     []string `json:"texts"`
	Templates map[string][]struct {
		Out   *string `json:"out"`
		Error string  `json:"error"`
	} `json:"templates"`
}

// TestTemplateGolden lays rendered prompts beside those of Jinja's reference, with the
// environment that transformers gives it.
func TestTemplateGolden(t *testing.T) {
	var g goldenTemplates
	readJSON(t, "chat/golden.json", &g)
	if len(g.Templates) != 7 {
		t.Fatalf("golden.json has %d templates, want 7", len(g.Templates))
	}
	config := configFile{BOS: json.RawMessage(`"<|begin|>"`), EOS: json.RawMessage(`{"content": "<|end|>", "lstrip": false}`), Pad: json.RawMessage(`null`)}
	for name, rows := range g.Templates {
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata", "chat", name+".jinja"))
			if err != nil {
				t.Fatal(err)
			}
			template, err := newTemplate(string(source), config)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range g.Texts {
				got, err := template.Render(text)
				switch want := rows[i]; {
				case want.Out == nil:
					if err == nil || !strings.Contains(err.Error(), want.Error) {
						t.Errorf("Render(%q) = %q, %v, want error %q", text, got, err, want.Error)
					}
				case err != nil || got != *want.Out:
					t.Errorf("Render(%q) = %q, %v, want %q", text, got, err, *want.Out)
				}
			}
		})
	}
}
