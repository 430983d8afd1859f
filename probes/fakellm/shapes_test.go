package fakellm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// frames lists the shapes of all lines of a stream, repetitions left out: names of
// events and comments as they are (a comment's text by its shape), data by its shape.
func frames(t *testing.T, stream string, drop []string) []string {
	t.Helper()
	var list []string
	ping := false
	for line := range strings.Lines(stream) {
		line = strings.TrimSuffix(line, "\n")
		pinged := ping
		if ping = line == "event: ping"; ping || pinged {
			continue // may come at any time; so may its data
		}
		mark, data := "", line
		for _, m := range []string{"data: ", "data:", "error: ", "event: ", ": "} {
			if rest, ok := strings.CutPrefix(line, m); ok {
				mark, data = m, rest
				break
			}
		}
		if data == "" || data == ":" {
			continue
		}
		f := mark + data
		if mark != "event: " && data != "[DONE]" {
			f = mark
			for _, s := range shapes(t, "data: "+data, drop...) {
				f += s
			}
			if strings.HasSuffix(data, " ") {
				f += " "
			}
		}
		if !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// The streams of the newer engines have the shapes of hand-written and of recorded
// ones. What a sample does not show is left out on both sides.
func TestDialectsHaveTheShapesOfRealOnes(t *testing.T) {
	const (
		messages = `"messages":[{"role":"user","content":"a b c d e"}]`
		usage    = `"stream":true,"stream_options":{"include_usage":true}`
		tool     = `"tools":[{"type":"function","name":"look_up","function":{"name":"look_up"}}]`
	)
	reasoning := func(c *Config) { c.ReasoningTokens = 2 }
	speculate := func(c *Config) { c.Speculation = Speculation{3, 2.5} }
	broken := func(after int) func(*Config) {
		return func(c *Config) { c.Faults = []Fault{{Kind: ErrorMidStream, AfterTokens: after}} }
	}
	// Settings and probabilities that are not simulated.
	llama := []string{"generation_settings", "completion_probabilities", "draft_n", "draft_n_accepted"}
	for _, tt := range []struct {
		sample, engine, path, body string
		change                     func(*Config)
		drop                       []string
	}{
		{"15-lmdeploy-generate.sse", LMDeploy, "/generate", `{"prompt":"a b c","max_tokens":3,"stream":true}`, nil, nil},
		{"16-lmdeploy-chat.sse", LMDeploy, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,` + usage + `}`, nil, nil},
		{"17-triton-generate-stream.sse", Triton, "/v2/models/ensemble/generate_stream", `{"text_input":"a","max_tokens":3}`, nil, nil},
		{"18-triton-error-after-200.sse", Triton, "/v2/models/ensemble/generate_stream", `{"text_input":"a","max_tokens":3}`, broken(1), nil},
		{"19-trtllm-serve-chat.sse", TRTLLM, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,` + usage + `}`, nil, nil},
		{"20-truss-predict.sse", Truss, "/v1/models/model:predict", `{"prompt":"a b","max_tokens":3,"stream":true}`, nil, nil},
		{"21-tgi-generate-stream.sse", TGI, "/generate_stream", `{"inputs":"a b","parameters":{"max_new_tokens":3,"details":true}}`, nil, nil},
		{"22-tgi-overloaded-in-200.sse", TGI, "/generate_stream", `{"inputs":"a b"}`,
			func(c *Config) { c.Faults = []Fault{{Kind: TooManyRequests}} }, nil},
		{"23-tgi-chat.sse", TGI, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,` + usage + `}`, nil, nil},
		{"24-llamacpp-completion.sse", LlamaCPP, "/completion", `{"prompt":"a b","n_predict":6,"return_progress":true,"stream":true}`, speculate, llama},
		{"25-llamacpp-chat.sse", LlamaCPP, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,` + usage + `}`, nil, nil},
		{"27-ollama-chat.ndjson", Ollama, "/api/chat", `{` + messages + `,"options":{"num_predict":3}}`, nil, nil},
		{"28-ollama-chat-thinking-tools.ndjson", Ollama, "/api/chat", `{` + messages + `,` + tool + `}`, reasoning, []string{"arguments", "prompt_eval_count"}},
		{"29-ollama-midstream-error.ndjson", Ollama, "/api/chat", `{` + messages + `}`, broken(1), nil},
		{"30-openai-chat-hidden-reasoning.sse", OpenAIResponses, "/v1/chat/completions", `{` + messages + `,"max_completion_tokens":5,` + usage + `}`, reasoning, nil},
		{"31-openai-responses.sse", OpenAIResponses, "/v1/responses", `{"input":"a b","stream":true}`, nil, []string{"output", "created_at", "error", "incomplete_details"}},
		{"33-anthropic-text.sse", Anthropic, "/v1/messages", `{` + messages + `,"max_tokens":3,"stream":true}`, nil, nil},
		{"34-anthropic-thinking-tool-error.sse", Anthropic, "/v1/messages", `{` + messages + `,` + tool + `,"max_tokens":9,"stream":true}`,
			func(c *Config) {
				reasoning(c)
				c.MeanOutputTokens, c.Faults = 1000, []Fault{{Kind: ErrorMidStream, AfterTokens: 4}}
			},
			[]string{"cache_creation_input_tokens", "cache_read_input_tokens"}},
		{"35-dynamo-annotations.sse", Dynamo, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,` + usage +
			`,"nvext":{"annotations":["llm_metrics","request_id"],"extra_fields":["worker_id","timing"]}}`, nil, nil},
		{"36-dynamo-error-event.sse", Dynamo, "/v1/chat/completions", `{` + messages + `,"stream":true}`, broken(1), nil},
		{"captured/llama-native_completion.sse", LlamaCPP, "/completion", `{"prompt":"a","n_predict":9,"stream":true}`, nil, llama},
		{"captured/llama-spec-native_completion.sse", LlamaCPP, "/completion", `{"prompt":"a","n_predict":40,"stream":true}`, speculate, llama[:2]},
		{"captured/llama-spec-native_completion_full.sse", LlamaCPP, "/completion",
			`{"prompt":"a","n_predict":40,"stream":true,"return_progress":true,"timings_per_token":true}`, nil, append(llama, "timings")},
		{"captured/llama-spec-v1_chat.sse", LlamaCPP, "/v1/chat/completions", `{` + messages + `,"max_tokens":9,"stream":true}`, speculate, nil},
		{"captured/llama-spec-v1_chat_usage.sse", LlamaCPP, "/v1/chat/completions", `{` + messages + `,"max_tokens":9,` + usage + `}`, speculate, nil},
		{"captured/llama-spec-v1_chat_timings.sse", LlamaCPP, "/v1/chat/completions",
			`{` + messages + `,"max_tokens":9,"stream":true,"return_progress":true,"timings_per_token":true}`, nil, append(llama, "timings", "logprobs")},
		{"captured/llama-spec-v1_completions_usage.sse", LlamaCPP, "/v1/completions", `{"prompt":"a","max_tokens":9,` + usage + `}`, speculate, nil},
		{"captured/llama-spec-v1_completions_timings.sse", LlamaCPP, "/v1/completions",
			`{"prompt":"a","max_tokens":9,"stream":true,"return_progress":true,"timings_per_token":true}`, nil, append(llama, "timings")},
		{"captured/llama-v1_chat_nonstream.json", LlamaCPP, "/v1/chat/completions", `{` + messages + `,"max_tokens":9}`, speculate, nil},
		{"captured/llama-v1_completions_nonstream.json", LlamaCPP, "/v1/completions", `{"prompt":"a","max_tokens":9}`, speculate, nil},
		{"captured/llama-err_404.json", LlamaCPP, "/v1/nothing", `{}`, nil, nil},
		{"captured/llama-err_badjson.json", LlamaCPP, "/completion", `{`, nil, nil},
		{"captured/llama-err_context_stream.json", LlamaCPP, "/completion", `{"prompt":"` + words(40000) + `","stream":true}`, nil, nil},
		{"captured/llama-anthropic_messages.sse", Anthropic, "/v1/messages", `{` + messages + `,"max_tokens":3,"stream":true}`, nil,
			[]string{"cache_creation_input_tokens"}},
		{"captured/ollama-api_chat.ndjson", Ollama, "/api/chat", `{` + messages + `,"options":{"num_predict":3}}`, nil, nil},
		{"captured/ollama-api_generate.ndjson", Ollama, "/api/generate", `{"prompt":"a","options":{"num_predict":3}}`, nil, nil},
		{"captured/ollama-v1_chat.sse", Ollama, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,` + usage + `}`, nil, nil},
		{"captured/ollama-v1_chat_nousage.sse", Ollama, "/v1/chat/completions", `{` + messages + `,"max_tokens":3,"stream":true}`, nil, nil},
		{"captured/ollama-v1_completions.sse", Ollama, "/v1/completions", `{"prompt":"a","max_tokens":3,` + usage + `}`, nil, nil},
		{"captured/ollama-v1_completions_nousage.sse", Ollama, "/v1/completions", `{"prompt":"a","max_tokens":3,"stream":true}`, nil, nil},
		{"captured/ollama-v1_chat_nonstream.json", Ollama, "/v1/chat/completions", `{` + messages + `,"max_tokens":3}`, nil, nil},
		{"captured/ollama-err_nomodel.sse", Ollama, "/v1/chat/completions", `{` + messages + `,"model":"nope"}`, nil, nil},
	} {
		t.Run(tt.sample, func(t *testing.T) {
			sample, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(tt.sample)))
			if err != nil {
				t.Fatal(err)
			}
			c := exact()
			c.Engine, c.MeanOutputTokens = tt.engine, 6
			if tt.change != nil {
				tt.change(&c)
			}
			bubble(t, c, func(r *rig) {
				got := r.post(tt.path, tt.body)
				want, have := frames(t, string(sample), tt.drop), frames(t, got.raw, tt.drop)
				if tt.sample == "35-dynamo-annotations.sse" { // no order among the annotations
					slices.Sort(want)
					slices.Sort(have)
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("status %d, shapes (-sample +got):\n%s", got.status, diff)
				}
			})
		})
	}
}
