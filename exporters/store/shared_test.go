package store

import (
	"sync"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// A run is written while exporters read it: the race detector watches.
func TestAddLeavesTheRunAlone(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := &probes.Run{ID: "shared", Start: time.Unix(1, 0), End: time.Unix(2, 0), Result: probes.RunSuccess, Records: make([]probes.Record, 50)}
	for i := range run.Records {
		run.Records[i] = probes.Record{
			Index: i, Outcome: probes.OK, OutputTokens: probes.Known(3), AcceptLength: probes.Known(1.5),
			Chunks: []probes.Chunk{{At: 1, Tokens: 1}, {At: 2, Tokens: 2}, {At: time.Duration(i)}},
		}
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for i := range run.Records {
				r := run.Records[i] // all of its fields
				r.AppendChunkGaps(nil)
				r.TokensPerChunkKnown()
			}
		}
	})
	if err := s.Add(t.Context(), run); err != nil {
		t.Error(err)
	}
	close(stop)
	readers.Wait()
}
