package fakellm

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The vocabulary. Ids below namedTokens are words of three syllables with a
// leading space (" bafeli"), computed from the id and back, so that any random
// id is a word. Then come the special tokens. Every other piece of text gets the
// next free id when it is first seen.
const (
	maxPieceLetters = 8
	namedTokens     = 64 * 64 * 64
	firstSeenToken  = namedTokens + 16
	// maxSeenTokens bounds the memory of the table.
	maxSeenTokens = 1 << 18
)

// The special tokens.
const (
	tokenBOS = namedTokens + iota
	tokenEOS
	tokenUser  // opens the messages of a chat prompt
	tokenTurn  // separates messages
	tokenReply // opens the answer
	tokenImage
)

// Lengths of what is not text.
const (
	// ChatTemplateTokens is what the chat template adds to the tokens of one
	// message, beginning-of-sequence included. Each further message adds
	// ChatTurnTokens.
	ChatTemplateTokens = 5
	ChatTurnTokens     = 3
	// ImageTokens is the length of every image part.
	ImageTokens = 256
)

const (
	consonants = "bdfghjklmnprstvz"
	vowels     = "aeio"
)

// CountTokens is the length of a text in tokens, without special tokens: each
// word of at most 8 letters is one token together with the white space before
// it, a longer word is cut every 8 letters, and white space at the very end is a
// token of its own.
func CountTokens(text string) int {
	n := 0
	for text != "" {
		text = text[pieceLength(text):]
		n++
	}
	return n
}

// pieceLength is the length in bytes of the first token of a text.
func pieceLength(text string) int {
	i, letters := 0, 0
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsSpace(r) {
			if letters > 0 {
				break
			}
		} else {
			if letters == maxPieceLetters {
				break
			}
			letters++
		}
		i += size
	}
	return i
}

// tokenizer maps pieces of text to ids and back.
type tokenizer struct {
	limit  int // pieces seen when the table is full share ids
	mu     sync.RWMutex
	ids    map[string]int32
	pieces []string // of ids from firstSeenToken
}

func newTokenizer() *tokenizer { return &tokenizer{limit: maxSeenTokens, ids: map[string]int32{}} }

// append tokenizes text behind dst.
func (t *tokenizer) append(dst []int32, text string) []int32 {
	for text != "" {
		n := pieceLength(text)
		dst = append(dst, t.id(text[:n]))
		text = text[n:]
	}
	return dst
}

func (t *tokenizer) id(piece string) int32 {
	if id, ok := namedID(piece); ok {
		return id
	}
	t.mu.RLock()
	id, ok := t.ids[piece]
	t.mu.RUnlock()
	if ok {
		return id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[piece]; ok {
		return id
	}
	if len(t.pieces) == t.limit {
		return firstSeenToken + int32(hashString(piece)%uint64(t.limit))
	}
	// The clone keeps a whole prompt from living as long as one of its words.
	piece = strings.Clone(piece)
	id = firstSeenToken + int32(len(t.pieces))
	t.pieces = append(t.pieces, piece)
	t.ids[piece] = id
	return id
}

// text is the piece of an id; special tokens print nothing. It is false for an
// id outside the vocabulary.
func (t *tokenizer) text(id int) (string, bool) {
	switch {
	case id < 0:
		return "", false
	case id < namedTokens:
		return namedPiece(id), true
	case id < firstSeenToken:
		return "", true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if id-firstSeenToken >= len(t.pieces) {
		return "", false
	}
	return t.pieces[id-firstSeenToken], true
}

// namedPiece writes an id below namedTokens as three syllables of six bits.
func namedPiece(id int) string {
	var b [7]byte
	b[0] = ' '
	for i := range 3 {
		syllable := id >> (12 - 6*i) & 63
		b[1+2*i], b[2+2*i] = consonants[syllable>>2], vowels[syllable&3]
	}
	return string(b[:])
}

// namedID is the inverse of namedPiece.
func namedID(piece string) (int32, bool) {
	if len(piece) != 7 || piece[0] != ' ' {
		return 0, false
	}
	id := 0
	for i := range 3 {
		c, v := strings.IndexByte(consonants, piece[1+2*i]), strings.IndexByte(vowels, piece[2+2*i])
		if c < 0 || v < 0 {
			return 0, false
		}
		id = id<<6 | c<<2 | v
	}
	return int32(id), true
}
