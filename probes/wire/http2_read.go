package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
)

// readHead reads the headers of the answer; interim ones are skipped.
func (f *frames) readHead() (*http.Response, error) {
	for {
		h, err := f.nextOfStream()
		if err != nil {
			return nil, err
		}
		if h.kind != frameHeaders {
			return nil, errFrameOrder
		}
		f.cn.stamped, f.cn.firstByte = true, f.cn.lastRead
		if err := f.readFields(h); err != nil {
			return nil, err
		}
		code, err := strconv.Atoi(f.status)
		if err != nil || len(f.status) != 3 || code < 100 || code == http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("unexpected status %q", f.status)
		}
		f.last = h.flags&flagEnd != 0
		if code >= 200 {
			return &http.Response{StatusCode: code, Proto: "HTTP/2.0", ProtoMajor: 2, Header: f.fields, Close: f.unsent}, nil
		}
		if f.last {
			return nil, errFrameOrder
		}
	}
}

// data reads bytes of the body and reports whether they are its last. It blocks until
// there is at least one byte, or the end.
func (f *frames) data(p []byte) (n int, last bool, err error) {
	for f.left == 0 {
		if err := f.skip(f.padding); err != nil {
			return 0, false, err
		}
		f.padding = 0
		if f.last {
			return 0, true, nil
		}
		h, err := f.nextOfStream()
		if err != nil {
			return 0, false, err
		}
		if h.kind == frameHeaders { // trailers
			if h.flags&flagEnd == 0 {
				return 0, false, errFrameOrder
			}
			f.last = true
			return 0, true, f.readFields(h)
		}
		if err := f.openData(h); err != nil {
			return 0, false, err
		}
	}
	n, err = f.cn.br.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, f.last && f.left == 0 && f.padding == 0, unexpected(err)
}

func (f *frames) openData(h frame) error {
	f.left, f.last = h.length, h.flags&flagEnd != 0
	if h.flags&flagPadded != 0 {
		length, err := f.cn.br.ReadByte()
		if err != nil {
			return unexpected(err)
		}
		if f.padding = int(length); f.padding >= h.length {
			return errFrameSize
		}
		f.left -= 1 + f.padding
	}
	if f.taken += h.length; f.taken < ourWindow/2 {
		return nil
	}
	f.add(frameWindow, 0, 0, number(uint32(f.taken)))
	f.add(frameWindow, 0, f.stream, number(uint32(f.taken)))
	f.taken = 0
	return f.flush()
}

// ready reports whether data can be read on without blocking.
func (f *frames) ready() bool {
	waiting := f.cn.br.Buffered()
	if f.left > 0 || waiting < 9 {
		return waiting > 0 && f.left > 0
	}
	head, _ := f.cn.br.Peek(9)
	need := 9 + (int(head[0])<<16 | int(head[1])<<8 | int(head[2]))
	if head[3] == frameData && head[4]&flagPadded == 0 {
		need = min(need, 10)
	}
	return waiting >= need && f.padding == 0
}

// nextOfStream is the next frame that belongs to the exchange.
func (f *frames) nextOfStream() (frame, error) {
	if h := f.waiting; h != nil {
		f.waiting = nil
		return *h, nil
	}
	for {
		h, err := f.next(false)
		if err != nil {
			return h, err
		}
		if h.stream == f.stream {
			return h, nil
		}
	}
}

// next reads the head of the next frame. A frame of the exchange is returned with its
// payload unread, but for a reset, which is an error. Any other has been dealt with; it
// is returned only if the caller wants to know that something has changed.
func (f *frames) next(any bool) (frame, error) {
	for {
		head, err := f.cn.br.Peek(9)
		if err != nil {
			return frame{}, unexpected(err)
		}
		h := frame{
			length: int(head[0])<<16 | int(head[1])<<8 | int(head[2]), kind: head[3], flags: head[4],
			stream: binary.BigEndian.Uint32(head[5:]) & maxStream,
		}
		_, _ = f.cn.br.Discard(9)
		if h.length > ourFrame {
			return h, errFrameSize
		}
		switch h.kind {
		case frameHeaders, frameData:
			if h.stream != f.stream {
				return h, errFrameOrder
			}
			f.answered = true
			return h, nil
		case framePush, frameContinuation:
			return h, errFrameOrder
		}
		if err := f.control(h); err != nil {
			return h, err
		}
		if h.stream = 0; any {
			return h, nil
		}
	}
}

// control deals with a frame that carries no answer.
func (f *frames) control(h frame) error {
	payload, err := f.payload(h)
	if err != nil {
		return err
	}
	switch h.kind {
	case frameReset:
		if len(payload) != 4 {
			return errFrameSize
		}
		if h.stream == f.stream {
			f.answered = f.answered || binary.BigEndian.Uint32(payload) != refusedStream
			return fmt.Errorf("server reset the stream with code %d: %w", binary.BigEndian.Uint32(payload), io.ErrUnexpectedEOF)
		}
	case frameSettings:
		if h.flags&flagEnd == 0 {
			return f.settings(payload)
		}
	case framePing:
		if len(payload) != 8 {
			return errFrameSize
		}
		if h.flags&flagEnd == 0 {
			f.add(framePing, flagEnd, 0, payload)
			return f.flush()
		}
	case frameGoAway:
		if len(payload) < 8 {
			return errFrameSize
		}
		f.goneAway = true
		if binary.BigEndian.Uint32(payload)&maxStream < f.stream {
			return errGoneAway
		}
	case frameWindow:
		if len(payload) != 4 {
			return errFrameSize
		}
		more := int64(binary.BigEndian.Uint32(payload) & maxStream)
		switch h.stream {
		case 0:
			f.window += more
		case f.stream:
			f.streamWindow += more
		}
	}
	return nil
}

// refusedStream is the code by which a server says that it has not begun a request.
const refusedStream = 7

// settings takes the server's settings and acknowledges them.
func (f *frames) settings(payload []byte) error {
	if len(payload)%6 != 0 {
		return errFrameSize
	}
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case 4: // window of a stream, the open one included
			f.streamWindow += int64(value) - f.initialWindow
			f.initialWindow = int64(value)
		case 5:
			f.maxFrame = max(int(value), usualFrame)
		}
	}
	f.add(frameSettings, flagEnd, 0)
	return f.flush()
}

// payload reads the whole of a small frame; it is valid until the next call.
func (f *frames) payload(h frame) ([]byte, error) {
	if cap(f.buf) < h.length {
		f.buf = make([]byte, h.length)
	}
	f.buf = f.buf[:h.length]
	_, err := io.ReadFull(f.cn.br, f.buf)
	return f.buf, unexpected(err)
}

func (f *frames) skip(n int) error {
	_, err := f.cn.br.Discard(n)
	return unexpected(err)
}

// readFields decodes the headers that begin with the frame.
func (f *frames) readFields(h frame) error {
	f.fields, f.status, f.size = http.Header{}, "", 0
	block, err := f.payload(h)
	if err != nil {
		return err
	}
	padding := 0
	if h.flags&flagPadded != 0 {
		if len(block) == 0 {
			return errFrameSize
		}
		padding, block = int(block[0]), block[1:]
	}
	if h.flags&flagPriority != 0 {
		if len(block) < 5 {
			return errFrameSize
		}
		block = block[5:]
	}
	if padding > len(block) {
		return errFrameSize
	}
	block = block[:len(block)-padding]
	for flags := h.flags; ; flags = h.flags {
		if _, err := f.dec.Write(block); err != nil {
			return fmt.Errorf("decode headers: %w", err)
		}
		if f.size > maxHeader {
			return errHeaderTooLarge
		}
		if flags&flagEndHeaders != 0 {
			return f.dec.Close()
		}
		if h, err = f.continuation(); err != nil {
			return err
		}
		if block, err = f.payload(h); err != nil {
			return err
		}
	}
}

// continuation reads the head of the frame that must follow unfinished headers.
func (f *frames) continuation() (frame, error) {
	head, err := f.cn.br.Peek(9)
	if err != nil {
		return frame{}, unexpected(err)
	}
	h := frame{length: int(head[0])<<16 | int(head[1])<<8 | int(head[2]), kind: head[3], flags: head[4]}
	stream := binary.BigEndian.Uint32(head[5:]) & maxStream
	_, _ = f.cn.br.Discard(9)
	// An empty one that does not end the headers could be sent forever.
	if h.kind != frameContinuation || stream != f.stream || h.length > ourFrame || h.length == 0 && h.flags&flagEndHeaders == 0 {
		return h, errFrameOrder
	}
	return h, nil
}

// field takes one header field from the decoder.
func (f *frames) field(field hpack.HeaderField) {
	f.size += len(field.Name) + len(field.Value) + 32
	switch {
	case f.size > maxHeader:
	case field.Name == ":status":
		f.status = field.Value
	case field.Name != "" && field.Name[0] != ':':
		f.fields.Add(field.Name, field.Value)
	}
}

// catchUp reads what came while the connection was idle, and reports whether it can be
// used.
func (f *frames) catchUp() bool {
	for f.cn.br.Buffered() > 0 || !quiet(f.cn.raw.Conn) {
		if f.cn.raw.SetReadDeadline(time.Now().Add(drainTime)) != nil {
			return false
		}
		if h, err := f.next(true); err != nil || f.goneAway || h.stream != 0 {
			return false
		}
	}
	return !f.goneAway
}
