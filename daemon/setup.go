package daemon

import (
	"context"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// Bounds of what asks the target before the clock starts: its model, the lengths
// of prompts, flushing its cache. A target that hangs must not eat the time of
// its own measurement, and must be measured nevertheless.
const (
	setupTimeout = 60 * time.Second // all calls together
	minSetupCall = 5 * time.Second
	maxSetupCall = 30 * time.Second
)

// setup makes the calls of one run's preparation.
type setup struct {
	*backend.Client
	deadline time.Time
	call     time.Duration // bound of one call
}

var _ workload.Tokenizer = setup{}

// newSetup gives each call the time that a first token may take.
func newSetup(c *backend.Client, t probes.Timeouts) setup {
	s := setup{Client: c, deadline: time.Now().Add(setupTimeout), call: maxSetupCall}
	if t.FirstToken > 0 {
		s.call = min(max(t.FirstToken, minSetupCall), maxSetupCall)
	}
	return s
}

func (s setup) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(s.call)
	if s.deadline.Before(deadline) {
		deadline = s.deadline
	}
	return context.WithDeadline(ctx, deadline)
}

func (s setup) Model(ctx context.Context) (string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.Client.Model(ctx)
}

func (s setup) FlushCache(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.Client.FlushCache(ctx)
}

// Tokenize gives up in time. The workload takes that for a tokenizer that does
// not answer and estimates; ctx itself ends only when the run is cut.
func (s setup) Tokenize(ctx context.Context, text string) ([]int, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.Client.Tokenize(ctx, text)
}

func (s setup) Detokenize(ctx context.Context, ids []int) (string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.Client.Detokenize(ctx, ids)
}
