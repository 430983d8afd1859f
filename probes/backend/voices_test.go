package backend

import (
	"encoding/json"
	"fmt"
	"strings"
)

// voice is how an engine says things in one dialect: the events of scripted answers. A
// prompt has 7 tokens, 3 of them cached where the dialect can say so.
type voice struct {
	kind string // content type of a stream
	open string // what comes before the first token
	// token says a piece of the answer: all is the text so far, n the tokens so far.
	token func(piece, all string, n int) string
	// think and call say a piece of reasoning and of a tool call; nil: the dialect has
	// no channel for it.
	think, call func(piece string, n int) string
	// close says the end of a text of n tokens; with drafts, of 3 verify steps.
	close func(text string, n int, drafts bool) string
	whole func(text string, n int) string
	// failure is an error inside a stream, refusal the body of a status 503.
	failure, refusal string

	own      bool // every token has an event of its own
	running  bool // events count the tokens so far
	ahead    bool // those of a burst count the whole burst
	counts   bool // the end counts all tokens
	cached   bool // and the cached ones
	mute     bool // the end is the end of the body
	nameless bool // and there is no finish reason
	extra    int  // tokens that the end itself adds
	drafts   bool // the tokens per verify step can be told
	timed    bool // the server's own times are known
	finish   string
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

func data(format string, args ...any) string { return "data: " + fmt.Sprintf(format, args...) + "\n\n" }

const (
	nestedError = `{"error":{"message":"engine shut down","type":"server_error","code":503}}`
	flatError   = `{"object":"error","message":"engine shut down","type":"server_error","param":null,"code":503}`
	plainError  = `{"error":"engine shut down"}`
)

// openAIVoice is one of the two OpenAI routes.
func openAIVoice(chat, running bool) voice {
	usage := func(n int) string {
		return fmt.Sprintf(`,"usage":{"prompt_tokens":7,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":3}}`, n)
	}
	more := func(n int) string {
		if running {
			return usage(n)
		}
		return ""
	}
	v := voice{
		kind: "text/event-stream", running: running, counts: true, cached: true, finish: "length",
		failure: data(nestedError), refusal: nestedError,
		token: func(piece, _ string, n int) string {
			return data(`{"choices":[{"index":0,"text":%s,"finish_reason":null}]%s}`, quote(piece), more(n))
		},
		close: func(_ string, n int, _ bool) string {
			return data(`{"choices":[{"index":0,"text":"","finish_reason":"length"}]%s}`, more(n)) + data(`{"choices":[]%s}`, usage(n)) + data("[DONE]")
		},
		whole: func(text string, n int) string {
			return fmt.Sprintf(`{"choices":[{"index":0,"text":%s,"finish_reason":"length"}]%s}`, quote(text), usage(n))
		},
	}
	if !chat {
		return v
	}
	delta := func(fields string, n int) string {
		return data(`{"choices":[{"index":0,"delta":{%s},"finish_reason":null}]%s}`, fields, more(n))
	}
	v.open = delta(`"role":"assistant","content":""`, 0)
	v.token = func(piece, _ string, n int) string { return delta(`"content":`+quote(piece), n) }
	v.think = func(piece string, n int) string { return delta(`"reasoning_content":`+quote(piece), n) }
	v.call = func(piece string, n int) string {
		return delta(`"tool_calls":[{"index":0,"function":{"arguments":`+quote(piece)+`}}]`, n)
	}
	v.close = func(_ string, n int, _ bool) string {
		return data(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]%s}`, more(n)) + data(`{"choices":[]%s}`, usage(n)) + data("[DONE]")
	}
	v.whole = func(text string, n int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"length"}]%s}`, quote(text), usage(n))
	}
	return v
}

// flat has the errors of SGLang's, LMDeploy's and TensorRT-LLM's OpenAI routes.
func flat(v voice) voice {
	v.refusal = flatError
	return v
}

// drafting adds what vLLM says of speculation.
func drafting(v voice) voice {
	v.drafts = true
	end := v.close
	v.close = func(text string, n int, drafts bool) string {
		if !drafts {
			return end(text, n, false)
		}
		return strings.Replace(end(text, n, false), `{"choices":[],`, `{"choices":[],"metrics":{"speculative_decoding":{"mean_acceptance_length":2.0}},`, 1)
	}
	return v
}

// decoding adds what trtllm-serve says of it.
func decoding(v voice) voice {
	v.drafts = true
	end := v.close
	v.close = func(text string, n int, drafts bool) string {
		length := "1.0"
		if drafts {
			length = "2.0"
		}
		return strings.Replace(end(text, n, false), `"finish_reason":"length"`, `"finish_reason":"length","avg_decoded_tokens_per_iter":`+length, 1)
	}
	return v
}

func nativeVoice() voice {
	event := func(text string, n int, finish, more string) string {
		return fmt.Sprintf(`{"text":%s,"meta_info":{"finish_reason":%s,"prompt_tokens":7,"completion_tokens":%d,"cached_tokens":3%s}}`, quote(text), finish, n, more)
	}
	const length = `{"type":"length","length":64}`
	return voice{
		kind: "text/event-stream", running: true, counts: true, cached: true, drafts: true, finish: "length",
		failure: data(nestedError), refusal: flatError,
		token: func(_, text string, n int) string {
			return data("%s", event(text, n, "null", ""))
		},
		close: func(text string, n int, drafts bool) string {
			more := ""
			if drafts {
				more = `,"spec_verify_ct":3`
			}
			return data("%s", event(text, n, length, more)) + data("[DONE]")
		},
		whole: func(text string, n int) string { return event(text, n, length, "") },
	}
}

func trussVoice() voice {
	v := openAIVoice(false, false)
	v.counts, v.cached = false, false
	v.close = func(string, int, bool) string {
		return data(`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`) + data("[DONE]")
	}
	v.whole = func(text string, _ int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"text":%s,"finish_reason":"length"}]}`, quote(text))
	}
	return v
}

// dynamoVoice says errors and annotations by named events without data.
func dynamoVoice() voice {
	v := openAIVoice(true, false)
	v.open = "event: request_id\n: \"8a6f\"\n\n" + v.open
	v.failure = "event: error\n: \"engine shut down\"\n\n"
	return v
}

func tritonVoice() voice {
	event := func(text string) string {
		return fmt.Sprintf(`{"model_name":"ensemble","text_output":%s}`, quote(text))
	}
	return voice{
		kind: "text/event-stream; charset=utf-8", mute: true, nameless: true,
		failure: data(plainError), refusal: plainError,
		token: func(piece, _ string, _ int) string { return data("%s", event(piece)) },
		close: func(string, int, bool) string { return data("%s", event("")) },
		whole: func(text string, _ int) string { return event(text) },
	}
}

// tgiVoice ends an answer by the token for the end, which is counted and not printed.
func tgiVoice() voice {
	event := func(text string, special bool, n int, more string) string {
		return fmt.Sprintf(`data:{"index":%d,"token":{"id":9,"text":%s,"special":%v},%s}`+"\n\n", n, quote(text), special, more)
	}
	details := func(n int) string {
		return fmt.Sprintf(`"details":{"finish_reason":"eos_token","generated_tokens":%d,"input_length":7}`, n)
	}
	return voice{
		kind: "text/event-stream", own: true, running: true, counts: true, mute: true, extra: 1, finish: "eos_token",
		failure: `data:{"error":"engine shut down","error_type":"generation"}` + "\n\n", refusal: `{"error":"engine shut down","error_type":"overloaded"}`,
		token: func(piece, _ string, n int) string {
			return event(piece, false, n, `"generated_text":null,"details":null`)
		},
		close: func(_ string, n int, _ bool) string {
			return event("</s>", true, n+1, `"generated_text":"whole",`+details(n+1))
		},
		whole: func(text string, n int) string {
			return fmt.Sprintf(`{"generated_text":%s,%s}`, quote(text), details(n+1))
		},
	}
}

func llamaCppVoice() voice {
	timings := func(n int, drafts bool) string {
		more := ""
		if drafts {
			more = `,"draft_n":8,"draft_n_accepted":3`
		}
		return fmt.Sprintf(`"timings":{"cache_n":3,"prompt_n":4,"prompt_ms":95.5,"predicted_n":%d,"predicted_ms":80.25%s}`, n, more)
	}
	event := func(text string, n int, more string) string {
		return fmt.Sprintf(`{"index":0,"content":%s,"tokens_predicted":%d,"tokens_evaluated":7,%s}`, quote(text), n, more)
	}
	return voice{
		kind: "text/event-stream", own: true, running: true, ahead: true, counts: true, cached: true, mute: true, drafts: true, timed: true, finish: "limit",
		open:    data("%s", event("", 48, `"stop":false,"prompt_progress":{"total":7,"cache":3,"processed":7,"time_ms":9}`)),
		failure: data(nestedError), refusal: nestedError,
		token: func(piece, _ string, n int) string { return data("%s", event(piece, n, `"stop":false`)) },
		close: func(text string, n int, drafts bool) string {
			return data("%s", event("", n, `"stop":true,"stop_type":"limit",`+timings(n, drafts)))
		},
		whole: func(text string, n int) string {
			return event(text, n, `"stop":true,"stop_type":"limit",`+timings(n, false))
		},
	}
}

func ollamaVoice() voice {
	end := func(n int) string {
		return fmt.Sprintf(`"done":true,"done_reason":"length","prompt_eval_count":7,"prompt_eval_duration":95500000,"eval_count":%d,"eval_duration":80250000`, n)
	}
	message := func(fields, more string) string {
		return fmt.Sprintf(`{"model":"demo-8b","message":{"role":"assistant",%s},%s}`, fields, more) + "\n"
	}
	return voice{
		kind: "application/x-ndjson", counts: true, timed: true, finish: "length",
		failure: plainError + "\n", refusal: plainError,
		token: func(piece, _ string, _ int) string { return message(`"content":`+quote(piece), `"done":false`) },
		think: func(piece string, _ int) string {
			return message(`"content":"","thinking":`+quote(piece), `"done":false`)
		},
		call: func(piece string, _ int) string {
			return message(`"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":`+quote(piece)+`}}}]`, `"done":false`)
		},
		close: func(_ string, n int, _ bool) string { return message(`"content":""`, end(n)) },
		whole: func(text string, n int) string { return message(`"content":`+quote(text), end(n)) },
	}
}

func anthropicVoice() voice {
	event := func(name, fields string) string {
		return "event: " + name + "\n" + data(`{"type":%s%s}`, quote(name), fields)
	}
	delta := func(kind, field, piece string) string {
		return event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":%s,%s:%s}`, quote(kind), quote(field), quote(piece)))
	}
	const start = `"input_tokens":2,"cache_creation_input_tokens":2,"cache_read_input_tokens":3`
	return voice{
		kind: "text/event-stream", counts: true, cached: true, finish: "max_tokens",
		open: event("message_start", `,"message":{"model":"demo-8b","content":[],"stop_reason":null,"usage":{`+start+`,"output_tokens":0}}`) +
			event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) + event("ping", ""),
		failure: event("error", `,"error":{"type":"overloaded_error","message":"engine shut down"}`),
		refusal: `{"type":"error","error":{"type":"overloaded_error","message":"engine shut down"}}`,
		token:   func(piece, _ string, _ int) string { return delta("text_delta", "text", piece) },
		think:   func(piece string, _ int) string { return delta("thinking_delta", "thinking", piece) },
		call:    func(piece string, _ int) string { return delta("input_json_delta", "partial_json", piece) },
		close: func(_ string, n int, _ bool) string {
			return event("content_block_stop", `,"index":0`) +
				event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":%d}`, n)) + event("message_stop", "")
		},
		whole: func(text string, n int) string {
			return fmt.Sprintf(`{"type":"message","content":[{"type":"text","text":%s}],"stop_reason":"max_tokens","usage":{%s,"output_tokens":%d}}`, quote(text), start, n)
		},
	}
}

func responsesVoice() voice {
	event := func(name, fields string) string {
		return "event: " + name + "\n" + data(`{"type":%s%s}`, quote(name), fields)
	}
	delta := func(channel, piece string) string {
		return event("response."+channel+".delta", `,"delta":`+quote(piece))
	}
	response := func(text string, n int) string {
		return fmt.Sprintf(`{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"demo-8b",`+
			`"output":[{"type":"message","content":[{"type":"output_text","text":%s}]}],`+
			`"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":3},"output_tokens":%d},"error":null}`, quote(text), n)
	}
	return voice{
		kind: "text/event-stream", counts: true, cached: true, finish: "max_output_tokens",
		open: event("response.created", `,"response":{"object":"response","status":"in_progress","model":"demo-8b","output":[],"usage":null,"error":null}`) +
			event("keepalive", ""),
		failure: event("response.failed", `,"response":{"object":"response","status":"failed","output":[],"error":{"code":"server_error","message":"engine shut down"}}`),
		refusal: nestedError,
		token:   func(piece, _ string, _ int) string { return delta("output_text", piece) },
		think:   func(piece string, _ int) string { return delta("reasoning_summary_text", piece) },
		call:    func(piece string, _ int) string { return delta("function_call_arguments", piece) },
		close: func(_ string, n int, _ bool) string {
			return event("response.output_text.done", `,"text":"whole"`) + event("response.incomplete", `,"response":`+response("whole", n))
		},
		whole: func(text string, n int) string { return response(text, n) },
	}
}

// voices has one for every backend.
func voices() map[string]voice {
	return map[string]voice{
		"sglang": nativeVoice(), "sglang-native": nativeVoice(),
		"sglang-oai": flat(openAIVoice(false, true)), "sglang-oai-chat": flat(openAIVoice(true, true)),
		"vllm": drafting(openAIVoice(false, true)), "vllm-chat": drafting(openAIVoice(true, true)),
		"lmdeploy": flat(openAIVoice(false, false)), "lmdeploy-chat": flat(openAIVoice(true, false)),
		"trtllm-serve": flat(decoding(openAIVoice(false, true))), "trtllm-serve-chat": flat(decoding(openAIVoice(true, true))),
		"openai": openAIVoice(false, false), "openai-chat": openAIVoice(true, false), "openai-responses": responsesVoice(),
		"trt": tritonVoice(), "truss": trussVoice(), "tgi": tgiVoice(), "llamacpp": llamaCppVoice(), "ollama": ollamaVoice(), "dynamo": dynamoVoice(),
		"anthropic": anthropicVoice(),
	}
}
