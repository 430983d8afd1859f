package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unkPenalty is how much worse an unknown character is than the worst piece.
const unkPenalty = 10

// unigram finds the cut of a piece whose parts are the most probable together.
type unigram struct {
	vocab    map[string]int
	scores   []float64
	trie     trie
	unk      int // -1: none
	unkScore float64
	fallback *[256]int32
}

func newUnigram(m *modelFile) (*unigram, error) {
	var entries [][]json.RawMessage
	if err := json.Unmarshal(m.Vocab, &entries); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	u := &unigram{vocab: make(map[string]int, len(entries)), unk: -1}
	pieces := make([]string, len(entries))
	lowest := math.Inf(1)
	for id, e := range entries {
		if len(e) != 2 {
			return nil, fmt.Errorf("vocab: entry %d is not a piece and its score", id)
		}
		var score float64
		if err := errors.Join(json.Unmarshal(e[0], &pieces[id]), json.Unmarshal(e[1], &score)); err != nil {
			return nil, fmt.Errorf("vocab: entry %d: %w", id, err)
		}
		u.vocab[pieces[id]] = id
		u.scores = append(u.scores, score)
		lowest = min(lowest, score)
	}
	if m.UnkID != nil {
		if *m.UnkID < 0 || *m.UnkID >= len(entries) {
			return nil, fmt.Errorf("unk_id %d is not in the vocabulary", *m.UnkID)
		}
		u.unk = *m.UnkID
	}
	u.unkScore = lowest - unkPenalty
	if m.ByteFallback {
		u.fallback = byteTokens(u.vocab)
	}
	u.trie = newTrie(u.vocab)
	return u, nil
}

func (u *unigram) vocabulary() map[string]int { return u.vocab }

// step is the best way to reach a place: from where, by which id.
type step struct {
	score float64
	from  int32 // -1: not reached yet
	id    int32
}

var errUnknownCharacter = errors.New("a character is not in the vocabulary, which has no token for unknown ones")

func (u *unigram) encode(dst []int, piece string, s *scratch) ([]int, error) {
	path := s.path[:0]
	for range len(piece) + 1 {
		path = append(path, step{from: -1})
	}
	s.path = path
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		single := false
		node := int32(0)
		for end := at; end < len(piece); {
			if node = u.trie.child(node, piece[end]); node < 0 {
				break
			}
			end++
			id := u.trie.value(node)
			if id < 0 {
				continue
			}
			single = single || end-at == size
			path[end].reach(path[at].score+u.scores[id], at, int(id))
		}
		if !single {
			if u.unk < 0 {
				return dst, errUnknownCharacter
			}
			path[at+size].reach(path[at].score+u.unkScore, at, u.unk)
		}
		at += size
	}
	return u.read(dst, piece, path), nil
}

// reach keeps the better way; of equal ones the first.
func (t *step) reach(score float64, from, id int) {
	if t.from < 0 || score > t.score {
		*t = step{score: score, from: int32(from), id: int32(id)}
	}
}

// read follows the path back. Unknown characters in a row are one unknown text,
// which is spelled by its bytes where the vocabulary has them.
func (u *unigram) read(dst []int, piece string, path []step) []int {
	start := len(dst)
	for end := len(piece); end > 0; {
		t := path[end]
		from := int(t.from)
		if int(t.id) != u.unk {
			dst = append(dst, int(t.id))
			end = from
			continue
		}
		for from > 0 && int(path[from].id) == u.unk {
			from = int(path[from].from)
		}
		dst = u.unknown(dst, piece[from:end])
		end = from
	}
	slices.Reverse(dst[start:])
	return dst
}

// unknown appends the ids of an unknown text, the last one first.
func (u *unigram) unknown(dst []int, text string) []int {
	if id, ok := u.vocab[text]; ok {
		return append(dst, id)
	}
	if u.fallback != nil {
		if ids, ok := appendBytes(nil, text, u.fallback); ok {
			for _, id := range slices.Backward(ids) {
				dst = append(dst, int(id))
			}
			return dst
		}
	}
	return append(dst, u.unk)
}

// trie holds the pieces of a vocabulary by their bytes. The edges of a node lie side
// by side, sorted.
type trie struct {
	nodes  []trieNode
	labels []byte
	next   []int32
}

type trieNode struct {
	first int32
	n     int32
	id    int32 // -1: no piece ends here
}

func newTrie(vocab map[string]int) trie {
	pieces := make([]string, 0, len(vocab))
	for piece := range vocab {
		if piece != "" {
			pieces = append(pieces, piece)
		}
	}
	slices.Sort(pieces)
	t := trie{nodes: []trieNode{{id: -1}}}
	// Nodes are built level by level; each stands for a range of the sorted pieces
	// that begin alike.
	type span struct{ low, high, depth int }
	spans := []span{{0, len(pieces), 0}}
	for n := 0; n < len(spans); n++ {
		s := spans[n]
		i := s.low
		if i < s.high && len(pieces[i]) == s.depth {
			t.nodes[n].id = int32(vocab[pieces[i]])
			i++
		}
		t.nodes[n].first = int32(len(t.labels))
		for i < s.high {
			label := pieces[i][s.depth]
			j := i
			for j < s.high && pieces[j][s.depth] == label {
				j++
			}
			t.labels = append(t.labels, label)
			t.next = append(t.next, int32(len(t.nodes)))
			t.nodes = append(t.nodes, trieNode{id: -1})
			spans = append(spans, span{i, j, s.depth + 1})
			i = j
		}
		t.nodes[n].n = int32(len(t.labels)) - t.nodes[n].first
	}
	return t
}

// child is the node behind a byte, -1 if there is none.
func (t *trie) child(node int32, label byte) int32 {
	n := &t.nodes[node]
	low, high := n.first, n.first+n.n
	for low < high {
		mid := (low + high) / 2
		switch l := t.labels[mid]; {
		case l == label:
			return t.next[mid]
		case l < label:
			low = mid + 1
		default:
			high = mid
		}
	}
	return -1
}

func (t *trie) value(node int32) int32 { return t.nodes[node].id }
