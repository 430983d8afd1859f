package workload

import (
	"context"
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// verifyAll is up to how many prompts every one is verified; of more, a sample
	// of verifySample is.
	verifyAll    = 64
	verifySample = 32
	// trustAfter confirmed prompts, one prompt per run is enough to notice that
	// the server has another tokenizer now.
	trustAfter = 64
	// unknownCount is how many prompts are prepared when nobody knows how many
	// will be sent.
	unknownCount = 32
	// preparedBytes bounds the text that is held ready; later prompts are composed
	// when they are asked for.
	preparedBytes = 64 << 20
	// fixRounds bounds the attempts to correct one prompt's length.
	fixRounds = 5
)

// wordTrace is the random dataset: plain words, so many that the server counts the
// drawn length.
type wordTrace struct {
	workload probes.Workload
	salter   salter
	learnt   *calibration
	source   probes.TokenSource // of prompts that were not verified one by one
	ready    map[int]prompt
	// inexact says why some lengths are approx; estimated that no text was made
	// with the tokenizer's help.
	inexact   error
	estimated bool
}

func openWords(ctx context.Context, w probes.Workload, o Options) (*wordTrace, error) {
	t := &wordTrace{workload: w, salter: newSalter(w.Seed, o.Salt)}
	if o.Count == 0 {
		o.Count = unknownCount
	}
	if err := t.learn(ctx, o); err != nil {
		return nil, err
	}
	t.prepare(o)
	return t, nil
}

// learn gets a calibration that verified prompts do not contradict. One that was
// remembered gives way to a new one when a prompt misses its length.
func (t *wordTrace) learn(ctx context.Context, o Options) error {
	if o.Tokenizer == nil {
		t.learnt, t.source = estimated(), probes.TokensApprox
		return nil
	}
	learnt, verified := o.Cache.get()
	remembered := learnt != nil
	for {
		if learnt == nil {
			var err error
			if learnt, err = calibrate(ctx, o.Tokenizer); err != nil {
				if ctx.Err() != nil || t.workload.TokenIDs {
					return err
				}
				t.learnt, t.source = estimated(), probes.TokensApprox
				t.inexact, t.estimated = err, true
				return nil
			}
		}
		if t.workload.TokenIDs {
			// Ids need no verification: the server is given them, not a text.
			t.learnt, t.source = learnt, probes.TokensServer
			o.Cache.put(learnt, verified)
			return nil
		}
		hits, misses, err := t.verify(ctx, o, learnt, verified)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && misses == 0:
			o.Cache.put(learnt, verified+hits)
			return nil
		case remembered && misses > 0:
			learnt, verified, remembered = nil, 0, false
		case remembered:
			// It does not answer now; what it has said before still holds.
			return nil
		case err != nil:
			t.source, t.inexact = probes.TokensApprox, err
			return nil
		default:
			t.inexact = fmt.Errorf("verify prompts: %d of %d missed their length before they were corrected", misses, misses+hits)
			return nil
		}
	}
}

// verify lets the tokenizer count prompts as they will be sent and corrects those
// that miss their length. Any miss makes the prompts that were not counted approx.
func (t *wordTrace) verify(ctx context.Context, o Options, learnt *calibration, verified int) (hits, misses int, err error) {
	t.learnt, t.source, t.ready = learnt, probes.TokensClient, map[int]prompt{}
	for _, index := range verifyIndices(o.Count, o.Warmup, verified) {
		p, hit, err := t.exact(ctx, o.Tokenizer, index)
		if err != nil {
			return hits, misses, err
		}
		t.ready[index] = p
		if hit {
			hits++
		} else {
			misses++
			t.source = probes.TokensApprox
		}
	}
	return hits, misses, nil
}

// verifyIndices chooses the prompts to count: all, or a sample spread evenly over
// the measured ones.
func verifyIndices(count, warmup, verified int) []int {
	var indices []int
	switch {
	case verified >= trustAfter:
		indices = append(indices, 0)
	case count+warmup <= verifyAll:
		for i := range count {
			indices = append(indices, i)
		}
		for i := range warmup {
			indices = append(indices, warmupIndex(i))
		}
	default:
		n := min(verifySample, count)
		for i := range n {
			indices = append(indices, i*count/n)
		}
	}
	return indices
}

// exact composes a prompt and adds or removes words until the tokenizer agrees. A
// prompt that cannot be brought to its length keeps it as an estimate, so that the
// lengths of a trace stay the same. hit reports that nothing had to be changed.
func (t *wordTrace) exact(ctx context.Context, tok Tokenizer, index int) (p prompt, hit bool, err error) {
	extra := 0
	for round := range fixRounds {
		p = t.compose(index, extra)
		ids, err := tok.Tokenize(ctx, p.text)
		if err != nil {
			return p, false, err
		}
		if len(ids) == p.tokens {
			p.source = probes.TokensClient
			return p, round == 0, nil
		}
		extra += p.tokens - len(ids)
	}
	p = t.compose(index, 0)
	p.source = probes.TokensApprox
	return p, false, nil
}

// prepare composes what was not verified, as far as memory allows.
func (t *wordTrace) prepare(o Options) {
	if t.ready == nil {
		t.ready = map[int]prompt{}
	}
	held := 0
	hold := func(index int) {
		if _, ok := t.ready[index]; !ok && held < preparedBytes {
			p := t.compose(index, 0)
			held += len(p.text) + 8*len(p.ids)
			t.ready[index] = p
		}
	}
	for i := range o.Warmup {
		hold(warmupIndex(i))
	}
	for i := range o.Count {
		hold(i)
	}
}

func (t *wordTrace) prompt(index int) (prompt, bool) {
	if p, ok := t.ready[index]; ok {
		delete(t.ready, index) // each index is asked for once
		return p, true
	}
	return t.compose(index, 0), true
}

// compose writes the prompt of an index, with extra words more than the calibration
// asks for.
func (t *wordTrace) compose(index, extra int) prompt {
	w, c := &t.workload, t.learnt
	in := length(w.Seed, forInputLength, index, w.InputTokens, w.RangeRatio)
	words := max(in-c.fixed(), 0)
	p := prompt{
		tokens: c.fixed() + words,
		source: t.source,
		output: length(w.Seed, forOutputLength, index, w.OutputTokens, w.RangeRatio),
	}
	words = max(words+extra, 0)

	var head [headSize]int
	t.salter.head(head[:min(words, headSize)], index, len(c.words))
	body := newSequence(w.Seed, forBody, index)
	out := newWordWriter(w.TokenIDs, c, words)
	for i := range words {
		out.add(pick(&head, &body, i, len(c.words)))
	}
	p.text, p.ids = out.finish()
	return p
}

// pick chooses word i of a prompt: from the salted head first, then from the body.
func pick(head *[headSize]int, body *sequence, i, words int) int {
	if i < headSize {
		return head[i]
	}
	return body.below(words)
}
