package fakellm

import "bytes"

// A tool call's tokens are the header (name, empty arguments), then fragments of
// its arguments {"query": "word word …"}. An end-of-sequence token closes the
// arguments; an answer cut by its length leaves them open, as engines do.
const (
	argumentsOpen  = `{\"query\": \"`
	argumentsClose = `\"}`
)

// unescape turns what appendArguments wrote into the JSON it stands for.
func unescape(arguments []byte) []byte { return bytes.ReplaceAll(arguments, []byte(`\"`), []byte(`"`)) }

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
	r.arguments = a.appendArguments(r.arguments, max(from, a.reasoning+1), to)
	if r.wholeCalls {
		if !last {
			return dst
		}
		header, before = true, 0
	}
	dst = r.begin(dst)
	dst = r.openDelta(dst, from)
	dst = appendPart(dst, r.noThought)
	if r.wholeCalls && !a.stops {
		// What was held back for a call that never became complete is text after all.
		dst = appendPart(dst, `"content":"`)
		dst = append(dst, r.arguments...)
		dst = append(dst, `"}`...)
		return r.end(dst, r.tokenPlace(last))
	}
	dst = appendPart(dst, r.noContent)
	dst = appendPart(dst, `"tool_calls":[{"index":0,`)
	dst = r.appendCall(dst, header, r.arguments[before:])
	dst = append(dst, `}]}`...)
	return r.end(dst, r.tokenPlace(last))
}

// appendCall writes a call's fields; without a header those of a later fragment.
func (r *openaiRenderer) appendCall(dst []byte, header bool, arguments []byte) []byte {
	if header {
		dst = append(dst, `"id":`...)
		dst = append(dst, r.call...)
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = appendString(dst, r.x.ask.tool)
		dst = append(dst, ',')
	} else {
		dst = append(dst, `"function":{`...)
	}
	dst = append(dst, `"arguments":"`...)
	dst = append(dst, arguments...)
	return append(dst, `"}`...)
}

// appendArguments writes the fragments of tokens [from, to), escaped for the
// JSON string that holds them.
func (a *answer) appendArguments(dst []byte, from, to int) []byte {
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

// appendToolCalls writes the calls of an answer that is not streamed.
func (r *openaiRenderer) appendToolCalls(dst []byte) []byte {
	a := &r.x.seq.answer
	if r.x.ask.tool == "" || r.n <= a.reasoning || r.wholeCalls && !a.stops {
		return append(dst, r.noCalls...)
	}
	dst = append(dst, `,"tool_calls":[{"index":0,`...)
	dst = r.appendCall(dst, true, r.arguments)
	return append(dst, `}]`...)
}
