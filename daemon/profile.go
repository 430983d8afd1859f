package daemon

import (
	"context"
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
)

// profiler is the server's profiler while a run has it on; nil is a run without.
type profiler struct {
	client *backend.Client
	on     bool
	left   string // why it could not be stopped
}

// profile starts the server's profiler for the measured part of a run that asks for
// it. One that cannot be started is no reason to measure something else.
func profile(ctx context.Context, client *backend.Client, run *probes.Run) (*profiler, error) {
	spec := &run.Spec
	if spec.Profile == nil || spec.Shard.Index != 0 { // once for all shards
		return nil, nil
	}
	calls := newSetup(client, run.Target.Timeouts)
	bounded, cancel := calls.bound(ctx)
	defer cancel()
	if err := client.StartProfile(bounded, spec.Profile); err != nil {
		return nil, fmt.Errorf("profile %s: %w", run.Target.Name, err)
	}
	// With a number of steps it ends by itself, and a call to end it is refused.
	return &profiler{client: client, on: spec.Profile.Steps == 0}, nil
}

// stop ends it once, also for a run that was cut: a profiler that goes on slows the
// server for everybody. It returns why it could not.
func (p *profiler) stop(ctx context.Context) string {
	if p == nil {
		return ""
	}
	if p.on {
		p.on = false
		if err := p.client.StopProfile(context.WithoutCancel(ctx)); err != nil {
			p.left = err.Error()
		}
	}
	return p.left
}
