package workload

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
)

// fakeTokenizer counts like a byte-pair encoder: a piece is a word with the space
// before it, or a run of anything else; known pieces are one token, others are cut
// into two-byte tokens. Special tokens and a template are added around the text.
type fakeTokenizer struct {
	before, after []int
	// split are words that are not one token.
	split map[string]bool
	// glue makes two words one token, so that counting words is wrong.
	glue string
	// fail is returned by every call from the failFrom'th on.
	fail     error
	failFrom int

	mu     sync.Mutex
	ids    map[string]int
	pieces []string
	calls  int
}

var fakePieces = regexp.MustCompile(` ?[\pL]+|\s+|[^\s\pL]+`)

func (f *fakeTokenizer) Tokenize(_ context.Context, text string) ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.fail != nil && f.calls > f.failFrom {
		return nil, f.fail
	}
	ids := append([]int{}, f.before...)
	for _, piece := range fakePieces.FindAllString(text, -1) {
		if f.split[strings.TrimSpace(piece)] {
			for len(piece) > 2 {
				ids, piece = append(ids, f.id(piece[:2])), piece[2:]
			}
		}
		id := f.id(piece)
		if n := len(ids); f.glue != "" && n > len(f.before) && f.pieces[ids[n-1]-fakeFirstID]+piece == f.glue {
			ids[n-1] = f.id(f.glue)
			continue
		}
		ids = append(ids, id)
	}
	return append(ids, f.after...), nil
}

func (f *fakeTokenizer) Detokenize(_ context.Context, ids []int) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.fail != nil && f.calls > f.failFrom {
		return "", f.fail
	}
	var text strings.Builder
	for _, id := range ids {
		// Every seventh id is decoded without a space, so that it melts into the
		// word before it and the text has fewer pieces than ids.
		if id%7 != 0 {
			text.WriteByte(' ')
		}
		for id > 0 {
			text.WriteByte(byte('a' + id%26))
			id /= 26
		}
	}
	return text.String(), nil
}

const fakeFirstID = 1000

func (f *fakeTokenizer) id(piece string) int {
	if f.ids == nil {
		f.ids = map[string]int{}
	}
	id, ok := f.ids[piece]
	if !ok {
		id = fakeFirstID + len(f.pieces)
		f.ids[piece] = id
		f.pieces = append(f.pieces, piece)
	}
	return id
}

func (f *fakeTokenizer) count(text string) int {
	ids, err := f.Tokenize(context.Background(), text)
	if err != nil {
		panic(err)
	}
	return len(ids)
}

var errUnreachable = errors.New("connection refused")
