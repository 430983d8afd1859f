package backend

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// ollama is the chat route of Ollama's own API: one JSON object a line, the last with
// done set. It is chat because only there thinking and tools have channels of their
// own. A length cannot be forced, a cached prefix is not counted, and an adapter is a
// model of its own.
var ollama = dialect{
	path: "/api/chat", messages: true, images: true, port: 11434, modelsPath: modelsPath,
	sampling: "options", lengthField: "num_predict",
	body: ollamaBody, lora: loraModel, lines: true, parse: parseOllama,
}

func ollamaBody(d *dialect, q question) map[string]any {
	options := map[string]any{}
	d.addSampling(options, q.Request)
	messages := q.conversation(nil)
	if len(q.Images) > 0 {
		data := make([]string, len(q.Images))
		for i, image := range q.Images {
			data[i] = image.Base64
		}
		pictured := 0
		if q.Messages != nil {
			pictured = lastUser(q.Messages)
		}
		messages[pictured].(map[string]any)["images"] = data
	}
	fields := map[string]any{"messages": messages, d.sampling: options}
	addModel(fields, q.model)
	return fields
}

// parseOllama reads a line of /api/chat, or of /api/generate, which has the text itself
// where chat has a message. The count of the prompt is missing when it was cached.
func parseOllama(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "message":
			out.known = out.known || s.Peek() == '{'
			parseOllamaMessage(s, out)
		case "response":
			out.known = out.known || s.Peek() == '"'
			out.addPiece(s)
		case "thinking":
			out.reasoning = nonEmpty(s) || out.reasoning
		case "done":
			out.done = isTrue(s) || out.done
		case "done_reason":
			out.takeFinish(s)
		case "prompt_eval_count":
			count(s, &out.prompt)
		case "eval_count":
			count(s, &out.completion)
		case "prompt_eval_duration":
			nanoseconds(s, &out.prefill)
		case "eval_duration":
			nanoseconds(s, &out.decode)
		default:
			out.takeCommon(s, key)
		}
	}
	out.known = out.known || out.done
}

func parseOllamaMessage(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "content":
			out.addPiece(s)
		case "thinking":
			out.reasoning = nonEmpty(s) || out.reasoning
		case "tool_calls":
			for ok := s.Array(); ok && s.Element(); {
				parseToolCall(s, out)
			}
		default:
			s.Skip()
		}
	}
}

func nanoseconds(s *jsonscan.Scanner, into *probes.Optional[time.Duration]) {
	if n, ok := s.Int(); ok && n >= 0 {
		*into = probes.Known(time.Duration(n))
	}
}
