package probes

import "time"

// Shard is one part of a load that several processes send together. Each takes
// every Of-th request of the one plan, and sends it at the time that the plan has
// for it. The zero value is a load that one process sends.
type Shard struct {
	Index int // from 0; the shard has the requests whose index is Index modulo Of
	Of    int // shards in all
	// Start is the common instant at which the plan begins, on the wall clocks of
	// all machines. How far these are apart is how far the shards are apart.
	Start time.Time
}

// Split reports whether the load has shards.
func (s Shard) Split() bool { return s.Of > 0 }

// Has reports whether the request of this index is the shard's.
func (s Shard) Has(index int) bool { return !s.Split() || index%s.Of == s.Index }

// Share is how many of the first n requests are the shard's.
func (s Shard) Share(n int) int {
	if !s.Split() {
		return n
	}
	return max(0, (n-s.Index+s.Of-1)/s.Of)
}
