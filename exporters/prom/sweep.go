package prom

import (
	"cmp"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// addSweep adds what the last sweep found, and its curve: the usable steps in the order
// of their rates.
func (e *Exporter) addSweep(b *builder, s *probes.PairStatus, ids []*dto.LabelPair) {
	b.gauge(catalog.CapacityHeadroom, ids, probes.Headroom)
	r := s.Result
	if r == nil {
		return
	}
	c := &r.Capacity
	b.gauge(catalog.CapacityKnee, ids, orNaN(c.Rate))
	b.gauge(catalog.CapacityInterval, ids, orNaN(c.Low), e.enum(catalog.LabelBound, "low"))
	b.gauge(catalog.CapacityInterval, ids, orNaN(c.High), e.enum(catalog.LabelBound, "high"))
	b.gauge(catalog.CapacitySafe, ids, orNaN(c.Safe))
	if c.Rate.IsKnown() {
		b.gaugeFlag(catalog.CapacityBracketed, ids, c.Bracketed)
	}
	b.gaugeFlag(catalog.CapacitySuspect, ids, r.Validity.State == probes.Suspect)
	b.gaugeTime(catalog.CapacityTimestamp, ids, r.CompletedAt)
	for i, step := range curve(r.Steps) {
		n := e.enum(catalog.LabelStep, strconv.Itoa(i))
		b.gauge(catalog.SweepOffered, ids, step.Rate, n)
		b.gauge(catalog.SweepAchieved, ids, orNaN(step.Summary.AchievedRate), n)
		b.gauge(catalog.SweepOutputTokens, ids, orNaN(step.Summary.SustainedOutput()), n)
		b.gauge(catalog.SweepTTFTp99, ids, orNaN(step.Summary.Distribution(probes.TTFTFromDue).Get(probes.StatP99)), n)
		b.gauge(catalog.SweepTPOTMean, ids, orNaN(step.Summary.Distribution(probes.TPOT).Get(probes.StatMean)), n)
		if queue := step.Summary.Server.Queue; queue.N > 0 {
			b.gauge(catalog.SweepQueue, ids, queue.Mean, n)
		}
	}
}

// curve is the usable steps by rising rate, at most as many as the label has values.
func curve(steps []probes.Step) []*probes.Step {
	var out []*probes.Step
	for i := range steps {
		if steps[i].Usable() && len(out) < probes.MaxSweepSteps {
			out = append(out, &steps[i])
		}
	}
	slices.SortStableFunc(out, func(a, b *probes.Step) int { return cmp.Compare(a.Rate, b.Rate) })
	return out
}
