package summary

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// batchTimes are those of one batch, as bench_one_batch_server defines them. A
// batch in which a request failed has a size and nothing else: the others had
// more of the server than they would have had.
func batchTimes(spec *probes.Spec, records []probes.Record) probes.BatchTimes {
	if spec.Kind != probes.Batch {
		return probes.BatchTimes{}
	}
	b := probes.BatchTimes{Size: len(records)}
	var sent, first, last time.Duration
	var input, output int
	for i := range records {
		r := &records[i]
		n, counted := r.OutputTokens.Get()
		firstToken, began := r.FirstToken.Get()
		lastToken, ended := r.LastToken.Get()
		if r.Outcome != probes.OK || !counted || !began || !ended || r.Flags&(probes.NotStreamed|probes.ShortOutput) != 0 {
			return b
		}
		if i == 0 || r.Sent < sent {
			sent = r.Sent
		}
		first, last = max(first, firstToken), max(last, lastToken)
		prompt, ok := r.PromptTokens.Get()
		if !ok {
			prompt = r.RequestedInput
		}
		input, output = input+prompt, output+n
	}
	if len(records) == 0 || first <= sent {
		return b
	}
	prefill, latency := (first - sent).Seconds(), (last - sent).Seconds()
	b.Prefill, b.Latency = probes.Known(prefill), probes.Known(latency)
	b.InputThroughput = probes.Known(float64(input) / prefill)
	b.OverallThroughput = probes.Known(float64(input+output) / latency)
	if last > first {
		b.DecodeThroughput = probes.Known(float64(output) / (last - first).Seconds())
	}
	if step, ok := decodeStep(records); ok && step > 0 {
		b.DecodeStep, b.StepThroughput = probes.Known(step), probes.Known(float64(b.Size)/step)
	}
	return b
}

// decodeStep is the median time between the steps of the batch. Step k has ended
// when the last request has its token k, so it is only known where every chunk
// holds one token, and all requests have as many.
func decodeStep(records []probes.Record) (seconds float64, ok bool) {
	steps := make([]time.Duration, len(records[0].Chunks))
	for i := range records {
		r := &records[i]
		n, _ := r.OutputTokens.Get()
		if len(r.Chunks) != len(steps) || len(r.Chunks) != n {
			return 0, false
		}
		for k, c := range r.Chunks {
			steps[k] = max(steps[k], c.At)
		}
	}
	if len(steps) < 2 {
		return 0, false
	}
	gaps := make([]float64, len(steps)-1)
	for k := range gaps {
		gaps[k] = (steps[k+1] - steps[k]).Seconds()
	}
	return stats.DescribeInPlace(gaps).P50, true
}
