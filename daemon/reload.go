package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/discovery"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/compare"
	"github.com/inferbeat/inferbeat/probes/summary"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// LoadConfig loads a configuration and has the stages check their parts of it.
func LoadConfig(source config.Source) (*config.Config, error) {
	return config.Load(source, config.Checks{
		Backend: backend.Check, AcceptsTokenIDs: backend.AcceptsTokenIDs, AcceptsMessages: backend.AcceptsMessages, UnixURL: backend.CleanURL,
		Schedule: func(s probes.Schedule) error { _, err := schedule.Parse(s); return err },
		Workload: CheckWorkload, Arrivals: arrival.Validate,
		HasTimes: workload.HasTimes, AcceptsImages: backend.AcceptsImages, Adapters: backend.CheckAdapters, Comparable: Comparable, Variables: compare.Variables(),
		FlushCache: backend.CheckFlush, Profile: backend.CheckProfile, Discovery: checkDiscovery,
	})
}

// UserAgent is what every request says it comes from.
func UserAgent(version string) string { return "inferbeat/" + version }

var summaryGood = summary.Good

// Reload loads the configuration again. Everything that can fail comes first; an
// error changes nothing but what is said about the last reload.
func (a *App) Reload(ctx context.Context) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	fingerprint := config.Fingerprint(a.options.ConfigFiles)
	c, err := LoadConfig(config.Source{Files: a.options.ConfigFiles, Env: a.options.Env, Overrides: a.options.Overrides})
	if err == nil {
		err = a.needsRestart(c)
	}
	var entries []discovery.Entry
	if err == nil {
		entries, err = entriesOf(c)
	}
	if err == nil {
		next, rejected := a.expand(c, a.discovery.Preview(entries))
		a.nameModels(ctx, next)
		if err = a.apply(next); err == nil {
			a.written = c
			a.discovery.Replace(entries)
			a.tellRejected(rejected)
		}
	}
	a.state.Lock()
	a.loaded, a.reloadErr = fingerprint, err
	if err == nil {
		a.reloaded = time.Now()
	}
	a.state.Unlock()
	if err != nil {
		a.log.Error("reload failed and changed nothing", "err", err)
		return fmt.Errorf("reload the configuration: %w", err)
	}
	a.log.Info("configuration reloaded", "pairs", len(a.current().Pairs()))
	return nil
}

// needsRestart refuses a reload that would not take effect: silence would leave
// a file that says one thing and a daemon that does another.
func (a *App) needsRestart(c *config.Config) error {
	old := a.current()
	var errs []error
	for _, section := range []struct {
		key     string
		changed bool
	}{
		{"web", old.Web != c.Web}, {"metrics", old.Metrics != c.Metrics},
		{"embedded", !reflect.DeepEqual(old.Embedded, c.Embedded)}, {"results", old.Results != c.Results}, {"storage", old.Storage != c.Storage}, {"log.format", old.Log.Format != c.Log.Format},
	} {
		if section.changed {
			errs = append(errs, fmt.Errorf("%s has changed; restart inferbeat for that", section.key))
		}
	}
	return errors.Join(errs...)
}

// apply makes c the configuration. What can fail comes first.
func (a *App) apply(c *config.Config) error {
	pairs := c.Pairs()
	remembered := a.recall(pairs)
	compareds := a.memory.recallComparisons(context.Background(), a.comparisons.missing(c.Comparisons()))
	entries := make([]schedule.Entry, 0, len(pairs))
	intervals := make(map[pairKey]time.Duration, len(pairs))
	statuses := make([]probes.PairStatus, 0, len(pairs))
	byKey := make(map[pairKey]config.Pair, len(pairs))
	for _, p := range pairs {
		plan, err := schedule.Parse(p.Spec.Schedule)
		if err != nil {
			return fmt.Errorf("read the schedule of probe %s: %w", p.Spec.Probe, err)
		}
		if err := ReserveDescriptors(p.Spec); err != nil {
			return fmt.Errorf("plan probe %s: %w", p.Spec.Probe, err)
		}
		identity := pairOf(p)
		key := keyOf(identity)
		byKey[key] = p
		intervals[key] = plan.Interval(time.Now())
		entries = append(entries, schedule.Entry{Pair: identity, Plan: plan})
		statuses = append(statuses, probes.PairStatus{Pair: a.tracker.resolve(identity), Kind: p.Spec.Kind, Spec: p.Spec})
	}
	compared, err := planComparisons(c.Comparisons(), intervals)
	if err != nil {
		return err
	}
	if err := a.prom.SetPairs(statuses); err != nil {
		return err
	}
	a.tracker.replace(pairs, intervals, remembered)
	a.runner.startAt(capacitiesOf(remembered))
	a.memory.register(context.Background(), a.tracker.unregistered(remembered))
	a.comparisons.replace(c.Comparisons(), intervals, compareds)
	a.scheduler.Replace(append(entries, compared...))
	a.scheduler.SetLimit(c.MaxConcurrentRuns)
	a.runner.forget(inUse(byKey, c.Comparisons()))
	a.traffic.replace(c.Targets(), time.Now())
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // one of four names, checked by config
	a.logLevel.Set(level)
	a.state.Lock()
	old := a.config
	a.config, a.pairs = c, byKey
	a.state.Unlock()
	// A reload decides about pausing only when the file has changed its mind, so
	// that it does not undo an order.
	if before := old != nil && old.Pause; before != c.Pause {
		a.Pause(c.Pause)
	}
	return nil
}

// recall reads what an earlier process has kept of pairs that are not tracked yet, and
// the models that their targets had named.
func (a *App) recall(pairs []config.Pair) map[pairKey]pairMemory {
	remembered := a.memory.recall(context.Background(), a.tracker.missing(pairs))
	a.tracker.recallModels(remembered)
	if a.current() != nil && time.Since(a.started) > startTime {
		// Added while the daemon runs: nobody has waited for it so far, however long ago
		// it was here before.
		for key, p := range remembered {
			p.Registered = time.Now()
			remembered[key] = p
		}
	}
	return remembered
}

// watch reloads on request and when the files have changed.
func (a *App) watch(ctx context.Context) {
	var tick <-chan time.Time
	if a.options.Watch > 0 {
		ticker := time.NewTicker(a.options.Watch)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.options.Reload:
			_ = a.Reload(ctx) // logged, and shown by the page and /metrics
		case <-tick:
			a.state.Lock()
			loaded := a.loaded
			a.state.Unlock()
			if config.Fingerprint(a.options.ConfigFiles) != loaded {
				_ = a.Reload(ctx)
			}
		}
	}
}

// daemonState is what /metrics says about the daemon itself.
func (a *App) daemonState() prom.DaemonState {
	a.state.Lock()
	c, reloadOK, reloaded, panics, rejected := a.config, a.reloadErr == nil, a.reloaded, a.panics, len(a.rejected)
	a.state.Unlock()
	targets := slices.Clone(c.Targets())
	for i, t := range targets {
		targets[i].Model = a.tracker.resolve(probes.Pair{Target: t.Name, Model: t.Model}).Model
	}
	states := map[string]int{"active": len(targets), "rejected": rejected, "draining": a.tracker.draining()}
	if a.scheduler.Paused() {
		states["active"], states["paused"] = 0, len(targets)
	}
	s := prom.DaemonState{
		ConfigSHA256: c.SHA256(), ReloadOK: reloadOK, ReloadedAt: reloaded, Targets: targets, TargetStates: states,
		SchedulerTick: a.scheduler.LastTick(), RunsWaiting: a.scheduler.Waiting(), Panics: panics, LogMessages: a.logCount.totals(), SelfTest: a.selfTest(),
		Client: a.client.state(time.Now()), ServerRequests: a.traffic.rates(time.Now()), Store: a.memory.storeState(), Discovery: a.discoveryStates(),
		Budgets: a.memory.budgets.remaining(a.tracker.snapshot(nil), time.Now()),
	}
	if a.fanout != nil {
		for _, sink := range a.fanout.Stats() {
			s.Sinks = append(s.Sinks, prom.SinkState{Name: sink.Name, Dropped: sink.Dropped, Errors: sink.Errors})
		}
	}
	s.Sinks = append(s.Sinks, a.webhookSinks()...)
	return s
}

// panicked counts and logs a panic of a probe, with its stack: the log is for
// those who can fix it, and holds no prompt.
func (a *App) panicked(cause any) { a.countPanic(cause, debug.Stack()) }

func (a *App) schedulePanicked(_ schedule.Entry, cause any, stack []byte) { a.countPanic(cause, stack) }

func (a *App) countPanic(cause any, stack []byte) {
	a.state.Lock()
	a.panics++
	a.state.Unlock()
	a.log.Error("panic in a run; the schedule goes on", "panic", cause, "stack", string(stack))
}

func buildInfo(version string) prom.Build {
	b := prom.Build{Version: version, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
