package summary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// Only completed requests count, each for what its answer told; a rate needs the
// server's own count of tokens.
func TestServerTimings(t *testing.T) {
	took := func(ms int) probes.Optional[time.Duration] {
		return probes.Known(time.Duration(ms) * time.Millisecond)
	}
	records := []probes.Record{
		{Outcome: probes.OK, ServerPrefill: took(100), ServerDecode: took(1000), OutputTokens: probes.Known(50), OutputSource: probes.TokensServer},
		{Outcome: probes.OK, ServerPrefill: took(300), ServerDecode: took(3000), OutputTokens: probes.Known(350), OutputSource: probes.TokensServer},
		{Outcome: probes.OK, ServerDecode: took(2000), OutputTokens: probes.Known(1), OutputSource: probes.TokensClient},
		{Outcome: probes.OK, ServerDecode: took(2000)},
		{Outcome: probes.OK},
		{Outcome: probes.Truncated, ServerPrefill: took(9000), ServerDecode: took(9000), OutputTokens: probes.Known(9), OutputSource: probes.TokensServer},
	}
	for _, tt := range []struct {
		name    string
		records []probes.Record
		want    probes.ServerTimings
	}{
		{"mixed", records, probes.ServerTimings{
			Prefill: probes.ServerMean{N: 2, Mean: 0.2}, Decode: probes.ServerMean{N: 4, Mean: 2}, DecodeRate: probes.Known(100.0),
		}},
		{"none tells", records[4:], probes.ServerTimings{}},
		{"nobody counts", records[2:4], probes.ServerTimings{Decode: probes.ServerMean{N: 2, Mean: 2}}},
		{"empty", nil, probes.ServerTimings{}},
	} {
		got := Summarize(Input{Spec: &probes.Spec{}, Records: tt.records}).Timings
		if diff := cmp.Diff(tt.want, got); diff != "" || got.Known() != (tt.want != probes.ServerTimings{}) {
			t.Errorf("%s: known %v (-want +got):\n%s", tt.name, got.Known(), diff)
		}
	}
}
