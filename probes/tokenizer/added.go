package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: a text that is cut out before anything
// else looks at it.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// matcher finds added tokens: at each place the longest one, from left to right.
type matcher struct {
	byFirst [256][]addedToken // longest first
	none    bool
}

func newMatcher(tokens []addedToken) *matcher {
	m := &matcher{none: len(tokens) == 0}
	for _, t := range tokens {
		list := &m.byFirst[t.Content[0]]
		*list = append(*list, t)
	}
	for i := range m.byFirst {
		slices.SortStableFunc(m.byFirst[i], func(a, b addedToken) int { return len(b.Content) - len(a.Content) })
	}
	return m
}

// at is the longest token that begins at text[i:].
func (m *matcher) at(text string, i int) *addedToken {
	list := m.byFirst[text[i]]
	for k := range list {
		if strings.HasPrefix(text[i:], list[k].Content) {
			return &list[k]
		}
	}
	return nil
}

// each calls token for the added tokens of a text and part for what lies between
// them, in order. first says whether a part is the beginning of the whole text.
func (m *matcher) each(text string, first bool, token func(id int), part func(text string, first bool) error) error {
	if m.none {
		if text == "" {
			return nil
		}
		return part(text, first)
	}
	done := 0 // text[:done] has been given out
	for i := 0; i < len(text); {
		t := m.at(text, i)
		if t == nil {
			i++
			continue
		}
		start, end := i, i+len(t.Content)
		// The search goes on behind the token's own text, whatever it swallows.
		i = end
		if t.SingleWord && !(standsAlone(text, start, end)) {
			continue
		}
		if t.LStrip {
			start = max(len(strings.TrimRightFunc(text[:start], unicode.IsSpace)), done)
		}
		if t.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			if err := part(text[done:start], first && done == 0); err != nil {
				return err
			}
		}
		token(t.ID)
		done = end
	}
	if done < len(text) {
		return part(text[done:], first && done == 0)
	}
	return nil
}

func standsAlone(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return (start == 0 || !isWord(before)) && (end == len(text) || !isWord(after))
}

// isWord is \w of Unicode regular expressions.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
