package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Template is a model's chat template. It is safe for concurrent use.
type Template struct {
	compiled *jinja.Template
	tokens   map[string]string // bos_token and its kind, by name
	// dropped is the token that the tokenizer puts before a text anyway.
	dropped string
}

// configFile is the part of a tokenizer_config.json that templates use.
type configFile struct {
	ChatTemplate json.RawMessage `json:"chat_template"`
	BOS          json.RawMessage `json:"bos_token"`
	EOS          json.RawMessage `json:"eos_token"`
	Pad          json.RawMessage `json:"pad_token"`
	Unk          json.RawMessage `json:"unk_token"`
}

// readTemplate reads the chat template of a folder: chat_template.jinja, else the
// entry of tokenizer_config.json. It is nil when there is none.
func readTemplate(dir string, t *Tokenizer) (*Template, error) {
	var config configFile
	path := filepath.Join(dir, configName)
	text, err := readBounded(path, maxConfigBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	source, err := config.template()
	if err != nil {
		return nil, fmt.Errorf("read %s: chat_template: %w", path, err)
	}
	switch file, err := readBounded(filepath.Join(dir, templateName), maxConfigBytes); {
	case err == nil:
		source = string(file)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if source == "" {
		return nil, nil
	}
	template, err := newTemplate(source, config)
	if err != nil {
		return nil, err
	}
	return template, template.dropLeading(t)
}

// template is the text of the entry: one template, or several of which "default" is
// the one for plain conversations.
func (c configFile) template() (string, error) {
	if len(c.ChatTemplate) == 0 {
		return "", nil
	}
	var one string
	if err := json.Unmarshal(c.ChatTemplate, &one); err == nil {
		return one, nil // null is none
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(c.ChatTemplate, &named); err != nil {
		return "", err
	}
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", errors.New(`none of the templates is named "default"`)
}

func newTemplate(source string, c configFile) (*Template, error) {
	// Jinja drops the line feed that ends a template's file.
	source = strings.TrimSuffix(strings.ReplaceAll(source, "\r\n", "\n"), "\n")
	compiled, err := jinja.Compile(source)
	if err != nil {
		return nil, fmt.Errorf("compile chat template: %w", err)
	}
	t := &Template{compiled: compiled, tokens: map[string]string{}}
	for name, raw := range map[string]json.RawMessage{"bos_token": c.BOS, "eos_token": c.EOS, "pad_token": c.Pad, "unk_token": c.Unk} {
		if token := tokenText(raw); token != "" {
			t.tokens[name] = token
		}
	}
	return t, nil
}

// tokenText reads "<s>" or {"content": "<s>"}; a token that is not set has no text.
func tokenText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var token struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(raw, &token) != nil {
		return ""
	}
	return token.Content
}

// dropLeading finds out whether a server that tokenizes a rendered prompt would put a
// second BOS before that of the template. Two are not what the model has learnt.
func (t *Template) dropLeading(tokenizer *Tokenizer) error {
	bos := t.tokens["bos_token"]
	if bos == "" || len(tokenizer.prefix) == 0 {
		return nil
	}
	ids, err := tokenizer.coder.encode(nil, bos)
	if err != nil {
		return fmt.Errorf("encode bos_token %q: %w", bos, err)
	}
	if len(ids) == 1 && ids[0] == tokenizer.prefix[0] {
		t.dropped = bos
	}
	return nil
}

// Render makes the prompt of one user message, ready for the answer. It has no BOS
// where the tokenizer adds one itself.
func (t *Template) Render(user string) (string, error) {
	data := map[string]any{
		"messages":              []any{map[string]any{"role": "user", "content": user}},
		"add_generation_prompt": true,
		"tools":                 nil,
		"documents":             nil,
	}
	for name, token := range t.tokens {
		data[name] = token
	}
	text, err := t.compiled.Render(data)
	if err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	return strings.TrimPrefix(text, t.dropped), nil
}
