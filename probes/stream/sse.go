package stream

import (
	"bytes"
	"time"
)

var sentinel = []byte("[DONE]")

// Event is one block of a stream. Its slices are valid until the next call of any
// method of the decoder.
type Event struct {
	// Name is the value of the event field, empty for a plain event.
	Name []byte
	// Data is the payload: the data lines joined by LF, without spaces and tabs
	// around. It is empty only for an event that has a name.
	Data []byte
	// Comment is the last comment line of the block. Some servers put the text of
	// an error there.
	Comment []byte
	// ErrorField is set when the payload, or a part of it, came in a field named
	// "error" instead of "data".
	ErrorField bool
	// Unterminated is set when the body ended before the block's blank line. Such
	// a payload counts only if it is complete in itself.
	Unterminated bool
	// At is when the read returned that brought the block's blank line. The end
	// mark [DONE] is stamped at its own line break, and an unterminated block at
	// the last byte of its payload.
	At time.Duration
}

// SSE decodes server-sent events by push. The zero value is not ready; see [NewSSE].
type SSE struct {
	lines
	hasCR  bool // in holds a CR somewhere; most streams never do
	skipLF bool // the last line ended with CR; a LF that follows belongs to it

	// The open block. The slices may point into in or line until hold copies them.
	name, payload, comment    []byte
	nameBuf, dataBuf, noteBuf []byte
	hasData, errorField       bool
	dataAt                    time.Duration // when the last payload line was complete
}

// NewSSE makes a decoder that refuses lines and payloads longer than maxLine
// bytes; 0 means [DefaultMaxLine].
func NewSSE(maxLine int) *SSE { return &SSE{lines: newLines("event stream", maxLine)} }

// Reset makes the decoder ready for another stream.
func (d *SSE) Reset() {
	next := SSE{lines: d.fresh()}
	if cap(d.dataBuf) <= keepBuffer {
		next.dataBuf = d.dataBuf[:0]
	}
	next.nameBuf, next.noteBuf = d.nameBuf[:0], nil
	*d = next
}

// Feed hands over the bytes of one read and the instant it returned. The decoder
// keeps p until the next Feed. Events of the previous read that were not taken
// are lost.
func (d *SSE) Feed(p []byte, at time.Duration) {
	for d.untaken() {
		d.Next()
	}
	d.in, d.pos, d.at = p, 0, at
	d.hasCR = bytes.IndexByte(p, '\r') >= 0
}

// Next returns the next event that the bytes fed so far complete, and false when
// more bytes are needed or decoding has stopped with an error.
func (d *SSE) Next() (Event, bool) {
	for d.err == nil {
		line, ok := d.nextLine()
		if !ok {
			break
		}
		if len(line) > 0 {
			d.field(line)
			if !d.atSentinel() {
				continue
			}
		}
		if e, ok := d.dispatch(); ok {
			return e, true
		}
	}
	return Event{}, false
}

// Finish says that the body has ended and returns the block that was still open,
// if there is one.
func (d *SSE) Finish() (Event, bool) {
	for d.untaken() {
		d.Next()
	}
	if len(d.line) > 0 && d.err == nil {
		line := d.strip(d.line)
		d.line = d.line[:0]
		d.field(line)
	}
	if d.err != nil {
		return Event{}, false
	}
	last := d.dataAt
	e, ok := d.dispatch()
	e.Unterminated = true
	if e.Data != nil {
		e.At = last
	}
	return e, ok
}

// nextLine takes a line without its break. When there is none it saves the rest
// of the input and whatever of the open block points into it.
func (d *SSE) nextLine() ([]byte, bool) {
	if d.skipLF && d.pos < len(d.in) {
		d.skipLF = false
		if d.in[d.pos] == '\n' {
			d.pos++
		}
	}
	rest := d.in[d.pos:]
	end := bytes.IndexByte(rest, '\n')
	if d.hasCR {
		before := rest
		if end >= 0 {
			before = rest[:end]
		}
		if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
			end = cr
			d.skipLF = true
		}
	}
	if end < 0 {
		d.hold()
		d.carry()
		return nil, false
	}
	line, ok := d.take(end)
	if !ok {
		return nil, false
	}
	return d.strip(line), true
}

// field takes one line that is not blank.
func (d *SSE) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "":
		d.comment = value
	case "data":
		d.add(value)
	case "error":
		d.errorField = true
		d.add(value)
	case "event":
		d.name = value
	}
}

// add joins one more line to the payload.
func (d *SSE) add(value []byte) {
	d.dataAt = d.at
	if !d.hasData {
		d.hasData = true
		d.payload = value
		return
	}
	d.dataBuf = append(keep(d.dataBuf, d.payload), '\n')
	d.dataBuf = append(d.dataBuf, value...)
	d.payload = d.dataBuf
	d.limit(len(d.payload))
}

// atSentinel reports whether the payload is the end mark. It does not wait for a
// blank line: some builds never send one, and the request would last until an
// idle timeout.
func (d *SSE) atSentinel() bool {
	return d.hasData && d.err == nil && bytes.Equal(trim(d.payload), sentinel)
}

// dispatch closes the open block. A block without payload is an event only if it
// has a name.
func (d *SSE) dispatch() (Event, bool) {
	e := Event{Name: d.name, Comment: d.comment, ErrorField: d.errorField, At: d.at}
	if payload := trim(d.payload); len(payload) > 0 {
		e.Data = payload
	}
	d.name, d.payload, d.comment = nil, nil, nil
	d.hasData, d.errorField = false, false
	return e, e.Data != nil || len(e.Name) > 0
}

// hold copies the open block out of the input, which the caller may overwrite.
func (d *SSE) hold() {
	if d.hasData {
		d.dataBuf = keep(d.dataBuf, d.payload)
		d.payload = d.dataBuf
	}
	if d.name != nil {
		d.nameBuf = keep(d.nameBuf, d.name)
		d.name = d.nameBuf
	}
	if d.comment != nil {
		d.noteBuf = keep(d.noteBuf, d.comment)
		d.comment = d.noteBuf
	}
}

// keep returns s as the content of buf, copying only when it is not there yet.
func keep(buf, s []byte) []byte {
	if len(s) > 0 && cap(buf) > 0 && &s[0] == &buf[:1][0] {
		return buf[:len(s)]
	}
	return append(buf[:0], s...)
}
