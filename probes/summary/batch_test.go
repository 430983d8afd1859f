package summary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// batchOf are two requests of a batch: sent at 10 and 20 ms, the first tokens at 110 and
// 210 ms, and the others so that the steps of the batch end at 210, 260, 320 and 390 ms.
func batchOf() []probes.Record {
	a := answer(0, 10*ms, 4, 1, 110*ms, 250*ms, 320*ms, 340*ms)
	b := answer(0, 20*ms, 4, 1, 210*ms, 260*ms, 310*ms, 390*ms)
	a.PromptTokens = known(110) // b's are the 100 that were asked for
	return []probes.Record{a, b}
}

func TestBatchTimes(t *testing.T) {
	spec := &probes.Spec{Kind: probes.Batch}
	whole := probes.BatchTimes{
		Size: 2, Prefill: probes.Known(0.2), Latency: probes.Known(0.38),
		InputThroughput: probes.Known(210 / 0.2), OverallThroughput: probes.Known(218 / 0.38), DecodeThroughput: probes.Known(8 / 0.18),
		DecodeStep: probes.Known(0.06), StepThroughput: probes.Known(2 / 0.06), // of steps of 50, 60 and 70 ms
	}
	noSteps := whole
	noSteps.DecodeStep, noSteps.StepThroughput = probes.Optional[float64]{}, probes.Optional[float64]{}
	alone := probes.BatchTimes{
		Size: 2, Prefill: probes.Known(0.2), Latency: probes.Known(0.2), InputThroughput: probes.Known(210 / 0.2), OverallThroughput: probes.Known(212 / 0.2),
	}
	for _, tt := range []struct {
		name string
		edit func([]probes.Record) []probes.Record
		want probes.BatchTimes
	}{
		{"whole", func(r []probes.Record) []probes.Record { return r }, whole},
		{"in another order", func(r []probes.Record) []probes.Record { return []probes.Record{r[1], r[0]} }, whole},
		{"a chunk of two tokens", func(r []probes.Record) []probes.Record { r[1].Chunks = r[1].Chunks[:3]; return r }, noSteps},
		{"one token each", func(r []probes.Record) []probes.Record {
			for i := range r {
				r[i].LastToken, r[i].OutputTokens, r[i].Chunks = r[i].FirstToken, known(1), r[i].Chunks[:1]
			}
			return r
		}, alone},
		{"one failed", func(r []probes.Record) []probes.Record { r[1].Outcome = probes.HTTP5xx; return r }, probes.BatchTimes{Size: 2}},
		{"one not counted", func(r []probes.Record) []probes.Record { r[0].OutputTokens = probes.Optional[int]{}; return r }, probes.BatchTimes{Size: 2}},
		{"one not streamed", func(r []probes.Record) []probes.Record { r[0].Flags |= probes.NotStreamed; return r }, probes.BatchTimes{Size: 2}},
		{"one too short", func(r []probes.Record) []probes.Record { r[1].Flags |= probes.ShortOutput; return r }, probes.BatchTimes{Size: 2}},
		{"one without a token", func(r []probes.Record) []probes.Record {
			r[1].FirstToken = probes.Optional[time.Duration]{}
			return r
		}, probes.BatchTimes{Size: 2}},
		{"nobody", func([]probes.Record) []probes.Record { return nil }, probes.BatchTimes{}},
	} {
		if diff := cmp.Diff(tt.want, batchTimes(spec, tt.edit(batchOf())), approx); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if got := batchTimes(&probes.Spec{Kind: probes.Load}, batchOf()); got != (probes.BatchTimes{}) {
		t.Errorf("times of a load: %+v, want none", got)
	}
}
