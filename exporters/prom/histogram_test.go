package prom

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"
)

var testBounds = []float64{0.01, 0.1, 1, 10}

// shape is what a scraper reads of a histogram.
type shape struct {
	Count, Zero uint64
	Sum         float64
	Schema      int32
	Threshold   float64
	Spans       [][2]int
	Deltas      []int64
	Bounds      []float64
	Cumulative  []uint64
}

func shapeOf(h *dto.Histogram) shape {
	s := shape{Count: h.GetSampleCount(), Zero: h.GetZeroCount(), Sum: h.GetSampleSum(), Schema: h.GetSchema(),
		Threshold: h.GetZeroThreshold(), Deltas: h.PositiveDelta}
	for _, span := range h.PositiveSpan {
		s.Spans = append(s.Spans, [2]int{int(span.GetOffset()), int(span.GetLength())})
	}
	for _, b := range h.Bucket {
		s.Bounds = append(s.Bounds, b.GetUpperBound())
		s.Cumulative = append(s.Cumulative, b.GetCumulativeCount())
	}
	return s
}

// The general histogram of client_golang is the reference: both forms must hold
// exactly what it would hold.
func TestHistogramEqualsClientGolang(t *testing.T) {
	value := rapid.OneOf(
		rapid.Float64Range(0, 0.001),
		rapid.Float64Range(0.001, 1),
		rapid.Float64Range(1, 100_000),
		rapid.Map(rapid.IntRange(-13, 16), func(e int) float64 { return math.Exp2(float64(e)) }),
		rapid.Map(rapid.IntRange(-100, 100), func(k int) float64 { return math.Exp2(float64(k) / 8) }),
		rapid.SampledFrom([]float64{0, zeroThreshold, 0.01, 0.1, 1, 10, 1e-300}),
	)
	rapid.Check(t, func(t *rapid.T) {
		want := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "x", Buckets: testBounds, NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: zeroThreshold,
		})
		got := histogram{bounds: testBounds}
		for _, v := range rapid.SliceOfN(value, 0, 60).Draw(t, "values") {
			want.Observe(v)
			got.observe(v)
		}
		var m dto.Metric
		if err := want.Write(&m); err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_800_000_000, 0)
		if d := cmp.Diff(shapeOf(m.Histogram), shapeOf(got.export(forms{true, true}, now, now)), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("histogram (-client_golang +ours):\n%s", d)
		}
	})
}

func TestHistogramLeavesOutWhatIsNoNumber(t *testing.T) {
	h := histogram{bounds: testBounds}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5} {
		h.observeWith(v, time.Unix(0, 0), "run", "request")
	}
	h.observe(0.5)
	got := shapeOf(h.export(forms{classic: true}, time.Unix(0, 0), time.Unix(0, 0)))
	want := shape{Count: 1, Sum: 0.5, Bounds: testBounds, Cumulative: []uint64{0, 0, 1, 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("histogram (-want +got):\n%s", d)
	}
}

func TestHistogramForms(t *testing.T) {
	h := histogram{bounds: testBounds}
	now := time.Unix(1_800_000_000, 0)
	native := h.export(forms{native: true}, now, now)
	if native.GetZeroThreshold() == 0 || native.Schema == nil || len(native.Bucket) != 0 {
		t.Errorf("empty native histogram = %v, want a zero threshold, a schema and no classic bucket", native)
	}
	classic := h.export(forms{classic: true}, now, now)
	if classic.Schema != nil || len(classic.Bucket) != len(testBounds) {
		t.Errorf("empty classic histogram = %v, want %d buckets and no schema", classic, len(testBounds))
	}
	if got := classic.GetCreatedTimestamp().AsTime(); !got.Equal(now) {
		t.Errorf("created = %v, want %v", got, now)
	}
}

// A value far beyond anything measurable must not grow the buckets without bound.
func TestHistogramMemoryIsBounded(t *testing.T) {
	h := histogram{bounds: testBounds}
	for _, v := range []float64{1e-4, 1e300, 5, 1e12} {
		h.observe(v)
	}
	if got := len(h.native); got > 272 {
		t.Errorf("%d native buckets, want at most 272", got)
	}
	if s := shapeOf(h.export(forms{native: true}, time.Time{}, time.Time{})); s.Count != 4 || s.Sum != 1e300+1e12+5+1e-4 {
		t.Errorf("count %d, sum %g, want 4 and all values in the sum", s.Count, s.Sum)
	}
}

func TestExemplars(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	h := histogram{bounds: testBounds}
	h.observeWith(0.5, start, "run-1", "req-1")
	h.observeWith(0.6, start.Add(time.Minute), "run-1", "req-2")
	h.observeWith(50, start.Add(2*time.Minute), "run-2", "req-3")
	h.observeWith(0.05, start.Add(2*time.Minute), strings.Repeat("r", 128), "too long for OpenMetrics")

	out := h.export(forms{true, true}, start, start.Add(2*time.Minute))
	got := map[float64]float64{}
	for _, b := range out.Bucket {
		if b.Exemplar != nil {
			got[b.GetUpperBound()] = b.Exemplar.GetValue()
		}
	}
	// The younger of two in one bucket wins; the one above all bounds gets a bucket.
	if d := cmp.Diff(map[float64]float64{1: 0.6, math.Inf(1): 50}, got); d != "" {
		t.Errorf("exemplar by bucket (-want +got):\n%s", d)
	}
	if last := out.Bucket[len(out.Bucket)-1]; last.GetCumulativeCount() != 4 {
		t.Errorf("count of the +Inf bucket = %d, want 4", last.GetCumulativeCount())
	}
	if x := out.Exemplars[2]; x.Label[0].GetName() != "run_id" || x.Label[0].GetValue() != "run-2" ||
		x.Label[1].GetName() != "request_id" || x.Label[1].GetValue() != "req-3" || !x.GetTimestamp().AsTime().Equal(start.Add(2*time.Minute)) {
		t.Errorf("last exemplar = %v, want run-2, req-3 at its time", x)
	}
	var values []float64
	for _, x := range h.export(forms{true, true}, start, start.Add(6*time.Minute+time.Second)).Exemplars {
		values = append(values, x.GetValue())
	}
	if !slices.Equal(values, []float64{50}) {
		t.Errorf("exemplars after their five minutes = %v, want the youngest alone", values)
	}
}

func TestExemplarsKeepTheLastTen(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	h := histogram{bounds: testBounds}
	for i := range 23 {
		h.observeWith(float64(i), start, "run", "req")
	}
	var values []float64
	for _, x := range h.export(forms{native: true}, start, start).Exemplars {
		values = append(values, x.GetValue())
	}
	if want := []float64{13, 14, 15, 16, 17, 18, 19, 20, 21, 22}; !slices.Equal(values, want) {
		t.Errorf("exemplars = %v, want %v", values, want)
	}
}

func BenchmarkHistogramObserve(b *testing.B) {
	h := histogram{bounds: testBounds}
	v := 0.001
	b.ReportAllocs()
	for b.Loop() {
		h.observe(v)
		if v *= 1.01; v > 10 {
			v = 0.001
		}
	}
}
