package fakellm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func run(from, n int32) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = from + int32(i)
	}
	return tokens
}

func TestCacheMatchesWholeLeadingBlocks(t *testing.T) {
	c := newPrefixCache(PrefixCache{BlockTokens: 4, Blocks: 10})
	c.insert(run(0, 11)) // two full blocks
	for _, tt := range []struct {
		name   string
		prompt []int32
		want   int
	}{
		{"same", run(0, 11), 8},
		{"longer", run(0, 30), 8},
		{"the last token is always computed", run(0, 8), 4},
		{"just over", run(0, 9), 8},
		{"shorter than a block", run(0, 3), 0},
		{"empty", nil, 0},
		{"other head", append(run(100, 4), run(4, 5)...), 0},
		{"other tail", append(run(0, 4), run(100, 5)...), 4},
	} {
		if got := c.match(tt.prompt); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	c.clear()
	if got := c.match(run(0, 11)); got != 0 || c.len() != 0 {
		t.Errorf("cleared: got %d tokens of %d blocks, want none", got, c.len())
	}
}

func TestCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	c := newPrefixCache(PrefixCache{BlockTokens: 2, Blocks: 4})
	c.insert(run(0, 4))
	c.insert(run(10, 4))
	c.match(run(0, 5)) // the first is now the more recent
	c.insert(run(20, 2))
	// The tail of the second went, its head stayed.
	for from, want := range map[int32]int{0: 4, 10: 2, 20: 2} {
		if got := c.match(run(from, 5)); got != want {
			t.Errorf("prompt from %d: got %d, want %d", from, got, want)
		}
	}
	c.insert(run(30, 100))
	if got := c.match(run(30, 100)); got != 8 || c.len() != 4 {
		t.Errorf("too long: got %d tokens of %d blocks, want 8 of 4", got, c.len())
	}
}

// Against a model without a capacity: never more than it, and exactly it while
// everything fits.
func TestCacheAgreesWithAPlainSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 40).Draw(t, "capacity")
		c := newPrefixCache(PrefixCache{BlockTokens: 2, Blocks: capacity})
		prompts := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 1), 0, 12), 1, 12).Draw(t, "prompts")
		var seen [][]int32
		blocks := 0
		for _, prompt := range prompts {
			want := 0
			for _, s := range seen {
				n := 0
				for n+2 <= min(len(s), len(prompt)-1) && slices.Equal(s[:n+2], prompt[:n+2]) {
					n += 2
				}
				want = max(want, n)
			}
			got := c.match(prompt)
			if got > want || blocks <= capacity && got != want {
				t.Fatalf("%v after %v: got %d, want %d", prompt, seen, got, want)
			}
			c.insert(prompt)
			seen = append(seen, prompt)
			blocks += len(prompt) / 2
			if c.len() > capacity {
				t.Fatalf("got %d blocks, want at most %d", c.len(), capacity)
			}
		}
	})
}
