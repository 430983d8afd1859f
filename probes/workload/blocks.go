package workload

import (
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// DefaultBlockTokens is what one hash id of a mooncake trace stands for.
const DefaultBlockTokens = 512

// composer makes up prompts of a given length out of plain words. Token p of a
// prompt depends on what stands for its block alone, so that prompts whose hash ids
// begin alike begin alike, token for token, and no others do.
type composer struct {
	seed   int64
	learnt *calibration
	source probes.TokenSource
	ids    bool // prompts are token ids
	block  int
	// Rows without hash ids have heads of their own: another start keeps them apart.
	byID, byRow salter
}

func newComposer(w probes.Workload, salt string, learnt *calibration, source probes.TokenSource) *composer {
	c := &composer{
		seed: w.Seed, learnt: learnt, source: source, ids: w.TokenIDs, block: w.Trace.BlockTokens,
		byID: newSalter(w.Seed, salt), byRow: newSalter(w.Seed, salt+"\nrow"),
	}
	if c.block == 0 {
		c.block = DefaultBlockTokens
	}
	return c
}

// compose writes a prompt of input tokens. The first hashed of them belong to
// hashIDs, block by block; the others are the row's own.
func (c *composer) compose(hashIDs []int64, hashed, input, row int) prompt {
	l := c.learnt
	words := max(input-l.fixed(), 0)
	p := prompt{tokens: l.fixed() + words, source: c.source}
	radix := len(l.words)
	var head [headSize]int
	if len(hashIDs) > 0 {
		c.byID.head(head[:], int(hashIDs[0]), radix)
	} else {
		c.byRow.head(head[:], row, radix)
	}
	out := newWordWriter(c.ids, l, words)
	from, block := newSequence(c.seed, forBody, row), -1
	for i := range words {
		at := len(l.prefix) + i // the word's place among the tokens
		switch next := at / c.block; {
		case at >= hashed || next >= len(hashIDs):
			if block >= 0 || i == 0 {
				from, block = newSequence(c.seed, forTail, row), -1
			}
		case next != block:
			from, block = newSequence(c.seed, forBlock, int(hashIDs[next])), next
		}
		word := from.below(radix)
		if i < headSize {
			word = head[i]
		}
		out.add(word)
	}
	p.text, p.ids = out.finish()
	return p
}

// wordWriter writes words as a text, or as the ids of the same text.
type wordWriter struct {
	learnt *calibration
	asIDs  bool
	ids    []int
	text   strings.Builder
}

func newWordWriter(asIDs bool, learnt *calibration, words int) *wordWriter {
	w := &wordWriter{learnt: learnt, asIDs: asIDs}
	if asIDs {
		w.ids = append(make([]int, 0, learnt.fixed()+words), learnt.prefix...)
	} else {
		w.text.Grow(len(opener) + 7*words)
		w.text.WriteString(opener)
	}
	return w
}

func (w *wordWriter) add(word int) {
	if w.asIDs {
		w.ids = append(w.ids, w.learnt.ids[word])
		return
	}
	w.text.WriteByte(' ')
	w.text.WriteString(w.learnt.words[word])
}

func (w *wordWriter) finish() (text string, ids []int) {
	if w.asIDs {
		return "", append(w.ids, w.learnt.suffix...)
	}
	return w.text.String(), nil
}
