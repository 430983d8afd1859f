package daemon

import (
	"context"
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/summary"
	"github.com/inferbeat/inferbeat/probes/verdict"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// judge turns the records of a run that was carried out into its summary,
// validity, verdict and result.
func judge(run *probes.Run, stats loadgen.Stats, source *workload.Source, server probes.ServerSummary, process probes.Process, evidence verdict.Evidence) {
	run.Sending = probes.Sending{Start: stats.Start, End: stats.End, Window: stats.Ended == loadgen.EndedWindow}
	run.SkippedRows = source.Skipped()
	run.Complete = stats.Complete()
	run.WorkloadVersion = source.Version()
	run.Fingerprint = verdict.Fingerprint(run.Spec, run.Target, run.Facts, run.WorkloadVersion)
	run.Whole = wholeFingerprint(run, run.WorkloadVersion)
	evidence.Interrupted = stats.Ended == loadgen.EndedInterrupted
	condense(run, server, process, evidence)
}

// condense computes from a run's records what they are worth.
func condense(run *probes.Run, server probes.ServerSummary, process probes.Process, evidence verdict.Evidence) {
	spec := &run.Spec
	input := summary.Input{Spec: spec, Records: run.Records, Warmup: len(run.Warmup), Server: server, Process: process}
	if run.Sending.Window {
		input.Start, input.End = probes.Known(run.Sending.Start), probes.Known(run.Sending.End)
	}
	input.OfferedRate, input.PlannedSpan = planned(spec)
	if spec.Arrivals.Process == probes.FromTrace {
		input.OfferedRate, input.PlannedSpan = traced(run.Records)
	}
	answer := run.Summary.Answer
	run.Summary = summary.Summarize(input)
	run.Summary.Answer = answer
	run.Summary.Offline = offlineGap(run)
	conclude(run, evidence)
}

// planned is the rate that the arrivals ask for and the span over which they ask.
func planned(spec *probes.Spec) (rate probes.Optional[float64], span probes.Optional[time.Duration]) {
	if !spec.Arrivals.OpenLoop() {
		return rate, span
	}
	count, over := arrival.Planned(spec.Arrivals, spec.Requests, spec.Duration, spec.Workload.Seed)
	if over <= 0 {
		return probes.Known(math.Inf(1)), span
	}
	return probes.Known(float64(spec.Shard.Share(count)) / over.Seconds()), probes.Known(over)
}

// traced is what a trace asked for: the span over which its requests were due, in
// which the last one owns a gap like every other.
func traced(records []probes.Record) (rate probes.Optional[float64], span probes.Optional[time.Duration]) {
	if len(records) < 2 {
		return rate, span
	}
	first, last := records[0].Due, records[0].Due
	for i := range records {
		first, last = min(first, records[i].Due), max(last, records[i].Due)
	}
	if last == first {
		return probes.Known(math.Inf(1)), span
	}
	n := float64(len(records))
	whole := time.Duration(math.Round(float64(last-first) * n / (n - 1)))
	return probes.Known(n / whole.Seconds()), probes.Known(whole)
}

// resultOf says how a run ended as a whole. A run that we cut is aborted,
// whatever it shows; one that cannot be believed is invalid; one in which the
// target answered nothing or something wrong has failed.
func resultOf(run *probes.Run) probes.RunResult {
	switch {
	case !run.Complete:
		return probes.RunAborted
	case run.Validity.State == probes.Invalid:
		return probes.RunInvalid
	case run.Summary.Completed == 0, run.Summary.Answer == probes.AnswerWrong:
		return probes.RunFailed
	}
	return probes.RunSuccess
}

// fail marks a run that could not be carried out. Nothing was measured, so
// nothing is said about the target's latency.
func fail(ctx context.Context, run *probes.Run, err error) {
	run.End = time.Now()
	run.Error = err.Error()
	run.Result = probes.RunFailed
	reason := probes.Reason{Code: verdict.NothingMeasured, Text: run.Error}
	if ctx.Err() != nil {
		run.Result = probes.RunAborted
		reason.Text = "ended by us before it began: " + run.Error
	}
	run.Verdict = probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{reason}}
	run.Validity = probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{reason}}
}
