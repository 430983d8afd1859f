// Package jsonscan walks over one JSON text without building anything: the caller
// pulls the fields it wants and skips the rest, and the whole text is checked on
// the way. It accepts exactly what encoding/json accepts and allocates nothing,
// because it runs once for every token of a benchmark.
//
// Values of the wrong type are skipped, not refused: a server that sends null or a
// number where a string belongs costs that field, never the event. Mistakes of
// grammar (a bare NaN, a cut text) stop the walk and show in [Scanner.End]; nothing
// that was pulled before may be used then.
package jsonscan

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrSyntax is returned for a text that is not JSON.
var ErrSyntax = errors.New("not valid JSON")

// maxDepth bounds nesting as encoding/json does, so that a hostile text cannot
// exhaust the stack.
const maxDepth = 10000

// Scanner is a position in a JSON text. Make one with Reset.
type Scanner struct {
	data   []byte
	pos    int
	depth  int
	opened bool // the last token was an opening bracket
	failed bool
	key    []byte // buffer for keys that are written with escapes
}

// Reset starts a walk over data.
func (s *Scanner) Reset(data []byte) {
	s.data, s.pos, s.depth, s.opened, s.failed = data, 0, 0, false, false
}

// End checks that the walk went over the whole text without an error.
func (s *Scanner) End() error {
	s.space()
	if s.failed || s.pos != len(s.data) || s.depth != 0 {
		return ErrSyntax
	}
	return nil
}

// Valid reports whether data is one JSON value.
func Valid(data []byte) bool {
	var s Scanner
	s.Reset(data)
	s.Skip()
	return s.End() == nil
}

// Peek returns the first byte of the next value, 0 when there is none.
func (s *Scanner) Peek() byte {
	s.space()
	if s.failed || s.pos >= len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// Object enters an object, to be walked with Key until it returns false. Any other
// value is skipped, and the answer is false.
func (s *Scanner) Object() bool { return s.enter('{') }

// Array enters an array, to be walked with Element until it returns false. Any
// other value is skipped, and the answer is false.
func (s *Scanner) Array() bool { return s.enter('[') }

func (s *Scanner) enter(bracket byte) bool {
	if s.Peek() != bracket {
		s.Skip()
		return false
	}
	s.pos++
	s.depth++
	s.opened = true
	if s.depth > maxDepth {
		s.fail()
		return false
	}
	return true
}

// Key moves to the next member and returns its name, valid until the next Key; the
// caller must then take or skip the value. At the end of the object it is false.
func (s *Scanner) Key() ([]byte, bool) {
	if !s.next('}') {
		return nil, false
	}
	raw, ok := s.quoted()
	if !ok {
		return nil, false
	}
	s.space()
	if s.pos >= len(s.data) || s.data[s.pos] != ':' {
		s.fail()
		return nil, false
	}
	s.pos++
	for _, c := range raw {
		if c == '\\' {
			s.key = AppendUnquoted(s.key[:0], raw)
			return s.key, true
		}
	}
	return raw, true
}

// Element moves to the next element, which the caller must take or skip. At the end
// of the array it is false.
func (s *Scanner) Element() bool { return s.next(']') }

// next steps over the comma, or closes the container.
func (s *Scanner) next(closing byte) bool {
	first := s.opened
	s.opened = false
	switch c := s.Peek(); {
	case c == closing:
		s.pos++
		s.depth--
		return false
	case c == 0:
		s.fail()
		return false
	case first:
		return true
	case c != ',':
		s.fail()
		return false
	}
	s.pos++
	return true
}

// String takes a string and returns what stands between its quotes, escapes and
// all; see AppendUnquoted. Any other value is skipped.
func (s *Scanner) String() ([]byte, bool) {
	if s.Peek() != '"' {
		s.Skip()
		return nil, false
	}
	return s.quoted()
}

// Int takes a number that is an integer, also when it is written as 128.0 or
// 1.28e2. Any other value is skipped.
func (s *Scanner) Int() (int, bool) {
	raw, ok := s.number()
	if !ok {
		return 0, false
	}
	if len(raw) <= 18 {
		n, plain := 0, true
		for _, c := range raw {
			if c < '0' || c > '9' {
				plain = false
				break
			}
			n = n*10 + int(c-'0')
		}
		if plain {
			return n, true
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int(f), true
}

// Float takes a number. Any other value, and a number out of range, is skipped.
func (s *Scanner) Float() (float64, bool) {
	raw, ok := s.number()
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// Skip steps over one value of any kind, checking it.
func (s *Scanner) Skip() {
	switch c := s.Peek(); c {
	case '{':
		if s.Object() {
			for s.member() {
				s.Skip()
			}
		}
	case '[':
		if s.Array() {
			for s.Element() {
				s.Skip()
			}
		}
	case '"':
		s.quoted()
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
}

// member is Key for a name that nobody wants to see.
func (s *Scanner) member() bool {
	if !s.next('}') {
		return false
	}
	if _, ok := s.quoted(); !ok {
		return false
	}
	s.space()
	if s.pos >= len(s.data) || s.data[s.pos] != ':' {
		s.fail()
		return false
	}
	s.pos++
	return true
}

func (s *Scanner) literal(word string) {
	s.opened = false
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.fail()
		return
	}
	s.pos += len(word)
}

// quoted takes a string, which must come next.
func (s *Scanner) quoted() ([]byte, bool) {
	if s.Peek() != '"' {
		s.fail()
		return nil, false
	}
	s.opened = false
	start := s.pos + 1
	i := start
	for {
		i = plainRun(s.data, i)
		if i >= len(s.data) || s.data[i] < 0x20 {
			s.fail()
			return nil, false
		}
		if s.data[i] == '"' {
			s.pos = i + 1
			return s.data[start:i], true
		}
		n := escapeLength(s.data[i:])
		if n == 0 {
			s.fail()
			return nil, false
		}
		i += n
	}
}

// plainRun returns the index of the next quote, backslash or control byte at or
// after i. It looks at eight bytes at a time: the text of a cumulative stream is
// scanned once per token.
func plainRun(data []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[i:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		stop := (x-0x20*ones)&^x | (quote-ones)&^quote | (slash-ones)&^slash
		if stop&highs != 0 {
			break
		}
		i += 8
	}
	for i < len(data) {
		if c := data[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
		i++
	}
	return i
}

// escapeLength is the length of the escape that p starts with, 0 for an illegal one.
func escapeLength(p []byte) int {
	if len(p) < 2 {
		return 0
	}
	switch p[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(p) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 reads the code unit of \uXXXX, -1 if p does not start with one.
func hex4(p []byte) rune {
	if len(p) < 6 || p[0] != '\\' || p[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range p[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// number takes a number; any other value is skipped.
func (s *Scanner) number() ([]byte, bool) {
	c := s.Peek()
	if c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' || c == 'n' {
		s.Skip()
		return nil, false
	}
	s.opened = false
	start := s.pos
	if c == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if !s.digits() {
		return nil, false
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if !s.digits() {
			return nil, false
		}
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if !s.digits() {
			return nil, false
		}
	}
	return s.data[start:s.pos], true
}

// digits takes one digit or more.
func (s *Scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail()
		return false
	}
	return true
}

func (s *Scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// fail stops the walk: from here on nothing is found and every loop ends.
func (s *Scanner) fail() {
	s.failed = true
	s.pos = len(s.data)
}

// AppendUnquoted appends the text of a raw string as String returned it. Lone
// surrogates and bytes that are not UTF-8 become U+FFFD, one each, as in
// encoding/json.
func AppendUnquoted(dst, raw []byte) []byte {
	for len(raw) > 0 {
		c := raw[0]
		if c == '\\' {
			var n int
			dst, n = appendEscape(dst, raw)
			raw = raw[n:]
			continue
		}
		if c < utf8.RuneSelf {
			n := 1
			for n < len(raw) && raw[n] < utf8.RuneSelf && raw[n] != '\\' {
				n++
			}
			dst = append(dst, raw[:n]...)
			raw = raw[n:]
			continue
		}
		r, n := utf8.DecodeRune(raw)
		dst = utf8.AppendRune(dst, r)
		raw = raw[n:]
	}
	return dst
}

// appendEscape appends what the escape at the start of raw stands for and returns
// its length. A pair of surrogates is one escape.
func appendEscape(dst, raw []byte) ([]byte, int) {
	if len(raw) < 2 {
		return utf8.AppendRune(dst, utf8.RuneError), len(raw)
	}
	switch raw[1] {
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'u':
		r := hex4(raw)
		if r < 0 {
			return utf8.AppendRune(dst, utf8.RuneError), 2
		}
		if utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, hex4(raw[6:])); pair != utf8.RuneError {
				return utf8.AppendRune(dst, pair), 12
			}
			r = utf8.RuneError
		}
		return utf8.AppendRune(dst, r), 6
	}
	return append(dst, raw[1]), 2
}
