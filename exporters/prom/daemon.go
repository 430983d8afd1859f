package prom

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// DaemonState is what the daemon knows about itself at one instant. Counts are
// totals since its start. A nil map or zero time is unknown and shows nothing.
type DaemonState struct {
	ConfigSHA256 string
	ReloadOK     bool      // whether the last load or reload succeeded
	ReloadedAt   time.Time // the last successful one
	// Targets are the configured ones. Only names, the backend and the allowed
	// labels are shown.
	Targets []probes.Target
	// TargetStates counts targets by the values of the label state; missing ones
	// are 0.
	TargetStates  map[string]int
	SchedulerTick time.Time
	// RunsWaiting are due and have not started.
	RunsWaiting int
	Sinks       []SinkState
	Panics      uint64
	// LogMessages counts log lines by the values of the label level; missing ones
	// are 0.
	LogMessages map[string]uint64
	SelfTest    SelfTest
	Client      ClientState
	Store       *StoreState // nil: there is no store
	// Discovery are the mechanisms of service discovery that are configured.
	Discovery []DiscoveryState
	// Budgets are those of the continuous probes' objectives, one for each pool.
	Budgets []probes.ErrorBudget
	// ServerRequests are the requests per second that servers count, by target; those
	// that do not are missing.
	ServerRequests map[string]float64
}

// DiscoveryState is how one mechanism of service discovery does.
type DiscoveryState struct {
	Mechanism   string
	Targets     int       // reported, before relabelling
	Failures    uint64    // of refreshes
	LastSuccess time.Time // zero: unknown
}

// ClientState is whether the process keeps its own times.
type ClientState struct {
	LoopLag *LoopLag                 // nil: not measured
	CPU     probes.Optional[float64] // of the last second, as a share of what there is
	// Saturated: what is measured now cannot be trusted.
	Saturated probes.Optional[bool]
}

// StoreState is how the store is.
type StoreState struct {
	// Errors counts by the values of the label operation; missing ones are 0.
	Errors    map[string]uint64
	Size      int64     // bytes; 0: not measured
	LastWrite time.Time // zero: none yet
	Waiting   int       // runs that could not be written and are kept
	Lost      uint64    // and those that are not
}

// LoopLag is the histogram of inferbeat_client_loop_lag_seconds, which its owner
// fills while scrapes read it.
type LoopLag struct {
	mu        sync.Mutex
	histogram histogram
}

// NewLoopLag makes an empty one.
func NewLoopLag() *LoopLag {
	metric, _ := catalog.Lookup(catalog.ClientLoopLag)
	return &LoopLag{histogram: histogram{bounds: metric.Buckets}}
}

// Observe counts how late the timer was.
func (l *LoopLag) Observe(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.histogram.observe(late.Seconds())
}

func (l *LoopLag) export(show forms, created, now time.Time) *dto.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.histogram.export(show, created, now)
}

// SelfTest is what the daemon's reference stream showed last.
type SelfTest struct {
	At time.Time // zero: nothing yet
	// Error and Tolerance are by the values of the label signal.
	Error, Tolerance map[string]time.Duration
}

// SinkState are the totals of one exporter.
type SinkState struct {
	Name            string
	Dropped, Errors uint64
}

func (e *Exporter) addDaemon(b *builder, show forms, now time.Time, facts map[string]*probes.ServerFacts) {
	b.info(catalog.BuildInfo, e.build...)
	if e.opts.MaxSeries > 0 {
		b.gauge(catalog.MetricsSeriesLimit, nil, float64(e.opts.MaxSeries))
	}
	if e.opts.Daemon == nil {
		return
	}
	d := e.opts.Daemon()
	started := timestamppb.New(e.started)
	b.info(catalog.ConfigInfo, label("sha256", d.ConfigSHA256))
	b.gaugeFlag(catalog.ConfigReloadSuccessful, nil, d.ReloadOK)
	b.gaugeTime(catalog.ConfigReloadTimestamp, nil, d.ReloadedAt)
	b.gaugeTime(catalog.SchedulerLastTick, nil, d.SchedulerTick)
	b.gauge(catalog.SchedulerQueue, nil, float64(d.RunsWaiting))
	b.counter(catalog.Panics, nil, d.Panics, started)
	e.addTargets(b, &d, facts)
	if d.LogMessages != nil {
		for _, level := range sortedKeys(e.enums[catalog.LabelLevel]) {
			b.counter(catalog.LogMessages, nil, d.LogMessages[level], started, e.enum(catalog.LabelLevel, level))
		}
	}
	for i := range d.Budgets {
		budget := &d.Budgets[i]
		b.gauge(catalog.SLOBudgetRemaining, nil, budget.Remaining, label(catalog.LabelPool, budget.Pool), label(catalog.LabelTargetEnv, budget.Environment),
			label(catalog.LabelModel, budget.Model), label(catalog.LabelProbe, budget.Probe), label(catalog.LabelSLO, budget.SLO))
	}
	e.addDiscovery(b, d.Discovery, started)
	e.addSelfTest(b, d.SelfTest)
	e.addClient(b, d.Client, show, now)
	e.addStore(b, d.Store, started)
	for _, s := range d.Sinks {
		name := label(catalog.LabelSink, s.Name)
		b.counter(catalog.ExporterDroppedEvents, nil, s.Dropped, started, name)
		b.counter(catalog.ExporterErrors, nil, s.Errors, started, name)
	}
}

func (e *Exporter) addTargets(b *builder, d *DaemonState, facts map[string]*probes.ServerFacts) {
	for i := range d.Targets {
		t := &d.Targets[i]
		b.info(catalog.TargetInfo, e.targetFacts(t, facts[t.Name])...)
		if rate, ok := d.ServerRequests[t.Name]; ok {
			b.gauge(catalog.ServerRequests, targetLabels(t), rate)
		}
	}
	if d.TargetStates != nil {
		for _, state := range sortedKeys(e.enums[catalog.LabelState]) {
			b.gauge(catalog.Targets, nil, float64(d.TargetStates[state]), e.enum(catalog.LabelState, state))
		}
	}
}

func (e *Exporter) addStore(b *builder, s *StoreState, started *timestamppb.Timestamp) {
	if s == nil {
		return
	}
	for _, operation := range sortedKeys(e.enums[catalog.LabelOperation]) {
		b.counter(catalog.StoreErrors, nil, s.Errors[operation], started, e.enum(catalog.LabelOperation, operation))
	}
	if s.Size > 0 {
		b.gauge(catalog.StoreSize, nil, float64(s.Size))
	}
	b.gaugeTime(catalog.StoreLastWrite, nil, s.LastWrite)
	b.gauge(catalog.StoreUnwritten, nil, float64(s.Waiting))
	b.counter(catalog.StoreLost, nil, s.Lost, started)
}

func (e *Exporter) addDiscovery(b *builder, states []DiscoveryState, started *timestamppb.Timestamp) {
	for _, s := range states {
		mechanism := e.enum(catalog.LabelMechanism, s.Mechanism)
		b.gauge(catalog.DiscoveryTargets, nil, float64(s.Targets), mechanism)
		b.counter(catalog.DiscoveryFailures, nil, s.Failures, started, mechanism)
		b.gaugeTime(catalog.DiscoveryLastSuccess, nil, s.LastSuccess, mechanism)
	}
}

func (e *Exporter) addSelfTest(b *builder, s SelfTest) {
	b.gaugeTime(catalog.SelfTestTimestamp, nil, s.At)
	for _, signal := range sortedKeys(s.Error) {
		b.gauge(catalog.SelfTestError, nil, s.Error[signal].Seconds(), e.enum(catalog.LabelSignal, signal))
	}
	for _, signal := range sortedKeys(s.Tolerance) {
		b.gauge(catalog.SelfTestTolerance, nil, s.Tolerance[signal].Seconds(), e.enum(catalog.LabelSignal, signal))
	}
}

func (e *Exporter) addClient(b *builder, c ClientState, show forms, now time.Time) {
	if c.LoopLag != nil {
		b.histogram(catalog.ClientLoopLag, nil, c.LoopLag.export(show, e.started, now))
	}
	if share, ok := c.CPU.Get(); ok {
		b.gauge(catalog.ClientCPUSaturation, nil, share)
	}
	if saturated, ok := c.Saturated.Get(); ok {
		b.gaugeFlag(catalog.ClientSaturated, nil, saturated)
	}
}

func (e *Exporter) targetFacts(t *probes.Target, server *probes.ServerFacts) []*dto.LabelPair {
	facts := append(targetLabels(t),
		label("backend", t.Backend), label("site", t.Site))
	facts = append(facts, serverFacts(server, t.Labels)...)
	for _, name := range e.opts.SiteLabels {
		facts = append(facts, label(name, t.Labels[name]))
	}
	return facts
}

// targetLabels are the identity labels of a target.
func targetLabels(t *probes.Target) []*dto.LabelPair {
	return pairLabels(probes.Pair{Target: t.Name, Pool: t.Pool, Environment: t.Environment, Model: t.Model})[:4:4]
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// checkSiteLabels refuses names that Prometheus would, and those that
// inferbeat_target_info has already.
func checkSiteLabels(names []string) error {
	var errs []error
	if len(names) > MaxSiteLabels {
		errs = append(errs, fmt.Errorf("%d site labels: at most %d are allowed", len(names), MaxSiteLabels))
	}
	info, _ := catalog.Lookup(catalog.TargetInfo)
	for i, name := range names {
		switch {
		case !labelName.MatchString(name) || len(name) > 1 && name[:2] == "__":
			errs = append(errs, fmt.Errorf("site label %q: want letters, digits and underscores, no digit first, no double underscore first", name))
		case info.HasLabel(name) || slices.Contains(names[:i], name):
			errs = append(errs, fmt.Errorf("site label %q: %s has it already", name, info.Name))
		}
	}
	return errors.Join(errs...)
}

// sorted lists the values of a map in the order of its keys.
func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []V {
	keys := slices.SortedFunc(maps.Keys(m), compare)
	out := make([]V, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func compareText(a, b string) int { return cmp.Compare(a, b) }
