package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql"
)

// Play is a scenario that was played. What its rules gave is kept, so that a broken
// rule can be judged by playing it and its readers again, and no others. It can be
// used by several goroutines.
type Play struct {
	// Failures are the expectations that were not met.
	Failures []string

	scenario *Scenario
	engine   *promql.Engine
	groups   []Group                    // those that the expectations depend on
	input    memory                     // the scenario's own series
	data     memory                     // with what the rules gave
	gave     map[string][]promql.Series // by rule
	asks     [][]string                 // of each expression expected: the alerts and series it is about
}

// Play plays the scenario. An error is a scenario or a rule that cannot be evaluated.
func (s *Scenario) Play(groups []Group) (*Play, error) {
	input, err := s.input()
	if err != nil {
		return nil, err
	}
	p := &Play{
		scenario: s, groups: needed(groups, s.Asks()), input: input, data: maps.Clone(input), gave: map[string][]promql.Series{},
		engine: newEngine(),
	}
	t := &take{evaluator: evaluator{p.engine, p.data}, scenario: s}
	for _, g := range p.groups {
		for i := range g.Rules {
			r := &g.Rules[i]
			if p.gave[r.Name()], err = t.evaluate(r, g.Interval); err != nil {
				return nil, err
			}
			t.data.put(r, p.gave[r.Name()], p.input)
		}
	}
	for _, a := range s.Alerts {
		if !p.Needs(a.Alert) {
			return nil, fmt.Errorf("play %s: there is no alert %s", s.Name, a.Alert)
		}
	}
	for _, e := range s.Exprs {
		p.asks = append(p.asks, e.asks())
		if err := t.checkExpr(e); err != nil {
			return nil, err
		}
	}
	p.Failures = t.failures
	return p, nil
}

// Steps is how many evaluations of a rule the scenario takes, a measure of its cost.
func (p *Play) Steps() int { return int(p.scenario.end() / p.scenario.Every) }

// Needs says whether an expectation depends on the rule.
func (p *Play) Needs(rule string) bool {
	_, ok := p.gave[rule]
	return ok
}

// Notices says whether an expectation is not met when the rule of that name is this one
// instead. A rule that cannot be evaluated is noticed.
func (p *Play) Notices(broken Rule) bool {
	t := &take{evaluator: evaluator{p.engine, maps.Clone(p.data)}, scenario: p.scenario, hurry: true}
	changed := map[string]bool{}
	isChanged := func(name string) bool { return changed[name] }
	for _, g := range p.groups {
		for i := range g.Rules {
			r := &g.Rules[i]
			if r.Name() == broken.Name() {
				r = &broken
			} else if !slices.ContainsFunc(Reads(r.Expr), isChanged) {
				continue
			}
			gave, err := t.evaluate(r, g.Interval)
			if err != nil || t.done() {
				return true
			}
			if same(gave, p.gave[r.Name()]) {
				continue // nor can its readers see a difference
			}
			changed[r.Name()] = true
			t.data.put(r, gave, p.input)
		}
	}
	for i, e := range p.scenario.Exprs {
		if !slices.ContainsFunc(p.asks[i], isChanged) {
			continue
		}
		if err := t.checkExpr(e); err != nil || t.done() {
			return true
		}
	}
	return false
}

// same says whether series are equal to the last bit, in whatever order.
func same(a, b []promql.Series) bool {
	if len(a) != len(b) {
		return false
	}
	samples := map[string][]promql.FPoint{}
	for _, s := range a {
		samples[string(s.Metric.Bytes(nil))] = s.Floats
	}
	for _, s := range b {
		other, ok := samples[string(s.Metric.Bytes(nil))]
		if !ok || !slices.EqualFunc(s.Floats, other, func(x, y promql.FPoint) bool {
			return x.T == y.T && math.Float64bits(x.F) == math.Float64bits(y.F)
		}) {
			return false
		}
	}
	return true
}
