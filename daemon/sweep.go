package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/capacity"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/summary"
	"github.com/inferbeat/inferbeat/probes/verdict"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// sweeper carries out one sweep: a run made of steps.
type sweeper struct {
	*Runner
	client   *pairClient
	own      *local // tokenizer; nil when the target counts
	run      *probes.Run
	progress *loadgen.Progress
	hooks    Hooks
	light    probes.Distribution // E2E of requests that had the server to themselves
}

// sweep measures one rate after the other, as the search wants them, and fills the
// run in.
func (r *Runner) sweep(ctx context.Context, client *pairClient, run *probes.Run, own *local, progress *loadgen.Progress, hooks Hooks) error {
	s := &sweeper{Runner: r, client: client, own: own, run: run, progress: progress, hooks: hooks}
	if hooks.Started != nil {
		hooks.Started(run.ID)
	}
	if err := s.calibrate(ctx); err != nil {
		return err
	}
	search := capacity.Search{Plan: run.Spec.Sweep, Last: client.capacity, Alone: s.light.Get(probes.StatP50)}
	end := probes.SweepCut
	for ctx.Err() == nil {
		rate, over := search.Next(run.Steps)
		if end = over; end != "" {
			break
		}
		if err := s.step(ctx, rate); err != nil {
			return fmt.Errorf("step at %.4g requests per second: %w", rate, err)
		}
	}
	if ctx.Err() != nil {
		end = probes.SweepCut
	}
	s.conclude(end)
	return nil
}

// conclude turns the steps into the sweep's result.
func (s *sweeper) conclude(end probes.SweepEnd) {
	run := s.run
	run.End = time.Now()
	run.Complete = end != probes.SweepCut
	run.Summary = s.counts()
	run.Capacity = capacity.Estimate(run.Steps, run.Spec.SLOs, end)
	run.Validity = verdict.SweepValidity(run)
	run.Verdict = verdict.JudgeSweep(run)
	run.Result = resultOf(run)
	if run.Result == probes.RunSuccess && run.Capacity.Bracketed {
		s.client.capacity = run.Capacity.Rate
	}
}

// counts adds the requests of all steps up. Nothing else of them may be pooled:
// each step has another load.
func (s *sweeper) counts() probes.Summary {
	var records []probes.Record
	warmup := len(s.run.Warmup)
	for i := range s.run.Steps {
		records = append(records, s.run.Steps[i].Records...)
		warmup += len(s.run.Steps[i].Warmup)
	}
	all := summary.Summarize(summary.Input{Spec: &s.run.Spec, Records: records, Warmup: warmup, Pooled: true})
	return probes.Summary{
		Duration: s.run.End.Sub(s.run.Start), Requests: all.Requests, Sent: all.Sent, Completed: all.Completed, Failed: all.Failed,
		Cancelled: all.Cancelled, Dropped: all.Dropped, Outcomes: all.Outcomes, Flags: all.Flags, Warmup: all.Warmup,
		InputTokens: all.InputTokens, InputSource: all.InputSource, OutputTokens: all.OutputTokens, OutputSource: all.OutputSource,
		SuccessRatio: all.SuccessRatio,
	}
}

// calibration is how many requests are sent one after the other before the first step.
const calibration = 5

// calibrate learns how long a request takes, by which the first step's length is
// chosen. Its requests are warm-up: they wake up the server, the connections and the
// tokenizer.
func (s *sweeper) calibrate(ctx context.Context) error {
	sub := s.subRun(s.run.ID+"-c", probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1}, probes.Warmup{Requests: calibration}, calibration)
	source, err := s.prepare(ctx, s.client, sub, s.own, s.hooks, nil)
	if err != nil {
		return err
	}
	defer source.Close()
	s.run.Target.Model = sub.Target.Model
	clock := probes.NewClock()
	load := warmupLoad(sub.Spec, s.client.backend, source.NextWarmup, clock.Now())
	stats := loadgen.Run(ctx, clock, load, func(r probes.Record) {
		s.run.Warmup = append(s.run.Warmup, r)
		s.recorded(&r)
	})
	alone := summary.Summarize(summary.Input{Spec: &sub.Spec, Records: s.run.Warmup})
	s.light = alone.Distribution(probes.E2E)
	return errors.Join(stats.Err, source.Err())
}

func (s *sweeper) recorded(r *probes.Record) {
	if s.hooks.Record == nil {
		return
	}
	shown := *r
	if !s.run.Spec.KeepText {
		shown.Text = "" // it was kept to be counted, not to be shown
	}
	s.hooks.Record(s.run.ID, &shown)
}

// subRun is one load of the sweep as a run of its own.
func (s *sweeper) subRun(id string, arrivals probes.Arrivals, warmup probes.Warmup, requests int) *probes.Run {
	sub := &probes.Run{ID: id, Target: s.run.Target, Spec: s.run.Spec, Start: time.Now(), Facts: s.run.Facts}
	sub.Spec.Sweep = probes.SweepPlan{}
	sub.Spec.Arrivals, sub.Spec.Warmup, sub.Spec.Requests, sub.Spec.Duration = arrivals, warmup, requests, 0
	return sub
}

// plan is the load of a step. Every request of it is awaited: to cut the last ones
// would hide those that wait longest.
func (s *sweeper) plan(rate float64) *probes.Run {
	spec := &s.run.Spec
	measure, warm := capacity.Length(rate, s.residence(rate), spec.SLOs)
	if spec.Duration > 0 {
		measure = spec.Duration
	}
	requests := spec.Requests
	if requests == 0 {
		requests = max(1, int(math.Round(rate*measure.Seconds())))
	}
	warmup := spec.Warmup
	if warmup == (probes.Warmup{}) {
		warmup.Duration = warm
	}
	warmup = probes.Warmup{Requests: max(warmup.Requests, int(math.Ceil(rate*warmup.Duration.Seconds())))}
	arrivals := spec.Arrivals
	arrivals.Rate = rate
	return s.subRun(probes.StepID(s.run.ID, len(s.run.Steps)), arrivals, warmup, requests)
}

// residence is how long requests took at the highest rate that is not above this one
// and was kept up with, or without any load.
func (s *sweeper) residence(rate float64) probes.Distribution {
	best, e2e := 0.0, s.light
	for i := range s.run.Steps {
		step := &s.run.Steps[i]
		if d := step.Summary.Distribution(probes.E2E); step.Usable() && step.Passed && step.Rate <= rate && step.Rate > best && d.N > 0 {
			best, e2e = step.Rate, d
		}
	}
	return e2e
}

// step measures one rate and appends it to the run's steps.
func (s *sweeper) step(ctx context.Context, rate float64) error {
	sub := s.plan(rate)
	source, err := s.prepare(ctx, s.client, sub, s.own, s.hooks, nil)
	if err != nil {
		return err
	}
	defer source.Close()
	seen := s.client.observer.observe(ctx, sub, s.hooks)
	defer seen.close()
	leave := s.enter(sub.Target.Name)
	defer leave()
	if len(s.run.Steps) == 0 {
		s.run.Facts = sub.Facts
		s.run.WorkloadVersion = source.Version()
		s.run.Fingerprint = verdict.Fingerprint(s.run.Spec, s.run.Target, s.run.Facts, s.run.WorkloadVersion)
	}
	process := startProcessMeter()
	sub.Start = time.Now()
	stats, aborted := s.load(ctx, sub, source, seen)
	sub.End = time.Now()
	used := process.stop()
	evidence := verdict.Evidence{Concurrent: leave(), Stopped: s.hooks.watch.Reason()}
	server := seen.ended(ctx, &evidence)
	if err := errors.Join(stats.Err, source.Err()); err != nil {
		return fmt.Errorf("read workload %s: %w", sub.Spec.Workload.Name, err)
	}
	s.own.retokenize(sub)
	if aborted {
		stats.Ended = loadgen.EndedSchedule // the step has answered its question
	}
	judge(sub, stats, source, server, used, evidence)
	step := probes.Step{
		Rate: rate, Start: sub.Start, End: sub.End, Records: sub.Records, Warmup: sub.Warmup,
		Summary: sub.Summary, Validity: sub.Validity, Aborted: aborted,
	}
	capacity.Judge(&step, sub.Spec.SLOs, summary.Good)
	if s.run.Steps = append(s.run.Steps, step); s.run.Traps == nil && step.Usable() {
		s.run.Traps = sub.Traps
	}
	if s.hooks.Step != nil {
		s.hooks.Step(s.run.ID, &s.run.Steps[len(s.run.Steps)-1])
	}
	return nil
}

// load sends warm-up and measurement in one stream, so that the queue which the first
// has built is there when the second begins. It gives up when the objectives cannot
// be kept any more.
func (s *sweeper) load(ctx context.Context, sub *probes.Run, source *workload.Source, seen *observation) (stats loadgen.Stats, aborted bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	spec := &sub.Spec
	warm := spec.Warmup.Requests
	clock := probes.Clock{Start: sub.Start}
	asked := 0
	next := func() (*probes.Request, bool) {
		if asked++; asked <= warm {
			return source.NextWarmup()
		}
		return source.Next()
	}
	seen.measuring(ctx)
	load := measuredLoad(*spec, s.client.backend, prepared(next, spec, s.own != nil), clock.Now())
	load.Count = warm + spec.Requests
	load.Offsets = arrival.Offsets(spec.Arrivals, load.Count, spec.Workload.Seed)
	load.Progress = s.progress
	seen.from = sub.Start.Add(load.Start + dueOf(load, warm))
	slos := make([]probes.SLO, len(spec.SLOs))
	for i := range slos {
		slos[i] = capacity.FromDue(spec.SLOs[i])
	}
	over := make([]int, len(slos))
	stats = loadgen.Run(ctx, clock, load, func(r probes.Record) {
		s.recorded(&r)
		if r.Warmup {
			sub.Warmup = append(sub.Warmup, r)
			return
		}
		sub.Records = append(sub.Records, r)
		for i := range slos {
			if good, counts := summary.Good(&r, &slos[i]); counts && !good {
				over[i]++
			}
			if !aborted && capacity.TooMany(over[i], spec.Requests, slos[i].Objective) {
				aborted = true
				cancel()
			}
		}
	})
	return stats, aborted
}

// dueOf is the offset of the n-th request of a load.
func dueOf(load loadgen.Load, n int) (at time.Duration) {
	for offset := range load.Offsets {
		at = offset
		if n--; n < 0 {
			break
		}
	}
	return at
}
