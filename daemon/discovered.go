package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/discovery"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
)

// startTime is how long after its start a daemon takes pairs for those that it was
// started with: the first answers of service discovery are no news.
const startTime = time.Minute

// Shard is one of several daemons that share the targets of one configuration.
type Shard struct{ Index, Of int }

// Has reports whether the shard probes a target: whose share it is follows from the name
// alone.
func (s Shard) Has(target string) bool {
	if s.Of <= 1 {
		return true
	}
	// As the schedule spreads: the low bits of a bare hash hardly differ between names
	// that differ in their last letter.
	return schedule.Spread(probes.Pair{Target: target})%uint64(s.Of) == uint64(s.Index)
}

// checkDiscovery has a section of service discovery checked.
func checkDiscovery(s config.Section) (shown string, problems []config.SectionProblem) {
	shown, found := discovery.Check(sectionOf(s))
	for _, p := range found {
		problems = append(problems, config.SectionProblem(p))
	}
	return shown, problems
}

func sectionOf(s config.Section) discovery.Section {
	return discovery.Section{Key: s.Key, Dir: s.Dir, YAML: s.YAML.Reveal()}
}

// entriesOf are the entries of a configuration whose targets are discovered.
func entriesOf(c *config.Config) ([]discovery.Entry, error) {
	var entries []discovery.Entry
	for _, e := range c.Entries() {
		var sections []discovery.Section
		for _, s := range e.Sections {
			sections = append(sections, sectionOf(s))
		}
		entry, err := discovery.NewEntry(e.Name, sections)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// rediscover takes over what is discovered now, the way that a reload takes over a file.
func (a *App) rediscover(ctx context.Context) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	old := a.current()
	next, rejected := a.expand(a.written, a.discovery.Found())
	a.tellRejected(rejected)
	if reflect.DeepEqual(old.Targets(), next.Targets()) && reflect.DeepEqual(old.Comparisons(), next.Comparisons()) {
		return
	}
	a.nameModels(ctx, next)
	if err := a.apply(next); err != nil {
		a.log.Error("what was discovered cannot be probed; the targets remain as they are", "err", err)
		return
	}
	added, removed := difference(old.Targets(), next.Targets())
	a.log.Info("service discovery has changed the targets", "targets", len(next.Targets()), "added", added, "removed", removed)
}

// difference counts the names that only one of the lists has.
func difference(old, next []probes.Target) (added, removed int) {
	names := map[string]bool{}
	for _, t := range old {
		names[t.Name] = true
	}
	for _, t := range next {
		if !names[t.Name] {
			added++
		}
		delete(names, t.Name)
	}
	return added, len(names)
}

// tellRejected takes note of the targets that are found and not probed. Each is logged
// once, for as long as it is rejected.
func (a *App) tellRejected(list []config.Rejected) {
	next := map[config.Rejected]bool{}
	a.state.Lock()
	before := a.rejected
	for _, r := range list {
		next[r] = true
	}
	a.rejected = next
	a.state.Unlock()
	for _, r := range list {
		if !before[r] {
			a.log.Warn("a discovered target is rejected", "entry", r.Entry, "target", r.Name, "reason", r.Reason)
		}
	}
}

// expand puts what is found into a configuration: what is there already comes first, so
// that a newcomer takes nobody's name away.
func (a *App) expand(c *config.Config, found []discovery.Found) (*config.Config, []config.Rejected) {
	there := map[string]string{} // name by URL
	if old := a.current(); old != nil {
		for _, t := range old.Targets() {
			there[t.BaseURL] = t.Name
		}
	}
	return expand(c, found, there, a.options.Shard)
}

// Reason of targets for which there is no room.
const beyondMaxSeries = "the series of all targets would exceed metrics.max_series: raise it, use native histograms or shards, or keep fewer targets by relabel_configs"

func expand(c *config.Config, found []discovery.Found, there map[string]string, shard Shard) (*config.Config, []config.Rejected) {
	list := make([]config.Discovered, len(found))
	for i, f := range found {
		list[i] = config.Discovered(f)
	}
	slices.SortStableFunc(list, func(x, y config.Discovered) int {
		return cmp.Compare(newcomer(x, there), newcomer(y, there))
	})
	next, rejected := c.With(list, shard.Has)
	beyond := beyondLimit(c, next)
	if len(beyond) == 0 {
		return next, rejected
	}
	entries := map[string]string{}
	for _, t := range next.Targets() {
		entries[t.Name] = next.EntryOf(t.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(beyond)) {
		rejected = append(rejected, config.Rejected{Entry: entries[name], Name: name, Reason: beyondMaxSeries})
	}
	return next.Without(beyond), rejected
}

// newcomer is 0 for what has been there under the same name, else 1.
func newcomer(d config.Discovered, there map[string]string) int {
	if name, known := there[d.URL]; known && (d.Name == "" || d.Name == name) {
		return 0
	}
	return 1
}

// beyondLimit are the discovered targets that find no room below the limit of series:
// the last ones by name, so that it is the same ones after a restart.
func beyondLimit(written, next *config.Config) map[string]bool {
	var fixed []probes.PairStatus
	var names []string
	byName := map[string][]probes.PairStatus{}
	for _, p := range next.Pairs() {
		status := probes.PairStatus{Pair: pairOf(p), Kind: p.Spec.Kind, Spec: p.Spec}
		name := p.Target.Name
		if next.EntryOf(name) == "" {
			fixed = append(fixed, status)
			continue
		}
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], status)
	}
	more := make([][]probes.PairStatus, len(names))
	for i, name := range names {
		more[i] = byName[name]
	}
	beyond := map[string]bool{}
	for _, name := range names[prom.Fit(fixed, more, prom.HistogramMode(written.Metrics.Histograms), written.Metrics.MaxSeries):] {
		beyond[name] = true
	}
	return beyond
}

// discoveryStates are how the mechanisms of service discovery do.
func (a *App) discoveryStates() []prom.DiscoveryState {
	var out []prom.DiscoveryState
	for _, s := range a.discovery.State() {
		out = append(out, prom.DiscoveryState(s))
	}
	return out
}

// DiscoverOptions are how [Discover] finds targets.
type DiscoverOptions struct {
	// Patience is how long answers are waited for.
	Patience time.Duration
	Shard    Shard
	Log      *slog.Logger // nil discards
	// Dial replaces the network of http_sd_configs; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Discover is the configuration with the targets that its service discovery finds now,
// as a daemon would have them, and those that it would reject. complete is false when not
// all of it has answered in time.
func Discover(ctx context.Context, c *config.Config, o DiscoverOptions) (next *config.Config, rejected []config.Rejected, complete bool, err error) {
	entries, err := entriesOf(c)
	if err != nil {
		return nil, nil, false, fmt.Errorf("discover targets: %w", err)
	}
	m := discovery.New(discovery.Options{Log: o.Log, Dial: o.Dial})
	m.Replace(entries)
	ctx, stop := context.WithTimeout(ctx, o.Patience)
	defer stop()
	if len(entries) > 0 {
		m.Run(ctx, func() {
			if m.Complete() {
				stop()
			}
		})
	}
	next, rejected = expand(c, m.Found(), nil, o.Shard)
	return next, rejected, m.Complete(), nil
}
