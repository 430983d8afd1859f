package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// wordPiece takes the longest piece that fits, from the left; a word that cannot be
// covered is unknown as a whole.
type wordPiece struct {
	vocab    map[string]int
	begin    trie // pieces that begin a word
	inside   trie // pieces after a beginning, without their mark
	unk      int
	maxRunes int
}

func newWordPiece(m *modelFile) (*wordPiece, error) {
	w := &wordPiece{maxRunes: m.MaxInputCharsPerWord}
	var err error
	if w.vocab, w.unk, err = wordVocabulary(m); err != nil {
		return nil, err
	}
	if w.maxRunes == 0 {
		w.maxRunes = 100
	}
	mark := "##"
	if m.ContinuingSubwordPrefix != nil {
		mark = *m.ContinuingSubwordPrefix
	}
	inside := map[string]int{}
	for piece, id := range w.vocab {
		if len(piece) > len(mark) && piece[:len(mark)] == mark {
			inside[piece[len(mark):]] = id
		}
	}
	w.begin, w.inside = newTrie(w.vocab), newTrie(inside)
	return w, nil
}

// wordVocabulary reads a vocabulary that has a token for unknown words.
func wordVocabulary(m *modelFile) (map[string]int, int, error) {
	var vocab map[string]int
	if err := json.Unmarshal(m.Vocab, &vocab); err != nil {
		return nil, 0, fmt.Errorf("vocab: %w", err)
	}
	name := "[UNK]"
	if m.UnkToken != nil {
		name = *m.UnkToken
	}
	unk, ok := vocab[name]
	if !ok {
		return nil, 0, fmt.Errorf("unk_token %q is not in the vocabulary", name)
	}
	return vocab, unk, nil
}

func (w *wordPiece) vocabulary() map[string]int { return w.vocab }

func (w *wordPiece) encode(dst []int, piece string, _ *scratch) ([]int, error) {
	if utf8.RuneCountInString(piece) > w.maxRunes {
		return append(dst, w.unk), nil
	}
	start := len(dst)
	pieces := &w.begin
	for at := 0; at < len(piece); pieces = &w.inside {
		id, n := pieces.longest(piece[at:])
		if n == 0 {
			return append(dst[:start], w.unk), nil
		}
		dst = append(dst, id)
		at += n
	}
	return dst, nil
}

// longest is the longest piece that text begins with, of whole characters, and its
// length in bytes; 0 if there is none.
func (t *trie) longest(text string) (id, n int) {
	node := int32(0)
	for i := range len(text) {
		if node = t.child(node, text[i]); node < 0 {
			break
		}
		if v := t.value(node); v >= 0 && (i+1 == len(text) || utf8.RuneStart(text[i+1])) {
			id, n = int(v), i+1
		}
	}
	return id, n
}

// wordLevel knows whole words only.
type wordLevel struct {
	vocab map[string]int
	unk   int
}

func newWordLevel(m *modelFile) (*wordLevel, error) {
	vocab, unk, err := wordVocabulary(m)
	return &wordLevel{vocab: vocab, unk: unk}, err
}

func (w *wordLevel) vocabulary() map[string]int { return w.vocab }

func (w *wordLevel) encode(dst []int, piece string, _ *scratch) ([]int, error) {
	if id, ok := w.vocab[piece]; ok {
		return append(dst, id), nil
	}
	return append(dst, w.unk), nil
}
