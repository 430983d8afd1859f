package backend

import "github.com/inferbeat/inferbeat/probes/internal/jsonscan"

// anthropic is the Messages API, also as SGLang, vLLM and llama-server imitate it. Those
// that want a bearer get it as a header of the user's own. A length cannot be forced.
var anthropic = dialect{
	path: "/v1/messages", messages: true, images: true, port: 443, modelsPath: modelsPath, tokenize: chatWays,
	keyHeader: "X-Api-Key", header: map[string]string{"Anthropic-Version": "2023-06-01"},
	lengthField: "max_tokens", body: anthropicBody, lora: loraModel, splitPrompt: true, parse: parseAnthropic,
}

func anthropicBody(d *dialect, q question) map[string]any {
	fields := map[string]any{}
	if system, rest := systemText(q.Messages); system != "" {
		fields["system"] = system
		other := *q.Request
		other.Messages, q.Request = rest, &other
	}
	fields["messages"] = q.conversation(imageSourcePart)
	addModel(fields, q.model)
	d.addSampling(fields, q.Request)
	return fields
}

// parseAnthropic reads an event, or a whole message. Every event says its own type, so
// the event's name is not needed. Content stands in content_block when a block starts,
// in delta while it grows, and in a list of blocks when the message comes whole.
func parseAnthropic(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			kind, _ := s.String()
			switch string(kind) {
			case "message_stop":
				out.known, out.done = true, true
			case "error":
				out.failed = true
			}
		case "message":
			out.known = out.known || s.Peek() == '{'
			parseAnthropicMessage(s, out)
		case "delta", "content_block":
			out.known = out.known || s.Peek() == '{'
			parseAnthropicBlock(s, out, false)
		case "error":
			out.failed = failure(s) || out.failed
		default:
			parseAnthropicField(s, out, key)
		}
	}
}

func parseAnthropicMessage(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		parseAnthropicField(s, out, key)
	}
}

// parseAnthropicField reads what a message has, whole or in its first event.
func parseAnthropicField(s *jsonscan.Scanner, out *said, key []byte) {
	switch string(key) {
	case "content":
		out.known = out.known || s.Peek() == '['
		for ok := s.Array(); ok && s.Element(); {
			parseAnthropicBlock(s, out, true)
		}
	case "model":
		out.model, _ = s.String()
	case "stop_reason":
		out.takeFinish(s)
	case "usage":
		parseAnthropicUsage(s, out)
	default:
		s.Skip()
	}
}

// parseAnthropicBlock reads a block or its growth. The name of a tool opens its block
// before anything of the call has been generated; only in a whole message it proves a
// call. Signatures and citations are no tokens.
func parseAnthropicBlock(s *jsonscan.Scanner, out *said, whole bool) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "text":
			out.addPiece(s)
		case "thinking":
			out.reasoning = nonEmpty(s) || out.reasoning
		case "partial_json":
			out.answer = nonEmpty(s) || out.answer
		case "name":
			out.answer = nonEmpty(s) && whole || out.answer
		case "stop_reason":
			out.takeFinish(s)
		default:
			s.Skip()
		}
	}
}

func parseAnthropicUsage(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "input_tokens":
			count(s, &out.prompt)
		case "cache_creation_input_tokens":
			count(s, &out.created)
		case "cache_read_input_tokens":
			count(s, &out.cached)
		case "output_tokens":
			count(s, &out.completion)
		default:
			s.Skip()
		}
	}
}
