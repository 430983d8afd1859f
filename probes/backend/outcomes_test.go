package backend

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/wire"
)

func TestOutcomes(t *testing.T) {
	chat := func(events ...string) timeline {
		return sse([]byte("data: " + strings.Join(events, "\n\ndata: ") + "\n\n"))
	}
	word := `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
	finish := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	reset := func(body string) timeline {
		return timeline{200, map[string]string{"Content-Type": "text/event-stream"}, []step{{data: []byte(body)}, {end: "rst"}}}
	}
	tests := []struct {
		name    string
		backend string
		script  timeline
		want    probes.Outcome
		text    string
	}{
		{"finish reason without end mark", "openai-chat", chat(word, finish), probes.OK, ""},
		{"end mark without finish reason", "openai-chat", chat(word, "[DONE]"), probes.OK, ""},
		{"end mark alone", "openai-chat", chat("[DONE]"), probes.Empty, "without any token"},
		{"finish reason and no token", "openai-chat", chat(finish, "[DONE]"), probes.Empty, "without any token"},
		{"no text, and a count of zero", "openai-chat", chat(finish, `{"choices":[],"usage":{"completion_tokens":0}}`, "[DONE]"), probes.Empty, "without any token"},
		{"neither", "openai-chat", chat(word), probes.Truncated, "before the answer did"},
		{"reset in the middle", "openai-chat", reset("data: " + word + "\n\n"), probes.Truncated, "read body"},
		{"reset after the finish reason", "openai-chat", reset("data: " + word + "\n\ndata: " + finish + "\n\n"), probes.OK, ""},
		{"error string", "openai-chat", chat(word, `{"error":"out of memory"}`, "[DONE]"), probes.StreamError, "out of memory"},
		{"error object without message", "openai-chat", chat(`{"error":{}}`), probes.StreamError, "error without a message"},
		{"flat error", "openai-chat", chat(`{"object":"error","message":"too long","type":"BadRequestError","code":400}`), probes.StreamError, "too long (BadRequestError, 400)"},
		{"error is null", "openai-chat", chat(`{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), probes.OK, ""},
		{"event error with data", "openai-chat", sse([]byte("event: error\ndata: {\"message\":\"gone\"}\n\n")), probes.StreamError, "gone"},
		{"finish reason abort", "vllm-chat", chat(word, `{"choices":[{"delta":{},"finish_reason":"abort"}]}`, "[DONE]"), probes.StreamError, "abort"},
		{"finish reason error", "vllm", chat(`{"choices":[{"text":"a","finish_reason":"error"}]}`, "[DONE]"), probes.StreamError, "error"},
		{"native abort with message", "sglang", chat(`{"text":"a","meta_info":{"completion_tokens":1,"finish_reason":{"type":"abort","message":"no memory"}}}`), probes.StreamError, "no memory"},
		{"error in a whole body", "openai-chat", answer(200, 0, "application/json", `{"error":{"message":"no such model","code":404}}`), probes.StreamError, "no such model (404)"},
		{"page", "openai-chat", answer(200, 0, "text/html", "<html><body>502</body></html>"), probes.BadResponse, "no event"},
		{"page where JSON was announced", "openai-chat", answer(200, 0, "application/json", "<html>"), probes.BadResponse, "not JSON"},
		{"JSON of something else", "openai-chat", answer(200, 0, "application/json", `{"status":"ok"}`), probes.BadResponse, "not of this protocol"},
		{"JSON without a token", "openai-chat", answer(200, 0, "application/json; charset=utf-8", "\n\n{\"choices\":[{\"message\":{\"content\":\"\"}}]}"), probes.Empty, "no token"},
		{"JSON cut short", "openai-chat", timeline{200, map[string]string{"Content-Type": "application/json"}, []step{{data: []byte(`{"choices":[`)}, {end: "rst"}}}, probes.Truncated, "read body"},
		{"heartbeats only", "openai-chat", sse([]byte(": ping\n\n: ping\n\n")), probes.BadResponse, "no event"},
		{"nothing", "openai-chat", sse(nil), probes.BadResponse, "no event"},
		{"events of something else", "openai-chat", chat(`{"status":"ok"}`, `5`, `[]`), probes.BadResponse, "no event"},
		{"no content", "openai-chat", timeline{204, nil, []step{{end: "close"}}}, probes.BadResponse, "no event"},
		{"not found", "openai-chat", answer(404, 0, "application/json", `{"error":{"message":"The model does not exist.","type":"NotFoundError"}}`), probes.HTTP4xx, "status 404 Not Found: The model does not exist. (NotFoundError)"},
		{"forbidden", "openai-chat", answer(403, 0, "text/plain", "go away"), probes.HTTP4xx, "status 403 Forbidden: go away"},
		{"overloaded", "openai-chat", answer(503, 0, "text/html", ""), probes.HTTP5xx, "status 503 Service Unavailable"},
		{"unknown status", "openai-chat", answer(700, 0, "text/plain", ""), probes.BadResponse, "status 700"},
		{"redirect", "openai-chat", answer(307, 0, "text/plain", "", "Location", "/v1/chat/completions/?token=secret-query"), probes.BadResponse, "redirect to http://engine:8000/v1/chat/completions/ is not followed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rec := once(t, target(test.backend), request(), test.script)
			if rec.Outcome != test.want || !strings.Contains(rec.Error, test.text) || (test.text == "") != (rec.Error == "") {
				t.Errorf("got %s %q, want %s with %q", rec.Outcome, rec.Error, test.want, test.text)
			}
			if !rec.End.IsKnown() {
				t.Error("the record has no end")
			}
			if rec.Outcome != probes.OK && (rec.TTFT().IsKnown() || rec.E2E().IsKnown() || rec.TPOT().IsKnown()) {
				t.Error("a failed request adds to latencies")
			}
		})
	}
}

func TestFailuresOfTheConnection(t *testing.T) {
	op := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	tests := []struct {
		name string
		err  error
		want probes.Outcome
	}{
		{"name", &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}, probes.DNS},
		{"refused", op(syscall.ECONNREFUSED), probes.Connect},
		{"unreachable", op(syscall.EHOSTUNREACH), probes.Connect},
		{"out of descriptors", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}, probes.Dropped},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dials := 0
			c, err := New(target("vllm"), Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
				dials++
				return nil, test.err
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			rec := c.Do(t.Context(), probes.NewClock(), request(), 0)
			if rec.Outcome != test.want || rec.Error == "" || dials != 1 {
				t.Errorf("got %s %q after %d dials, want %s after one", rec.Outcome, rec.Error, dials, test.want)
			}
		})
	}
}

func TestFailureOutcome(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	live := context.Background()
	at := func(p wire.Phase, err error) error { return fmt.Errorf("wrapped: %w", &wire.Error{Phase: p, Err: err}) }
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want probes.Outcome
	}{
		{"certificate", live, at(wire.PhaseTLS, x509.UnknownAuthorityError{}), probes.TLSError},
		{"connect timeout", live, at(wire.PhaseTLS, wire.ErrConnectTimeout), probes.Connect},
		{"name server is silent", live, at(wire.PhaseDNS, wire.ErrConnectTimeout), probes.Connect},
		{"bound", live, at(wire.PhaseResponse, os.ErrDeadlineExceeded), probes.TimeoutIdle},
		{"bound while connecting", live, at(wire.PhaseConnect, os.ErrDeadlineExceeded), probes.TimeoutIdle},
		{"cancelled", done, at(wire.PhaseBody, net.ErrClosed), probes.Cancelled},
		{"hung up instead of an answer", live, at(wire.PhaseResponse, io.ErrUnexpectedEOF), probes.Truncated},
		{"reset instead of an answer", live, at(wire.PhaseResponse, os.NewSyscallError("read", syscall.ECONNRESET)), probes.Truncated},
		{"broken pipe", live, at(wire.PhaseWrite, os.NewSyscallError("write", syscall.EPIPE)), probes.Truncated},
		{"not HTTP", live, at(wire.PhaseResponse, errors.New("malformed HTTP response")), probes.BadResponse},
		{"malformed chunk", live, at(wire.PhaseBody, errors.New("malformed chunk header")), probes.BadResponse},
		{"client", live, at(wire.PhaseClient, errors.New("no route")), probes.Dropped},
		{"something else", live, errors.New("odd"), probes.BadResponse},
	}
	for _, test := range tests {
		if got := failureOutcome(test.ctx, test.err, probes.TimeoutIdle); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := target("vllm")
		tg.Timeouts = probes.Timeouts{Connect: time.Second, FirstToken: time.Minute}
		s := &server{connect: time.Hour}
		c := newClient(t, tg, s)
		rec := c.Do(t.Context(), probes.NewClock(), request(), 0)
		if rec.Outcome != probes.Connect || known(rec.End) != time.Second {
			t.Errorf("got %s %q at %v, want connect at 1s", rec.Outcome, rec.Error, rec.End)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestCancelledBeforeItWasSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &server{}
	rec := newClient(t, target("vllm"), s).Do(ctx, probes.NewClock(), request(), 0)
	if rec.Outcome != probes.Cancelled || s.conns != 0 {
		t.Errorf("got %s with %d connections, want cancelled without any", rec.Outcome, s.conns)
	}
}

// What cannot be written was never sent.
func TestBodyThatCannotBeBuilt(t *testing.T) {
	s := &server{}
	req := request()
	req.TokenIDs = []int{1, 2}
	rec := newClient(t, target("vllm-chat"), s).Do(t.Context(), probes.NewClock(), req, 0)
	if rec.Outcome != probes.Dropped || rec.Error != "send token ids: backend takes prompts as text only" || s.conns != 0 {
		t.Errorf("token ids for a chat backend gave %s %q", rec.Outcome, rec.Error)
	}
	req = request()
	req.Sampling.ExtraBody = map[string]any{"f": func() {}}
	rec = newClient(t, target("vllm"), s).Do(t.Context(), probes.NewClock(), req, 0)
	if rec.Outcome != probes.Dropped || !strings.HasPrefix(rec.Error, "encode request body: ") || s.conns != 0 {
		t.Errorf("a function in the body gave %s %q", rec.Outcome, rec.Error)
	}
}

func TestPanicBecomesAnOutcome(t *testing.T) {
	c := newClient(t, target("vllm"), &server{answers: []timeline{tokens(1, 0, 0, "close")}})
	broken := *c.d
	broken.body = func(*dialect, question) map[string]any { panic("broken dialect") }
	c.d = &broken
	rec := c.Do(t.Context(), probes.NewClock(), request(), 0)
	if rec.Outcome != probes.BadResponse || rec.Error != "read answer: internal error: broken dialect" {
		t.Errorf("got %s %q", rec.Outcome, rec.Error)
	}
}

// empirical-run/empirical#166: retries hide inside one latency.
func TestNothingIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := answer(500, 100*ms, "application/json", `{"error":"Internal"}`)
		s := &server{answers: []timeline{failure, failure, tokens(1, 200*ms, 0, "close")}}
		c := newClient(t, target("vllm-chat"), s)
		rec := c.Do(t.Context(), probes.NewClock(), request(), 0)
		if rec.Outcome != probes.HTTP5xx || rec.Error != "status 500 Internal Server Error: Internal" || known(rec.End) != 100*ms || len(s.seen) != 1 {
			t.Errorf("got %s %q at %v after %d requests, want http_5xx at 100ms after one", rec.Outcome, rec.Error, rec.End, len(s.seen))
		}
		c.Close()
		time.Sleep(time.Hour)
	})
}

// vllm-project/guidellm#148: redirects that are followed silently, or as a GET.
func TestRedirectFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := target("vllm-chat")
		tg.Connection.FollowRedirects = true
		s := &server{reply: map[string]timeline{
			"/v1/chat/completions":  answer(307, 40*ms, "text/plain", "", "Location", "/v1/chat/completions/"),
			"/v1/chat/completions/": tokens(2, 300*ms, 20*ms, "close"),
		}}
		c := newClient(t, tg, s)
		rec := c.Do(t.Context(), probes.NewClock(), request(), 0)
		if rec.Outcome != probes.OK || known(rec.TTFT()) != 340*ms || rec.Connection.Redirects != 1 {
			t.Errorf("got %s, TTFT %v, %d redirects, want ok, 340ms, 1", rec.Outcome, rec.TTFT(), rec.Connection.Redirects)
		}
		if len(s.seen) != 2 || s.seen[1].Method != "POST" || string(s.seen[1].body) != string(s.seen[0].body) {
			t.Errorf("the redirect was not followed with method and body")
		}
		c.Close()
		time.Sleep(time.Hour)
	})
}

// tenstorrent/tt-studio#952: a cold connection inside the TTFT.
func TestConnectionInsideTTFT(t *testing.T) {
	for _, policy := range []probes.ConnectionPolicy{probes.ConnectionReuse, probes.ConnectionNew} {
		synctest.Test(t, func(t *testing.T) {
			tg := target("vllm-chat")
			tg.Connection.Policy = policy
			s := &server{connect: 15 * ms, answers: []timeline{tokens(2, 100*ms, 10*ms, "close")}}
			c := newClient(t, tg, s)
			clock := probes.NewClock()
			for i := range 10 {
				reused := policy == probes.ConnectionReuse && i > 0
				wantTTFT, wantConnect := 115*ms, any(15*ms)
				if reused {
					wantTTFT, wantConnect = 100*ms, nil
				}
				rec := c.Do(t.Context(), clock, request(), clock.Now())
				if rec.Outcome != probes.OK || rec.Connection.Reused != reused || known(rec.TTFT()) != wantTTFT ||
					known(rec.TTFTAfterConnect()) != 100*ms || known(rec.Connection.Connect) != wantConnect || rec.Lag() != 0 {
					t.Errorf("%s request %d: %s, reused %v, TTFT %v, after connect %v, connect %v, lag %v", policy, i, rec.Outcome,
						rec.Connection.Reused, rec.TTFT(), rec.TTFTAfterConnect(), rec.Connection.Connect, rec.Lag())
				}
			}
			wantConns := 1
			if policy == probes.ConnectionNew {
				wantConns = 10
			}
			if s.conns != wantConns {
				t.Errorf("%s: %d connections, want %d", policy, s.conns, wantConns)
			}
			c.Close()
			time.Sleep(time.Hour)
		})
	}
}

func TestErrorBodies(t *testing.T) {
	var cases []struct {
		Backend string
		Status  int
		Headers map[string]string
		Body    any
	}
	if err := json.Unmarshal(mustRead(t, "http-errors.json"), &cases); err != nil {
		t.Fatal(err)
	}
	want := []struct {
		outcome probes.Outcome
		retry   any
		text    string
	}{
		{probes.HTTP4xx, nil, "max_new_tokens must be at least 0, got -1."},
		{probes.HTTP4xx, nil, "The input (70012 tokens) is longer than the model's context length (32768 tokens). (BadRequestError, 400)"},
		{probes.HTTP4xx, nil, "Unauthorized"},
		{probes.HTTP4xx, nil, "The model `nope` does not exist. (NotFoundError, 404)"},
		{probes.HTTP4xx, nil, "The model `nope` does not exist. (NotFoundError, 404)"},
		{probes.HTTP4xx, nil, "Unauthorized"},
		{probes.HTTP4xx, nil, "The model 'nope' does not exist. (invalid_request_error, 404)"},
		{probes.HTTP4xx, nil, "max_tokens is too large (BadRequestError, 400)"},
		{probes.HTTP4xx, nil, "failed to parse the request JSON buffer: Invalid value. at 0"},
		{probes.HTTP429, nil, "Model is overloaded (overloaded)"},
		{probes.HTTP4xx, nil, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000 (validation)"},
		{probes.HTTP5xx, nil, "Loading model (unavailable_error, 503)"},
		{probes.HTTP4xx, nil, "the request exceeds the available context size, try increasing it (exceed_context_size_error, 400)"},
		{probes.HTTP4xx, nil, "model 'nope' not found"},
		{probes.HTTP429, 19500 * ms, "Rate limit reached for requests (requests, rate_limit_exceeded)"},
		{probes.HTTP429, nil, "You exceeded your current quota (insufficient_quota, insufficient_quota)"},
		{probes.HTTP5xx, nil, "Overloaded (overloaded_error)"},
		{probes.HTTP429, 12 * time.Second, "Number of request tokens has exceeded your per-minute rate limit (rate_limit_error)"},
		{probes.HTTP4xx, nil, "body.messages Field required"},
		{probes.HTTP5xx, nil, "<html><head><title>502 Bad Gateway</title></head><body></body></html>"},
	}
	if len(cases) != len(want) {
		t.Fatalf("%d error bodies, want %d", len(cases), len(want))
	}
	for i, test := range cases {
		t.Run(test.Backend, func(t *testing.T) {
			body, ok := test.Body.(string)
			if !ok {
				raw, err := json.Marshal(test.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = string(raw)
			}
			rec := once(t, target("vllm"), request(), timeline{test.Status, test.Headers, []step{{data: []byte(body)}, {end: "close"}}})
			text := strings.TrimSpace(fmt.Sprintf("status %d %s", test.Status, http.StatusText(test.Status))) + ": " + want[i].text
			if rec.Outcome != want[i].outcome || rec.Error != text || known(rec.RetryAfter) != want[i].retry || rec.StatusCode != test.Status {
				t.Errorf("got %s %q, retry after %v, want %s %q, %v", rec.Outcome, rec.Error, rec.RetryAfter, want[i].outcome, text, want[i].retry)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }
	tests := []struct {
		header http.Header
		want   any
	}{
		{http.Header{}, nil},
		{http.Header{"Retry-After": {"20"}}, 20 * time.Second},
		{http.Header{"Retry-After": {"0"}}, time.Duration(0)},
		{http.Header{"Retry-After": {"1.5"}}, 1500 * ms},
		{http.Header{"Retry-After": {"-1"}}, nil},
		{http.Header{"Retry-After": {"soon"}}, nil},
		{http.Header{"Retry-After": {"1e300"}}, nil},
		{http.Header{"Retry-After": {"20"}, "Retry-After-Ms": {"19500"}}, 19500 * ms},
		{http.Header{"Retry-After": {"20"}, "Retry-After-Ms": {"NaN"}}, 20 * time.Second},
		{http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:00:30 GMT"}}, 30 * time.Second},
		{http.Header{"Retry-After": {"Mon, 30 Nov 2026 11:00:00 GMT"}}, time.Duration(0)},
		{http.Header{"Retry-After": {"Mon, 30 Nov 2026 09:00:07 GMT"}, "Date": {"Mon, 30 Nov 2026 09:00:00 GMT"}}, 7 * time.Second},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"59.8s"}, "X-Ratelimit-Remaining-Tokens": {"7"}, "X-Ratelimit-Reset-Tokens": {"6m0s"}}, 59800 * ms},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"1s"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"6m0s"}}, 6 * time.Minute},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"-1s"}}, time.Duration(0)},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"-1"}}, nil},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"20s"}, "Retry-After": {"3"}}, 3 * time.Second},
		{http.Header{"Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {"2026-11-30T12:00:12Z"}}, 12 * time.Second},
		{http.Header{"Anthropic-Ratelimit-Output-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Output-Tokens-Reset": {"2026-11-30T09:00:12Z"}, "Date": {"Mon, 30 Nov 2026 09:00:00 GMT"}}, 12 * time.Second},
	}
	for _, test := range tests {
		if got := known(retryAfter(test.header, now)); got != test.want {
			t.Errorf("retryAfter(%v) = %v, want %v", test.header, got, test.want)
		}
	}
}

// kubernetes-sigs/inference-perf#787: keys in reports and logs.
func TestErrorsHoldNoSecretAndNoPrompt(t *testing.T) {
	tg := target("vllm-chat")
	tg.Connection.APIKey = "sk-KEYSECRET-7f"
	tg.Connection.Headers = map[string]probes.Secret{"X-Team-Token": "Bearer TEAMSECRET-7f", "X-Route": "blue"}
	req := request()
	req.Prompt = "The quick brown fox jumps over the lazy dog, a secret of its own."
	body := `{"error":"Incorrect API key sk-KEYSECRET-7f for TEAMSECRET-7f on blue\nin {'content': '` + req.Prompt + `'} and so on"}`
	rec := once(t, tg, req, answer(401, 0, "application/json", body))
	want := "status 401 Unauthorized: Incorrect API key <secret> for <secret> on blue in {'content': '<prompt>"
	if rec.Outcome != probes.HTTP4xx || rec.Error != want {
		t.Errorf("got %s %q, want http_4xx %q", rec.Outcome, rec.Error, want)
	}
	rec = once(t, tg, req, sse([]byte("data: {\"error\":\"key sk-KEYSECRET-7f\"}\n\n")))
	if rec.Error != "key <secret>" {
		t.Errorf("stream error %q, want it without the key", rec.Error)
	}
}

func TestErrorTextIsBoundedAndPrintable(t *testing.T) {
	rec := once(t, target("vllm"), request(), answer(500, 0, "text/plain", "a\x00b\r\n\x1b[31mc\xff"+strings.Repeat("é", 50000)))
	if len(rec.Error) > maxErrorText || strings.ContainsAny(rec.Error, "\x00\r\n\x1b") || !strings.HasSuffix(rec.Error, "é…") {
		t.Errorf("error text of %d bytes: %q", len(rec.Error), rec.Error)
	}
	if want := "status 500 Internal Server Error: a b [31mc\uFFFDé"; !strings.HasPrefix(rec.Error, want) {
		t.Errorf("error text %q, want prefix %q", rec.Error, want)
	}
}

// zendev-sh/goai#70 and others: a decreasing usage is a server's mistake.
func TestUsageThatGoesDown(t *testing.T) {
	body := ""
	for _, n := range []int{1, 3, 2} {
		body += fmt.Sprintf(`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"completion_tokens":%d}}`+"\n\n", n)
	}
	rec := once(t, target("vllm-chat"), request(), sse([]byte(body+"data: [DONE]\n\n")))
	if !rec.Flags.Has(probes.UsageNotMonotone) || known(rec.OutputTokens) != 2 {
		t.Errorf("flags %v, %v tokens, want usage_not_monotone and the last count 2", rec.Flags.Names(), known(rec.OutputTokens))
	}
	if diff := cmp.Diff([]int{1, 2, 0}, chunkTokens(rec)); diff != "" {
		t.Errorf("tokens per chunk (-want +got):\n%s", diff)
	}
}

// A usage on the last chunk alone covers the whole answer, not that chunk.
func TestFinalUsageOnTheLastChunk(t *testing.T) {
	body := `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"completion_tokens":9}}` + "\n\ndata: [DONE]\n\n"
	rec := once(t, target("openai-chat"), request(), sse([]byte(body)))
	if diff := cmp.Diff([]int{0, 0}, chunkTokens(rec)); diff != "" || known(rec.OutputTokens) != 9 {
		t.Errorf("%v tokens, per chunk (-want +got):\n%s", known(rec.OutputTokens), diff)
	}
}

func TestChannels(t *testing.T) {
	tests := []struct {
		delta         string
		token, answer bool
		text          string
	}{
		{`{"content":"a"}`, true, true, "a"},
		{`{"refusal":"no"}`, true, true, "no"},
		{`{"reasoning":"r"}`, true, false, ""},
		{`{"reasoning_content":"r","reasoning":"r"}`, true, false, ""},
		{`{"reasoning_details":[{"type":"reasoning.text","text":"r"}]}`, true, false, ""},
		{`{"reasoning_details":[{"type":"reasoning.summary","summary":"r"}]}`, true, false, ""},
		{`{"reasoning_details":[{"type":"reasoning.encrypted","data":"xyz"}]}`, false, false, ""},
		{`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`, true, true, ""},
		{`{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}`, true, true, ""},
		{`{"tool_calls":[{"index":0,"id":"c","function":{"name":"","arguments":null}}]}`, false, false, ""},
		{`{"role":"assistant","content":""}`, false, false, ""},
		{`{"role":"assistant","content":null,"reasoning_content":null,"tool_calls":null}`, false, false, ""},
		{`{"content":5,"reasoning":{},"tool_calls":"x","reasoning_details":[7]}`, false, false, ""},
		{`null`, false, false, ""},
		{`[]`, false, false, ""},
	}
	c := newClient(t, target("vllm-chat"), &server{})
	for _, test := range tests {
		body := `data: {"choices":[{"delta":` + test.delta + "}]}\n\ndata: [DONE]\n\n"
		rec := readCut(c, request(), []byte(body))
		want := 0
		if test.token {
			want = 1
		}
		if len(rec.Chunks) != want || rec.FirstAnswer.IsKnown() != test.answer || rec.Text != test.text {
			t.Errorf("%s: %d token events, answer %v, text %q, want %d, %v, %q", test.delta, len(rec.Chunks), rec.FirstAnswer.IsKnown(), rec.Text,
				want, test.answer, test.text)
		}
	}
}

func TestAnswersOfOddTypes(t *testing.T) {
	for _, event := range []string{
		`{"choices":null,"usage":null}`, `{"choices":{},"usage":[]}`, `{"choices":[null,5,"x",[]]}`, `{"usage":{"completion_tokens":"7"}}`,
		`{"usage":{"completion_tokens":-1}}`, `{"model":5,"object":null,"error":false}`, `{"choices":[{"finish_reason":7,"index":-3}]}`,
	} {
		body := "data: " + event + "\n\n" + `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"completion_tokens":1.0}}` + "\n\ndata: [DONE]\n\n"
		rec := readCut(newClient(t, target("vllm-chat"), &server{}), request(), []byte(body))
		if rec.Outcome != probes.OK || rec.Text != "a" || known(rec.OutputTokens) != 1 || rec.Flags != 0 {
			t.Errorf("%s: got %s, %q, %v tokens, flags %v", event, rec.Outcome, rec.Text, known(rec.OutputTokens), rec.Flags.Names())
		}
	}
}

// A server without a tokenizer sends ids alone.
func TestNativeWithoutText(t *testing.T) {
	body := ""
	for n := 1; n <= 3; n++ {
		body += fmt.Sprintf(`data: {"output_ids":[%s],"meta_info":{"completion_tokens":%d,"finish_reason":null}}`+"\n\n", strings.Repeat("7,", n-1)+"7", n)
	}
	rec := readCut(newClient(t, target("sglang"), &server{}), request(), []byte(body+"data: [DONE]\n\n"))
	if diff := cmp.Diff([]int{1, 1, 1}, chunkTokens(rec)); diff != "" || rec.Outcome != probes.OK {
		t.Errorf("%s, tokens per chunk (-want +got):\n%s", rec.Outcome, diff)
	}
}

func TestNativeWithoutCounts(t *testing.T) {
	body := `data: {"text":"a"}` + "\n\n" + `data: {"text":"a"}` + "\n\n" + `data: {"text":"ab"}` + "\n\ndata: [DONE]\n\n"
	rec := readCut(newClient(t, target("sglang"), &server{}), request(), []byte(body))
	if diff := cmp.Diff([]int{0, 0}, chunkTokens(rec)); diff != "" || rec.Text != "ab" || rec.OutputTokens.IsKnown() || rec.OutputSource != "" {
		t.Errorf("text %q, tokens %v, per chunk (-want +got):\n%s", rec.Text, rec.OutputTokens, diff)
	}
}
