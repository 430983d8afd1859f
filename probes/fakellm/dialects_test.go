package fakellm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// said is what an answer says to a client that knows its dialect. A count that the
// dialect does not tell is -1.
type said struct {
	Text, Thought, Tool, Arguments, Finish string
	Prompt, Completion, Cached             int
}

// dialect is a way to ask an engine and to read what it says.
type dialect struct {
	engine, path string
	// body asks for n tokens, behind a prompt of 10; extra are further fields.
	body func(n int, stream bool, extra string) string
	// hear reads the events of a stream, or the one object of an answer in one piece.
	hear func(t *testing.T, events []string) said
	// thinks and calls: there are channels for reasoning and tool calls.
	thinks, calls bool
	// callsWhole: a call comes in one piece.
	callsWhole bool
	mark       string // ends a good stream; empty is the end of the body
	late       bool   // headers come with the first result
	stops      map[string]string
}

func (d dialect) String() string { return d.engine + d.path }

// openaiDialects are the two usual routes of an engine.
func openaiDialects(engine string, completions, chat dialect) []dialect {
	completions.engine, completions.path = engine, "/v1/completions"
	completions.body = func(n int, stream bool, extra string) string {
		return fmt.Sprintf(`{%s"prompt":%q,"temperature":0,"max_tokens":%d,"stream":%v,"stream_options":{"include_usage":true}}`, extra, words(9), n, stream)
	}
	chat.engine, chat.path = engine, "/v1/chat/completions"
	chat.body = func(n int, stream bool, extra string) string {
		return fmt.Sprintf(`{%s"messages":[{"role":"user","content":%q}],"temperature":0,"max_completion_tokens":%d,"stream":%v,"stream_options":{"include_usage":true}}`, extra, words(5), n, stream)
	}
	completions.hear, chat.hear = hearOpenAI, hearOpenAI
	chat.calls = true
	for _, d := range []*dialect{&completions, &chat} {
		if d.mark == "" {
			d.mark = "data: [DONE]\n\n"
		}
	}
	return []dialect{completions, chat}
}

// dialects are all that the newer engines speak.
func dialects() []dialect {
	list := []dialect{
		{engine: LMDeploy, path: "/generate", hear: hearLMDeploy, mark: "data: [DONE]\n\n", body: func(n int, stream bool, extra string) string {
			return fmt.Sprintf(`{%s"prompt":%q,"temperature":0,"max_tokens":%d,"stream":%v}`, extra, words(9), n, stream)
		}},
		{engine: Triton, path: "/v2/models/ensemble/generate_stream", hear: hearTriton, body: func(n int, _ bool, extra string) string {
			return fmt.Sprintf(`{%s"text_input":%q,"temperature":0,"max_tokens":%d,"stream":true,"return_num_input_tokens":true,"return_num_output_tokens":true}`, extra, words(9), n)
		}},
		{engine: Truss, path: "/v1/models/model:predict", hear: hearOpenAI, mark: "data: [DONE]\n\n", body: func(n int, stream bool, extra string) string {
			return fmt.Sprintf(`{%s"prompt":%q,"temperature":0,"max_tokens":%d,"stream":%v}`, extra, words(9), n, stream)
		}},
		{engine: TGI, path: "/generate_stream", hear: hearTGI, stops: map[string]string{"stop": "eos_token"}, body: func(n int, _ bool, extra string) string {
			return fmt.Sprintf(`{%s"inputs":%q,"parameters":{"max_new_tokens":%d,"details":true}}`, extra, words(9), n)
		}},
		{engine: LlamaCPP, path: "/completion", hear: hearLlama, late: true, stops: map[string]string{"length": "limit", "stop": "eos"},
			body: func(n int, stream bool, extra string) string {
				return fmt.Sprintf(`{%s"prompt":%q,"temperature":0,"n_predict":%d,"stream":%v}`, extra, words(9), n, stream)
			}},
		{engine: Ollama, path: "/api/generate", hear: hearOllama, thinks: true, body: func(n int, stream bool, extra string) string {
			return fmt.Sprintf(`{%s"prompt":%q,"options":{"temperature":0,"num_predict":%d},"stream":%v}`, extra, words(5), n, stream)
		}},
		{engine: Ollama, path: "/api/chat", hear: hearOllama, thinks: true, calls: true, callsWhole: true, body: func(n int, stream bool, extra string) string {
			return fmt.Sprintf(`{%s"messages":[{"role":"user","content":%q}],"options":{"temperature":0,"num_predict":%d},"stream":%v}`, extra, words(5), n, stream)
		}},
		{engine: Anthropic, path: "/v1/messages", hear: hearAnthropic, thinks: true, calls: true,
			mark:  "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			stops: map[string]string{"length": "max_tokens", "stop": "end_turn", "tool_calls": "tool_use"},
			body: func(n int, stream bool, extra string) string {
				return fmt.Sprintf(`{%s"messages":[{"role":"user","content":%q}],"temperature":0,"max_tokens":%d,"stream":%v}`, extra, words(5), n, stream)
			}},
		{engine: OpenAIResponses, path: "/v1/responses", hear: hearResponses, thinks: true, calls: true,
			stops: map[string]string{"length": "max_output_tokens", "stop": "completed", "tool_calls": "completed"},
			body: func(n int, stream bool, extra string) string {
				return fmt.Sprintf(`{%s"input":%q,"temperature":0,"max_output_tokens":%d,"stream":%v,"reasoning":{"summary":"auto"}}`, extra, words(5), n, stream)
			}},
	}
	thinks := dialect{thinks: true}
	list = append(list, openaiDialects(LMDeploy, dialect{}, dialect{thinks: true, callsWhole: true})...)
	list = append(list, openaiDialects(TRTLLM, dialect{}, thinks)...)
	list = append(list, openaiDialects(TGI, dialect{mark: "data:[DONE]\n\n"}, dialect{mark: "data:[DONE]\n\n"})...)
	list = append(list, openaiDialects(LlamaCPP, dialect{late: true}, dialect{late: true, thinks: true})...)
	list = append(list, openaiDialects(Ollama, dialect{}, dialect{thinks: true, callsWhole: true})...)
	list = append(list, openaiDialects(Dynamo, dialect{mark: "data:[DONE]\n\n"}, dialect{mark: "data:[DONE]\n\n", thinks: true})...)
	return append(list, openaiDialects(OpenAIResponses, dialect{}, dialect{})[1])
}

// finish is the dialect's word for a reason.
func (d dialect) finish(reason string) string {
	if word, ok := d.stops[reason]; ok {
		return word
	}
	return reason
}

// wholePath is where the same question is answered in one piece.
func (d dialect) wholePath() string { return strings.TrimSuffix(d.path, "_stream") }

// said reads a reply.
func (d dialect) said(t *testing.T, r reply) said {
	t.Helper()
	if r.status != 200 || r.err != nil {
		t.Fatalf("%v: got status %d, error %v: %s", d, r.status, r.err, r.raw)
	}
	if len(r.events) == 0 {
		return d.hear(t, []string{r.raw})
	}
	var events []string
	for _, ev := range r.events {
		if ev.data != "[DONE]" && !strings.HasPrefix(ev.data, ":") {
			events = append(events, ev.data)
		}
	}
	return d.hear(t, events)
}

// each decodes events into a fresh T.
func each[T any](t *testing.T, events []string, hear func(T)) {
	t.Helper()
	for _, data := range events {
		var ev T
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		hear(ev)
	}
}

func unknown() said { return said{Prompt: -1, Completion: -1, Cached: -1} }

func hearOpenAI(t *testing.T, events []string) said {
	type details struct {
		Cached *int `json:"cached_tokens"`
	}
	out := unknown()
	each(t, events, func(c struct {
		chunk
		Usage *struct {
			Prompt     int      `json:"prompt_tokens"`
			Completion int      `json:"completion_tokens"`
			Total      int      `json:"total_tokens"`
			Details    *details `json:"prompt_tokens_details"`
		}
	}) {
		for _, choice := range c.Choices {
			for _, d := range []struct{ content, reasoning string }{
				{choice.Delta.Content, choice.Delta.Reasoning + choice.Delta.ReasoningContent},
				{choice.Message.Content, choice.Message.Reasoning + choice.Message.ReasoningContent},
			} {
				out.Text += d.content
				out.Thought += d.reasoning
			}
			out.Text += choice.Text
			for _, call := range append(choice.Delta.ToolCalls, choice.Message.ToolCalls...) {
				out.Tool += call.Function.Name
				out.Arguments += call.Function.Arguments
			}
			out.Finish += choice.FinishReason
		}
		if u := c.Usage; u != nil {
			if u.Total != u.Prompt+u.Completion {
				t.Errorf("usage does not add up: %+v", u)
			}
			out.Prompt, out.Completion = u.Prompt, u.Completion
			if u.Details != nil && u.Details.Cached != nil {
				out.Cached = *u.Details.Cached
			}
		}
	})
	return out
}

func hearLMDeploy(t *testing.T, events []string) said {
	out, ids := unknown(), 0
	each(t, events, func(ev nativeEvent) {
		out.Text += ev.Text
		out.Prompt, out.Completion = ev.Meta.PromptTokens, ev.Meta.CompletionTokens
		ids += len(ev.OutputIDs)
		if ev.Meta.FinishReason != nil {
			out.Finish += ev.Meta.FinishReason.Type
		}
	})
	if out.Finish == "length" && ids != out.Completion {
		t.Errorf("got %d ids, want %d", ids, out.Completion)
	}
	return out
}

func hearTriton(t *testing.T, events []string) said {
	out := unknown()
	out.Completion = 0
	each(t, events, func(ev struct {
		Text   string `json:"text_output"`
		Input  int    `json:"num_input_tokens"`
		Output int    `json:"num_output_tokens"`
	}) {
		out.Text += ev.Text
		out.Prompt = ev.Input
		out.Completion += ev.Output
	})
	return out
}

func hearTGI(t *testing.T, events []string) said {
	out, index := unknown(), 0
	each(t, events, func(ev struct {
		Index int
		Token *struct {
			Text    string
			Special bool
		}
		GeneratedText *string `json:"generated_text"`
		Details       *struct {
			FinishReason string `json:"finish_reason"`
			Generated    int    `json:"generated_tokens"`
			Input        *int   `json:"input_length"`
			Tokens       []any
		}
	}) {
		if ev.Token != nil {
			if index++; ev.Index != index {
				t.Errorf("got index %d, want %d", ev.Index, index)
			}
			if !ev.Token.Special {
				out.Text += ev.Token.Text
			}
		}
		if ev.GeneratedText != nil {
			if ev.Token != nil && *ev.GeneratedText != out.Text {
				t.Errorf("got generated text %q, want %q", *ev.GeneratedText, out.Text)
			}
			out.Text = *ev.GeneratedText
		}
		if d := ev.Details; d != nil {
			out.Finish, out.Completion = d.FinishReason, d.Generated
			if d.Input != nil {
				out.Prompt = *d.Input
			} else {
				out.Prompt = 10 // told in a header
				if len(d.Tokens) != d.Generated {
					t.Errorf("got %d tokens, want %d", len(d.Tokens), d.Generated)
				}
			}
		}
	})
	return out
}

func hearLlama(t *testing.T, events []string) said {
	out := unknown()
	each(t, events, func(ev struct {
		Content   string
		Stop      bool
		StopType  string `json:"stop_type"`
		Predicted int    `json:"tokens_predicted"`
		Evaluated int    `json:"tokens_evaluated"`
		Timings   struct {
			Cache     int `json:"cache_n"`
			Prompt    int `json:"prompt_n"`
			Predicted int `json:"predicted_n"`
		}
	}) {
		out.Text += ev.Content
		if !ev.Stop {
			return
		}
		out.Finish, out.Prompt, out.Completion, out.Cached = ev.StopType, ev.Evaluated, ev.Predicted, ev.Timings.Cache
		if ev.Timings.Predicted != ev.Predicted || ev.Timings.Cache+ev.Timings.Prompt != ev.Evaluated {
			t.Errorf("timings do not add up: %+v", ev)
		}
	})
	return out
}

func hearOllama(t *testing.T, events []string) said {
	out := unknown()
	each(t, events, func(ev struct {
		Response, Thinking string
		Message            struct {
			Content, Thinking string
			ToolCalls         []struct {
				Function struct {
					Name      string
					Arguments map[string]string
				}
			} `json:"tool_calls"`
		}
		Done       bool
		DoneReason string `json:"done_reason"`
		Prompt     *int   `json:"prompt_eval_count"`
		Eval       int    `json:"eval_count"`
		Total      int64  `json:"total_duration"`
		Load       int64  `json:"load_duration"`
		PromptTime int64  `json:"prompt_eval_duration"`
		EvalTime   int64  `json:"eval_duration"`
	}) {
		out.Text += ev.Response + ev.Message.Content
		out.Thought += ev.Thinking + ev.Message.Thinking
		for _, call := range ev.Message.ToolCalls {
			out.Tool += call.Function.Name
			out.Arguments += fmt.Sprintf(`{"query": %q}`, call.Function.Arguments["query"])
		}
		if !ev.Done {
			return
		}
		out.Finish, out.Completion = ev.DoneReason, ev.Eval
		if out.Tool != "" && out.Finish == "stop" {
			out.Finish = "tool_calls" // has no word of its own
		}
		if ev.Prompt != nil {
			out.Prompt = *ev.Prompt
		}
		if ev.Total != ev.Load+ev.PromptTime+ev.EvalTime {
			t.Errorf("durations do not add up: %+v", ev)
		}
	})
	return out
}

func hearAnthropic(t *testing.T, events []string) said {
	type usage struct {
		Input   *int `json:"input_tokens"`
		Created int  `json:"cache_creation_input_tokens"`
		Read    int  `json:"cache_read_input_tokens"`
		Output  int  `json:"output_tokens"`
	}
	type block struct {
		Type, Text, Thinking, Name string
		PartialJSON                string `json:"partial_json"`
		StopReason                 string `json:"stop_reason"`
		Input                      json.RawMessage
	}
	out, open := unknown(), 0
	count := func(u *usage) {
		if u == nil {
			return
		}
		if u.Input != nil {
			out.Prompt, out.Cached = *u.Input+u.Created+u.Read, u.Read
		}
		out.Completion = u.Output
	}
	each(t, events, func(ev struct {
		block
		Message      *struct{ Usage *usage }
		ContentBlock block `json:"content_block"`
		Delta        block
		Content      []block
		Usage        *usage
	}) {
		if ev.Message != nil {
			count(ev.Message.Usage)
		}
		count(ev.Usage)
		open += map[string]int{"content_block_start": 1, "content_block_stop": -1}[ev.Type]
		if open < 0 || open > 1 {
			t.Errorf("event %+v: got %d open blocks", ev, open)
		}
		for _, b := range append(ev.Content, ev.ContentBlock, ev.Delta) {
			out.Text += b.Text
			out.Thought += b.Thinking
			out.Tool += b.Name
			out.Arguments += b.PartialJSON
			if input := string(b.Input); b.Type == "tool_use" && input != "{}" {
				out.Arguments += input
			}
			out.Finish += b.StopReason
		}
		if ev.Type == "message" {
			out.Finish = ev.StopReason
		}
	})
	if open != 0 {
		t.Errorf("got %d blocks left open", open)
	}
	return out
}

func hearResponses(t *testing.T, events []string) said {
	type response struct {
		Object, Status string
		Details        struct{ Reason string } `json:"incomplete_details"`
		Output         []struct {
			Type, Name, Arguments string
			Content, Summary      []struct{ Text string }
		}
		Usage struct {
			Input   int `json:"input_tokens"`
			Output  int `json:"output_tokens"`
			Total   int `json:"total_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
		}
	}
	out, streamed, sequence := unknown(), said{}, 0
	finish := func(r response) {
		out.Finish, out.Prompt, out.Completion, out.Cached = r.Status, r.Usage.Input, r.Usage.Output, r.Usage.Details.Cached
		if r.Status == "incomplete" {
			out.Finish = r.Details.Reason
		}
		if r.Usage.Total != r.Usage.Input+r.Usage.Output {
			t.Errorf("usage does not add up: %+v", r.Usage)
		}
		for _, item := range r.Output {
			for _, part := range item.Content {
				out.Text += part.Text
			}
			for _, part := range item.Summary {
				out.Thought += part.Text
			}
			out.Tool += item.Name
			out.Arguments += item.Arguments
		}
	}
	each(t, events, func(ev struct {
		response
		Type     string
		Sequence *int `json:"sequence_number"`
		Delta    string
		Response response
	}) {
		if ev.Object == "response" {
			finish(ev.response)
			streamed = out
			return
		}
		if ev.Sequence == nil || *ev.Sequence != sequence {
			t.Errorf("event %+v: want number %d", ev, sequence)
		}
		sequence++
		switch ev.Type {
		case "response.output_text.delta":
			streamed.Text += ev.Delta
		case "response.reasoning_summary_text.delta":
			streamed.Thought += ev.Delta
		case "response.function_call_arguments.delta":
			streamed.Arguments += ev.Delta
		case "response.completed", "response.incomplete":
			finish(ev.Response)
		}
	})
	if streamed.Text != out.Text || streamed.Thought != out.Thought || streamed.Arguments != out.Arguments {
		t.Errorf("deltas %+v do not add up to the end %+v", streamed, out)
	}
	return out
}
