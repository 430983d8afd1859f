package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// bpe merges neighbours: the pair that was learnt first goes first, of equal pairs
// the leftmost.
type bpe struct {
	vocab  map[string]int // as in the file
	ids    map[string]int // as pieces are: raw bytes when bytewise, else vocab
	merges map[uint64]merge
	// texts replaces merges: any two tokens merge whose texts together are a token,
	// of lower ids first.
	texts []string

	bytewise     bool
	bytes        [256]int32 // bytewise: id of each byte, -1: none
	fallback     *[256]int32
	unk          int // -1: none
	fuseUnk      bool
	ignoreMerges bool
	prefix       string // of a character that does not begin a word
	suffix       string // of a character that ends a word
}

// merge is what a pair becomes, and when.
type merge struct{ rank, id int32 }

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func newBPE(m *modelFile, bytewise bool) (*bpe, error) {
	b := &bpe{bytewise: bytewise, unk: -1, fuseUnk: m.FuseUnk, ignoreMerges: m.IgnoreMerges}
	if err := json.Unmarshal(m.Vocab, &b.vocab); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	if !empty(m.ContinuingSubwordPrefix) {
		b.prefix = *m.ContinuingSubwordPrefix
	}
	if !empty(m.EndOfWordSuffix) {
		b.suffix = *m.EndOfWordSuffix
	}
	if m.UnkToken != nil {
		id, ok := b.vocab[*m.UnkToken]
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", *m.UnkToken)
		}
		b.unk = id
	}
	if m.ByteFallback {
		b.fallback = byteTokens(b.vocab)
	}
	if err := b.readMerges(m.Merges); err != nil {
		return nil, err
	}
	b.ids = b.vocab
	if bytewise {
		b.ids = make(map[string]int, len(b.vocab))
		for piece, id := range b.vocab {
			if raw, ok := bytesOfLetters(piece); ok {
				b.ids[raw] = id
			}
		}
		b.readBytes()
	}
	return b, nil
}

// readBytes finds the ids of single bytes.
func (b *bpe) readBytes() {
	for i := range b.bytes {
		b.bytes[i] = -1
		if id, ok := b.ids[string([]byte{byte(i)})]; ok {
			b.bytes[i] = int32(id)
		}
	}
}

// readMerges takes both forms: "a b" and ["a", "b"].
func (b *bpe) readMerges(raw json.RawMessage) error {
	var pairs [][2]string
	var lines []string
	if err := json.Unmarshal(raw, &lines); err == nil {
		for i, line := range lines {
			left, right, ok := strings.Cut(line, " ")
			if !ok {
				return fmt.Errorf("merges: entry %d, %q, is not two tokens", i, line)
			}
			pairs = append(pairs, [2]string{left, right})
		}
	} else if err := json.Unmarshal(raw, &pairs); err != nil {
		return fmt.Errorf("merges: %w", err)
	}
	b.merges = make(map[uint64]merge, len(pairs))
	for rank, p := range pairs {
		left, ok1 := b.vocab[p[0]]
		right, ok2 := b.vocab[p[1]]
		whole, ok3 := b.vocab[p[0]+strings.TrimPrefix(p[1], b.prefix)]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merges: entry %d, %q: a token is not in the vocabulary", rank, p)
		}
		b.merges[pair(int32(left), int32(right))] = merge{rank: int32(rank), id: int32(whole)}
	}
	return nil
}

func (b *bpe) vocabulary() map[string]int { return b.vocab }

const (
	// cachedBytes is the longest word whose ids are remembered, cachedWords how many
	// words are.
	cachedBytes = 32
	cachedWords = 1 << 14
	// scanned is up to how many symbols looking through all pairs is faster than
	// keeping them in order.
	scanned = 48
)

// encode merges one piece.
func (b *bpe) encode(dst []int, piece string, s *scratch) ([]int, error) {
	if ids, ok := s.cache[piece]; ok {
		return append(dst, ids...), nil
	}
	start := len(dst)
	if id, ok := b.ids[piece]; ok && b.ignoreMerges {
		dst = append(dst, id)
	} else {
		s.symbols = b.symbols(s.symbols[:0], piece)
		if len(s.symbols) <= scanned {
			s.symbols = b.scan(s.symbols, s)
		} else {
			s.symbols = b.order(s.symbols, s)
		}
		for _, id := range s.symbols {
			dst = append(dst, int(id))
		}
	}
	if len(piece) <= cachedBytes {
		if len(s.cache) >= cachedWords {
			clear(s.cache)
		}
		s.cache[strings.Clone(piece)] = append([]int(nil), dst[start:]...)
	}
	return dst, nil
}

// symbols is what a piece consists of before any merge.
func (b *bpe) symbols(dst []int32, piece string) []int32 {
	fused := false // the last symbol is an unknown one
	unknown := func() {
		if b.unk >= 0 && !(fused && b.fuseUnk) {
			dst = append(dst, int32(b.unk))
		}
		fused = b.unk >= 0
	}
	if b.bytewise {
		for i := range len(piece) {
			if id := b.bytes[piece[i]]; id >= 0 {
				dst, fused = append(dst, id), false
			} else {
				unknown()
			}
		}
		return dst
	}
	for i, r := range piece {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(piece[i:])
		}
		character := piece[i : i+size]
		name := character
		if b.prefix != "" && i > 0 {
			name = b.prefix + name
		}
		if b.suffix != "" && i+size == len(piece) {
			name += b.suffix
		}
		if id, ok := b.vocab[name]; ok {
			dst, fused = append(dst, int32(id)), false
			continue
		}
		if b.fallback != nil {
			if ids, ok := appendBytes(dst, name, b.fallback); ok {
				dst = ids
				continue
			}
		}
		unknown()
	}
	return dst
}

// scan merges a short word: it looks for the best pair until there is none.
func (b *bpe) scan(symbols []int32, s *scratch) []int32 {
	merges := s.merges[:0]
	for i := 0; i+1 < len(symbols); i++ {
		merges = append(merges, b.pair(symbols[i], symbols[i+1], s))
	}
	for {
		best := -1
		for i, m := range merges {
			if m.rank >= 0 && (best < 0 || m.rank < merges[best].rank) {
				best = i
			}
		}
		if best < 0 {
			s.merges = merges
			return symbols
		}
		symbols[best] = merges[best].id
		symbols = append(symbols[:best+1], symbols[best+2:]...)
		merges = append(merges[:best], merges[best+1:]...)
		if best > 0 {
			merges[best-1] = b.pair(symbols[best-1], symbols[best], s)
		}
		if best < len(merges) {
			merges[best] = b.pair(symbols[best], symbols[best+1], s)
		}
	}
}

// pair is the merge of two symbols; its rank is -1 if they do not merge.
func (b *bpe) pair(left, right int32, s *scratch) merge {
	if b.texts != nil {
		s.text = append(append(s.text[:0], b.texts[left]...), b.texts[right]...)
		if id, ok := b.ids[string(s.text)]; ok {
			return merge{rank: int32(id), id: int32(id)}
		}
		return merge{rank: -1}
	}
	if m, ok := b.merges[pair(left, right)]; ok {
		return m
	}
	return merge{rank: -1}
}

// candidate is a merge that may be due: of the symbol at, into id.
type candidate struct {
	merge
	at int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// node is a symbol in a list; id -1 has been merged into its left neighbour.
type node struct{ id, prev, next int32 }

// order merges a long piece (a text without any cut has one): candidates wait in a
// heap, and those whose symbols have changed are passed over.
func (b *bpe) order(symbols []int32, s *scratch) []int32 {
	nodes, heap := s.nodes[:0], s.heap[:0]
	for i, id := range symbols {
		nodes = append(nodes, node{id: id, prev: int32(i) - 1, next: int32(i) + 1})
	}
	offer := func(left int32) {
		if left < 0 || int(nodes[left].next) >= len(nodes) {
			return
		}
		if m := b.pair(nodes[left].id, nodes[nodes[left].next].id, s); m.rank >= 0 {
			heap = pushCandidate(heap, candidate{m, left})
		}
	}
	for i := range nodes {
		offer(int32(i))
	}
	for len(heap) > 0 {
		var c candidate
		c, heap = popCandidate(heap)
		left := &nodes[c.at]
		if left.id < 0 || int(left.next) >= len(nodes) {
			continue
		}
		right := &nodes[left.next]
		if b.pair(left.id, right.id, s) != c.merge {
			continue
		}
		left.id, right.id = c.id, -1
		left.next = right.next
		if int(left.next) < len(nodes) {
			nodes[left.next].prev = c.at
		}
		offer(left.prev)
		offer(c.at)
	}
	symbols = symbols[:0]
	for i := int32(0); int(i) < len(nodes); i = nodes[i].next {
		symbols = append(symbols, nodes[i].id)
	}
	s.nodes, s.heap = nodes, heap
	return symbols
}

func pushCandidate(h []candidate, c candidate) []candidate {
	h = append(h, c)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	return h
}

func popCandidate(h []candidate) (candidate, []candidate) {
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(h) && h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return top, h
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// scratch is the working memory of one call. The cache makes a word that was seen
// before cost one look.
type scratch struct {
	symbols []int32
	merges  []merge
	nodes   []node
	heap    []candidate
	cache   map[string][]int
	path    []step
	text    []byte
}

type scratchPool struct{ pool sync.Pool }

func (p *scratchPool) get() *scratch {
	if s, ok := p.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{cache: map[string][]int{}}
}

func (p *scratchPool) put(s *scratch) { p.pool.Put(s) }
