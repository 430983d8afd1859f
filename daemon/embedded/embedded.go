package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"
)

// Options are what an embedded Prometheus is opened with. All but the destinations
// of alerts are required.
type Options struct {
	// Dir is where the series are kept; it is made if it is missing, and locked.
	Dir string
	// Retention is how long they are kept.
	Retention time.Duration
	// MaxSize is the most bytes that the folder may take; the oldest blocks go first. 0
	// is no bound.
	MaxSize int64
	// ScrapeInterval and EvaluationInterval are how often the metrics are read and
	// rule groups without an interval of their own evaluated.
	ScrapeInterval, EvaluationInterval time.Duration
	// Metrics is the handler of /metrics.
	Metrics http.Handler
	// Instance is the value of the label of that name, the address of the page.
	Instance string
	// Rules is a Prometheus rule file.
	Rules []byte
	// ExternalURL is where people find the page; alerts link to it.
	ExternalURL *url.URL
	// Alertmanagers are base URLs. Alerts go to all of them.
	Alertmanagers []Destination
	// Webhooks are told the alerts as Alertmanager's webhook receiver would.
	Webhooks []Destination
	Log      *slog.Logger
}

// Destination is where alerts go. The URL may hold a secret, as those of chat
// services do; it is never shown.
type Destination struct {
	Name string // for logs and metrics
	URL  string
	// BearerToken goes with each request; empty sends none.
	BearerToken string
}

const (
	// job is the label of the scraped series, as the shipped rules expect one.
	job = "inferbeat"
	// queryTimeout, maxSamples and maxQueries bound what a reader can ask for: the
	// process that measures must not be starved by a dashboard. Of two processors
	// queries take one.
	queryTimeout = 30 * time.Second
	maxSamples   = 5_000_000
	maxQueries   = 4
	lookback     = 5 * time.Minute
	maxExemplars = 10_000
	// outageTolerance and forGrace are Prometheus's defaults: how long an outage may
	// be for pending alerts to keep their time, and the least of it that is left.
	outageTolerance = time.Hour
	forGrace        = 10 * time.Minute
	resendDelay     = time.Minute
)

// Prometheus is an open one. Handler, Alerts and Size may be called while it runs.
type Prometheus struct {
	options  Options
	registry *prometheus.Registry // of the pieces
	db       *tsdb.DB
	judging  *promql.Engine // of the rules
	reading  *promql.Engine // of the API
	parser   parser.Parser
	config   *config.Config
	scraper  *scrape.Manager
	inside   *pipeListener
	notifier *notifier.Manager
	rules    *rules.Manager
	webhooks []*webhook
	api      http.Handler

	stopRules context.CancelFunc // ends evaluations that are under way
	closing   sync.Once
	closed    error
}

// Open acquires everything. Nothing is scraped or evaluated before Run; the error
// names the folder, the rule or the destination that is wrong.
func Open(o Options) (*Prometheus, error) {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open the embedded Prometheus: %w", err)
	}
	p := &Prometheus{options: o, registry: prometheus.NewRegistry(), parser: parser.NewParser(parser.Options{}), inside: newPipeListener()}
	for _, open := range []func() error{p.openStorage, p.openScraper, p.openRules} {
		if err := open(); err != nil {
			return nil, errors.Join(fmt.Errorf("open the embedded Prometheus: %w", err), p.Close())
		}
	}
	p.api = p.newAPI()
	return p, nil
}

func (p *Prometheus) openStorage() (err error) {
	options := tsdb.DefaultOptions()
	options.RetentionDuration, options.MaxBytes = p.options.Retention.Milliseconds(), p.options.MaxSize
	options.WALCompression = compression.Snappy // as Prometheus does
	options.EnableExemplarStorage, options.MaxExemplars = true, maxExemplars
	// Blocks are cut every two hours; a shorter retention needs shorter ones, or
	// nothing would ever be old enough to be dropped.
	if block := p.options.Retention / 4; block < 2*time.Hour {
		options.MinBlockDuration = max(block, time.Minute).Milliseconds()
		options.MaxBlockDuration = options.MinBlockDuration
	}
	p.db, err = tsdb.Open(p.options.Dir, p.options.Log, p.registry, options, tsdb.NewDBStats())
	if err != nil {
		return fmt.Errorf("series in %s: %w; %s", p.options.Dir, err, remedy(err))
	}
	p.judging, p.reading = p.newEngine("rules", nil), p.newEngine("queries", newGate(places(runtime.GOMAXPROCS(0))))
	return nil
}

// remedy says what to do about a folder that cannot be opened. What was cut off by a
// crash is repaired without asking; what is damaged otherwise is left to people, who
// may want to look at it.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return "another process has this folder: give each daemon one of its own"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOSPC):
		return "the daemon needs a folder that it can write to"
	}
	return "move the folder away to begin anew; results are in the store and not here"
}

// newEngine makes an engine. That of the rules has no gate: a reader must not keep an
// alert from being evaluated.
func (p *Prometheus) newEngine(name string, gate promql.QueryTracker) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		Logger: p.options.Log, Parser: p.parser, ActiveQueryTracker: gate,
		Reg:        prometheus.WrapRegistererWith(prometheus.Labels{"engine": name}, p.registry),
		MaxSamples: maxSamples, Timeout: queryTimeout, LookbackDelta: lookback,
		EnableAtModifier: true, EnableNegativeOffset: true, EnablePerStepStats: true,
	})
}

func (p *Prometheus) openScraper() (err error) {
	if p.config, err = newConfig(p.options); err != nil {
		return err
	}
	p.scraper, err = scrape.NewManager(&scrape.Options{
		DiscoveryReloadInterval: model.Duration(time.Second), DiscoveryReloadOnStartup: true,
		HTTPClientOptions: p.inside.clientOptions(),
	}, p.options.Log, nil, nil, p.db, p.registry)
	if err != nil {
		return err
	}
	return p.scraper.ApplyConfig(p.config)
}

func (p *Prometheus) openRules() error {
	p.notifier = notifier.NewManager(&notifier.Options{
		QueueCapacity: 1000, DrainOnShutdown: true, Registerer: p.registry, Do: unnamed(p.options.Alertmanagers),
	}, model.UTF8Validation, p.options.Log)
	if err := p.notifier.ApplyConfig(p.config); err != nil {
		return err
	}
	for _, d := range p.options.Webhooks {
		hook := newWebhook(d, p.options.ExternalURL, p.options.Log)
		hook.file = filepath.Join(p.options.Dir, "webhook-"+url.PathEscape(d.Name)+".json")
		p.webhooks = append(p.webhooks, hook)
	}
	file := filepath.Join(p.options.Dir, "rules.yml")
	if err := os.WriteFile(file, p.options.Rules, 0o640); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stopRules = cancel
	p.rules = rules.NewManager(&rules.ManagerOptions{
		Context: ctx, Logger: p.options.Log, Registerer: p.registry, ExternalURL: p.options.ExternalURL, Parser: p.parser,
		NameValidationScheme: model.UTF8Validation, AppendableV2: p.db, Queryable: p.db,
		QueryFunc: rules.EngineQueryFunc(p.judging, p.db), NotifyFunc: p.notify,
		OutageTolerance: outageTolerance, ForGracePeriod: forGrace, ResendDelay: resendDelay,
	})
	return p.rules.Update(p.options.EvaluationInterval, []string{file}, labels.EmptyLabels(), p.options.ExternalURL.String(), nil)
}

// Run scrapes, evaluates and notifies until ctx ends, then closes everything. Alerts
// that are queued are still sent, as far as that goes quickly.
func (p *Prometheus) Run(ctx context.Context) error {
	var running sync.WaitGroup
	run := func(f func()) {
		running.Add(1)
		go func() { defer running.Done(); f() }()
	}
	server := &http.Server{Handler: p.options.Metrics, ReadHeaderTimeout: 10 * time.Second}
	run(func() { _ = server.Serve(p.inside) })
	run(func() {
		if err := p.scraper.Run(once(targets(p.options.Instance))); err != nil {
			p.options.Log.Error("scrape the own metrics", "err", err)
		}
	})
	run(func() { p.notifier.Run(once(alertmanagers(p.options.Alertmanagers))) })
	hooks, stopHooks := context.WithCancel(context.WithoutCancel(ctx))
	for _, hook := range p.webhooks {
		run(func() { hook.run(hooks) })
	}
	run(p.rules.Run)

	<-ctx.Done()
	p.stopRules()
	p.rules.Stop()
	p.scraper.Stop()
	p.notifier.Stop()
	stopHooks()
	_ = server.Close()
	running.Wait()
	return p.Close()
}

// once is a channel that brings one value and then nothing.
func once(groups map[string][]*targetgroup.Group) <-chan map[string][]*targetgroup.Group {
	ch := make(chan map[string][]*targetgroup.Group, 1)
	ch <- groups
	return ch
}

// Close closes the storage; Run does it by itself.
func (p *Prometheus) Close() error {
	p.closing.Do(func() {
		if p.stopRules != nil {
			p.stopRules()
		}
		if p.db != nil {
			p.closed = p.db.Close()
		}
	})
	return p.closed
}

// Handler answers the query API under /api/v1/.
func (p *Prometheus) Handler() http.Handler { return p.api }
