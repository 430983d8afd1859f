package workload

import (
	"context"
	"math"

	"github.com/inferbeat/inferbeat/probes"
)

// groupTrace is generated-shared-prefix: groups of prompts that have a system prompt
// in common and a question each of their own. The system prompts are salted, so that
// a group shares its prefix within a run and never with an earlier one.
//
// Prompts come in a shuffled order unless they are to be ordered, so that a group's prefix has to survive in the
// cache until it is asked for again. A system prompt's length includes what the
// server puts before a text, a question's what it puts behind it.
type groupTrace struct {
	workload probes.Workload
	salter   salter
	words    *wordTrace // of the calibration
	order    []int32    // shuffled slots
	popular  []float64  // running sum of the groups' shares; nil when all are equal
}

func openGroups(ctx context.Context, w probes.Workload, o Options) (*groupTrace, error) {
	tried := w
	tried.InputTokens, tried.OutputTokens, tried.RangeRatio = w.Groups.SystemTokens+w.Groups.QuestionTokens, 1, 1
	words := &wordTrace{workload: tried, salter: newSalter(w.Seed, o.Salt)}
	total := w.Groups.Count * w.Groups.PromptsOfEach
	o.Count, o.Warmup = min(4, total), 0
	if err := words.learn(ctx, o); err != nil {
		return nil, err
	}
	t := &groupTrace{workload: w, salter: newSalter(w.Seed, o.Salt), words: words, order: make([]int32, total)}
	shuffle := newSequence(w.Seed, forShuffle, 0)
	for i := range t.order {
		j := shuffle.below(i + 1)
		t.order[i], t.order[j] = t.order[j], int32(i)
	}
	if w.Groups.Ordered {
		for i := range t.order {
			t.order[i] = int32(i)
		}
	}
	if alpha := w.Groups.ZipfAlpha; alpha > 0 {
		t.popular = make([]float64, w.Groups.Count)
		sum := 0.0
		for k := range t.popular {
			sum += math.Pow(float64(k+1), -alpha)
			t.popular[k] = sum
		}
	}
	return t, nil
}

// group is the group of a slot. Its draw is a random number of its own, so that
// another popularity changes no text.
func (t *groupTrace) group(slot int) int {
	if t.popular == nil {
		return slot / t.workload.Groups.PromptsOfEach
	}
	draw := newSequence(t.workload.Seed, forGroup, slot)
	return weighted(&draw, t.popular)
}

// prompt gives warm-up requests groups of their own: they must not compute the
// prefix of a measured one.
func (t *groupTrace) prompt(index int) (prompt, bool) {
	slot, group := index, index
	if index >= 0 {
		if index >= len(t.order) {
			return prompt{}, false
		}
		slot = int(t.order[index])
		group = t.group(slot)
	}
	g, l := &t.workload.Groups, t.words.learnt
	seed := t.workload.Seed
	system := length(seed, forGroup, group, g.SystemTokens, g.RangeRatio)
	question := length(seed, forInputLength, slot, g.QuestionTokens, g.RangeRatio)
	words := max(system+question-l.fixed(), 0)
	p := prompt{
		tokens: l.fixed() + words, source: t.words.source,
		output: length(seed, forOutputLength, slot, g.OutputTokens, g.RangeRatio),
	}
	shared := min(words, max(system-len(l.prefix), 0))
	var head [headSize]int
	t.salter.head(head[:], group, len(l.words))
	out := newWordWriter(t.workload.TokenIDs, l, words)
	common, own := newSequence(seed, forGroupBody, group), newSequence(seed, forBody, slot)
	for i := range words {
		switch {
		case i < min(headSize, shared):
			out.add(head[i])
		case i < shared:
			out.add(common.below(len(l.words)))
		default:
			out.add(own.below(len(l.words)))
		}
	}
	p.text, p.ids = out.finish()
	return p, true
}
