package prom

import (
	"math"

	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// EstimateComparisons says how many series so many comparisons will show once each has
// a complete result: a verdict and a ratio of each metric, the verdict of the whole, two times and the facts.
func EstimateComparisons(n int) int { return n * (2*len(probes.ComparisonMetrics) + 4) }

// addComparisons adds what the comparisons found. A verdict is there from the start:
// those who gate a release on it must not take silence for consent.
func (e *Exporter) addComparisons(b *builder, statuses []probes.ComparisonStatus) {
	for i := range statuses {
		s := &statuses[i]
		ids := []*dto.LabelPair{label(catalog.LabelComparison, s.Name)}
		b.info(catalog.ComparisonInfo, ids[0], label("candidate", s.Candidate), label("reference", s.Reference))
		b.gauge(catalog.ComparisonStaleAfter, ids, s.StaleAfter.Seconds())
		var found probes.Comparison
		if s.Result != nil {
			found = *s.Result.Comparison
			b.gaugeTime(catalog.ComparisonTimestamp, ids, s.Result.End)
		}
		b.gauge(catalog.ComparisonVerdict, ids, float64(found.Code()), e.enum(catalog.LabelMetric, string(probes.MetricOverall)))
		for _, metric := range probes.ComparisonMetrics {
			name := e.enum(catalog.LabelMetric, string(metric))
			judgement, _ := found.Judgement(metric)
			b.gauge(catalog.ComparisonVerdict, ids, float64(judgement.Code()), name)
			ratio := math.NaN()
			if contrast, ok := found.Contrast(metric); ok {
				ratio = orNaN(contrast.Ratio)
			}
			b.gauge(catalog.ComparisonRatio, ids, ratio, name)
		}
	}
}
