package stream

import (
	"bytes"
	"time"
)

// NDJSON decodes newline-delimited JSON by push: every line that is not blank is an
// [Event] with Data alone. Lines end with LF; a CR before it is not part of the line,
// and a lone CR, which JSON may hold as white space, ends nothing. The zero value is
// not ready; see [NewNDJSON].
type NDJSON struct {
	lines
	lineAt time.Duration // when the last byte of the unfinished line came
}

// NewNDJSON makes a decoder that refuses lines longer than maxLine bytes; 0 means
// [DefaultMaxLine].
func NewNDJSON(maxLine int) *NDJSON { return &NDJSON{lines: newLines("line stream", maxLine)} }

// Reset makes the decoder ready for another stream.
func (d *NDJSON) Reset() { *d = NDJSON{lines: d.fresh()} }

// Feed hands over the bytes of one read and the instant it returned. The decoder
// keeps p until the next Feed. Events of the previous read that were not taken
// are lost.
func (d *NDJSON) Feed(p []byte, at time.Duration) {
	for d.untaken() {
		d.Next()
	}
	d.in, d.pos, d.at = p, 0, at
}

// Next returns the next line that the bytes fed so far complete, stamped with the
// read that brought its line feed, and false when more bytes are needed or decoding
// has stopped with an error.
func (d *NDJSON) Next() (Event, bool) {
	for d.err == nil {
		end := bytes.IndexByte(d.in[d.pos:], '\n')
		if end < 0 {
			if d.pos < len(d.in) {
				d.lineAt = d.at
				d.carry()
			}
			break
		}
		line, ok := d.take(end)
		if !ok {
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
	for d.untaken() {
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
	line = trim(d.strip(line))
	for len(line) > 0 && line[len(line)-1] == '\r' {
		line = trim(line[:len(line)-1])
	}
	return line
}
