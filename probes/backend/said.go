package backend

import (
	"time"

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
	choices   bool    // OpenAI's dialects: it holds a choice, with or without output
	pieces    []piece // answer text; a tool call has none
	text      []byte  // cumulative dialects: the text field
	ids       int     // cumulative dialects: how many token ids came with it
	failed    bool    // it reports an error; failureText reads it
	done      bool    // it is the end mark
	final     bool    // it is the last of its answer, whether a reason is given or not
	finish    []byte
	abortText []byte // what came with an abort
	model     []byte
	choice    int // the highest index of a choice

	completion, prompt, cached, thought probes.Optional[int]

	second  probes.Optional[int] // another count of what completion counts
	created probes.Optional[int] // prompt tokens that the cache took

	accept          probes.Optional[float64]
	prefill, decode probes.Optional[time.Duration] // the server's own times
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

// number takes a number. Null and the like leave it as it was.
func number(s *jsonscan.Scanner, into *probes.Optional[float64]) {
	if v, ok := s.Float(); ok {
		*into = probes.Known(v)
	}
}

// isTrue takes a value and reports whether it is the literal true.
func isTrue(s *jsonscan.Scanner) bool {
	yes := s.Peek() == 't'
	s.Skip()
	return yes
}

// memberString takes an object for one string in it.
func memberString(s *jsonscan.Scanner, name string) (value []byte) {
	if !s.Object() {
		return nil
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		if string(key) == name {
			value, _ = s.String()
		} else {
			s.Skip()
		}
	}
	return value
}

// addPiece takes a string of answer text.
func (d *said) addPiece(s *jsonscan.Scanner) {
	if raw, ok := s.String(); ok {
		d.addText(raw)
	}
}

// addText adds a raw string of answer text.
func (d *said) addText(raw []byte) {
	if len(raw) > 0 {
		d.answer = true
		d.pieces = append(d.pieces, piece{raw: raw})
	}
}

// setChoice says which choice the pieces from first on belong to. Some servers write
// the index behind the text.
func (d *said) setChoice(first, index int) {
	for i := first; i < len(d.pieces); i++ {
		d.pieces[i].choice = index
	}
	d.choice = max(d.choice, index)
}

// takeCommon takes a member that means the same in many dialects: who answers, and that
// it failed. Any other is passed over.
func (d *said) takeCommon(s *jsonscan.Scanner, key []byte) {
	switch string(key) {
	case "model":
		d.model, _ = s.String()
	case "error":
		d.failed = failure(s) || d.failed
	default:
		s.Skip()
	}
}

// takeFinish takes a finish reason; null and "" are none.
func (d *said) takeFinish(s *jsonscan.Scanner) {
	if raw, ok := s.String(); ok && len(raw) > 0 {
		d.finish = raw
	}
}
