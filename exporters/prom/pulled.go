package prom

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// Pulled is what became of one GET /probe.
type Pulled struct {
	Pair probes.Pair
	// Skipped is why no run started; empty when one did.
	Skipped probes.SkipReason
	Start   time.Time
	Elapsed time.Duration // until the run's end, or until now
	Run     *probes.Run   // nil when it is not over
}

// Answer serves the metrics of one run alone, as text, OpenMetrics or protobuf.
func (e *Exporter) Answer(p Pulled) http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return e.gatherPulled(p) }), promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorLog: scrapeLog{e.opts.Log},
	})
}

func (e *Exporter) gatherPulled(p Pulled) ([]*dto.MetricFamily, error) {
	b := newBuilder()
	e.addPulled(b, &p)
	return b.finish()
}

// pulledStat are the statistics that mean something of a single request.
func pulledStat(s probes.Statistic) bool {
	return s == probes.StatMean || s == probes.StatP50 || s == probes.StatMax
}

func (e *Exporter) addPulled(b *builder, p *Pulled) {
	ids := pairLabels(p.Pair)
	if p.Skipped != "" {
		b.gauge(catalog.PullSkipped, ids, 1, e.enum(catalog.LabelReason, string(p.Skipped)))
		return
	}
	b.gaugeFlag(catalog.PullTimedOut, ids, p.Run == nil)
	b.gaugeTime(catalog.PullStart, ids, p.Start)
	b.gauge(catalog.PullDuration, ids, p.Elapsed.Seconds())
	if p.Run == nil {
		b.gauge(catalog.PullSuccess, ids, 0)
		return
	}
	switch p.Run.Result {
	case probes.RunSuccess, probes.RunFailed:
		b.gaugeFlag(catalog.PullSuccess, ids, p.Run.Result == probes.RunSuccess)
	}
	for _, result := range probes.RunResults {
		value := 0.0
		if result == p.Run.Result {
			value = 1
		}
		b.gauge(catalog.PullResult, ids, value, e.enum(catalog.LabelResult, string(result)))
	}
	e.addPulledNumbers(b, p.Run, ids)
}

// addPulledNumbers adds what was measured. Latencies of a run that cannot be believed
// are none.
func (e *Exporter) addPulledNumbers(b *builder, run *probes.Run, ids []*dto.LabelPair) {
	s := &run.Summary
	for _, of := range []struct {
		outcome string
		n       int
	}{
		{catalog.OutcomeSuccess, s.Completed}, {catalog.OutcomeError, s.Failed}, {catalog.OutcomeDropped, s.Dropped}, {catalog.OutcomeCancelled, s.Cancelled},
	} {
		b.gauge(catalog.PullRequests, ids, float64(of.n), e.enum(catalog.LabelOutcome, of.outcome))
	}
	if run.Result == probes.RunInvalid || run.Validity.State == probes.Invalid {
		return
	}
	b.gaugeFlag(catalog.PullSuspect, ids, run.Validity.State == probes.Suspect)
	for _, signal := range resultSignals {
		d := s.Distribution(signal)
		for _, stat := range probes.Statistics {
			if !pulledStat(stat) && !d.Enough(stat) {
				continue
			}
			b.gauge(catalog.PullLatency, ids, orNaN(d.Get(stat)), e.enum(catalog.LabelSignal, string(signal)), e.enum(catalog.LabelStat, string(stat)))
		}
	}
	if n, ok := s.InputTokens.Get(); ok && s.Completed > 0 {
		b.gauge(catalog.PullInputTokens, ids, float64(n))
	}
	if n, ok := s.OutputTokens.Get(); ok && s.Completed > 0 {
		b.gauge(catalog.PullOutputTokens, ids, float64(n))
	}
	b.gauge(catalog.PullOutputRate, ids, orNaN(s.OutputThroughput))
}
