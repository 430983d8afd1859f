package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

const ms = time.Millisecond

// step is one write of a scripted server: at counts from the instant it had read
// the whole request. The last step says how it ends: close, rst or hold.
type step struct {
	at   time.Duration
	data []byte
	end  string
}

// timeline is a scripted answer.
type timeline struct {
	status int
	header map[string]string
	steps  []step
}

// sse is an answer that comes at once and ends regularly.
func sse(body []byte) timeline {
	return timeline{200, map[string]string{"Content-Type": "text/event-stream"}, []step{{data: body}, {end: "close"}}}
}

// answer is a regular answer of any status that comes after a delay.
func answer(status int, at time.Duration, contentType, body string, header ...string) timeline {
	h := map[string]string{"Content-Type": contentType}
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return timeline{status, h, []step{{at: at, data: []byte(body)}, {at: at, end: "close"}}}
}

// tokens streams n chat chunks of one token each, and how it ended.
func tokens(n int, first, gap time.Duration, end string) timeline {
	tl := timeline{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}}
	at := first
	for i := range n {
		text := fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"t%d "},"finish_reason":null}]}`+"\n\n", i)
		tl.steps = append(tl.steps, step{at: at, data: []byte(text)})
		at += gap
	}
	at -= gap
	if end == "close" {
		tail := fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":{"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", n)
		tl.steps = append(tl.steps, step{at: at, data: []byte(tail)})
	}
	tl.steps = append(tl.steps, step{at: at, end: end})
	return tl
}

func mustRead(t testing.TB, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// script reads a file of testdata/timelines: a body, or lines of writes.
func script(t testing.TB, name string) timeline {
	t.Helper()
	data := mustRead(t, "timelines", name)
	if !strings.HasSuffix(name, ".jsonl") {
		return sse(data)
	}
	lines := json.NewDecoder(bytes.NewReader(data))
	var head struct {
		Status  int
		Headers map[string]string
	}
	if err := lines.Decode(&head); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	tl := timeline{status: head.Status, header: head.Headers}
	for lines.More() {
		var line struct {
			At   float64 `json:"at_ms"`
			Text string
			B64  string
			End  string
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		raw, err := base64.StdEncoding.DecodeString(line.B64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tl.steps = append(tl.steps, step{time.Duration(line.At * float64(ms)), append(raw, line.Text...), line.End})
	}
	return tl
}

// asked is a request as a scripted server saw it.
type seenRequest struct {
	*http.Request
	body []byte
	conn int
}

func (r seenRequest) fields(t testing.TB) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(r.body, &fields); err != nil {
		t.Fatalf("request body %q: %v", r.body, err)
	}
	return fields
}

// server answers requests by a script, over pipes.
type server struct {
	connect time.Duration // how long a connection takes
	answers []timeline    // of the first request, the second, …; the last one repeats
	// reply overrides answers by path.
	reply map[string]timeline

	conns int
	seen  []seenRequest
}

func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if s.connect > 0 {
		select {
		case <-time.After(s.connect):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ours, theirs := net.Pipe()
	s.conns++
	go s.serve(theirs, s.conns)
	return ours, nil
}

func (s *server) serve(conn net.Conn, number int) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.seen = append(s.seen, seenRequest{req, body, number})
		tl, ok := s.reply[req.URL.Path]
		if !ok {
			tl = s.answers[min(len(s.seen), len(s.answers))-1]
		}
		if !tl.play(conn, br) {
			return
		}
	}
}

// play writes the answer and reports whether the connection goes on.
func (tl timeline) play(conn net.Conn, br *bufio.Reader) bool {
	began := time.Now()
	var w bytes.Buffer
	fmt.Fprintf(&w, "HTTP/1.1 %d %s\r\nTransfer-Encoding: chunked\r\n", tl.status, http.StatusText(tl.status))
	for name, value := range tl.header {
		fmt.Fprintf(&w, "%s: %s\r\n", name, value)
	}
	w.WriteString("\r\n")
	for _, s := range tl.steps {
		if wait := s.at - time.Since(began); wait > 0 {
			if w.Len() > 0 && tl.status == 200 {
				// The head leaves at once, as most engines do it.
				if _, err := conn.Write(w.Bytes()); err != nil {
					return false
				}
				w.Reset()
			}
			time.Sleep(s.at - time.Since(began))
		}
		switch {
		case len(s.data) > 0:
			fmt.Fprintf(&w, "%x\r\n%s\r\n", len(s.data), s.data)
		case s.end == "close":
			w.WriteString("0\r\n\r\n")
		}
		if _, err := conn.Write(w.Bytes()); err != nil || s.end == "rst" {
			return false
		}
		w.Reset()
		if s.end == "hold" {
			_, _ = br.ReadByte() // until the client hangs up
			return false
		}
	}
	return true
}

func target(backend string) probes.Target {
	return probes.Target{Name: "t", Backend: backend, BaseURL: "http://engine:8000", Model: "demo-8b"}
}

func request() *probes.Request {
	return &probes.Request{
		ID: "req-1", Prompt: "Say something.", MaxOutputTokens: 64, KeepText: true, Sampling: probes.Sampling{Stream: true},
	}
}

func newClient(t testing.TB, tg probes.Target, s *server) *Client {
	t.Helper()
	c, err := New(tg, Options{DialContext: s.dial})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// once sends one request to a script in virtual time.
func once(t *testing.T, tg probes.Target, req *probes.Request, tl timeline) probes.Record {
	t.Helper()
	var rec probes.Record
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, tg, &server{answers: []timeline{tl}})
		rec = c.Do(t.Context(), probes.NewClock(), req, 0)
		c.Close()
		// Scripts that are still writing notice that nobody listens.
		time.Sleep(time.Hour)
	})
	return rec
}

func known[T comparable](o probes.Optional[T]) any {
	if v, ok := o.Get(); ok {
		return v
	}
	return nil
}

func chunkTimes(rec probes.Record) []time.Duration {
	var at []time.Duration
	for _, c := range rec.Chunks {
		at = append(at, c.At)
	}
	return at
}

func chunkTokens(rec probes.Record) []int {
	var n []int
	for _, c := range rec.Chunks {
		n = append(n, int(c.Tokens))
	}
	return n
}

// readCut reads a body that comes in the given pieces, at 1 ms, 2 ms and so on,
// without a connection.
func readCut(c *Client, req *probes.Request, pieces ...[]byte) probes.Record {
	rec := probes.Record{RequestedOutput: req.MaxOutputTokens}
	x := exchange{Client: c, ctx: context.Background(), clock: probes.NewClock(), req: req, rec: &rec}
	r := newReading()
	r.begin(c.d, &rec, req.KeepText, c.target.Model)
	for i, p := range pieces {
		// A read buffer is used again, so nothing may point into it.
		if r.feed(slices.Clone(p), time.Duration(i+1)*ms) {
			x.conclude(r, nil, "")
			return rec
		}
	}
	r.bodyEnded()
	x.conclude(r, io.EOF, "")
	return rec
}

// contextWithTimeout is a context that we cancel after d.
func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}
