package workload

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/inferbeat/inferbeat/probes"
)

// textTrace is the text dataset: each prompt is a piece of a text file, such as
// Shakespeare's sonnets, from a random place on, behind a salted line. Before the run
// the pieces are cut to their exact length with the tokenizer; when more are asked
// than were prepared, later ones are cut by the ratio seen until then.
type textTrace struct {
	workload probes.Workload
	salter   salter
	file     *os.File
	size     int64
	learnt   *calibration
	// bytesPerToken is what the file's text has, by the tokenizer or by estimate.
	bytesPerToken float64
	ready         map[int]prompt
	inexact       error
	err           error
}

func (t *textTrace) failure() error { return t.err }
func (t *textTrace) close() error   { return t.file.Close() }

func openText(ctx context.Context, w probes.Workload, o Options) (*textTrace, error) {
	f, err := os.Open(w.Path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	t := &textTrace{workload: w, salter: newSalter(w.Seed, o.Salt), file: f, learnt: estimated(), bytesPerToken: 4, ready: map[int]prompt{}}
	if err := t.prepare(ctx, o); err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

func (t *textTrace) prepare(ctx context.Context, o Options) error {
	info, err := t.file.Stat()
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if t.size = info.Size(); t.size == 0 {
		return fmt.Errorf("read %s: is empty", t.workload.Path)
	}
	if o.Tokenizer == nil {
		return nil
	}
	learnt, verified := o.Cache.get()
	if learnt == nil {
		if learnt, err = calibrate(ctx, o.Tokenizer); err != nil {
			t.inexact = err
			return ctx.Err()
		}
		o.Cache.put(learnt, verified)
	}
	t.learnt = learnt
	if o.Count == 0 {
		o.Count = unknownCount
	}
	held := 0
	for i := -o.Warmup; i < o.Count && held < preparedBytes; i++ {
		p, err := t.exact(ctx, o.Tokenizer, i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.inexact = err
			return nil
		}
		t.ready[i] = p
		held += len(p.text)
	}
	return t.err
}

func (t *textTrace) prompt(index int) (prompt, bool) {
	if p, ok := t.ready[index]; ok {
		delete(t.ready, index)
		return p, true
	}
	p := t.shape(index)
	text, err := t.piece(index, int(float64(p.tokens)*t.bytesPerToken))
	if err != nil {
		t.err = err
		return prompt{}, false
	}
	head := t.head(index, p.tokens)
	p.text = head + text[:max(0, len(text)-len(head))]
	return p, true
}

// shape is the prompt of an index without its text.
func (t *textTrace) shape(index int) prompt {
	w := &t.workload
	return prompt{
		tokens: length(w.Seed, forInputLength, index, w.InputTokens, w.RangeRatio),
		output: length(w.Seed, forOutputLength, index, w.OutputTokens, w.RangeRatio),
		source: probes.TokensApprox,
	}
}

// head is the salted line, as long as the prompt allows.
func (t *textTrace) head(index, tokens int) string {
	words := min(max(tokens-t.learnt.fixed()-1, 0), headSize)
	return headText(t.learnt, t.salter, index, words) + headBreak
}

// exact cuts the piece of an index until the tokenizer agrees: by the ratio of
// tokens to bytes as long as much is wrong, and with plain words, which are one
// token each, for the rest.
func (t *textTrace) exact(ctx context.Context, tok Tokenizer, index int) (prompt, error) {
	p := t.shape(index)
	p.tokens = max(p.tokens, t.learnt.fixed())
	head := t.head(index, p.tokens)
	want := int(float64(p.tokens) * t.bytesPerToken)
	fill, filler := 0, newSequence(t.workload.Seed, forTail, index)
	words := make([]int, headSize+64)
	for i := range words {
		words[i] = filler.below(len(t.learnt.words))
	}
	for range 4 * fixRounds {
		text, err := t.piece(index, want)
		if err != nil {
			t.err = err
			return p, err
		}
		p.text = head + text
		for _, word := range words[:fill] {
			p.text += " " + t.learnt.words[word]
		}
		ids, err := tok.Tokenize(ctx, p.text)
		if err != nil {
			return p, err
		}
		missing := p.tokens - len(ids)
		if ratio := float64(len(p.text)) / float64(len(ids)); ratio > 0 {
			t.bytesPerToken = ratio
		}
		switch {
		case missing == 0:
			p.source = probes.TokensClient
			return p, nil
		case missing > 0 && fill+missing <= len(words):
			fill += missing
		case missing < 0 && fill >= -missing:
			fill += missing
		default:
			// Aim a little short: words fill up what is missing then.
			want, fill = max(0, len(text)+int(float64(missing-headSize/2)*t.bytesPerToken)), 0
			if want == 0 && len(text) == 0 {
				return p, nil // shorter than what the server adds
			}
		}
	}
	return p, nil
}

// piece is about n bytes of the file from the place of an index on, whole letters
// and, where there is one, from the beginning of a line. It goes on at the file's
// beginning when it reaches the end.
func (t *textTrace) piece(index, n int) (string, error) {
	place := newSequence(t.workload.Seed, forPlace, index)
	at := int64(place.below(int(t.size)))
	const look = 512 // for the beginning of a line
	text := make([]byte, 0, n+look)
	for len(text) < n+look {
		want := min(int64(n+look-len(text)), t.size-at)
		part := text[len(text) : len(text)+int(want)]
		if _, err := t.file.ReadAt(part, at); err != nil && err != io.EOF {
			return "", fmt.Errorf("read %s: %w", t.workload.Path, err)
		}
		text = text[:len(text)+int(want)]
		if at += want; at == t.size {
			at = 0
		}
	}
	start := 0
	if end := strings.IndexByte(string(text[:look]), '\n'); end >= 0 {
		start = end + 1
	}
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	end := min(start+n, len(text))
	for end > start && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(string(text[start:end]), "\uFFFD"), nil
}
