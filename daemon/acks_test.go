package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// A change that another process accepts is no regression any more within seconds: not in
// the metrics, not on the page, and with no run in between. An acknowledgement that was
// given while no daemon ran is heard at the start.
func TestAcknowledgementIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		spec := loadSpec()
		spec.Regression = probes.Regression{Enabled: true}
		key := pairKey{"t", "load"}
		log := slog.New(slog.DiscardHandler)
		begin := func() *App {
			m, err := openMemory(t.Context(), config.Storage{Path: folder}, log, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			app := &App{tracker: newTracker(time.Now), config: config.Default(), log: log, memory: m, nights: nights{past: remembered{m}}}
			app.tracker.replace([]config.Pair{{Target: fakeTarget("vllm"), Spec: spec}}, nil, m.recall(t.Context(), []pairKey{key}))
			return app
		}
		ack := func(metric probes.RegressionMetric) {
			t.Helper()
			s, err := store.Open(t.Context(), store.Options{Path: folder, Access: store.Write})
			if err == nil {
				err = s.Acknowledge(t.Context(), probes.Acknowledgement{Target: "t", Probe: "load", Metric: metric, At: time.Now(), Author: "kim", Reason: "a longer answer"})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want := func(when string, app *App, tpot, e2e probes.ChangeState, verdict probes.VerdictState) {
			t.Helper()
			s := app.tracker.snapshot(nil)[0]
			if got := changeOf(t, s.Changes, probes.MetricTPOTp50).State; got != tpot {
				t.Errorf("%s: tpot is %s, want %s", when, got, tpot)
			}
			if got := changeOf(t, s.Changes, probes.MetricE2Ep50).State; got != e2e {
				t.Errorf("%s: e2e is %s, want %s", when, got, e2e)
			}
			if s.Last.Verdict.State != verdict || s.Result.Verdict.State != verdict {
				t.Errorf("%s: verdicts %s and %s, want %s", when, s.Last.Verdict.State, s.Result.Verdict.State, verdict)
			}
		}
		hear := func(app *App) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); app.hearAcks(ctx) }()
			synctest.Wait()
			return func() { cancel(); <-done }
		}

		app := begin()
		for n := range 23 {
			value := 0.02
			if n >= 20 {
				value = 0.025
			}
			at := probes.Distribution{N: 200, Mean: value, P50: value, P90: value, P95: value, P99: value, Max: value}
			run := &probes.Run{
				ID: fmt.Sprintf("night-%02d", n), Target: fakeTarget("vllm"), Spec: spec, Start: time.Now(), End: time.Now().Add(time.Minute),
				Result: probes.RunSuccess, Complete: true, Fingerprint: "f", Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
				Summary: probes.Summary{Completed: 200, OutputTokens: probes.Known(40_000), Latency: map[probes.Signal]probes.Distribution{probes.TPOT: at, probes.E2E: at}},
			}
			app.judgeNights(&spec, run)
			app.finish(key, run)
			time.Sleep(24 * time.Hour)
		}
		stop := hear(app)
		want("before", app, probes.ChangeWorse, probes.ChangeWorse, probes.Fail)
		ack(probes.MetricTPOTp50)
		time.Sleep(hearEvery - 1)
		synctest.Wait()
		want("before it was heard", app, probes.ChangeWorse, probes.ChangeWorse, probes.Fail)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want("afterwards", app, probes.ChangeLearning, probes.ChangeWorse, probes.Fail)
		stop()
		if err := app.memory.close(); err != nil {
			t.Fatal(err)
		}

		ack(probes.MetricE2Ep50)
		app = begin()
		defer app.memory.close()
		want("of a new process", app, probes.ChangeWorse, probes.ChangeWorse, probes.Fail) // as the last run left it
		defer hear(app)()
		want("once it has listened", app, probes.ChangeLearning, probes.ChangeLearning, probes.Pass)
	})
}

// A run that goes on when something is accepted may be judged by what was known before,
// so its pair is judged again when it has ended.
func TestAcknowledgementDuringARun(t *testing.T) {
	m, err := openMemory(t.Context(), config.Storage{Path: t.TempDir()}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	app := &App{tracker: newTracker(time.Now), config: config.Default(), log: slog.New(slog.DiscardHandler), memory: m, nights: nights{past: remembered{m}}}
	app.tracker.replace([]config.Pair{{Target: fakeTarget("vllm"), Spec: loadSpec()}}, nil, nil)
	key := pairKey{"t", "load"}
	ears := ears{app: app, pending: map[pairKey]bool{}}
	ears.listen(t.Context())
	app.tracker.started(key, nil)
	for _, target := range []string{"t", "nobody"} {
		if err := m.store.Acknowledge(t.Context(), probes.Acknowledgement{Target: target, Probe: "load", At: time.Now(), Author: "kim", Reason: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		ears.listen(t.Context())
		if _, waits := ears.pending[key]; !waits || len(ears.pending) != 1 {
			t.Errorf("while the run goes on: pending %v, want the pair", ears.pending)
		}
	}
	app.tracker.finished(key, &probes.Run{ID: "r", Spec: loadSpec(), Result: probes.RunAborted})
	ears.listen(t.Context())
	if len(ears.pending) != 0 {
		t.Errorf("after the run: pending %v, want none", ears.pending)
	}
}
