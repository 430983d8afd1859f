package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var night0 = time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = t.TempDir()
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func add(t testing.TB, s *Store, runs ...*probes.Run) {
	t.Helper()
	for _, run := range runs {
		if err := s.Add(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
}

// measured is a run as a target would leave it: requests of so many chunks, 10 ms apart
// with some noise.
func measured(id string, start time.Time, requests, chunks int) *probes.Run {
	rng := rand.New(rand.NewPCG(uint64(start.UnixNano()), uint64(requests)))
	noisy := func(mean time.Duration) time.Duration {
		return time.Duration(float64(mean) * (1 + 0.1*rng.NormFloat64()))
	}
	run := &probes.Run{
		ID: id, Start: start, Result: probes.RunSuccess, Complete: true, Fingerprint: "f00d",
		Target: probes.Target{
			Name: "llama-a", Pool: "llama", Environment: probes.Staging, Backend: "vllm-chat", BaseURL: "http://10.0.0.5:8000", Model: "llama-3.1-8b",
			Labels: map[string]string{"gpu": "h100"}, Timeouts: probes.Timeouts{Total: time.Minute},
		},
		Spec: probes.Spec{
			Probe: "nightly", Kind: probes.Load, Requests: requests, StaleAfter: 26 * time.Hour,
			Workload: probes.Workload{Name: "chat-short", Dataset: "random", InputTokens: 512, OutputTokens: chunks, Tokenizer: "server", Cache: probes.CacheCold, Seed: 1},
			Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8}, Schedule: probes.Schedule{Cron: "0 2 * * *"},
		},
		Facts:    probes.ServerFacts{Engine: "vllm", Version: "0.11.0", Quantization: "fp8", TensorParallel: probes.Known(1), Incarnation: "7"},
		Verdict:  probes.Verdict{State: probes.Pass},
		Validity: probes.Validity{State: probes.Valid},
	}
	var due time.Duration
	for i := range requests {
		due += noisy(125 * time.Millisecond)
		r := probes.Record{
			ID: fmt.Sprintf("%s-%d", id, i), Index: i, Outcome: probes.OK, StatusCode: 200, Due: due, Sent: due + noisy(20*time.Microsecond),
			RequestedInput: 512, RequestedOutput: chunks, ExactOutput: true, PromptTokens: probes.Known(512), OutputTokens: probes.Known(chunks),
			OutputSource: probes.TokensServer, FinishReason: "length", Receiving: probes.Receiving{Reads: chunks, Stamped: chunks, LagSum: noisy(time.Millisecond)},
			Connection: probes.ConnectionTrace{Reused: i > 0, Protocol: "HTTP/1.1", LocalAddress: "10.0.0.1:40000"},
		}
		at := r.Sent + noisy(80*time.Millisecond)
		r.FirstByte, r.FirstToken, r.FirstAnswer = probes.Known(at-noisy(time.Millisecond)), probes.Known(at), probes.Known(at)
		for range chunks {
			r.Chunks = append(r.Chunks, probes.Chunk{At: at, Tokens: 1})
			at += noisy(10 * time.Millisecond)
		}
		r.LastToken, r.End = probes.Known(r.Chunks[chunks-1].At), probes.Known(at)
		run.Records = append(run.Records, r)
	}
	d := probes.Distribution{N: requests, Mean: 0.0812, Stddev: rng.Float64(), Min: 0.06, P50: 0.08 + rng.Float64()/1e3, P90: 0.1, P95: 0.11, P99: 0.13 + rng.Float64(), Max: 0.2}
	run.Summary = probes.Summary{
		Duration: due, Requests: requests, Sent: requests, Completed: requests, Outcomes: map[probes.Outcome]int{probes.OK: requests},
		Latency:      map[probes.Signal]probes.Distribution{probes.TTFT: d, probes.TPOT: d, probes.ITL: d, probes.E2E: d, probes.SendLag: d},
		OutputTokens: probes.Known(requests * chunks), OutputThroughput: probes.Known(rng.Float64() * 1000), SuccessRatio: probes.Known(1.0),
	}
	run.End = start.Add(due)
	return run
}

func night(n int) *probes.Run {
	return measured(fmt.Sprintf("0190%04d-night", n), night0.Add(time.Duration(n)*24*time.Hour), 3, 4)
}

func TestRunComesBackWhole(t *testing.T) {
	s := openStore(t, Options{})
	for seed := range uint64(5) {
		want := fillOne[probes.Run](newFiller(seed))
		want.ID = fmt.Sprint("run-", seed)
		add(t, s, &want)
		got, err := s.Run(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(storable(&want), got, equate); diff != "" {
			t.Errorf("run %s (-want +got):\n%s", want.ID, diff)
		}
		history, err := s.History(t.Context(), Query{Target: want.Target.Name, Limit: 1})
		if err != nil || len(history) != 1 {
			t.Fatalf("history: got %d runs, %v, want 1", len(history), err)
		}
		if diff := cmp.Diff(Bare(&want), history[0], equate); diff != "" {
			t.Errorf("run %s in the history (-want +got):\n%s", want.ID, diff)
		}
	}
}

func TestRunSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := measured("0190aaaa", night0, 20, 30)
	add(t, s, want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := openStore(t, Options{Path: dir}).Run(t.Context(), "0190")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, equate); diff != "" {
		t.Errorf("run after reopening (-want +got):\n%s", diff)
	}
}

func TestRunByPrefix(t *testing.T) {
	s := openStore(t, Options{})
	for _, id := range []string{"0190aa", "0190ab", "0190ab-1", "02"} {
		add(t, s, measured(id, night0, 1, 2))
	}
	for _, c := range []struct{ ask, want, problem string }{
		{"02", "02", ""},
		{"0", "", "several runs begin so: 0190aa, 0190ab, 0190ab-1, 02"},
		{"0190a", "", "several runs begin so: 0190aa, 0190ab, 0190ab-1; give more of the id"},
		{"0190ab", "0190ab", ""}, // whole, although another begins so
		{"0190ab-", "0190ab-1", ""},
		{"03", "", "no such run"},
		{"", "", "no such run"},
		{"%", "", "no such run"},
	} {
		got, err := s.Run(t.Context(), c.ask)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("run %q: got error %v, want one with %q", c.ask, err, c.problem)
			}
			continue
		}
		if err != nil || got.ID != c.want {
			t.Errorf("run %q: got %v, %v, want %s", c.ask, got, err, c.want)
		}
	}
	if _, err := s.Run(t.Context(), "03"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error of an unknown run: got %v, want ErrNotFound", err)
	}
}

func TestAddTwiceIsOnce(t *testing.T) {
	s := openStore(t, Options{})
	first, second := night(1), night(1)
	second.Fingerprint = "other"
	add(t, s, first, second)
	runs, err := s.History(t.Context(), Query{})
	if err != nil || len(runs) != 1 || runs[0].Fingerprint != "f00d" {
		t.Errorf("history after the same id twice: got %v, %v, want the first alone", runs, err)
	}
}

func TestHistorySelects(t *testing.T) {
	s := openStore(t, Options{})
	for n := range 6 {
		run := night(5 - n) // order of adding is not order of starting
		switch 5 - n {
		case 1:
			run.Target.Name, run.Target.Pool = "qwen", "other"
		case 2:
			run.Spec.Probe, run.Spec.Kind = "canary", probes.Canary
		case 3:
			run.Fingerprint, run.Target.Environment = "beef", probes.Production
		case 4:
			run.Result = probes.RunInvalid
		}
		add(t, s, run)
	}
	at := func(n int) time.Time { return night0.Add(time.Duration(n) * 24 * time.Hour) }
	for _, c := range []struct {
		name string
		q    Query
		want string
	}{
		{"all", Query{}, "0 1 2 3 4 5"},
		{"target", Query{Target: "qwen"}, "1"},
		{"pool", Query{Pool: "llama"}, "0 2 3 4 5"},
		{"probe", Query{Probe: "canary"}, "2"},
		{"kinds", Query{Kinds: []probes.Kind{probes.Load, probes.Sweep}}, "0 1 3 4 5"},
		{"environment", Query{Environment: probes.Production}, "3"},
		{"fingerprint", Query{Fingerprint: "beef"}, "3"},
		{"model", Query{Model: "none"}, ""},
		{"results", Query{Results: []probes.RunResult{probes.RunInvalid, probes.RunFailed}}, "4"},
		{"since is in", Query{Since: at(3)}, "3 4 5"},
		{"until is out", Query{Until: at(3)}, "0 1 2"},
		{"last", Query{Limit: 2}, "4 5"},
		{"all at once", Query{Target: "llama-a", Probe: "nightly", Results: []probes.RunResult{probes.RunSuccess}, Since: at(1), Limit: 2}, "3 5"},
	} {
		runs, err := s.History(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, run := range runs {
			n, err := strconv.Atoi(run.ID[4:8])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strconv.Itoa(n))
			if run.Records != nil {
				t.Errorf("%s: run %s has records, which nobody asked for", c.name, run.ID)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got nights %v, want %s", c.name, got, c.want)
		}
	}
	runs, err := s.History(t.Context(), Query{Limit: 1, Records: true})
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	if diff := cmp.Diff(night(5), runs[0], equate); diff != "" {
		t.Errorf("last run with its records (-want +got):\n%s", diff)
	}
}

func TestStates(t *testing.T) {
	s := openStore(t, Options{})
	if _, ok, err := s.State(t.Context(), "pair/a"); ok || err != nil {
		t.Errorf("state before it was kept: got %v, %v, want none", ok, err)
	}
	expiry := night0.Add(time.Hour)
	err := s.PutState(t.Context(), State{Key: "pair/a", Value: []byte("1")}, State{Key: "pair/b", Value: []byte("2"), Expires: expiry}, State{Key: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), night(0), State{Key: "pair/a", Value: []byte("3")}); err != nil {
		t.Fatal(err)
	}
	value, ok, err := s.State(t.Context(), "pair/a")
	if string(value) != "3" || !ok || err != nil {
		t.Errorf("state that was kept with a run: got %q, %v, %v, want 3", value, ok, err)
	}
	for _, c := range []struct {
		name, prefix, want string
		prune              time.Time
	}{
		{"prefix", "pair/", "pair/a=3 pair/b=2", time.Time{}},
		{"all", "", "other= pair/a=3 pair/b=2", time.Time{}},
		{"not yet expired", "pair/", "pair/a=3 pair/b=2", expiry.Add(-time.Second)},
		{"expired", "pair/", "pair/a=3", expiry},
	} {
		if !c.prune.IsZero() {
			if _, err := s.Prune(t.Context(), c.prune); err != nil {
				t.Fatal(err)
			}
		}
		states, err := s.States(t.Context(), c.prefix)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, state := range states {
			got = append(got, state.Key+"="+string(state.Value))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

func TestAcknowledgements(t *testing.T) {
	s := openStore(t, Options{})
	want := []probes.Acknowledgement{
		{Target: "a", Probe: "nightly", At: night0, Author: "kim", Reason: "new image: +3 % is agreed"},
		{Target: "a", Probe: "nightly", Metric: probes.MetricTTFTp50, At: night0.Add(time.Hour), Since: night0.Add(-48 * time.Hour), Author: "lee", Reason: "longer prompts"},
		{Target: "b", Probe: "nightly", At: night0.Add(2 * time.Hour), Author: "kim", Reason: "same"},
	}
	for _, a := range want {
		if err := s.Acknowledge(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		target, probe string
		want          []probes.Acknowledgement
	}{{"", "", want}, {"a", "", want[:2]}, {"b", "nightly", want[2:]}, {"b", "other", nil}} {
		got, err := s.Acknowledgements(t.Context(), c.target, c.probe)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("acknowledgements of %q %q (-want +got):\n%s", c.target, c.probe, diff)
		}
	}
}

func TestPruneByAge(t *testing.T) {
	s := openStore(t, Options{Retention: 30 * 24 * time.Hour, Samples: 10 * 24 * time.Hour})
	for n := range 40 {
		add(t, s, night(n))
	}
	old := night(0)
	old.ID, old.Spec.Requests, old.Target.Name = "unlike", 77, "gone"
	add(t, s, old)
	if err := s.Acknowledge(t.Context(), probes.Acknowledgement{At: night0, Author: "kim"}); err != nil {
		t.Fatal(err)
	}
	now := night0.Add(39 * 24 * time.Hour) // night 9 is 30 days old, night 29 ten
	pruned, err := s.Prune(t.Context(), now)
	if want := (Pruned{Runs: 10, Samples: 30}); err != nil || pruned != want {
		t.Errorf("pruned: got %+v, %v, want %+v", pruned, err, want)
	}
	runs, err := s.History(t.Context(), Query{Records: true})
	if err != nil || len(runs) != 31 {
		t.Fatalf("history after pruning: got %d runs, %v, want 31", len(runs), err)
	}
	for i, run := range runs {
		if want := night(9 + i); run.ID != want.ID {
			t.Errorf("run %d: got %s, want %s", i, run.ID, want.ID)
		} else if i >= 20 != (len(run.Records) > 0) {
			t.Errorf("records of run %d, %v before now: got %d", i, now.Sub(run.Start), len(run.Records))
		} else if diff := cmp.Diff(want.Summary, run.Summary, equate); diff != "" {
			t.Errorf("summary of run %d (-want +got):\n%s", i, diff)
		}
	}
	if acks, err := s.Acknowledgements(t.Context(), "", ""); len(acks) != 1 || err != nil {
		t.Errorf("acknowledgements after pruning: got %v, %v, want the one", acks, err)
	}
	for table, want := range map[string]int{"documents": 3, "pairs": 1, "samples": 11} {
		var got int
		if err := s.reader.QueryRow("SELECT count(*) FROM " + table).Scan(&got); err != nil || got != want {
			t.Errorf("rows of %s after pruning: got %d, %v, want %d", table, got, err, want)
		}
	}
}

// Runs of canaries go sooner than the nights among them.
func TestPruneCanaries(t *testing.T) {
	s := openStore(t, Options{Retention: 30 * 24 * time.Hour, Continuous: 5 * 24 * time.Hour})
	for n := range 20 {
		run := night(n)
		if n%2 == 0 {
			run.Spec.Kind = probes.Canary
		}
		add(t, s, run)
	}
	pruned, err := s.Prune(t.Context(), night0.Add(19*24*time.Hour))
	if want := (Pruned{Runs: 7}); err != nil || pruned != want { // nights 0, 2 ... 12
		t.Errorf("pruned: got %+v, %v, want %+v", pruned, err, want)
	}
	runs, err := s.History(t.Context(), Query{Kinds: []probes.Kind{probes.Canary}})
	if err != nil || len(runs) != 3 || runs[0].ID != night(14).ID {
		t.Errorf("canaries: got %v, %v, want three from night 14 on", runs, err)
	}
}

func TestPruneBySize(t *testing.T) {
	s := openStore(t, Options{MaxSize: 1 << 20})
	for n := range 12 {
		add(t, s, measured(fmt.Sprintf("big-%02d", n), night0.Add(time.Duration(n)*time.Hour), 200, 100))
	}
	if size, _ := s.Size(); size < 1<<20 {
		t.Fatalf("size before: got %d, want more than the bound", size)
	}
	pruned, err := s.Prune(t.Context(), night0.Add(24*time.Hour))
	if err != nil || pruned.Samples == 0 || pruned.Runs != 0 {
		t.Errorf("pruned: got %+v, %v, want records only", pruned, err)
	}
	size, err := s.Size()
	if err != nil || size > 1<<20 {
		t.Errorf("size after: got %d, %v, want at most %d", size, err, 1<<20)
	}
	runs, err := s.History(t.Context(), Query{Records: true})
	if err != nil || len(runs) != 12 {
		t.Fatalf("history: got %d, %v, want all 12", len(runs), err)
	}
	for i, run := range runs {
		if kept := len(run.Records) > 0; kept != (i >= pruned.Samples) {
			t.Errorf("records of run %d are kept: got %v; the oldest %d were to go", i, kept, pruned.Samples)
		}
	}
	small := openStore(t, Options{Path: filepath.Dir(mustClose(t, s)), MaxSize: 1})
	pruned, err = small.Prune(t.Context(), night0.Add(24*time.Hour))
	if err != nil || pruned.Runs != 12 {
		t.Errorf("pruned to a size that nothing fits in: got %+v, %v, want all 12 runs", pruned, err)
	}
}

// mustClose closes a store that another one takes over, and returns its file.
func mustClose(t *testing.T, s *Store) string {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Path()
}

func TestBackupWhileWriting(t *testing.T) {
	s := openStore(t, Options{})
	for n := range 20 {
		add(t, s, night(n))
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, fileName)
	writing := make(chan error, 1)
	go func() {
		var err error
		for n := 20; n < 40 && err == nil; n++ {
			err = s.Add(context.Background(), night(n))
		}
		writing <- err
	}()
	if err := s.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), copied); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("backup over a file: got error %v, want a refusal", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("files after the backup: got %v, want the backup alone", files)
	}
	other := openStore(t, Options{Path: dir})
	if err := other.Check(t.Context()); err != nil {
		t.Error(err)
	}
	runs, err := other.History(t.Context(), Query{Records: true})
	if err != nil || len(runs) < 20 {
		t.Fatalf("history of the backup: got %d runs, %v, want at least the 20 before it", len(runs), err)
	}
	for n, run := range runs {
		if diff := cmp.Diff(night(n), run, equate); diff != "" {
			t.Errorf("run %d of the backup (-want +got):\n%s", n, diff)
		}
	}
}

// Readers and a second writer work beside the owner; writers that come at once all get
// what they wrote.
func TestManyAtOnce(t *testing.T) {
	s := openStore(t, Options{})
	add(t, s, night(0))
	dir := filepath.Dir(s.Path())
	guest := openStore(t, Options{Path: dir, Access: Write})
	reader := openStore(t, Options{Path: dir, Access: Read})
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			if err := s.Add(context.Background(), night(n)); err != nil {
				t.Error(err)
			}
			if run, err := reader.Run(context.Background(), night(n).ID); err != nil || len(run.Records) != 3 {
				t.Errorf("run %d right after it was added: got %v, %v", n, run, err)
			}
		})
	}
	for n := range 5 {
		wg.Go(func() {
			if err := guest.Acknowledge(context.Background(), probes.Acknowledgement{At: night0, Author: fmt.Sprint(n)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	runs, err := reader.History(t.Context(), Query{})
	if err != nil || len(runs) != 40 {
		t.Errorf("history: got %d runs, %v, want 40", len(runs), err)
	}
	if acks, err := reader.Acknowledgements(t.Context(), "", ""); err != nil || len(acks) != 5 {
		t.Errorf("acknowledgements: got %d, %v, want 5", len(acks), err)
	}
	if err := reader.Add(t.Context(), night(50)); !errors.Is(err, ErrReadOnly) {
		t.Errorf("add to a store that was opened to be read: got %v, want ErrReadOnly", err)
	}
}

// One bad write of a shared transaction fails alone.
func TestSharedTransactionFailsAlone(t *testing.T) {
	s := openStore(t, Options{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	job := func(ctx context.Context, key string) *writeJob {
		return &writeJob{done: make(chan error, 1), apply: func(tx *sql.Tx) error { return putStates(ctx, tx, []State{{Key: key}}) }}
	}
	jobs := []*writeJob{job(t.Context(), "a"), job(cancelled, "b"), job(t.Context(), "c")}
	s.commitAll(cancelled, jobs)
	for i, want := range []error{nil, context.Canceled, nil} {
		if err := <-jobs[i].done; !errors.Is(err, want) {
			t.Errorf("write %d: got %v, want %v", i, err, want)
		}
	}
	states, err := s.States(t.Context(), "")
	if err != nil || len(states) != 2 || states[0].Key != "a" || states[1].Key != "c" {
		t.Errorf("states: got %v, %v, want a and c", states, err)
	}
}

func TestNothingSecretIsStored(t *testing.T) {
	s := openStore(t, Options{})
	run := night(0)
	run.Target.BaseURL = "http://user:hunter2@host/v1?key=hunter2#hunter2"
	run.Target.MetricsURL = "http://user:hunter2@host:9/metrics?key=hunter2"
	run.Target.Connection = probes.Connection{
		APIKey: "hunter2", APIKeyFile: "/run/hunter2", Headers: map[string]probes.Secret{"X-Key": "hunter2"}, Proxy: "http://user:hunter2@proxy:1",
	}
	run.Spec.Expect = probes.Expect{Prompt: "hunter2?", Equals: "hunter2", Contains: "hunter2", SHA256: "hunter2"}
	run.Spec.Workload.URL = "https://data/x?token=hunter2"
	run.Spec.Workload.Sampling.ExtraBody = map[string]any{"key": "hunter2"}
	run.Records[0].Text, run.Records[0].FinishReason = "hunter2", "findme"
	inner := *run
	inner.ID, inner.Parts = "part", nil
	run.Parts = []probes.Part{{Role: "repeat 1", Run: &inner}}
	run.Steps = []probes.Step{{Records: inner.Records}}
	run.Comparison = &probes.Comparison{Reference: run.Target}
	// Not compressed, the words would show.
	p, err := takeApart(run)
	if err != nil {
		t.Fatal(err)
	}
	text := string(p.target) + string(p.spec) + string(p.facts) + string(p.body) + string(encodeSamples(p.records))
	if strings.Contains(text, "hunter2") {
		t.Errorf("what is stored holds a secret:\n%s", text)
	}
	for _, want := range []string{"http://host/v1", "http://host:9/metrics", "http://proxy:1", "findme"} {
		if !strings.Contains(text, want) {
			t.Errorf("what is stored lacks %q, so that this test proves nothing:\n%s", want, text)
		}
	}
	add(t, s, run)
}
