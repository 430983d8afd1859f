package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
)

const (
	// namingTime bounds the wait for the names of all models together, askTime that for
	// one of them.
	namingTime = 2 * time.Second
	askTime    = time.Second
	// namers bounds how many targets are asked at once.
	namers = 64
)

// nameModels asks the targets without a configured model what they serve, before
// anything is exported or run: the model is part of every series' identity, and a
// series that changes it breaks in two. Targets that do not answer in time are named by
// their first run that does; see prom.Exporter.SetPairs for what happens to their
// series. Targets that were named before are not asked again.
// While probing is paused nobody is asked anything.
func (a *App) nameModels(ctx context.Context, c *config.Config) {
	if c.Pause {
		return
	}
	var unnamed []probes.Target
	for _, t := range c.Targets() {
		if t.Model == "" && a.tracker.resolve(probes.Pair{Target: t.Name}).Model == "" {
			unnamed = append(unnamed, t)
		}
	}
	for target, model := range askModels(ctx, unnamed, a.runner.options(), a.panicked) {
		a.tracker.setModel(target, model)
	}
}

// askModels gives the names that come within namingTime, by target.
func askModels(ctx context.Context, targets []probes.Target, o backend.Options, panicked func(any)) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, namingTime)
	defer cancel()
	var (
		mu    sync.Mutex
		names = map[string]string{}
		slots = make(chan struct{}, namers)
		asked sync.WaitGroup
	)
	for _, t := range targets {
		asked.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					panicked(cause)
				}
			}()
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			if name, err := askModel(ctx, t, o); err == nil {
				mu.Lock()
				defer mu.Unlock()
				names[t.Name] = name
			}
		})
	}
	asked.Wait()
	return names
}

func askModel(ctx context.Context, t probes.Target, o backend.Options) (string, error) {
	t, err := config.ResolveSecrets(t)
	if err != nil {
		return "", err
	}
	client, err := backend.New(t, o)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return client.Model(ctx)
}
