package selftest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// BenchmarkClients sends the usual script to a server in another process, the
// client being this one, so that it can be profiled:
//
//	go test ./daemon/selftest -run XXX -bench Clients/inferbeat/1000 -benchtime 1x -cpuprofile cpu.out
func BenchmarkClients(b *testing.B) {
	for _, client := range []string{clientOwn, clientNaive, clientFloor} {
		for _, streams := range []int{64, 1000} {
			b.Run(fmt.Sprintf("%s/%d", client, streams), func(b *testing.B) {
				o := Options{Command: []string{os.Args[0]}}
				o.setDefaults()
				events, before := 0, StartUsage()
				b.ReportAllocs()
				for b.Loop() {
					server, known, err := startServer(b.Context(), o)
					if err != nil {
						b.Fatal(err)
					}
					exchanges, err := clients[client](b.Context(), probes.NewClock(), load{
						Address: known.Address, Streams: streams, Requests: streams * o.Rounds, Tokens: o.script.tokens, Backend: o.Backend, Limit: time.Minute,
					})
					if err != nil {
						b.Fatal(err)
					}
					for _, e := range exchanges {
						events += len(e.At)
					}
					if err := server.stop(); err != nil {
						b.Fatal(err)
					}
				}
				if want := b.N * streams * o.Rounds * o.script.tokens; events != want {
					b.Fatalf("got %d events, want %d", events, want)
				}
				b.ReportMetric(float64(before.Stop().CPU.Microseconds())/float64(events), "CPU-us/event")
			})
		}
	}
}
