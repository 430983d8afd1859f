package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// lowestID is where random ids begin: below it, vocabularies keep their special
// tokens and single bytes. Vocabularies too small for that are used whole.
const lowestID = 256

// idTrace is the random-ids dataset: token j of request i is
// (offset_i + i + j) mod vocabulary, offset_i drawn from the seed, as
// bench_serving does, behind a salted head.
type idTrace struct {
	workload  probes.Workload
	salter    salter
	low, span int // ids are in [low, low+span)
}

func newIDTrace(w probes.Workload, salt string) *idTrace {
	t := &idTrace{workload: w, salter: newSalter(w.Seed, salt), span: w.VocabSize}
	if t.span == 0 {
		t.span = DefaultVocabSize
	}
	if t.span >= 2*lowestID {
		t.low, t.span = lowestID, t.span-lowestID
	}
	return t
}

func (t *idTrace) prompt(index int) (prompt, bool) {
	w := &t.workload
	n := length(w.Seed, forInputLength, index, w.InputTokens, w.RangeRatio)
	ids := make([]int, n)
	head := ids[:min(n, headSize)]
	t.salter.head(head, index, t.span)
	for j := range head {
		head[j] += t.low
	}
	t.body(ids, index, headSize)
	return prompt{
		ids: ids, tokens: n, source: probes.TokensServer,
		output: length(w.Seed, forOutputLength, index, w.OutputTokens, w.RangeRatio),
	}, true
}

// body fills ids from position j on.
func (t *idTrace) body(ids []int, index, j int) {
	draw := newSequence(t.workload.Seed, forOffset, index)
	at := draw.below(t.span) + max(index, -index)
	for ; j < len(ids); j++ {
		ids[j] = t.low + (at+j)%t.span
	}
}

// idTexts is random-ids sent as text: a head of salted words, a line break, and the
// decoded ids. Decoding and encoding again changes the number of tokens, so every
// body is counted and corrected when the source is opened. After the prepared bodies
// have been used they are used again, lengths included, behind heads of their own:
// new to a prefix cache, at no call.
type idTexts struct {
	ids    *idTrace
	learnt *calibration
	bodies []idBody
}

type idBody struct {
	words  int    // of the head
	text   string // after the head, line break included
	tokens int    // of the whole prompt
	source probes.TokenSource
	output int
}

func openIDTexts(ctx context.Context, w probes.Workload, o Options) (*idTexts, error) {
	if o.Tokenizer == nil {
		return nil, errors.New("tokenizer: random-ids as text needs the target's tokenizer, set token_ids: true or tokenizer: server on a backend that can tokenize")
	}
	learnt, verified := o.Cache.get()
	if learnt == nil {
		var err error
		if learnt, err = calibrate(ctx, o.Tokenizer); err != nil {
			return nil, err
		}
		o.Cache.put(learnt, verified)
	}
	t := &idTexts{ids: newIDTrace(w, o.Salt), learnt: learnt}
	if o.Count == 0 {
		o.Count = unknownCount
	}
	for i := range o.Count {
		b, err := t.write(ctx, o.Tokenizer, i)
		if err != nil {
			return nil, fmt.Errorf("decode random ids: %w; set token_ids: true or dataset: random", err)
		}
		t.bodies = append(t.bodies, b)
	}
	return t, nil
}

// write decodes the body of one index. It drops ids while the tokenizer counts too
// many tokens and fills what is missing with plain words.
func (t *idTexts) write(ctx context.Context, tok Tokenizer, index int) (idBody, error) {
	w := &t.ids.workload
	fixed := t.learnt.fixed()
	n := max(length(w.Seed, forInputLength, index, w.InputTokens, w.RangeRatio), fixed)
	b := idBody{
		words: min(n-fixed, headSize), tokens: n, source: probes.TokensClient,
		output: length(w.Seed, forOutputLength, index, w.OutputTokens, w.RangeRatio),
	}
	if n-fixed <= headSize {
		return b, nil
	}
	ids := make([]int, n-fixed-headSize-1) // the line break is a token too
	t.ids.body(ids, index, 0)
	filler := newSequence(w.Seed, forBody, index)
	for range 2 * fixRounds {
		text, err := tok.Detokenize(ctx, ids)
		if err != nil {
			return b, err
		}
		b.text = "\n" + text
		got, err := tok.Tokenize(ctx, t.text(index, b))
		if err != nil {
			return b, err
		}
		if missing := n - len(got); missing > 0 {
			for range missing {
				b.text += " " + t.learnt.words[filler.below(len(t.learnt.words))]
			}
			if got, err = tok.Tokenize(ctx, t.text(index, b)); err != nil {
				return b, err
			}
		}
		if len(got) == n {
			return b, nil
		}
		ids = ids[:max(0, len(ids)-max(1, len(got)-n))]
	}
	b.source = probes.TokensApprox
	return b, nil
}

func (t *idTexts) text(index int, b idBody) string {
	return headText(t.learnt, t.ids.salter, index, b.words) + b.text
}

func (t *idTexts) prompt(index int) (prompt, bool) {
	b := t.bodies[max(index, warmupIndex(index))%len(t.bodies)]
	return prompt{text: t.text(index, b), tokens: b.tokens, source: b.source, output: b.output}, true
}

// headText is the opener and the salted words of one index.
func headText(learnt *calibration, s salter, index, words int) string {
	var head [headSize]int
	s.head(head[:words], index, len(learnt.words))
	var text strings.Builder
	text.WriteString(opener)
	for _, word := range head[:words] {
		text.WriteByte(' ')
		text.WriteString(learnt.words[word])
	}
	return text.String()
}
