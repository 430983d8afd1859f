package embedded

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// shown are the metrics of the pieces that say whether they work, under Prometheus's
// own names. The other two hundred would be half of a small daemon's page.
var shown = []string{
	"prometheus_engine_queries",
	"prometheus_notifications_alertmanagers_discovered",
	"prometheus_notifications_dropped_total",
	"prometheus_notifications_errors_total",
	"prometheus_notifications_queue_length",
	"prometheus_notifications_sent_total",
	"prometheus_rule_evaluation_failures_total",
	"prometheus_rule_evaluations_total",
	"prometheus_rule_group_iterations_missed_total",
	"prometheus_rule_group_last_evaluation_timestamp_seconds",
	"prometheus_target_scrapes_exceeded_sample_limit_total",
	"prometheus_tsdb_compactions_failed_total",
	"prometheus_tsdb_head_series",
	"prometheus_tsdb_storage_blocks_bytes",
	"prometheus_tsdb_wal_corruptions_total",
	"prometheus_tsdb_wal_writes_failed_total",
}

// Collector shows how the pieces do.
func (p *Prometheus) Collector() prometheus.Collector { return health{p.registry} }

// health passes on the families of a registry that are in shown.
type health struct{ from prometheus.Gatherer }

// Describe says nothing, which makes the collector an unchecked one: what the pieces
// show is theirs.
func (health) Describe(chan<- *prometheus.Desc) {}

// Collect passes them on.
func (h health) Collect(out chan<- prometheus.Metric) {
	families, err := h.from.Gather()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("prometheus_health", "Health of the embedded Prometheus.", nil, nil), err)
		return
	}
	for _, family := range families {
		if !slices.Contains(shown, family.GetName()) {
			continue
		}
		for _, metric := range family.GetMetric() {
			out <- passed{newDesc(family, metric), metric}
		}
	}
}

func newDesc(family *dto.MetricFamily, metric *dto.Metric) *prometheus.Desc {
	names := make([]string, len(metric.GetLabel()))
	for i, l := range metric.GetLabel() {
		names[i] = l.GetName()
	}
	return prometheus.NewDesc(family.GetName(), family.GetHelp(), names, nil)
}

// passed is a metric that has been gathered before.
type passed struct {
	desc   *prometheus.Desc
	metric *dto.Metric
}

func (p passed) Desc() *prometheus.Desc { return p.desc }

func (p passed) Write(out *dto.Metric) error {
	out.Label = p.metric.Label
	out.Gauge, out.Counter, out.Untyped = p.metric.Gauge, p.metric.Counter, p.metric.Untyped
	out.Summary, out.Histogram = p.metric.Summary, p.metric.Histogram
	return nil
}
