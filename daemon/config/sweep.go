package config

import (
	"math"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// sweep decides what the keys of a sweep leave open, and reports those that only a
// sweep has and those that it has not.
func (b *builder) sweep(path string, p *probe, spec *probes.Spec) {
	if spec.Kind != probes.Sweep {
		for _, key := range []string{"rates", "start_rate", "max_rate", "max_steps", "slo"} {
			if b.set(path+"."+key) && p.Kind != "" {
				b.report(path+"."+key, "belongs to kind sweep, not to %s", p.Kind)
			}
		}
		return
	}
	for key, instead := range map[string]string{
		"request_rate": "write rates, or leave them out to search", "ramp": "each step warms up by itself",
		"start_together": "its steps have a rate and no workers",
		"limits":         "a sweep overloads on purpose, only slo and slos mean something",
	} {
		if b.set(path + "." + key) {
			b.report(path+"."+key, "does not belong to a sweep: %s", instead)
		}
	}
	if a := spec.Arrivals.Process; a == probes.ClosedLoop || a == probes.Burst || a == probes.FromTrace {
		b.report(path+".arrivals", "%s arrivals have no rate to sweep: use poisson, constant or gamma", a)
	}
	b.sweepRates(path, p)
	spec.SLOs = append(spec.SLOs, shortSLOs(&p.SLO)...)
	if len(spec.SLOs) == 0 && b.sound(path+".slo") && b.sound(path+".slos") {
		b.report(path, "needs slo or slos: a capacity is the rate up to which a promise is kept")
	}
	spec.Arrivals.Rate = 0 // each step has its own
	spec.Sweep = probes.SweepPlan{Rates: p.Rates, Start: p.StartRate, MaxRate: p.MaxRate, MaxSteps: p.MaxSteps}
}

func (b *builder) sweepRates(path string, p *probe) {
	for _, key := range []string{"start_rate", "max_rate", "max_steps"} {
		if len(p.Rates) > 0 && b.set(path+"."+key) {
			b.report(path+"."+key, "must not be written beside rates: it is part of a search")
		}
	}
	switch {
	case b.set(path+".rates") && len(p.Rates) == 0:
		if b.sound(path + ".rates") {
			b.report(path+".rates", "is empty: write rates, or remove the key to search")
		}
	case len(p.Rates) > probes.MaxSweepSteps:
		b.report(path+".rates", "holds %d rates, more than %d", len(p.Rates), probes.MaxSweepSteps)
	case !slices.IsSorted(p.Rates) || len(slices.Compact(slices.Clone(p.Rates))) < len(p.Rates):
		b.report(path+".rates", "must rise from one to the next")
	case len(p.Rates) > 0 && math.IsInf(p.Rates[len(p.Rates)-1], 1):
		b.report(path+".rates", "must be finite")
	}
	if p.MaxSteps > probes.MaxSweepSteps {
		b.report(path+".max_steps", "must be at most %d, got %d", probes.MaxSweepSteps, p.MaxSteps)
	}
	if p.MaxRate > 0 && p.StartRate > p.MaxRate {
		b.report(path+".start_rate", "must not be above max_rate %v, got %v", p.MaxRate, p.StartRate)
	}
}

// shortSLOs are the objectives that slo stands for, named after signal and percentile.
func shortSLOs(s *sweepSLO) (out []probes.SLO) {
	for _, tail := range []struct {
		signal probes.Signal
		bounds sloTails
	}{{probes.TTFT, s.TTFT}, {probes.TPOT, s.TPOT}, {probes.E2E, s.E2E}} {
		for _, p := range []struct {
			name      string
			objective float64
			bound     time.Duration
		}{{"p90", 0.9, tail.bounds.P90}, {"p95", 0.95, tail.bounds.P95}, {"p99", 0.99, tail.bounds.P99}} {
			if p.bound > 0 {
				out = append(out, probes.SLO{
					Name: string(tail.signal) + "_" + p.name, Objective: p.objective, Bounds: map[probes.Signal]time.Duration{tail.signal: p.bound},
				})
			}
		}
	}
	return out
}

// highestRate is the highest rate that the keys speak of, or 1 when they do not.
func highestRate(p *probe) float64 {
	rate := max(p.StartRate, p.MaxRate)
	for _, r := range p.Rates {
		rate = max(rate, r)
	}
	if rate == 0 {
		return 1
	}
	return rate
}

// within fits a sweep into the limits of its environment: a search ends at max_rate, and
// requests beyond max_in_flight wait in the client, which counts against the objectives.
func within(spec probes.Spec, env Environment) probes.Spec {
	spec.StopWhen = probes.StopWhen(env.StopWhen)
	if spec.Kind != probes.Sweep {
		return spec
	}
	if limit := env.MaxRate; limit > 0 && len(spec.Sweep.Rates) == 0 && (spec.Sweep.MaxRate == 0 || spec.Sweep.MaxRate > limit) {
		spec.Sweep.MaxRate = limit
	}
	if env.MaxInFlight > 0 && spec.Arrivals.MaxConcurrency == 0 {
		spec.Arrivals.MaxConcurrency = env.MaxInFlight
	}
	return spec
}

// checkSweepRate reports a sweep whose rates exceed the environment's.
func checkSweepRate(spec probes.Spec, env Environment, over func(string, ...any)) {
	rate := spec.Sweep.Start
	for _, r := range spec.Sweep.Rates {
		rate = max(rate, r)
	}
	if env.MaxRate > 0 && rate > env.MaxRate {
		over("rates up to %v, max_rate is %v", rate, env.MaxRate)
	}
}

// sweepRequests is the most that a sweep asks; false when nothing bounds it.
func sweepRequests(spec probes.Spec) (float64, bool) {
	steps, rate := len(spec.Sweep.Rates), spec.Sweep.MaxRate
	if steps == 0 {
		steps = or(spec.Sweep.MaxSteps, probes.MaxSweepSteps)
	}
	for _, r := range spec.Sweep.Rates {
		rate = max(rate, r)
	}
	timed := spec.Warmup.Duration
	if spec.Requests == 0 {
		timed += spec.Duration
	}
	if spec.Requests == 0 && spec.Duration == 0 || spec.Warmup == (probes.Warmup{}) || timed > 0 && rate == 0 {
		return 0, false
	}
	return float64(steps) * (float64(spec.Requests+spec.Warmup.Requests) + rate*timed.Seconds()), true
}
