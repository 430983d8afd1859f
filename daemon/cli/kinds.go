package cli

import (
	"context"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/probes"
)

var peakCommand = command{
	name: "peak", usage: "peak [flags]", short: "find the throughput ceiling by doubling the workers of a closed loop",
	about: `Runs closed loops of 1, 2, 4 ... workers until the throughput grows by less than 5 %,
and reports the step with the highest one, the steps beside it, and the gap to the engine's
own throughput when --offline-result names it. Exit status as of run.`,
	define: func(f *flagSet) action {
		options := defineKindFlags(f, probes.Peak)
		return func(ctx context.Context, p Process) (int, error) { return run(ctx, p, options, f.FlagSet) }
	},
}

var batchCommand = command{
	name: "batch", usage: "batch [flags]", short: "time the prefill and the decode step of one batch",
	about: `Sends one batch of equal requests at once and reports, as bench_one_batch_server does,
the time to the last first token (prefill), the decode step and the throughputs of the
batch. Exit status as of run, the gravest one for several sizes.`,
	define: func(f *flagSet) action {
		options := defineKindFlags(f, probes.Batch)
		return func(ctx context.Context, p Process) (int, error) { return runBatches(ctx, p, options, f.FlagSet) }
	},
}

// runBatches runs the sizes one after the other.
func runBatches(ctx context.Context, p Process, o *runFlags, flags *pflag.FlagSet) (int, error) {
	sizes := o.batchSizes
	gravest := exitPass
	for _, size := range sizes {
		o.batchSizes = []int{size}
		code, err := run(ctx, p, o, flags)
		if err != nil || ctx.Err() != nil {
			return code, err
		}
		if code == exitFail || gravest == exitPass {
			gravest = code
		}
	}
	return gravest, nil
}

// buildPeak completes the spec of a peak.
func (o *runFlags) buildPeak(m *mistakes, s *probes.Spec) {
	s.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), MaxConcurrency: o.maxConcurrency}
	s.StartConcurrency = o.startConcurrency
	switch {
	case o.maxConcurrency < 1:
		m.add("max-concurrency", "%d is less than one worker", o.maxConcurrency)
	case o.startConcurrency < 1 || o.startConcurrency > o.maxConcurrency:
		m.add("start-concurrency", "%d is not from 1 to --max-concurrency, which is %d", o.startConcurrency, o.maxConcurrency)
	}
	o.amounts(m)
	if o.numPrompts == 0 && o.duration == 0 {
		m.add("num-prompts", "0 needs a --duration")
	}
}

// buildBatch completes the spec of a batch of the first size.
func (o *runFlags) buildBatch(m *mistakes, s *probes.Spec) {
	s.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	for _, size := range o.batchSizes {
		if size < 1 {
			m.add("batch-size", "%d is less than one request", size)
		}
	}
	if len(o.batchSizes) > 0 {
		s.Requests = o.batchSizes[0]
	}
	if s.Warmup.Requests = o.warmup; !o.changed("warmup-requests") {
		s.Warmup.Requests = s.Requests
	} else if o.warmup < 0 {
		m.add("warmup-requests", "%d is negative", o.warmup)
	}
	if o.disableStream {
		m.add("disable-stream", "leaves no first token to end the prefill of a batch")
	}
	if !o.changed("random-range-ratio") {
		s.Workload.RangeRatio = 1
	}
	if !strings.HasPrefix(o.dataset, "random") || s.Workload.RangeRatio != 1 {
		m.add("dataset-name", "a batch needs prompts of one length: a random dataset, with --random-range-ratio 1")
	}
}
