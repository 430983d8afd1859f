package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	exporterweb "github.com/prometheus/exporter-toolkit/web"

	"github.com/inferbeat/inferbeat/alerts"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/discovery"
	"github.com/inferbeat/inferbeat/daemon/embedded"
	"github.com/inferbeat/inferbeat/daemon/guard"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/daemon/selftest"
	"github.com/inferbeat/inferbeat/daemon/web"
	"github.com/inferbeat/inferbeat/exporters"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
)

// Options are what a daemon is started with.
type Options struct {
	ConfigFiles []string
	Env         []string
	Overrides   map[string]any // dotted keys; win over files and environment
	LogTo       io.Writer      // nil discards
	Version     string
	// Reload asks for a reload each time something arrives, usually SIGHUP.
	Reload <-chan os.Signal
	// Watch is how often the files are compared with what was loaded; 0 never.
	Watch time.Duration
	// Banner is a line for the page.
	Banner string
	// PageRefresh is how often an open page asks again; 0 never.
	PageRefresh time.Duration
	// Shard is the part of the targets that this daemon probes; the zero Shard is all.
	Shard Shard
	// Dial replaces the network towards the targets, and of http_sd_configs.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	discoverEvery time.Duration // for tests; 0 is discovery.ChangeInterval
}

// App is a running daemon.
type App struct {
	options     Options
	log         *slog.Logger
	logLevel    *slog.LevelVar
	logCount    logCounter
	started     time.Time
	tracker     *tracker
	comparisons *comparisons
	runner      *Runner
	scheduler   *schedule.Scheduler
	prom        *prom.Exporter
	registry    *prometheus.Registry
	embedded    *embedded.Prometheus // nil when it is off
	fanout      *exporters.Fanout
	memory      *memory
	listener    net.Listener
	tls         bool // the page is served with TLS
	server      *http.Server

	running   runContext
	reference selftest.Reference
	client    *clientMeter
	nights    nights
	traffic   *trafficMeter
	gate      guard.Gate
	pulls     pulls
	discovery *discovery.Manager

	reloading sync.Mutex     // one reload, or change of what is discovered, at a time
	written   *config.Config // as the files say: without what is discovered
	state     sync.Mutex
	config    *config.Config
	pairs     map[pairKey]config.Pair  // of config
	rejected  map[config.Rejected]bool // of what is discovered
	loaded    string                   // fingerprint of the files of the last attempt
	reloadErr error
	reloaded  time.Time
	ready     bool
	panics    uint64
}

// New loads the configuration and acquires everything that can fail, the
// listener included. The daemon does nothing before Run.
func New(o Options) (*App, error) {
	loaded := config.Fingerprint(o.ConfigFiles)
	c, err := LoadConfig(config.Source{Files: o.ConfigFiles, Env: o.Env, Overrides: o.Overrides})
	if err != nil {
		return nil, err
	}
	if o.LogTo == nil {
		o.LogTo = io.Discard
	}
	a := &App{options: o, logLevel: new(slog.LevelVar), started: time.Now(), tracker: newTracker(time.Now), client: newClientMeter(), loaded: loaded, nights: nights{past: &ephemeral{}}}
	a.comparisons = &comparisons{now: time.Now}
	a.log = newLogger(o.LogTo, c.Log.Format, a.logLevel, &a.logCount)
	a.runner = &Runner{UserAgent: UserAgent(o.Version), Dial: o.Dial}
	a.scheduler = schedule.New(schedule.Options{Start: a.startRun, Skipped: a.skipped, Panicked: a.schedulePanicked})
	a.traffic = newTrafficMeter(c.Metrics.ServerInterval, a.runner.options(), a.scheduler.Paused, a.panicked)
	if a.prom, err = newProm(a, c); err != nil {
		return nil, err
	}
	sinks := []exporters.Sink{a.prom}
	if c.Results.Path != "" {
		sinks = append(sinks, jsonl.NewFile(jsonl.FileOptions{
			Path: c.Results.Path, Encode: jsonl.Options{Details: c.Results.Details, Version: o.Version},
		}))
	}
	// The store comes before the listener: the first scrape has what the last process
	// knew.
	if a.memory, err = openMemory(context.Background(), c.Storage, a.log, time.Now); err != nil {
		return nil, err
	}
	if a.memory.store != nil {
		a.nights.past = remembered{a.memory}
		a.recallSpending(context.Background())
	}
	if err := a.acquire(c); err != nil {
		return nil, errors.Join(err, a.memory.close())
	}
	if err := a.openEmbedded(c); err != nil {
		return nil, errors.Join(err, a.listener.Close(), a.memory.close())
	}
	a.fanout = exporters.NewFanout(a.log, 0, sinks...)
	a.server = &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second}
	return a, nil
}

// acquire makes c the configuration and takes the address.
func (a *App) acquire(c *config.Config) (err error) {
	entries, err := entriesOf(c)
	if err != nil {
		return err
	}
	a.written = c
	a.discovery = discovery.New(discovery.Options{Log: a.log, Dial: a.options.Dial, Interval: a.options.discoverEvery})
	a.discovery.Replace(entries)
	next, _ := a.expand(c, nil)
	if err := a.apply(next); err != nil {
		return err
	}
	a.reloaded = time.Now()
	if err := exporterweb.Validate(c.Web.ConfigFile); err != nil {
		return fmt.Errorf("read web.config_file: %w", err)
	}
	if a.tls, err = c.Web.ServesTLS(); err != nil {
		return err
	}
	if a.listener, err = net.Listen("tcp", c.Web.ListenAddress); err != nil {
		return fmt.Errorf("listen on web.listen_address: %w", err)
	}
	return nil
}

// newProm makes the exporter of /metrics.
func newProm(a *App, c *config.Config) (*prom.Exporter, error) {
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return prom.New(prom.Options{
		Registry: a.registry, Snapshot: a.Pairs, Comparisons: a.Comparisons, Daemon: a.daemonState,
		Build:      buildInfo(a.options.Version),
		Histograms: prom.HistogramMode(c.Metrics.Histograms), MaxSeries: c.Metrics.MaxSeries,
		Good: summaryGood, Now: time.Now, Log: a.log,
	})
}

// URL is where the page is.
func (a *App) URL() string {
	if a.tls {
		return "https://" + a.listener.Addr().String()
	}
	return "http://" + a.listener.Addr().String()
}

// Run serves and probes until ctx ends, then stops in order: no new runs, the
// running ones cut and recorded as aborted, exporters drained, listener closed.
// It returns within the configured grace.
func (a *App) Run(ctx context.Context) error {
	scheduling, stopScheduling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopScheduling()
	a.running.reset(scheduling)

	a.nameModels(ctx, a.current())
	if err := a.prom.SetPairs(a.tracker.snapshot(nil)); err != nil {
		return fmt.Errorf("export the pairs under the models of their targets: %w", err)
	}

	served := make(chan error, 1)
	go func() { served <- a.serve() }()
	scheduled := make(chan struct{})
	go func() { defer close(scheduled); a.scheduler.Run(scheduling) }()
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	side := a.startSide(watching)

	a.setReady(true)
	a.log.Info("inferbeat is up", "version", a.options.Version, "address", a.listener.Addr().String(), "pairs", len(a.Pairs()))
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-served:
		failure = fmt.Errorf("serve http: %w", failure)
	}

	a.setReady(false)
	grace := a.current().ShutdownGrace
	a.log.Info("stopping", "grace", grace)
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	stopWatching()
	stopScheduling()
	err := errors.Join(
		failure,
		wait(deadline, scheduled, "end running probes"),
		a.fanout.Close(deadline),
		waitAll(deadline, side),
		a.server.Shutdown(deadline),
	)
	_ = a.server.Close()
	err = errors.Join(err, a.memory.close())
	a.runner.Close()
	a.traffic.close()
	return err
}

// startSide starts what goes on beside the probes until ctx ends.
func (a *App) startSide(ctx context.Context) (side []task) {
	start := func(what string, run func(context.Context)) { side = append(side, startTask(ctx, what, run)) }
	start("end the watch on the configuration", a.watch)
	start("end service discovery", func(ctx context.Context) {
		a.discovery.Run(ctx, func() { a.rediscover(ctx) })
	})
	start("end the reference stream", a.refer)
	start("end the meter of the process", func(ctx context.Context) { a.client.run(ctx, selftest.ProcessCPU) })
	start("end the readings of the servers' pages", a.traffic.run)
	start("end the pruning of the store", func(ctx context.Context) {
		a.memory.keepSmall(ctx, func() []probes.PairStatus { return a.tracker.snapshot(nil) })
	})
	if a.memory.store != nil {
		start("end the watch on acknowledgements", a.hearAcks)
	}
	if a.embedded != nil {
		start("close the embedded Prometheus", a.keepSeries)
	}
	return side
}

// task is something that goes on beside the probes.
type task struct {
	what string // what waiting for its end is
	done chan struct{}
}

func startTask(ctx context.Context, what string, run func(context.Context)) task {
	t := task{what, make(chan struct{})}
	go func() { defer close(t.done); run(ctx) }()
	return t
}

func waitAll(ctx context.Context, tasks []task) error {
	var errs []error
	for _, t := range tasks {
		errs = append(errs, wait(ctx, t.done, t.what))
	}
	return errors.Join(errs...)
}

// wait waits for done until ctx ends.
func wait(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// serve blocks until the listener fails or the server is shut down.
func (a *App) serve() error {
	var (
		systemd   = false
		addresses = []string{a.listener.Addr().String()}
		file      = a.current().Web.ConfigFile
	)
	err := exporterweb.Serve(a.listener, a.server, &exporterweb.FlagConfig{
		WebListenAddresses: &addresses, WebSystemdSocket: &systemd, WebConfigFile: &file,
	}, a.log.With("component", "web"))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (a *App) handler() http.Handler {
	orders := web.Orders{}
	if a.current().Web.EnableLifecycle {
		orders = web.Orders{Reload: a.Reload, Pause: a.Pause}
	}
	var probe http.Handler
	if a.current().Web.EnableProbe {
		probe = http.HandlerFunc(a.answerProbe)
	}
	options := web.Options{Source: a, Metrics: a.prom.Handler(), Orders: orders, Probe: probe, Refresh: a.options.PageRefresh, Runs: a.memory.runs(), Runbooks: alerts.Alerts(), Runbook: alerts.Runbook}
	if a.embedded != nil {
		options.Alerts, options.Queries, options.QueryRoutes = a.webAlerts, a.embedded.Handler(), embedded.Routes
	}
	return web.Handler(options)
}

// Pause stops all probing at once, or lets it go on. Runs that are going on are
// cut: whoever pauses wants the load gone.
func (a *App) Pause(paused bool) {
	a.scheduler.Pause(paused)
	a.tracker.setPaused(paused)
	if paused {
		a.running.cut()
	}
	a.log.Warn("probing is paused or resumed by order", "paused", paused)
}

// Pairs is a snapshot of all pairs, each laid beside the others of its kind.
func (a *App) Pairs() []probes.PairStatus {
	pairs := a.tracker.snapshot(a.nextStarts())
	apply(incidentsOf(pairs, a.labels), pairs)
	outliers(pairs)
	a.sayHeld(pairs, time.Now())
	a.memory.sayUnstored(pairs)
	return pairs
}

// Comparisons is a snapshot of all comparisons.
func (a *App) Comparisons() []probes.ComparisonStatus { return a.comparisons.snapshot(a.nextStarts()) }

func (a *App) nextStarts() map[pairKey]time.Time {
	next := map[pairKey]time.Time{}
	for pair, at := range a.scheduler.NextStarts() {
		next[keyOf(pair)] = at
	}
	return next
}

// Status is the daemon's own state for the page.
func (a *App) Status() web.Status {
	a.state.Lock()
	defer a.state.Unlock()
	s := web.Status{
		Now: time.Now(), Started: a.started, Version: a.options.Version, Ready: a.ready,
		Paused: a.scheduler.Paused(), ConfigSHA: a.config.SHA256(), Banner: a.options.Banner,
		StoreError: a.memory.failing(),
	}
	s.Unstored, _ = a.memory.backlog.state()
	if a.reloadErr != nil {
		s.ReloadError = a.reloadErr.Error()
	}
	return s
}

func (a *App) current() *config.Config {
	a.state.Lock()
	defer a.state.Unlock()
	return a.config
}

func (a *App) configured(key pairKey) (config.Pair, bool) {
	a.state.Lock()
	defer a.state.Unlock()
	p, ok := a.pairs[key]
	return p, ok
}

func (a *App) setReady(ready bool) {
	a.state.Lock()
	defer a.state.Unlock()
	a.ready = ready
}
