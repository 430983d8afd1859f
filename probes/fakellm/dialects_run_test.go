package fakellm

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// endless is the exact engine whose answers end by their length alone, also where
// nothing can ask for that.
func endless(engine string) Config {
	c := exact()
	c.Engine, c.MeanOutputTokens = engine, 1_000_000
	return c
}

func TestEveryDialectHasExactTimes(t *testing.T) {
	script := &Script{TTFT: ms(70), ITL: 7 * time.Millisecond}
	for _, d := range dialects() {
		for _, tt := range []struct {
			name   string
			script *Script
			want   []time.Duration
		}{
			// A prompt of 10 tokens: 10 + 10 ms of prefill, then 8 + 2 ms a step.
			{"batching", nil, ms(20, 30, 40, 50)},
			{"script", script, ms(70, 77, 84, 91)},
		} {
			c := endless(d.engine)
			c.Script = tt.script
			bubble(t, c, func(r *rig) {
				got := r.post(d.path, d.body(4, true, ""))
				if diff := cmp.Diff(tt.want, got.times()); diff != "" {
					t.Errorf("%v, %s: token times (-want +got):\n%s", d, tt.name, diff)
				}
				wantHeaders := time.Duration(0)
				if d.late {
					wantHeaders = tt.want[0]
				}
				if got.headers != wantHeaders {
					t.Errorf("%v, %s: headers: got %v, want %v", d, tt.name, got.headers, wantHeaders)
				}
				if got.end != tt.want[3] || !strings.HasSuffix(got.raw, d.mark) {
					t.Errorf("%v, %s: got an end at %v, want %v with mark %q: %s", d, tt.name, got.end, tt.want[3], d.mark, got.raw)
				}
				trace := r.engine.Stats().Requests[0]
				var sent []time.Duration
				for _, s := range trace.Sent {
					sent = append(sent, s.At)
				}
				if diff := cmp.Diff(tt.want, sent); diff != "" {
					t.Errorf("%v, %s: sent (-want +got):\n%s", d, tt.name, diff)
				}
			})
		}
	}
}

// The same words through every dialect, in pieces and in one piece, with the counts
// that the engine kept.
func TestEveryDialectSaysTheSameInPiecesAndWhole(t *testing.T) {
	const tools = `"tools":[{"type":"function","name":"look_up","function":{"name":"look_up"}}],`
	for _, d := range dialects() {
		for _, tt := range []struct {
			name      string
			natural   bool
			reasoning int
			tool      string
			cached    bool
		}{
			{name: "length"},
			{name: "natural", natural: true},
			{name: "cached", cached: true},
			{name: "reasoning", natural: true, reasoning: 5},
			{name: "only reasoning", reasoning: 50},
			{name: "tool", natural: true, reasoning: 5, tool: tools},
			{name: "tool cut", tool: tools},
		} {
			if tt.reasoning > 0 && !d.thinks || tt.tool != "" && !d.calls {
				continue
			}
			c := endless(d.engine)
			c.ReasoningTokens, c.Speculation = tt.reasoning, Speculation{3, 2.5}
			n := 20
			if tt.natural {
				c.MeanOutputTokens, n = 30, 4000
			}
			if tt.cached {
				c.Cache = PrefixCache{BlockTokens: 3, Blocks: 100}
			}
			bubble(t, c, func(r *rig) {
				if tt.cached {
					r.post(d.path, d.body(1, true, ""))
				}
				pieces := d.said(t, r.post(d.path, d.body(n, true, tt.tool)))
				whole := d.said(t, r.post(d.wholePath(), d.body(n, false, tt.tool)))
				if d.engine == Anthropic && tt.name == "tool cut" && whole.Arguments == "" {
					whole.Arguments = pieces.Arguments // half an object has no place in one piece
				}
				if diff := cmp.Diff(pieces, whole); diff != "" {
					t.Errorf("%v, %s (-pieces +whole):\n%s", d, tt.name, diff)
				}
				traces := r.engine.Stats().Requests
				for _, trace := range traces[len(traces)-2:] {
					checkSaid(t, d, tt.name, pieces, trace, tt.cached)
				}
			})
		}
	}
}

// checkSaid compares what was said with what the engine knows of the request.
func checkSaid(t *testing.T, d dialect, name string, got said, trace RequestTrace, cached bool) {
	t.Helper()
	tokens, reason := trace.OutputTokens(), "stop"
	visible := tokens - 1 // end of sequence
	if tokens == 20 {
		reason, visible = "length", tokens
	}
	if got.Tool != "" && reason == "stop" {
		reason = "tool_calls"
	}
	if got.Completion != tokens && got.Completion != -1 || got.Prompt != 10 && got.Prompt != -1 || trace.PromptTokens != 10 {
		t.Errorf("%v, %s: got counts %d and %d, want %d and 10", d, name, got.Completion, got.Prompt, tokens)
	}
	if got.Cached != trace.CachedTokens && got.Cached != -1 || cached != (trace.CachedTokens == 9) {
		t.Errorf("%v, %s: got %d cached tokens, want %d", d, name, got.Cached, trace.CachedTokens)
	}
	if want := d.finish(reason); got.Finish != want && d.engine != Triton {
		t.Errorf("%v, %s: got finish %q, want %q", d, name, got.Finish, want)
	}
	words := CountTokens(got.Thought) + CountTokens(got.Text)
	switch {
	case strings.HasPrefix(got.Text, "{"), reason == "length" && got.Arguments != "":
		return // a call that was cut
	case got.Tool != "":
		var arguments struct{ Query string }
		if err := json.Unmarshal([]byte(got.Arguments), &arguments); err != nil || got.Tool != "look_up" {
			t.Errorf("%v, %s: got tool %q, arguments %q: %v", d, name, got.Tool, got.Arguments, err)
		}
		words += CountTokens(arguments.Query) + 1
	}
	if words != visible && !(d.engine == OpenAIResponses && d.path == "/v1/chat/completions") {
		t.Errorf("%v, %s: got %d words, want %d: %+v", d, name, words, visible, got)
	}
}
