package loadgen

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// instant is a backend that costs nothing, so that what remains is Run's own.
type instant struct{}

func (instant) Do(_ context.Context, _ probes.Clock, r *probes.Request, due time.Duration) probes.Record {
	return probes.Record{Index: r.Index, Due: due, Sent: due, Outcome: probes.OK}
}

// BenchmarkRun reports the cost of one request: taken from the source, given to
// a worker, its record given to emit.
func BenchmarkRun(b *testing.B) {
	const count = 10_000
	request := &probes.Request{ID: "r"}
	next := func() (*probes.Request, bool) { return request, true }
	dues := make([]time.Duration, count)
	for _, test := range []struct {
		name string
		load Load
	}{
		{"burst", Load{Concurrency: 64, Offsets: slices.Values(dues)}},
		{"closed", Load{Concurrency: 64}},
		{"closed", Load{Concurrency: 1}},
	} {
		b.Run(fmt.Sprintf("%s/concurrency=%d", test.name, test.load.Concurrency), func(b *testing.B) {
			load := test.load
			load.Backend, load.Next, load.Count = instant{}, next, count
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				Run(b.Context(), probes.NewClock(), load, func(probes.Record) {})
			}
			runtime.ReadMemStats(&after)
			sent := float64(b.N) * count
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/sent, "ns/request")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/sent, "allocs/request")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/sent, "B/request")
		})
	}
}

// BenchmarkRunOne is the price of a whole load, which a daemon pays for each
// canary.
func BenchmarkRunOne(b *testing.B) {
	b.ReportAllocs()
	request := &probes.Request{ID: "r"}
	load := Load{
		Backend: instant{}, Count: 1, Offsets: slices.Values([]time.Duration{0}), Duration: time.Minute,
		Next: func() (*probes.Request, bool) { return request, true },
	}
	for b.Loop() {
		Run(b.Context(), probes.NewClock(), load, func(probes.Record) {})
	}
}
