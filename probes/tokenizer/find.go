package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// finder calls yield for all parts of a text in order, those that match a pattern and
// those between. No part is empty.
type finder func(text string, yield func(part string, match bool) error) error

// newFinder finds a text or a regular expression.
func newFinder(p *pattern) (finder, error) {
	switch {
	case p != nil && p.String != nil && *p.String != "":
		return findString(*p.String), nil
	case p != nil && p.Regex != nil:
		expression, err := regexp2.Compile(*p.Regex)
		if err != nil {
			return nil, fmt.Errorf("compile pattern %q: %w", *p.Regex, err)
		}
		return findRegexp(expression), nil
	}
	return nil, errors.New("no pattern")
}

func findString(s string) finder {
	return func(text string, yield func(string, bool) error) error {
		for {
			i := strings.Index(text, s)
			if i < 0 {
				break
			}
			if i > 0 {
				if err := yield(text[:i], false); err != nil {
					return err
				}
			}
			if err := yield(text[i:i+len(s)], true); err != nil {
				return err
			}
			text = text[i+len(s):]
		}
		if text == "" {
			return nil
		}
		return yield(text, false)
	}
}

func findRegexp(expression *regexp2.Regexp) finder {
	return func(text string, yield func(string, bool) error) error {
		// The engine counts in runes; matches come in order, so the place in bytes
		// is found by walking along.
		runes := []rune(text)
		at, byteAt := 0, 0
		bytesOf := func(to int) string {
			end := byteAt
			for ; at < to; at++ {
				_, size := utf8.DecodeRuneInString(text[end:])
				end += size
			}
			part := text[byteAt:end]
			byteAt = end
			return part
		}
		var failed error
		err := expression.FindRunesMatches(runes, 0, func(v regexp2.MatchView) bool {
			start, n, _ := v.GroupRange(0)
			if start > at {
				if failed = yield(bytesOf(start), false); failed != nil {
					return false
				}
			}
			if n > 0 {
				failed = yield(bytesOf(start+n), true)
			}
			return failed == nil
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if byteAt < len(text) {
			return yield(text[byteAt:], false)
		}
		return nil
	}
}

// findRunes matches single characters.
func findRunes(is func(rune) bool) finder {
	return func(text string, yield func(string, bool) error) error {
		start := 0
		for i, r := range text {
			if !is(r) {
				continue
			}
			if i > start {
				if err := yield(text[start:i], false); err != nil {
					return err
				}
			}
			_, size := utf8.DecodeRuneInString(text[i:])
			start = i + size
			if err := yield(text[i:start], true); err != nil {
				return err
			}
		}
		if start < len(text) {
			return yield(text[start:], false)
		}
		return nil
	}
}

// findRuns matches the longest runs of characters of one class; class 0 matches not.
func findRuns(class func(rune) int) finder {
	return func(text string, yield func(string, bool) error) error {
		start, of := 0, 0
		for i, r := range text {
			c := class(r)
			if i > 0 && c != of {
				if err := yield(text[start:i], of != 0); err != nil {
					return err
				}
				start = i
			}
			of = c
		}
		if start < len(text) {
			return yield(text[start:], of != 0)
		}
		return nil
	}
}

// cut makes a splitter of a finder: what becomes of the matches.
func cut(find finder, behavior string, invert bool) (splitter, error) {
	switch behavior {
	case "Removed", "Isolated":
		drop := behavior == "Removed"
		return splitFunc(func(text string, first bool, out emit) error {
			return find(text, func(part string, match bool) error {
				at := first
				first = false
				if drop && match != invert {
					return nil
				}
				return out(part, at)
			})
		}), nil
	case "Contiguous", "MergedWithPrevious", "MergedWithNext":
		return splitFunc(func(text string, first bool, out emit) error {
			return merged(text, find, behavior, invert, func(part string) error {
				at := first
				first = false
				return out(part, at)
			})
		}), nil
	}
	return nil, fmt.Errorf("unknown behavior %q", behavior)
}

// merged gives out stretches of parts: Contiguous joins equal kinds,
// MergedWithPrevious puts a match at the end of what comes before it, MergedWithNext
// before what comes next. Two matches in a row stay two pieces.
func merged(text string, find finder, behavior string, invert bool, out func(string) error) error {
	start, end := 0, 0
	last, any := false, false
	err := find(text, func(part string, match bool) error {
		match = match != invert
		joins := any && match == last
		switch behavior {
		case "MergedWithPrevious":
			joins = any && match && !last
		case "MergedWithNext":
			joins = any && last && !match
		}
		last, any = match, true
		if !joins && end > start {
			if err := out(text[start:end]); err != nil {
				return err
			}
			start = end
		}
		end += len(part)
		return nil
	})
	if err != nil {
		return err
	}
	if end > start {
		return out(text[start:end])
	}
	return nil
}
