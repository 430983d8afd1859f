package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// A comparison of a workload is as small as a canary: the limits of production let it
// pass.
const comparedPrompts = 20

// comparedKinds are the kinds whose load can be given to two targets.
var comparedKinds = []probes.Kind{probes.Canary, probes.Load, probes.Replay}

// comparison decides what the keys leave open and holds the load against the limits of
// both environments: what production does not allow, staging cannot ask of it either.
func (b *builder) comparison(name string, c *comparison) {
	path := "comparisons[" + name + "]"
	if _, taken := b.doc.Probes[name]; taken {
		b.report(path, "is also the name of a probe: their results could not be told apart")
	}
	reference, sideA, knownA := b.sideOf(path+".a", c.A)
	candidate, sideB, knownB := b.sideOf(path+".b", c.B)
	b.required(path, "a", c.A != "")
	b.required(path, "b", c.B != "")
	if c.A != "" && c.A == c.B {
		b.report(path+".b", "is also a: a target is as good as itself")
	}
	environments := []Environment{b.environmentOf(c.A), b.environmentOf(c.B)}
	schedule := probe{Every: c.Every, Schedule: c.Schedule, Timezone: c.Timezone}
	plan := b.schedule(path, &schedule)
	spec, load, ok := b.comparedLoad(path, c, environments)
	if c.StaleAfter == 0 {
		c.StaleAfter = max(day, 3*interval(&schedule))
	}
	if !ok || !knownA || !knownB {
		return
	}
	out := plannedComparison{Comparison{Reference: reference, Candidate: candidate, Spec: spec}, [2]side{sideA, sideB}}
	for target, name := range map[*probes.Target]string{&out.Reference: b.written(c.A), &out.Candidate: b.written(c.B)} {
		target.Timeouts = probes.Timeouts(b.overlay(load.Timeouts, b.doc.Targets[name].Timeouts, "targets["+name+"].timeouts"))
	}
	out.Spec.Probe, out.Spec.Kind, out.Spec.Schedule, out.Spec.StaleAfter = name, probes.Paired, plan, c.StaleAfter
	out.Spec.Pairs, out.Spec.Margins, out.Spec.Repeats = c.Pairs, marginsOf(c), 1
	out.Spec.Gate = b.gate(path, c)
	side := spec
	side.Repeats = c.Pairs
	out.ReferenceBudget, out.CandidateBudget = budgetOf(side, environments[0]), budgetOf(side, environments[1])
	b.cfg.comparisons = append(b.cfg.comparisons, out)
	if check := b.checks.Comparable; check != nil && b.sound(path) {
		b.refused(path, path, check(addressed(out.Reference, c.A), addressed(out.Candidate, c.B), out.Spec))
	}
	b.checkSide(path+".a", b.written(c.A), c, spec, interval(&schedule))
	b.checkSide(path+".b", b.written(c.B), c, spec, interval(&schedule))
}

// gate is how a comparison is judged; each of the configuration is.
func (b *builder) gate(path string, c *comparison) *probes.Gate {
	gate := &probes.Gate{Vary: c.Vary}
	for _, metric := range c.Primary {
		gate.Primary = append(gate.Primary, probes.RegressionMetric(metric))
	}
	for _, name := range c.Vary {
		if known := b.checks.Variables; known != nil && !slices.Contains(known, name) {
			b.report(path+".vary", "there is no controlled variable %q%s; they are %s", name, DidYouMean(name, known), strings.Join(known, ", "))
		}
	}
	return gate
}

func marginsOf(c *comparison) map[probes.RegressionMetric]float64 {
	if len(c.Margins) == 0 {
		return nil
	}
	out := map[probes.RegressionMetric]float64{}
	for metric, margin := range c.Margins {
		out[probes.RegressionMetric(metric)] = margin
	}
	return out
}

// sideOf finds a target of the configuration, or the entry whose discovery will bring it.
func (b *builder) sideOf(path, name string) (probes.Target, side, bool) {
	i := slices.IndexFunc(b.cfg.targets, func(t probes.Target) bool { return t.Name == name })
	if i >= 0 {
		return b.cfg.targets[i], side{}, true
	}
	if s, ok := b.entryOf(name); ok {
		i := slices.IndexFunc(b.cfg.entries, func(e Entry) bool { return e.Name == s.entry })
		return b.cfg.entries[i].Target, s, true
	}
	if name != "" {
		b.report(path, "there is no target %q%s", name, DidYouMean(name, sortedKeys(b.doc.Targets)))
	}
	return probes.Target{}, side{}, false
}

// written is the name under which a target stands in the file.
func (b *builder) written(target string) string {
	if _, own := b.doc.Targets[target]; own {
		return target
	}
	s, _ := b.entryOf(target)
	return s.entry
}

func (b *builder) environmentOf(target string) Environment {
	return b.doc.Environments[b.doc.Targets[b.written(target)].Environment]
}

// comparedLoad is what both sides are given, as a spec of the load's own kind; its
// probe holds the time-outs.
func (b *builder) comparedLoad(path string, c *comparison, environments []Environment) (probes.Spec, *probe, bool) {
	written := func(key string) bool { return b.set(path + "." + key) }
	var spec probes.Spec
	var load *probe
	switch {
	case written("probe") && written("workload"):
		b.report(path+".workload", "must not be written beside probe, which has one")
		return spec, nil, false
	case c.Probe != "":
		p, known := b.doc.Probes[c.Probe]
		if !known {
			b.report(path+".probe", "there is no probe %q%s", c.Probe, DidYouMean(c.Probe, sortedKeys(b.doc.Probes)))
			return spec, nil, false
		}
		for _, key := range []string{"num_prompts", "max_concurrency", "max_rate"} {
			if written(key) {
				b.report(path+"."+key, "must not be written beside probe, whose load it is")
			}
		}
		spec, load = loadOf(b.specs[c.Probe]), &p
		if spec.Kind != "" && !slices.Contains(comparedKinds, spec.Kind) {
			b.report(path+".probe", "a %s cannot be compared: name a canary, load or replay", spec.Kind)
			return spec, nil, false
		}
	case c.Workload != "":
		if _, known := b.workloads[c.Workload]; !known {
			b.report(path+".workload", "there is no workload %q%s", c.Workload, DidYouMean(c.Workload, sortedKeys(b.workloads)))
			return spec, nil, false
		}
		spec, load = b.smallLoad(c, environments)
	case !written("probe") && !written("workload"):
		b.report(path, "needs probe or workload")
		return spec, nil, false
	default:
		return spec, nil, false
	}
	spec.Arrivals = boundLoop(spec.Arrivals, environments)
	return spec, load, b.sound(join("probes", c.Probe)) && b.sound(join("workloads", spec.Workload.Name))
}

// loadOf is what a probe asks, without what it promises.
func loadOf(p probes.Spec) probes.Spec {
	return probes.Spec{
		Kind: p.Kind, Workload: p.Workload, Arrivals: p.Arrivals, Requests: p.Requests, Duration: p.Duration,
		Warmup: p.Warmup, SLOs: p.SLOs, FlushCache: p.FlushCache,
	}
}

// smallLoad is the closed loop of a comparison that names no probe.
func (b *builder) smallLoad(c *comparison, environments []Environment) (probes.Spec, *probe) {
	c.NumPrompts, c.MaxConcurrency = or(c.NumPrompts, comparedPrompts), or(c.MaxConcurrency, 1)
	a := boundLoop(probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: c.MaxConcurrency, Rate: c.MaxRate}, environments)
	c.MaxRate = a.Rate
	return probes.Spec{
		Kind: probes.Load, Workload: b.workloads[c.Workload], Arrivals: a, Requests: c.NumPrompts, Warmup: probes.Warmup{Requests: 1},
	}, &probe{Timeouts: batchTimeouts}
}

// boundLoop keeps a closed loop without a bound of its own within every max_rate.
func boundLoop(a probes.Arrivals, environments []Environment) probes.Arrivals {
	if a.Process != probes.ClosedLoop || a.Rate > 0 && !math.IsInf(a.Rate, 1) {
		return a
	}
	for _, e := range environments {
		if e.MaxRate > 0 && (a.Rate == 0 || e.MaxRate < a.Rate) {
			a.Rate = e.MaxRate
		}
	}
	return a
}

// checkSide holds the load of one side against its environment and adds it to what is
// planned for the target. A workload of its own is within the limits or it is not; the
// kinds of an environment are those of probes.
func (b *builder) checkSide(path, target string, c *comparison, spec probes.Spec, every time.Duration) {
	name := b.doc.Targets[target].Environment
	env, known := b.doc.Environments[name]
	if !known {
		return
	}
	over := func(format string, args ...any) {
		b.report(path, "exceeds environment %s: %s", name, fmt.Sprintf(format, args...))
	}
	b.mutates(path, "the comparison", name, b.doc.Targets[target].Backend, spec)
	if c.Probe != "" {
		checkKind(spec.Kind, env, over)
	}
	spec.Repeats = c.Pairs
	plan := b.budgets[target]
	plan.tokens += checkLoad(spec, every, env, over)
	plan.comparisons = append(plan.comparisons, c.Name)
}
