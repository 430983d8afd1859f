package backend

import (
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// parseOpenAI reads a chunk, or a whole answer, of /v1/completions and
// /v1/chat/completions as all the servers send it that speak them.
func parseOpenAI(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	var times timings
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "choices":
			out.known = out.known || s.Peek() == '['
			for ok := s.Array(); ok && s.Element(); {
				out.choices = true
				parseChoice(s, out)
			}
		case "usage":
			out.known = out.known || s.Peek() == '{'
			parseUsage(s, out)
		case "model":
			out.model, _ = s.String()
		case "error":
			out.failed = failure(s) || out.failed
		case "object":
			// The flat shape of an error: {"object":"error","message":…}.
			if raw, ok := s.String(); ok && string(raw) == "error" {
				out.failed = true
			}
		case "metrics":
			parseMetrics(s, out)
		case "sglext":
			parseSGLExt(s, out)
		case "timings":
			times = parseTimings(s)
		default:
			s.Skip()
		}
	}
	if len(out.finish) > 0 || out.completion.IsKnown() {
		out.takeTimings(times)
	}
}

func parseChoice(s *jsonscan.Scanner, out *said) {
	first, index := len(out.pieces), 0
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "index":
			if n, ok := s.Int(); ok && n > 0 {
				index = n
			}
		case "text":
			out.addPiece(s)
		case "delta", "message":
			parseDelta(s, out)
		case "finish_reason":
			out.takeFinish(s)
		case "avg_decoded_tokens_per_iter":
			// Of trtllm-serve; without speculation it is 1 as well.
			if length, ok := s.Float(); ok && length > 1 {
				out.accept = probes.Known(length)
			}
		default:
			s.Skip()
		}
	}
	out.setChoice(first, index)
}

// parseDelta reads every channel in which output comes. Reasoning sent under both
// of its names in one event makes one token event, as it only sets a mark.
func parseDelta(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "content", "refusal":
			out.addPiece(s)
		case "reasoning_content", "reasoning":
			out.reasoning = nonEmpty(s) || out.reasoning
		case "reasoning_details":
			for ok := s.Array(); ok && s.Element(); {
				parseReasoningDetail(s, out)
			}
		case "tool_calls":
			for ok := s.Array(); ok && s.Element(); {
				parseToolCall(s, out)
			}
		case "function_call":
			parseFunction(s, out)
		default:
			s.Skip()
		}
	}
}

// parseReasoningDetail reads an element of reasoning_details; encrypted ones hold
// no output that anybody could see.
func parseReasoningDetail(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "text", "summary":
			out.reasoning = nonEmpty(s) || out.reasoning
		default:
			s.Skip()
		}
	}
}

func parseToolCall(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		if string(key) == "function" {
			parseFunction(s, out)
		} else {
			s.Skip()
		}
	}
}

func parseFunction(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "name", "arguments":
			out.answer = nonEmpty(s) || out.answer
		default:
			s.Skip()
		}
	}
}

func parseUsage(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "completion_tokens":
			count(s, &out.completion)
		case "prompt_tokens":
			count(s, &out.prompt)
		case "reasoning_tokens":
			count(s, &out.thought)
		case "prompt_tokens_details", "completion_tokens_details":
			parseUsageDetails(s, out)
		default:
			s.Skip()
		}
	}
}

func parseUsageDetails(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "cached_tokens":
			count(s, &out.cached)
		case "reasoning_tokens":
			count(s, &out.thought)
		default:
			s.Skip()
		}
	}
}

// parseMetrics reads vLLM's per-request metrics on the usage chunk.
func parseMetrics(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		if string(key) == "speculative_decoding" {
			parseSpeculation(s, out)
		} else {
			s.Skip()
		}
	}
}

func parseSpeculation(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		if string(key) == "mean_acceptance_length" {
			acceptLength(s, out)
		} else {
			s.Skip()
		}
	}
}

// parseSGLExt reads SGLang's own chunk: cached tokens by where they were kept.
// Usage, when it has them too, stands.
func parseSGLExt(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		if string(key) != "cached_tokens_details" || s.Peek() != '{' {
			s.Skip()
			continue
		}
		s.Object()
		sum := 0
		for _, ok := s.Key(); ok; _, ok = s.Key() {
			if n, ok := s.Int(); ok && n > 0 {
				sum += n
			}
		}
		if !out.cached.IsKnown() {
			out.cached = probes.Known(sum)
		}
	}
}
