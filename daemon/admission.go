package daemon

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/guard"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// askOf is what a run of a pair means for its target.
func askOf(pair *config.Pair) guard.Ask {
	return askFor(pair.Target.Name, pair.Spec.Kind.Continuous(), pair.Budget)
}

// asksOf is what a comparison means for its two targets.
func asksOf(c *config.Comparison) []guard.Ask {
	return []guard.Ask{askFor(c.Reference.Name, false, c.ReferenceBudget), askFor(c.Candidate.Name, false, c.CandidateBudget)}
}

func askFor(target string, continuous bool, b config.Budget) guard.Ask {
	return guard.Ask{Target: target, Continuous: continuous, PerDay: b.TokensPerDay, Tokens: b.Tokens, Span: b.Span}
}

// sayHeld marks the pairs that would not start now, were they due.
func (a *App) sayHeld(pairs []probes.PairStatus, now time.Time) {
	for i := range pairs {
		if pair, ok := a.configured(keyOf(pairs[i].Pair)); ok {
			pairs[i].Held = a.gate.Held(now, askOf(&pair))
		}
	}
}

// settleUp tells the gate what a run has used and what was answered to it.
func (a *App) settleUp(admission *guard.Admission, run *probes.Run) {
	used := map[string]float64{}
	eachExchange(run, func(target string, r *probes.Record, at time.Time) {
		used[target] += tokensOf(r)
		a.gate.Answered(target, r, at)
	})
	admission.Ended(time.Now(), used)
}

// eachExchange calls f with every request of a run, those of its parts, steps and
// warm-up included, and when it ended.
func eachExchange(run *probes.Run, f func(target string, r *probes.Record, at time.Time)) {
	all := func(run *probes.Run, start time.Time, records ...[]probes.Record) {
		for _, some := range records {
			for i := range some {
				f(run.Target.Name, &some[i], start.Add(some[i].End.Or(some[i].Sent)))
			}
		}
	}
	if len(run.Parts) > 0 { // its own records are those of one of them
		for _, part := range run.Parts {
			eachExchange(part.Run, f)
		}
		return
	}
	all(run, run.Start, run.Warmup, run.Records)
	for i := range run.Steps {
		step := &run.Steps[i]
		all(run, step.Start, step.Warmup, step.Records)
	}
}

// tokensOf is what a request has cost its server: by the server's count, or else what
// was asked for.
func tokensOf(r *probes.Record) float64 {
	if r.Outcome == probes.Dropped {
		return 0
	}
	output, known := r.OutputTokens.Get()
	if !known && r.FirstToken.IsKnown() {
		output = r.RequestedOutput
	}
	return float64(r.PromptTokens.Or(r.RequestedInput) + output)
}

// spentPrefix is that of the states that hold what targets have used today.
const spentPrefix = "spent/"

// spending is what the targets have used, to be kept with the run that used it.
func (a *App) spending(targets ...string) []store.State {
	expires := guard.NextDay(time.Now()).Add(24 * time.Hour)
	var states []store.State
	for _, target := range targets {
		if a.gate.Limited(target) {
			states = append(states, store.State{Key: spentPrefix + url.PathEscape(target), Expires: expires, Latest: func() []byte { return a.gate.Encode(target) }})
		}
	}
	return states
}

// recallSpending takes over what an earlier process has used today.
func (a *App) recallSpending(ctx context.Context) {
	states, err := a.memory.store.States(ctx, spentPrefix)
	for _, state := range states {
		target, bad := url.PathUnescape(strings.TrimPrefix(state.Key, spentPrefix))
		if bad == nil {
			bad = a.gate.Restore(target, state.Value)
		}
		if bad != nil {
			err = bad
		}
	}
	if err != nil {
		a.memory.note(storeRead, err)
	}
}
