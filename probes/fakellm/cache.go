package fakellm

import "container/list"

// prefixCache remembers which blocks of tokens have been computed, each known by
// the hash of itself and everything before it, and forgets the least recently
// used. It is guarded by the engine's lock.
type prefixCache struct {
	block, capacity int
	blocks          map[uint64]*list.Element
	recent          *list.List // of block hashes, most recent in front
	chain           []uint64   // scratch
}

func newPrefixCache(c PrefixCache) *prefixCache {
	return &prefixCache{block: c.BlockTokens, capacity: c.Blocks, blocks: map[uint64]*list.Element{}, recent: list.New()}
}

// hashes chains the full blocks of tokens.
func (p *prefixCache) hashes(tokens []int32) []uint64 {
	p.chain = p.chain[:0]
	var h uint64
	for len(tokens) >= p.block {
		for _, t := range tokens[:p.block] {
			h = mix(h, uint64(t))
		}
		p.chain = append(p.chain, h)
		tokens = tokens[p.block:]
	}
	return p.chain
}

// match is how many leading tokens need not be computed again. The last prompt
// token always is: the first answer token comes out of it.
func (p *prefixCache) match(prompt []int32) int {
	if p.capacity == 0 || len(prompt) == 0 {
		return 0
	}
	chain := p.hashes(prompt[:len(prompt)-1])
	n := 0
	for n < len(chain) && p.blocks[chain[n]] != nil {
		n++
	}
	p.touch(chain[:n])
	return n * p.block
}

// insert remembers all full blocks of tokens.
func (p *prefixCache) insert(tokens []int32) {
	if p.capacity == 0 {
		return
	}
	chain := p.hashes(tokens)
	// What cannot fit is the tail: without its head a block is never found.
	chain = chain[:min(len(chain), p.capacity)]
	for _, h := range chain {
		if p.blocks[h] == nil {
			p.blocks[h] = p.recent.PushFront(h)
		}
	}
	p.touch(chain)
	for p.recent.Len() > p.capacity {
		oldest := p.recent.Back()
		delete(p.blocks, oldest.Value.(uint64))
		p.recent.Remove(oldest)
	}
}

// touch goes from the tail to the head, so that a head outlives its tail.
func (p *prefixCache) touch(chain []uint64) {
	for i := len(chain) - 1; i >= 0; i-- {
		p.recent.MoveToFront(p.blocks[chain[i]])
	}
}

func (p *prefixCache) clear() {
	clear(p.blocks)
	p.recent.Init()
}

func (p *prefixCache) len() int { return len(p.blocks) }
