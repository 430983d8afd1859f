package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// emit takes a piece; first says that it is the beginning of the whole text.
type emit func(piece string, first bool) error

// splitter cuts a text into pieces that the model sees one by one.
type splitter interface {
	split(text string, first bool, out emit) error
}

// splitFunc is a splitter that is a function.
type splitFunc func(text string, first bool, out emit) error

func (f splitFunc) split(text string, first bool, out emit) error { return f(text, first, out) }

// newSplitter builds one pre-tokenizer; nil stands for none. bytewise: a ByteLevel at
// the end cuts, and leaves the bytes as they are.
func newSplitter(s *stage, bytewise bool) (splitter, error) {
	if s == nil {
		return nil, nil
	}
	switch s.Type {
	case "Sequence":
		return newSequence(s.Pretokenizers, bytewise)
	case "ByteLevel":
		return newByteLevel(s, bytewise)
	case "Metaspace":
		return newMetaspace(s)
	case "Split":
		find, err := newFinder(s.Pattern)
		if err != nil {
			return nil, fmt.Errorf("type Split: %w", err)
		}
		return cut(find, s.Behavior, s.Invert)
	case "Whitespace":
		return cut(findRuns(func(r rune) int {
			switch {
			case isWord(r):
				return 1
			case !unicode.IsSpace(r):
				return 2
			}
			return 0
		}), "Removed", true)
	case "WhitespaceSplit":
		return cut(findRunes(unicode.IsSpace), "Removed", false)
	case "CharDelimiterSplit":
		delimiter, _ := utf8.DecodeRuneInString(s.Delimiter)
		return cut(findRunes(func(r rune) bool { return r == delimiter }), "Removed", false)
	case "Punctuation":
		behavior := s.Behavior
		if behavior == "" {
			behavior = "Isolated"
		}
		return cut(findRunes(isPunctuation), behavior, false)
	case "Digits":
		if s.Individual {
			return cut(findRunes(unicode.IsNumber), "Isolated", false)
		}
		return cut(findRunes(unicode.IsNumber), "Contiguous", false)
	case "BertPreTokenizer":
		words, _ := cut(findRunes(unicode.IsSpace), "Removed", false)
		marks, _ := cut(findRunes(isPunctuation), "Isolated", false)
		return chain{words, marks}, nil
	}
	return nil, fmt.Errorf("unknown type %q", s.Type)
}

// chain lets each splitter cut the pieces of the one before.
type chain []splitter

func newSequence(stages []stage, bytewise bool) (splitter, error) {
	var c chain
	for i := range stages {
		last := i == len(stages)-1
		if bytewise && last && cutsNothing(&stages[i]) {
			break
		}
		next, err := newSplitter(&stages[i], bytewise && last)
		if err != nil {
			return nil, err
		}
		c = append(c, next)
	}
	if len(c) == 1 {
		return c[0], nil
	}
	return c, nil
}

// cutsNothing reports whether a ByteLevel only writes bytes as letters.
func cutsNothing(s *stage) bool {
	return s.Type == "ByteLevel" && s.UseRegex != nil && !*s.UseRegex && s.AddPrefixSpace != nil && !*s.AddPrefixSpace
}

func (c chain) split(text string, first bool, out emit) error {
	if len(c) == 0 {
		return out(text, first)
	}
	if len(c) == 1 {
		return c[0].split(text, first, out)
	}
	rest := c[1:]
	return c[0].split(text, first, func(piece string, first bool) error {
		return rest.split(piece, first, out)
	})
}

// isPunctuation is ASCII's punctuation and symbols, and Unicode's punctuation.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}
	return unicode.IsPunct(r)
}

// gpt2 is how GPT-2 cuts texts, and what ByteLevel does unless told otherwise.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func newByteLevel(s *stage, bytewise bool) (splitter, error) {
	prefix := s.AddPrefixSpace == nil || *s.AddPrefixSpace
	find := finder(func(text string, yield func(part string, match bool) error) error { return yield(text, true) })
	if s.UseRegex == nil || *s.UseRegex {
		expression := gpt2
		var err error
		if find, err = newFinder(&pattern{Regex: &expression}); err != nil {
			return nil, err
		}
	}
	return splitFunc(func(text string, first bool, out emit) error {
		if prefix && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		return find(text, func(part string, _ bool) error {
			if !bytewise {
				part = byteLetters(part)
			}
			at := first
			first = false
			return out(part, at)
		})
	}), nil
}

// newMetaspace is SentencePiece's way: blanks become a visible letter, and a word
// begins with its blank.
func newMetaspace(s *stage) (splitter, error) {
	mark := s.Replacement
	if mark == "" {
		return nil, errors.New("type Metaspace has no replacement")
	}
	scheme := "always"
	switch {
	case s.PrependScheme != nil:
		scheme = *s.PrependScheme
	case s.AddPrefixSpace != nil && !*s.AddPrefixSpace:
		scheme = "never"
	}
	whole := s.Split != nil && !*s.Split
	return splitFunc(func(text string, first bool, out emit) error {
		text = strings.ReplaceAll(text, " ", mark)
		if (scheme == "always" || scheme == "first" && first) && !strings.HasPrefix(text, mark) {
			text = mark + text
		}
		if whole {
			return out(text, first)
		}
		for text != "" {
			// A piece is a mark and what follows until the next one.
			_, size := utf8.DecodeRuneInString(text)
			end := strings.Index(text[size:], mark)
			if end < 0 {
				return out(text, first)
			}
			if err := out(text[:size+end], first); err != nil {
				return err
			}
			text, first = text[size+end:], false
		}
		return nil
	}), nil
}
