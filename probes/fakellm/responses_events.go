package fakellm

// The items of a response's output.
const (
	reasoningItem = "reasoning"
	messageItem   = "message"
	callItem      = "function_call"
)

// responsesRenderer writes the events of the Responses API, which end by telling
// everything once more.
type responsesRenderer struct {
	draft
	id       string
	tool     []byte // as JSON
	sequence int    // number of the next event
	output   int    // index of the open item; -1 before the first
	deltaEnd []byte // between a delta's type and number, and its string
	told     bool   // the item of hidden reasoning has been told
}

func newResponsesRenderer(x *exchange, id string) renderer {
	return &responsesRenderer{draft: draft{x: x}, id: id, tool: appendString(nil, x.ask.tool), output: -1}
}

func (r *responsesRenderer) opens() bool { return true }

func (r *responsesRenderer) open(dst []byte) []byte {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		dst = r.begin(dst, kind)
		dst = append(dst, `,"response":`...)
		dst = r.appendHead(dst, "in_progress")
		dst = append(dst, `,"output":[],"usage":null}`...)
		dst = end(dst)
	}
	return dst
}

func (r *responsesRenderer) ping(dst []byte) []byte { return end(r.begin(dst, "keepalive")) }

// begin opens an event behind its number.
func (r *responsesRenderer) begin(dst []byte, kind string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, kind...)
	dst = append(dst, "\ndata: {\"type\":\""...)
	dst = append(dst, kind...)
	dst = appendField(dst, `","sequence_number":`, r.sequence)
	r.sequence++
	return dst
}

func end(dst []byte) []byte { return append(dst, "}\n\n"...) }

// place adds the open item's id and place.
func (r *responsesRenderer) place(dst []byte, prefix, inner string) []byte {
	dst = append(dst, `,"item_id":`...)
	dst = appendString(dst, prefix+r.id)
	dst = appendField(dst, `,"output_index":`, r.output)
	return append(dst, inner...)
}

// appendHead opens a response object.
func (r *responsesRenderer) appendHead(dst []byte, status string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, "resp_"+r.id)
	dst = appendField(dst, `,"object":"response","created_at":`, int(r.x.seq.received.Unix()))
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","model":`...)
	return appendString(dst, r.x.model())
}

// shown reports whether the reasoning is told.
func (r *responsesRenderer) shown() bool { return r.x.ask.Reasoning.Summary != "" }

func (r *responsesRenderer) event(dst []byte, n int, _ bool) []byte {
	a, from := &r.x.seq.answer, r.n
	r.collect(n)
	if !r.x.ask.Stream {
		return dst
	}
	to := r.n
	border := min(max(a.reasoning, from), to)
	if from < border && r.shown() {
		dst = r.thoughtDelta(dst, from, border)
	}
	if border == to {
		return dst
	}
	if border == a.reasoning {
		dst = r.start(r.hiddenItem(dst))
	}
	if r.x.ask.tool != "" {
		if from = max(border, a.reasoning+1); from == to {
			return dst
		}
		dst = r.delta(dst, "response.function_call_arguments.delta")
		return append(a.appendArguments(dst, from, to), "\"}\n\n"...)
	}
	if to-border == 1 && a.silent(border) {
		return dst
	}
	dst = r.delta(dst, "response.output_text.delta")
	return append(a.appendText(dst, border, to), "\"}\n\n"...)
}

// thoughtDelta writes tokens of the summary, which here is the reasoning itself.
func (r *responsesRenderer) thoughtDelta(dst []byte, from, to int) []byte {
	const inner = `,"summary_index":0`
	if from == 0 {
		dst = r.added(dst, reasoningItem)
		dst = r.place(r.begin(dst, "response.reasoning_summary_part.added"), "rs_", inner)
		dst = end(append(dst, `,"part":{"type":"summary_text","text":""}`...))
		r.deltaEnd = append(r.place(r.deltaEnd[:0], "rs_", inner), `,"delta":"`...)
	}
	dst = r.delta(dst, "response.reasoning_summary_text.delta")
	dst = append(r.x.seq.answer.appendText(dst, from, to), "\"}\n\n"...)
	if to < r.x.seq.answer.reasoning {
		return dst
	}
	dst = r.place(r.begin(dst, "response.reasoning_summary_text.done"), "rs_", inner)
	dst = end(appendQuote(append(dst, `,"text":`...), r.thought))
	dst = r.place(r.begin(dst, "response.reasoning_summary_part.done"), "rs_", inner)
	dst = append(dst, `,"part":{"type":"summary_text","text":`...)
	dst = end(append(appendQuote(dst, r.thought), '}'))
	return r.done(dst, reasoningItem)
}

// hiddenItem tells that there was reasoning that is not shown.
func (r *responsesRenderer) hiddenItem(dst []byte) []byte {
	if r.shown() || r.told || r.x.seq.answer.reasoning == 0 {
		return dst
	}
	r.told = true
	return r.done(r.added(dst, reasoningItem), reasoningItem)
}

// start opens the item of the answer itself.
func (r *responsesRenderer) start(dst []byte) []byte {
	if r.x.ask.tool != "" {
		dst = r.added(dst, callItem)
		r.deltaEnd = append(r.place(r.deltaEnd[:0], "fc_", ""), `,"delta":"`...)
		return dst
	}
	const inner = `,"content_index":0`
	dst = r.added(dst, messageItem)
	dst = r.place(r.begin(dst, "response.content_part.added"), "msg_", inner)
	dst = end(append(dst, `,"part":{"type":"output_text","text":"","annotations":[]}`...))
	r.deltaEnd = append(r.place(r.deltaEnd[:0], "msg_", inner), `,"delta":"`...)
	return dst
}

// delta opens a delta of the open item into its string.
func (r *responsesRenderer) delta(dst []byte, kind string) []byte {
	return append(r.begin(dst, kind), r.deltaEnd...)
}

// stop closes the item of the answer itself.
func (r *responsesRenderer) stop(dst []byte) []byte {
	if r.x.ask.tool != "" {
		dst = r.place(r.begin(dst, "response.function_call_arguments.done"), "fc_", "")
		dst = end(appendQuote(append(dst, `,"arguments":`...), r.arguments))
		return r.done(dst, callItem)
	}
	const inner = `,"content_index":0`
	dst = r.place(r.begin(dst, "response.output_text.done"), "msg_", inner)
	dst = end(appendQuote(append(dst, `,"text":`...), r.text))
	dst = r.place(r.begin(dst, "response.content_part.done"), "msg_", inner)
	dst = append(dst, `,"part":{"type":"output_text","text":`...)
	dst = end(append(appendQuote(dst, r.text), `,"annotations":[]}`...))
	return r.done(dst, messageItem)
}

func (r *responsesRenderer) added(dst []byte, kind string) []byte {
	r.output++
	dst = appendField(r.begin(dst, "response.output_item.added"), `,"output_index":`, r.output)
	dst = append(dst, `,"item":`...)
	return end(r.appendItem(dst, kind, "in_progress"))
}

func (r *responsesRenderer) done(dst []byte, kind string) []byte {
	dst = appendField(r.begin(dst, "response.output_item.done"), `,"output_index":`, r.output)
	dst = append(dst, `,"item":`...)
	return end(r.appendItem(dst, kind, "completed"))
}

// appendItem writes an item, with what it holds once it is completed.
func (r *responsesRenderer) appendItem(dst []byte, kind, status string) []byte {
	full := status != "in_progress"
	prefix := map[string]string{reasoningItem: "rs_", messageItem: "msg_", callItem: "fc_"}[kind]
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, prefix+r.id)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, '"')
	switch kind {
	case reasoningItem:
		dst = append(dst, `,"summary":[`...)
		if full && r.shown() {
			dst = append(dst, `{"type":"summary_text","text":`...)
			dst = append(appendQuote(dst, r.thought), '}')
		}
		return append(dst, "]}"...)
	case messageItem:
		dst = append(dst, `,"role":"assistant","content":[`...)
		if full {
			dst = append(dst, `{"type":"output_text","text":`...)
			dst = append(appendQuote(dst, r.text), `,"annotations":[]}`...)
		}
		dst = append(dst, ']')
	case callItem:
		dst = append(dst, `,"call_id":`...)
		dst = appendString(dst, "call_"+r.id)
		dst = append(dst, `,"name":`...)
		dst = append(dst, r.tool...)
		dst = append(dst, `,"arguments":`...)
		if full {
			dst = appendQuote(dst, r.arguments)
		} else {
			dst = append(dst, `""`...)
		}
	}
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	return append(dst, `"}`...)
}

func (r *responsesRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		dst = r.begin(dst, "response.failed")
		dst = append(dst, `,"response":`...)
		dst = r.appendHead(dst, "failed")
		dst = append(dst, `,"output":[],"usage":null,"error":{"code":"server_error","message":`...)
		return end(append(appendString(dst, failure), "}}"...))
	}
	dst = r.hiddenItem(dst)
	if r.n > r.x.seq.answer.reasoning {
		dst = r.stop(dst)
	}
	kind := "response.completed"
	if !r.x.seq.answer.stops {
		kind = "response.incomplete"
	}
	dst = r.begin(dst, kind)
	dst = append(dst, `,"response":`...)
	return end(r.whole(dst))
}

// whole writes the response object, which also ends a stream.
func (r *responsesRenderer) whole(dst []byte) []byte {
	a := &r.x.seq.answer
	if a.stops {
		dst = append(r.appendHead(dst, "completed"), `,"error":null,"incomplete_details":null,"output":[`...)
	} else {
		dst = append(r.appendHead(dst, "incomplete"), `,"error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[`...)
	}
	if a.reasoning > 0 {
		dst = r.appendItem(dst, reasoningItem, "completed")
	}
	if r.n > a.reasoning {
		if a.reasoning > 0 {
			dst = append(dst, ',')
		}
		kind := messageItem
		if r.x.ask.tool != "" {
			kind = callItem
		}
		status := "completed"
		if !a.stops {
			status = "incomplete"
		}
		dst = r.appendItem(dst, kind, status)
	}
	dst = appendField(dst, `],"usage":{"input_tokens":`, len(r.x.seq.prompt))
	dst = appendField(dst, `,"input_tokens_details":{"cached_tokens":`, r.x.cached())
	dst = appendField(dst, `},"output_tokens":`, r.n)
	dst = appendField(dst, `,"output_tokens_details":{"reasoning_tokens":`, r.reasoned())
	dst = appendField(dst, `},"total_tokens":`, len(r.x.seq.prompt)+r.n)
	return append(dst, "}}"...)
}

// appendQuote writes text that needs no escaping as a JSON string.
func appendQuote(dst, text []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
