package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// A night: 1,000 requests of 200 chunks. The metric is what it takes on the disk.
func BenchmarkAddNight(b *testing.B) {
	s := openStore(b, Options{})
	run := measured("night", night0, 1000, 200)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		run.ID = fmt.Sprintf("night-%06d", n)
		add(b, s, run)
		n++
	}
	reportSize(b, s, n)
}

// A canary: one request of 128 chunks.
func BenchmarkAddCanary(b *testing.B) {
	s := openStore(b, Options{})
	run := measured("canary", night0, 1, 128)
	run.Spec.Kind = probes.Canary
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		run.ID, run.Start = fmt.Sprintf("01a22e19-7c15-7278-acaf-%012d", n), night0.Add(time.Duration(n)*30*time.Second)
		add(b, s, run)
		n++
	}
	reportSize(b, s, n)
}

// Canaries of many targets that end at once share commits.
func BenchmarkAddCanariesAtOnce(b *testing.B) {
	s := openStore(b, Options{})
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		run := measured("canary", night0, 1, 128)
		for n := 0; pb.Next(); n++ {
			run.ID = fmt.Sprintf("%p-%d", run, n)
			add(b, s, run)
		}
	})
}

// The history of a year: 400 nights without their records.
func BenchmarkHistory400(b *testing.B) {
	s := openStore(b, Options{})
	for n := range 400 {
		add(b, s, night(n))
	}
	b.ReportAllocs()
	for b.Loop() {
		runs, err := s.History(b.Context(), Query{Target: "llama-a", Probe: "nightly"})
		if err != nil || len(runs) != 400 {
			b.Fatal(len(runs), err)
		}
	}
}

func BenchmarkRunNight(b *testing.B) {
	s := openStore(b, Options{})
	add(b, s, measured("night", night0, 1000, 200))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(b.Context(), "night"); err != nil {
			b.Fatal(err)
		}
	}
}

// reportSize gives the bytes a run takes in the file, its log left out.
func reportSize(b *testing.B, s *Store, runs int) {
	b.Helper()
	if _, err := s.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(s.Path())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/float64(runs), "B-on-disk/run")
}
