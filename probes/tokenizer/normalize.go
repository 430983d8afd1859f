package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is cut into pieces.
type normalizer func(text string) string

// newNormalizer builds one stage; nil stands for none.
func newNormalizer(s *stage) (normalizer, error) {
	if s == nil {
		return nil, nil
	}
	switch s.Type {
	case "Sequence":
		return normalizerSequence(s.Normalizers)
	case "NFC":
		return norm.NFC.String, nil
	case "NFD":
		return norm.NFD.String, nil
	case "NFKC":
		return norm.NFKC.String, nil
	case "NFKD":
		return norm.NFKD.String, nil
	case "Lowercase":
		return lower, nil
	case "StripAccents":
		return func(text string) string { return without(text, unicode.M) }, nil
	case "Strip":
		return func(text string) string { return strip(text, s.StripLeft, s.StripRight) }, nil
	case "Prepend":
		return func(text string) string {
			if text == "" {
				return text
			}
			return s.Prepend + text
		}, nil
	case "Replace":
		return newReplace(s)
	case "ByteLevel":
		return byteLetters, nil
	case "BertNormalizer":
		return newBert(s), nil
	case "Precompiled":
		return nil, errors.New("type Precompiled (a compiled SentencePiece table) is not known here, use tokenizer: server")
	}
	return nil, fmt.Errorf("unknown type %q", s.Type)
}

func normalizerSequence(stages []stage) (normalizer, error) {
	var steps []normalizer
	for i := range stages {
		step, err := newNormalizer(&stages[i])
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return func(text string) string {
		for _, step := range steps {
			text = step(text)
		}
		return text
	}, nil
}

func newReplace(s *stage) (normalizer, error) {
	find, err := newFinder(s.Pattern)
	if err != nil {
		return nil, fmt.Errorf("type Replace: %w", err)
	}
	if s.Pattern.String != nil {
		return func(text string) string { return strings.ReplaceAll(text, *s.Pattern.String, s.Content) }, nil
	}
	return func(text string) string {
		var b strings.Builder
		// A normalizer has no error; a regular expression that gives up on a text
		// leaves the rest of it as it is.
		_ = find(text, func(part string, match bool) error {
			if match {
				part = s.Content
			}
			b.WriteString(part)
			return nil
		})
		return b.String()
	}, nil
}

// lower maps each character alone: a sigma at the end of a word is as any other.
func lower(text string) string {
	if !strings.ContainsRune(text, 'İ') {
		return strings.Map(unicode.ToLower, text)
	}
	return strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i̇"))
}

func without(text string, table *unicode.RangeTable) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf && unicode.Is(table, r) {
			return -1
		}
		return r
	}, text)
}

func strip(text string, left, right bool) string {
	if left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// newBert is BERT's own normalizer.
func newBert(s *stage) normalizer {
	accents := s.Lowercase
	if s.StripAccents != nil {
		accents = *s.StripAccents
	}
	return func(text string) string {
		if s.CleanText {
			text = strings.Map(cleaned, text)
		}
		if s.ChineseChars {
			text = spaceChinese(text)
		}
		if accents {
			text = without(norm.NFD.String(text), unicode.Mn)
		}
		if s.Lowercase {
			text = lower(text)
		}
		return text
	}
}

// cleaned drops characters that nobody sees and makes all white space a blank. A
// character that is not assigned stays, which unicode.C would drop.
func cleaned(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ' '
	case r == 0 || r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
		return -1
	case unicode.IsSpace(r):
		return ' '
	}
	return r
}

func spaceChinese(text string) string {
	if strings.IndexFunc(text, isChinese) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isChinese(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isChinese is BERT's list of CJK blocks.
func isChinese(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0x4DBF, r >= 0x4E00 && r <= 0x9FFF, r >= 0xF900 && r <= 0xFAFF:
		return true
	case r >= 0x20000 && r <= 0x2A6DF, r >= 0x2A700 && r <= 0x2B73F, r >= 0x2B740 && r <= 0x2B81F:
		return true
	}
	return r >= 0x2B920 && r <= 0x2CEAF || r >= 0x2F800 && r <= 0x2FA1F
}
