package fakellm

import "fmt"

// openaiRenderer writes completions and chat completions in the dialect of SGLang
// or vLLM. They differ in null style, in the name of the reasoning channel, and in
// whether the finish reason sits in the last token's chunk or in one of its own.
type openaiRenderer struct {
	x      *exchange
	chat   bool
	sglang bool
	id     string
	head   []byte // every chunk's fields up to "choices"
	n      int    // tokens so far

	// What was written so far, for answers that are not streamed.
	reasoning, text, arguments []byte
}

// newRenderer picks the shape of the exchange's answer.
func newRenderer(x *exchange, id string) renderer {
	if x.ask.route == native {
		return &nativeRenderer{x: x, id: appendString(nil, id)}
	}
	r := &openaiRenderer{x: x, chat: x.ask.route == chat, sglang: x.cfg.Engine == SGLang, id: id}
	kind, prefix := "text_completion", "cmpl-"
	if r.chat {
		kind, prefix = "chat.completion", "chatcmpl-"
		if x.ask.Stream {
			kind += ".chunk"
		}
	}
	if !r.sglang {
		id = prefix + id
	}
	r.head = append(r.head, `{"id":`...)
	r.head = appendString(r.head, id)
	r.head = fmt.Appendf(r.head, `,"object":%q,"created":%d,"model":`, kind, x.seq.received.Unix())
	r.head = appendString(r.head, x.model())
	r.head = append(r.head, `,"choices":[`...)
	return r
}

// model is the name that the answer carries: SGLang repeats what was asked for.
func (x *exchange) model() string {
	if _, ok := x.faults.find(WrongModel); ok {
		return "another-model"
	}
	if x.cfg.Engine == SGLang && x.ask.Model != "" {
		return x.ask.Model
	}
	return x.cfg.Model
}

// cached is how much of the prompt was in the prefix cache.
func (x *exchange) cached() int { return x.seq.cached }

func (r *openaiRenderer) event(dst []byte, n int, last bool) []byte {
	from, to := r.n, r.n+n
	if r.chat && from == 0 {
		dst = r.roleChunk(dst)
	}
	r.n = to
	switch {
	case !r.chat:
		return r.completionChunk(dst, from, to, last)
	case r.x.ask.tool != "":
		return r.toolChunk(dst, from, to, last)
	}
	return r.chatChunk(dst, from, to, last)
}

func (r *openaiRenderer) roleChunk(dst []byte) []byte {
	dst = r.begin(dst)
	if r.sglang {
		dst = append(dst, `{"reasoning_content":null,"role":"assistant","content":""}`...)
	} else {
		dst = append(dst, `{"role":"assistant","content":""}`...)
	}
	return r.endChoice(dst, false, true)
}

// begin opens a chunk up to its delta (chat) or text.
func (r *openaiRenderer) begin(dst []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, r.head...)
	if r.chat {
		return append(dst, `{"index":0,"delta":`...)
	}
	return append(dst, `{"index":0,"text":"`...)
}

// endChoice closes a chunk behind its delta or text.
func (r *openaiRenderer) endChoice(dst []byte, finished, role bool) []byte {
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	dst = r.appendReason(dst, finished)
	dst = append(dst, "}]"...)
	if r.x.ask.StreamOptions.ContinuousUsageStats {
		n := r.n
		if role {
			n = 0
		}
		dst = append(dst, `,"usage":`...)
		dst = r.appendCounts(dst, n)
		dst = append(dst, '}')
	}
	return append(dst, "}\n\n"...)
}

// appendReason writes the finish reason and the stop behind it.
func (r *openaiRenderer) appendReason(dst []byte, finished bool) []byte {
	stops := r.x.seq.answer.stops
	if finished {
		dst = appendString(dst, r.finishReason())
	} else {
		dst = append(dst, "null"...)
	}
	switch {
	case r.sglang && finished && stops:
		return appendField(dst, `,"matched_stop":`, tokenEOS)
	case r.sglang:
		return append(dst, `,"matched_stop":null`...)
	case !r.chat:
		return append(dst, `,"stop_reason":null`...)
	case finished:
		return append(dst, `,"stop_reason":null,"token_ids":null`...)
	}
	return dst
}

func (r *openaiRenderer) finishReason() string {
	reason := r.x.seq.answer.finishReason()
	if reason == "stop" && r.x.ask.tool != "" {
		return "tool_calls"
	}
	return reason
}

func (r *openaiRenderer) completionChunk(dst []byte, from, to int, last bool) []byte {
	if !r.x.ask.Stream {
		r.text = r.x.seq.answer.appendText(r.text, from, to)
		return dst
	}
	dst = r.begin(dst)
	dst = r.x.seq.answer.appendText(dst, from, to)
	dst = append(dst, '"')
	return r.endChoice(dst, last, false)
}

// chatChunk writes tokens of the reasoning channel, the answer, or both where
// one event holds the border.
func (r *openaiRenderer) chatChunk(dst []byte, from, to int, last bool) []byte {
	a := &r.x.seq.answer
	border := min(max(a.reasoning, from), to)
	if !r.x.ask.Stream {
		r.reasoning = a.appendText(r.reasoning, from, border)
		r.text = a.appendText(r.text, border, to)
		return dst
	}
	silent := last && to-from == 1 && a.stops
	if r.sglang && silent {
		return dst // SGLang shows an end-of-sequence token only by its finish chunk
	}
	dst = r.begin(dst)
	switch {
	case border > from && r.sglang:
		dst = r.appendQuoted(dst, `{"reasoning_content":`, from, border)
	case border > from:
		dst = r.appendQuoted(dst, `{"reasoning":`, from, border)
	case r.sglang:
		dst = append(dst, `{"reasoning_content":null`...)
	}
	switch {
	case border == to:
	case border > from || r.sglang:
		dst = r.appendQuoted(dst, `,"content":`, border, to)
	default:
		dst = r.appendQuoted(dst, `{"content":`, border, to)
	}
	dst = append(dst, '}')
	return r.endChoice(dst, last && !r.sglang, false)
}

// appendQuoted writes a key as it stands in the JSON, and tokens [from, to) as
// its string.
func (r *openaiRenderer) appendQuoted(dst []byte, key string, from, to int) []byte {
	dst = append(dst, key...)
	dst = append(dst, '"')
	dst = r.x.seq.answer.appendText(dst, from, to)
	return append(dst, '"')
}

// finish writes SGLang's finish chunk, the usage chunk where it was asked for,
// and the end mark. A failure takes the place of the finish chunk in SGLang, of
// everything but the end mark in vLLM.
func (r *openaiRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		if r.sglang {
			dst = append(dst, `data: {"error": {"object": "error", "message": `...)
			dst = appendString(dst, failure)
			dst = append(dst, `, "type": "INTERNAL_SERVER_ERROR", "param": null, "code": 500}}`+"\n\n"...)
		} else {
			dst = append(dst, `data: {"error": {"message": `...)
			dst = appendString(dst, failure)
			dst = append(dst, `, "type": "InternalServerError", "param": null, "code": 500}}`+"\n\n"...)
			return append(dst, "data: [DONE]\n\n"...)
		}
	} else if r.sglang && r.chat {
		dst = r.begin(dst)
		dst = append(dst, `{"reasoning_content":null}`...)
		dst = r.endChoice(dst, true, false)
	}
	if r.sglang && (r.x.ask.ReturnCachedTokensDetails || r.x.ask.ReturnSpecTokensDetails) {
		dst = append(dst, "data: "...)
		dst = append(dst, r.head...)
		dst = append(dst, `],"usage":null`...)
		dst = r.appendExt(dst)
		dst = append(dst, "}\n\n"...)
	}
	if r.x.ask.StreamOptions.IncludeUsage {
		dst = append(dst, "data: "...)
		dst = append(dst, r.head...)
		dst = append(dst, `],"usage":`...)
		dst = r.appendUsage(dst)
		dst = append(dst, "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// appendExt writes SGLang's extension object.
func (r *openaiRenderer) appendExt(dst []byte) []byte {
	s, open := r.x.seq, byte('{')
	dst = append(dst, `,"sglext":`...)
	if r.x.ask.ReturnCachedTokensDetails {
		dst = fmt.Appendf(dst, `%c"cached_tokens_details":{"device":%d,"host":0}`, open, s.cached)
		open = ','
	}
	if r.x.ask.ReturnSpecTokensDetails {
		dst = append(dst, open)
		dst = append(dst, `"spec_tokens_details":`...)
		if c := s.spec; c.steps == 0 {
			dst = append(dst, "null"...)
		} else {
			dst = fmt.Appendf(dst, `{"spec_verify_ct":%d,"spec_num_correct_drafts":%d,"spec_num_proposed_drafts":%d,"spec_accept_length":%v}`,
				c.steps, c.accepted, c.drafts, float64(r.n)/float64(c.steps))
		}
	}
	return append(dst, '}')
}

// appendCounts writes the three counts that every usage has, without its closing
// brace.
func (r *openaiRenderer) appendCounts(dst []byte, n int) []byte {
	dst = appendField(dst, `{"prompt_tokens":`, len(r.x.seq.prompt))
	dst = appendField(dst, `,"total_tokens":`, len(r.x.seq.prompt)+n)
	return appendField(dst, `,"completion_tokens":`, n)
}

func (r *openaiRenderer) appendUsage(dst []byte) []byte {
	cached, reasoning := r.x.cached(), min(r.x.seq.answer.reasoning, r.n)
	dst = r.appendCounts(dst, r.n)
	switch report := r.x.cfg.CacheReport; {
	case report && (cached > 0 || !r.sglang):
		dst = appendField(dst, `,"prompt_tokens_details":{"cached_tokens":`, cached)
		dst = append(dst, '}')
	case r.sglang:
		dst = append(dst, `,"prompt_tokens_details":null`...)
	}
	switch {
	case r.sglang:
		dst = appendField(dst, `,"reasoning_tokens":`, reasoning)
	case reasoning > 0:
		dst = appendField(dst, `,"completion_tokens_details":{"reasoning_tokens":`, reasoning)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// whole writes the answer to a request that did not ask for a stream.
func (r *openaiRenderer) whole(dst []byte) []byte {
	dst = append(dst, r.head...)
	if r.chat {
		dst = append(dst, `{"index":0,"message":{"role":"assistant","content":`...)
		dst = appendNullable(dst, r.text)
		if r.sglang {
			dst = append(dst, `,"reasoning_content":`...)
		} else {
			dst = append(dst, `,"reasoning":`...)
		}
		dst = appendNullable(dst, r.reasoning)
		dst = r.appendToolCalls(dst)
		dst = append(dst, '}')
	} else {
		dst = append(dst, `{"index":0,"text":"`...)
		dst = append(dst, r.text...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	dst = r.appendReason(dst, true)
	dst = append(dst, `}],"usage":`...)
	dst = r.appendUsage(dst)
	if r.sglang && (r.x.ask.ReturnCachedTokensDetails || r.x.ask.ReturnSpecTokensDetails) {
		dst = r.appendExt(dst)
	}
	return append(dst, '}')
}

// appendNullable writes plain ASCII text, or null when there is none.
func appendNullable(dst, text []byte) []byte {
	if len(text) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}

// appendString writes a JSON string.
func appendString(dst []byte, s string) []byte { return appendJSON(dst, s) }
