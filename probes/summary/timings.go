package summary

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// timings average what the server said with each answer of having worked on it. Only
// requests of which it has counted the tokens too have a rate.
func timings(records []probes.Record) (t probes.ServerTimings) {
	var prefill, decode, counted time.Duration
	tokens := 0
	for i := range records {
		r := &records[i]
		if r.Outcome != probes.OK {
			continue
		}
		if took, ok := r.ServerPrefill.Get(); ok {
			prefill += took
			t.Prefill.N++
		}
		took, ok := r.ServerDecode.Get()
		if !ok {
			continue
		}
		decode += took
		t.Decode.N++
		if n, ok := r.OutputTokens.Get(); ok && n > 0 && took > 0 && r.OutputSource == probes.TokensServer {
			counted += took
			tokens += n
		}
	}
	t.Prefill.Mean, t.Decode.Mean = meanOf(prefill, t.Prefill.N), meanOf(decode, t.Decode.N)
	if counted > 0 {
		t.DecodeRate = probes.Known(float64(tokens) / counted.Seconds())
	}
	return t
}

// meanOf is in seconds, and 0 without samples.
func meanOf(sum time.Duration, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum.Seconds() / float64(n)
}
