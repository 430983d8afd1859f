package config

import (
	"github.com/inferbeat/inferbeat/probes"
)

// regression is zero unless the key was written.
func (b *builder) regression(path string, p *probe) probes.Regression {
	at := path + ".regression"
	if !b.set(at) {
		return probes.Regression{}
	}
	if probes.Kind(p.Kind).Continuous() {
		b.report(at, "does not belong to a %s: its results are windows, not nights; use a load with a schedule", p.Kind)
	}
	r := &p.Regression
	out := probes.Regression{
		Enabled: true, Sensitivity: probes.Sensitivity(r.Sensitivity), AutoAccept: r.AutoAccept,
		MinEffects: r.MinEffects.byMetric(),
	}
	for _, m := range r.Metrics {
		out.Metrics = append(out.Metrics, probes.RegressionMetric(m))
	}
	out.Confirm = b.confirms(at, p)
	return out
}

// confirms reports whether odd runs are run again.
func (b *builder) confirms(at string, p *probe) bool {
	written := b.set(at + ".confirm")
	switch kind := probes.Kind(p.Kind); {
	case written && !p.Regression.Confirm:
		return false
	case kind != probes.Load && kind != probes.Replay && kind != probes.Batch:
		if written {
			b.report(at+".confirm", "has no effect on a %s; it belongs to load, replay and batch", p.Kind)
		}
		return false
	case p.Repeats > 1:
		if written {
			b.report(at+".confirm", "must not be written beside repeats: their median outvotes an odd run already")
		}
		return false
	}
	p.Regression.Confirm = true
	return true
}

// byMetric lists the effects that were written.
func (m *minEffects) byMetric() map[probes.RegressionMetric]float64 {
	out := map[probes.RegressionMetric]float64{}
	for metric, effect := range map[probes.RegressionMetric]float64{
		probes.MetricTTFTp50: m.TTFTp50, probes.MetricTTFTp99: m.TTFTp99, probes.MetricTPOTp50: m.TPOTp50,
		probes.MetricTPOTp99: m.TPOTp99, probes.MetricE2Ep50: m.E2Ep50, probes.MetricOutputThroughput: m.OutputThroughput,
		probes.MetricRequestThroughput: m.RequestThroughput, probes.MetricCapacity: m.Capacity,
		probes.MetricAcceptLength: m.AcceptLength, probes.MetricPrefixCacheHits: m.PrefixCacheHits,
	} {
		if effect > 0 {
			out[metric] = effect
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
