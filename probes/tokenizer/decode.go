package tokenizer

import (
	"fmt"
	"strings"
)

// decoder joins the pieces of ids to a text.
type decoder func(pieces []string) string

// step of a decoder: pieces to pieces.
type decodeStep func(pieces []string) []string

func newDecoder(s *stage) (decoder, error) {
	if s == nil {
		return func(pieces []string) string { return strings.Join(pieces, " ") }, nil
	}
	step, err := newDecodeStep(s)
	if err != nil {
		return nil, err
	}
	return func(pieces []string) string { return strings.Join(step(pieces), "") }, nil
}

func newDecodeStep(s *stage) (decodeStep, error) {
	switch s.Type {
	case "Sequence":
		var steps []decodeStep
		for i := range s.Decoders {
			step, err := newDecodeStep(&s.Decoders[i])
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
		return func(pieces []string) []string {
			for _, step := range steps {
				pieces = step(pieces)
			}
			return pieces
		}, nil
	case "ByteLevel":
		return decodeBytes, nil
	case "ByteFallback":
		return decodeFallback, nil
	case "Fuse":
		return func(pieces []string) []string { return []string{strings.Join(pieces, "")} }, nil
	case "Strip":
		return func(pieces []string) []string {
			return each(pieces, func(_ int, p string) string { return stripContent(p, s.Content, s.Start, s.Stop) })
		}, nil
	case "Replace":
		replace, err := newReplace(s)
		if err != nil {
			return nil, err
		}
		return func(pieces []string) []string {
			return each(pieces, func(_ int, p string) string { return replace(p) })
		}, nil
	case "Metaspace":
		return decodeMetaspace(s), nil
	case "WordPiece":
		return decodeWordPiece(s), nil
	case "BPEDecoder":
		return func(pieces []string) []string {
			return each(pieces, func(i int, p string) string {
				if i == len(pieces)-1 {
					return strings.ReplaceAll(p, s.Suffix, "")
				}
				return strings.ReplaceAll(p, s.Suffix, " ")
			})
		}, nil
	}
	return nil, fmt.Errorf("unknown type %q", s.Type)
}

func each(pieces []string, f func(i int, piece string) string) []string {
	out := make([]string, len(pieces))
	for i, p := range pieces {
		out[i] = f(i, p)
	}
	return out
}

// decodeBytes undoes [byteLetters]. A piece with other characters (an added token) is
// taken as it is.
func decodeBytes(pieces []string) []string {
	var b []byte
	for _, p := range pieces {
		if raw, ok := bytesOfLetters(p); ok {
			b = append(b, raw...)
		} else {
			b = append(b, p...)
		}
	}
	return []string{toValid(b)}
}

// decodeFallback joins runs of <0xAB>. A run that is no UTF-8 as a whole becomes one
// U+FFFD for each byte.
func decodeFallback(pieces []string) []string {
	var out []string
	var run []byte
	flush := func() {
		switch text := toValid(run); {
		case len(run) == 0:
		case text == string(run):
			out = append(out, text)
		default:
			for range run {
				out = append(out, "\uFFFD")
			}
		}
		run = run[:0]
	}
	for _, p := range pieces {
		if c, ok := byteOfToken(p); ok {
			run = append(run, c)
			continue
		}
		flush()
		out = append(out, p)
	}
	flush()
	return out
}

// stripContent removes a character from the ends of a piece, so many times at most.
func stripContent(piece, content string, start, stop int) string {
	for ; start > 0 && content != ""; start-- {
		piece = strings.TrimPrefix(piece, content)
	}
	for ; stop > 0 && content != ""; stop-- {
		piece = strings.TrimSuffix(piece, content)
	}
	return piece
}

func decodeMetaspace(s *stage) decodeStep {
	keep := s.PrependScheme != nil && *s.PrependScheme == "never" ||
		s.PrependScheme == nil && s.AddPrefixSpace != nil && !*s.AddPrefixSpace
	return func(pieces []string) []string {
		return each(pieces, func(i int, p string) string {
			if i == 0 && !keep {
				return strings.ReplaceAll(p, s.Replacement, "")
			}
			return strings.ReplaceAll(p, s.Replacement, " ")
		})
	}
}

func decodeWordPiece(s *stage) decodeStep {
	mark := s.Prefix
	cleanup := s.Cleanup == nil || *s.Cleanup
	return func(pieces []string) []string {
		return each(pieces, func(i int, p string) string {
			if i > 0 {
				if rest, ok := strings.CutPrefix(p, mark); ok && mark != "" {
					p = rest
				} else {
					p = " " + p
				}
			}
			if cleanup {
				p = tidy(p)
			}
			return p
		})
	}
}

// tidy takes back the blanks that the pre-tokenizer put before punctuation, one rule
// after the other.
func tidy(text string) string {
	for _, rule := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
		{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		text = strings.ReplaceAll(text, rule[0], rule[1])
	}
	return text
}
