package prom

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// verdicts are the numbers that stand for states; rules compare with them, so none
// may change its meaning.
var verdicts = map[probes.ChangeState]float64{
	probes.ChangeBetter:    catalog.VerdictBetter,
	probes.ChangeNone:      catalog.VerdictSame,
	probes.ChangeSuspected: catalog.VerdictSuspected,
	probes.ChangeWorse:     catalog.VerdictWorse,
	probes.ChangeLearning:  catalog.VerdictLearning,
	probes.ChangeDrift:     catalog.VerdictDrift,
	probes.ChangeUnstable:  catalog.VerdictUnstable,
}

// addChanges adds what the nights say of a pair's metrics. What a learning detector
// does not know yet is absent.
func (e *Exporter) addChanges(b *builder, s *probes.PairStatus, ids []*dto.LabelPair) {
	for i := range s.Changes {
		c := &s.Changes[i]
		verdict, ok := verdicts[c.State]
		if !ok {
			continue
		}
		metric := e.enum(catalog.LabelMetric, string(c.Metric))
		b.gauge(catalog.RegressionVerdict, ids, verdict, metric)
		b.gauge(catalog.RegressionBaselineRuns, ids, float64(c.BaselineRuns), metric)
		b.gauge(catalog.RegressionEffect, ids, orNaN(c.Effect), metric)
		b.gauge(catalog.RegressionInterval, ids, orNaN(c.Low), metric, e.enum(catalog.LabelBound, "low"))
		b.gauge(catalog.RegressionInterval, ids, orNaN(c.High), metric, e.enum(catalog.LabelBound, "high"))
		b.gauge(catalog.RegressionSmallestStep, ids, orNaN(c.SmallestStep), metric)
		b.gaugeTime(catalog.RegressionBaselineTimestamp, ids, c.BaselineAt, metric)
		b.gaugeTime(catalog.RegressionOnsetTimestamp, ids, c.Onset, metric)
		if level, known := c.Baseline.Get(); known && c.Metric == probes.MetricCapacity {
			b.gauge(catalog.CapacityBaseline, ids, level*probes.Headroom)
		}
	}
}
