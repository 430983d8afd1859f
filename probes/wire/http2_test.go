package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/inferbeat/inferbeat/probes"
)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	mu     sync.Mutex
	dials  int
	delay  time.Duration
}

func newPipes(delay time.Duration) *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{}), delay: delay}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := pause(ctx, l.delay); err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		l.mu.Lock()
		l.dials++
		l.mu.Unlock()
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// standard serves HTTP/2 by the standard library, with or without TLS.
func standard(t *testing.T, l *pipes, config *tls.Config, handler http.HandlerFunc) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: protocols, TLSConfig: config, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 10}}
	go func() {
		if config != nil {
			_ = server.ServeTLS(l, "", "")
		} else {
			_ = server.Serve(l)
		}
	}()
	t.Cleanup(func() { _ = server.Close() })
}

func http2(dial func(context.Context, string, string) (net.Conn, error)) Options {
	return Options{DialContext: dial, Connection: probes.Connection{Protocol: probes.HTTP2}}
}

func TestHTTP2StreamsWithTheTimesOfTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newPipes(15 * ms)
		standard(t, l, nil, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			diff(t, "request", []string{r.Method, r.Proto, r.Host, r.URL.RequestURI(), string(body), r.Header.Get("Content-Type"), r.Header.Get("X-A"), r.Header.Get("Accept-Encoding")},
				[]string{"POST", "HTTP/2.0", "engine:8000", "/v1/x?y=1", "{}", "application/json", "b", "identity"})
			time.Sleep(100 * ms)
			for i := range 3 {
				fmt.Fprintf(w, "t%d", i)
				w.(http.Flusher).Flush()
				time.Sleep(20 * ms)
			}
		})
		c := client(t, http2(l.dial))
		clock := probes.NewClock()
		for i := range 2 {
			start := clock.Now()
			req := post("http://engine:8000/v1/x?y=1", "{}")
			req.Header.Set("X-A", "b")
			r := do(t, c, clock, req)
			wait := 0 * ms
			if i == 0 {
				wait = 15 * ms
				diff(t, "connect", r.Trace.Connect, known(15*ms))
			}
			diff(t, "reused", r.Trace.Reused, i > 0)
			diff(t, "protocol", r.Trace.Protocol, "HTTP/2.0")
			diff(t, "status", r.StatusCode, 200)
			diff(t, "first byte", r.FirstByte-start, wait+100*ms)
			buf := make([]byte, 100)
			for j := range 3 {
				n, err := r.Read(buf)
				diff(t, "piece", string(buf[:n]), "t"+strconv.Itoa(j))
				diff(t, "stamp", r.LastRead()-start, wait+100*ms+time.Duration(j)*20*ms)
				if err != nil {
					t.Fatal(err)
				}
			}
			if n, err := r.Read(buf); n != 0 || err != io.EOF || clock.Now()-start != wait+160*ms {
				t.Errorf("end: %d, %v at %v, want EOF at %v", n, err, clock.Now()-start, wait+160*ms)
			}
			r.Close(true)
		}
		diff(t, "connections", l.dials, 1)
	})
}

// golang/go#27044 and golang/go#13774: requests wait inside the client when the server
// allows few streams on a connection, and the wait is taken for the server's.
func TestHTTP2RequestsDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAuthority(t)
		certificate, _, _ := a.issue("engine")
		l := newPipes(15 * ms)
		standard(t, l, &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true}, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(300 * ms)
			_, _ = io.WriteString(w, "hello")
		})
		o := http2(l.dial)
		o.Connection.TLS.CAFile = a.File
		c := client(t, o)
		for wave := range 2 {
			clock := probes.NewClock()
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					r := whole(t, c, clock, post("https://engine/x", "{}"))
					wait := 0 * ms
					if wave == 0 {
						wait = 15 * ms
					}
					diff(t, "reused", r.Trace.Reused, wave > 0)
					diff(t, "set-up", r.Trace.Setup(), wait)
					diff(t, "time of the server", r.FirstByte-r.Trace.Setup(), 300*ms)
				})
			}
			all.Wait()
		}
		diff(t, "connections", l.dials, 30)
	})
}

func TestHTTP2LongBodiesBothWays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newPipes(0)
		long := strings.Repeat("0123456789abcdef", 20000) // beyond every window at the start
		standard(t, l, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength != int64(len(long)) {
				t.Errorf("content length %d", r.ContentLength)
			}
			w.Header().Set("X-Long", strings.Repeat("x", 40000)) // needs continuations
			w.Header().Set("Trailer", "X-After")
			_, _ = io.Copy(w, r.Body)
			w.Header().Set("X-After", "1")
		})
		c := client(t, http2(l.dial))
		for range 3 {
			req := post("http://engine/x", long)
			req.Header.Set("X-Sent", strings.Repeat("y", 40000))
			r := do(t, c, probes.NewClock(), req)
			diff(t, "long header", len(r.Header.Get("X-Long")), 40000)
			if got := text(t, r); got != long {
				t.Errorf("body of %d bytes came back as %d", len(long), len(got))
			}
			r.Close(true)
		}
		diff(t, "connections", l.dials, 1)
	})
}

func TestHTTP2OnlyWhenTheServerSpeaksIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAuthority(t)
		certificate, _, _ := a.issue("engine")
		for _, protocols := range [][]string{{"http/1.1"}, nil} {
			n := &network{serve: func(_ int, p *peer) {
				defer p.Close()
				_ = tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: protocols, SessionTicketsDisabled: true}).Handshake()
			}}
			o := http2(n.dial)
			o.Connection.TLS.CAFile = a.File
			_, err := client(t, o).Do(t.Context(), probes.NewClock(), get("https://engine/x"))
			if e := failure(t, err); e.Phase != PhaseTLS || (protocols == nil && !errors.Is(err, errNoHTTP2)) {
				t.Errorf("a server of %v: phase %s, error %v", protocols, e.Phase, err)
			}
		}
		o := http2(nil)
		o.Connection.Proxy = "http://proxy:3128"
		_, err := client(t, o).Do(t.Context(), probes.NewClock(), get("http://engine/x"))
		if failure(t, err).Phase != PhaseClient || !errors.Is(err, errProxyPlain) {
			t.Errorf("through a proxy without TLS: %v", err)
		}
	})
	if _, err := NewClient(Options{Connection: probes.Connection{Protocol: "http3"}}); err == nil || err.Error() != `read protocol: "http3" is neither "http1" nor "http2"` {
		t.Errorf("protocol http3: %v", err)
	}
}

// speaker writes the frames of a scripted server. It reads all the time, because a
// pipe holds nothing.
type speaker struct {
	*frames
	*peer
	requests chan uint32 // streams whose request has ended; closed at the end
	acks     []byte      // kinds of the frames that were acknowledged
}

func newSpeaker(p *peer) *speaker {
	s := &speaker{newFrames(&conn{stream: p.Conn, br: p.br}), p, make(chan uint32, 10), nil}
	go func() {
		defer close(s.requests)
		if _, err := io.ReadFull(s.br, make([]byte, len(preface))); err != nil {
			return
		}
		for {
			head, err := s.br.Peek(9)
			if err != nil {
				return
			}
			length, kind, flags, stream := int(head[1])<<8|int(head[2]), head[3], head[4], uint32(head[8])
			if _, err := s.br.Discard(9 + length); err != nil {
				return
			}
			switch {
			case (kind == frameData || kind == frameHeaders) && flags&flagEnd != 0:
				s.requests <- stream
			case (kind == frameSettings || kind == framePing) && flags&flagEnd != 0:
				s.acks = append(s.acks, kind)
			}
		}
	}()
	return s
}

// hear waits for the next request and returns its stream, 0 at the end.
func (s *speaker) hear() uint32 { return <-s.requests }

// headers is an encoded block.
func headers(fields ...string) []byte {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block.Bytes()
}

func TestHTTP2FramesAsTheyCome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		acks := make(chan []byte, 1)
		n := &network{serve: func(_ int, p *peer) {
			defer p.Close()
			s := newSpeaker(p)
			for id := s.hear(); id != 0; id = s.hear() {
				s.add(frameSettings, 0, 0, setting(3, 1), setting(4, 100))
				_ = s.flush()
				time.Sleep(10 * ms)
				s.add(frameHeaders, flagEndHeaders, id, headers(":status", "103", "link", "x"))
				_ = s.flush()
				time.Sleep(10 * ms)
				block := headers(":status", "200", "x-a", "1", "x-a", "2")
				padded := append([]byte{2, 0, 0, 0, 0, 16}, block[:3]...)
				s.add(frameHeaders, flagPadded|flagPriority, id, append(padded, 0, 0))
				s.add(frameContinuation, flagEndHeaders, id, block[3:])
				_ = s.flush()
				time.Sleep(10 * ms)
				// A frame of data in two reads: the first half is not held back.
				s.add(frameData, flagPadded, id, []byte{3}, []byte("abcdef"), []byte{0, 0, 0})
				whole := bytes.Clone(s.out.Bytes())
				s.out.Reset()
				_, _ = s.Write(whole[:13])
				time.Sleep(10 * ms)
				_, _ = s.Write(whole[13:])
				time.Sleep(10 * ms)
				// What comes in between is dealt with on the way; unknown frames are none of ours.
				s.add(framePing, 0, 0, []byte("pingpong"))
				s.add(200, 7, id, []byte("?"))
				s.add(frameWindow, 0, 0, number(1))
				s.add(frameData, 0, id)
				s.add(frameData, 0, id, []byte("gh"))
				s.add(frameData, 0, id, []byte("ij"))
				s.add(frameData, flagEnd, id)
				_ = s.flush()
			}
			acks <- s.acks
		}}
		c := client(t, http2(n.dial))
		for range 2 {
			clock := probes.NewClock()
			r := do(t, c, clock, post("http://engine/x", "{}"))
			diff(t, "headers", r.Header, http.Header{"X-A": {"1", "2"}})
			diff(t, "first byte", r.FirstByte, 20*ms)
			buf := make([]byte, 100)
			for _, want := range []struct {
				text string
				at   time.Duration
				err  error
			}{{"abc", 30 * ms, nil}, {"def", 40 * ms, nil}, {"ghij", 50 * ms, nil}, {"", 50 * ms, io.EOF}} {
				n, err := r.Read(buf)
				if string(buf[:n]) != want.text || r.LastRead() != want.at || err != want.err {
					t.Errorf("Read = %q, %v at %v, want %q, %v at %v", buf[:n], err, r.LastRead(), want.text, want.err, want.at)
				}
			}
			r.Close(true)
		}
		diff(t, "connections", len(n.addrs), 1)
		c.Close()
		diff(t, "acknowledged", <-acks, []byte{frameSettings, framePing, frameSettings, framePing})
	})
}

func TestHTTP2Failures(t *testing.T) {
	ok := headers(":status", "200")
	tests := []struct {
		name  string
		say   func(s *speaker, id uint32)
		phase Phase
		cause error
	}{
		{"reset before the answer", func(s *speaker, id uint32) { s.add(frameReset, 0, id, number(2)) }, PhaseResponse, io.ErrUnexpectedEOF},
		{"reset in the answer", func(s *speaker, id uint32) {
			s.add(frameHeaders, flagEndHeaders, id, ok)
			s.add(frameData, 0, id, []byte("he"))
			s.add(frameReset, 0, id, number(2))
		}, PhaseBody, io.ErrUnexpectedEOF},
		{"connection closed in the answer", func(s *speaker, id uint32) { s.add(frameHeaders, flagEndHeaders, id, ok) }, PhaseBody, io.ErrUnexpectedEOF},
		{"goes away", func(s *speaker, _ uint32) { s.add(frameGoAway, 0, 0, number(0), number(0)) }, PhaseResponse, errGoneAway},
		{"closed at once", func(*speaker, uint32) {}, PhaseResponse, io.ErrUnexpectedEOF},
		{"data first", func(s *speaker, id uint32) { s.add(frameData, 0, id, []byte("x")) }, PhaseResponse, errFrameOrder},
		{"another stream", func(s *speaker, id uint32) { s.add(frameHeaders, flagEndHeaders, id+2, ok) }, PhaseResponse, errFrameOrder},
		{"push", func(s *speaker, id uint32) { s.add(framePush, flagEndHeaders, id, number(2), ok) }, PhaseResponse, errFrameOrder},
		{"continuation of nothing", func(s *speaker, id uint32) { s.add(frameContinuation, flagEndHeaders, id, ok) }, PhaseResponse, errFrameOrder},
		{"headers that are interrupted", func(s *speaker, id uint32) {
			s.add(frameHeaders, 0, id, ok)
			s.add(framePing, 0, 0, []byte("pingpong"))
		}, PhaseResponse, errFrameOrder},
		{"continuations without end", func(s *speaker, id uint32) {
			s.add(frameHeaders, 0, id, ok)
			s.add(frameContinuation, 0, id)
		}, PhaseResponse, errFrameOrder},
		{"large frame", func(s *speaker, id uint32) { s.add(frameData, 0, id, make([]byte, ourFrame+1)) }, PhaseResponse, errFrameSize},
		{"settings of odd length", func(s *speaker, _ uint32) { s.add(frameSettings, 0, 0, []byte("x")) }, PhaseResponse, errFrameSize},
		{"short ping", func(s *speaker, _ uint32) { s.add(framePing, 0, 0, []byte("x")) }, PhaseResponse, errFrameSize},
		{"short reset", func(s *speaker, id uint32) { s.add(frameReset, 0, id, []byte("x")) }, PhaseResponse, errFrameSize},
		{"padding beyond the frame", func(s *speaker, id uint32) {
			s.add(frameHeaders, flagEndHeaders, id, ok)
			s.add(frameData, flagPadded, id, []byte{5, 0, 0})
		}, PhaseBody, errFrameSize},
		{"headers too large", func(s *speaker, id uint32) {
			s.add(frameHeaders, 0, id, ok)
			for range 200 {
				s.add(frameContinuation, 0, id, headers("x", strings.Repeat("a", 9000)))
			}
		}, PhaseResponse, errHeaderTooLarge},
		{"no status", func(s *speaker, id uint32) { s.add(frameHeaders, flagEndHeaders|flagEnd, id, headers("a", "b")) }, PhaseResponse, nil},
		{"interim end", func(s *speaker, id uint32) {
			s.add(frameHeaders, flagEndHeaders|flagEnd, id, headers(":status", "103"))
		}, PhaseResponse, errFrameOrder},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{serve: func(_ int, p *peer) {
					defer p.Close()
					s := newSpeaker(p)
					id := s.hear()
					test.say(s, id)
					_ = s.flush()
				}}
				c := client(t, http2(n.dial))
				r, err := c.Do(t.Context(), probes.NewClock(), post("http://engine/x", "{}"))
				if err == nil {
					_, err = io.ReadAll(r)
					r.Close(false)
				}
				if err == nil {
					t.Fatal("no error")
				}
				if e := failure(t, err); e.Phase != test.phase || (test.cause != nil && !errors.Is(err, test.cause)) {
					t.Errorf("phase %s, error %v, want %s, %v", e.Phase, err, test.phase, test.cause)
				}
				diff(t, "connections", len(n.addrs), 1)
			})
		})
	}
}

// A reused connection that the server has given up is replaced once, and said to be.
func TestHTTP2StaleReuse(t *testing.T) {
	for name, leave := range map[string]func(s *speaker){
		"goes away": func(s *speaker) { s.add(frameGoAway, 0, 0, number(1), number(0)); _ = s.flush() },
		"refuses":   func(s *speaker) { s.add(frameReset, 0, s.hear(), number(refusedStream)); _ = s.flush() },
		// Not before the client has put its connection aside: it would see the end then.
		"closes": func(*speaker) { time.Sleep(ms) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{serve: func(_ int, p *peer) {
					defer p.Close()
					s := newSpeaker(p)
					for range 2 {
						id := s.hear()
						if id == 0 {
							return
						}
						s.add(frameHeaders, flagEndHeaders, id, headers(":status", "200"))
						s.add(frameData, flagEnd, id, []byte("hello"))
						_ = s.flush()
						if name != "refuses" || id == 1 {
							leave(s)
							return
						}
					}
				}}
				c := client(t, http2(n.dial))
				diff(t, "first is stale", whole(t, c, probes.NewClock(), post("http://engine/x", "{}")).Stale, false)
				time.Sleep(time.Second)
				r := whole(t, c, probes.NewClock(), post("http://engine/x", "{}"))
				diff(t, "connections", len(n.addrs), 2)
				diff(t, "reused", r.Trace.Reused, false)
				diff(t, "stale", r.Stale, true)
			})
		})
	}
}

// A server may refuse a long body before it has come; its answer is heard.
func TestHTTP2AnswerToAnUnfinishedRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: func(_ int, p *peer) {
			defer p.Close()
			s := newSpeaker(p)
			time.Sleep(10 * ms)
			s.add(frameHeaders, flagEndHeaders, 1, headers(":status", "413"))
			s.add(frameData, flagEnd, 1, []byte("hello"))
			_ = s.flush()
			time.Sleep(time.Hour)
		}}
		c := client(t, http2(n.dial))
		for range 2 {
			r := whole(t, c, probes.NewClock(), post("http://engine/x", strings.Repeat("x", 100000)))
			diff(t, "status", r.StatusCode, 413)
			diff(t, "first byte", r.FirstByte, 10*ms)
			diff(t, "reused", r.Trace.Reused, false)
		}
	})
}

func TestHTTP2CancelAndDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newPipes(0)
		gone := make(chan time.Duration, 1)
		clock := probes.NewClock()
		standard(t, l, nil, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			gone <- clock.Now()
		})
		c := client(t, http2(l.dial))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		r, err := c.Do(ctx, clock, post("http://engine/x", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadAll(r); !errors.Is(err, context.Canceled) || clock.Now() != 50*ms {
			t.Errorf("cancelled: %v at %v, want 50ms", err, clock.Now())
		}
		r.Close(false)
		diff(t, "the server stopped at", <-gone, 50*ms)
		r = do(t, c, clock, post("http://engine/x", "{}"))
		r.SetReadDeadline(known(90 * ms))
		if _, err = io.ReadAll(r); failure(t, err).Phase != PhaseBody || clock.Now() != 90*ms {
			t.Errorf("deadline: %v at %v, want 90ms", err, clock.Now())
		}
		r.Close(false)
		diff(t, "the server stopped at", <-gone, 90*ms)
	})
}

func TestHTTP2HeaderThatCannotBeSent(t *testing.T) {
	n := &network{serve: func(_ int, p *peer) { _, _ = io.Copy(io.Discard, p) }}
	req := post("http://engine/x", "{}")
	req.Header["X-A"] = []string{"a\r\nb"}
	if _, err := client(t, http2(n.dial)).Do(t.Context(), probes.NewClock(), req); failure(t, err).Phase != PhaseWrite {
		t.Errorf("error %v", err)
	}
}

// On a socket the server's frames come when they come, also between exchanges.
func TestHTTP2ConnectionIsKept(t *testing.T) {
	var mu sync.Mutex
	conns := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			conns++
		}
	}
	server.StartTLS()
	defer server.Close()
	o := Options{Connection: probes.Connection{Protocol: probes.HTTP2, TLS: probes.TLS{InsecureSkipVerify: true}}}
	c := client(t, o)
	for range 50 {
		r := whole(t, c, probes.NewClock(), post(server.URL, strings.Repeat("x", 200000)))
		diff(t, "protocol", r.Trace.Protocol, "HTTP/2.0")
		diff(t, "stale", r.Stale, false)
	}
	mu.Lock()
	diff(t, "connections", conns, 1)
	mu.Unlock()
	o.Connection.Policy = probes.ConnectionNew
	c = client(t, o)
	for range 2 {
		diff(t, "reused", whole(t, c, probes.NewClock(), post(server.URL, "{}")).Trace.Reused, false)
	}
}

// A server that leaves or asks for a sign of life while the connection is idle.
func TestHTTP2IdleConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	idle := make(chan string)
	said := make(chan bool)
	go func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer raw.Close()
				s := newSpeaker(newPeer(raw))
				for id := s.hear(); id != 0; id = s.hear() {
					s.add(frameHeaders, flagEndHeaders, id, headers(":status", "200"))
					s.add(frameData, flagEnd, id, []byte("hello"))
					_ = s.flush()
					switch <-idle {
					case "asks":
						s.add(framePing, 0, 0, []byte("pingpong"))
						_ = s.flush()
					case "leaves":
						s.add(frameGoAway, 0, 0, number(id), number(0))
						_ = s.flush()
					case "breaks the rules":
						s.add(frameData, 0, id, []byte("ghost"))
						_ = s.flush()
					}
					said <- true
				}
			}()
		}
	}()
	c := client(t, Options{Connection: probes.Connection{Protocol: probes.HTTP2}})
	url := "http://" + listener.Addr().String()
	reused := false
	for _, next := range []string{"nothing", "asks", "leaves", "breaks the rules", "nothing"} {
		r := whole(t, c, probes.NewClock(), post(url, "{}"))
		diff(t, "reused before it "+next, r.Trace.Reused, reused)
		diff(t, "stale", r.Stale, false)
		idle <- next
		<-said
		reused = next == "nothing" || next == "asks"
	}
}

// FuzzHTTP2 lets a server say anything: the exchange ends, and a body never has more
// bytes than were sent.
func FuzzHTTP2(f *testing.F) {
	frame := func(kind, flags byte, payload []byte) []byte {
		s := newFrames(&conn{})
		s.add(kind, flags, 1, payload)
		return s.out.Bytes()
	}
	ok := frame(frameHeaders, flagEndHeaders, headers(":status", "200"))
	f.Add(append(bytes.Clone(ok), frame(frameData, flagEnd, []byte("x"))...))
	f.Add(append(bytes.Clone(ok), frame(frameData, flagPadded, []byte{1, 'x', 0})...))
	f.Add(append(frame(frameHeaders, 0, headers(":status", "103")), frame(frameContinuation, flagEndHeaders, nil)...))
	f.Add(append(bytes.Clone(ok), frame(frameReset, 0, number(8))...))
	f.Add(append(frame(frameSettings, 0, setting(4, 0)), frame(frameGoAway, 0, make([]byte, 8))...))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			_, _ = theirs.Write(said)
		}()
		c := client(t, http2(func(context.Context, string, string) (net.Conn, error) { return ours, nil }))
		r, err := c.Do(t.Context(), probes.NewClock(), post("http://engine/x", "{}"))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r)
		if len(body) > len(said) {
			t.Fatalf("%d bytes out of %d", len(body), len(said))
		}
		r.Close(true)
	})
}
