package backend

import (
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// events returns n token events of a dialect, one per read.
func events(backend string, n int) [][]byte {
	v := voices()[backend]
	reads := make([][]byte, n)
	for i := range reads {
		reads[i] = []byte(v.token(" word", strings.Repeat(" word", 1+i%64), 1+i))
	}
	return reads
}

// replay is the reading of one answer without a connection.
func replay(c *Client, r *reading, rec *probes.Record, reads [][]byte) {
	*rec = probes.Record{Chunks: rec.Chunks[:0]}
	r.begin(c.d, rec, false, "demo-8b")
	for i, p := range reads {
		r.feed(p, time.Duration(i))
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, backend := range Names() {
		c := newClient(t, target(backend), &server{})
		r, rec := newReading(), probes.Record{Chunks: make([]probes.Chunk, 0, 256)}
		reads := events(backend, 200)
		replay(c, r, &rec, reads)
		got := testing.AllocsPerRun(20, func() { replay(c, r, &rec, reads) })
		if got != 0 || len(rec.Chunks) != 200 {
			t.Errorf("%s: %v allocations for 200 events, %d token events", backend, got, len(rec.Chunks))
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, backend := range Names() {
		b.Run(backend, func(b *testing.B) {
			c := newClient(b, target(backend), &server{})
			r, rec := newReading(), probes.Record{Chunks: make([]probes.Chunk, 0, 1024)}
			reads := events(backend, 1000)
			b.ReportAllocs()
			for b.Loop() {
				replay(c, r, &rec, reads)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(reads)), "ns/event")
		})
	}
}

// BenchmarkDo is a whole exchange of 100 tokens over a pipe, the scripted server
// included.
func BenchmarkDo(b *testing.B) {
	c := newClient(b, target("vllm-chat"), &server{answers: []timeline{tokens(100, 0, 0, "close")}})
	clock, req := probes.NewClock(), request()
	req.KeepText = false
	b.ReportAllocs()
	for b.Loop() {
		if rec := c.Do(b.Context(), clock, req, 0); rec.Outcome != probes.OK {
			b.Fatal(rec.Outcome, rec.Error)
		}
	}
}
