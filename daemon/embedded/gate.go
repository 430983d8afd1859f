package embedded

import "context"

// gate lets a number of queries through at once; the others wait for as long as they
// may take.
type gate chan struct{}

// places is how many queries may run at once on so many processors: half of them, so
// that the other half measures.
func places(processors int) int { return min(maxQueries, max(1, processors/2)) }

func newGate(n int) gate { return make(gate, n) }

// GetMaxConcurrent is how many run at once.
func (g gate) GetMaxConcurrent() int { return cap(g) }

// Insert waits for a place.
func (g gate) Insert(ctx context.Context, _ string) (int, error) {
	select {
	case g <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Delete gives the place back.
func (g gate) Delete(int) { <-g }

// Close does nothing: a gate holds no file.
func (g gate) Close() error { return nil }
