package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// Options configures an Exporter.
type Options struct {
	// Registry holds collectors of other prefixes (go_, process_), which are shown
	// beside ours; nil for none.
	Registry *prometheus.Registry
	// Snapshot is called once a scrape and returns the configured pairs. The
	// exporter does not change what it points to. Required.
	Snapshot func() []probes.PairStatus
	// Comparisons is called once a scrape and returns the configured comparisons; nil
	// is none.
	Comparisons func() []probes.ComparisonStatus
	// Daemon is called once a scrape; nil leaves out what only it can tell.
	Daemon func() DaemonState
	Build  Build
	// Histograms is how histograms are shown; empty is HistogramsAuto.
	Histograms HistogramMode
	// MaxSeries is the highest estimate that SetPairs accepts; 0 is no limit.
	MaxSeries int
	// SiteLabels are the labels of targets that inferbeat_target_info shows, at
	// most MaxSiteLabels.
	SiteLabels []string
	// TPOTMinOutput is the mean output, in tokens, below which a result's tpot and
	// itl are too noisy to judge: their limits are withheld, which switches the
	// alerts off. 0 is DefaultTPOTMinOutput, a negative number never withholds.
	TPOTMinOutput int
	// Good holds a request against an objective: whether it was kept, and whether
	// the request counts at all (summary.Good). Required.
	Good func(r *probes.Record, slo *probes.SLO) (good, counts bool)
	// Now is the wall clock. Required.
	Now func() time.Time
	// Log receives errors of scrapes; nil discards.
	Log *slog.Logger
}

const (
	// DefaultTPOTMinOutput is 100 tokens.
	DefaultTPOTMinOutput = 100
	// MaxSiteLabels bounds the labels of inferbeat_target_info.
	MaxSiteLabels = 5
)

// Build says what binary this is.
type Build struct{ Version, Revision, GoVersion string }

// HistogramMode is how histograms are shown.
type HistogramMode string

const (
	// HistogramsAuto is both forms for up to 200 pairs, native only beyond: text
	// of classic buckets would be tens of megabytes a scrape.
	HistogramsAuto    HistogramMode = "auto"
	HistogramsClassic HistogramMode = "classic"
	HistogramsNative  HistogramMode = "native"
)

// histogramModes lists the modes in the order they are documented.
var histogramModes = []HistogramMode{HistogramsAuto, HistogramsClassic, HistogramsNative}

const autoClassicPairs = 200

// forms resolves the mode for a number of pairs.
func (m HistogramMode) forms(pairs int) forms {
	switch m {
	case HistogramsClassic:
		return forms{classic: true}
	case HistogramsNative:
		return forms{native: true}
	}
	return forms{native: true, classic: pairs <= autoClassicPairs}
}

// Exporter is a sink of events and a source of metric families. All methods may
// be called at once.
type Exporter struct {
	opts    Options
	catalog map[string]catalog.Metric
	enums   map[string]map[string]*dto.LabelPair // label -> value of its closed list
	build   []*dto.LabelPair

	mu      sync.RWMutex // guards the maps and order, not what they point to
	pairs   map[probes.Pair]*pairSeries
	live    map[pairKey]*pairSeries
	targets map[probes.Pair]*targetSeries // by pair without its probe
	probes  map[string]*probeSeries
	order   []*pairSeries // by target, probe

	schedule struct {
		sync.Mutex
		lag histogram
	}
	started time.Time
}

// pairKey finds a configured pair. The model is not part of it: it may become
// known only when the target first answers.
type pairKey struct{ target, probe string }

// New checks the options. It fails for a missing function, an unknown mode and
// site labels that cannot be shown.
func New(o Options) (*Exporter, error) {
	if o.Snapshot == nil || o.Good == nil || o.Now == nil {
		return nil, errors.New("create metrics exporter: Snapshot, Good and Now must be set")
	}
	if o.Histograms == "" {
		o.Histograms = HistogramsAuto
	}
	if !slices.Contains(histogramModes, o.Histograms) {
		return nil, fmt.Errorf("create metrics exporter: histograms %q: want one of %v", o.Histograms, histogramModes)
	}
	if err := checkSiteLabels(o.SiteLabels); err != nil {
		return nil, fmt.Errorf("create metrics exporter: %w", err)
	}
	if o.TPOTMinOutput == 0 {
		o.TPOTMinOutput = DefaultTPOTMinOutput
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Exporter{
		opts:    o,
		catalog: map[string]catalog.Metric{},
		enums:   map[string]map[string]*dto.LabelPair{},
		pairs:   map[probes.Pair]*pairSeries{},
		live:    map[pairKey]*pairSeries{},
		targets: map[probes.Pair]*targetSeries{},
		probes:  map[string]*probeSeries{},
		started: o.Now(),
	}
	for _, m := range catalog.All() {
		e.catalog[m.Name] = m
	}
	for _, l := range catalog.Labels() {
		e.enums[l.Name] = map[string]*dto.LabelPair{}
		for _, v := range l.Values {
			e.enums[l.Name][v] = label(l.Name, v)
		}
	}
	e.build = []*dto.LabelPair{
		label("version", o.Build.Version), label("revision", o.Build.Revision), label("goversion", o.Build.GoVersion),
	}
	e.schedule.lag.bounds = e.catalog[catalog.SchedulerLag].Buckets
	return e, nil
}

// Name is the sink's name.
func (e *Exporter) Name() string { return "prometheus" }

// Close does nothing: what was counted stays readable.
func (e *Exporter) Close() error { return nil }

// Handler serves the metrics as text, OpenMetrics or protobuf, as the scraper
// asks; native histograms travel in protobuf only.
func (e *Exporter) Handler() http.Handler {
	o := promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		// A scrape is expensive; two at once would cost twice and say the same.
		CoalesceGather: true,
		// What can be shown is shown: one broken collector must not blind the alerts.
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      scrapeLog{e.opts.Log},
	}
	if e.opts.Registry != nil {
		o.Registry = e.opts.Registry
	}
	return promhttp.HandlerFor(e, o)
}

type scrapeLog struct{ log *slog.Logger }

// Println is called for each family that could not be sent. A scraper that went away is
// no fault of the page, and all the families after that would say so.
func (l scrapeLog) Println(v ...any) {
	for _, value := range v {
		if err, ok := value.(error); ok && wentAway(err) {
			l.log.Debug("a scraper did not wait for the page", "error", err)
			return
		}
	}
	l.log.Error("scrape is incomplete", "error", fmt.Sprint(v...))
}

func wentAway(err error) bool {
	for _, end := range []error{io.ErrClosedPipe, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET, context.Canceled} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// Gather builds all metric families, sorted by name.
func (e *Exporter) Gather() ([]*dto.MetricFamily, error) {
	now := e.opts.Now()
	b := newBuilder()
	e.bury(now)
	show := e.addSums(b, now)
	statuses := e.opts.Snapshot()
	e.addStatuses(b, statuses)
	if e.opts.Comparisons != nil {
		e.addComparisons(b, e.opts.Comparisons())
	}
	e.addDaemon(b, show, now, latestFacts(statuses))
	families, err := b.finish()
	if e.opts.Registry != nil {
		others, otherErr := e.opts.Registry.Gather()
		families, err = append(families, others...), errors.Join(err, otherErr)
	}
	// The count includes the series that holds it, which is why it comes last.
	count := newBuilder()
	count.gauge(catalog.MetricsSeries, nil, float64(countSeries(families)+1))
	counted, countErr := count.finish()
	families = append(families, counted...)
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families, errors.Join(err, countErr)
}

// countSeries counts series as a scraper of the text formats stores them; a
// histogram without classic buckets counts as the one native series it is.
func countSeries(families []*dto.MetricFamily) int {
	n := 0
	for _, f := range families {
		for _, m := range f.Metric {
			switch {
			case m.Histogram != nil:
				n += histogramSeries(len(m.Histogram.Bucket))
			case m.Summary != nil:
				n += len(m.Summary.Quantile) + 2
			default:
				n++
			}
		}
	}
	return n
}

// histogramSeries is what a histogram of so many classic buckets costs: buckets,
// +Inf, sum and count, or one native series.
func histogramSeries(buckets int) int {
	if buckets == 0 {
		return 1
	}
	return buckets + 3
}

var _ prometheus.Gatherer = (*Exporter)(nil)

// sink is exporters.Sink, repeated here because a stage does not import its
// neighbour.
var _ interface {
	Name() string
	Export(context.Context, probes.Event) error
	Close() error
} = (*Exporter)(nil)
