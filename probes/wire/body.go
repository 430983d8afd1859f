package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// maxTrailer bounds the lines after the last chunk.
const maxTrailer = 64 << 10

var (
	errChunkLine    = errors.New("malformed chunk header")
	errChunkEnd     = errors.New("chunk is longer than its header says")
	errLongTrailer  = errors.New("trailer is larger than 64 KiB")
	errLongChunkExt = errors.New("chunk header is longer than 8 KiB")
)

type framing uint8

const (
	ended      framing = iota // nothing more belongs to this body
	untilClose                // to the end of the connection
	counted                   // left bytes, then ended
	chunkHead
	chunkData // left bytes, then chunkTail
	chunkTail
	trailer
	framed // by HTTP/2
)

// body takes the framing off a message body. Unlike the standard library's
// reader of chunks it never waits for the rest of a chunk while it has bytes to
// deliver: such a wait would date a token to the arrival of the next one.
type body struct {
	br      *bufio.Reader
	next    framing
	left    uint64
	trailed int
	frames  *frames
	prompt  bool // Read returns errNothing rather than read from the socket
}

// framingOf says how the body of a parsed head is framed.
func framingOf(head *http.Response) (framing, uint64) {
	switch {
	case head.Body == http.NoBody:
		return ended, 0
	case len(head.TransferEncoding) > 0:
		return chunkHead, 0
	case head.ContentLength > 0:
		return counted, uint64(head.ContentLength)
	}
	return untilClose, 0
}

// Read blocks until at least one byte is there, then takes what has arrived. It
// returns io.EOF once the framing says so, and io.ErrUnexpectedEOF when the
// connection ended before.
func (b *body) Read(p []byte) (n int, err error) {
	for n < len(p) && b.next != ended {
		if (n > 0 || b.prompt) && !b.ready() {
			if n > 0 {
				return n, nil
			}
			return 0, errNothing
		}
		switch b.next {
		case untilClose, counted, chunkData:
			var k int
			k, err = b.data(p[n:])
			n += k
		case framed:
			var k int
			var last bool
			k, last, err = b.frames.data(p[n:])
			n += k
			if last {
				b.next = ended
			}
		default:
			err = b.line()
		}
		if err != nil {
			return n, err
		}
	}
	if n == 0 && b.next == ended {
		return 0, io.EOF
	}
	return n, nil
}

// ready reports whether the next step cannot block.
func (b *body) ready() bool {
	if b.next == framed {
		return b.frames.ready()
	}
	waiting := b.br.Buffered()
	if waiting == 0 || b.next <= counted || b.next == chunkData {
		return waiting > 0
	}
	peek, _ := b.br.Peek(waiting)
	return bytes.IndexByte(peek, '\n') >= 0
}

func (b *body) data(p []byte) (int, error) {
	if b.next != untilClose && uint64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.br.Read(p)
	if b.next == untilClose {
		if err == io.EOF {
			b.next, err = ended, nil
		}
		return n, err
	}
	if b.left -= uint64(n); b.left == 0 {
		if b.next == counted {
			b.next = ended
		} else {
			b.next = chunkTail
		}
	}
	return n, unexpected(err)
}

// line takes one line of chunk framing.
func (b *body) line() error {
	line, err := b.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return errLongChunkExt
	}
	if err != nil {
		return unexpected(err)
	}
	line = bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
	switch b.next {
	case chunkTail:
		if len(line) > 0 {
			return errChunkEnd
		}
		b.next = chunkHead
	case trailer:
		if len(line) == 0 {
			b.next = ended
		}
		if b.trailed += len(line); b.trailed > maxTrailer {
			return errLongTrailer
		}
	default:
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		b.left, b.next = size, chunkData
		if size == 0 {
			b.next = trailer
		}
	}
	return nil
}

// chunkSize reads "hex [;extension]".
func chunkSize(line []byte) (uint64, error) {
	if i := bytes.IndexByte(line, ';'); i >= 0 {
		line = line[:i]
	}
	line = bytes.TrimRight(line, " \t")
	if len(line) == 0 || len(line) > 16 {
		return 0, errChunkLine
	}
	var size uint64
	for _, c := range line {
		digit := hexDigit(c)
		if digit > 15 {
			return 0, errors.New("malformed chunk header " + strconv.Quote(string(line)))
		}
		size = size<<4 | uint64(digit)
	}
	return size, nil
}

func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
