package discovery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/relabel"
)

const (
	// settleTime joins what comes in one burst: the file system tells of one write in
	// several events, Kubernetes of one pod after the other.
	settleTime = 250 * time.Millisecond
	// ChangeInterval is the least time between two changes, as in Prometheus.
	ChangeInterval = 5 * time.Second
	// handoverTime bounds for how long what replaced providers knew stands in for what
	// their successors have not reported yet.
	handoverTime = 30 * time.Second
)

// Entry is the service discovery of one entry of targets.
type Entry struct {
	Name  string
	items []item
	dirs  []string // of the items: relative paths in equal texts may be different files
	rules []*relabel.Config
}

// NewEntry joins sections that [Check] has let pass.
func NewEntry(name string, sections []Section) (Entry, error) {
	e := Entry{Name: name}
	for _, s := range sections {
		items, problems := s.items()
		if len(problems) > 0 {
			return e, fmt.Errorf("read %s of %s: %s", s.Key, name, problems[0].Message)
		}
		for _, it := range items {
			if it.relabel != nil {
				e.rules = append(e.rules, it.relabel)
				continue
			}
			e.items, e.dirs = append(e.items, it), append(e.dirs, s.Dir)
		}
	}
	return e, nil
}

// Options are what a manager needs from its owner.
type Options struct {
	// Log is told of refreshes that fail; nil discards.
	Log *slog.Logger
	// Dial replaces the network of http_sd_configs; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Interval is the least time between two changes; 0 is ChangeInterval.
	Interval time.Duration
}

// Manager keeps what is found for the entries. All methods may be called at once.
type Manager struct {
	options Options
	dirty   chan struct{} // of capacity 1: something may have changed

	running sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	entries []*entryState   // by name
	lost    map[string]uint64
}

type entryState struct {
	Entry
	providers []*provider
	// left is what providers knew that a change of the configuration has ended. It
	// stands until their successors have reported.
	left      []*targetgroup.Group
	leftUntil time.Time
}

// New makes a manager of no entries.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Interval = cmp.Or(o.Interval, ChangeInterval)
	o.Log = slog.New(newDiscreet(o.Log.Handler()))
	return &Manager{options: o, dirty: make(chan struct{}, 1), lost: map[string]uint64{}}
}

// Replace makes entries the ones that are looked after. Providers that are the same as
// before go on; the lists of those that are not stay until their successors have
// reported, for half a minute at most.
func (m *Manager) Replace(entries []Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, kept := m.plan(entries, time.Now())
	for _, e := range m.entries {
		for _, p := range e.providers {
			if kept[p] {
				continue
			}
			m.lost[p.mechanism] += p.failures()
			if p.stop != nil {
				p.stop()
			}
		}
	}
	for _, e := range next {
		if len(e.left) > 0 {
			time.AfterFunc(handoverTime, m.poke)
		}
	}
	m.entries = next
	if m.ctx != nil {
		m.startAll()
	}
	m.poke()
}

// plan lays the entries beside those that are looked after. kept are the providers that
// go on.
func (m *Manager) plan(entries []Entry, now time.Time) (next []*entryState, kept map[*provider]bool) {
	kept = map[*provider]bool{}
	for _, e := range entries {
		state := &entryState{Entry: e}
		old := m.entry(e.Name)
		for i := range e.items {
			p := old.provider(e.items[i].text, e.dirs[i])
			if p == nil || kept[p] {
				p = newProvider(e.Name, &e.items[i], e.dirs[i])
			}
			kept[p] = true
			state.providers = append(state.providers, p)
		}
		if old != nil {
			for _, g := range old.groups(now) {
				if !slices.Contains(state.known(), g) {
					state.left, state.leftUntil = append(state.left, g), now.Add(handoverTime)
				}
			}
		}
		next = append(next, state)
	}
	slices.SortFunc(next, func(a, b *entryState) int { return cmp.Compare(a.Name, b.Name) })
	return next, kept
}

// entry finds an entry; nil when there is none.
func (m *Manager) entry(name string) *entryState {
	if i := slices.IndexFunc(m.entries, func(e *entryState) bool { return e.Name == name }); i >= 0 {
		return m.entries[i]
	}
	return nil
}

func (e *entryState) provider(text, dir string) *provider {
	if e == nil {
		return nil
	}
	if i := slices.IndexFunc(e.providers, func(p *provider) bool { return p.text == text && p.dir == dir }); i >= 0 {
		return e.providers[i]
	}
	return nil
}

// known is what the providers have reported.
func (e *entryState) known() (groups []*targetgroup.Group) {
	for _, p := range e.providers {
		groups = append(groups, p.list()...)
	}
	return groups
}

// groups is what stands for the entry now.
func (e *entryState) groups(now time.Time) []*targetgroup.Group {
	waiting := slices.ContainsFunc(e.providers, func(p *provider) bool { return !p.reported })
	if waiting && now.Before(e.leftUntil) {
		return append(e.known(), e.left...)
	}
	return e.known()
}

// startAll starts the providers that are not running yet.
func (m *Manager) startAll() {
	if m.ctx.Err() != nil {
		return
	}
	for _, e := range m.entries {
		for _, p := range e.providers {
			if p.stop != nil {
				continue
			}
			var ctx context.Context
			ctx, p.stop = context.WithCancel(m.ctx)
			m.running.Go(func() { m.provide(ctx, p) })
		}
	}
}

// Run discovers until ctx ends, and returns when nothing of it is going on any more.
// changed is called after what is found may have changed, in this goroutine.
func (m *Manager) Run(ctx context.Context, changed func()) {
	defer m.running.Wait()
	m.mu.Lock()
	m.ctx = ctx
	m.startAll()
	m.mu.Unlock()
	var told time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.dirty:
		}
		timer := time.NewTimer(max(settleTime, time.Until(told.Add(m.options.Interval))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		select {
		case <-m.dirty: // it is part of this change
		default:
		}
		told = time.Now()
		m.settle()
		changed()
	}
}

// poke says that something may have changed.
func (m *Manager) poke() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// settle judges the refreshes that have ended since the last change.
func (m *Manager) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		for _, p := range e.providers {
			p.settle()
		}
	}
}

// Found is what is found now, by entry and address.
func (m *Manager) Found() []Found {
	m.mu.Lock()
	defer m.mu.Unlock()
	return foundBy(m.entries, time.Now())
}

// Preview is what Found would be right after Replace.
func (m *Manager) Preview(entries []Entry) []Found {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	next, _ := m.plan(entries, now)
	return foundBy(next, now)
}

func foundBy(entries []*entryState, now time.Time) (out []Found) {
	for _, e := range entries {
		out = append(out, findAll(e.Name, e.rules, e.groups(now))...)
	}
	return out
}

// Complete reports whether every provider has reported a list.
func (m *Manager) Complete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if slices.ContainsFunc(e.providers, func(p *provider) bool { return !p.reported }) {
			return false
		}
	}
	return true
}

// State is how one mechanism does, over all entries.
type State struct {
	Mechanism string // e.g. kubernetes
	Targets   int    // reported, before relabelling
	Failures  uint64 // refreshes, since the start
	// LastSuccess is when the provider that has waited longest was successful last; zero
	// when there is one that never was.
	LastSuccess time.Time
}

// State is how the mechanisms do that are configured, by name.
func (m *Manager) State() []State {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := map[string]*State{}
	for _, e := range m.entries {
		for _, p := range e.providers {
			s := states[p.mechanism]
			if s == nil {
				s = &State{Mechanism: p.mechanism, Failures: m.lost[p.mechanism], LastSuccess: p.succeeded}
				states[p.mechanism] = s
			}
			for _, g := range p.list() {
				s.Targets += len(g.Targets)
			}
			s.Failures += p.failures()
			if p.succeeded.Before(s.LastSuccess) {
				s.LastSuccess = p.succeeded
			}
		}
	}
	var out []State
	for _, s := range states {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b State) int { return cmp.Compare(a.Mechanism, b.Mechanism) })
	return out
}
