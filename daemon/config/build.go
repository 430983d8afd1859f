package config

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// builder turns a document into the vocabulary, and writes what it decides back
// into the document, so that the printed configuration is the effective one.
type builder struct {
	*loader
	doc *document
	cfg *Config

	workloads map[string]probes.Workload
	specs     map[string]probes.Spec
	budgets   map[string]*budget // by target
}

func (b *builder) build() {
	b.daemon()
	b.environments()
	b.workloads = map[string]probes.Workload{}
	for _, name := range sortedKeys(b.doc.Workloads) {
		w := b.doc.Workloads[name]
		b.workloads[name] = b.workload(name, &w)
		b.doc.Workloads[name] = w
	}
	b.specs = map[string]probes.Spec{}
	for _, name := range sortedKeys(b.doc.Probes) {
		p := b.doc.Probes[name]
		b.specs[name] = b.probe(name, &p)
		b.doc.Probes[name] = p
		b.cfg.specs = append(b.cfg.specs, b.specs[name])
	}
	b.budgets = map[string]*budget{}
	for _, name := range sortedKeys(b.doc.Targets) {
		t := b.doc.Targets[name]
		b.target(name, &t)
		b.doc.Targets[name] = t
	}
	for _, name := range sortedKeys(b.doc.Comparisons) {
		c := b.doc.Comparisons[name]
		b.comparison(name, &c)
		b.doc.Comparisons[name] = c
	}
	b.checkBudgets()
}

func sortedKeys[M ~map[string]V, V any](m M) []string { return slices.Sorted(maps.Keys(m)) }

func (b *builder) daemon() {
	d, c := b.doc, b.cfg
	c.Web, c.Log, c.Metrics, c.Results, c.Storage = d.Web, d.Log, d.Metrics, d.Results, d.Storage
	c.ShutdownGrace, c.Pause, c.MaxConcurrentRuns = d.ShutdownGrace, d.Pause, d.MaxConcurrentRuns
	c.FalseAlarms = d.Regression.FalseAlarms
	if err := checkListenAddress(d.Web.ListenAddress); err != nil {
		b.report("web.listen_address", "%v", err)
	}
	if d.Web.ExternalURL != "" {
		if _, err := parseURL(d.Web.ExternalURL); err != nil {
			b.report("web.external_url", "%v", err)
		}
	}
	b.readable("web.config_file", d.Web.ConfigFile)
	b.embedded()
}

// classes are the limits of an environment that writes none: production is
// asked as little as a watch on it needs.
var classes = map[probes.Environment]Environment{
	probes.Production: {
		Kinds: []string{string(probes.Canary)}, MaxInFlight: 1, MaxRate: 1,
		MaxInputTokens: 8_000, MaxOutputTokens: 256, TokensPerDay: 5_000_000, Allow: []string{},
		StopWhen: StopWhen{QueueAbove: 10, ErrorRatioAbove: 0.2},
	},
	probes.Staging:     {Kinds: words(probes.Kinds), MaxInFlight: 512, Allow: []string{}},
	probes.Development: {Kinds: words(probes.Kinds), Allow: enums["allow"]},
}

func (b *builder) environments() {
	all := map[string]Environment{}
	for _, class := range probes.Environments {
		all[string(class)] = Environment{}
	}
	maps.Copy(all, b.doc.Environments)
	for _, name := range sortedKeys(all) {
		e, path := all[name], join("environments", name)
		_, builtin := classes[probes.Environment(name)]
		switch {
		case builtin && e.Class == "":
			e.Class = probes.Environment(name)
		case builtin && string(e.Class) != name:
			b.report(path+".class", "must be %s: the environment of that name keeps its class", name)
		case e.Class == "" && !b.set(path+".class"):
			b.report(path, "needs a class: one of %s", strings.Join(words(probes.Environments), ", "))
		}
		base := classes[e.Class]
		e.MaxInFlight, e.MaxRate = or(e.MaxInFlight, base.MaxInFlight), or(e.MaxRate, base.MaxRate)
		e.MaxInputTokens = or(e.MaxInputTokens, base.MaxInputTokens)
		e.MaxOutputTokens = or(e.MaxOutputTokens, base.MaxOutputTokens)
		e.TokensPerDay = or(e.TokensPerDay, base.TokensPerDay)
		e.StopWhen.QueueAbove = or(e.StopWhen.QueueAbove, base.StopWhen.QueueAbove)
		e.StopWhen.ErrorRatioAbove = or(e.StopWhen.ErrorRatioAbove, base.StopWhen.ErrorRatioAbove)
		if math.IsInf(e.MaxRate, 1) {
			e.MaxRate = 0
		}
		if e.Kinds == nil {
			e.Kinds = base.Kinds
		}
		if e.Allow == nil {
			e.Allow = base.Allow
		}
		all[name] = e
	}
	b.doc.Environments, b.cfg.Environments = all, all
}

// or is the value, or what stands for it when it is not set.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (b *builder) workload(name string, w *workload) probes.Workload {
	path := join("workloads", name)
	b.dataset(path, w)
	out := probes.Workload{
		Name: name, Dataset: w.Dataset, Path: w.Path, InputTokens: w.InputTokens, OutputTokens: w.OutputTokens,
		RangeRatio: w.RangeRatio, FixedOutputTokens: w.FixedOutputTokens, ContextTokens: w.ContextTokens,
		Tokenizer: w.Tokenizer, ApplyChatTemplate: w.ApplyChatTemplate, VocabSize: w.VocabSize, TokenIDs: w.TokenIDs, Cache: probes.CacheClass(w.Cache), Seed: w.Seed,
		Sampling: probes.Sampling{
			Temperature: w.Temperature, IgnoreEOS: w.IgnoreEOS, Stream: w.Stream, ExtraBody: w.ExtraBody,
		},
	}
	w.shape(&out)
	if w.TopP > 0 {
		out.Sampling.TopP = probes.Known(w.TopP)
	}
	before := len(b.problems)
	if w.TopP > 1 {
		b.report(path+".top_p", "must be at most 1, got %v", w.TopP)
	}
	if w.RangeRatio > 1 {
		b.report(path+".range_ratio", "must be at most 1, got %v", w.RangeRatio)
	}
	if _, ok := w.ExtraBody["stream"]; ok {
		b.report(path+".extra_body", "must not hold stream: set %s.stream", path)
	}
	if w.URL == "" {
		b.file(path+".path", w)
	}
	if len(b.problems) == before && b.checks.Workload != nil {
		b.refused(path, path, b.checks.Workload(out))
	}
	return out
}

// probe decides what the probe's keys leave open.
func (b *builder) probe(name string, p *probe) probes.Spec {
	path := join("probes", name)
	b.required(path, "kind", p.Kind != "")
	if b.required(path, "workload", p.Workload != "") && p.Workload != "" {
		if _, ok := b.workloads[p.Workload]; !ok {
			b.report(path+".workload", "there is no workload %q%s", p.Workload, DidYouMean(p.Workload, sortedKeys(b.workloads)))
		}
	}
	b.kindKeys(path, p)
	canary := p.Kind == string(probes.Canary)
	if canary && !b.set(path+".num_prompts") && p.Duration == 0 {
		p.NumPrompts = 1
	}
	sweep := p.Kind == string(probes.Sweep)
	if p.Kind != "" && !sweep && p.Kind != string(probes.Batch) && !b.replays(p) && p.NumPrompts == 0 && p.Duration == 0 && !b.set(path+".num_prompts") && !b.set(path+".duration") {
		b.report(path, "needs num_prompts or duration")
	}
	if !canary && !sweep && !b.set(path+".warmup") {
		p.Warmup.Requests = max(1, p.BatchSize)
	}
	b.timeouts(path, p, canary)
	b.staleness(p, canary)
	p.FailureThreshold = or(p.FailureThreshold, failureThreshold(canary))
	arrivals, requests := b.load(path, p, canary)
	spec := probes.Spec{
		Probe: name, Kind: probes.Kind(p.Kind), Workload: b.workloads[p.Workload], Arrivals: arrivals,
		Requests: requests, Duration: p.Duration, Warmup: probes.Warmup(p.Warmup), Schedule: b.schedule(path, p),
		SLOs: b.slos(path, p), Limits: b.limits(path, p), Window: probes.Window(p.Window),
		QueueLimits: b.queueLimits(path, p), FailureThreshold: p.FailureThreshold,
		StaleAfter: p.StaleAfter, KeepText: p.KeepText, FlushCache: p.FlushCache, Profile: b.profile(path, p),
		Repeats: p.Repeats, StartConcurrency: p.StartConcurrency, OfflineResult: p.OfflineResult,
		Expect: b.expectation(path, p), Regression: b.regression(path, p),
	}
	b.sweep(path, p, &spec)
	return spec
}

// replays reports whether the trace itself says how much is asked.
func (b *builder) replays(p *probe) bool {
	return p.Kind == string(probes.Replay) || p.Arrivals == string(probes.FromTrace)
}

// required reports a key that was not written. It is true when a value can be looked at.
func (b *builder) required(path, key string, known bool) bool {
	if !known && !b.set(path+"."+key) {
		b.report(path, "needs %s", key)
	}
	return known
}

// arrivals picks the process that the written keys speak of, and reports those
// that contradict it.
func (b *builder) arrivals(path string, p *probe, canary bool) probes.Arrivals {
	written := func(key string) bool { return b.set(path + "." + key) }
	if p.Arrivals == "" && !written("arrivals") {
		b.pickProcess(path, p, canary, written)
	}
	a := probes.Arrivals{Process: probes.ArrivalProcess(p.Arrivals), Rate: p.RequestRate, MaxConcurrency: p.MaxConcurrency, StartTogether: p.StartTogether, Ramp: p.Ramp}
	before := len(b.problems)
	b.arrivalRate(path, p, &a, written)
	if p.Kind == string(probes.Replay) && a.Process != probes.FromTrace && a.Process != "" {
		b.report(path+".arrivals", "must be trace for a replay, or not written; use kind load for other times")
	}
	b.arrivalShape(path, p, &a, written)
	if len(b.problems) == before && a.Process != "" && b.checks.Arrivals != nil && b.sound(path) {
		b.refused(path, path, b.checks.Arrivals(a))
	}
	return a
}

// pickProcess fills in the process that the other keys imply.
func (b *builder) pickProcess(path string, p *probe, canary bool, written func(string) bool) {
	switch {
	case p.Kind == string(probes.Replay):
		p.Arrivals = string(probes.FromTrace)
	case written("burstiness") || written("cv"):
		p.Arrivals = string(probes.Gamma)
	case p.Kind == string(probes.Sweep):
		p.Arrivals = string(probes.Poisson)
	case math.IsInf(p.RequestRate, 1):
		p.Arrivals = string(probes.Burst)
	case written("request_rate"):
		p.Arrivals = string(probes.Poisson)
	case written("max_concurrency") || canary:
		p.Arrivals, p.MaxConcurrency = string(probes.ClosedLoop), max(1, p.MaxConcurrency)
	case p.Kind != "":
		b.report(path, "needs request_rate or max_concurrency")
	}
}

// arrivalRate checks what each process needs to know about its rate.
func (b *builder) arrivalRate(path string, p *probe, a *probes.Arrivals, written func(string) bool) {
	rated := written("request_rate")
	switch a.Process {
	case probes.Burst:
		if rated && p.RequestRate > 0 && !math.IsInf(p.RequestRate, 1) {
			b.report(path+".request_rate", "must be inf or not written: burst sends everything at once")
		}
		if p.NumPrompts == 0 && !written("num_prompts") {
			b.report(path, "needs num_prompts: burst sends everything at once")
		}
		a.Rate = math.Inf(1)
	case probes.FromTrace:
		if rated {
			b.report(path+".request_rate", "must not be written: a trace has its own times, which mooncake_slowdown_factor of the workload stretches")
		}
		w, known := b.workloads[p.Workload]
		if has := b.checks.HasTimes; known && has != nil && w.Dataset != "" && !has(w.Dataset) {
			b.report(path+".workload", "dataset %s of workload %s has no times to replay, use trace, mooncake, burstgpt or azure", w.Dataset, p.Workload)
		}
	case probes.ClosedLoop:
		if rated {
			b.report(path+".request_rate", "must not be written: a closed loop has no rate of its own")
		}
		b.required(path, "max_concurrency", p.MaxConcurrency > 0)
	case probes.Constant, probes.Poisson, probes.Gamma:
		if p.Kind == string(probes.Sweep) {
			a.Rate = highestRate(p)
			return
		}
		if math.IsInf(p.RequestRate, 1) {
			b.report(path+".request_rate", "must be finite for %s arrivals", a.Process)
		}
		b.required(path, "request_rate", p.RequestRate > 0)
	}
}

// arrivalShape reads the two keys that shape a gamma process.
func (b *builder) arrivalShape(path string, p *probe, a *probes.Arrivals, written func(string) bool) {
	shaped := written("burstiness") || written("cv")
	switch {
	case shaped && a.Process != probes.Gamma && a.Process != "":
		b.report(path, "burstiness and cv belong to gamma arrivals, not to %s", a.Process)
	case written("burstiness") && written("cv"):
		b.report(path+".cv", "must not be written beside burstiness: both say the same")
	case a.Process == probes.Gamma && !shaped:
		b.report(path, "needs burstiness or cv for gamma arrivals")
	case p.Burstiness > 0:
		a.CV = probes.BurstinessToCV(p.Burstiness)
	case p.CV > 0:
		a.CV = p.CV
	}
}

// sound reports whether nothing at or below the path has been reported, so that
// a stage is not asked about values that are missing because they were wrong.
func (b *builder) sound(path string) bool {
	return !slices.ContainsFunc(b.problems, func(p Problem) bool {
		return p.Path == path || strings.HasPrefix(p.Path, path+".") || strings.HasPrefix(p.Path, path+"[")
	})
}

func (b *builder) schedule(path string, p *probe) probes.Schedule {
	s := probes.Schedule{Every: p.Every, Cron: p.Schedule, Timezone: p.Timezone, AllowParallel: p.AllowParallel}
	switch {
	case b.set(path+".every") && b.set(path+".schedule"):
		b.report(path+".schedule", "must not be written beside every")
	case s.Timezone != "" && !b.set(path+".schedule"):
		b.report(path+".timezone", "needs a schedule: every has no time zone")
	case s.Every == 0 && s.Cron == "": // only run by hand
	case b.checks.Schedule != nil:
		key := map[bool]string{true: ".schedule", false: ".every"}[s.Cron != ""]
		b.refused(path, path+key, b.checks.Schedule(s))
	}
	return s
}

// Idle is longer than FirstToken, because the wait for the first token is
// silence too and would otherwise never be told from a stall.
var (
	canaryTimeouts = timeouts{Connect: 5 * time.Second, FirstToken: 30 * time.Second, Idle: time.Minute, Total: 2 * time.Minute}
	batchTimeouts  = timeouts{Connect: 10 * time.Second, FirstToken: 5 * time.Minute, Idle: 6 * time.Minute, Total: 30 * time.Minute}
)

func (b *builder) timeouts(path string, p *probe, canary bool) {
	if canary {
		p.Timeouts = b.overlay(canaryTimeouts, p.Timeouts, path+".timeouts")
	} else {
		p.Timeouts = b.overlay(batchTimeouts, p.Timeouts, path+".timeouts")
	}
}

// overlay takes from over what was written there, 0 for no bound included.
func (b *builder) overlay(base, over timeouts, path string) timeouts {
	for _, t := range []struct {
		key  string
		from time.Duration
		to   *time.Duration
	}{
		{"connect", over.Connect, &base.Connect}, {"first_token", over.FirstToken, &base.FirstToken},
		{"idle", over.Idle, &base.Idle}, {"total", over.Total, &base.Total},
	} {
		if b.set(path + "." + t.key) {
			*t.to = t.from
		}
	}
	return base
}

// staleness defaults to three intervals and the time a run may take.
func (b *builder) staleness(p *probe, canary bool) {
	if p.StaleAfter > 0 {
		return
	}
	least := time.Hour
	if canary {
		least = 15 * time.Minute
	}
	p.StaleAfter = max(least, 3*interval(p)+max(p.Duration, p.Timeouts.Total))
}

// interval is the longest time between two starts: of a cron expression only
// which of its day fields are restricted is looked at.
func interval(p *probe) time.Duration {
	f := strings.Fields(p.Schedule)
	switch {
	case len(f) != 5:
		return p.Every
	case f[3] != "*":
		return 366 * day
	case f[2] != "*":
		return 31 * day
	case f[4] != "*":
		return 7 * day
	}
	return day
}

func (b *builder) slos(path string, p *probe) []probes.SLO {
	var out []probes.SLO
	if len(p.SLOs) > 8 {
		b.report(path+".slos", "holds %d promises, more than 8", len(p.SLOs))
	}
	for _, name := range sortedKeys(p.SLOs) {
		s, at := p.SLOs[name], path+".slos["+name+"]"
		b.required(at, "objective", s.Objective > 0)
		if s.Objective >= 1 {
			b.report(at+".objective", "must be below 100%%: there is no error budget otherwise")
		}
		bounds := map[probes.Signal]time.Duration{}
		for signal, d := range map[probes.Signal]time.Duration{probes.TTFT: s.TTFT, probes.TPOT: s.TPOT, probes.E2E: s.E2E} {
			if d > 0 {
				bounds[signal] = d
			}
		}
		out = append(out, probes.SLO{Name: name, Objective: s.Objective, Window: s.Window, Bounds: bounds})
	}
	return out
}
