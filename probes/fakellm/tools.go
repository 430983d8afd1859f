package fakellm

// A tool call's tokens are the header (name, empty arguments), then fragments of
// its arguments {"query": "word word …"}. An end-of-sequence token closes the
// arguments; an answer cut by its length leaves them open, as engines do.
const (
	argumentsOpen  = `{\"query\": \"`
	argumentsClose = `\"}`
)

// toolChunk writes tokens of a tool call, after those of the reasoning channel.
func (r *openaiRenderer) toolChunk(dst []byte, from, to int, last bool) []byte {
	a := &r.x.seq.answer
	if from < a.reasoning {
		border := min(a.reasoning, to)
		dst = r.chatChunk(dst, from, border, last && border == to)
		if border == to {
			return dst
		}
		from = border
	}
	header := from == a.reasoning
	before := len(r.arguments)
	r.arguments = r.appendArguments(r.arguments, max(from, a.reasoning+1), to)
	if !r.x.ask.Stream {
		return dst
	}
	dst = r.begin(dst)
	if r.sglang {
		dst = append(dst, `{"reasoning_content":null,"tool_calls":[{"index":0,`...)
	} else {
		dst = append(dst, `{"tool_calls":[{"index":0,`...)
	}
	if header {
		dst = append(dst, `"id":`...)
		dst = appendString(dst, r.callID())
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = appendString(dst, r.x.ask.tool)
		dst = append(dst, ',')
	} else {
		dst = append(dst, `"function":{`...)
	}
	dst = append(dst, `"arguments":"`...)
	dst = append(dst, r.arguments[before:]...)
	dst = append(dst, `"}}]}`...)
	return r.endChoice(dst, last && !r.sglang, false)
}

// appendArguments writes the fragments of tokens [from, to), escaped for the
// JSON string that holds them.
func (r *openaiRenderer) appendArguments(dst []byte, from, to int) []byte {
	a := &r.x.seq.answer
	for i := from; i < to; i++ {
		first := i == a.reasoning+1
		if first {
			dst = append(dst, argumentsOpen...)
		}
		if a.silent(i) {
			dst = append(dst, argumentsClose...)
			continue
		}
		if !first {
			dst = append(dst, ' ')
		}
		dst = append(dst, a.word(i)...)
	}
	return dst
}

func (r *openaiRenderer) callID() string { return "call_" + r.id }

// appendToolCalls writes the calls of an answer that is not streamed.
func (r *openaiRenderer) appendToolCalls(dst []byte) []byte {
	if r.x.ask.tool == "" || r.n <= r.x.seq.answer.reasoning {
		if r.sglang {
			return append(dst, `,"tool_calls":null`...)
		}
		return append(dst, `,"tool_calls":[]`...)
	}
	dst = append(dst, `,"tool_calls":[{"index":0,"id":`...)
	dst = appendString(dst, r.callID())
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = appendString(dst, r.x.ask.tool)
	dst = append(dst, `,"arguments":"`...)
	dst = append(dst, r.arguments...)
	return append(dst, `"}}]`...)
}
