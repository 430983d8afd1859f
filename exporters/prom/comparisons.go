package prom

import (
	"math"

	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// Codes of inferbeat_comparison_verdict.
const (
	codeBetter    = -1
	codeSame      = 0
	codeSuspected = 1
	codeWorse     = 2
	codeNoData    = 3
)

// EstimateComparisons says how many series so many comparisons will show once each has
// a complete result: a verdict and a ratio of each metric, two times and the facts.
func EstimateComparisons(n int) int { return n * (2*len(probes.ComparedMetrics) + 3) }

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
		for _, metric := range probes.ComparedMetrics {
			name := e.enum(catalog.LabelMetric, string(metric))
			judgement, _ := found.Judgement(metric)
			b.gauge(catalog.ComparisonVerdict, ids, verdictCode(judgement), name)
			ratio := math.NaN()
			if contrast, ok := found.Contrast(metric); ok {
				ratio = orNaN(contrast.Ratio)
			}
			b.gauge(catalog.ComparisonRatio, ids, ratio, name)
		}
	}
}

// verdictCode is the code of a judgement; the zero one is of a metric that nobody
// has judged.
func verdictCode(j probes.Judgement) float64 {
	switch high, known := j.High.Get(); {
	case j.Answer == probes.GatePass && known && high < 0:
		return codeBetter
	case j.Answer == probes.GatePass:
		return codeSame
	case j.Answer == probes.GateUndecided:
		return codeSuspected
	case j.Answer == probes.GateRegressed:
		return codeWorse
	}
	return codeNoData
}
