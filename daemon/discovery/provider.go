package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/dns"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"k8s.io/klog/v2"
)

// restartTime is after how long a provider is tried again that could not be started, or
// has ended: outside of a cluster, or with no file watch left.
const restartTime = 30 * time.Second

// failureCounters are what Prometheus's mechanisms count their failures in.
var failureCounters = map[string]bool{
	"prometheus_sd_file_read_errors_total":    true,
	"prometheus_sd_file_watcher_errors_total": true,
	"prometheus_sd_http_failures_total":       true,
	"prometheus_sd_dns_lookup_failures_total": true,
	"prometheus_sd_kubernetes_failures_total": true,
}

// provider is one item of the configuration and what it has reported.
type provider struct {
	entry, mechanism string
	text, dir        string // with which it is the same as another one
	config           discovery.Config
	registry         *prometheus.Registry // of its own, so that its failures can be told
	metrics          discovery.DiscovererMetrics
	stop             context.CancelFunc // nil: not started

	// The manager's lock guards what follows.
	groups   map[string]*targetgroup.Group // by source
	reported bool
	// updated is when the last list came, succeeded when the last one came whole.
	updated, succeeded time.Time
	broken             uint64 // starts that failed
}

func newProvider(entry string, i *item, dir string) *provider {
	p := &provider{
		entry: entry, mechanism: i.config.Name(), text: i.text, dir: dir, config: i.config,
		registry: prometheus.NewRegistry(), groups: map[string]*targetgroup.Group{},
	}
	p.metrics = i.config.NewDiscovererMetrics(p.registry, discovery.NewRefreshMetrics(p.registry))
	if err := p.metrics.Register(); err != nil {
		panic(fmt.Sprintf("discovery: count failures of %s: %v", p.mechanism, err)) // the registry is new
	}
	return p
}

// list is what the provider knows, in a fixed order.
func (p *provider) list() []*targetgroup.Group {
	var out []*targetgroup.Group
	for _, source := range slices.Sorted(maps.Keys(p.groups)) {
		out = append(out, p.groups[source])
	}
	return out
}

// failures counts what went wrong since the provider was made.
func (p *provider) failures() uint64 {
	n := p.broken
	for _, f := range p.gather() {
		if failureCounters[f.GetName()] {
			for _, metric := range f.Metric {
				n += uint64(metric.GetCounter().GetValue())
			}
		}
	}
	return n
}

// gather is what Prometheus's mechanism counts of itself; what cannot be read is left out.
func (p *provider) gather() []*dto.MetricFamily {
	families, _ := p.registry.Gather()
	return families
}

// take keeps a report. Prometheus's mechanisms report what has changed, by source.
func (p *provider) take(groups []*targetgroup.Group, now time.Time) {
	for _, g := range groups {
		switch {
		case g == nil:
		case len(g.Targets) == 0:
			delete(p.groups, g.Source)
		default:
			p.groups[g.Source] = g
		}
	}
	p.updated = now
	switch c := p.config.(type) {
	case *dns.SDConfig:
		// A name that could not be looked up is left out, and what it gave before stays.
		if len(groups) < len(c.Names) {
			return
		}
		p.succeeded = now
	default:
		if p.mechanism != "file" {
			p.succeeded = now
		}
	}
	p.reported = true
}

// settle judges a refresh of files: some of them may have been read and others not.
func (p *provider) settle() {
	if c, ok := p.config.(*file.SDConfig); ok && p.updated.After(p.succeeded) && p.current(c) {
		p.succeeded = p.updated
	}
}

// fileTimes is how Prometheus says of which time the files are that it could read.
const fileTimes = "prometheus_sd_file_mtime_seconds"

// current reports whether every file was read as it is now.
func (p *provider) current(c *file.SDConfig) bool {
	read := map[string]int64{}
	for _, f := range p.gather() {
		if f.GetName() != fileTimes {
			continue
		}
		for _, metric := range f.Metric {
			read[metric.Label[0].GetValue()] = int64(metric.GetGauge().GetValue())
		}
	}
	for _, pattern := range c.Files {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return false
		}
		for _, name := range files {
			if info, err := os.Stat(name); err == nil && info.ModTime().Unix() != read[name] {
				return false
			}
		}
	}
	return true
}

// provide runs the provider until ctx ends.
func (m *Manager) provide(ctx context.Context, p *provider) {
	for {
		err := m.discover(ctx, p)
		if ctx.Err() != nil {
			return
		}
		m.options.Log.Error("service discovery does not run; it is tried again", "mechanism", p.mechanism, "entry", p.entry, "after", restartTime, "err", err)
		m.mu.Lock()
		p.broken++
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartTime):
		}
	}
}

// discover takes reports until the discoverer ends, which it does before ctx only when
// it is broken.
func (m *Manager) discover(ctx context.Context, p *provider) error {
	if p.mechanism == "kubernetes" {
		m.quietKubernetes()
	}
	options := discovery.DiscovererOptions{
		Logger: m.options.Log.With("mechanism", p.mechanism, "entry", p.entry), Metrics: p.metrics, SetName: p.entry,
	}
	if m.options.Dial != nil {
		options.HTTPClientOptions = append(options.HTTPClientOptions, commonconfig.WithDialContextFunc(m.options.Dial))
	}
	d, err := p.config.NewDiscoverer(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := make(chan []*targetgroup.Group)
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				ended <- fmt.Errorf("panic in service discovery: %v", cause)
			}
		}()
		d.Run(ctx, updates)
		ended <- errors.New("service discovery has ended by itself")
	}()
	for {
		select {
		case err := <-ended:
			return err
		case groups := <-updates:
			m.mu.Lock()
			p.take(groups, time.Now())
			m.mu.Unlock()
			m.poke()
		}
	}
}

// klogOnce: the logger of the Kubernetes client is one for the whole process, and would
// otherwise write to standard error in a form of its own.
var klogOnce sync.Once

func (m *Manager) quietKubernetes() {
	klogOnce.Do(func() { klog.SetSlogLogger(m.options.Log.With("mechanism", "kubernetes")) })
}
