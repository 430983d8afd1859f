package summary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// regular are n requests, one every 100 ms, that take 1 s each and bring 10 tokens
// at its end.
func regular(n int) []probes.Record {
	var records []probes.Record
	for i := range n {
		at := time.Duration(i) * 100 * ms
		records = append(records, answer(at, at, 10, 10, at+time.Second))
	}
	return records
}

func TestSteadyState(t *testing.T) {
	constant := probes.Arrivals{Process: probes.Constant, Rate: 10}
	ramped := constant
	ramped.Ramp = 2 * time.Second
	silent := regular(60)
	for i := range silent {
		silent[i].Chunks[0].Tokens = 0
	}
	uncounted := regular(60)
	uncounted[30].OutputTokens = probes.Optional[int]{}
	whole := regular(60)
	whole[30].Flags, whole[30].Chunks = probes.NotStreamed, nil
	failed := regular(60)
	failed[40] = failure(probes.HTTP5xx, 4*time.Second, 4*time.Second)
	between := func(start, end time.Duration, n int, requests, tokens probes.Optional[float64]) probes.SteadyState {
		return probes.SteadyState{Start: known(start), End: known(end), Completed: n, RequestThroughput: requests, OutputThroughput: tokens}
	}
	unknown := probes.Optional[float64]{}
	for _, tt := range []struct {
		name  string
		input Input
		a     probes.Arrivals
		want  probes.SteadyState
	}{
		// The first request ends at 1 s, the last one is sent at 5.9 s: 49 end after the
		// one and until the other, which is the rate that was asked. Over the whole run it
		// would be 60 in 6.9 s, 8.7 a second.
		{"open loop", Input{Records: regular(60)}, constant, between(time.Second, 5900*ms, 49, known(10.0), known(100.0))},
		{"closed loop", Input{Records: regular(60)}, probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 10},
			between(time.Second, 5900*ms, 49, known(10.0), known(100.0))},
		{"ramp", Input{Records: regular(60)}, ramped, between(3*time.Second, 5900*ms, 29, known(10.0), known(100.0))},
		{"window", Input{Records: regular(60), Start: known(time.Duration(0)), End: known(5 * time.Second)}, constant,
			between(time.Second, 5*time.Second, 40, known(10.0), known(100.0))},
		{"chunks that do not say", Input{Records: silent}, constant, between(time.Second, 5900*ms, 49, known(10.0), known(100.0))},
		{"an answer without a count", Input{Records: uncounted}, constant, between(time.Second, 5900*ms, 49, known(10.0), unknown)},
		{"an answer in one body", Input{Records: whole}, constant, between(time.Second, 5900*ms, 49, known(10.0), unknown)},
		{"a failure", Input{Records: failed}, constant, between(time.Second, 5900*ms, 48, known(48/4.9), known(480/4.9))},
		{"burst", Input{Records: regular(60)}, probes.Arrivals{Process: probes.Burst}, probes.SteadyState{}},
		{"trace", Input{Records: regular(60)}, probes.Arrivals{Process: probes.FromTrace}, probes.SteadyState{}},
		{"too few", Input{Records: regular(29)}, constant, probes.SteadyState{}},
		{"just enough", Input{Records: regular(31)}, constant, between(time.Second, 3*time.Second, 20, known(10.0), known(100.0))},
		{"all drain", Input{Records: regular(5)}, constant, probes.SteadyState{}},
		{"pooled", Input{Records: regular(60), Pooled: true}, constant, probes.SteadyState{}},
		{"nothing", Input{}, constant, probes.SteadyState{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.input.Spec = &probes.Spec{Arrivals: tt.a}
			s := Summarize(tt.input)
			if diff := cmp.Diff(tt.want, s.Steady, approx); diff != "" {
				t.Errorf("steady state (-want +got):\n%s", diff)
			}
		})
	}
}
