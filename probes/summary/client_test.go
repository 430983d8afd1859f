package summary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func TestClient(t *testing.T) {
	const ms = time.Millisecond
	chunks := func(at ...time.Duration) (out []probes.Chunk) {
		for _, a := range at {
			out = append(out, probes.Chunk{At: a})
		}
		return out
	}
	process := probes.Process{CPUShare: probes.Known(0.25), Throttled: probes.Known(3 * ms)}
	for _, test := range []struct {
		name    string
		records []probes.Record
		want    probes.Client
	}{
		{"nothing was read", []probes.Record{{Outcome: probes.Dropped}}, probes.Client{Process: process}},
		{"no kernel stamps, one event of three came with another", []probes.Record{
			{Outcome: probes.OK, Chunks: chunks(1*ms, 2*ms, 2*ms), Receiving: probes.Receiving{Reads: 4}},
		}, probes.Client{Process: process, Stamped: probes.Known(0.0), Coalesced: probes.Known(0.5)}},
		{"gaps of a failure do not count, its reads do", []probes.Record{
			{Outcome: probes.OK, Chunks: chunks(1*ms, 2*ms), Receiving: probes.Receiving{Reads: 3, Stamped: 3, LagSum: 5 * ms, LagMax: 4 * ms}},
			{Outcome: probes.Truncated, Chunks: chunks(1*ms, 1*ms), Receiving: probes.Receiving{Reads: 1, LagMax: 0}},
			{Outcome: probes.Truncated, Receiving: probes.Receiving{Reads: 4, Stamped: 3, LagSum: 5 * ms, LagMax: 2 * ms}},
		}, probes.Client{
			Process: process, Stamped: probes.Known(0.75), Coalesced: probes.Known(0.0),
			ReceiveLag: probes.Distribution{N: 2, Mean: 0.003, Stddev: 0.001, Min: 0.002, P50: 0.003, P90: 0.0038, P95: 0.0039, P99: 0.00398, Max: 0.004},
		}},
	} {
		got := Summarize(Input{Spec: &probes.Spec{}, Records: test.records, Process: process}).Client
		near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
		if diff := cmp.Diff(test.want, got, near, cmp.AllowUnexported(probes.Optional[float64]{}, probes.Optional[time.Duration]{}, probes.Optional[int]{})); diff != "" {
			t.Errorf("%s: client (-want +got):\n%s", test.name, diff)
		}
	}
}
