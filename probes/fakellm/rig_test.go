package fakellm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rig is an engine behind a pipe and a plain client in front of it. It must be
// built inside a bubble.
type rig struct {
	t      *testing.T
	engine *Engine
	client *http.Client
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, c Config, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, err := New(c)
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		l, dial := NewPipeListener()
		server := &http.Server{Handler: e.Handler()}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		transport := &http.Transport{DialContext: dial, DisableCompression: true}
		test(&rig{t: t, engine: e, client: &http.Client{Transport: transport}})
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("serve: got %v, want %v", err, http.ErrServerClosed)
		}
	})
}

// exact is an engine of round numbers: prefill 10 ms + 1 ms a token, decode
// 8 ms + 2 ms a sequence.
func exact() Config {
	return Config{
		PrefillBase: 10 * time.Millisecond, PrefillTokensPerSecond: 1000,
		DecodeBase: 8 * time.Millisecond, DecodePerSequence: 2 * time.Millisecond,
	}
}

// event is one SSE event or comment and the instant it arrived.
type event struct {
	at   time.Duration
	data string
}

// reply is what a client saw.
type reply struct {
	status  int
	header  http.Header
	closed  bool          // the server said that it ends the connection
	headers time.Duration // when they arrived
	events  []event
	raw     string
	err     error         // that ended the body
	end     time.Duration // when it ended
}

// tokens are the events that bring output, and their times.
func (r reply) times() []time.Duration {
	var at []time.Duration
	for _, ev := range r.events {
		if hasToken(ev.data) {
			at = append(at, ev.at)
		}
	}
	return at
}

// hasToken reports whether an event of any dialect brings output.
func hasToken(data string) bool {
	var ev struct {
		Type, Text, Content, Response, Thinking string
		TextOutput                              string `json:"text_output"`
		Token                                   *struct{ Special bool }
		Delta                                   json.RawMessage
		Message                                 struct {
			Content, Thinking string
			ToolCalls         []any `json:"tool_calls"`
		}
		Choices []struct {
			Text  string
			Delta struct {
				Content          string
				Reasoning        string
				ReasoningContent string `json:"reasoning_content"`
				ToolCalls        []any  `json:"tool_calls"`
			}
		}
	}
	// Fields of other dialects may have other types.
	if err := json.Unmarshal([]byte(data), &ev); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return false
	}
	if len(ev.Choices) > 0 {
		c := ev.Choices[0]
		return c.Text != "" || c.Delta.Content+c.Delta.Reasoning+c.Delta.ReasoningContent != "" || len(c.Delta.ToolCalls) > 0
	}
	if strings.HasSuffix(ev.Type, ".done") {
		return false // a repetition
	}
	var text string
	var delta struct {
		Text, Thinking string
		PartialJSON    string `json:"partial_json"`
	}
	if json.Unmarshal(ev.Delta, &text) != nil {
		_ = json.Unmarshal(ev.Delta, &delta) // neither: a last event's
	}
	m := ev.Message
	return ev.Text+ev.Content+ev.Response+ev.Thinking+ev.TextOutput+text != "" || delta.Text+delta.Thinking+delta.PartialJSON != "" ||
		ev.Token != nil || m.Content+m.Thinking != "" || len(m.ToolCalls) > 0
}

func (r *rig) post(path, body string) reply { return r.send(context.Background(), path, body, nil) }

func (r *rig) send(ctx context.Context, path, body string, header http.Header) reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		r.t.Errorf("build request: %v", err)
		return reply{}
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header[k] = v
	}
	start := time.Now()
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err, end: time.Since(start)}
	}
	defer resp.Body.Close()
	out := reply{status: resp.StatusCode, header: resp.Header, closed: resp.Close, headers: time.Since(start)}
	out.read(resp.Body, start)
	return out
}

func (r *reply) read(body io.Reader, start time.Time) {
	lines := bufio.NewReader(body)
	// In a stream of lines each line is an event.
	linewise := r.header.Get("Content-Type") == "application/x-ndjson"
	var raw bytes.Buffer
	for {
		line, err := lines.ReadString('\n')
		raw.WriteString(line)
		text := strings.TrimSuffix(line, "\n")
		if data, ok := strings.CutPrefix(text, "data:"); ok {
			r.events = append(r.events, event{time.Since(start), strings.TrimSpace(data)})
		} else if strings.HasPrefix(text, ":") || linewise && text != "" {
			r.events = append(r.events, event{time.Since(start), text})
		}
		if err != nil {
			if err != io.EOF {
				r.err = err
			}
			r.raw, r.end = raw.String(), time.Since(start)
			return
		}
	}
}

func (r *rig) get(path string) reply { return r.getWith(path, "Accept", "*/*") }

func (r *rig) getWith(path, header, value string) reply {
	req, err := http.NewRequest(http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	out := reply{status: resp.StatusCode, header: resp.Header}
	out.read(resp.Body, time.Now())
	return out
}

// words is a prompt of n tokens (without the beginning-of-sequence token).
func words(n int) string {
	return strings.TrimSpace(strings.Repeat("word ", n))
}

// generateBody asks /generate for exactly n tokens.
func generateBody(prompt string, n int) string {
	return fmt.Sprintf(`{"text":%q,"sampling_params":{"temperature":0,"max_new_tokens":%d,"ignore_eos":true},"stream":true}`, prompt, n)
}

// chatBody asks for exactly n tokens of chat.
func chatBody(prompt string, n int) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"temperature":0,"max_completion_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, prompt, n)
}

func completionBody(prompt string, n int) string {
	return fmt.Sprintf(`{"prompt":%q,"temperature":0,"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, prompt, n)
}

func ms(values ...int) []time.Duration {
	var out []time.Duration
	for _, v := range values {
		out = append(out, time.Duration(v)*time.Millisecond)
	}
	return out
}
