package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// letters are GPT-2's names of bytes: printable characters stand for themselves, all
// others for the characters from U+0100 on.
var letters, byteOfLetter = byteAlphabet()

func byteAlphabet() (letters [256]string, bytes map[rune]byte) {
	bytes = make(map[rune]byte, len(letters))
	next := rune(256)
	for i := range letters {
		r := rune(i)
		if !('!' <= r && r <= '~' || '¡' <= r && r <= '¬' || '®' <= r && r <= 'ÿ') {
			r = next
			next++
		}
		letters[i] = string(r)
		bytes[r] = byte(i)
	}
	return letters, bytes
}

// byteLetters writes each byte of a text as its letter.
func byteLetters(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/2)
	for i := range len(text) {
		b.WriteString(letters[text[i]])
	}
	return b.String()
}

// bytesOfLetters undoes [byteLetters]; ok is false when something is no such letter.
func bytesOfLetters(text string) (raw string, ok bool) {
	b := make([]byte, 0, len(text))
	for _, r := range text {
		c, ok := byteOfLetter[r]
		if !ok {
			return "", false
		}
		b = append(b, c)
	}
	return string(b), true
}

// byteTokens finds <0x00> to <0xFF> in a vocabulary; -1 is missing.
func byteTokens(vocab map[string]int) *[256]int32 {
	var ids [256]int32
	for i := range ids {
		ids[i] = -1
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", i)]; ok {
			ids[i] = int32(id)
		}
	}
	return &ids
}

// appendBytes spells a text by its bytes. All or none are used.
func appendBytes(dst []int32, text string, ids *[256]int32) ([]int32, bool) {
	for i := range len(text) {
		if ids[text[i]] < 0 {
			return dst, false
		}
	}
	for i := range len(text) {
		dst = append(dst, ids[text[i]])
	}
	return dst, true
}

// byteOfToken reads <0xAB>.
func byteOfToken(piece string) (byte, bool) {
	if len(piece) != 6 || !strings.HasPrefix(piece, "<0x") || piece[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(piece[3:5], 16, 8)
	return byte(n), err == nil
}

// toValid replaces what is no UTF-8 by U+FFFD, one for each beginning of a character
// that breaks off, as decoders do.
func toValid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			out.WriteRune(utf8.RuneError)
			size = brokenLength(b)
		} else {
			out.Write(b[:size])
		}
		b = b[size:]
	}
	return out.String()
}

// brokenLength is how many bytes of b could have begun a character.
func brokenLength(b []byte) int {
	want, low, high := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		want = 1
	case c >= 0xE0 && c <= 0xEF:
		want = 2
		if c == 0xE0 {
			low = 0xA0
		}
		if c == 0xED {
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		want = 3
		if c == 0xF0 {
			low = 0x90
		}
		if c == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for ; n <= want && n < len(b) && b[n] >= low && b[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}
