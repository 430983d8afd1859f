package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/verdict"
)

// nightWatch is what of a daemon judges nights.
type nightWatch struct {
	*App
	t      *testing.T
	engine *fakellm.Engine
	log    *bytes.Buffer
	spec   probes.Spec
	target probes.Target
}

func newNightWatch(t *testing.T) *nightWatch {
	t.Helper()
	engine, runner := scripted(t, nil)
	w := &nightWatch{t: t, engine: engine, log: &bytes.Buffer{}, spec: loadSpec(), target: fakeTarget("vllm")}
	w.spec.Requests = 25
	w.spec.Regression = probes.Regression{Enabled: true, Confirm: true}
	w.spec.Schedule = probes.Schedule{Cron: "0 2 * * *"}
	w.App = &App{
		tracker: newTracker(time.Now), config: config.Default(), log: slog.New(slog.NewTextHandler(w.log, nil)),
		nights: nights{past: &ephemeral{}}, runner: runner,
	}
	w.tracker.replace([]config.Pair{{Target: w.target, Spec: w.spec}}, map[pairKey]time.Duration{{"t", "load"}: 24 * time.Hour}, nil)
	return w
}

func (w *nightWatch) faults(faults ...fakellm.Fault) {
	w.t.Helper()
	if err := w.engine.SetFaults(faults...); err != nil {
		w.t.Fatal(err)
	}
}

// night sleeps until the next one and makes its run.
func (w *nightWatch) night(edit func(*probes.Run)) *probes.Run {
	time.Sleep(24*time.Hour - time.Since(time.Now().Truncate(24*time.Hour)))
	run := w.runner.Run(context.Background(), w.target, w.spec, &loadgen.Progress{}, Hooks{Odd: w.oddNight})
	if edit != nil {
		edit(run)
	}
	w.judgeNights(&w.spec, run)
	w.tracker.finished(pairKey{"t", "load"}, run)
	return run
}

func changeOf(t *testing.T, changes []probes.Change, metric probes.RegressionMetric) probes.Change {
	t.Helper()
	for _, c := range changes {
		if c.Metric == metric {
			return c
		}
	}
	t.Fatalf("%s is not judged: %+v", metric, changes)
	return probes.Change{}
}

// TestNights is a replica over weeks: it learns, is slowed down by a fifth, has this
// confirmed the same night, fails on the second one, and recovers.
func TestNights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNightWatch(t)
		defer w.runner.Close()
		state := func(run *probes.Run, metric probes.RegressionMetric, want probes.ChangeState) probes.Change {
			t.Helper()
			c := changeOf(t, run.Changes, metric)
			if c.State != want {
				t.Errorf("%s of %s is %s, want %s", metric, run.Start.Format(time.DateOnly), c.State, want)
			}
			return c
		}
		var run *probes.Run
		for i := range 14 {
			run = w.night(nil)
			want := probes.ChangeNone
			if i < 11 {
				want = probes.ChangeLearning
			}
			state(run, probes.MetricTPOTp50, want)
			if len(run.Parts) != 0 || run.Verdict.State != probes.Pass {
				t.Errorf("night %d: %d parts, %s; want one run that passes", i, len(run.Parts), run.Verdict.State)
			}
		}
		for _, c := range run.Changes {
			if c.State != probes.ChangeNone || c.Effect.Or(1) > 1e-12 {
				t.Errorf("nights that are alike: %+v", c)
			}
		}

		w.faults(fakellm.Fault{Kind: fakellm.Slow, Factor: 1.2})
		first := w.night(nil)
		c := state(first, probes.MetricTPOTp50, probes.ChangeSuspected)
		if len(first.Parts) != probes.ConfirmRuns || first.Summary.Repeats.Used != probes.ConfirmRuns || first.Parts[0].Run.ID != first.ID {
			t.Errorf("the odd night has %d parts, %d used; want %d", len(first.Parts), first.Summary.Repeats.Used, probes.ConfirmRuns)
		}
		if math.Abs(c.Effect.Or(0)-0.2) > 1e-9 || first.Verdict.State != probes.Pass || first.Result != probes.RunSuccess {
			t.Errorf("effect %v, verdict %s, result %s; want 0.2 and one odd night that passes", c.Effect.Or(0), first.Verdict.State, first.Result)
		}
		second := w.night(nil)
		c = state(second, probes.MetricTPOTp50, probes.ChangeWorse)
		if math.Abs(c.Effect.Or(0)-0.2) > 1e-9 || math.Abs(c.Baseline.Or(0)-0.02) > 1e-9 || !c.Onset.Equal(first.Start) {
			t.Errorf("%v worse than %v since %s; want 0.2, 0.02 and %s", c.Effect.Or(0), c.Baseline.Or(0), c.Onset, first.Start)
		}
		if second.Verdict.State != probes.Fail || second.Verdict.Reasons[0].Code != probes.ReasonRegression {
			t.Errorf("verdict %+v, want fail for a regression", second.Verdict)
		}
		if shown := changeOf(t, w.tracker.snapshot(nil)[0].Changes, probes.MetricTPOTp50); shown.State != probes.ChangeWorse {
			t.Errorf("the pair shows %s, want worse", shown.State)
		}
		third := w.night(nil)
		if len(third.Parts) != 0 {
			t.Errorf("a night at the known level of a regression has %d parts, want one run", len(third.Parts))
		}

		w.faults()
		for range 3 {
			run = w.night(nil)
		}
		state(run, probes.MetricTPOTp50, probes.ChangeNone)
		if run.Verdict.State != probes.Pass {
			t.Errorf("verdict %s after the recovery, want pass", run.Verdict.State)
		}
		told := func(event string) int {
			return strings.Count(w.log.String(), "metric=tpot_p50 event="+event)
		}
		if told("regression") != 1 || told("recovered") != 1 {
			t.Errorf("told of %d regressions and %d recoveries, want one each:\n%s", told("regression"), told("recovered"), w.log)
		}
	})
}

// TestNightsThatNobodyBelieves move nothing, and two in a row are news.
func TestNightsThatNobodyBelieves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNightWatch(t)
		defer w.runner.Close()
		for range 13 {
			w.night(nil)
		}
		before := changeOf(t, w.tracker.snapshot(nil)[0].Changes, probes.MetricTTFTp50)
		doubt := func(run *probes.Run) {
			run.Validity = verdict.Doubt(run.Validity, verdict.ClientLate, "late")
		}
		w.faults(fakellm.Fault{Kind: fakellm.Slow, Factor: 3})
		for i := range 3 {
			if run := w.night(doubt); run.Changes != nil {
				t.Errorf("a run that is suspect was judged: %+v", run.Changes)
			}
			if told := strings.Count(w.log.String(), "nothing watches this pair"); told != min(i, 1) {
				t.Errorf("after %d runs that nobody believes: told %d times", i+1, told)
			}
		}
		w.faults()
		after := changeOf(t, w.night(nil).Changes, probes.MetricTTFTp50)
		if after.State != probes.ChangeNone || after.BaselineRuns != before.BaselineRuns || after.Baseline != before.Baseline {
			t.Errorf("baseline %v of %d nights, want %v of %d as before", after.Baseline, after.BaselineRuns, before.Baseline, before.BaselineRuns)
		}
	})
}

// TestFleetThreshold: the budget of all series decides, unless a probe says how
// sensitive it is.
func TestFleetThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNightWatch(t)
		defer w.runner.Close()
		run := &probes.Run{Target: w.target, Spec: w.spec}
		threshold := func() float64 {
			_, o, err := w.earlier(run)
			if err != nil {
				t.Fatal(err)
			}
			return o.Threshold
		}
		if got := threshold(); got != 0 {
			t.Errorf("without a budget: threshold %v, want the sensitivity's", got)
		}
		// Default has no pairs, so that any budget is ample; runs are confirmed.
		c := *config.Default()
		c.FalseAlarms = 0.1
		w.config = &c
		if got := threshold(); got != 4.0 {
			t.Errorf("with a budget: threshold %v, want 4", got)
		}
		run.Spec.Regression.Sensitivity = probes.SensitivityHigh
		if got := threshold(); got != 0 {
			t.Errorf("with a sensitivity of its own: threshold %v, want that one's", got)
		}
	})
}

// TestNightsAskTheSame: what reaches the target is the same night after night, even from
// another process, but for the head of each prompt, which no cache may know.
func TestNightsAskTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, func(_ int, c *fakellm.Config) { c.Script = nil })
		spec := loadSpec()
		spec.Requests, spec.Arrivals = 30, probes.Arrivals{Process: probes.Poisson, Rate: 10}
		spec.Workload.InputTokens, spec.Workload.OutputTokens, spec.Workload.RangeRatio = 400, 20, 0.5
		for range 3 {
			fresh := &Runner{UserAgent: "inferbeat/test", Dial: r.runner.Dial}
			if run := fresh.Run(context.Background(), rival(0, "vllm"), spec, &loadgen.Progress{}, Hooks{}); run.Error != "" {
				t.Fatal(run.Error)
			}
			fresh.Close()
			time.Sleep(24 * time.Hour)
		}
		runs := r.runs(30)
		if len(runs) != 3 {
			t.Fatalf("%d runs of 30 requests, want 3", len(runs))
		}
		for night := 1; night < 3; night++ {
			for i := range runs[0] {
				first, now := runs[0][i], runs[night][i]
				if got, want := now.at.Sub(runs[night][0].at), first.at.Sub(runs[0][0].at); got != want {
					t.Fatalf("night %d, request %d: %s after the first one, want %s", night, i, got, want)
				}
				same := 0
				for same < min(len(first.prompt), len(now.prompt)) && first.prompt[len(first.prompt)-1-same] == now.prompt[len(now.prompt)-1-same] {
					same++
				}
				head := len(now.prompt) - same
				if head == 0 || head > len(now.prompt)/4 {
					t.Fatalf("night %d, request %d: the first %d of %d bytes differ, want a short head that is new:\n%.80q\n%.80q", night, i, head, len(now.prompt), first.prompt, now.prompt)
				}
			}
		}
	})
}

// TestNightsOutliveTheProcess: the nights of a store are those of every process that
// opens it, and so is what somebody has accepted.
func TestNightsOutliveTheProcess(t *testing.T) {
	folder := t.TempDir()
	spec := loadSpec()
	spec.Regression = probes.Regression{Enabled: true}
	night := func(n int, tpot float64) *probes.Run {
		start := aNight.AddDate(0, 0, n)
		at := probes.Distribution{N: 200, Mean: tpot, P50: tpot, P90: tpot, P95: tpot, P99: tpot, Max: tpot}
		return &probes.Run{
			ID: fmt.Sprintf("night-%02d", n), Target: fakeTarget("vllm"), Spec: spec, Start: start, End: start.Add(time.Minute),
			Result: probes.RunSuccess, Complete: true, Fingerprint: "f", Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
			Summary: probes.Summary{Completed: 200, OutputTokens: probes.Known(40_000), Latency: map[probes.Signal]probes.Distribution{probes.TPOT: at}},
		}
	}
	process := func(first, last int, tpot float64) (run *probes.Run) {
		log := slog.New(slog.DiscardHandler)
		m, err := openMemory(t.Context(), config.Storage{Path: folder}, log, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer m.close()
		app := &App{tracker: newTracker(time.Now), config: config.Default(), log: log, memory: m, nights: nights{past: remembered{m}}}
		key := pairKey{"t", "load"}
		app.tracker.replace([]config.Pair{{Target: fakeTarget("vllm"), Spec: spec}}, nil, m.recall(t.Context(), []pairKey{key}))
		for n := first; n < last; n++ {
			run = night(n, tpot)
			app.judgeNights(&spec, run)
			app.finish(key, run)
		}
		if shown := app.tracker.snapshot(nil)[0].Changes; len(shown) != len(run.Changes) {
			t.Errorf("the pair shows %d changes, want the %d of its run", len(shown), len(run.Changes))
		}
		return run
	}
	process(0, 8, 0.02)
	if c := changeOf(t, process(8, 20, 0.02).Changes, probes.MetricTPOTp50); c.State != probes.ChangeNone || c.BaselineRuns != 10 || !c.BaselineAt.Equal(aNight) {
		t.Errorf("in the second process: %+v, want a baseline of 10 nights from the first one on", c)
	}
	if c := changeOf(t, process(20, 23, 0.025).Changes, probes.MetricTPOTp50); c.State != probes.ChangeWorse || !c.Onset.Equal(aNight.AddDate(0, 0, 20)) {
		t.Errorf("in the third process: %s since %s, want worse since the 20th night", c.State, c.Onset)
	}
	s, err := store.Open(t.Context(), store.Options{Path: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Acknowledge(t.Context(), probes.Acknowledgement{Target: "t", Probe: "load", At: aNight.AddDate(0, 0, 22).Add(time.Hour), Author: "me", Reason: "a longer answer"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := changeOf(t, process(23, 34, 0.025).Changes, probes.MetricTPOTp50); c.State != probes.ChangeNone || math.Abs(c.Baseline.Or(0)-0.025) > 1e-12 || !c.BaselineAt.Equal(aNight.AddDate(0, 0, 20)) {
		t.Errorf("after it was accepted: %+v, want 0.025 as the baseline since the 20th night", c)
	}
}
