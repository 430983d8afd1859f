package fakellm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// randomLoad sends 60 requests at seeded times, some of which leave early, to an
// engine with everything switched on, and returns the truth about them.
func randomLoad(t *testing.T, seed uint64) Stats {
	var stats Stats
	c := exact()
	c.Engine, c.Seed, c.Jitter, c.MaxBatch, c.MaxPrefillTokens = VLLM, int64(seed), 0.1, 4, 60
	c.Cache, c.Speculation = PrefixCache{Blocks: 12}, Speculation{3, 2.2}
	c.Faults = []Fault{
		{Kind: Reset, Probability: 0.1, AfterTokens: 3}, {Kind: Stall, Probability: 0.2, AfterTokens: 1, Delay: 33 * time.Millisecond},
		{Kind: Unavailable, Probability: 0.1},
	}
	bubble(t, c, func(r *rig) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var wg sync.WaitGroup
		for range 60 {
			body := completionBody(words(1+rng.IntN(60))+fmt.Sprint(" ", rng.IntN(3)), 1+rng.IntN(12))
			patience := time.Hour
			if rng.IntN(5) == 0 {
				patience = time.Duration(1+rng.IntN(200)) * time.Millisecond
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				r.send(ctx, "/v1/completions", body, nil)
			})
			// Never two at one instant: their order would be the scheduler's.
			time.Sleep(time.Duration(1+rng.IntN(40_000)) * time.Microsecond)
			s := r.engine.Stats()
			if s.Running > c.MaxBatch || s.Refused+s.Finished+s.Aborted+int64(s.Running+s.Waiting) != s.Received || s.CachedBlocks > 12 {
				t.Fatalf("in the middle: %+v", s)
			}
		}
		wg.Wait()
		synctest.Wait()
		stats = r.engine.Stats()
	})
	return stats
}

func TestRandomLoad(t *testing.T) {
	for seed := range uint64(12) {
		s := randomLoad(t, seed)
		if s.Running != 0 || s.Waiting != 0 || s.Refused+s.Finished+s.Aborted != 60 {
			t.Fatalf("seed %d: at the end: %+v", seed, s.Totals)
		}
		var admitted time.Time
		for _, r := range s.Requests {
			if !r.Ended {
				t.Errorf("seed %d: request %d has not ended", seed, r.Ordinal)
			}
			if len(r.Sent) == 0 {
				continue
			}
			start := r.Received.Add(r.Queued)
			if start.Before(admitted) {
				t.Errorf("seed %d: request %d was admitted before an earlier one", seed, r.Ordinal)
			}
			admitted = start
			for i, ev := range r.Sent {
				if ev.Tokens < 1 || ev.Tokens > 4 || i > 0 && ev.At <= r.Sent[i-1].At {
					t.Errorf("seed %d: request %d: event %d of %v", seed, r.Ordinal, i, r.Sent)
				}
			}
		}
		if again := randomLoad(t, seed); !cmp.Equal(s, again) {
			t.Fatalf("seed %d: the second time was different:\n%s", seed, cmp.Diff(s, again))
		}
	}
}
