package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// anthropic speaks the Messages API: named events, blocks for thinking, text and
// tool calls, usage at both ends. It knows no ignore_eos and refuses it, and has
// neither health nor metrics pages.
var anthropic = flavour{
	version: "2023-06-01",
	routes: map[string]*route{
		"POST /v1/messages": {read: readMessages, write: newMessagesRenderer, native: true, chat: true,
			ping: "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
	},
	pages: map[string]handler{
		"GET /v1/models": (*Engine).anthropicModels, "POST /v1/messages/count_tokens": (*Engine).countTokens,
	},
	buckets:      vllm.buckets,
	keyOf:        func(h http.Header) string { return h.Get("x-api-key") },
	unauthorized: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`,
	unknownModel: "model: %s",
	overloaded:   529,
	failure:      func(dst []byte, _ *route, bad refusal) []byte { return anthropicError(dst, bad) },
	report: func(dst []byte, _ *route, bad refusal) []byte {
		dst = append(dst, "event: error\ndata: "...)
		return append(anthropicError(dst, bad), "\n\n"...)
	},
	limited: func(h http.Header, after time.Duration) {
		h.Set("Anthropic-Ratelimit-Requests-Remaining", "0")
		h.Set("Anthropic-Ratelimit-Requests-Reset", time.Now().Add(after).UTC().Format(time.RFC3339))
	},
	lost: func(w http.ResponseWriter, status int) {
		writeJSON(w, status, anthropicError(nil, refusal{status: status, message: http.StatusText(status)}))
	},
}

func anthropicError(dst []byte, bad refusal) []byte {
	kind, message := "api_error", bad.message
	switch bad.status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		kind = "invalid_request_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case 529:
		kind, message = "overloaded_error", "Overloaded"
	}
	return fmt.Appendf(dst, `{"type":"error","error":{"type":%q,"message":%s}}`, kind, appendString(nil, message))
}

var anthropicParts = partNames{text: "text", image: "image"}

// readMessages reads a request; the system prompt is a message in front.
func readMessages(e *Engine, a *ask) (err error) {
	switch {
	case a.IgnoreEOS:
		return badRequest("ignore_eos: Extra inputs are not permitted")
	case a.MaxTokens == nil:
		return badRequest("max_tokens: Field required")
	case len(a.Messages) == 0:
		return badRequest("messages: at least one message is required")
	}
	a.limit, a.temperature = a.MaxTokens, a.Temperature
	a.prompt, err = e.chatTokens(withSystem(a.System, a.Messages), anthropicParts)
	return err
}

// withSystem puts a system prompt before messages, if there is one.
func withSystem(system json.RawMessage, messages []message) []message {
	if system = bytes.TrimSpace(system); len(system) == 0 || string(system) == "null" {
		return messages
	}
	return append([]message{{Role: "system", Content: system}}, messages...)
}

// messagesRenderer writes the blocks one after the other.
type messagesRenderer struct {
	draft
	id    string
	block int // index of the open block; -1 before the first
	tool  []byte
}

func newMessagesRenderer(x *exchange, id string) renderer {
	return &messagesRenderer{draft: draft{x: x}, id: id, block: -1, tool: appendString(nil, x.ask.tool)}
}

func (r *messagesRenderer) opens() bool { return true }

// open writes the start of the message, when the prompt has been looked up in the
// cache.
func (r *messagesRenderer) open(dst []byte) []byte {
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	dst = r.begin(dst)
	dst = append(dst, `[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	dst = r.appendUsage(dst, 1)
	return append(dst, "}}\n\n"...)
}

// begin opens a message up to its content.
func (r *messagesRenderer) begin(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, "msg_"+r.id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = appendString(dst, r.x.model())
	return append(dst, `,"content":`...)
}

// appendUsage writes what the prompt was made of: read from the cache, written to
// it, and neither.
func (r *messagesRenderer) appendUsage(dst []byte, output int) []byte {
	n, cached, written := len(r.x.seq.prompt), r.x.cached(), 0
	if c := r.x.cfg.Cache; c.Blocks > 0 {
		written = n/c.BlockTokens*c.BlockTokens - cached
	}
	dst = appendField(dst, `{"input_tokens":`, n-cached-written)
	dst = appendField(dst, `,"cache_creation_input_tokens":`, written)
	dst = appendField(dst, `,"cache_read_input_tokens":`, cached)
	dst = appendField(dst, `,"output_tokens":`, output)
	return append(dst, '}')
}

func (r *messagesRenderer) event(dst []byte, n int, _ bool) []byte {
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	a := &r.x.seq.answer
	from, border, to := r.advance(n)
	if from < border {
		if from == 0 {
			dst = r.start(dst, `{"type":"thinking","thinking":"","signature":""}`)
		}
		dst = r.delta(dst, `{"type":"thinking_delta","thinking":"`)
		dst = append(a.appendText(dst, from, border), "\"}}\n\n"...)
		if border == a.reasoning {
			dst = r.delta(dst, `{"type":"signature_delta","signature":"c2ltdWxhdGVk`)
			dst = append(dst, "\"}}\n\n"...)
			dst = r.stop(dst)
		}
	}
	if border == to {
		return dst
	}
	if r.x.ask.tool != "" {
		return r.toolDelta(dst, border, to)
	}
	if border == a.reasoning {
		dst = r.start(dst, `{"type":"text","text":""}`)
	}
	if to-border == 1 && a.silent(border) {
		return dst
	}
	dst = r.delta(dst, `{"type":"text_delta","text":"`)
	return append(a.appendText(dst, border, to), "\"}}\n\n"...)
}

// toolDelta writes tokens of a call: the first opens its block.
func (r *messagesRenderer) toolDelta(dst []byte, from, to int) []byte {
	a := &r.x.seq.answer
	if from == a.reasoning {
		dst = r.startBlock(dst)
		dst = r.appendTool(dst)
		dst = append(dst, "{}}}\n\n"...)
		if r.block == 0 {
			dst = append(dst, r.x.route.ping...)
		}
	}
	dst = r.delta(dst, `{"type":"input_json_delta","partial_json":"`)
	return append(a.appendArguments(dst, max(from, a.reasoning+1), to), "\"}}\n\n"...)
}

// appendTool opens a call's block up to its input.
func (r *messagesRenderer) appendTool(dst []byte) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = appendString(dst, "toolu_"+r.id)
	dst = append(dst, `,"name":`...)
	dst = append(dst, r.tool...)
	return append(dst, `,"input":`...)
}

// start opens the next block.
func (r *messagesRenderer) start(dst []byte, block string) []byte {
	dst = r.startBlock(dst)
	dst = append(dst, block...)
	dst = append(dst, "}\n\n"...)
	if r.block == 0 {
		dst = append(dst, r.x.route.ping...)
	}
	return dst
}

func (r *messagesRenderer) startBlock(dst []byte) []byte {
	r.block++
	dst = appendField(append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\""...), `,"index":`, r.block)
	return append(dst, `,"content_block":`...)
}

// delta opens a delta of the open block into its string.
func (r *messagesRenderer) delta(dst []byte, delta string) []byte {
	dst = appendField(append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\""...), `,"index":`, r.block)
	dst = append(dst, `,"delta":`...)
	return append(dst, delta...)
}

// stop closes the open block.
func (r *messagesRenderer) stop(dst []byte) []byte {
	dst = appendField(append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\""...), `,"index":`, r.block)
	return append(dst, "}\n\n"...)
}

// finish tells the total of output tokens, not those since the start.
func (r *messagesRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		return r.x.e.flavour.report(dst, r.x.route, refusal{status: 500, message: failure})
	}
	if r.n != r.x.seq.answer.reasoning { // else its block is closed
		dst = r.stop(dst)
	}
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\""...)
	dst = append(dst, r.stopReason()...)
	dst = appendField(dst, `","stop_sequence":null},"usage":{"output_tokens":`, r.n)
	return append(dst, "}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

func (r *messagesRenderer) stopReason() string {
	switch {
	case !r.x.seq.answer.stops:
		return "max_tokens"
	case r.x.ask.tool != "":
		return "tool_use"
	}
	return "end_turn"
}

func (r *messagesRenderer) whole(dst []byte) []byte {
	a := &r.x.seq.answer
	dst = append(r.begin(dst), '[')
	if a.reasoning > 0 {
		dst = append(dst, `{"type":"thinking","thinking":"`...)
		dst = append(dst, r.thought...)
		dst = append(dst, `","signature":"c2ltdWxhdGVk"}`...)
	}
	if r.n > a.reasoning {
		if a.reasoning > 0 {
			dst = append(dst, ',')
		}
		switch {
		case r.called():
			dst = r.appendTool(dst)
			dst = append(dst, unescape(r.arguments)...)
			dst = append(dst, '}')
		case r.x.ask.tool != "": // a call that was cut has no input
			dst = append(r.appendTool(dst), "{}}"...)
		default:
			dst = append(dst, `{"type":"text","text":"`...)
			dst = append(dst, r.text...)
			dst = append(dst, `"}`...)
		}
	}
	dst = append(dst, `],"stop_reason":"`...)
	dst = append(dst, r.stopReason()...)
	dst = append(dst, `","stop_sequence":null,"usage":`...)
	return append(r.appendUsage(dst, r.n), '}')
}

func (e *Engine) anthropicModels(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"data":     []object{{"type": "model", "id": c.Model, "display_name": c.Model, "created_at": "2026-01-01T00:00:00Z"}},
		"first_id": c.Model, "last_id": c.Model, "has_more": false,
	}))
}

func (e *Engine) countTokens(w http.ResponseWriter, r *http.Request) {
	var in struct {
		System   json.RawMessage `json:"system"`
		Messages []message       `json:"messages"`
	}
	if !e.decodeBody(w, r, &in) {
		return
	}
	tokens, err := e.chatTokens(withSystem(in.System, in.Messages), anthropicParts)
	if err != nil {
		e.fail(w, *badRequest("%v", err))
		return
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"input_tokens": len(tokens)}))
}
