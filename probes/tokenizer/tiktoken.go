package tokenizer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// Patterns by which encodings cut texts into words.
const (
	cl100k = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200k  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// encoding is a table of tokens and a pattern. Its table is part of the binary.
type encoding struct{ table, pattern string }

var encodings = map[string]encoding{
	"gpt2":        {"r50k_base", gpt2}, // an older name
	"r50k_base":   {"r50k_base", gpt2},
	"p50k_base":   {"p50k_base", gpt2},
	"p50k_edit":   {"p50k_base", gpt2}, // differs in special tokens only
	"cl100k_base": {"cl100k_base", cl100k},
	"o200k_base":  {"o200k_base", o200k},
}

// TiktokenNames lists the encodings that [TiktokenPrefix] may stand before, sorted.
func TiktokenNames() []string { return slices.Sorted(maps.Keys(encodings)) }

func checkTiktoken(name string) error {
	if _, ok := encodings[name]; !ok {
		return fmt.Errorf("unknown encoding %q, known are %s", name, strings.Join(TiktokenNames(), ", "))
	}
	return nil
}

// openTiktoken makes an encoding's tokenizer. A text is ordinary as a whole: what looks
// like a special token is text, as for tiktoken's encode_ordinary.
func openTiktoken(name string) (*Tokenizer, error) {
	if err := checkTiktoken(name); err != nil {
		return nil, fmt.Errorf("open tokenizer %s%s: %w", TiktokenPrefix, name, err)
	}
	p, err := encodings[name].pipeline()
	if err != nil {
		return nil, fmt.Errorf("open tokenizer %s%s: %w", TiktokenPrefix, name, err)
	}
	return &Tokenizer{coder: p, hash: TiktokenPrefix + name}, nil
}

func (e encoding) pipeline() (*pipeline, error) {
	table, err := assets.Assets.ReadFile(e.table + ".tiktoken")
	if err != nil {
		return nil, err
	}
	ranks, err := readRanks(table)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", e.table, err)
	}
	find, err := newFinder(&pattern{Regex: &e.pattern})
	if err != nil {
		return nil, err
	}
	split, err := cut(find, "Isolated", false)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		raw: newMatcher(nil), normal: newMatcher(nil), split: split,
		decoder: func(pieces []string) string { return toValid([]byte(strings.Join(pieces, ""))) },
	}
	b := &bpe{vocab: ranks, ids: ranks, bytewise: true, unk: -1, ignoreMerges: true}
	b.readBytes()
	p.model = b
	p.name(nil)
	b.texts = p.pieces
	return p, nil
}

// readRanks reads lines of a token in base64 and its rank, which is its id as well.
func readRanks(table []byte) (map[string]int, error) {
	ranks := make(map[string]int, bytes.Count(table, []byte{'\n'})+1)
	for line := range bytes.Lines(table) {
		encoded, digits, ok := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		if !ok {
			continue // the end of the file
		}
		token, err := base64.StdEncoding.AppendDecode(nil, encoded)
		if err != nil {
			return nil, err
		}
		rank, err := strconv.Atoi(string(digits))
		if err != nil {
			return nil, err
		}
		ranks[string(token)] = rank
	}
	return ranks, nil
}
