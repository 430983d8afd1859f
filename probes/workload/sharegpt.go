package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
)

// minTurnTokens is bench_serving's lower limit for a prompt and for an answer,
// special tokens not counted.
const minTurnTokens = 2

// headBreak parts a salted head from the row's own text.
const headBreak = "\n\n"

// rowTrace is the sharegpt dataset, by bench_serving's rules: rows with at least two
// turns, shuffled by the seed; the first turn is the prompt, the second one's length
// the output length; rows that are too short, or too long for context_tokens, are
// left out. A salted run puts one line of words before each prompt, which counts as
// part of it. Measured rows are drawn from the front of the shuffled order, warm-up
// rows from its end, so that neither depends on how many the other needs.
type rowTrace struct {
	workload probes.Workload
	salter   salter
	salted   bool
	index    *rowIndex
	order    []int32 // shuffled rows; front and back are the undrawn ones
	front    int
	back     int

	tokenizer Tokenizer // nil once lengths are estimates
	learnt    *calibration
	headCost  int // tokens of a prompt that are not the row's own

	measured, warm []prompt // drawn by openRows
	inexact        error
	skipped        int // rows that could not be read
	err            error
}

func openRows(ctx context.Context, w probes.Workload, o Options) (*rowTrace, error) {
	index, err := o.Files.open(w.Path)
	if err != nil {
		return nil, err
	}
	t := &rowTrace{
		workload: w, salter: newSalter(w.Seed, o.Salt), salted: o.Salt != "",
		index: index, order: make([]int32, len(index.rows)), back: len(index.rows),
		tokenizer: o.Tokenizer, learnt: estimated(),
	}
	shuffle := newSequence(w.Seed, forShuffle, 0)
	for i := range t.order {
		j := shuffle.below(i + 1)
		t.order[i], t.order[j] = t.order[j], int32(i)
	}
	if o.Count == 0 {
		o.Count = unknownCount
	}
	if err := t.learn(ctx, o); err != nil {
		return nil, err
	}
	for len(t.measured) < o.Count {
		p, ok := t.draw(ctx, len(t.measured))
		if !ok {
			break
		}
		t.measured = append(t.measured, p)
	}
	for len(t.warm) < o.Warmup && t.err == nil {
		p, ok := t.draw(ctx, warmupIndex(len(t.warm)))
		if !ok {
			break
		}
		t.warm = append(t.warm, p)
	}
	// From here on nothing may be asked any more: a run is being measured.
	t.tokenizer = nil
	return t, t.err
}

func (t *rowTrace) failure() error { return t.err }

// learn finds out what is added around a text, and what the salted line costs.
func (t *rowTrace) learn(ctx context.Context, o Options) error {
	if t.tokenizer != nil {
		learnt, verified := o.Cache.get()
		var err error
		if learnt == nil {
			learnt, err = calibrate(ctx, t.tokenizer)
		}
		if err == nil {
			var ids []int
			if ids, err = t.tokenizer.Tokenize(ctx, t.head(0, learnt)+opener); err == nil {
				o.Cache.put(learnt, verified)
				t.learnt, t.headCost = learnt, len(ids)-1
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.doubt(err)
	}
	if t.salted {
		t.headCost = 1 + headSize
	}
	return nil
}

// doubt turns to estimates: a target that does not answer is not asked again for
// every row.
func (t *rowTrace) doubt(err error) { t.tokenizer, t.inexact = nil, err }

func (t *rowTrace) head(index int, learnt *calibration) string {
	if !t.salted {
		return ""
	}
	return headText(learnt, t.salter, index, headSize) + headBreak
}

func (t *rowTrace) prompt(index int) (prompt, bool) {
	held, i := t.measured, index
	if index < 0 {
		held, i = t.warm, warmupIndex(index)
	}
	if i < len(held) {
		return held[i], true
	}
	if t.err != nil {
		return prompt{}, false
	}
	return t.draw(context.Background(), index)
}

// draw takes the next usable row from its end of the order. It returns false when
// the rows are used up or cannot be read; t.err tells which.
func (t *rowTrace) draw(ctx context.Context, index int) (prompt, bool) {
	for t.front < t.back {
		var row int
		if index >= 0 {
			row = int(t.order[t.front])
			t.front++
		} else {
			t.back--
			row = int(t.order[t.back])
		}
		asked, answered, err := t.turns(row)
		if bad := (badRow{}); t.workload.SkipBadRows && errors.As(err, &bad) {
			t.skipped++
			continue
		}
		if err != nil {
			t.err = err
			return prompt{}, false
		}
		if answered == "" {
			continue
		}
		p, keep, err := t.measure(ctx, index, asked, answered)
		if err != nil {
			t.err = err
			return prompt{}, false
		}
		if keep {
			return p, true
		}
	}
	return prompt{}, false
}

// badRow is what is wrong with a row alone, and not with its file.
type badRow struct{ error }

func (t *rowTrace) skippedRows() int { return t.skipped }

// turns decodes the first two turns of a row. A row with fewer has no answer.
func (t *rowTrace) turns(row int) (asked, answered string, err error) {
	text, err := t.index.read(row)
	if err != nil {
		return "", "", err
	}
	type turn struct {
		Value string `json:"value"`
	}
	var element struct {
		Conversations []turn `json:"conversations"`
		Conversation  []turn `json:"conversation"`
	}
	if err := json.Unmarshal(text, &element); err != nil {
		return "", "", badRow{fmt.Errorf("read %s: element %d (byte %d): %w", t.index.path, row+1, t.index.rows[row].start, err)}
	}
	turns := element.Conversations
	if turns == nil {
		turns = element.Conversation
	}
	if len(turns) < 2 {
		return "", "", nil
	}
	return turns[0].Value, turns[1].Value, nil
}

// measure counts a row and applies the limits. Its error is the end of ctx only.
func (t *rowTrace) measure(ctx context.Context, index int, asked, answered string) (p prompt, keep bool, err error) {
	p.text = t.head(index, t.learnt) + asked
	p.source = probes.TokensClient
	p.output = t.workload.FixedOutputTokens
	if t.tokenizer != nil {
		p.tokens, err = t.count(ctx, p.text)
		if err == nil && p.output == 0 {
			p.output, err = t.count(ctx, answered)
			p.output -= t.learnt.overhead()
		}
		if err != nil {
			if ctx.Err() != nil {
				return p, false, ctx.Err()
			}
			t.doubt(err)
		}
	}
	if t.tokenizer == nil {
		p.source = probes.TokensApprox
		p.tokens = t.headCost + estimateTokens(asked)
		if p.output = t.workload.FixedOutputTokens; p.output == 0 {
			p.output = estimateTokens(answered)
		}
	}
	keep = p.tokens-t.headCost >= minTurnTokens && p.output >= minTurnTokens &&
		(t.workload.ContextTokens == 0 || p.tokens+p.output <= t.workload.ContextTokens)
	return p, keep, nil
}

func (t *rowTrace) count(ctx context.Context, text string) (int, error) {
	ids, err := t.tokenizer.Tokenize(ctx, text)
	return len(ids), err
}

// estimateTokens is one token per four bytes, rounded up: about right for English,
// and for scripts whose letters take three bytes.
func estimateTokens(text string) int { return (len(text) + 3) / 4 }
