package backend

import (
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// said is what one event said. It is only taken over once the whole event has
// proved to be legal JSON. Its slices point into the event, strings still have
// their escapes.
type said struct {
	known     bool // it has the shape of an answer in this dialect
	answer    bool // non-empty output other than reasoning
	reasoning bool
	pieces    []piece // answer text; a tool call has none
	text      []byte  // cumulative dialects: the text field
	ids       int     // cumulative dialects: how many token ids came with it
	failed    bool    // it reports an error; failureText reads it
	finish    []byte
	abortText []byte // what came with an abort
	model     []byte
	choice    int // the highest index of a choice

	completion, prompt, cached, thought probes.Optional[int]

	accept probes.Optional[float64]
}

// piece is a part of the text of one choice.
type piece struct {
	choice int
	raw    []byte
}

func (d *said) reset() { *d = said{pieces: d.pieces[:0]} }

// count takes a token count. Null and the like leave it as it was.
func count(s *jsonscan.Scanner, into *probes.Optional[int]) {
	if n, ok := s.Int(); ok && n >= 0 {
		*into = probes.Known(n)
	}
}

// nonEmpty takes a string and reports whether it holds anything.
func nonEmpty(s *jsonscan.Scanner) bool {
	raw, ok := s.String()
	return ok && len(raw) > 0
}

// failure takes the value of an error field and reports whether it is one: null,
// false and "" are not.
func failure(s *jsonscan.Scanner) bool {
	switch s.Peek() {
	case '"':
		return nonEmpty(s)
	case '{', '[', 't':
		s.Skip()
		return true
	}
	s.Skip()
	return false
}

// acceptLength takes the tokens per verify step; 0 stands for "no speculation".
func acceptLength(s *jsonscan.Scanner, out *said) {
	if length, ok := s.Float(); ok && length > 0 {
		out.accept = probes.Known(length)
	}
}
