package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/inferbeat/inferbeat/daemon/web"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// stored shows the pages the runs of the store.
type stored struct{ *memory }

// runs is nil without a store.
func (m *memory) runs() web.Runs {
	if m.store == nil {
		return nil
	}
	return stored{m}
}

func (s stored) Run(ctx context.Context, id string) (*probes.Run, error) {
	run, err := s.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrAmbiguous) {
		return nil, web.ErrNoRun
	}
	return run, s.noted(ctx, err)
}

func (s stored) History(ctx context.Context, target, probe string, until time.Time, limit int) ([]*probes.Run, error) {
	q := store.Query{Target: target, Probe: probe, Limit: limit}
	if !until.IsZero() {
		q.Until = until.Add(1) // a run that starts right then is the one that is meant
	}
	runs, err := s.store.History(ctx, q)
	return runs, s.noted(ctx, err)
}

// noted counts a failure, unless the reader has gone.
func (s stored) noted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		s.note(storeRead, err)
	}
	return err
}
