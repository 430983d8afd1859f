package fakellm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// withFault is the exact engine with one fault.
func withFault(f Fault) Config {
	c := exact()
	c.Faults = []Fault{f}
	return c
}

// The healthy answer of every test below: 4 tokens at 20, 30, 40 and 50 ms.
var healthyTimes = ms(20, 30, 40, 50)

func TestHangs(t *testing.T) {
	for _, tt := range []struct {
		fault Fault
		want  []time.Duration
		// headersCame: did the client get a response at all?
		headersCame bool
	}{
		{Fault{Kind: HangBeforeHeaders}, nil, false},
		{Fault{Kind: HangAfterTokens}, nil, true},
		{Fault{Kind: HangAfterTokens, AfterTokens: 2}, ms(20, 30), true},
	} {
		bubble(t, withFault(tt.fault), func(r *rig) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			got := r.send(ctx, "/generate", generateBody(words(9), 4), nil)
			if diff := cmp.Diff(tt.want, got.times()); diff != "" {
				t.Errorf("%+v: token times (-want +got):\n%s", tt.fault, diff)
			}
			if !errors.Is(got.err, context.DeadlineExceeded) || got.end != time.Hour {
				t.Errorf("%+v: got %v after %v, want a timeout after 1h", tt.fault, got.err, got.end)
			}
			if came := got.status == 200; came != tt.headersCame {
				t.Errorf("%+v: got status %d", tt.fault, got.status)
			}
			synctest.Wait()
			if trace := r.engine.Stats().Requests[0]; trace.Fault != tt.fault.Kind || !trace.Ended {
				t.Errorf("%+v: got trace %+v", tt.fault, trace)
			}
		})
	}
}

func TestCutConnections(t *testing.T) {
	for _, tt := range []struct {
		fault Fault
		want  error
	}{
		{Fault{Kind: Reset, AfterTokens: 2}, syscall.ECONNRESET},
		{Fault{Kind: Disconnect, AfterTokens: 2}, io.ErrUnexpectedEOF},
		{Fault{Kind: Truncate, AfterTokens: 2}, nil},
	} {
		for _, engine := range []string{SGLang, VLLM} {
			c := withFault(tt.fault)
			c.Engine = engine
			bubble(t, c, func(r *rig) {
				got := r.post("/v1/completions", completionBody(words(9), 4))
				if diff := cmp.Diff(ms(20, 30), got.times()); diff != "" {
					t.Errorf("%s: token times (-want +got):\n%s", tt.fault.Kind, diff)
				}
				if !errors.Is(got.err, tt.want) {
					t.Errorf("%s: got error %v, want %v", tt.fault.Kind, got.err, tt.want)
				}
				if strings.Contains(got.raw, "[DONE]") || strings.Contains(got.raw, `"finish_reason":"`) {
					t.Errorf("%s: the answer has an end: %s", tt.fault.Kind, got.raw)
				}
				synctest.Wait()
				if s := r.engine.Stats(); s.Running != 0 || s.Aborted != 1 {
					t.Errorf("%s: got %d running, %d aborted, want 0, 1", tt.fault.Kind, s.Running, s.Aborted)
				}
			})
		}
	}
}

func TestResetBeforeTheFirstByte(t *testing.T) {
	bubble(t, withFault(Fault{Kind: Reset}), func(r *rig) {
		got := r.post("/v1/chat/completions", chatBody(words(5), 4))
		if !errors.Is(got.err, syscall.ECONNRESET) || got.status != 0 || got.end != 0 {
			t.Errorf("got status %d, error %v after %v, want a reset at once", got.status, got.err, got.end)
		}
	})
}

func TestSlowEngine(t *testing.T) {
	bubble(t, withFault(Fault{Kind: Slow, Factor: 2.5}), func(r *rig) {
		got := r.post("/generate", generateBody(words(9), 4))
		if diff := cmp.Diff(ms(50, 75, 100, 125), got.times()); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		if err := r.engine.SetFaults(); err != nil {
			t.Fatal(err)
		}
		got = r.post("/generate", generateBody(words(9), 4))
		if diff := cmp.Diff(healthyTimes, got.times()); diff != "" {
			t.Errorf("after recovery (-want +got):\n%s", diff)
		}
	})
	c := withFault(Fault{Kind: Slow, Factor: 2})
	c.Script = &Script{TTFT: ms(100), ITL: 10 * time.Millisecond}
	bubble(t, c, func(r *rig) {
		got := r.post("/generate", generateBody(words(9), 3))
		if diff := cmp.Diff(ms(200, 220, 240), got.times()); diff != "" {
			t.Errorf("script (-want +got):\n%s", diff)
		}
	})
}

func TestStall(t *testing.T) {
	bubble(t, withFault(Fault{Kind: Stall, AfterTokens: 2, Delay: 5 * time.Second}), func(r *rig) {
		got := r.post("/generate", generateBody(words(9), 4))
		if diff := cmp.Diff(ms(20, 30, 5040, 5050), got.times()); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		decodeLast(t, got)
	})
}

func TestHeartbeats(t *testing.T) {
	c := withFault(Fault{Kind: Heartbeats, Delay: 8 * time.Millisecond})
	bubble(t, c, func(r *rig) {
		got := r.post("/generate", generateBody(words(9), 2))
		var beats []time.Duration
		for _, ev := range got.events {
			if ev.data == ": ping" {
				beats = append(beats, ev.at)
			}
		}
		if diff := cmp.Diff(ms(8, 16), beats); diff != "" {
			t.Errorf("heartbeats (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ms(20, 30), got.times()); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	})
	c.Script = &Script{TTFT: ms(20)}
	bubble(t, c, func(r *rig) {
		if got := r.post("/generate", generateBody(words(9), 1)); strings.Count(got.raw, ": ping\n\n") != 2 || got.end != 20*time.Millisecond {
			t.Errorf("script: got end %v: %s", got.end, got.raw)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		engine string
		fault  Fault
		status int
		header [2]string
		want   string
	}{
		{SGLang, Fault{Kind: TooManyRequests, Delay: 1500 * time.Millisecond}, 429, [2]string{"Retry-After", "2"},
			`{"object":"error","message":"Too many requests.","type":"RateLimitError","param":null,"code":429}`},
		{VLLM, Fault{Kind: Unavailable}, 503, [2]string{"Content-Type", "application/json"},
			`{"error":{"message":"The engine is not available.","type":"ServiceUnavailableError","param":null,"code":503}}`},
		{VLLM, Fault{Kind: Garbage}, 200, [2]string{"Content-Type", "text/html; charset=utf-8"},
			"<!DOCTYPE html><html><body><h1>It works!</h1></body></html>\n"},
		{SGLang, Fault{Kind: ErrorUnder200}, 200, [2]string{"Content-Type", "text/event-stream; charset=utf-8"},
			`data: {"error":{"message":"The engine failed before the first token.","type":"InternalServerError","code":500}}` + "\n\ndata: [DONE]\n\n"},
	} {
		c := withFault(tt.fault)
		c.Engine = tt.engine
		bubble(t, c, func(r *rig) {
			got := r.post("/v1/completions", completionBody(words(9), 4))
			if got.status != tt.status || got.raw != tt.want || got.end != 0 {
				t.Errorf("%s: got status %d after %v, %s, want %d, %s", tt.fault.Kind, got.status, got.end, got.raw, tt.status, tt.want)
			}
			if v := got.header.Get(tt.header[0]); v != tt.header[1] {
				t.Errorf("%s: %s: got %q, want %q", tt.fault.Kind, tt.header[0], v, tt.header[1])
			}
			if s := r.engine.Stats(); s.Refused != 1 || s.GeneratedTokens != 0 {
				t.Errorf("%s: got %d refused, %d tokens, want 1, 0", tt.fault.Kind, s.Refused, s.GeneratedTokens)
			}
			if health := r.get("/health"); health.status != 200 {
				t.Errorf("%s: health: got status %d, want 200", tt.fault.Kind, health.status)
			}
		})
	}
}

func TestErrorMidStream(t *testing.T) {
	const (
		sglang = `data: {"error": {"object": "error", "message": "The engine failed while decoding.", "type": "INTERNAL_SERVER_ERROR", "param": null, "code": 500}}`
		vllm   = `data: {"error": {"message": "The engine failed while decoding.", "type": "InternalServerError", "param": null, "code": 500}}`
		native = `"finish_reason":{"type":"abort","message":"The engine failed while decoding.","status_code":500,"err_type":"InternalServerError"}`
	)
	for _, tt := range []struct{ engine, path, body, want string }{
		{SGLang, "/v1/chat/completions", chatBody(words(5), 4), sglang},
		{VLLM, "/v1/chat/completions", chatBody(words(5), 4), vllm},
		{VLLM, "/v1/completions", completionBody(words(9), 4), vllm},
		{SGLang, "/generate", generateBody(words(9), 4), native},
	} {
		c := withFault(Fault{Kind: ErrorMidStream, AfterTokens: 2})
		c.Engine = tt.engine
		bubble(t, c, func(r *rig) {
			got := r.post(tt.path, tt.body)
			if got.status != 200 || got.end != 30*time.Millisecond || !strings.HasSuffix(got.raw, "data: [DONE]\n\n") {
				t.Errorf("%s%s: got status %d, end %v: %s", tt.engine, tt.path, got.status, got.end, got.raw)
			}
			if strings.Count(got.raw, tt.want) != 1 {
				t.Errorf("%s%s: got %s\nwant it to contain %s", tt.engine, tt.path, got.raw, tt.want)
			}
			whole := r.post(tt.path, strings.Replace(tt.body, `"stream":true`, `"stream":false`, 1))
			if whole.status != 500 || !strings.Contains(whole.raw, "The engine failed while decoding.") {
				t.Errorf("%s%s, not streamed: got status %d: %s", tt.engine, tt.path, whole.status, whole.raw)
			}
		})
	}
}

func TestWrongModel(t *testing.T) {
	bubble(t, withFault(Fault{Kind: WrongModel}), func(r *rig) {
		got := r.post("/v1/completions", completionBody(words(9), 2))
		if strings.Count(got.raw, `"model":"another-model"`) != 3 || strings.Contains(got.raw, "fake-8b") {
			t.Errorf("got %s, want 3 chunks of another-model", got.raw)
		}
	})
}

func TestCloseConnection(t *testing.T) {
	for _, tt := range []struct {
		faults []Fault
		dials  int
	}{
		{nil, 1},
		{[]Fault{{Kind: CloseConnection}}, 3},
	} {
		c := exact()
		c.Faults = tt.faults
		bubble(t, c, func(r *rig) {
			dials := 0
			transport := r.client.Transport.(*http.Transport)
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials++
				return dial(ctx, network, address)
			}
			for range 3 {
				decodeLast(t, r.post("/generate", generateBody(words(9), 2)))
				synctest.Wait()
			}
			if dials != tt.dials {
				t.Errorf("faults %v: got %d connections, want %d", tt.faults, dials, tt.dials)
			}
		})
	}
}

func TestFaultsStrikeBySeedAndOrdinal(t *testing.T) {
	all := []Fault{{Kind: Stall, Delay: 1, Probability: 0.25}, {Kind: Reset, Requests: []int{3, 5}}, {Kind: Garbage, Probability: 0.25}}
	counts := map[FaultKind]int{}
	both := 0
	for ordinal := 1; ordinal <= 4000; ordinal++ {
		hit := strike(all, 11, ordinal)
		if diff := cmp.Diff(hit, strike(all, 11, ordinal)); diff != "" {
			t.Fatalf("request %d is struck differently the second time:\n%s", ordinal, diff)
		}
		for _, f := range hit {
			counts[f.Kind]++
		}
		_, stall := hit.find(Stall)
		_, garbage := hit.find(Garbage)
		if stall && garbage {
			both++
		}
		if _, reset := hit.find(Reset); reset != (ordinal == 3 || ordinal == 5) {
			t.Errorf("request %d: reset is %v", ordinal, reset)
		}
	}
	// Five standard deviations of a binomial; faults strike independently.
	for name, got := range map[string]struct{ n, mean, bound int }{
		"stall": {counts[Stall], 1000, 137}, "garbage": {counts[Garbage], 1000, 137}, "both": {both, 250, 77},
	} {
		if got.n < got.mean-got.bound || got.n > got.mean+got.bound {
			t.Errorf("%s: got %d of 4000, want %d +- %d", name, got.n, got.mean, got.bound)
		}
	}
}

// A real socket: net.Pipe only imitates a reset.
func TestResetOnASocket(t *testing.T) {
	c := exact()
	c.Script = &Script{TTFT: []time.Duration{0}}
	c.Faults = []Fault{{Kind: Reset, AfterTokens: 2}}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	url, stop := serve(t, e)
	defer stop()
	resp, err := http.Post(url+"/generate", "application/json", strings.NewReader(generateBody(words(9), 4)))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want %v", err, syscall.ECONNRESET)
	}
}
