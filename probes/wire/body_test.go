package wire

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

// piece is what a server writes at an instant after the request.
type piece struct {
	at   time.Duration
	text string
}

func pieces(script ...piece) func(int, *peer) {
	return func(_ int, p *peer) {
		defer p.Close()
		for p.read() != nil {
			begin := time.Now()
			for _, s := range script {
				time.Sleep(time.Until(begin.Add(s.at)))
				p.say("%s", s.text)
			}
		}
	}
}

func (p piece) String() string { return fmt.Sprintf("%v %q", p.at, p.text) }

// arrivals reads the body to its end and notes what came when.
func arrivals(t testing.TB, r *Response, clock probes.Clock) (got []string) {
	t.Helper()
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			got = append(got, piece{clock.Now(), string(buf[:n])}.String())
			diff(t, "last read", r.LastRead(), clock.Now())
		}
		if err == io.EOF {
			return append(got, piece{clock.Now(), "EOF"}.String())
		}
		if err != nil {
			t.Fatalf("read: %v after %v", err, got)
		}
	}
}

func TestBodyBytesAreDeliveredWhenTheyCome(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, test := range []struct {
		name   string
		script []piece
		want   []piece
	}{
		{"one chunk per write", []piece{
			{50 * ms, chunked}, {60 * ms, "1\r\na\r\n"}, {70 * ms, "2\r\nbc\r\n"}, {80 * ms, "0\r\n\r\n"},
		}, []piece{{60 * ms, "a"}, {70 * ms, "bc"}, {80 * ms, "EOF"}}},
		{"a chunk in parts", []piece{
			{50 * ms, chunked + "B\r\nhello"}, {60 * ms, " "}, {70 * ms, "world"}, {80 * ms, "\r"}, {90 * ms, "\n0\r\n\r\n"},
		}, []piece{{50 * ms, "hello"}, {60 * ms, " "}, {70 * ms, "world"}, {90 * ms, "EOF"}}},
		{"many chunks in one write", []piece{
			{50 * ms, chunked + "1\r\na\r\n1 \r\nb\r\n1;x=\"y\"\r\nc\r\n3\r\nde"}, {60 * ms, "f\r\n0"}, {70 * ms, "\r\nX-Trailer: y\r\n\r\n"},
		}, []piece{{50 * ms, "abcde"}, {60 * ms, "f"}, {70 * ms, "EOF"}}},
		{"a header in parts", []piece{
			{50 * ms, chunked + "1\r\na\r\n00"}, {60 * ms, "0000000000000"}, {70 * ms, "1\r\nb\r\n0\r\n\r\n"},
		}, []piece{{50 * ms, "a"}, {70 * ms, "b"}, {70 * ms, "EOF"}}},
		{"counted", []piece{
			{50 * ms, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc"}, {60 * ms, "de"}, {70 * ms, "f"},
		}, []piece{{50 * ms, "abc"}, {60 * ms, "de"}, {70 * ms, "f"}, {70 * ms, "EOF"}}},
		{"nothing", []piece{{50 * ms, "HTTP/1.1 204 No Content\r\n\r\n"}}, []piece{{50 * ms, "EOF"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{serve: pieces(test.script...)}
				c := client(t, Options{DialContext: n.dial})
				for i := range 2 { // the second on the same connection
					clock := probes.NewClock()
					r := do(t, c, clock, get("http://a"))
					var want []string
					for _, p := range test.want {
						want = append(want, p.String())
					}
					diff(t, "arrivals", arrivals(t, r, clock), want)
					r.Close(true)
					diff(t, "reused", r.Trace.Reused, i == 1)
				}
			})
		})
	}
}

func TestBodyToTheEndOfTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: func(_ int, p *peer) {
			p.read()
			p.say("HTTP/1.1 200 OK\r\n\r\n")
			time.Sleep(10 * ms)
			p.say("hello")
			time.Sleep(10 * ms)
			p.Close()
		}}
		c := client(t, Options{DialContext: n.dial})
		clock := probes.NewClock()
		r := do(t, c, clock, get("http://a"))
		diff(t, "arrivals", arrivals(t, r, clock), []string{`10ms "hello"`, `20ms "EOF"`})
		r.Close(true)
		again := do(t, c, clock, get("http://a"))
		diff(t, "reused", again.Trace.Reused, false)
		again.Close(false)
	})
}

func answering(text string) Options {
	return Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &recorder{answers: iotest.OneByteReader(strings.NewReader(text))}, nil
	}}
}

func TestBrokenBodies(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, test := range []struct {
		name, answer, before string
		cause                error
	}{
		{"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", "hello", io.ErrUnexpectedEOF},
		{"ends in a chunk", chunked + "6\r\nhello", "hello", io.ErrUnexpectedEOF},
		{"ends after a chunk", chunked + "5\r\nhello", "hello", io.ErrUnexpectedEOF},
		{"ends before the last chunk", chunked + "5\r\nhello\r\n", "hello", io.ErrUnexpectedEOF},
		{"ends before the trailer", chunked + "5\r\nhello\r\n0\r\n", "hello", io.ErrUnexpectedEOF},
		{"no size", chunked + "\r\nhello\r\n", "", errChunkLine},
		{"size with more digits than a number has", chunked + "10000000000000005\r\nhello\r\n", "", errChunkLine},
		{"longer than its size", chunked + "4\r\nhello\r\n", "hell", errChunkEnd},
		{"endless chunk header", chunked + "5;" + strings.Repeat("x", 2*readBuffer), "", errLongChunkExt},
		{"endless trailer", chunked + "5\r\nhello\r\n0\r\n" + strings.Repeat("X: y\r\n", maxTrailer), "hello", errLongTrailer},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := client(t, answering(test.answer))
			r := do(t, c, probes.NewClock(), get("http://a"))
			got, err := io.ReadAll(r)
			diff(t, "bytes before", string(got), test.before)
			diff(t, "phase", failure(t, err).Phase, PhaseBody)
			if !errors.Is(err, test.cause) {
				t.Errorf("error = %v, want %v", err, test.cause)
			}
			if _, again := r.Read(make([]byte, 1)); again != err {
				t.Errorf("second error = %v, want the first", again)
			}
			r.Close(true)
			diff(t, "kept", len(c.pool.idle), 0)
		})
	}
	_, err := chunkSize([]byte("-1"))
	diff(t, "text", fmt.Sprint(err), `malformed chunk header "-1"`)
}

func TestBodyDecodesAnyChunking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 20000).Draw(t, "payload")
		var wire bytes.Buffer
		for rest := payload; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 9000)).Draw(t, "chunk")
			format := rapid.SampledFrom([]string{"%x\r\n", "%X\r\n", "%06x \r\n", "%x;a=b\r\n"}).Draw(t, "header")
			fmt.Fprintf(&wire, format, n)
			wire.Write(rest[:n])
			wire.WriteString("\r\n")
			rest = rest[n:]
		}
		wire.WriteString("0\r\n\r\nNEXT")
		parts := &splitting{t: t, rest: wire.Bytes()}
		b := body{br: bufio.NewReaderSize(parts, readBuffer), next: chunkHead}
		var got []byte
		buf := make([]byte, rapid.IntRange(1, 10000).Draw(t, "buffer"))
		for {
			n, err := b.Read(buf)
			got = append(got, buf[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("Read = %d, %v", n, err)
			}
		}
		if !bytes.Equal(got, payload) {
			t.Fatalf("got %d bytes, want %d", len(got), len(payload))
		}
		if rest, _ := io.ReadAll(b.br); string(rest) != "NEXT" {
			t.Fatalf("left behind %q, want NEXT", rest)
		}
	})
}

// FuzzBody: whatever the standard library's reader accepts, ours reads the same
// way, and nothing makes it panic or stand still.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{"5\r\nhello\r\n0\r\n\r\n", "1;a=b\r\nx\r\n00\r\nX: y\r\n\r\nrest", "fffffffffffffffff\r\n", "5\nhello\n0\n\n", "A \t\r\n0123456789\r\n0", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		theirs, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head), bytes.NewReader(encoded))), nil)
		if err != nil {
			t.Fatal(err)
		}
		want, refused := io.ReadAll(theirs.Body)
		b := body{br: bufio.NewReaderSize(bytes.NewReader(encoded), readBuffer), next: chunkHead}
		var got []byte
		buf := make([]byte, 7)
		for err == nil {
			var n int
			if n, err = b.Read(buf); n == 0 && err == nil {
				t.Fatal("Read brought nothing and no error")
			}
			got = append(got, buf[:n]...)
		}
		if refused == nil && (err != io.EOF || !bytes.Equal(got, want)) {
			t.Errorf("read %q, %v; the standard library reads %q", got, err, want)
		}
	})
}

// splitting delivers its bytes in parts of random length.
type splitting struct {
	t    *rapid.T
	rest []byte
}

func (s *splitting) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:rapid.IntRange(1, min(len(s.rest), 5000)).Draw(s.t, "part")])
	s.rest = s.rest[n:]
	return n, nil
}

func compressed(t *testing.T, coding string, parts ...string) []string {
	t.Helper()
	var buf bytes.Buffer
	var w interface {
		io.WriteCloser
		Flush() error
	}
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&buf)
	case "zlib":
		w = zlib.NewWriter(&buf)
	case "flate":
		w, _ = flate.NewWriter(&buf, 6)
	}
	var out []string
	for i, part := range parts {
		_, err := io.WriteString(w, part)
		if err == nil && i < len(parts)-1 {
			err = w.Flush()
		} else if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, buf.String())
		buf.Reset()
	}
	return out
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func TestCompressedAnyway(t *testing.T) {
	gz := compressed(t, "gzip", "zip me up")[0]
	flushed := compressed(t, "gzip", "zip ", "me ", "up")
	zl, fl := compressed(t, "zlib", "zip ", "me up"), compressed(t, "flate", "zip ", "me up")
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: %s\r\n\r\n"
	for _, test := range []struct {
		name   string
		script []piece
		want   []string
	}{
		{"gzip header early", []piece{
			{50 * ms, fmt.Sprintf(head, "gzip") + chunk(gz[:10])}, {900 * ms, chunk(gz[10:])}, {910 * ms, "0\r\n\r\n"},
		}, []string{`900ms "zip me up"`, `900ms "EOF"`}},
		{"gzip flushed", []piece{
			{50 * ms, fmt.Sprintf(head, "GZIP") + chunk(flushed[0])}, {60 * ms, chunk(flushed[1])}, {70 * ms, chunk(flushed[2]) + "0\r\n\r\n"},
		}, []string{`50ms "zip "`, `60ms "me "`, `70ms "up"`, `70ms "EOF"`}},
		{"deflate is zlib", []piece{
			{50 * ms, fmt.Sprintf(head, "deflate") + chunk(zl[0])}, {60 * ms, chunk(zl[1]) + "0\r\n\r\n"},
		}, []string{`50ms "zip "`, `60ms "me up"`, `60ms "EOF"`}},
		{"deflate is bare", []piece{
			{50 * ms, fmt.Sprintf(head, "deflate") + chunk(fl[0])}, {60 * ms, chunk(fl[1]) + "0\r\n\r\n"},
		}, []string{`50ms "zip "`, `60ms "me up"`, `60ms "EOF"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{serve: pieces(test.script...)}
				c := client(t, Options{DialContext: n.dial})
				for i := range 2 {
					clock := probes.NewClock()
					r := do(t, c, clock, get("http://a"))
					diff(t, "first byte", r.FirstByte, 50*ms)
					diff(t, "compressed", r.Compressed, true)
					diff(t, "arrivals", arrivals(t, r, clock), test.want)
					if test.name == "gzip header early" {
						time.Sleep(10 * ms)
					}
					r.Close(true)
					diff(t, "reused", r.Trace.Reused, i == 1)
				}
			})
		})
	}
}

func TestCompressedBeyondReading(t *testing.T) {
	gz := compressed(t, "gzip", "zip me up")[0]
	for _, test := range []struct{ name, coding, body, want string }{
		{"unknown", "br", "xxxx", "read body: server compressed with br, which was not asked for and is not understood"},
		{"two codings", "gzip, br", "xxxx", "read body: server compressed with gzip, br, which was not asked for and is not understood"},
		{"not gzip", "gzip", "hello world", "read body: gzip: invalid header"},
		{"broken off", "gzip", gz[:len(gz)-4], "read body: unexpected EOF"},
		{"broken off in its header", "gzip", gz[:5], "read body: unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := client(t, answering(fmt.Sprintf("HTTP/1.1 500 Oh\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", test.coding, len(test.body), test.body)))
			r := do(t, c, probes.NewClock(), get("http://a"))
			diff(t, "status", r.StatusCode, 500) // whatever the body is
			_, err := io.ReadAll(r)
			diff(t, "phase", failure(t, err).Phase, PhaseBody)
			diff(t, "text", err.Error(), test.want)
		})
	}
	r := do(t, client(t, answering("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n")), probes.NewClock(), get("http://a"))
	diff(t, "an empty body is not compressed", r.Compressed, false)
	diff(t, "body", text(t, r), "")
	r = do(t, client(t, answering("HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello")), probes.NewClock(), get("http://a"))
	diff(t, "identity is not compressed", r.Compressed, false)
	diff(t, "body", text(t, r), "hello")
}

func TestCloseAfterTheEndMark(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	mark := chunk("data: [DONE]\n")
	for _, test := range []struct {
		name     string
		policy   probes.ConnectionPolicy
		finished bool
		script   []piece
		held     time.Duration // by Close
		kept     bool
	}{
		{"end is there", "", true, []piece{{90 * ms, head + mark + "0\r\n\r\n"}}, 0, true},
		{"end comes soon", "", true, []piece{{90 * ms, head + mark}, {94 * ms, chunk("\n")}, {99 * ms, "0\r\n\r\n"}}, 9 * ms, true},
		{"end comes too late", "", true, []piece{{90 * ms, head + mark}, {101 * ms, "0\r\n\r\n"}}, 10 * ms, false},
		{"socket left open and silent", "", true, []piece{{90 * ms, head + mark}, {time.Hour, "0\r\n\r\n"}}, 10 * ms, false},
		{"goes on talking", "", true, []piece{{90 * ms, head + mark}, {95 * ms, chunk(": ping\n")}, {99 * ms, chunk(": ping\n")}, {105 * ms, chunk(": ping\n")}}, 10 * ms, false},
		{"not finished", "", false, []piece{{90 * ms, head + mark + "0\r\n\r\n"}}, 0, false},
		{"a connection per request ends cleanly too", probes.ConnectionNew, true, []piece{{90 * ms, head + mark}, {94 * ms, "0\r\n\r\n"}}, 4 * ms, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				clock := probes.NewClock()
				serve := pieces(test.script...)
				var closed probes.Optional[time.Duration]
				n := &network{serve: func(n int, p *peer) {
					go serve(n, &peer{p.Conn, p.br})
				}}
				c := client(t, Options{Connection: probes.Connection{Policy: test.policy}, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					raw, err := n.dial(ctx, network, address)
					return &closeNoting{raw, func() { closed = known(clock.Now()) }}, err
				}})
				r := do(t, c, clock, get("http://a"))
				buf := make([]byte, 100)
				k, err := r.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				diff(t, "read", string(buf[:k]), "data: [DONE]\n")
				diff(t, "at", clock.Now(), 90*ms)
				r.Close(test.finished)
				diff(t, "held", clock.Now(), 90*ms+test.held)
				want := probes.Optional[time.Duration]{}
				if !test.kept {
					want = known(90*ms + test.held)
				}
				diff(t, "closed", closed, want)
				r.Close(true) // has no effect
				if _, err := r.Read(buf); !errors.Is(err, errClosed) && err != io.EOF {
					t.Errorf("read after close = %v", err)
				}
				again := do(t, c, clock, get("http://a"))
				diff(t, "reused", again.Trace.Reused, test.kept)
				again.Close(false)
				synctest.Wait()
			})
		})
	}
}

// closeNoting calls noted when it is closed.
type closeNoting struct {
	net.Conn
	noted func()
}

func (c *closeNoting) Close() error { c.noted(); return c.Conn.Close() }

func TestReadDeadlineMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: pieces(piece{50 * ms, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na"}, piece{100 * ms, "b"}, piece{time.Hour, "c"}, piece{3 * time.Hour, "d"})}
		c := client(t, Options{DialContext: n.dial})
		clock := probes.NewClock()
		req := get("http://a")
		req.Deadline = known(60 * ms)
		r := do(t, c, clock, req)
		buf := make([]byte, 10)
		read := func(want string, at time.Duration) {
			t.Helper()
			k, err := r.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "bytes", string(buf[:k]), want)
			diff(t, "at", clock.Now(), at)
		}
		read("a", 50*ms)
		r.SetReadDeadline(known(110 * ms))
		read("b", 100*ms)
		r.SetReadDeadline(probes.Optional[time.Duration]{})
		read("c", time.Hour)
		r.SetReadDeadline(known(time.Hour + time.Minute))
		_, err := r.Read(buf)
		diff(t, "gave up", clock.Now(), time.Hour+time.Minute)
		diff(t, "phase", failure(t, err).Phase, PhaseBody)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error = %v, want os.ErrDeadlineExceeded", err)
		}
		r.Close(true)
	})
}
