package fakellm

// draft is what every renderer knows of its answer.
type draft struct {
	x *exchange
	n int // tokens so far

	// What an answer that is not streamed is made of; plain ASCII but for escaped
	// quotes in the arguments, so also its JSON.
	thought, text, arguments []byte
}

// collect keeps the next n tokens for an answer in one piece.
func (d *draft) collect(n int) {
	a := &d.x.seq.answer
	from, border, to := d.advance(n)
	d.thought = a.appendText(d.thought, from, border)
	if d.x.ask.tool != "" {
		d.arguments = a.appendArguments(d.arguments, max(border, a.reasoning+1), to)
		return
	}
	d.text = a.appendText(d.text, border, to)
}

// advance counts n tokens. Of those in [from, to) the ones before the border are
// reasoning.
func (d *draft) advance(n int) (from, border, to int) {
	from, to = d.n, d.n+n
	d.n = to
	return from, min(max(d.x.seq.answer.reasoning, from), to), to
}

// reasoned is how many tokens of reasoning there were.
func (d *draft) reasoned() int { return min(d.x.seq.answer.reasoning, d.n) }

// called reports whether the answer became a complete tool call.
func (d *draft) called() bool { return d.x.ask.tool != "" && d.x.seq.answer.stops }

// model is the name that the answer carries.
func (x *exchange) model() string {
	if _, ok := x.faults.find(WrongModel); ok {
		return "another-model"
	}
	return x.answeringModel()
}

// cached is how much of the prompt was in the prefix cache.
func (x *exchange) cached() int { return x.seq.cached }
