package fakellm

import (
	"fmt"
	"strings"
)

// wording is how an engine says what every engine says on the OpenAI routes.
// Pairs are of completions and of chat.
type wording struct {
	mark string    // before the JSON of an event: "data: " or "data:"
	id   [2]string // prefix of ids
	noID bool
	// fields are further ones of every chunk, each behind a comma; {version} stands
	// for the engine's.
	fields  string
	reorder bool // choices come first, the other fields after them

	varies   bool // each chunk tells something of the moment behind its choices
	perToken bool // one event a token, however many a step brings
	// apart: the finish reason has a chunk of its own, and an end-of-sequence token
	// has none; else it sits in the chunk of the last token.
	apart [2]bool
	// usageApart: the usage has a chunk of its own when it is asked for.
	usageApart [2]bool

	roleChunk  string // delta of the chunk that opens a chat; empty is none
	roleEnd    string // behind that chunk; default "\n\n"
	role       roleIn // where else the role is told
	reasoning  string // name of the reasoning channel
	hidden     bool   // reasoning is counted and not shown
	noThought  string // stands in a delta for no reasoning
	noContent  string // stands in a delta for no content
	finishBody string // delta of the chunk of the finish reason
	// wholeCalls come in one chunk when they are complete.
	wholeCalls bool

	// choice ends a choice behind its text or delta, without the closing brace.
	choice func(dst []byte, r *openaiRenderer, finished bool) []byte
	// extra writes fields of a chunk (or a whole answer) besides its choices; nil is none.
	extra func(dst []byte, r *openaiRenderer, at place) []byte
	// usage writes the final counts.
	usage func(dst []byte, r *openaiRenderer) []byte
	// closing writes chunks between the finish and the usage; nil is none.
	closing func(dst []byte, r *openaiRenderer) []byte
	// failed reports a failure and ends the stream; nil is as the flavour reports
	// every error in band.
	failed func(dst []byte, r *openaiRenderer, message string) []byte
	// preamble is what an event is preceded by; nil is nothing.
	preamble func(dst []byte, r *openaiRenderer) []byte
	noCalls  string // of a whole chat answer without tool calls
	nulls    bool   // a whole chat answer names its empty channels
}

// place is a chunk's place in the answer.
type place int

const (
	inRole place = iota
	inToken
	inFinish // also in the last token's chunk, where that holds the finish reason
	inUsage
	inWhole
)

// roleIn says which deltas tell the role, besides a chunk of its own.
type roleIn int

const (
	inNoDelta roleIn = iota
	inFirstDelta
	inEveryDelta
)

// openaiRenderer writes completions and chat completions in an engine's wording.
type openaiRenderer struct {
	*wording
	draft
	chat   int    // index into the pairs: 1 for chat
	call   []byte // id of a tool call, as JSON
	before []byte // every chunk's fields before its choices, and after them
	after  []byte
	// opening and ending are the constant parts of a chunk of tokens; ending is
	// empty until it is known, and stays so where it changes with each chunk.
	opening, ending []byte
}

// worded is a route's writer.
func worded(words *wording) func(x *exchange, id string) renderer {
	return func(x *exchange, id string) renderer {
		r := &openaiRenderer{wording: words, draft: draft{x: x}, call: appendString(nil, "call_"+id)}
		kind := "text_completion"
		if x.route.chat {
			r.chat, kind = 1, "chat.completion"
			if x.ask.Stream {
				kind += ".chunk"
			}
		}
		if id = words.id[r.chat] + id; words.noID {
			id = ""
		}
		fields := append([]byte(nil), `"id":`...)
		fields = appendString(fields, id)
		fields = fmt.Appendf(fields, `,"object":%q,"created":%d,"model":`, kind, x.seq.received.Unix())
		fields = appendString(fields, x.model())
		fields = append(fields, strings.ReplaceAll(words.fields, "{version}", x.cfg.Version)...)
		if words.reorder {
			r.before, r.after = []byte(`{"choices":[`), append([]byte{','}, fields...)
		} else {
			r.before = fmt.Appendf(nil, `{%s,"choices":[`, fields)
		}
		r.opening = append(append(r.opening, words.mark...), r.before...)
		if r.chat == 1 {
			r.opening = append(r.opening, `{"index":0,"delta":`...)
		} else {
			r.opening = append(r.opening, `{"index":0,"text":"`...)
		}
		return r
	}
}

func (r *openaiRenderer) event(dst []byte, n int, last bool) []byte {
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	if r.chat == 1 && r.n == 0 && r.roleChunk != "" {
		dst = r.begin(dst)
		dst = append(dst, r.roleChunk...)
		dst = r.end(dst, inRole)
	}
	if !r.perToken {
		return r.chunk(dst, n, last)
	}
	for i := range n {
		dst = r.chunk(dst, 1, last && i == n-1)
	}
	return dst
}

// chunk writes the next n tokens as one chunk, or as many as its kind needs.
func (r *openaiRenderer) chunk(dst []byte, n int, last bool) []byte {
	a := &r.x.seq.answer
	from, to := r.n, r.n+n
	r.n = to
	if r.chat == 1 && r.x.ask.tool != "" {
		return r.toolChunk(dst, from, to, last)
	}
	if r.apart[r.chat] && last && n == 1 && a.stops {
		return dst // an end-of-sequence token alone
	}
	if r.chat == 1 {
		return r.chatChunk(dst, from, to, last)
	}
	dst = r.begin(dst)
	dst = a.appendText(dst, from, to)
	dst = append(dst, '"')
	return r.end(dst, r.tokenPlace(last))
}

// tokenPlace is the place of a chunk of tokens.
func (r *openaiRenderer) tokenPlace(last bool) place {
	if last && !r.apart[r.chat] {
		return inFinish
	}
	return inToken
}

// chatChunk writes tokens of the reasoning channel, the answer, or both where
// one event holds the border.
func (r *openaiRenderer) chatChunk(dst []byte, from, to int, last bool) []byte {
	a := &r.x.seq.answer
	border := min(max(a.reasoning, from), to)
	if r.hidden && border > from && border == to {
		return dst
	}
	dst = r.begin(dst)
	dst = r.openDelta(dst, from)
	switch {
	case border > from && !r.hidden:
		dst = r.appendQuoted(dst, r.reasoning, from, border)
	default:
		dst = appendPart(dst, r.noThought)
	}
	switch {
	case border < to || border == from:
		dst = r.appendQuoted(dst, "content", border, to)
	default:
		dst = appendPart(dst, r.noContent)
	}
	dst = append(dst, '}')
	return r.end(dst, r.tokenPlace(last))
}

// openDelta opens a delta of tokens.
func (r *openaiRenderer) openDelta(dst []byte, from int) []byte {
	dst = append(dst, '{')
	if r.role == inEveryDelta || r.role == inFirstDelta && from == 0 {
		dst = append(dst, `"role":"assistant"`...)
	}
	return dst
}

// appendPart writes a field as it stands, behind a comma unless it is the first.
func appendPart(dst []byte, part string) []byte {
	if part == "" {
		return dst
	}
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(dst, part...)
}

// appendQuoted writes a key and tokens [from, to) as its string.
func (r *openaiRenderer) appendQuoted(dst []byte, key string, from, to int) []byte {
	dst = appendPart(dst, `"`)
	dst = append(dst, key...)
	dst = append(dst, `":"`...)
	dst = r.x.seq.answer.appendText(dst, from, to)
	return append(dst, '"')
}

// begin opens a chunk up to its delta (chat) or into its text.
func (r *openaiRenderer) begin(dst []byte) []byte {
	if r.preamble != nil {
		dst = r.preamble(dst, r)
	}
	return append(dst, r.opening...)
}

// end closes a chunk behind its delta or text.
func (r *openaiRenderer) end(dst []byte, at place) []byte {
	if at == inToken && len(r.ending) > 0 {
		return append(dst, r.ending...)
	}
	start := len(dst)
	dst = r.choice(dst, r, at == inFinish)
	dst = append(dst, "}]"...)
	dst = r.close(dst, at)
	if at == inRole && r.roleEnd != "" {
		return append(dst, r.roleEnd...)
	}
	dst = append(dst, "\n\n"...)
	if at == inToken && !r.varies && !r.x.ask.StreamOptions.ContinuousUsageStats && !r.x.ask.TimingsPerToken {
		r.ending = append(r.ending, dst[start:]...)
	}
	return dst
}

// close ends the object of a chunk or an answer behind its choices.
func (r *openaiRenderer) close(dst []byte, at place) []byte {
	dst = append(dst, r.after...)
	if r.extra != nil {
		dst = r.extra(dst, r, at)
	}
	return append(dst, '}')
}

// finish writes the finish chunk and the usage chunk where there are such, and
// the end mark.
func (r *openaiRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		if r.failed != nil {
			return r.failed(dst, r, failure)
		}
		return r.x.e.flavour.report(dst, r.x.route, refusal{status: 500, kind: "InternalServerError", message: failure})
	}
	if r.apart[r.chat] {
		dst = r.begin(dst)
		if r.chat == 1 {
			dst = append(dst, r.finishBody...)
		} else {
			dst = append(dst, '"')
		}
		dst = r.end(dst, inFinish)
	}
	return r.conclude(dst)
}

// conclude writes what follows the finish.
func (r *openaiRenderer) conclude(dst []byte) []byte {
	if r.closing != nil {
		dst = r.closing(dst, r)
	}
	if r.x.ask.StreamOptions.IncludeUsage && r.usageApart[r.chat] {
		dst = append(dst, r.mark...)
		dst = append(dst, r.before...)
		dst = append(dst, `],"usage":`...)
		dst = r.usage(dst, r)
		dst = r.close(dst, inUsage)
		dst = append(dst, "\n\n"...)
	}
	dst = append(dst, r.mark...)
	return append(dst, "[DONE]\n\n"...)
}

// whole writes the answer to a request that did not ask for a stream.
func (r *openaiRenderer) whole(dst []byte) []byte {
	if r.wholeCalls && !r.x.seq.answer.stops {
		r.text, r.arguments = append(r.text, r.arguments...), nil
	}
	dst = append(dst, r.before...)
	if r.chat == 1 {
		dst = append(dst, `{"index":0,"message":{"role":"assistant","content":`...)
		dst = appendNullable(dst, r.text)
		if r.nulls || len(r.thought) > 0 && !r.hidden {
			dst = fmt.Appendf(dst, `,%q:`, r.reasoning)
			dst = appendNullable(dst, r.thought)
		}
		dst = r.appendToolCalls(dst)
		dst = append(dst, '}')
	} else {
		dst = append(dst, `{"index":0,"text":"`...)
		dst = append(dst, r.text...)
		dst = append(dst, '"')
	}
	dst = r.choice(dst, r, true)
	dst = append(dst, "}]"...)
	if r.usage != nil {
		dst = append(dst, `,"usage":`...)
		dst = r.usage(dst, r)
	}
	return r.close(dst, inWhole)
}

// appendFinish writes a finish reason, or null.
func (r *openaiRenderer) appendFinish(dst []byte, finished bool) []byte {
	if !finished {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = append(dst, r.finishReason()...)
	return append(dst, '"')
}

func (r *openaiRenderer) finishReason() string {
	reason := r.x.seq.answer.finishReason()
	if reason == "stop" && r.x.ask.tool != "" {
		return "tool_calls"
	}
	return reason
}

// The ends of a choice that several engines share.

func plainChoice(dst []byte, r *openaiRenderer, finished bool) []byte {
	dst = append(dst, `,"finish_reason":`...)
	return r.appendFinish(dst, finished)
}

func logprobsChoice(dst []byte, r *openaiRenderer, finished bool) []byte {
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	return r.appendFinish(dst, finished)
}

// continuousUsage adds the counts so far to every chunk, where they are asked for.
func continuousUsage(dst []byte, r *openaiRenderer, at place) []byte {
	if !r.x.ask.StreamOptions.ContinuousUsageStats || at >= inUsage {
		return dst
	}
	n := r.n
	if at == inRole {
		n = 0
	}
	dst = append(dst, `,"usage":`...)
	dst = r.appendCounts(dst, n)
	return append(dst, '}')
}

// plainUsage writes the three counts that every usage has.
func plainUsage(dst []byte, r *openaiRenderer) []byte { return append(r.appendCounts(dst, r.n), '}') }

// cachedUsage adds the cached tokens, 0 included.
func cachedUsage(dst []byte, r *openaiRenderer) []byte {
	dst = r.appendCounts(dst, r.n)
	dst = appendField(dst, `,"prompt_tokens_details":{"cached_tokens":`, r.x.cached())
	return append(dst, "}}"...)
}

// appendCounts writes the three counts without their closing brace.
func (r *openaiRenderer) appendCounts(dst []byte, n int) []byte {
	dst = appendField(dst, `{"prompt_tokens":`, len(r.x.seq.prompt))
	dst = appendField(dst, `,"total_tokens":`, len(r.x.seq.prompt)+n)
	return appendField(dst, `,"completion_tokens":`, n)
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
