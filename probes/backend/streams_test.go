package backend

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// expected is one entry of testdata/streams/expected.json. chunks counts token
// events; out, prompt and cached are the server's numbers, null when it gave none;
// done says that an explicit end mark came; error is what must be reported.
type expected struct {
	Kind    string
	TTFT    *int
	Chunks  int
	Out     *int
	Prompt  *int
	Cached  *int
	Done    bool
	Finish  *string
	Error   *string
	Text    *string
	TextLen int `json:"text_len"`
}

var kinds = map[string]string{
	"sglang": "sglang", "sglang-incr": "sglang", "oai-chat": "vllm-chat", "oai-comp": "vllm",
}

func optional(p *int) any {
	if p == nil {
		return nil
	}
	return *p
}

// outcomeOf translates what the table says of a stream.
func (e expected) outcome() (probes.Outcome, string) {
	switch {
	case e.Error == nil || *e.Error == "bad json":
		return probes.OK, ""
	case *e.Error == "truncated" || *e.Error == "incomplete":
		return probes.Truncated, "the body ended before the answer did"
	case *e.Error == "no events":
		return probes.BadResponse, "no event"
	}
	return probes.StreamError, *e.Error
}

func TestStreams(t *testing.T) {
	var table map[string]expected
	if err := json.Unmarshal(mustRead(t, "streams", "expected.json"), &table); err != nil {
		t.Fatal(err)
	}
	for name, want := range table {
		t.Run(name, func(t *testing.T) {
			body := mustRead(t, "streams", name)
			tg := target(kinds[want.Kind])
			tg.Model = ""
			whole := once(t, tg, request(), sse(body))
			checkStream(t, name, want, whole)
			whole = untimed(whole)

			client := newClient(t, tg, &server{})
			step := 1
			if len(body) > 10000 {
				step = len(body)/150 + 1
			}
			for at := 1; at < len(body); at += step {
				if cut := untimed(readCut(client, request(), body[:at], body[at:])); !reflect.DeepEqual(whole, cut) {
					t.Fatalf("cut at %d changes the reading (-whole +cut):\n%s", at, cmp.Diff(whole, cut))
				}
			}
			var bytewise [][]byte
			for i := 0; i < len(body); i += step {
				bytewise = append(bytewise, body[i:min(i+step, len(body))])
			}
			if cut := untimed(readCut(client, request(), bytewise...)); !reflect.DeepEqual(whole, cut) {
				t.Fatalf("reading byte by byte changes the reading (-whole +cut):\n%s", cmp.Diff(whole, cut))
			}
		})
	}
}

// untimed is what a record says of the answer whatever the pieces it came in.
func untimed(rec probes.Record) probes.Record {
	same := probes.Record{
		Outcome: rec.Outcome, Error: rec.Error, Flags: rec.Flags &^ probes.Coalesced, ExactOutput: rec.ExactOutput, PromptTokens: rec.PromptTokens,
		CachedTokens: rec.CachedTokens, OutputTokens: rec.OutputTokens, OutputSource: rec.OutputSource, ReasoningTokens: rec.ReasoningTokens,
		AcceptLength: rec.AcceptLength, Text: rec.Text, FinishReason: rec.FinishReason,
	}
	for _, c := range rec.Chunks {
		same.Chunks = append(same.Chunks, probes.Chunk{Tokens: c.Tokens})
	}
	return same
}

func checkStream(t *testing.T, name string, want expected, got probes.Record) {
	t.Helper()
	outcome, text := want.outcome()
	if got.Outcome != outcome || !strings.Contains(got.Error, text) || (text == "") != (got.Error == "") {
		t.Errorf("outcome %s, error %q, want %s with %q", got.Outcome, got.Error, outcome, text)
	}
	if len(got.Chunks) != want.Chunks || got.FirstToken.IsKnown() != (want.TTFT != nil) || got.LastToken.IsKnown() != (want.TTFT != nil) {
		t.Errorf("got %d token events, first %v, last %v, want %d", len(got.Chunks), got.FirstToken, got.LastToken, want.Chunks)
	}
	finish := ""
	if want.Finish != nil {
		finish = *want.Finish
	}
	type facts struct{ Out, Prompt, Cached, Finish any }
	w := facts{optional(want.Out), optional(want.Prompt), optional(want.Cached), finish}
	g := facts{known(got.OutputTokens), known(got.PromptTokens), known(got.CachedTokens), got.FinishReason}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if got.OutputTokens.IsKnown() != (got.OutputSource == probes.TokensServer) {
		t.Errorf("output tokens %v have source %q", got.OutputTokens, got.OutputSource)
	}
	if want.Text != nil {
		// The table joins the texts of two choices by a bar.
		if text := strings.ReplaceAll(*want.Text, "|", "\n"); got.Text != text {
			t.Errorf("text %q, want %q", got.Text, text)
		}
	} else if n := utf8.RuneCountInString(got.Text); n != want.TextLen {
		t.Errorf("text of %d characters, want %d", n, want.TextLen)
	}
	if got.Flags.Has(probes.UnparsableEvent) != (want.Error != nil && *want.Error == "bad json") {
		t.Errorf("flags %v", got.Flags.Names())
	}
}

func TestStreamDetails(t *testing.T) {
	tests := []struct {
		file, backend string
		tokens        []int
		accept        any
		reasoning     any
		firstAnswer   bool
	}{
		{"02-sglang-native-spec.sse", "sglang", []int{1, 3, 1, 4, 3}, 3.0, 0, true},
		{"03-sglang-native-shrink.sse", "sglang", []int{2, 2, 1, 3, 1}, nil, 0, true},
		{"06-sglang-native-incremental.sse", "sglang", []int{1, 2, 1, 3}, nil, 0, true},
		{"07-sglang-oai-chat.sse", "sglang-oai-chat", []int{0, 0, 0}, nil, 0, true},
		{"09-vllm-completions-spec.sse", "vllm", []int{0, 0, 0}, 2.5, nil, true},
		{"10-vllm-chat-reasoning.sse", "vllm-chat", []int{0, 0, 0, 0}, nil, 7, true},
		{"13-vllm-continuous-usage.sse", "vllm-chat", []int{1, 3, 3}, nil, nil, true},
		{"23-tgi-chat.sse", "openai-chat", []int{1, 1}, nil, nil, true},
		{"30-openai-chat-hidden-reasoning.sse", "openai-chat", []int{0, 0}, nil, 64, true},
		{"42-nasty-space-variants.sse", "openai", []int{1, 1, 1, 1}, nil, nil, true},
		{"53-nasty-duplicate-final.sse", "sglang", []int{1, 1}, nil, 0, true},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			c := newClient(t, target(test.backend), &server{})
			rec := readCut(c, request(), mustRead(t, "streams", test.file))
			if diff := cmp.Diff(test.tokens, chunkTokens(rec)); diff != "" {
				t.Errorf("tokens per chunk (-want +got):\n%s", diff)
			}
			if got := known(rec.AcceptLength); got != test.accept {
				t.Errorf("accept length %v, want %v", got, test.accept)
			}
			if got := known(rec.ReasoningTokens); got != test.reasoning {
				t.Errorf("reasoning tokens %v, want %v", got, test.reasoning)
			}
			if rec.FirstAnswer.IsKnown() != test.firstAnswer {
				t.Errorf("first answer %v", rec.FirstAnswer)
			}
		})
	}
}

// Bodies that real engines sent.
func TestCaptured(t *testing.T) {
	tests := []struct {
		file    string
		outcome probes.Outcome
		chunks  int
		out     any
		cached  any
		finish  string
	}{
		{"llama-server-v1_chat_usage.sse", probes.OK, 48, 48, 2, "length"},
		{"llama-server-v1_chat.sse", probes.OK, 48, nil, nil, "length"},
		{"llama-server-v1_completions_usage.sse", probes.OK, 48, 48, 7, "length"},
		{"llama-server-v1_completions.sse", probes.OK, 48, 48, 3, "length"},
		{"llama-server-v1_completions_stop.sse", probes.OK, 2, 3, 7, "stop"},
		{"llama-server-speculative-v1_completions_usage.sse", probes.OK, 48, 48, 7, "length"},
		{"llama-server-cancelled.sse", probes.Truncated, 100, nil, nil, ""},
		{"ollama-v1_chat.sse", probes.OK, 22, 24, nil, "length"},
		{"ollama-v1_chat_nousage.sse", probes.OK, 23, nil, nil, "length"},
		{"ollama-v1_completions.sse", probes.OK, 8, 8, nil, "length"},
		{"ollama-v1_completions_nousage.sse", probes.OK, 5, nil, nil, "length"},
		{"ollama-v1_ignore_eos.sse", probes.OK, 198, 204, nil, "stop"},
		{"ollama-v1_completions_truncated.sse", probes.Truncated, 31, nil, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			backend := "openai"
			if strings.Contains(test.file, "_chat") {
				backend = "openai-chat"
			}
			c := newClient(t, target(backend), &server{})
			rec := readCut(c, request(), mustRead(t, "captured", test.file))
			if rec.Outcome != test.outcome || len(rec.Chunks) != test.chunks || known(rec.OutputTokens) != test.out ||
				known(rec.CachedTokens) != test.cached || rec.FinishReason != test.finish {
				t.Errorf("got %s, %d token events, %v tokens, %v cached, finish %q, want %s, %d, %v, %v, %q", rec.Outcome, len(rec.Chunks),
					known(rec.OutputTokens), known(rec.CachedTokens), rec.FinishReason, test.outcome, test.chunks, test.out, test.cached, test.finish)
			}
			if !rec.Flags.Has(probes.OtherModel) {
				t.Error("another model answered than the one asked for, and no flag says so")
			}
		})
	}
}
