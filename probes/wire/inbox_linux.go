package wire

import (
	"bytes"
	"time"
)

// inbox holds bytes that have been taken from a socket, and not yet been looked at.
// The kernel would keep them as well, but it joins what it keeps and forgets when each
// part came.
type inbox struct {
	bytes    []byte // allocated with the first that is kept
	from     int    // of them have been handed out
	portions []portion
	next     int // of the portions
}

// portion is what one read brought.
type portion struct {
	end  int       // in the bytes
	at   time.Time // when the read returned
	wall int64     // the kernel's stamp, 0 for none
}

const (
	inboxBytes    = 8 << 10
	inboxPortions = 16
	// inboxRoom is how much room the next read must find, or it would be cut short.
	inboxRoom = 2 << 10
)

// lastChunk is how a chunked message ends.
var lastChunk = []byte("\r\n0\r\n\r\n")

// room is where to read to.
func (b *inbox) room() []byte {
	if b.bytes == nil {
		b.bytes, b.portions = make([]byte, 0, inboxBytes), make([]portion, 0, inboxPortions)
	}
	return b.bytes[len(b.bytes):cap(b.bytes)]
}

// keep takes n bytes that were read into the room. It reports whether they should be
// looked at now, since they seem to be the last of a message or there is no room for
// the next.
func (b *inbox) keep(n int, at time.Time, wall int64) (urgent bool) {
	b.bytes = b.bytes[:len(b.bytes)+n]
	b.portions = append(b.portions, portion{len(b.bytes), at, wall})
	return len(b.portions) == inboxPortions || cap(b.bytes)-len(b.bytes) < inboxRoom || bytes.HasSuffix(b.bytes, lastChunk)
}

func (b *inbox) empty() bool { return b.next == len(b.portions) }

// take hands out what one read brought, or the first part of it.
func (b *inbox) take(p []byte) (n int, at time.Time, wall int64) {
	from := &b.portions[b.next]
	n = copy(p, b.bytes[b.from:from.end])
	at, wall = from.at, from.wall
	if b.from += n; b.from == from.end {
		b.next++
	}
	if b.empty() {
		b.bytes, b.portions, b.from, b.next = b.bytes[:0], b.portions[:0], 0, 0
	}
	return n, at, wall
}
