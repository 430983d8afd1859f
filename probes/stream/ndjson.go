package stream

import (
	"bytes"
	"fmt"
	"time"
)

// NDJSON decodes newline-delimited JSON by push: every line that is not blank is an
// [Event] with Data alone. Lines end with LF; a CR before it is not part of the line,
// and a lone CR, which JSON may hold as white space, ends nothing. The zero value is
// not ready; see [NewNDJSON].
type NDJSON struct {
	maxLine int

	in  []byte // the bytes of the last Feed
	pos int    // how many of them are consumed
	at  time.Duration

	line    []byte        // an unfinished line, carried from read to read
	lineAt  time.Duration // when its last byte came
	started bool          // the first line is behind us

	err error
}

// NewNDJSON makes a decoder that refuses lines longer than maxLine bytes; 0 means
// [DefaultMaxLine].
func NewNDJSON(maxLine int) *NDJSON {
	if maxLine <= 0 {
		maxLine = DefaultMaxLine
	}
	return &NDJSON{maxLine: maxLine}
}

// Reset makes the decoder ready for another stream.
func (d *NDJSON) Reset() {
	next := NDJSON{maxLine: d.maxLine}
	if cap(d.line) <= keepBuffer {
		next.line = d.line[:0]
	}
	*d = next
}

// Err is why decoding stopped: an error wrapping [ErrTooLong], or nil.
func (d *NDJSON) Err() error { return d.err }

// Feed hands over the bytes of one read and the instant it returned. The decoder
// keeps p until the next Feed. Events of the previous read that were not taken
// are lost.
func (d *NDJSON) Feed(p []byte, at time.Duration) {
	for d.pos < len(d.in) && d.err == nil {
		d.Next()
	}
	d.in, d.pos, d.at = p, 0, at
}

// Next returns the next line that the bytes fed so far complete, stamped with the
// read that brought its line feed, and false when more bytes are needed or decoding
// has stopped with [NDJSON.Err].
func (d *NDJSON) Next() (Event, bool) {
	for d.err == nil {
		rest := d.in[d.pos:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if len(rest) > 0 {
				d.line, d.lineAt, d.pos = append(d.line, rest...), d.at, len(d.in)
				d.limit(len(d.line))
			}
			break
		}
		line := rest[:end]
		d.pos += end + 1
		if len(d.line) > 0 {
			// The backing array stays untouched until bytes of another line come.
			line = append(d.line, line...)
			d.line = line[:0]
		}
		if !d.limit(len(line)) {
			break
		}
		if data := d.clean(line); len(data) > 0 {
			return Event{Data: data, At: d.at}, true
		}
	}
	return Event{}, false
}

// Finish says that the body has ended and returns the line that had no line feed, if
// there is one, stamped with its last byte.
func (d *NDJSON) Finish() (Event, bool) {
	for d.pos < len(d.in) && d.err == nil {
		d.Next()
	}
	data := d.clean(d.line)
	d.line = d.line[:0]
	if d.err != nil || len(data) == 0 {
		return Event{}, false
	}
	return Event{Data: data, At: d.lineAt, Unterminated: true}, true
}

// clean takes a byte order mark off the first line, and the white space around any.
func (d *NDJSON) clean(line []byte) []byte {
	if !d.started {
		d.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	line = trim(line)
	for len(line) > 0 && line[len(line)-1] == '\r' {
		line = trim(line[:len(line)-1])
	}
	return line
}

func (d *NDJSON) limit(length int) bool {
	if length > d.maxLine {
		d.err = fmt.Errorf("decode line stream: %w: more than %d bytes", ErrTooLong, d.maxLine)
		return false
	}
	return true
}
