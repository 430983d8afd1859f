package prom

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// label makes a label pair. Protobuf refuses text that is not UTF-8, and with it
// the whole scrape.
func label(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: &name, Value: new(strings.ToValidUTF8(value, "\uFFFD"))}
}

// builder collects the families of one scrape. It refuses what the catalogue does
// not list; finish says so.
type builder struct {
	families map[string]*family
	refused  map[string]error

	gauges   []gaugeCell
	counters []counterCell
	labels   []*dto.LabelPair
}

// family is a row of the catalogue and its series so far.
type family struct {
	row catalog.Metric
	out dto.MetricFamily
}

// Cells keep what belongs to one series in one piece of memory, and slabs of
// them make one allocation of hundreds.
type gaugeCell struct {
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
}

type counterCell struct {
	metric  dto.Metric
	counter dto.Counter
	value   float64
}

const slab = 256

func newBuilder() *builder {
	metrics := catalog.All()
	b := &builder{families: make(map[string]*family, len(metrics)), refused: map[string]error{}}
	for _, m := range metrics {
		f := &family{row: m}
		f.out.Name, f.out.Help, f.out.Type = &f.row.Name, &f.row.Help, new(familyTypes[m.Kind])
		// OpenMetrics allows a unit only when the name ends with it.
		if strings.HasSuffix(strings.TrimSuffix(m.Name, "_total"), "_"+m.Unit) {
			f.out.Unit = &f.row.Unit
		}
		b.families[m.Name] = f
	}
	return b
}

// gauge adds a series; NaN stands for unknown and adds none.
func (b *builder) gauge(name string, ids []*dto.LabelPair, value float64, extra ...*dto.LabelPair) {
	f := b.family(name, catalog.Gauge, len(ids)+len(extra))
	if f == nil || math.IsNaN(value) {
		return
	}
	if len(b.gauges) == 0 {
		b.gauges = make([]gaugeCell, slab)
	}
	c := &b.gauges[0]
	b.gauges = b.gauges[1:]
	c.value = value
	c.gauge.Value = &c.value
	c.metric.Gauge = &c.gauge
	c.metric.Label = b.merge(ids, extra)
	f.Metric = append(f.Metric, &c.metric)
}

// gaugeTime adds an instant; the zero time stands for unknown and adds none.
func (b *builder) gaugeTime(name string, ids []*dto.LabelPair, t time.Time, extra ...*dto.LabelPair) {
	if !t.IsZero() {
		b.gauge(name, ids, float64(t.UnixNano())/1e9, extra...)
	}
}

// gaugeFlag adds 1 or 0.
func (b *builder) gaugeFlag(name string, ids []*dto.LabelPair, flag bool) {
	value := 0.0
	if flag {
		value = 1
	}
	b.gauge(name, ids, value)
}

// info adds a series of facts.
func (b *builder) info(name string, facts ...*dto.LabelPair) {
	f := b.family(name, catalog.Info, len(facts))
	if f == nil {
		return
	}
	f.Metric = append(f.Metric, &dto.Metric{Label: b.merge(facts, nil), Gauge: &dto.Gauge{Value: new(1.0)}})
}

// counter adds a sum that has been counted since created.
func (b *builder) counter(name string, ids []*dto.LabelPair, value uint64, created *timestamppb.Timestamp, extra ...*dto.LabelPair) {
	f := b.family(name, catalog.Counter, len(ids)+len(extra))
	if f == nil {
		return
	}
	if len(b.counters) == 0 {
		b.counters = make([]counterCell, slab)
	}
	c := &b.counters[0]
	b.counters = b.counters[1:]
	c.value = float64(value)
	c.counter.Value, c.counter.CreatedTimestamp = &c.value, created
	c.metric.Counter = &c.counter
	c.metric.Label = b.merge(ids, extra)
	f.Metric = append(f.Metric, &c.metric)
}

// histogram adds a histogram's message.
func (b *builder) histogram(name string, ids []*dto.LabelPair, h *dto.Histogram, extra ...*dto.LabelPair) {
	if f := b.family(name, catalog.Histogram, len(ids)+len(extra)); f != nil {
		f.Metric = append(f.Metric, &dto.Metric{Label: b.merge(ids, extra), Histogram: h})
	}
}

// family finds a family. It is nil for a name, a kind or a number of labels that
// the catalogue does not know; facts may carry labels beyond those.
func (b *builder) family(name string, kind catalog.Kind, labels int) *dto.MetricFamily {
	f := b.families[name]
	if f == nil || f.row.Kind != kind || labels < len(f.row.Labels) || labels > len(f.row.Labels) && kind != catalog.Info {
		b.refused[name] = fmt.Errorf("expose %s: a %s of %d labels is not in the catalogue", name, kind, labels)
		return nil
	}
	return &f.out
}

var familyTypes = map[catalog.Kind]dto.MetricType{
	catalog.Counter:   dto.MetricType_COUNTER,
	catalog.Gauge:     dto.MetricType_GAUGE,
	catalog.Histogram: dto.MetricType_HISTOGRAM,
	catalog.Info:      dto.MetricType_GAUGE,
}

// merge joins labels in the order of their names.
func (b *builder) merge(ids, extra []*dto.LabelPair) []*dto.LabelPair {
	n := len(ids) + len(extra)
	if n == 0 {
		return nil
	}
	if len(b.labels) < n {
		b.labels = make([]*dto.LabelPair, slab*8)
	}
	out := b.labels[:n:n]
	b.labels = b.labels[n:]
	copy(out, ids)
	copy(out[len(ids):], extra)
	for i := 1; i < n; i++ { // nearly sorted, and short
		for j := i; j > 0 && *out[j].Name < *out[j-1].Name; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// finish returns the families that have series, sorted by name, and what was
// refused.
func (b *builder) finish() ([]*dto.MetricFamily, error) {
	var out []*dto.MetricFamily
	for _, name := range sortedKeys(b.families) {
		if f := b.families[name]; len(f.out.Metric) > 0 {
			out = append(out, &f.out)
		}
	}
	var errs []error
	for _, name := range sortedKeys(b.refused) {
		errs = append(errs, b.refused[name])
	}
	return out, errors.Join(errs...)
}
