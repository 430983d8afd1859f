package backend

import (
	"bytes"

	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// openAIResponses is the Responses API. Its stream ends with the response as a whole,
// which alone holds the usage. A length cannot be forced.
var openAIResponses = dialect{
	path: "/v1/responses", messages: true, images: true, port: 443, modelsPath: modelsPath, tokenize: chatWays,
	lengthField: "max_output_tokens", body: responsesBody, lora: loraModel, parse: parseResponses,
}

// responsesBody asks not to keep the answer: the API stores it for a month otherwise.
func responsesBody(d *dialect, q question) map[string]any {
	fields := map[string]any{"input": responsesInput(q), "store": false}
	addModel(fields, q.model)
	d.addSampling(fields, q.Request)
	return fields
}

var (
	responsePrefix = []byte("response.")
	deltaSuffix    = []byte(".delta")
)

// parseResponses reads an event, or a whole response. Every event says its own type,
// so the event's name is not needed.
func parseResponses(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	var kind, delta []byte
	var whole response
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			kind, _ = s.String()
		case "delta":
			delta, _ = s.String()
		case "response":
			parseResponse(s, out)
		case "output":
			out.known = out.known || s.Peek() == '['
			for ok := s.Array(); ok && s.Element(); {
				parseOutputItem(s, out)
			}
		default:
			whole.field(s, out, key)
		}
	}
	whole.settle(out)
	switch string(kind) {
	case "error":
		out.failed = true
	case "response.completed", "response.incomplete", "response.failed":
		out.done = true
	}
	out.takeDelta(kind, delta)
}

// takeDelta takes what an event adds. The events that close a part repeat its text, so
// that only a delta counts; sound and pictures are no tokens.
func (d *said) takeDelta(kind, delta []byte) {
	channel, isDelta := bytes.CutSuffix(bytes.TrimPrefix(kind, responsePrefix), deltaSuffix)
	if !isDelta {
		return
	}
	d.known = true
	switch string(channel) {
	case "output_text", "refusal":
		d.addText(delta)
	case "reasoning_text", "reasoning_summary_text", "reasoning", "reasoning_summary":
		d.reasoning = len(delta) > 0
	case "function_call_arguments", "mcp_call_arguments", "mcp_call.arguments", "custom_tool_call_input", "code_interpreter_call_code", "code_interpreter_call.code":
		d.answer = len(delta) > 0
	}
}

// parseResponse reads the response inside an event, but for its output, which has
// come as deltas.
func parseResponse(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	out.known = true
	var r response
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		r.field(s, out, key)
	}
	r.settle(out)
}

// response is how a response stands; its parts come in any order.
type response struct{ status, reason []byte }

func (r *response) field(s *jsonscan.Scanner, out *said, key []byte) {
	switch string(key) {
	case "status":
		r.status, _ = s.String()
	case "incomplete_details":
		r.reason = memberString(s, "reason")
	case "usage":
		parseResponsesUsage(s, out)
	default:
		out.takeCommon(s, key)
	}
}

// settle takes the status as the finish reason, or better the reason for it, once the
// response has ended.
func (r *response) settle(out *said) {
	switch string(r.status) {
	case "failed", "cancelled":
		out.failed, out.finish = true, r.status
	case "incomplete":
		out.finish = r.status
		if len(r.reason) > 0 {
			out.finish = r.reason
		}
	case "completed":
		out.finish = r.status
	}
}

// parseOutputItem reads a message, a reasoning or a call of a whole response.
func parseOutputItem(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "content", "summary":
			for ok := s.Array(); ok && s.Element(); {
				parseOutputPart(s, out)
			}
		case "name", "arguments", "input":
			out.answer = nonEmpty(s) || out.answer
		default:
			s.Skip()
		}
	}
}

// parseOutputPart reads a piece of text; its type tells the channel.
func parseOutputPart(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	var kind, text []byte
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			kind, _ = s.String()
		case "text", "refusal":
			text, _ = s.String()
		default:
			s.Skip()
		}
	}
	switch string(kind) {
	case "reasoning_text", "summary_text":
		out.reasoning = len(text) > 0 || out.reasoning
	default:
		out.addText(text)
	}
}

func parseResponsesUsage(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "input_tokens":
			count(s, &out.prompt)
		case "output_tokens":
			count(s, &out.completion)
		case "input_tokens_details", "output_tokens_details":
			parseUsageDetails(s, out)
		default:
			s.Skip()
		}
	}
}
