package prom

import (
	"math"
	"slices"
	"sort"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The native form: schema 3, each bucket bound 2^(1/8) = 1.09 times the one
// before, so a quantile is off by 4.5 % at most.
const (
	nativeSchema   = 3
	bucketsPerTwo  = 1 << nativeSchema
	zeroThreshold  = 1.0 / (1 << 14) // 61 us; below it nothing here is meaningful
	maxNativeKey   = 20 * bucketsPerTwo
	maxExemplars   = 10
	exemplarLife   = 5 * time.Minute
	exemplarLength = 128 // runes of all label names and values; OpenMetrics' limit
)

// fractions are the bucket bounds 2^(i/8) inside one power of two, as math.Frexp
// scales it. They are rounded as in Prometheus and its clients: one unit in the
// last place decides where a value on a bound belongs.
var fractions = [bucketsPerTwo]float64{
	0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048,
	0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
}

// histogram counts observations in classic and native buckets at once. Its
// memory grows with the spread of the values, to at most 272 native buckets, and
// is nothing before the first observation: thousands of pairs can afford it,
// which they cannot with the general histogram of client_golang.
//
// It has no lock of its own.
type histogram struct {
	bounds  []float64 // shared, classic upper bounds
	count   uint64
	sum     float64
	classic []uint64 // one for each bound, not cumulative; above the last only in count
	zero    uint64
	first   int      // key of native[0]
	native  []uint64 // dense from the smallest to the largest key seen

	exemplars []exemplar // the last maxExemplars, a ring
	oldest    int
}

type exemplar struct {
	value            float64
	at               time.Time
	runID, requestID string
}

// observe counts v. What is not a finite number of at least 0 is left out: one
// NaN would spoil the sum for ever.
func (h *histogram) observe(v float64) {
	if !countable(v) {
		return
	}
	h.count++
	h.sum += v
	if h.classic == nil {
		h.classic = make([]uint64, len(h.bounds))
	}
	if i := sort.SearchFloat64s(h.bounds, v); i < len(h.bounds) {
		h.classic[i]++
	}
	if v <= zeroThreshold {
		h.zero++
		return
	}
	*h.nativeBucket(nativeKey(v))++
}

func countable(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// observeWith counts v and keeps it as an exemplar.
func (h *histogram) observeWith(v float64, at time.Time, runID, requestID string) {
	h.observe(v)
	h.remember(v, at, runID, requestID)
}

// remember keeps v as an exemplar without counting it.
func (h *histogram) remember(v float64, at time.Time, runID, requestID string) {
	const names = len("run_id") + len("request_id")
	if !countable(v) || names+utf8.RuneCountInString(runID)+utf8.RuneCountInString(requestID) > exemplarLength {
		return
	}
	x := exemplar{v, at, runID, requestID}
	if len(h.exemplars) < maxExemplars {
		h.exemplars = append(h.exemplars, x)
		return
	}
	h.exemplars[h.oldest] = x
	h.oldest = (h.oldest + 1) % maxExemplars
}

// nativeKey is the k with 2^((k-1)/8) < v <= 2^(k/8).
func nativeKey(v float64) int {
	fraction, exponent := math.Frexp(v)
	return min(sort.SearchFloat64s(fractions[:], fraction)+(exponent-1)*bucketsPerTwo, maxNativeKey)
}

func (h *histogram) nativeBucket(key int) *uint64 {
	switch {
	case len(h.native) == 0:
		h.first = key
		h.native = make([]uint64, 1, 2*bucketsPerTwo)
	case key < h.first:
		h.native = slices.Insert(h.native, 0, make([]uint64, h.first-key)...)
		h.first = key
	case key >= h.first+len(h.native):
		h.native = append(h.native, make([]uint64, key-h.first-len(h.native)+1)...)
	}
	return &h.native[key-h.first]
}

// forms says which forms of a histogram are shown.
type forms struct{ native, classic bool }

// export builds the message of the histogram at this instant; it shares no
// memory with it.
func (h *histogram) export(show forms, created, now time.Time) *dto.Histogram {
	out := &dto.Histogram{
		SampleCount: new(h.count), SampleSum: new(h.sum), CreatedTimestamp: timestamppb.New(created),
	}
	exemplars := h.exportExemplars(now)
	if show.classic {
		h.exportClassic(out, exemplars)
	}
	if show.native {
		out.Schema, out.ZeroThreshold, out.ZeroCount = new(int32(nativeSchema)), new(float64(zeroThreshold)), new(h.zero)
		h.exportNative(out)
		out.Exemplars = exemplars
	}
	return out
}

// exportClassic adds the cumulative buckets, each with its youngest exemplar.
func (h *histogram) exportClassic(out *dto.Histogram, exemplars []*dto.Exemplar) {
	cells := make([]struct {
		bucket dto.Bucket
		count  uint64
	}, len(h.bounds))
	out.Bucket = make([]*dto.Bucket, len(h.bounds), len(h.bounds)+1)
	var cumulative uint64
	for i := range h.bounds {
		if h.classic != nil {
			cumulative += h.classic[i]
		}
		c := &cells[i]
		c.count = cumulative
		c.bucket.CumulativeCount, c.bucket.UpperBound = &c.count, &h.bounds[i]
		out.Bucket[i] = &c.bucket
	}
	for _, x := range exemplars {
		i := sort.SearchFloat64s(h.bounds, x.GetValue())
		if i == len(out.Bucket) { // the bucket above the last bound is there only to carry it
			out.Bucket = append(out.Bucket, &dto.Bucket{CumulativeCount: new(h.count), UpperBound: new(math.Inf(1))})
		}
		out.Bucket[i].Exemplar = x
	}
}

// exportNative adds the native buckets as spans and deltas. Up to two empty
// buckets are cheaper inside a span than as a new one.
func (h *histogram) exportNative(out *dto.Histogram) {
	var previous int64
	next := 0 // key after the last bucket written
	for i, n := range h.native {
		if n == 0 {
			continue
		}
		key := h.first + i
		gap := key - next
		if len(out.PositiveSpan) == 0 || gap > 2 {
			out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: new(int32(gap)), Length: new(uint32(0))})
		} else {
			for range gap {
				*out.PositiveSpan[len(out.PositiveSpan)-1].Length++
				out.PositiveDelta = append(out.PositiveDelta, -previous)
				previous = 0
			}
		}
		*out.PositiveSpan[len(out.PositiveSpan)-1].Length++
		out.PositiveDelta = append(out.PositiveDelta, int64(n)-previous)
		previous = int64(n)
		next = key + 1
	}
}

// exportExemplars lists the exemplars that are young enough, oldest first.
func (h *histogram) exportExemplars(now time.Time) []*dto.Exemplar {
	var out []*dto.Exemplar
	for i := range h.exemplars {
		x := h.exemplars[(h.oldest+i)%len(h.exemplars)]
		if now.Sub(x.at) > exemplarLife {
			continue
		}
		out = append(out, &dto.Exemplar{
			Label: []*dto.LabelPair{label("run_id", x.runID), label("request_id", x.requestID)},
			Value: new(x.value), Timestamp: timestamppb.New(x.at),
		})
	}
	return out
}
