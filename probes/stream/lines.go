package stream

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// DefaultMaxLine is the longest line that is accepted unless told otherwise, in
// bytes. Cumulative texts with token ids reach hundreds of kilobytes, tool calls
// come in one piece.
const DefaultMaxLine = 16 << 20

// ErrTooLong is the cause when a line, or a payload of several lines, passes the limit.
var ErrTooLong = errors.New("line too long")

// keepBuffer is the largest buffer that survives a Reset, in bytes.
const keepBuffer = 1 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// lines cuts what is fed into lines, whatever the reads are cut into. Both decoders are
// made of it; what ends a line and what a line means is theirs.
type lines struct {
	what    string // is decoded, for the error
	maxLine int

	in  []byte // the bytes of the last Feed
	pos int    // how many of them are consumed
	at  time.Duration

	line    []byte // an unfinished line, carried from read to read
	started bool   // the first line is behind us

	err error
}

func newLines(what string, maxLine int) lines {
	if maxLine <= 0 {
		maxLine = DefaultMaxLine
	}
	return lines{what: what, maxLine: maxLine}
}

// fresh is the state before a stream, with the buffers that are worth keeping.
func (l *lines) fresh() lines {
	next := lines{what: l.what, maxLine: l.maxLine}
	if cap(l.line) <= keepBuffer {
		next.line = l.line[:0]
	}
	return next
}

// Err is why decoding stopped: an error wrapping [ErrTooLong], or nil.
func (l *lines) Err() error { return l.err }

// untaken reports whether the last read may hold events still.
func (l *lines) untaken() bool { return l.pos < len(l.in) && l.err == nil }

// take gives the line that ends at this offset of what is not consumed, its break of
// one byte left out, together with what was carried. It is false for a line that is too
// long.
func (l *lines) take(end int) ([]byte, bool) {
	line := l.in[l.pos : l.pos+end]
	l.pos += end + 1
	if len(l.line) > 0 {
		// The backing array stays untouched until bytes of another line come.
		line = append(l.line, line...)
		l.line = line[:0]
	}
	return line, l.limit(len(line))
}

// carry keeps the rest of the input, which has no break.
func (l *lines) carry() {
	l.line = append(l.line, l.in[l.pos:]...)
	l.pos = len(l.in)
	l.limit(len(l.line))
}

// strip removes a byte order mark from the first line.
func (l *lines) strip(line []byte) []byte {
	if !l.started {
		l.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line
}

func (l *lines) limit(length int) bool {
	if length <= l.maxLine {
		return true
	}
	l.err = fmt.Errorf("decode %s: %w: more than %d bytes", l.what, ErrTooLong, l.maxLine)
	return false
}

// trim cuts spaces and tabs, and nothing else, off both ends.
func trim(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\t') {
		p = p[1:]
	}
	for len(p) > 0 && (p[len(p)-1] == ' ' || p[len(p)-1] == '\t') {
		p = p[:len(p)-1]
	}
	return p
}
