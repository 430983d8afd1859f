package backend

import (
	"bytes"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
	"github.com/inferbeat/inferbeat/probes/stream"
)

const (
	// bodyBuffer holds what one read brings; a burst of events fits.
	bodyBuffer = 32 << 10
	// maxWhole bounds an answer that comes in one piece, as a line of a stream is.
	maxWhole = stream.DefaultMaxLine
	// keepBuffer is the largest text buffer that is kept for the next request.
	keepBuffer = 1 << 20
	// maxChoices bounds how many texts are kept apart.
	maxChoices = 64
	// modeVotes is after how many events it is settled whether a text is
	// cumulative; until then both readings of it are kept.
	modeVotes = 8
)

// reading adds up what the events of one answer say. It is used again for the
// next request, so that a token costs no allocation.
type reading struct {
	d        *dialect
	rec      *probes.Record
	keepText bool
	model    string // the name that was asked for

	buf    []byte
	sse    *stream.SSE
	lines  *stream.NDJSON
	events decoder // one of the two
	scan   jsonscan.Scanner
	said   said

	texts [][]byte // by choice
	// A text that may be cumulative: the last one as it came, all of them joined,
	// and how many events spoke for either reading.
	last, joined       []byte
	repeats, continues int

	credited int  // tokens that are accounted to the chunks so far
	synced   bool // credited is the server's count at the last chunk
	burst    int  // the chunk to which the tokens of a burst were accounted
	several  bool // more than one choice: a running count belongs to one of them

	completion probes.Optional[int]
	second     probes.Optional[int] // another count of the same
	ids        int                  // token ids that came in all events together
	lastIDs    int                  // and in the last event that had any
	// A prompt that is counted in parts: what the cache neither gave nor took, what it
	// took, what it gave.
	fresh, created, cached probes.Optional[int]

	output   bool // any generated output, streamed or not
	known    bool // at least one event had the shape of the dialect
	done     bool // end mark
	finished bool // finish reason
	failed   bool // error inside a 2xx answer
	failure  string
}

// decoder cuts the bytes of an answer into events.
type decoder interface {
	Feed(p []byte, at time.Duration)
	Next() (stream.Event, bool)
	Finish() (stream.Event, bool)
}

func newReading() *reading {
	return &reading{buf: make([]byte, bodyBuffer), sse: stream.NewSSE(0), lines: stream.NewNDJSON(0)}
}

// begin makes the reading ready for another answer.
func (r *reading) begin(d *dialect, rec *probes.Record, keepText bool, model string) {
	r.sse.Reset()
	r.lines.Reset()
	next := reading{
		d: d, rec: rec, keepText: keepText, model: model,
		buf: r.buf, sse: r.sse, lines: r.lines, events: r.sse, scan: r.scan, said: r.said, texts: r.texts[:0], last: r.last[:0], joined: r.joined[:0], synced: true,
	}
	if cap(r.last) > keepBuffer || cap(r.joined) > keepBuffer {
		next.last, next.joined = nil, nil
	}
	if d.lines {
		next.events = r.lines
	}
	next.said.reset()
	*r = next
}

// end lets go of everything that belongs to the answer.
func (r *reading) end() {
	r.rec, r.d = nil, nil
	r.said = said{pieces: r.said.pieces[:0]}
	clear(r.said.pieces[:cap(r.said.pieces)])
	r.scan.Reset(nil)
	texts := r.texts[:cap(r.texts)]
	for i := range texts {
		if cap(texts[i]) > keepBuffer {
			texts[i] = nil
		}
	}
}

// feed takes the bytes of one read and reports whether the answer is over.
func (r *reading) feed(p []byte, at time.Duration) bool {
	r.events.Feed(p, at)
	for e, ok := r.events.Next(); ok; e, ok = r.events.Next() {
		r.event(e)
		if r.done {
			break
		}
	}
	return r.done
}

// bodyEnded takes the block that the end of the body left open.
func (r *reading) bodyEnded() {
	if e, ok := r.events.Finish(); ok && !r.done {
		r.event(e)
	}
}

// err is why the events cannot be read on.
func (r *reading) err() error {
	if r.d.lines {
		return r.lines.Err()
	}
	return r.sse.Err()
}

func (r *reading) event(e stream.Event) {
	switch {
	case e.ErrorField || string(e.Name) == "error":
		text := e.Data
		if len(text) == 0 {
			text = e.Comment
		}
		r.fail(failureText(text))
	case string(e.Data) == "[DONE]":
		r.done = true
	case len(e.Data) > 0:
		if !r.payload(e.Data) {
			if !e.Unterminated {
				r.rec.Flags |= probes.UnparsableEvent
			}
			return
		}
		r.take(e.At)
	}
}

// payload parses a JSON text into said and reports whether it is legal.
func (r *reading) payload(data []byte) bool {
	r.said.reset()
	r.scan.Reset(data)
	r.d.parse(&r.scan, &r.said)
	if r.scan.End() != nil {
		return false
	}
	if r.said.failed {
		r.fail(failureText(data))
	}
	return true
}

// fail notes an error that the server reported inside its answer; the first one counts.
func (r *reading) fail(text string) {
	if !r.failed {
		r.failed, r.failure = true, text
	}
}

// take takes over what a legal event of a stream said.
func (r *reading) take(at time.Duration) {
	token := r.said.answer || r.said.reasoning
	choice := r.said.choices
	if r.d.cumulative {
		token = r.progress()
	} else if r.keepText {
		r.keepPieces()
	}
	r.takeFacts()
	rec := r.rec
	r.output = r.output || token
	if rec.Definitions == probes.VLLMDefinitions && choice {
		token = true // whether it brought anything or not
	}
	if !token {
		return
	}
	if len(rec.Chunks) == 0 {
		rec.FirstToken = probes.Known(at)
	}
	if r.said.answer && !rec.FirstAnswer.IsKnown() {
		rec.FirstAnswer = probes.Known(at)
	}
	if last, ok := rec.LastToken.Get(); ok && last == at {
		rec.Flags |= probes.Coalesced // by one read, or by the kernel between two
	}
	rec.LastToken = probes.Known(at)
	tokens := r.credit()
	if r.perChunk() {
		tokens = 0
	}
	rec.Chunks = append(rec.Chunks, probes.Chunk{At: at, Tokens: tokens})
}

// perChunk reports whether an inter-token latency is one of a chunk by the record's
// definitions: what a chunk holds is then left unsaid.
func (r *reading) perChunk() bool {
	return r.rec.Definitions == probes.VLLMDefinitions || r.rec.Definitions == probes.SGLangDefinitions && !r.d.cumulative
}

// takeWhole takes over an answer that came in one piece.
func (r *reading) takeWhole() {
	r.output = r.said.answer || r.said.reasoning
	if r.keepText {
		if r.d.cumulative {
			r.last = append(r.last[:0], r.said.text...)
		}
		r.keepPieces()
	}
	r.takeFacts()
}

// takeFacts takes over all but the output itself. Of a count the last report
// stands; it is never added to an earlier one.
func (r *reading) takeFacts() {
	s, rec := &r.said, r.rec
	r.known = r.known || s.known
	r.done = r.done || s.done
	r.finished = r.finished || s.final
	r.several = r.several || s.choice > 0
	r.takeIDs()
	if s.second.IsKnown() {
		r.second = s.second
	}
	if n, ok := s.completion.Get(); ok {
		if before, _ := r.completion.Get(); n < before && !r.several {
			rec.Flags |= probes.UsageNotMonotone
		}
		r.completion = s.completion
	}
	r.takePrompt()
	if s.thought.IsKnown() {
		rec.ReasoningTokens = s.thought
	}
	if s.accept.IsKnown() {
		rec.AcceptLength = s.accept
	}
	if s.prefill.IsKnown() {
		rec.ServerPrefill = s.prefill
	}
	if s.decode.IsKnown() {
		rec.ServerDecode = s.decode
	}
	if len(s.model) > 0 && r.model != "" && !rec.Flags.Has(probes.OtherModel) && !sameText(s.model, r.model) {
		rec.Flags |= probes.OtherModel
	}
	r.takeFinish()
}

// takePrompt takes the counts of the prompt.
func (r *reading) takePrompt() {
	s, rec := &r.said, r.rec
	if s.cached.IsKnown() {
		rec.CachedTokens = s.cached
	}
	prompt := s.prompt
	if r.d.splitPrompt {
		// Each part stands until it is reported again; not every report has all.
		for _, part := range []struct{ from, into *probes.Optional[int] }{{&s.prompt, &r.fresh}, {&s.created, &r.created}, {&s.cached, &r.cached}} {
			if part.from.IsKnown() {
				*part.into = *part.from
			}
		}
		fresh, ok := r.fresh.Get()
		created, _ := r.created.Get()
		cached, _ := r.cached.Get()
		if prompt = r.fresh; ok {
			prompt = probes.Known(fresh + created + cached)
		}
	}
	// Some servers put a usage of zeros in every chunk until the last.
	if n, ok := prompt.Get(); ok && n > 0 {
		rec.PromptTokens = prompt
	}
}

// takeIDs counts the token ids that came.
func (r *reading) takeIDs() {
	if r.said.ids > 0 {
		r.ids += r.said.ids
		r.lastIDs = r.said.ids
	}
}

// takeFinish takes the reason for the end; some of them are failures.
func (r *reading) takeFinish() {
	s, rec := &r.said, r.rec
	if len(s.finish) == 0 {
		return
	}
	r.finished = true
	if string(s.finish) != rec.FinishReason {
		rec.FinishReason = oneLine(string(jsonscan.AppendUnquoted(nil, s.finish)), 64)
	}
	if rec.FinishReason == "abort" || rec.FinishReason == "error" {
		text := "the server ended the answer with finish reason " + rec.FinishReason
		if len(s.abortText) > 0 {
			text += ": " + string(jsonscan.AppendUnquoted(nil, s.abortText))
		}
		r.fail(text)
	}
}

// credit is how many tokens the current token event brought, those included that
// printed nothing before it; 0 when it cannot be told. A count says nothing about
// one chunk when the chunk before it came without: it may be the final usage on
// the last chunk, which covers them all.
func (r *reading) credit() int32 {
	n, ok := r.said.completion.Get()
	if !ok || n == 0 || r.several {
		r.synced = false
		return 0
	}
	grown := n - r.credited
	if grown == 0 && r.synced && r.d.countsAhead {
		return r.share()
	}
	exact := r.synced && grown > 0
	r.synced, r.credited = true, n
	if !exact {
		return 0
	}
	r.burst = len(r.rec.Chunks)
	return int32(min(grown, 1<<30))
}

// share gives the current token event one of the tokens that were accounted to the
// first event of its burst. What is left there are tokens that printed nothing.
func (r *reading) share() int32 {
	if r.burst >= len(r.rec.Chunks) || r.rec.Chunks[r.burst].Tokens < 2 {
		return 0
	}
	r.rec.Chunks[r.burst].Tokens--
	return 1
}

// progress decides whether an event of a cumulative dialect is a token event: it
// has text, and the completion count has grown since the last one. Without a count
// the text must have changed. A text may shrink: stop strings are trimmed, halves
// of characters repaired.
func (r *reading) progress() bool {
	if !r.said.answer {
		return false
	}
	n, counted := r.said.completion.Get()
	grown := n > r.credited
	if !counted {
		grown = !bytes.Equal(r.said.text, r.last) || len(r.said.text) == 0
	}
	if r.keepText || !counted {
		r.keepCumulative(r.said.text, grown, counted && r.said.ids == n)
	}
	return grown
}

// keepCumulative keeps a text that either repeats all before it or continues it.
// Servers do not say which; what most events look like decides. allIDs: the event
// holds the ids of all tokens so far, so its text is whole too.
func (r *reading) keepCumulative(text []byte, grown, allIDs bool) {
	if len(text) == 0 {
		return
	}
	if len(r.last) > 0 && grown && r.repeats+r.continues < modeVotes {
		if allIDs || bytes.HasPrefix(text, r.last) || bytes.HasPrefix(r.last, text) {
			r.repeats++
		} else {
			r.continues++
		}
	}
	settled := r.repeats+r.continues >= modeVotes
	if grown && r.keepText && !(settled && r.cumulative()) {
		r.joined = jsonscan.AppendUnquoted(r.joined, text)
	}
	r.last = append(r.last[:0], text...)
}

func (r *reading) cumulative() bool { return r.repeats >= r.continues }

func (r *reading) keepPieces() {
	for _, p := range r.said.pieces {
		i := min(p.choice, maxChoices-1)
		for len(r.texts) <= i {
			if len(r.texts) < cap(r.texts) {
				r.texts = r.texts[:len(r.texts)+1]
				r.texts[len(r.texts)-1] = r.texts[len(r.texts)-1][:0]
			} else {
				r.texts = append(r.texts, nil)
			}
		}
		r.texts[i] = jsonscan.AppendUnquoted(r.texts[i], p.raw)
	}
}

// text is the answer's text; those of several choices are separated by a line feed.
func (r *reading) text() string {
	switch {
	case !r.keepText:
		return ""
	case !r.d.cumulative:
		return string(bytes.Join(r.texts, []byte{'\n'}))
	case r.cumulative():
		return string(jsonscan.AppendUnquoted(nil, r.last))
	}
	return string(r.joined)
}

// settle writes what only the end can tell: the text and the counts.
func (r *reading) settle() {
	rec := r.rec
	rec.Text = r.text()
	if cached, prompt := rec.CachedTokens, rec.PromptTokens; cached.IsKnown() && prompt.IsKnown() && cached.Or(0) > prompt.Or(0) {
		rec.CachedTokens = probes.Optional[int]{} // more than there are is no count of a part
	}
	n, ok := r.completion.Get()
	if !ok || (n == 0 && r.output) {
		// A count of zero beside output is a server's placeholder, not a count.
		return
	}
	rec.OutputTokens, rec.OutputSource = probes.Known(n), probes.TokensServer
	if !r.countsAgree(n) {
		rec.Flags |= probes.CountMismatch
	}
	if n != len(rec.Chunks) || r.perChunk() {
		return
	}
	for _, c := range rec.Chunks {
		if c.Tokens > 0 {
			return
		}
	}
	// As many token events as tokens: each brought one.
	for i := range rec.Chunks {
		rec.Chunks[i].Tokens = 1
	}
}

// countsAgree compares the count of a finished answer with whatever else counts the
// same tokens: a second figure, or the ids that came with them. Ids may be those of one
// event or, as texts, all so far.
func (r *reading) countsAgree(n int) bool {
	switch {
	case !r.finished || r.failed:
		return true
	case r.several:
		return n >= len(r.rec.Chunks) // fewer is the count of one choice
	}
	if second, ok := r.second.Get(); ok && second != n {
		return false
	}
	return r.ids == 0 || r.ids == n || r.lastIDs == n
}

// sameText compares a raw JSON string with a text.
func sameText(raw []byte, text string) bool {
	if string(raw) == text {
		return true
	}
	return bytes.IndexByte(raw, '\\') >= 0 && string(jsonscan.AppendUnquoted(nil, raw)) == text
}
