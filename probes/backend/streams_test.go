package backend

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
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

// kinds says which backends read a kind of stream. LMDeploy's own /generate looks like
// SGLang's with incremental output, and whoever reads one reads the other.
var kinds = map[string][]string{
	"sglang": {"sglang"}, "sglang-incr": {"sglang"}, "lmdeploy": {"sglang"}, "triton": {"trt"}, "tgi": {"tgi"}, "llamacpp": {"llamacpp"},
	"ollama": {"ollama"}, "anthropic": {"anthropic"}, "responses": {"openai-responses"},
	"oai-chat": {"vllm-chat", "sglang-oai-chat", "openai-chat", "lmdeploy-chat", "trtllm-serve-chat", "dynamo"},
	"oai-comp": {"vllm", "sglang-oai", "openai", "lmdeploy", "trtllm-serve", "truss"},
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
		backends := kinds[want.Kind]
		if len(backends) == 0 {
			t.Errorf("%s: nobody reads the kind %q", name, want.Kind)
			continue
		}
		t.Run(name, func(t *testing.T) {
			body := mustRead(t, "streams", name)
			tg := target(backends[0])
			tg.Model = ""
			whole := once(t, tg, request(), streamOf(body, name))
			checkStream(t, name, want, whole)
			whole = untimed(whole)
			for _, other := range backends[1:] {
				tg.Backend = other
				if rec := untimed(once(t, tg, request(), streamOf(body, name))); !reflect.DeepEqual(whole, rec) {
					t.Errorf("%s reads otherwise than %s (-want +got):\n%s", other, backends[0], cmp.Diff(whole, rec))
				}
			}
			tg.Backend = backends[0]
			client := newClient(t, tg, &server{})
			checkCuts(t, client, body, whole)
		})
	}
}

// checkCuts reads a body cut in two at every offset (in a long one, at 150 of them)
// and byte by byte (in a very long one, in pieces of a 150th).
func checkCuts(t *testing.T, client *Client, body []byte, whole probes.Record) {
	t.Helper()
	step, piece := 1, 1
	if len(body) > 2500 {
		step = len(body)/150 + 1
	}
	if len(body) > 50000 {
		piece = step
	}
	for at := 1; at < len(body); at += step {
		if cut := untimed(readCut(client, request(), body[:at], body[at:])); !reflect.DeepEqual(whole, cut) {
			t.Fatalf("cut at %d changes the reading (-whole +cut):\n%s", at, cmp.Diff(whole, cut))
		}
	}
	var bytewise [][]byte
	for i := 0; i < len(body); i += piece {
		bytewise = append(bytewise, body[i:min(i+piece, len(body))])
	}
	if cut := untimed(readCut(client, request(), bytewise...)); !reflect.DeepEqual(whole, cut) {
		t.Fatalf("reading byte by byte changes the reading (-whole +cut):\n%s", cmp.Diff(whole, cut))
	}
}

// streamOf is a stream's body with the content type that its name tells.
func streamOf(body []byte, name string) timeline {
	tl := sse(body)
	if strings.HasSuffix(name, ".ndjson") {
		tl.header["Content-Type"] = "application/x-ndjson"
	}
	return tl
}

// untimed is what a record says of the answer whatever the pieces it came in.
func untimed(rec probes.Record) probes.Record {
	same := probes.Record{
		Outcome: rec.Outcome, Error: rec.Error, Flags: rec.Flags &^ probes.Coalesced, ExactOutput: rec.ExactOutput, PromptTokens: rec.PromptTokens,
		CachedTokens: rec.CachedTokens, OutputTokens: rec.OutputTokens, OutputSource: rec.OutputSource, ReasoningTokens: rec.ReasoningTokens,
		AcceptLength: rec.AcceptLength, ServerPrefill: rec.ServerPrefill, ServerDecode: rec.ServerDecode, Text: rec.Text, FinishReason: rec.FinishReason,
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

// llama-server sends the tokens of a verify step one by one, all with the count after
// the step; the last chunk here carries two tokens that printed nothing.
func TestTokensOfACapturedBurst(t *testing.T) {
	rec := readCut(newClient(t, target("llamacpp"), &server{}), request(), mustRead(t, "captured", "llama-server-speculative-native_completion.sse"))
	want := append(repeat(45, 1), 3)
	if diff := cmp.Diff(want, chunkTokens(rec)); diff != "" {
		t.Errorf("tokens per chunk (-want +got):\n%s", diff)
	}
}

// Bodies that real engines sent. Times are the engine's own, in milliseconds.
func TestCaptured(t *testing.T) {
	tests := []struct {
		file, backend   string
		outcome         probes.Outcome
		chunks          int
		prompt, out     any
		cached          any
		accept          any
		prefill, decode any
		finish          string
	}{
		{"llama-server-v1_chat_usage.sse", "openai-chat", probes.OK, 48, 16, 48, 2, nil, 1.176, 14.838, "length"},
		{"llama-server-v1_chat.sse", "openai-chat", probes.OK, 48, 28, 48, 0, nil, 2.013, 16.306, "length"},
		{"llama-server-v1_chat_timings.sse", "openai-chat", probes.OK, 16, 16, 16, 15, nil, 0.612, 11.213, "length"},
		{"llama-server-v1_completions_usage.sse", "openai", probes.OK, 48, 8, 48, 7, nil, 0.5, 14.433, "length"},
		{"llama-server-v1_completions.sse", "openai", probes.OK, 48, 8, 48, 3, nil, 55.67, 10.839, "length"},
		{"llama-server-v1_completions_timings.sse", "openai", probes.OK, 24, 8, 24, 7, nil, 0.481, 5.469, "length"},
		{"llama-server-v1_completions_stop.sse", "openai", probes.OK, 2, 8, 3, 7, nil, 0.536, 0.415, "stop"},
		{"llama-server-v1_completions_n2.sse", "openai", probes.OK, 16, 8, 8, 7, nil, 0.704, 4.298, "length"},
		{"llama-server-v1_completions_tokenids.sse", "openai", probes.OK, 8, 6, 8, 1, nil, 0.948, 1.621, "length"},
		{"llama-server-speculative-v1_completions_usage.sse", "openai", probes.OK, 48, 8, 48, 7, 1.2, 0.577, 118.437, "length"},
		{"llama-server-speculative-v1_completions.sse", "openai", probes.OK, 46, 8, 48, 0, 2.526315789473684, 1.439, 108.378, "length"},
		{"llama-server-speculative-v1_completions_timings.sse", "openai", probes.OK, 24, 8, 24, 7, 1.2, 0.629, 51.448, "length"},
		{"llama-server-speculative-v1_chat.sse", "openai-chat", probes.OK, 47, 28, 48, 0, 1.263157894736842, 2.863, 71.741, "length"},
		{"llama-server-speculative-v1_chat_timings.sse", "openai-chat", probes.OK, 16, 16, 16, 15, 1.1428571428571428, 0.65, 30.725, "length"},
		{"llama-server-speculative-v1_completions_n2.sse", "openai", probes.OK, 16, 8, 8, 7, 1.0, 0.717, 36.796, "length"},
		{"llama-server-cancelled.sse", "openai", probes.Truncated, 100, nil, nil, nil, nil, nil, nil, ""},
		{"llama-server-native_completion.sse", "llamacpp", probes.OK, 48, 8, 48, 7, nil, 0.615, 15.636, "limit"},
		{"llama-server-native_completion_full.sse", "llamacpp", probes.OK, 16, 8, 16, 7, nil, 0.534, 6.944, "limit"},
		{"llama-server-long_prefill_progress.sse", "llamacpp", probes.OK, 8, 1602, 8, 0, nil, 430.838, 5.164, "limit"},
		{"llama-server-speculative-native_completion.sse", "llamacpp", probes.OK, 46, 8, 48, 7, 2.526315789473684, 0.835, 30.634, "limit"},
		{"llama-server-speculative-native_completion_full.sse", "llamacpp", probes.OK, 15, 8, 16, 7, 1.4545454545454546, 0.724, 14.56, "limit"},
		{"llama-server-speculative-long_prefill_progress.sse", "llamacpp", probes.OK, 8, 1602, 8, 0, 1.0, 558.028, 132.91, "limit"},
		{"llama-server-cached_prefix2.sse", "openai", probes.OK, 8, 604, 8, 602, nil, 4.476, 3.799, "length"},
		{"llama-server-anthropic_messages.sse", "anthropic", probes.OK, 16, 16, 16, 15, nil, nil, nil, "max_tokens"},
		{"llama-server-speculative-anthropic_messages.sse", "anthropic", probes.OK, 16, 16, 16, 15, nil, nil, nil, "max_tokens"},
		{"llama-server-v1_responses.sse", "openai-responses", probes.OK, 16, 16, 16, 15, nil, nil, nil, "completed"},
		{"llama-server-speculative-v1_responses.sse", "openai-responses", probes.OK, 16, 16, 16, 15, nil, nil, nil, "completed"},
		{"ollama-api_chat.ndjson", "ollama", probes.OK, 16, 13, 16, nil, nil, 391.39, 1753.624, "length"},
		{"ollama-api_generate.ndjson", "ollama", probes.OK, 16, 13, 16, nil, nil, 258.685, 844.992, "length"},
		{"ollama-v1_chat.sse", "openai-chat", probes.OK, 22, 16, 24, nil, nil, nil, nil, "length"},
		{"ollama-v1_chat_nousage.sse", "openai-chat", probes.OK, 23, nil, nil, nil, nil, nil, nil, "length"},
		{"ollama-v1_completions.sse", "openai", probes.OK, 8, 13, 8, nil, nil, nil, nil, "length"},
		{"ollama-v1_completions_nousage.sse", "openai", probes.OK, 5, nil, nil, nil, nil, nil, nil, "length"},
		{"ollama-v1_ignore_eos.sse", "openai", probes.OK, 198, 13, 204, nil, nil, nil, nil, "stop"},
		{"ollama-v1_completions_truncated.sse", "openai", probes.Truncated, 31, nil, nil, nil, nil, nil, nil, ""},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			body := mustRead(t, "captured", test.file)
			c := newClient(t, target(test.backend), &server{})
			rec := readCut(c, request(), body)
			type facts struct {
				Outcome                     probes.Outcome
				Chunks                      int
				Prompt, Out, Cached, Accept any
				Prefill, Decode             any
				Finish                      string
			}
			inMs := func(d probes.Optional[time.Duration]) any {
				if v, ok := d.Get(); ok {
					return float64(v.Microseconds()) / 1000
				}
				return nil
			}
			want := facts{test.outcome, test.chunks, test.prompt, test.out, test.cached, test.accept, test.prefill, test.decode, test.finish}
			got := facts{rec.Outcome, len(rec.Chunks), known(rec.PromptTokens), known(rec.OutputTokens), known(rec.CachedTokens), known(rec.AcceptLength),
				inMs(rec.ServerPrefill), inMs(rec.ServerDecode), rec.FinishReason}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			flags := probes.OtherModel | probes.Coalesced
			if strings.HasSuffix(test.file, "_n2.sse") {
				flags |= probes.CountMismatch // the engine counts each choice apart
			}
			if rec.Flags != flags {
				t.Errorf("flags %v, want %v", rec.Flags.Names(), flags.Names())
			}
			checkCuts(t, c, body, untimed(rec))
		})
	}
}
