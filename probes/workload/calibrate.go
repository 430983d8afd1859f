package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Tokenizer is the target's own tokenizer. Tokenize returns the ids that the server
// counts for a prompt, special tokens (and a chat template, if it applies one)
// included.
type Tokenizer interface {
	Tokenize(ctx context.Context, text string) ([]int, error)
	Detokenize(ctx context.Context, ids []int) (string, error)
}

// calibration is what must be known about a tokenizer to write texts of a given
// length without asking it: a text made of opener and n of the words, joined by
// single spaces, has fixed() + n tokens.
type calibration struct {
	prefix []int // ids before the first word: special tokens and the opener
	suffix []int // ids after the last word: the end of a chat template
	words  []string
	ids    []int // of words; nil when they were estimated
}

// fixed is the tokens of a prompt that are not words, the opener included.
func (c *calibration) fixed() int { return len(c.prefix) + len(c.suffix) }

// overhead is the tokens that the server adds to a text. The opener is one token.
func (c *calibration) overhead() int { return c.fixed() - 1 }

// estimated stands in for a tokenizer: every word is taken for one token.
func estimated() *calibration {
	return &calibration{prefix: []int{0}, words: ordinaryWords}
}

const (
	// markerRun is how often the marker is repeated to find its id.
	markerRun = 8
	// minWords is how few one-token words still give heads that differ.
	minWords = 16
)

// calibrate asks the tokenizer twice. The first text repeats one word, which shows
// that word's id and what is added around it; the second has that word between all
// others, which cuts the ids into the pieces that belong to each word.
func calibrate(ctx context.Context, t Tokenizer) (*calibration, error) {
	marker, c, err := findMarker(ctx, t)
	if err != nil {
		return nil, err
	}
	text := opener + " " + marker + " " + strings.Join(ordinaryWords, " "+marker+" ") + " " + marker
	ids, err := t.Tokenize(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("calibrate tokenizer: %w", err)
	}
	first, end := len(c.prefix), len(ids)-len(c.suffix)
	markerID := c.ids[0]
	if end-first < 2*len(ordinaryWords)+1 || ids[first] != markerID || ids[end-1] != markerID {
		return nil, fmt.Errorf("calibrate tokenizer: %d words gave %d tokens that do not line up with them; set tokenizer: approx",
			len(ordinaryWords), len(ids))
	}
	c.ids = nil
	word, start := 0, first+1
	for i := first + 1; i < end; i++ {
		if ids[i] != markerID {
			continue
		}
		if i == start || word == len(ordinaryWords) {
			return nil, fmt.Errorf("calibrate tokenizer: the separator's token is part of other words; set tokenizer: approx")
		}
		if i-start == 1 {
			c.words = append(c.words, ordinaryWords[word])
			c.ids = append(c.ids, ids[start])
		}
		word, start = word+1, i+1
	}
	if word != len(ordinaryWords) || len(c.words) < minWords {
		return nil, fmt.Errorf("calibrate tokenizer: only %d of %d plain words are single tokens; set tokenizer: approx",
			len(c.words), len(ordinaryWords))
	}
	return c, nil
}

// findMarker looks for a word that is one token. The calibration it returns has
// prefix and suffix, and the marker's id alone in ids.
func findMarker(ctx context.Context, t Tokenizer) (string, *calibration, error) {
	for _, marker := range markers {
		ids, err := t.Tokenize(ctx, opener+strings.Repeat(" "+marker, markerRun))
		if err != nil {
			return "", nil, fmt.Errorf("calibrate tokenizer: %w", err)
		}
		start, n := longestRun(ids)
		// At least the opener comes before the run; a longer run would mean that
		// the template repeats the marker, a shorter one that it has several tokens.
		if n == markerRun && start > 0 {
			return marker, &calibration{
				prefix: slices.Clone(ids[:start]),
				suffix: slices.Clone(ids[start+n:]),
				ids:    []int{ids[start]},
			}, nil
		}
	}
	return "", nil, fmt.Errorf("calibrate tokenizer: none of %q is a single token; set tokenizer: approx", markers)
}

// longestRun finds the longest stretch of equal ids.
func longestRun(ids []int) (start, n int) {
	for i := 0; i < len(ids); {
		j := i
		for j < len(ids) && ids[j] == ids[i] {
			j++
		}
		if j-i > n {
			start, n = i, j-i
		}
		i = j
	}
	return start, n
}

// Calibrations remembers what was learnt about one target's tokenizer, so that a
// frequent probe does not ask the same again before each run. The zero value is
// ready; it may be shared by concurrent runs of one target, never by targets whose
// tokenizers differ.
type Calibrations struct {
	mu       sync.Mutex
	learnt   *calibration
	verified int // prompts whose length the tokenizer confirmed
}

func (c *Calibrations) get() (*calibration, int) {
	if c == nil {
		return nil, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.learnt, c.verified
}

func (c *Calibrations) put(learnt *calibration, verified int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learnt, c.verified = learnt, verified
}
