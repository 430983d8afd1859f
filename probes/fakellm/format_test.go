package fakellm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shape is a JSON value with its values replaced by their types, keys sorted, the
// dropped ones left out: "{choices:[{index:number …}]}".
func shape(v any, drop ...string) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(drop, k) {
				parts = append(parts, k+":"+shape(v[k], drop...))
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0], drop...) + "]"
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}

// shapes lists the shapes of a stream's events, repetitions left out.
func shapes(t *testing.T, stream string, drop ...string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		s := data
		if data != "[DONE]" {
			var v any
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				t.Fatalf("event %q: %v", data, err)
			}
			s = shape(v, drop...)
		}
		if len(list) == 0 || list[len(list)-1] != s {
			list = append(list, s)
		}
	}
	return list
}

func TestStreamsHaveTheShapesOfRealOnes(t *testing.T) {
	long := generateBody(words(40000), 4)
	chatAll := strings.Replace(chatBody(words(40), 8), `"stream":true`, `"stream":true,"return_cached_tokens_details":true`, 1)
	natural := strings.Replace(chatAll, `"ignore_eos":true,`, `"ignore_eos":false,`, 1)
	natural = strings.Replace(natural, `"max_completion_tokens":8`, `"max_completion_tokens":4000`, 1)
	continuous := strings.Replace(chatBody(words(9), 8), `"include_usage":true`, `"include_usage":true,"continuous_usage_stats":true`, 1)
	midStream := Fault{Kind: ErrorMidStream, AfterTokens: 2}
	for _, tt := range []struct {
		sample string
		engine string
		path   string
		body   string
		change func(*Config)
		drop   []string // keys that need a server flag which is not simulated
	}{
		{"01-sglang-native", SGLang, "/generate", generateBody(words(9), 5), nil, nil},
		{"02-sglang-native-spec", SGLang, "/generate", generateBody(words(9), 12),
			func(c *Config) { c.Speculation = Speculation{3, 2.5} }, []string{"cached_tokens_details"}},
		{"05-sglang-native-error-in-200", SGLang, "/generate", long, nil, nil},
		{"07-sglang-oai-chat", SGLang, "/v1/chat/completions", natural, nil, nil},
		{"08-sglang-oai-error-then-usage", SGLang, "/v1/chat/completions", chatBody("hi", 8),
			func(c *Config) { c.Faults = []Fault{midStream} }, nil},
		{"09-vllm-completions-spec", VLLM, "/v1/completions", completionBody(words(9), 6),
			func(c *Config) { c.Speculation = Speculation{3, 2.5} }, []string{"metrics"}},
		{"10-vllm-chat-reasoning", VLLM, "/v1/chat/completions", chatBody(words(9), 12),
			func(c *Config) { c.ReasoningTokens = 7 }, nil},
		{"13-vllm-continuous-usage", VLLM, "/v1/chat/completions", continuous,
			func(c *Config) { c.CacheReport = false }, []string{"stop_reason", "token_ids"}},
		{"14-vllm-midstream-error", VLLM, "/v1/chat/completions", chatBody(words(9), 8),
			func(c *Config) { c.Faults = []Fault{midStream} }, nil},
	} {
		t.Run(tt.sample, func(t *testing.T) {
			sample, err := os.ReadFile(filepath.Join("testdata", tt.sample+".sse"))
			if err != nil {
				t.Fatal(err)
			}
			c := exact()
			c.Engine, c.CacheReport, c.Cache.Blocks, c.MeanOutputTokens = tt.engine, true, 1000, 20
			if tt.change != nil {
				tt.change(&c)
			}
			bubble(t, c, func(r *rig) {
				r.post(tt.path, tt.body) // so that the prefix is cached
				got := r.post(tt.path, tt.body)
				if got.status != http.StatusOK {
					t.Fatalf("got status %d: %s", got.status, got.raw)
				}
				if diff := cmp.Diff(shapes(t, string(sample), tt.drop...), shapes(t, got.raw, tt.drop...)); diff != "" {
					t.Errorf("shapes (-sample +got):\n%s", diff)
				}
				if ct := got.header.Get("Content-Type"); ct != "text/event-stream; charset=utf-8" {
					t.Errorf("content type: got %q", ct)
				}
			})
		})
	}
}

// chunk is what a client reads of an OpenAI stream or answer.
type chunk struct {
	ID, Object, Model string
	Choices           []struct {
		Text           string
		Delta, Message struct {
			Role             string
			Content          string
			Reasoning        string
			ReasoningContent string `json:"reasoning_content"`
			ToolCalls        []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Reasoning  int `json:"reasoning_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Output struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
}

// assembled is an answer put together from its stream.
type assembled struct {
	Role, Text, Reasoning, Tool, Arguments, Finish string
	Prompt, Completion, Total, ReasoningTokens     int
}

func assemble(t *testing.T, r reply) assembled {
	t.Helper()
	var a assembled
	add := func(c chunk) {
		for _, choice := range c.Choices {
			for _, d := range []struct {
				role, content, reasoning string
			}{
				{choice.Delta.Role, choice.Delta.Content, choice.Delta.Reasoning + choice.Delta.ReasoningContent},
				{choice.Message.Role, choice.Message.Content, choice.Message.Reasoning + choice.Message.ReasoningContent},
			} {
				a.Role += d.role
				a.Text += d.content
				a.Reasoning += d.reasoning
			}
			a.Text += choice.Text
			for _, call := range append(choice.Delta.ToolCalls, choice.Message.ToolCalls...) {
				a.Tool += call.Function.Name
				a.Arguments += call.Function.Arguments
			}
			a.Finish += choice.FinishReason
		}
		if u := c.Usage; u != nil {
			a.Prompt, a.Completion, a.Total, a.ReasoningTokens = u.Prompt, u.Completion, u.Total, u.Reasoning+u.Output.Reasoning
		}
	}
	if len(r.events) == 0 {
		var c chunk
		if err := json.Unmarshal([]byte(r.raw), &c); err != nil {
			t.Fatalf("answer %q: %v", r.raw, err)
		}
		add(c)
		return a
	}
	for _, ev := range r.events {
		var c chunk
		if ev.data == "[DONE]" {
			break
		}
		if err := json.Unmarshal([]byte(ev.data), &c); err != nil {
			t.Fatalf("event %q: %v", ev.data, err)
		}
		add(c)
	}
	return a
}

// A streamed answer and the same one in one piece must say the same.
func TestStreamedAndWholeAnswersAgree(t *testing.T) {
	tools := `"tools":[{"type":"function","function":{"name":"look_up"}}],`
	natural := func(body string) string {
		return strings.NewReplacer(`"ignore_eos":true`, `"ignore_eos":false`, `_tokens":20`, `_tokens":4000`).Replace(body)
	}
	withTools := func(body string) string { return strings.Replace(body, "{", "{"+tools, 1) }
	for name, tt := range map[string]struct {
		path, body string
		speculate  bool
		reasoning  int
	}{
		"completion":         {"/v1/completions", completionBody(words(9), 20), false, 0},
		"completion natural": {"/v1/completions", natural(completionBody(words(9), 20)), true, 0},
		"chat":               {"/v1/chat/completions", chatBody(words(9), 20), true, 0},
		"chat reasoning":     {"/v1/chat/completions", chatBody(words(9), 20), true, 9},
		"only reasoning":     {"/v1/chat/completions", chatBody(words(9), 20), false, 50},
		"tool":               {"/v1/chat/completions", natural(withTools(chatBody(words(9), 20))), false, 0},
		"tool reasoning":     {"/v1/chat/completions", natural(withTools(chatBody(words(9), 20))), true, 5},
		"tool cut":           {"/v1/chat/completions", withTools(chatBody(words(9), 20)), true, 5},
	} {
		for _, engine := range []string{SGLang, VLLM} {
			c := exact()
			c.Engine, c.ReasoningTokens, c.MeanOutputTokens = engine, tt.reasoning, 60
			if tt.speculate {
				c.Speculation = Speculation{4, 3}
			}
			bubble(t, c, func(r *rig) {
				streamed := r.post(tt.path, tt.body)
				whole := r.post(tt.path, strings.Replace(tt.body, `"stream":true`, `"stream":false`, 1))
				a, b := assemble(t, streamed), assemble(t, whole)
				if diff := cmp.Diff(a, b); diff != "" {
					t.Errorf("%s %s: (-streamed +whole):\n%s", name, engine, diff)
				}
				if a.Total != a.Prompt+a.Completion || a.ReasoningTokens != min(tt.reasoning, a.Completion) {
					t.Errorf("%s %s: usage does not add up: %+v", name, engine, a)
				}
				if got := whole.header.Get("Content-Type"); got != "application/json" {
					t.Errorf("%s %s: content type: got %q", name, engine, got)
				}
				checkLength(t, name+" "+engine, a)
			})
		}
	}
}

// checkLength compares an answer's text with its token count and finish reason.
func checkLength(t *testing.T, name string, a assembled) {
	t.Helper()
	want := a.Completion
	switch a.Finish {
	case "length":
		if a.Completion != 20 {
			t.Errorf("%s: got %d tokens, want 20", name, a.Completion)
		}
	case "stop", "tool_calls":
		want-- // end of sequence
	default:
		t.Errorf("%s: got finish reason %q", name, a.Finish)
	}
	if a.Tool == "" {
		if got := CountTokens(a.Text) + CountTokens(a.Reasoning); got != want {
			t.Errorf("%s: got %d tokens of text, want %d", name, got, want)
		}
		return
	}
	var arguments struct{ Query string }
	err := json.Unmarshal([]byte(a.Arguments), &arguments)
	if cut := a.Finish == "length"; cut != (err != nil) {
		t.Errorf("%s: arguments %q: %v", name, a.Arguments, err)
	} else if got := CountTokens(arguments.Query) + CountTokens(a.Reasoning) + 1; !cut && got != want {
		t.Errorf("%s: got %d tokens, want %d", name, got, want)
	}
}

func TestNativeStreamIsCumulative(t *testing.T) {
	c := exact()
	c.Speculation = Speculation{3, 2.5}
	bubble(t, c, func(r *rig) {
		body := strings.Replace(generateBody(words(9), 40), "{", `{"rid":"abc",`, 1)
		got := r.post("/generate", body)
		text, n := "", 0
		for _, ev := range got.events[:len(got.events)-1] {
			var e nativeEvent
			if err := json.Unmarshal([]byte(ev.data), &e); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(e.Text, text) || e.Meta.CompletionTokens <= n || CountTokens(e.Text) != e.Meta.CompletionTokens || len(e.OutputIDs) != e.Meta.CompletionTokens {
				t.Fatalf("event %q after %d tokens %q", ev.data, n, text)
			}
			text, n = e.Text, e.Meta.CompletionTokens
		}
		last := decodeLast(t, got)
		s := r.engine.Stats()
		if last.Meta.ID != "abc" || last.Meta.FinishReason.Type != "length" || last.Meta.FinishReason.Length != 40 {
			t.Errorf("last event: got %+v", last.Meta)
		}
		if last.Meta.E2E != got.end.Seconds() {
			t.Errorf("e2e_latency: got %v, want %v", last.Meta.E2E, got.end.Seconds())
		}
		if last.Meta.AcceptLength != 40/float64(s.VerifySteps) || int64(last.Meta.VerifyCt) != s.VerifySteps {
			t.Errorf("speculation: got length %v of %d steps, want 40 tokens over %d", last.Meta.AcceptLength, last.Meta.VerifyCt, s.VerifySteps)
		}
		var histogram int64
		for accepted, steps := range last.Meta.Histogram {
			histogram += int64(accepted * steps)
		}
		if histogram != s.AcceptedTokens {
			t.Errorf("histogram: got %d accepted, want %d", histogram, s.AcceptedTokens)
		}
		whole := r.post("/generate", strings.Replace(body, `"stream":true`, `"stream":false`, 1))
		var e nativeEvent
		if err := json.Unmarshal([]byte(whole.raw), &e); err != nil {
			t.Fatal(err)
		}
		if e.Text != last.Text || e.Meta.CompletionTokens != 40 {
			t.Errorf("not streamed: got %q, want %q", e.Text, last.Text)
		}
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	tooLong := `The input (10 tokens) is longer than the model's context length (8 tokens).`
	tooMuch := `Requested token count exceeds the model's maximum context length of 8 tokens. You requested a total of 9 tokens: 3 tokens from the input messages and 6 tokens for the completion.`
	flat := func(kind, message string) string {
		return fmt.Sprintf(`{"object":"error","message":%q,"type":%q,"param":null,"code":400}`, message, kind)
	}
	for _, tt := range []struct {
		engine, path, body string
		status             int
		want               string
	}{
		{SGLang, "/v1/completions", completionBody(words(9), 1), 400, flat("BadRequestError", tooLong)},
		{VLLM, "/v1/completions", completionBody(words(2), 6), 400, `{"error":{"message":"` + tooMuch + `","type":"BadRequestError","param":null,"code":400}}`},
		{VLLM, "/v1/completions", `{"model":"nope","prompt":"x"}`, 404, "{\"error\":{\"message\":\"The model `nope` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		{SGLang, "/v1/completions", `{"prompt":"x"`, 400, flat("BadRequestError", "JSON decode error: unexpected end of JSON input")},
		{SGLang, "/v1/completions", `{"max_tokens":1}`, 400, flat("BadRequestError", "field required: prompt")},
		{SGLang, "/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, flat("BadRequestError", "max_tokens must be at least 1, got 0.")},
		{SGLang, "/v1/completions", `{"prompt":"x","max_tokens":2,"temperature":-1}`, 400, flat("BadRequestError", "temperature must be non-negative, got -1.")},
		{SGLang, "/v1/completions", `{"prompt":["x","y"],"max_tokens":2}`, 400, flat("BadRequestError", "prompt must be a string, a list of token ids, or a list of one of these")},
		{SGLang, "/v1/completions", `{"prompt":[5,999999],"max_tokens":2}`, 400, flat("BadRequestError", "prompt[1]: token id 999999 is out of vocabulary")},
		{SGLang, "/v1/chat/completions", `{"messages":[]}`, 400, flat("BadRequestError", "messages must not be empty")},
		{SGLang, "/v1/chat/completions", `{"messages":[{"content":[{"type":"video"}]}]}`, 400, flat("BadRequestError", `messages[0].content: part type "video" is not supported`)},
		{SGLang, "/generate", `{"text":"a b c d e f g h i"}`, 400, `{"error":{"message":"` + tooLong + `"}}`},
		{SGLang, "/generate", `{"text":"a b c d e f g h i","stream":true}`, 200, `data: {"error":{"message":"` + tooLong + `","type":"invalid_request_error","code":400,"retryable":false}}` + "\n\ndata: [DONE]\n\n"},
		{SGLang, "/v1/embeddings", `{}`, 404, `{"detail":"Not Found"}`},
		{VLLM, "/generate", `{}`, 404, `{"detail":"Not Found"}`},
		{VLLM, "/metrics", `{}`, 405, `{"detail":"Method Not Allowed"}`},
		{VLLM, "/reset_prefix_cache", ``, 404, `{"detail":"Not Found"}`},
	} {
		c := exact()
		c.Engine, c.ContextLength = tt.engine, 8
		bubble(t, c, func(r *rig) {
			got := r.post(tt.path, tt.body)
			if got.status != tt.status || got.raw != tt.want {
				t.Errorf("%s%s %s:\n got %d %s\nwant %d %s", tt.engine, tt.path, tt.body, got.status, got.raw, tt.status, tt.want)
			}
			if s := r.engine.Stats(); s.Refused != s.Received {
				t.Errorf("%s%s %s: got %d of %d refused", tt.engine, tt.path, tt.body, s.Refused, s.Received)
			}
		})
	}
}

func TestContentTypeIsChecked(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		resp, err := r.client.Post("http://engine/v1/completions", "text/plain", strings.NewReader(completionBody("x", 1)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("got status %d, want 400", resp.StatusCode)
		}
	})
}

func TestKeyIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		engine string
		open   []string // paths that need no key
		closed []string
	}{
		{SGLang, []string{"/health", "/metrics"}, []string{"/v1/models", "/server_info", "/model_info"}},
		{VLLM, []string{"/health", "/metrics", "/version"}, []string{"/v1/models"}},
	} {
		c := exact()
		c.Engine, c.APIKey = tt.engine, "k-123"
		bubble(t, c, func(r *rig) {
			for _, path := range tt.open {
				if got := r.get(path); got.status != 200 {
					t.Errorf("%s%s: got status %d, want 200", tt.engine, path, got.status)
				}
			}
			for _, path := range tt.closed {
				if got := r.get(path); got.status != 401 || got.raw != `{"error":"Unauthorized"}` {
					t.Errorf("%s%s: got %d %s, want 401", tt.engine, path, got.status, got.raw)
				}
			}
			for key, want := range map[string]int{"Bearer k-123": 200, "Bearer k-124": 401, "k-123": 401} {
				got := r.send(context.Background(), "/v1/completions", completionBody(words(9), 1), http.Header{"Authorization": {key}})
				if got.status != want {
					t.Errorf("%s, key %q: got status %d, want %d", tt.engine, key, got.status, want)
				}
			}
		})
	}
}

func TestPromptsInOtherForms(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		want       int // prompt tokens
	}{
		{"/v1/completions", `{"prompt":"a b c","max_tokens":1}`, 4},
		{"/v1/completions", `{"prompt":["a b c"],"max_tokens":1}`, 4},
		{"/v1/completions", `{"prompt":[1,2,3],"max_tokens":1}`, 3},
		{"/v1/completions", `{"prompt":[[1,2,3]],"max_tokens":1}`, 3},
		{"/v1/completions", `{"prompt":"a b c","max_tokens":1,"n":3}`, 4},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a b c"}],"max_tokens":1}`, 3 + ChatTemplateTokens},
		{"/v1/chat/completions", `{"messages":[{"role":"system","content":"a b c"},{"role":"user","content":"d"}],"max_tokens":1}`, 4 + ChatTemplateTokens + ChatTurnTokens},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"a b"}]}],"max_tokens":1}`, 2 + ChatTemplateTokens + ImageTokens},
	} {
		bubble(t, exact(), func(r *rig) {
			got := assemble(t, r.post(tt.path, tt.body))
			if got.Prompt != tt.want || got.Completion != 1 {
				t.Errorf("%s: got %d prompt tokens and %d output tokens, want %d, 1", tt.body, got.Prompt, got.Completion, tt.want)
			}
		})
	}
}

func TestNothingComesEarlyOnARealPort(t *testing.T) {
	// All that can be said of a real clock without tolerances: nothing comes early,
	// nothing is lost.
	c := exact()
	c.Script = &Script{TTFT: ms(5), ITL: time.Millisecond}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	url, stop := serve(t, e)
	defer stop()
	resp, err := http.Post(url+"/generate", "application/json", strings.NewReader(generateBody(words(9), 20)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got reply
	got.read(resp.Body, time.Now())
	sent := e.Stats().Requests[0].Sent
	if len(sent) != 20 || len(got.times()) != 20 {
		t.Fatalf("got %d events sent, %d received, want 20", len(sent), len(got.times()))
	}
	for i, s := range sent {
		if planned := time.Duration(5+i) * time.Millisecond; s.At < planned {
			t.Errorf("event %d: sent at %v, before its time %v", i, s.At, planned)
		}
	}
}
