package backend

import "github.com/inferbeat/inferbeat/probes/internal/jsonscan"

// tgi is the native route of Hugging Face's text-generation-inference. Every event is
// one token and numbers it; the last one carries the whole text and the details, then
// the body ends. A length cannot be forced.
var tgi = dialect{
	path: "/generate_stream", wholePath: "/generate", port: 3000, modelsPath: "/info", tokenize: inputsWays,
	sampling: "parameters", lengthField: "max_new_tokens",
	body: tgiBody, lora: loraAdapterID, parse: parseTGI,
}

// tgiBody samples only when a temperature is given: 0 is refused, and so is a top_p
// of 1.
func tgiBody(d *dialect, q question) map[string]any {
	params := map[string]any{"details": true, "return_full_text": false}
	d.addSampling(params, q.Request)
	params["do_sample"] = q.Sampling.Temperature > 0
	if q.Sampling.Temperature <= 0 {
		delete(params, "temperature")
	}
	if p, _ := q.Sampling.TopP.Get(); p >= 1 {
		delete(params, "top_p")
	}
	return map[string]any{"inputs": q.Prompt, d.sampling: params}
}

func loraAdapterID(fields map[string]any, name string) error {
	merge(fields, map[string]any{"parameters": map[string]any{"adapter_id": name}})
	return nil
}

// parseTGI reads an event, or the answer of /generate, which holds the text alone.
func parseTGI(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	var whole []byte
	isToken := false
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "index":
			count(s, &out.second)
		case "token":
			isToken = s.Peek() == '{'
			parseTGIToken(s, out)
		case "generated_text":
			var ok bool
			whole, ok = s.String()
			out.final = out.final || ok
		case "details":
			parseTGIDetails(s, out)
		case "error":
			out.failed = failure(s) || out.failed
		default:
			s.Skip()
		}
	}
	out.known = out.known || isToken || out.final
	if !isToken {
		out.addText(whole)
	}
	if !out.completion.IsKnown() {
		out.completion = out.second // events are numbered from 1
	}
}

// parseTGIToken takes a token's text, but not that of a special one: the end token is
// counted and is no part of the answer.
func parseTGIToken(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	var text []byte
	special := false
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "text":
			text, _ = s.String()
		case "special":
			special = isTrue(s)
		default:
			s.Skip()
		}
	}
	if !special {
		out.addText(text)
	}
}

func parseTGIDetails(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "finish_reason":
			out.takeFinish(s)
		case "generated_tokens":
			count(s, &out.completion)
		case "input_length":
			count(s, &out.prompt)
		default:
			s.Skip()
		}
	}
}
