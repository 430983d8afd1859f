package imports

import (
	"cmp"
	"math"

	"github.com/inferbeat/inferbeat/probes"
)

// offlineThroughput reads bench_offline_throughput: everything at once inside the
// engine's process, which is the ceiling that a server can come near to.
func offlineThroughput(f *fields, run *probes.Run) {
	s := &run.Summary
	run.Spec.Kind = probes.Peak
	run.Spec.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	run.Spec.Workload.Dataset = "unknown"
	s.Completed = f.whole("successful_requests")
	run.Spec.Requests = s.Completed
	s.Duration = seconds(f.number("total_latency"))
	s.InputTokens, s.OutputTokens = f.count("total_input_tokens"), f.count("total_output_tokens")
	s.RequestThroughput = f.number("request_throughput")
	s.InputThroughput, s.OutputThroughput = f.number("input_throughput"), f.number("output_throughput")
	s.TotalThroughput = f.number("total_throughput")
}

// vllmThroughput reads `vllm bench throughput`. It writes no output tokens, only
// those of prompts and answers together.
func vllmThroughput(f *fields, run *probes.Run) {
	s := &run.Summary
	run.Spec.Kind = probes.Peak
	run.Spec.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	run.Spec.Workload.Dataset = "unknown"
	run.Target.Backend = cmp.Or(run.Target.Backend, "vllm")
	s.Completed = f.whole("num_requests")
	run.Spec.Requests = s.Completed
	s.Duration = seconds(f.number("elapsed_time"))
	s.RequestThroughput, s.TotalThroughput = f.number("requests_per_second"), f.number("tokens_per_second")
}

// oneBatch reads bench_one_batch, which steps the model itself: a decode step
// there is one forward pass for the whole batch.
func oneBatch(f *fields, run *probes.Run) {
	batch(f, run)
	b := &run.Summary.Batch
	b.Prefill, b.InputThroughput = f.number("prefill_latency"), f.number("prefill_throughput")
	b.DecodeStep, b.StepThroughput = f.number("median_decode_latency"), f.number("median_decode_throughput")
	b.Latency, b.OverallThroughput = f.number("total_latency"), f.number("overall_throughput")
	finish(run)
}

// oneBatchServer reads bench_one_batch_server, which asks a server. Older
// versions wait for the whole answers and know nothing of the prefill; their
// output throughput is then over the whole time.
func oneBatchServer(f *fields, run *probes.Run) {
	batch(f, run)
	b := &run.Summary.Batch
	b.Prefill, b.InputThroughput = above(f.first("last_ttft", "ttft")), above(f.number("input_throughput"))
	b.Latency, b.OverallThroughput = f.number("latency"), f.number("overall_throughput")
	if b.Prefill.IsKnown() {
		b.DecodeThroughput = above(f.number("output_throughput"))
	}
	if length := above(f.number("acc_length")); length.IsKnown() {
		run.Summary.AcceptLength, run.Summary.AcceptSource = length, probes.AcceptLifetime
	}
	finish(run)
}

// above drops the -1 and 0 that stand for unknown.
func above(n probes.Optional[float64]) probes.Optional[float64] {
	if v, ok := n.Get(); !ok || v <= 0 {
		return probes.Optional[float64]{}
	}
	return n
}

// batch reads the shape of the batch.
func batch(f *fields, run *probes.Run) {
	s, w := &run.Summary, &run.Spec.Workload
	run.Spec.Kind = probes.Batch
	run.Spec.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	w.Dataset, w.RangeRatio = "random-ids", 1
	w.InputTokens, w.OutputTokens = f.whole("input_len"), f.whole("output_len")
	w.Name = lengths(w.InputTokens, w.OutputTokens)
	s.Batch.Size = f.whole("batch_size")
	s.Completed, run.Spec.Requests = s.Batch.Size, s.Batch.Size
	s.PeakConcurrency = s.Batch.Size
	s.InputTokens = probes.Known(s.Batch.Size * w.InputTokens)
	s.OutputTokens = probes.Known(s.Batch.Size * w.OutputTokens)
}

// finish derives the throughputs of the run from the time of the batch.
func finish(run *probes.Run) {
	s := &run.Summary
	s.Duration = seconds(s.Batch.Latency)
	if s.Duration <= 0 {
		return
	}
	per := func(n int) probes.Optional[float64] { return probes.Known(float64(n) / s.Duration.Seconds()) }
	in, _ := s.InputTokens.Get()
	out, _ := s.OutputTokens.Get()
	s.RequestThroughput, s.InputThroughput, s.OutputThroughput, s.TotalThroughput = per(s.Completed), per(in), per(out), per(in+out)
}
