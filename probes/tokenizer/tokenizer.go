package tokenizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// TiktokenPrefix stands before the name of a tiktoken encoding.
const TiktokenPrefix = probes.TiktokenPrefix

const (
	fileName       = "tokenizer.json"
	configName     = "tokenizer_config.json"
	templateName   = "chat_template.jinja"
	maxFileBytes   = 256 << 20 // the largest published ones have 35 MB
	maxConfigBytes = 16 << 20
)

// coder is one tokenizer without anything around a text.
type coder interface {
	// encode appends the ids of a text to dst.
	encode(dst []int, text string) ([]int, error)
	// decode gives the text of ids; special tokens have none.
	decode(ids []int) (string, error)
}

// Tokenizer encodes and decodes texts. It is safe for concurrent use.
type Tokenizer struct {
	coder          coder
	prefix, suffix []int // special tokens around a text
	hash           string
	template       *Template
	templateErr    error // of a template that is there and cannot be used
}

// Open makes the tokenizer of a name: tiktoken:NAME, the path of a tokenizer.json, or
// the folder that holds one. A chat template is read from the files beside it.
func Open(name string) (*Tokenizer, error) {
	if encoding, ok := strings.CutPrefix(name, TiktokenPrefix); ok {
		return openTiktoken(encoding)
	}
	t, err := openFile(name)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %w", err)
	}
	return t, nil
}

// Check reports a name that [Open] cannot use, as far as that can be told without
// reading the file.
func Check(name string) error {
	if encoding, ok := strings.CutPrefix(name, TiktokenPrefix); ok {
		return checkTiktoken(encoding)
	}
	_, err := File(name)
	return err
}

// File is the tokenizer.json of a path, which may be its folder.
func File(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, fileName)
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w; name a %s or its folder, %sNAME (%s), server or approx: nothing is downloaded",
			err, fileName, TiktokenPrefix, strings.Join(TiktokenNames(), ", "))
	}
	return path, err
}

func openFile(path string) (*Tokenizer, error) {
	path, err := File(path)
	if err != nil {
		return nil, err
	}
	text, err := readBounded(path, maxFileBytes)
	if err != nil {
		return nil, err
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	t.template, t.templateErr = readTemplate(filepath.Dir(path), t)
	return t, nil
}

// readBounded reads a file that is not larger than a limit, so that a wrong path
// (a model's weights) does not fill the memory.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("read %s: %d bytes are too many for such a file (limit %d)", path, info.Size(), limit)
	}
	return os.ReadFile(path)
}

// Encode gives the ids of a prompt, the special tokens that the model puts around a
// text included.
func (t *Tokenizer) Encode(text string) ([]int, error) {
	ids := make([]int, 0, len(t.prefix)+len(text)/3+len(t.suffix)+1)
	ids, err := t.coder.encode(append(ids, t.prefix...), text)
	if err != nil {
		return nil, fmt.Errorf("encode text: %w", err)
	}
	return append(ids, t.suffix...), nil
}

// Count is the number of tokens of a text, without special tokens around it.
func (t *Tokenizer) Count(text string) (int, error) {
	ids, err := t.coder.encode(make([]int, 0, len(text)/3+1), text)
	if err != nil {
		return 0, fmt.Errorf("encode text: %w", err)
	}
	return len(ids), nil
}

// Decode gives the text of ids. Special tokens have no text; bytes that are no UTF-8
// become U+FFFD.
func (t *Tokenizer) Decode(ids []int) (string, error) {
	text, err := t.coder.decode(ids)
	if err != nil {
		return "", fmt.Errorf("decode ids: %w", err)
	}
	return text, nil
}

// Tokenize is [Tokenizer.Encode] for callers that may as well ask a server.
func (t *Tokenizer) Tokenize(ctx context.Context, text string) ([]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return t.Encode(text)
}

// Detokenize is [Tokenizer.Decode] for callers that may as well ask a server.
func (t *Tokenizer) Detokenize(ctx context.Context, ids []int) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return t.Decode(ids)
}

// Hash identifies what the tokenizer does: the SHA-256 of its file, or its name where
// the tables are part of the binary.
func (t *Tokenizer) Hash() string { return t.hash }

// Template is the chat template beside the tokenizer's file, nil if there is none. A
// template that cannot be read is an error here and not in [Open]: counting a text
// does not need it.
func (t *Tokenizer) Template() (*Template, error) { return t.template, t.templateErr }

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
