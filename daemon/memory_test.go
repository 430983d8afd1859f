package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// rememberedFamilies must be the same before and after a restart, to the last digit.
var rememberedFamilies = []string{
	catalog.RunLastStart, catalog.RunLastCompletion, catalog.RunLastSuccess, catalog.RunLastDuration, catalog.ProbeRegistered,
	catalog.ConsecutiveFailures, catalog.ProbeUp, catalog.BreachRuns, catalog.SLOBudgetRemaining, catalog.TargetInfo,
	catalog.ResultLatency, catalog.ResultSamples, catalog.ResultTailRatio, catalog.ResultTimestamp, catalog.ResultDuration,
	catalog.ResultRequestsPerSecond, catalog.ResultOutputTokensPerSecond, catalog.ResultSuccess, catalog.ResultSLOAttainment,
	catalog.ResultSuspect, catalog.ResultMaxConcurrentRequests,
	catalog.CapacityKnee, catalog.CapacitySafe, catalog.CapacityBracketed, catalog.CapacityTimestamp, catalog.CapacityInterval,
	catalog.SweepOffered, catalog.SweepAchieved, catalog.SweepTTFTp99, catalog.SweepTPOTMean,
}

// remembered are the series of those families, as text.
func (d *runningDaemon) remembered() []string {
	d.t.Helper()
	_, body := d.request("GET", "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		d.t.Fatalf("parse /metrics: %v", err)
	}
	var out []string
	for _, name := range rememberedFamilies {
		for _, m := range families[name].GetMetric() {
			out = append(out, fmt.Sprintf("%s %v = %v", name, m.GetLabel(), m.GetGauge().GetValue()))
		}
	}
	slices.Sort(out)
	return out
}

const rememberingConfig = `
storage: {path: data}
workloads: {w: {input_tokens: 8, output_tokens: 4, tokenizer: approx}}
probes:
  canary: {kind: canary, every: 1s, workload: w, slos: [{name: fast, ttft: 1ns, objective: 90%%, window: 1h}, {name: any, e2e: 1m, objective: 99%%, window: 1h}],
           limits: {ttft: {mean: 1ns}}}
  bench: {kind: load, every: 1s, workload: w, num_prompts: 25, request_rate: inf, limits: {ttft: {mean: 1ns}}}
  capacity: {kind: sweep, every: 1s, workload: w, rates: [100, 200], num_prompts: 8, slos: [{name: fast, ttft: 1m, objective: 90%%, window: 1h}]}
targets:
  - {name: up, pool: p, environment: development, backend: vllm, url: "%s", probes: [canary, bench]}
  - {name: swept, environment: development, backend: vllm, url: "%s", probes: [capacity]}
  - {name: down, environment: development, backend: vllm, url: "http://127.0.0.1:1", probes: [canary]}
`

// What stood before a restart stands after it, on /metrics to the last digit, and a
// canary's window goes on with the requests that were in it.
func TestRestartForgetsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, url := n.engine(nil)
		file := filepath.Join(t.TempDir(), "inferbeat.yaml")
		write := func(extra string) {
			if err := os.WriteFile(file, fmt.Appendf(nil, extra+rememberingConfig, url, url), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("")
		first := n.daemonWith(Options{ConfigFiles: []string{file}, Version: "test"})
		first.until("results of all kinds, and failures", func() bool {
			breached, _ := first.metric(catalog.BreachRuns, "probe", "bench", "stat", "mean")
			_, swept := first.metric(catalog.CapacityTimestamp)
			failures, _ := first.metric(catalog.ConsecutiveFailures, "target", "down")
			samples, _ := first.metric(catalog.ResultSamples, "probe", "canary", "target", "up", "signal", "ttft")
			return breached >= 2 && swept && failures >= 2 && samples >= 2
		})
		first.Pause(true)
		first.until("no run", func() bool {
			return !slices.ContainsFunc(first.Pairs(), func(p probes.PairStatus) bool { return p.Active })
		})
		want := first.remembered()
		samples, _ := first.metric(catalog.ResultSamples, "probe", "canary", "target", "up", "signal", "ttft")
		before := first.Pairs()
		first.end()

		write("pause: true\n")
		second := n.daemonWith(Options{ConfigFiles: []string{file}, Version: "test"})
		if diff := cmp.Diff(want, second.remembered()); diff != "" {
			t.Errorf("/metrics before and after the restart (-before +after):\n%s", diff)
		}
		for i, p := range second.Pairs() {
			if p.Pair != before[i].Pair || p.Last == nil || p.Last.ID != before[i].Last.ID {
				t.Errorf("pair %d: got %v, last run %v; want %v, %v", i, p.Pair, p.Last, before[i].Pair, before[i].Last.ID)
			}
		}
		if left, ok := second.metric(catalog.SLOBudgetRemaining, "slo", "fast", "pool", "p"); !ok || left != -9 {
			t.Errorf("budget of an objective that every request has missed: got %v, %v, want -9", left, ok)
		}
		if left, ok := second.metric(catalog.SLOBudgetRemaining, "slo", "any", "pool", "p"); !ok || left != 1 {
			t.Errorf("budget of an objective that every request has kept: got %v, %v, want 1", left, ok)
		}
		if rate, ok := second.runner.earlier[pairKey{"swept", "capacity"}]; second.capacityIsBracketed("swept") && (!ok || !rate.IsKnown()) {
			t.Errorf("where the next sweep starts: got %v, want the capacity of the last one", rate)
		}
		last := before[len(before)-1].Last
		if code, page := second.request("GET", "/ui/runs/"+last.ID); code != 200 || !strings.Contains(page, "canary on up") {
			t.Errorf("page of a run of the first daemon: got %d, %s", code, page)
		}
		second.Pause(false)
		second.until("a window that has grown", func() bool {
			now, _ := second.metric(catalog.ResultSamples, "probe", "canary", "target", "up", "signal", "ttft")
			return now > samples && now < samples+50
		})
	})
}

func (d *runningDaemon) capacityIsBracketed(target string) bool {
	v, _ := d.metric(catalog.CapacityBracketed, "target", target)
	return v == 1
}

// end stops the daemon and waits for it.
func (d *runningDaemon) end() {
	d.t.Helper()
	d.stop()
	if err := <-d.done; err != nil {
		d.t.Fatalf("the daemon ended with: %v", err)
	}
	d.done <- nil
}

// A run is in the store before anything says that it is done.
func TestDurableBeforeReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, url := n.engine(nil)
		d := n.daemon(fmt.Sprintf(rememberingConfig, url, url))
		reader, err := store.Open(t.Context(), store.Options{Path: filepath.Join(filepath.Dir(d.file), "data"), Access: store.Read})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		seen := map[string]bool{}
		d.until("six runs", func() bool {
			for _, p := range d.Pairs() {
				if p.Last == nil || seen[p.Last.ID] {
					continue
				}
				seen[p.Last.ID] = true
				run, err := reader.Run(t.Context(), p.Last.ID)
				if err != nil || run.Result != p.Last.Result {
					t.Fatalf("run %s is shown as %s, and the store has %v, %v", p.Last.ID, p.Last.Result, run, err)
				}
			}
			return len(seen) >= 6
		})
	})
}

// A store that cannot be written costs the memory and nothing else.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, url := n.engine(nil)
		file := filepath.Join(t.TempDir(), "inferbeat.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, rememberingConfig, url, url), 0o600); err != nil {
			t.Fatal(err)
		}
		var log syncBuffer
		d := n.daemonWith(Options{ConfigFiles: []string{file}, Version: "test", LogTo: &log})
		d.until("a write", func() bool { at, ok := d.metric(catalog.StoreLastWrite); return ok && at > 0 })
		if size, ok := d.metric(catalog.StoreSize); !ok || size < 4096 {
			t.Errorf("size of the store: got %v, %v, want some pages", size, ok)
		}
		if n, ok := d.metric(catalog.StoreErrors, "operation", "add"); !ok || n != 0 {
			t.Errorf("errors of the store at first: got %v, %v, want 0", n, ok)
		}
		if err := d.memory.store.Close(); err != nil { // as good as a broken disk
			t.Fatal(err)
		}
		d.until("five failed writes", func() bool { n, _ := d.metric(catalog.StoreErrors, "operation", "add"); return n >= 5 })
		if _, page := d.request("GET", "/"); !strings.Contains(page, "The store cannot be written, so a restart will have forgotten what is measured now") {
			t.Error("the page does not say that the store fails")
		}
		before := map[string]time.Time{}
		for _, p := range d.Pairs() {
			before[p.Pair.Target+p.Pair.Probe] = p.LastCompletion
		}
		d.until("measuring that goes on", func() bool {
			return !slices.ContainsFunc(d.Pairs(), func(p probes.PairStatus) bool {
				return !p.LastCompletion.After(before[p.Pair.Target+p.Pair.Probe])
			})
		})
		if n := strings.Count(log.String(), "the store cannot be written"); n != 1 {
			t.Errorf("lines of the log about it: got %d, want 1:\n%s", n, log.String())
		}
	})
}

// An outage costs the budget of a model that cannot be asked for its name: one that was
// known before a restart, and one that is known only after the outage.
func TestOutageOfAnUnnamedModelCostsItsBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		engine, _ := n.engine(nil)
		var down atomic.Bool
		url := n.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				http.Error(w, "down", http.StatusServiceUnavailable)
				return
			}
			engine.Handler().ServeHTTP(w, r)
		}))
		start := func(folder string) *runningDaemon {
			file := filepath.Join(t.TempDir(), "inferbeat.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, `
storage: {path: %q}
workloads: {w: {input_tokens: 8, output_tokens: 4, tokenizer: approx}}
probes: {canary: {kind: canary, every: 1s, workload: w, slos: [{name: any, e2e: 1m, objective: 99%%, window: 1h}]}}
targets: [{name: a, pool: p, environment: development, backend: vllm, url: %q, probes: [canary]}]
`, folder, url), 0o600); err != nil {
				t.Fatal(err)
			}
			return n.daemonWith(Options{ConfigFiles: []string{file}, Version: "test"})
		}
		left := func(d *runningDaemon, model string) float64 {
			left, ok := d.metric(catalog.SLOBudgetRemaining, "slo", "any", "pool", "p", "model", model)
			if !ok {
				return math.Inf(1)
			}
			return left
		}
		named := t.TempDir()
		d := start(named)
		d.until("an untouched budget", func() bool { return left(d, "m") == 1 })
		d.end()
		down.Store(true)
		d = start(named)
		d.until("a budget that the outage spends", func() bool { return left(d, "m") < 0 })
		d.end()

		d = start(t.TempDir())
		d.until("a budget of nobody's model", func() bool { return left(d, "") == -99 })
		down.Store(false)
		d.until("the model's name", func() bool { return left(d, "m") <= 1 })
		if got := left(d, "m"); got >= 0 {
			t.Errorf("budget after the outage: got %v, want less than nothing", got)
		}
		d.end()
	})
}

// Budgets count what ended, once, of runs that can be believed.
func TestBudgets(t *testing.T) {
	spec := probes.Spec{Probe: "canary", Kind: probes.Canary, SLOs: []probes.SLO{
		{Name: "ok", Objective: 0.9, Window: time.Hour},
		{Name: "fast", Objective: 0.75, Window: 30 * time.Minute, Bounds: map[probes.Signal]time.Duration{probes.E2E: time.Second}},
	}}
	start := time.Date(2026, 5, 1, 23, 59, 0, 0, time.UTC)
	record := func(outcome probes.Outcome, sent, took time.Duration) probes.Record {
		return probes.Record{Outcome: outcome, Sent: sent, LastToken: probes.Known(sent + took), End: probes.Known(sent + took), Chunks: []probes.Chunk{{At: sent + took}}}
	}
	run := func(target string, result probes.RunResult, records ...probes.Record) *probes.Run {
		return &probes.Run{Target: probes.Target{Name: target, Pool: "p", Environment: probes.Staging, Model: "m"}, Spec: spec, Start: start, Result: result, Records: records}
	}
	b := newBudgets()
	day := map[string][]byte{}
	for _, r := range []*probes.Run{
		run("a", probes.RunSuccess, record(probes.OK, 0, time.Millisecond), record(probes.OK, time.Second, 2*time.Second)),
		run("b", probes.RunSuccess, record(probes.OK, 2*time.Minute, time.Millisecond), record(probes.Cancelled, 0, 0), record(probes.Dropped, 0, 0)),
		run("a", probes.RunFailed, record(probes.HTTP5xx, 2*time.Minute, 0)), // the next day
		run("a", probes.RunInvalid, record(probes.HTTP5xx, 0, 0), record(probes.HTTP5xx, 0, 0)),
	} {
		for _, state := range b.count(r) {
			state.Latest()
			day[state.Key] = state.Latest() // a second time: it counts once
			if want := start.Truncate(24 * time.Hour).Add(48 * time.Hour); state.Expires.Before(want) {
				t.Errorf("expiry of %s: got %v, want a day after the window", state.Key, state.Expires)
			}
		}
	}
	pairs := []probes.PairStatus{
		{Pair: run("a", "").Pair(), Kind: probes.Canary, Spec: spec}, {Pair: run("b", "").Pair(), Kind: probes.Canary, Spec: spec},
		{Pair: probes.Pair{Target: "c", Pool: "c", Probe: "canary"}, Kind: probes.Canary, Spec: spec}, // no event
		{Pair: run("a", "").Pair(), Kind: probes.Load, Spec: spec},
	}
	budgetOf := func(slo string, left float64) probes.ErrorBudget {
		return probes.ErrorBudget{Pool: "p", Environment: "staging", Model: "m", Probe: "canary", SLO: slo, Remaining: left}
	}
	// ok: 3 good, 1 bad of a tenth; fast: 2 good, 2 bad of a quarter.
	want := []probes.ErrorBudget{budgetOf("fast", -1), budgetOf("ok", -1.5)}
	near := cmpopts.EquateApprox(0, 1e-12)
	if diff := cmp.Diff(want, b.remaining(pairs, start.Add(5*time.Minute)), near); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	// Half an hour later only the longer window reaches back to them.
	want = []probes.ErrorBudget{budgetOf("ok", -1.5)}
	if diff := cmp.Diff(want, b.remaining(pairs, start.Add(50*time.Minute)), near); diff != "" {
		t.Errorf("budgets later (-want +got):\n%s", diff)
	}
	b.forget(pairs, start.Add(50*time.Minute))
	restored := newBudgets()
	var states []store.State
	for _, key := range slices.Sorted(maps.Keys(day)) {
		states = append(states, store.State{Key: key, Value: day[key]})
	}
	if len(states) != 4 { // two objectives, two days
		t.Errorf("states: got %d, want 4", len(states))
	}
	if err := restored.restore(states); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.remaining(pairs, start.Add(50*time.Minute)), restored.remaining(pairs, start.Add(50*time.Minute))); diff != "" {
		t.Errorf("budgets after a restart (-before +after):\n%s", diff)
	}
}

func TestBudgetKeysOfOddNames(t *testing.T) {
	want := budgetKey{"a/b", "staging", "org/llama %2F", "c d", "e/"}
	got, day, err := readStateKey(want.stateKey(-3))
	if err != nil || got != want || day != -3 {
		t.Errorf("key read back: got %+v, %d, %v, want %+v, -3", got, day, err, want)
	}
	for _, text := range []string{"budget/a", "budget/a/b/c/d/e/x", "budget/%/b/c/d/e/1"} {
		if _, _, err := readStateKey(text); err == nil {
			t.Errorf("key %s: got no error", text)
		}
	}
}

// A pair whose probe measures something else after the restart keeps its life and not
// its result.
func TestRecallOfAnotherMeasurement(t *testing.T) {
	m, err := openMemory(context.Background(), config.Storage{Path: t.TempDir()}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	at := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
	spec := probes.Spec{Probe: "nightly", Kind: probes.Load, Requests: 10, Workload: probes.Workload{Sampling: probes.Sampling{ExtraBody: map[string]any{"a": 1.0}}}}
	status := probes.PairStatus{
		Pair: probes.Pair{Target: "t", Pool: "t", Probe: "nightly"}, Kind: probes.Load, Spec: spec, Registered: at, LastStart: at, LastCompletion: at, LastSuccess: at,
		LastDuration: time.Minute, ConsecutiveFailures: 3, Result: &probes.Result{RunID: "r", CompletedAt: at},
	}
	m.remember(t.Context(), &probes.Run{ID: "r", Spec: spec, Start: at}, &pairState{status: status})
	key := keyOf(status.Pair)
	kept, ok := m.recall(t.Context(), []pairKey{key, {"t", "other"}})[key]
	if !ok {
		t.Fatal("the pair was forgotten")
	}
	other, promised := spec, spec
	other.Workload.Sampling.ExtraBody = map[string]any{"a": 2.0}
	promised.StaleAfter = time.Hour
	for _, c := range []struct {
		name   string
		spec   probes.Spec
		result bool
	}{{"the same", spec, true}, {"promised otherwise", promised, true}, {"asked otherwise", other, false}} {
		got := kept.state(&config.Pair{Spec: c.spec}, at.Add(time.Hour)).status
		if (got.Result != nil) != c.result {
			t.Errorf("%s: got result %v, want one: %v", c.name, got.Result, c.result)
		}
		if got.Registered != at || got.LastSuccess != at || got.ConsecutiveFailures != 3 || got.LastDuration != time.Minute {
			t.Errorf("%s: life: got %+v, want that of before", c.name, got)
		}
	}
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A comparison stands after a restart as it stood before, unless it would be measured
// otherwise now.
func TestRecallOfComparisons(t *testing.T) {
	dir := t.TempDir()
	open := func() *memory {
		m, err := openMemory(context.Background(), config.Storage{Path: dir}, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	at := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
	c := comparisonOf(pairedSpec(5))
	key := keyOf(comparisonPair(c))
	board := comparisons{now: func() time.Time { return at.Add(time.Hour) }}
	board.replace([]config.Comparison{c}, nil, m.recallComparisons(t.Context(), board.missing([]config.Comparison{c})))
	for _, result := range []probes.RunResult{probes.RunSuccess, probes.RunInvalid} {
		run := &probes.Run{
			ID: string(result), Target: c.Candidate, Spec: c.Spec, Start: at, End: at.Add(time.Minute), Result: result, Records: make([]probes.Record, 1),
			Comparison: &probes.Comparison{Reference: c.Reference, Pairs: 5, Used: 4, Metrics: []probes.Contrast{{Name: "ttft_p50_seconds", N: 4, Ratio: probes.Known(1.25)}}},
			Parts:      []probes.Part{{Role: "pair 1 A", Run: &probes.Run{ID: "part"}}},
		}
		next := board.outcome(key, run)
		m.rememberComparison(t.Context(), run, next)
		board.commit(key, next)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	m = open()
	defer m.close()
	after := comparisons{now: board.now}
	after.replace([]config.Comparison{c}, nil, m.recallComparisons(t.Context(), after.missing([]config.Comparison{c})))
	want, got := board.snapshot(nil), after.snapshot(nil)
	for _, list := range [][]probes.ComparisonStatus{want, got} { // what is not kept is tested elsewhere
		for _, run := range []*probes.Run{list[0].Last, list[0].Result} {
			run.Target.Connection.APIKey, run.Comparison.Reference.Connection.APIKey = "", ""
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("comparison after a restart (-before +after):\n%s", diff)
	}
	if got[0].Result.ID != "success" || got[0].Last.ID != "invalid" {
		t.Errorf("runs: got result %s and last %s, want the valid one and the last", got[0].Result.ID, got[0].Last.ID)
	}
	run, err := m.store.Run(t.Context(), "success")
	if err != nil || len(run.Parts) != 1 || len(run.Records) != 1 {
		t.Errorf("the run itself: got %v, %v, want it with its part and record", run, err)
	}
	other := c
	other.Spec.Requests++
	changed := comparisons{now: board.now}
	changed.replace([]config.Comparison{other}, nil, m.recallComparisons(t.Context(), changed.missing([]config.Comparison{other})))
	if s := changed.snapshot(nil)[0]; s.Result != nil || s.Last == nil || s.LastCompletion != at.Add(time.Hour) {
		t.Errorf("one that is measured otherwise: got result %v, last %v at %v; want no result and its life", s.Result, s.Last, s.LastCompletion)
	}
}
