package summary

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// told is a summary with a TTFT of n requests and an output throughput, 0 for none.
func told(ttft, throughput float64) *probes.Summary {
	s := &probes.Summary{Completed: 2, InputTokens: probes.Known(8)}
	if ttft > 0 {
		s.Latency = map[probes.Signal]probes.Distribution{probes.TTFT: {N: 2, P50: ttft}}
	}
	if throughput > 0 {
		s.OutputThroughput = probes.Known(throughput)
	}
	return s
}

func TestCompare(t *testing.T) {
	a := []*probes.Summary{told(1, 10), told(2, 20), told(4, 0), told(8, 40)}
	b := []*probes.Summary{told(2, 30), told(0, 10), told(4, 70), told(6, 20)}
	got := map[string]probes.Contrast{}
	for _, c := range Compare(a, b) {
		got[c.Name] = c
	}
	for _, want := range []probes.Contrast{
		{Name: "completed", N: 4, Reference: 2, Candidate: 2, Difference: 0, Ratio: probes.Known(1.0)},
		{Name: "input_tokens", N: 4, Reference: 8, Candidate: 8, Difference: 0, Ratio: probes.Known(1.0)},
		// Of the pairs 1, 3 and 4: 1 -> 2, 4 -> 4, 8 -> 6.
		{Name: "ttft_p50_seconds", N: 3, Reference: 4, Candidate: 4, Difference: 0, Ratio: probes.Known(1.0)},
		// Of the pairs 1, 2 and 4: 10 -> 30, 20 -> 10, 40 -> 20.
		{Name: "output_throughput", N: 3, Reference: 20, Candidate: 20, Difference: -10, Ratio: probes.Known(1.0)},
		// Nothing is divided by zero.
		{Name: "ttft_mean_seconds", N: 3},
	} {
		if d := cmp.Diff(want, got[want.Name]); d != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, d)
		}
	}
	for _, name := range []string{"tpot_p50_seconds", "output_tokens", "goodput"} {
		if c, ok := got[name]; ok {
			t.Errorf("%+v: nobody knows it", c)
		}
	}
	if got := Compare(nil, nil); len(got) != 0 {
		t.Errorf("no pairs are compared: %+v", got)
	}
}
