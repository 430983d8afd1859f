package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// ourWindow is how much a server may send before it hears from us: far more than
	// any answer, so that no answer ever waits for the client's permission.
	ourWindow = 1 << 30
	// usualWindow and usualFrame hold until the server's settings have come; ourFrame
	// is the largest frame that we take.
	usualWindow = 1<<16 - 1
	usualFrame  = 1 << 14
	ourFrame    = 1 << 14
	// maxStream is the last number of a stream.
	maxStream = 1<<31 - 1
)

// frames is the HTTP/2 side of a connection. One exchange uses a connection at a time,
// as with HTTP/1.1: a stream then never waits for another one's data, for a limit on
// streams or for a goroutine that reads for all, and every phase stays known. What the
// server sends between exchanges is read when the next one begins.
type frames struct {
	cn     *conn
	stream uint32 // of the exchange; 0 before the first
	dec    *hpack.Decoder
	enc    *hpack.Encoder
	block  bytes.Buffer // of header fields, as the encoder wrote it
	out    bytes.Buffer // frames that leave in one write
	buf    []byte       // payload of a control frame or of headers
	fields http.Header  // what the decoder found
	status string
	size   int // of the fields

	// What the server allows us to send.
	window, streamWindow, initialWindow int64
	maxFrame                            int

	taken int // bytes of data since the last permission that we gave
	// The open data frame.
	left, padding int
	last          bool

	answered bool   // a frame of the exchange's stream has come
	waiting  *frame // it came while the request was being sent
	unsent   bool   // the request was not sent to its end
	goneAway bool   // the server takes no further stream
}

type frame struct {
	length int
	kind   byte
	flags  byte
	stream uint32
}

const (
	frameData = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePush
	framePing
	frameGoAway
	frameWindow
	frameContinuation
)

const (
	flagEnd        = 1 // of the stream; of settings and pings: it acknowledges ours
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32
)

var (
	errGoneAway   = fmt.Errorf("server takes no more requests on this connection: %w", io.ErrUnexpectedEOF)
	errFrameOrder = errors.New("HTTP/2 frame out of place")
	errFrameSize  = errors.New("HTTP/2 frame of a wrong size")
	errNoHTTP2    = errors.New("server does not speak HTTP/2; use protocol http1")
	errProxyPlain = errors.New("HTTP/2 without TLS does not go through a proxy; use protocol http1 or an https target")
)

func newFrames(cn *conn) *frames {
	f := &frames{cn: cn, window: usualWindow, initialWindow: usualWindow, maxFrame: usualFrame}
	f.enc = hpack.NewEncoder(&f.block)
	// Keys and prompts stay out of tables that outlive their request.
	f.enc.SetMaxDynamicTableSizeLimit(0)
	f.dec = hpack.NewDecoder(4096, f.field)
	f.dec.SetMaxStringLength(maxHeader)
	return f
}

// converse sends the request and reads the head of its answer.
func (f *frames) converse(x *exchange) (*http.Response, Phase, error) {
	if err := f.begin(x); err != nil {
		return nil, PhaseWrite, err
	}
	if err := f.write(x.body); err != nil {
		return nil, PhaseWrite, err
	}
	head, err := f.readHead()
	return head, PhaseResponse, err
}

// begin opens a stream: its headers wait in out.
func (f *frames) begin(x *exchange) error {
	f.out.Reset()
	f.waiting, f.unsent, f.left, f.padding, f.last = nil, false, 0, 0, false
	if f.goneAway || f.stream >= maxStream-1 {
		return errGoneAway
	}
	if f.stream == 0 {
		f.stream = 1
		f.out.WriteString(preface)
		f.add(frameSettings, 0, 0, setting(2, 0), setting(4, ourWindow)) // no pushes; window of a stream
		f.add(frameWindow, 0, 0, number(ourWindow-usualWindow))
	} else {
		f.stream += 2
	}
	f.streamWindow = f.initialWindow
	return f.addHeaders(x)
}

func setting(id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// add appends a frame to out.
func (f *frames) add(kind, flags byte, stream uint32, payload ...[]byte) {
	length := 0
	for _, p := range payload {
		length += len(p)
	}
	f.out.Write([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags})
	f.out.Write(number(stream))
	for _, p := range payload {
		f.out.Write(p)
	}
}

// ofConnection are header fields that mean the connection, which HTTP/2 refuses.
var ofConnection = map[string]bool{
	"Connection": true, "Host": true, "Keep-Alive": true, "Proxy-Connection": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Te": true,
}

func (f *frames) addHeaders(x *exchange) error {
	f.block.Reset()
	u := x.head.URL
	path := u.RequestURI()
	pseudo := []hpack.HeaderField{{Name: ":method", Value: x.head.Method}, {Name: ":scheme", Value: u.Scheme}, {Name: ":authority", Value: x.head.Host}, {Name: ":path", Value: path}}
	for _, field := range pseudo {
		if err := f.enc.WriteField(field); err != nil {
			return err
		}
	}
	for name, values := range x.head.Header {
		if ofConnection[http.CanonicalHeaderKey(name)] {
			continue
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("header %q cannot be sent", name)
			}
			if err := f.enc.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: value}); err != nil {
				return err
			}
		}
	}
	if len(x.body) > 0 {
		if err := f.enc.WriteField(hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(x.body))}); err != nil {
			return err
		}
	}
	kind, flags := byte(frameHeaders), byte(0)
	if len(x.body) == 0 {
		flags = flagEnd
	}
	for rest := f.block.Bytes(); ; kind, flags = frameContinuation, 0 {
		part := rest[:min(len(rest), f.maxFrame)]
		rest = rest[len(part):]
		if len(rest) == 0 {
			f.add(kind, flags|flagEndHeaders, f.stream, part)
			return nil
		}
		f.add(kind, flags, f.stream, part)
	}
}

// write sends what waits in out and the body after it, as far as the server allows.
// It ends early when the answer begins before the request has ended.
func (f *frames) write(body []byte) error {
	for {
		for len(body) > 0 {
			n := min(int64(len(body)), int64(f.maxFrame), f.window, f.streamWindow)
			if n <= 0 {
				break
			}
			flags := byte(0)
			if n == int64(len(body)) {
				flags = flagEnd
			}
			f.add(frameData, flags, f.stream, body[:n])
			body = body[n:]
			f.window -= n
			f.streamWindow -= n
		}
		if err := f.flush(); err != nil || len(body) == 0 {
			return err
		}
		h, err := f.next(true)
		if err != nil {
			return err
		}
		if h.stream == f.stream {
			f.waiting, f.unsent = &h, true
			return nil
		}
	}
}

func (f *frames) flush() error {
	if f.out.Len() == 0 {
		return nil
	}
	_, err := f.cn.stream.Write(f.out.Bytes())
	f.out.Reset()
	if f.out.Cap() > maxKeptBuffer {
		f.out = bytes.Buffer{}
	}
	return err
}
