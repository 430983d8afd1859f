package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/inferbeat/inferbeat/daemon/guard"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/fetch"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/verdict"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// Runner carries out runs. It keeps one client a pair, so that connections and
// what was learnt about the tokenizer outlive a run. Runs may go on at once.
type Runner struct {
	// UserAgent says in every request what it is.
	UserAgent string
	// Dial replaces the network; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	clients map[pairKey]*pairClient
	present map[string][]*presence // runs that are going on, by target
	// earlier are the capacities that an earlier process has found.
	earlier map[pairKey]probes.Optional[float64]
	files   workload.Files
	fetched fetch.Files

	tokenizers tokenizers
}

type pairClient struct {
	target       probes.Target
	backend      *backend.Client
	calibrations *workload.Calibrations
	observer     *observer
	// capacity is what the pair's last sweep found; its next one starts from there.
	capacity probes.Optional[float64]
}

func (c *pairClient) close() {
	c.backend.Close()
	c.observer.client.Close()
}

// presence notices whether a run had its target to itself.
type presence struct{ shared bool }

// enter announces a run on a target; leave ends it and says whether another run
// was there at any time between.
func (r *Runner) enter(target string) (leave func() (shared bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.present == nil {
		r.present = map[string][]*presence{}
	}
	p := &presence{shared: len(r.present[target]) > 0}
	for _, other := range r.present[target] {
		other.shared = true
	}
	r.present[target] = append(r.present[target], p)
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.present[target] = slices.DeleteFunc(r.present[target], func(other *presence) bool { return other == p })
		if len(r.present[target]) == 0 {
			delete(r.present, target)
		}
		return p.shared
	}
}

// Hooks let the caller watch a run. Each may be nil.
type Hooks struct {
	// Started is called once the workload is ready and the clock runs.
	Started func(runID string)
	// Model is called when a target without a configured model has named one.
	Model func(model string)
	// Record is called as each request ends, warm-up included; not at once.
	Record func(runID string, record *probes.Record)
	// Step is called as each step of a sweep ends.
	Step func(runID string, step *probes.Step)
	// Odd asks whether a load that has ended well, and whose spec has its oddities
	// confirmed, should be run again.
	Odd func(first *probes.Run) bool
	// watch holds the run against its environment's limits.
	watch *guard.Watch
	// Panicked is called in the panicking goroutine, for its stack.
	Panicked func(cause any)
}

// Run executes one probe on one target. It always returns a run: what goes
// wrong, a panic included, is in its Result and Error.
func (r *Runner) Run(ctx context.Context, target probes.Target, spec probes.Spec, progress *loadgen.Progress, hooks Hooks) *probes.Run {
	run := &probes.Run{ID: newRunID(), Target: target, Spec: spec, Start: time.Now()}
	if spec.Shard.Split() {
		run.ID = shardRunID(&spec)
	}
	contained(ctx, run, hooks, func() error {
		return guarded(ctx, run, hooks, func(ctx context.Context, hooks Hooks) error { return r.carryOut(ctx, run, progress, hooks) })
	})
	return run
}

// contained does the work of a run. What goes wrong, a panic included, becomes the
// run's result.
func contained(ctx context.Context, run *probes.Run, hooks Hooks, work func() error) {
	defer func() {
		if cause := recover(); cause != nil {
			run.Result, run.Error = probes.RunFailed, fmt.Sprintf("panic in the probe: %v", cause)
			run.Verdict = probes.Verdict{State: probes.Unknown, Reasons: []probes.Reason{{Code: "panic", Text: run.Error}}}
			run.Validity = probes.Validity{State: probes.Invalid, Reasons: run.Verdict.Reasons}
			run.End = time.Now()
			if hooks.Panicked != nil {
				hooks.Panicked(cause)
			}
		}
	}()
	if err := work(); err != nil {
		fail(ctx, run, err)
	}
}

// carryOut fills a run in, in one piece or in the parts that its spec asks for.
func (r *Runner) carryOut(ctx context.Context, run *probes.Run, progress *loadgen.Progress, hooks Hooks) error {
	if err := CheckShard(run.Spec); err != nil {
		return err
	}
	if path := run.Spec.OfflineResult; path != "" {
		if _, err := readOffline(path); err != nil {
			return err
		}
	}
	whole := &parts{Runner: r, run: run, progress: progress, hooks: hooks}
	switch {
	case run.Spec.Kind == probes.Peak:
		return whole.peak(ctx)
	case run.Spec.Repeats > 1:
		return whole.repeat(ctx, run.Spec.Repeats)
	}
	if err := r.execute(ctx, run, progress, hooks, nil); err != nil {
		return err
	}
	if run.Spec.Regression.Confirm && hooks.Odd != nil && run.Result == probes.RunSuccess && hooks.Odd(run) {
		return whole.confirm(ctx)
	}
	return nil
}

// execute fills the run in. An error means that it could not be carried out; a
// run whose requests all failed is no error, it is a measurement. with is nil unless
// the run is one of a pair.
func (r *Runner) execute(ctx context.Context, run *probes.Run, progress *loadgen.Progress, hooks Hooks, with *common) error {
	client, err := r.client(run.Target, run.Spec.Probe)
	if err != nil {
		return err
	}
	run.Facts = client.observer.facts // should there be no look at the server this time
	own, err := r.ownTokenizer(run)
	if err != nil {
		return err
	}
	if run.Spec.Kind == probes.Sweep {
		return r.sweep(ctx, client, run, own, progress, hooks)
	}
	source, err := r.prepare(ctx, client, run, own, hooks, with)
	if err != nil {
		return err
	}
	defer source.Close()
	seen := client.observer.observe(ctx, run, hooks)
	defer seen.close()
	leave := r.enter(run.Target.Name)
	defer leave()
	process := startProcessMeter()
	clock := clockOf(&run.Spec)
	run.Start = clock.Start
	part := split{Shard: run.Spec.Shard}
	warmUp(ctx, clock, run, &part, client.backend, source, hooks)
	profiling, err := profile(ctx, client.backend, run)
	if err != nil {
		return err
	}
	defer profiling.stop(ctx) // should anything below panic
	if err := part.await(ctx, clock); err != nil {
		return err
	}
	if part.Split() {
		process = startProcessMeter() // the wait would dilute the shares
	}
	seen.measuring(ctx)
	start, err := part.start(clock)
	if err != nil {
		return err
	}
	load := part.load(measuredLoad(run.Spec, client.backend, prepared(source.Next, &run.Spec, own != nil), start))
	load.Progress = progress
	stats := loadgen.Run(ctx, clock, load, collect(run, &run.Records, hooks))
	run.End = run.Start.Add(clock.Now())
	used := process.stop()
	evidence := verdict.Evidence{Concurrent: leave(), Stopped: hooks.watch.Reason()}
	server := seen.ended(ctx, &evidence)
	evidence.ProfilerLeftOn = profiling.stop(ctx)
	if err := errors.Join(stats.Err, source.Err(), part.err()); err != nil {
		return fmt.Errorf("read workload %s: %w", run.Spec.Workload.Name, err)
	}
	own.retokenize(run)
	run.Summary.Answer = ask(ctx, client.backend, clock, run)
	judge(run, stats, source, server, used, evidence)
	return nil
}

// warmUp says that the run has started, and sends what is not measured.
func warmUp(ctx context.Context, clock probes.Clock, run *probes.Run, part *split, b loadgen.Backend, source *workload.Source, hooks Hooks) {
	if hooks.Started != nil {
		hooks.Started(run.ID)
	}
	if part.warms(run.Spec.Warmup) {
		loadgen.Run(ctx, clock, part.load(warmupLoad(run.Spec, b, source.NextWarmup, clock.Now())), collect(run, &run.Warmup, hooks))
	}
}

// collect keeps the records of a run, and shows them.
func collect(run *probes.Run, into *[]probes.Record, hooks Hooks) func(probes.Record) {
	return func(record probes.Record) {
		*into = append(*into, record)
		if hooks.Record != nil {
			if !run.Spec.KeepText {
				record.Text = "" // it was kept to be counted, not to be shown
			}
			hooks.Record(run.ID, &record)
		}
	}
}

// ownTokenizer is nil for a workload whose texts the target counts, or nobody.
func (r *Runner) ownTokenizer(run *probes.Run) (*local, error) {
	if !run.Spec.Workload.LocalTokenizer() {
		return nil, nil
	}
	return r.tokenizers.openLocal(&run.Spec.Workload, run.Target.Backend)
}

// prepare does everything that talks to the target before the clock starts.
func (r *Runner) prepare(ctx context.Context, client *pairClient, run *probes.Run, own *local, hooks Hooks, with *common) (*workload.Source, error) {
	calls := newSetup(client.backend, run.Target.Timeouts)
	if run.Target.Model == "" {
		// A target that is down is a measurement too: its requests will say how.
		if model, err := calls.Model(ctx); err == nil {
			run.Target.Model = model
			if hooks.Model != nil {
				hooks.Model(model)
			}
		}
	}
	spec := &run.Spec
	count, _ := arrival.Planned(spec.Arrivals, spec.Requests, spec.Duration, spec.Workload.Seed)
	warmup, _ := arrival.Planned(spec.Arrivals, spec.Warmup.Requests, spec.Warmup.Duration, spec.Workload.Seed)
	options := workload.Options{
		Tokenizer: calls, Salt: run.ID, RunID: run.ID, Count: count, Warmup: warmup,
		AcceptsTokenIDs: backend.AcceptsTokenIDs(run.Target.Backend), AcceptsMessages: backend.AcceptsMessages(run.Target.Backend),
		AcceptsImages: backend.AcceptsImages(run.Target.Backend), Timed: spec.Arrivals.Process == probes.FromTrace,
		Cache: client.calibrations, Files: &r.files,
	}
	if own != nil {
		options.Tokenizer = own
		if spec.Workload.ApplyChatTemplate {
			options.Render = own.template.Render
		}
	}
	with.share(&options, &spec.Workload)
	if spec.Workload.Cache == probes.CacheWarm {
		options.Salt = ""
	}
	asked := spec.Workload
	if asked.URL != "" {
		path, err := r.fetched.Get(ctx, asked.URL, asked.SHA256, asked.Path)
		if err != nil {
			return nil, err
		}
		asked.Path = path
	}
	source, err := workload.Open(ctx, asked, options)
	if err != nil {
		return nil, err
	}
	if spec.FlushCache && spec.Shard.Index == 0 { // once for all shards
		if err := calls.FlushCache(ctx); err != nil {
			source.Close()
			return nil, fmt.Errorf("flush cache of %s: %w", run.Target.Name, err)
		}
	}
	return source, nil
}

// measuredLoad is the load whose records count.
func measuredLoad(spec probes.Spec, b loadgen.Backend, next func() (*probes.Request, bool), start time.Duration) loadgen.Load {
	return loadgen.Load{
		Backend: b, Next: next, Start: start,
		Offsets: arrival.Offsets(spec.Arrivals, spec.Requests, spec.Workload.Seed), Timed: spec.Arrivals.Process == probes.FromTrace,
		Concurrency: spec.Arrivals.MaxConcurrency, SlotGap: arrival.SlotGap(spec.Arrivals), Gap: arrival.Gap(spec.Arrivals), Count: spec.Requests, Duration: spec.Duration,
	}
}

// warmupSeedShift makes the warm-up's gaps others than the measurement's first ones.
const warmupSeedShift = 1 << 40

// warmupLoad has the shape of the measured load. That of a trace is known only once
// it is sent; its warm-up goes one by one.
func warmupLoad(spec probes.Spec, b loadgen.Backend, next func() (*probes.Request, bool), start time.Duration) loadgen.Load {
	return loadgen.Load{
		Backend: b, Next: next, Start: start,
		Offsets:     arrival.Offsets(spec.Arrivals, spec.Warmup.Requests, spec.Workload.Seed+warmupSeedShift),
		Concurrency: spec.Arrivals.MaxConcurrency, SlotGap: arrival.SlotGap(spec.Arrivals), Gap: arrival.Gap(spec.Arrivals), Count: spec.Warmup.Requests, Duration: spec.Warmup.Duration,
	}
}

// prepared gives every request of next what the spec says of all of them.
func prepared(next func() (*probes.Request, bool), spec *probes.Spec, keepText bool) func() (*probes.Request, bool) {
	return func() (*probes.Request, bool) {
		request, ok := next()
		if ok {
			request.KeepText = spec.KeepText || keepText
			request.Definitions = spec.Definitions
		}
		return request, ok
	}
}

func (r *Runner) options() backend.Options {
	return backend.Options{DialContext: r.Dial, UserAgent: r.UserAgent}
}

// client returns the pair's client, a new one when the target has changed.
func (r *Runner) client(target probes.Target, probe string) (*pairClient, error) {
	key := pairKey{target.Name, probe}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.clients[key]
	if old != nil && reflect.DeepEqual(old.target, target) {
		return old, nil
	}
	options := r.options()
	b, err := backend.New(target, options)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", target.Name, err)
	}
	o, err := newObserver(target, options)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", target.Name, err)
	}
	if old != nil {
		old.close()
	}
	if r.clients == nil {
		r.clients = map[pairKey]*pairClient{}
	}
	c := &pairClient{target: target, backend: b, calibrations: &workload.Calibrations{}, observer: o}
	if old == nil {
		c.capacity = r.earlier[key]
	}
	r.clients[key] = c
	return c, nil
}

// startAt lets the first sweep of pairs begin where the last one of an earlier process
// ended.
func (r *Runner) startAt(capacities map[pairKey]probes.Optional[float64]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.earlier == nil {
		r.earlier = map[pairKey]probes.Optional[float64]{}
	}
	maps.Copy(r.earlier, capacities)
}

// forget drops the clients of pairs that are no longer configured.
func (r *Runner) forget(configured map[pairKey]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, c := range r.clients {
		if !configured[key] {
			c.close()
			delete(r.clients, key)
		}
	}
}

// Close closes idle connections. No run may be going on.
func (r *Runner) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		c.close()
	}
	r.clients = nil
}

func newRunID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(fmt.Sprintf("read random bytes: %v", err)) // the system has no entropy source
	}
	return id.String()
}
