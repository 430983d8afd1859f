package truth

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

const ms = time.Millisecond

// serving is a server in a bubble with a way to reach it.
type serving struct {
	*Server
	clock probes.Clock
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// inBubble runs f beside a server in virtual time.
func inBubble(t *testing.T, c Config, f func(t *testing.T, s *serving)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := probes.NewClock()
		s, err := New(c, clock)
		if err != nil {
			t.Fatal(err)
		}
		listener, dial := fakellm.NewPipeListener()
		served := make(chan error)
		go func() { served <- s.Serve(listener) }()
		f(t, &serving{s, clock, dial})
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: got %v, want nil after Close", err)
		}
	})
}

// reading is one read of a body.
type reading struct {
	At   time.Duration
	Text string
}

func (s *serving) connect(t *testing.T) net.Conn {
	t.Helper()
	c, err := s.dial(t.Context(), "tcp", "truth:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// post sends a request on a connection and returns the answer without its body.
func post(t *testing.T, c net.Conn, in *bufio.Reader, path, id, body string) *http.Response {
	t.Helper()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: truth\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", path, id, len(body), body)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	return resp
}

// events reads a body line by line and returns its events, stamped.
func (s *serving) events(t *testing.T, resp *http.Response) []reading {
	t.Helper()
	var out []reading
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			out = append(out, reading{s.clock.Now(), data})
		}
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("read body: %v", err)
		}
	}
}

func text(id, content, reason, usage string) string {
	return `{"id":"` + id + `","object":"text_completion","created":1,"model":"truth","choices":[{"index":0,"text":"` + content + `","logprobs":null,"finish_reason":` + reason + `}]` + usage + `}`
}

func TestCadenceIsExact(t *testing.T) {
	const tail = `"prompt_tokens":2,"total_tokens":%d,"completion_tokens":%d`
	usage := func(n int) string { return fmt.Sprintf(`,"usage":{`+tail+`}`, 2+n, n) }
	tests := []struct {
		name, body string
		config     Config
		want       []reading
		due        []time.Duration
	}{
		{
			"one token an event", `{"prompt":"a b","max_tokens":3,"stream":true}`, Config{TTFT: 100 * ms, ITL: 20 * ms},
			[]reading{{100 * ms, text("cmpl-1", "r1", "null", "")}, {120 * ms, text("cmpl-1", " tok", "null", "")}, {140 * ms, text("cmpl-1", " tok", `"length"`, "")}, {140 * ms, "[DONE]"}},
			[]time.Duration{100 * ms, 120 * ms, 140 * ms},
		},
		{
			"usage at the end", `{"prompt":"a b","max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`, Config{TTFT: 5 * ms, ITL: 20 * ms},
			[]reading{
				{5 * ms, text("cmpl-1", "r1", `"length"`, "")},
				{5 * ms, `{"id":"cmpl-1","object":"text_completion","created":1,"model":"truth","choices":[]` + usage(1) + `}`}, {5 * ms, "[DONE]"},
			},
			[]time.Duration{5 * ms},
		},
		{
			"usage in every event, two tokens each, an odd one over", `{"prompt":"a b","max_tokens":3,"stream":true,"stream_options":{"continuous_usage_stats":true}}`,
			Config{TTFT: 5 * ms, ITL: 20 * ms, TokensPerEvent: 2},
			[]reading{{5 * ms, text("cmpl-1", "r1 tok", "null", usage(2))}, {25 * ms, text("cmpl-1", " tok", `"length"`, usage(3))}, {25 * ms, "[DONE]"}},
			[]time.Duration{5 * ms, 25 * ms},
		},
		{
			"two events a write", `{"prompt":"a b","max_tokens":3,"stream":true}`, Config{TTFT: 100 * ms, ITL: 20 * ms, EventsPerWrite: 2},
			[]reading{{100 * ms, text("cmpl-1", "r1", "null", "")}, {100 * ms, text("cmpl-1", " tok", "null", "")}, {140 * ms, text("cmpl-1", " tok", `"length"`, "")}, {140 * ms, "[DONE]"}},
			[]time.Duration{100 * ms, 100 * ms, 140 * ms},
		},
		{
			"length of the configuration, no gap", `{"prompt":"a b","stream":true}`, Config{Tokens: 2},
			[]reading{{0, text("cmpl-1", "r1", "null", "")}, {0, text("cmpl-1", " tok", `"length"`, "")}, {0, "[DONE]"}},
			[]time.Duration{0, 0},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, tc.config, func(t *testing.T, s *serving) {
				c := s.connect(t)
				resp := post(t, c, bufio.NewReader(c), "/v1/completions", "mine", tc.body)
				if got := resp.Header.Get("X-Request-Id"); got != "cmpl-1" {
					t.Errorf("X-Request-Id: got %q, want cmpl-1", got)
				}
				if diff := cmp.Diff(tc.want, s.events(t, resp)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				want := []Stream{{Ordinal: 1, RequestID: "mine", Due: tc.due, Sent: tc.due}}
				if diff := cmp.Diff(want, s.Take()); diff != "" {
					t.Errorf("truth (-want +got):\n%s", diff)
				}
				if rest := s.Take(); len(rest) != 0 {
					t.Errorf("second Take: got %d streams, want none", len(rest))
				}
			})
		})
	}
}

func TestOneConnectionCarriesManyAnswers(t *testing.T) {
	inBubble(t, Config{TTFT: 10 * ms, ITL: 5 * ms}, func(t *testing.T, s *serving) {
		if n := s.Connections(); n != 0 {
			t.Errorf("connections before the first: got %d, want 0", n)
		}
		c := s.connect(t)
		in := bufio.NewReader(c)
		for i, path := range []string{"/v1/completions", "/v1/chat/completions"} {
			time.Sleep(7 * ms)
			got := s.events(t, post(t, c, in, path, fmt.Sprint(i), `{"max_completion_tokens":2,"stream":true}`))
			if len(got) != 3 {
				t.Fatalf("%s: got %d events, want 3", path, len(got))
			}
			if chat := strings.Contains(got[0].Text, `"delta":{"content":"r`+fmt.Sprint(i+1)+`"}`); chat != (i == 1) {
				t.Errorf("%s: got first event %s", path, got[0].Text)
			}
		}
		want := []Stream{
			{Ordinal: 1, RequestID: "0", Received: 7 * ms, Due: []time.Duration{17 * ms, 22 * ms}, Sent: []time.Duration{17 * ms, 22 * ms}},
			{Ordinal: 2, RequestID: "1", Received: 29 * ms, Due: []time.Duration{39 * ms, 44 * ms}, Sent: []time.Duration{39 * ms, 44 * ms}},
		}
		if diff := cmp.Diff(want, s.Take()); diff != "" {
			t.Errorf("truth (-want +got):\n%s", diff)
		}
		if n := s.Connections(); n != 1 {
			t.Errorf("connections: got %d, want 1", n)
		}
		_ = c.Close()
		synctest.Wait()
		if n := s.Connections(); n != 0 {
			t.Errorf("connections after it was closed: got %d, want 0", n)
		}
	})
}

// The measuring path's stamps and the server's are the same instants where
// reading takes no time.
func TestBackendAgreesWithTheTruth(t *testing.T) {
	for _, dialect := range []string{"openai", "openai-chat", "vllm", "vllm-chat"} {
		t.Run(dialect, func(t *testing.T) {
			inBubble(t, Config{TTFT: 30 * ms, ITL: 10 * ms, Jitter: 0.5, Seed: 3, TokensPerEvent: 2}, func(t *testing.T, s *serving) {
				client, err := backend.New(probes.Target{Name: "truth", Backend: dialect, BaseURL: "http://truth:80", Model: "truth"}, backend.Options{DialContext: s.dial})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				time.Sleep(50 * ms)
				record := client.Do(t.Context(), s.clock, &probes.Request{ID: "r-9", Prompt: "one two", MaxOutputTokens: 9, Sampling: probes.Sampling{Stream: true}}, 0)
				truth := s.Take()
				if record.Outcome != probes.OK || len(truth) != 1 {
					t.Fatalf("got outcome %s (%s) and %d streams", record.Outcome, record.Error, len(truth))
				}
				var got []time.Duration
				for _, chunk := range record.Chunks {
					got = append(got, chunk.At)
				}
				if diff := cmp.Diff(truth[0].Sent, got); diff != "" || len(got) != 5 || truth[0].RequestID != "r-9" {
					t.Errorf("stamps of %q (-truth +client):\n%s", truth[0].RequestID, diff)
				}
				if n, _ := record.OutputTokens.Get(); n != 9 {
					t.Errorf("output tokens: got %v, want 9", record.OutputTokens)
				}
				if known := record.TokensPerChunkKnown(); known != strings.HasPrefix(dialect, "vllm") {
					t.Errorf("tokens per chunk known: got %t", known)
				}
			})
		})
	}
}

func TestCutStreamsSaySo(t *testing.T) {
	inBubble(t, Config{TTFT: 10 * ms, ITL: 10 * ms}, func(t *testing.T, s *serving) {
		c := s.connect(t)
		resp := post(t, c, bufio.NewReader(c), "/v1/completions", "leaver", `{"max_tokens":5,"stream":true}`)
		if _, err := resp.Body.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close() // after the first event, at 10 ms
		time.Sleep(20 * ms)

		other := s.connect(t)
		post(t, other, bufio.NewReader(other), "/v1/completions", "closed", `{"max_tokens":5,"stream":true}`)
		time.Sleep(5 * ms)
		s.Close()
		due := func(from time.Duration) (out []time.Duration) {
			for i := range 5 {
				out = append(out, from+time.Duration(1+i)*10*ms)
			}
			return out
		}
		want := []Stream{
			{Ordinal: 1, RequestID: "leaver", Due: due(0), Sent: []time.Duration{10 * ms}, Cut: true},
			{Ordinal: 2, RequestID: "closed", Received: 30 * ms, Due: due(30 * ms), Sent: []time.Duration{}, Cut: true},
		}
		if diff := cmp.Diff(want, s.Take()); diff != "" {
			t.Errorf("truth (-want +got):\n%s", diff)
		}
	})
}

func TestOtherRequestsAreAnswered(t *testing.T) {
	tests := []struct {
		name, request string
		status        int
		body          string
	}{
		{"models", "GET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n", 200, `{"data":[{"id":"truth","object":"model","owned_by":"truth"}],"object":"list"}`},
		{"health", "GET /health HTTP/1.1\r\nHost: t\r\n\r\n", 200, `{"status":"ok"}`},
		{"no such page", "GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n", 404, `{"error":{"message":"there is no GET /metrics","type":"invalid_request_error"}}`},
		{"whole answer", "POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{}", 400, `{"error":{"message":"this server only streams: send \"stream\": true","type":"invalid_request_error"}}`},
		{"no tokens", "POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 30\r\n\r\n{\"stream\":true,\"max_tokens\":0} ", 400, `{"error":{"message":"max_tokens 0 is not between 1 and 65536","type":"invalid_request_error"}}`},
		{"not json", "POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n[", 400, `{"error":{"message":"the body is not a completions request: unexpected end of JSON input","type":"invalid_request_error"}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *serving) {
				c := s.connect(t)
				go func() { _, _ = io.WriteString(c, tc.request) }()
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != tc.status || string(body) != tc.body || err != nil {
					t.Errorf("got %d %s (%v)\nwant %d %s", resp.StatusCode, body, err, tc.status, tc.body)
				}
			})
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	tests := []struct {
		config Config
		want   string
	}{
		{Config{TTFT: -1}, "configure truth server: TTFT -1ns is negative"},
		{Config{ITL: -1}, "configure truth server: ITL -1ns is negative"},
		{Config{Jitter: 1.5}, "configure truth server: Jitter 1.5 is not between 0 and 1"},
		{Config{Tokens: 1 << 17}, "configure truth server: Tokens 131072 is not between 0 and 65536"},
		{Config{TokensPerEvent: -1}, "configure truth server: TokensPerEvent -1 is negative"},
		{Config{EventsPerWrite: -1}, "configure truth server: EventsPerWrite -1 is negative"},
	}
	for _, tc := range tests {
		if _, err := New(tc.config, probes.NewClock()); err == nil || err.Error() != tc.want {
			t.Errorf("%+v: got %v, want %s", tc.config, err, tc.want)
		}
	}
}

// Gaps stay within their jitter, the mean gap is what was asked for, and a seed
// says the same thing twice.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			TTFT: time.Duration(rapid.IntRange(0, 1e9).Draw(t, "ttft")), ITL: time.Duration(rapid.IntRange(1000, 1e8).Draw(t, "itl")),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"), Seed: rapid.Uint64().Draw(t, "seed"),
			TokensPerEvent: rapid.IntRange(1, 5).Draw(t, "tokens per event"), EventsPerWrite: rapid.IntRange(1, 5).Draw(t, "events per write"),
		}.withDefaults()
		a := ask{ordinal: rapid.IntRange(1, 1e6).Draw(t, "ordinal"), tokens: rapid.IntRange(1, 300).Draw(t, "tokens")}
		st, again := newStream(c, a, time.Second, nil), newStream(c, a, time.Second, nil)
		if diff := cmp.Diff(st.Due, again.Due); diff != "" || !bytes.Equal(st.answer, again.answer) {
			t.Fatalf("one seed, two schedules:\n%s", diff)
		}
		if want := time.Second + c.TTFT; st.Due[0] != want || len(st.Due) != (a.tokens+c.TokensPerEvent-1)/c.TokensPerEvent {
			t.Fatalf("got %d events from %s, want the first at %s", len(st.Due), st.Due[0], want)
		}
		gap := float64(c.ITL) * float64(c.EventsPerWrite)
		for i := c.EventsPerWrite; i < len(st.Due); i += c.EventsPerWrite {
			got := float64(st.Due[i] - st.Due[i-1])
			if got < gap*(1-c.Jitter)-1 || got > gap*(1+c.Jitter)+1 {
				t.Fatalf("gap %d: got %v, want %v ± %v", i, got, gap, gap*c.Jitter)
			}
		}
		if last := st.writes[len(st.writes)-1].end; last != len(st.answer) || !bytes.HasSuffix(st.answer, []byte("0\r\n\r\n")) {
			t.Fatalf("the writes end at byte %d of %d", last, len(st.answer))
		}
	})
}

// A write that the socket takes only in part is finished later, with one stamp.
func TestFullSocketDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := probes.NewClock()
		slow, quick := &stingyConn{room: 10}, &stingyConn{room: 1 << 20}
		p := newPacer(clock, newTimerWaiter())
		go p.run()
		a, b := newStream(Config{ITL: ms}.withDefaults(), ask{ordinal: 1, tokens: 1}, 0, slow.sender()), newStream(Config{ITL: ms}.withDefaults(), ask{ordinal: 2, tokens: 2}, 0, quick.sender())
		p.add(a)
		p.add(b)
		<-b.done
		if at := clock.Now(); at != ms {
			t.Errorf("the other stream ended at %s, want 1ms", at)
		}
		<-a.done
		if want := time.Duration((len(a.answer)-1)/10) * stallRetry; clock.Now() != want {
			t.Errorf("the stalled stream ended at %s, want %s", clock.Now(), want)
		}
		if slow.got.String() != string(a.answer) {
			t.Errorf("got %q, want %q", slow.got.String(), a.answer)
		}
		if diff := cmp.Diff([]time.Duration{0}, a.Sent); diff != "" {
			t.Errorf("stamps (-want +got):\n%s", diff)
		}
		p.stop()
	})
}

// stingyConn takes a few bytes at a time.
type stingyConn struct {
	net.Conn
	room int
	got  bytes.Buffer
}

func (c *stingyConn) Write(b []byte) (int, error) { return c.got.Write(b[:min(len(b), c.room)]) }
func (c *stingyConn) sender() *sender             { return newSender(c) }

// The thread's waiter and real sockets deliver the same answer; times are not looked at.
func TestOverSocketsWithAThread(t *testing.T) {
	clock := probes.NewClock()
	s, err := New(Config{TTFT: ms, ITL: ms, Thread: true}, clock)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(listener) }()
	client, err := backend.New(probes.Target{Name: "truth", Backend: "vllm", BaseURL: "http://" + listener.Addr().String(), Model: "truth"}, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		record := client.Do(t.Context(), clock, &probes.Request{ID: fmt.Sprint(i), Prompt: "p", MaxOutputTokens: 20, Sampling: probes.Sampling{Stream: true}}, 0)
		streams := s.Take()
		if record.Outcome != probes.OK || len(streams) != 1 || len(streams[0].Sent) != 20 || len(record.Chunks) != 20 {
			t.Fatalf("got %s (%s), %d chunks, streams %+v", record.Outcome, record.Error, len(record.Chunks), streams)
		}
		for k, sent := range streams[0].Sent {
			if sent < streams[0].Due[k] || record.Chunks[k].At < sent {
				t.Errorf("event %d: due %s, sent %s, read %s: out of order", k, streams[0].Due[k], sent, record.Chunks[k].At)
			}
		}
	}
	client.Close()
	s.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve: got %v", err)
	}
}

// discard takes everything.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkStep(b *testing.B) {
	p := newPacer(probes.NewClock(), newTimerWaiter())
	c := Config{ITL: ms}.withDefaults()
	st := newStream(c, ask{ordinal: 1, tokens: maxTokens}, 0, newSender(discard{}))
	b.ReportAllocs()
	for b.Loop() {
		if st.next == len(st.writes)-1 {
			st.next, st.from, st.Sent = 0, 0, st.Sent[:0]
		}
		p.step(st)
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	p := newPacer(probes.NewClock(), newTimerWaiter())
	st := newStream(Config{ITL: ms}.withDefaults(), ask{ordinal: 1, tokens: 2000}, 0, newSender(discard{}))
	if got := testing.AllocsPerRun(1000, func() { p.step(st) }); got != 0 || len(st.Sent) != 1001 {
		t.Errorf("got %v allocations a token and %d stamps, want 0 and 1001", got, len(st.Sent))
	}
}
