package prom

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// benchmarkScrape measures what a scrape of full pairs costs, gathering and
// encoding as protobuf, which is how Prometheus asks for native histograms.
func benchmarkScrape(b *testing.B, targets, perTarget int, mode HistogramMode) {
	var statuses []probes.PairStatus
	for i := range targets {
		for j := range perTarget {
			s := pairAt(fmt.Sprintf("target-%03d", i), fmt.Sprintf("probe-%d", j))
			s.LastStart, s.LastCompletion, s.LastSuccess, s.NextStart = epoch, epoch, epoch, epoch
			s.Last = &probes.Run{Result: probes.RunSuccess, Summary: probes.Summary{Completed: 1}}
			s.Result = result(epoch)
			statuses = append(statuses, s)
		}
	}
	e, err := New(Options{
		Snapshot: func() []probes.PairStatus { return statuses }, Good: goodForTest,
		Now: func() time.Time { return epoch }, Histograms: mode,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.SetPairs(statuses); err != nil {
		b.Fatal(err)
	}
	for i := range statuses {
		for j := range 20 {
			r := answer(time.Duration(100+37*j) * time.Millisecond)
			if err := e.Export(b.Context(), probes.Event{Kind: probes.EventRequestDone, At: epoch, RunID: "run-1", Pair: statuses[i].Pair, Record: &r}); err != nil {
				b.Fatal(err)
			}
		}
	}
	families, err := e.Gather()
	if err != nil {
		b.Fatal(err)
	}
	handler := e.Handler()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	request.Header.Set("Accept-Encoding", "identity")
	var page countingWriter
	b.ReportAllocs()
	for b.Loop() {
		page = countingWriter{header: http.Header{}}
		handler.ServeHTTP(&page, request)
	}
	b.ReportMetric(float64(countSeries(families)), "series")
	b.ReportMetric(float64(page.n), "page-bytes")
}

type countingWriter struct {
	header http.Header
	n      int
}

func (w *countingWriter) Header() http.Header { return w.header }
func (w *countingWriter) WriteHeader(int)     {}
func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += len(p)
	return io.Discard.Write(p)
}

func BenchmarkScrape200Pairs(b *testing.B)        { benchmarkScrape(b, 50, 4, HistogramsAuto) }
func BenchmarkScrape3000PairsNative(b *testing.B) { benchmarkScrape(b, 500, 6, HistogramsNative) }

func BenchmarkExportRequest(b *testing.B) {
	st := canary()
	e, err := New(Options{Snapshot: func() []probes.PairStatus { return nil }, Good: goodForTest, Now: func() time.Time { return epoch }})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.SetPairs([]probes.PairStatus{st}); err != nil {
		b.Fatal(err)
	}
	r := answer(300 * time.Millisecond)
	for i := range 125 { // 128 tokens
		r.Chunks = append(r.Chunks, probes.Chunk{At: r.Chunks[2].At + time.Duration(i+1)*20*time.Millisecond, Tokens: 1})
	}
	ev := probes.Event{Kind: probes.EventRequestDone, At: epoch, RunID: "run-1", Pair: st.Pair, Record: &r}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Export(b.Context(), ev); err != nil {
			b.Fatal(err)
		}
	}
}
