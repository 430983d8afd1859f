package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/compare"
	"github.com/inferbeat/inferbeat/probes/loadgen"
	"github.com/inferbeat/inferbeat/probes/summary"
	"github.com/inferbeat/inferbeat/probes/verdict"
	"github.com/inferbeat/inferbeat/probes/workload"
)

// Compare runs a load on two targets in turns. The run is the candidate's: its
// numbers are the medians of that side, and the reference stands in its Comparison.
// As with [Runner.Run] there is always a run. The targets need names of their own.
func (r *Runner) Compare(ctx context.Context, reference, candidate probes.Target, spec probes.Spec, progress *loadgen.Progress, hooks Hooks) *probes.Run {
	spec.Kind = probes.Paired
	run := &probes.Run{ID: newRunID(), Target: candidate, Spec: spec, Start: time.Now(),
		Comparison: &probes.Comparison{Reference: reference, Pairs: spec.Pairs}}
	contained(ctx, run, hooks, func() error {
		if err := Comparable(reference, candidate, spec); err != nil {
			return err
		}
		return guarded(ctx, run, hooks, func(ctx context.Context, hooks Hooks) error {
			whole := &parts{Runner: r, run: run, progress: progress, hooks: hooks}
			return whole.compare(ctx, [2]probes.Target{reference, candidate})
		})
	})
	return run
}

// Comparable refuses targets that cannot be given the same requests, and a server
// that would answer one side's prompts out of the cache that the other side filled.
func Comparable(reference, candidate probes.Target, spec probes.Spec) error {
	w := &spec.Workload
	for _, t := range []probes.Target{reference, candidate} {
		switch {
		case w.TokenIDs && !backend.AcceptsTokenIDs(t.Backend):
			return fmt.Errorf("compare %s with %s: backend %s takes no token ids", candidate.Name, reference.Name, t.Backend)
		case w.Dataset == workload.Image && !backend.AcceptsImages(t.Backend):
			return fmt.Errorf("compare %s with %s: backend %s takes no images", candidate.Name, reference.Name, t.Backend)
		case w.ApplyChatTemplate && backend.AcceptsMessages(t.Backend):
			return fmt.Errorf("compare %s with %s: backend %s applies the chat template itself", candidate.Name, reference.Name, t.Backend)
		}
		if err := backend.CheckAdapters(t.Backend, *w); err != nil {
			return fmt.Errorf("compare %s with %s: %w", candidate.Name, reference.Name, err)
		}
	}
	if reference.BaseURL == candidate.BaseURL && w.Cache != probes.CacheWarm && !spec.FlushCache {
		return fmt.Errorf("compare %s with %s: both are %s, whose prefix cache would know the second side's prompts from the first; flush it before each run, or keep it warm on purpose",
			candidate.Name, reference.Name, candidate.BaseURL)
	}
	return nil
}

// common is what the two runs of a pair have in common, so that their prompts are
// the same to the letter: the salt, and who counts their tokens.
type common struct {
	salt      string
	reference probes.Target
	client    *pairClient // of the reference
	own       *local      // the reference's, for a workload with a tokenizer of our own
	backends  []string
}

// share makes the options of a run those of its pair.
func (c *common) share(o *workload.Options, w *probes.Workload) {
	if c == nil {
		return
	}
	o.Salt, o.Cache = c.salt, c.client.calibrations
	o.Tokenizer, o.Render = newSetup(c.client.backend, c.reference.Timeouts), nil
	if c.own != nil {
		o.Tokenizer = c.own
		if w.ApplyChatTemplate {
			o.Render = c.own.template.Render
		}
	}
	for _, name := range c.backends {
		o.AcceptsTokenIDs = o.AcceptsTokenIDs && backend.AcceptsTokenIDs(name)
		o.AcceptsMessages = o.AcceptsMessages && backend.AcceptsMessages(name)
		o.AcceptsImages = o.AcceptsImages && backend.AcceptsImages(name)
	}
}

// newCommon looks at the reference, which counts for both sides: a length that each
// side counted for itself would be another prompt on each side.
func (r *Runner) newCommon(sides [2]probes.Target, spec probes.Spec) (*common, error) {
	client, err := r.client(sides[0], spec.Probe)
	if err != nil {
		return nil, err
	}
	own, err := r.ownTokenizer(&probes.Run{Target: sides[0], Spec: spec})
	if err != nil {
		return nil, err
	}
	return &common{reference: sides[0], client: client, own: own, backends: []string{sides[0].Backend, sides[1].Backend}}, nil
}

// sideSpec is the load of one run of a comparison.
func sideSpec(spec probes.Spec) probes.Spec {
	spec.Kind = probes.Load
	if spec.Arrivals.Process == probes.FromTrace {
		spec.Kind = probes.Replay
	}
	spec.Pairs, spec.Gate, spec.Margins, spec.Repeats, spec.OfflineResult = 0, nil, nil, 1, ""
	return spec
}

// compare runs the pairs, A B and B A in turns, until they decide or all have been
// run, and lays their medians side by side.
func (p *parts) compare(ctx context.Context, sides [2]probes.Target) error {
	r, spec := p.run, sideSpec(p.run.Spec)
	with, err := p.newCommon(sides, spec)
	if err != nil {
		return err
	}
	var believed [2][]*probes.Run
	var last [2]*probes.Run
	complete := true
	for pair := 0; pair < r.Spec.Pairs && complete; pair++ {
		with.salt = newRunID()
		var runs [2]*probes.Run
		for turn := 0; turn < 2 && complete; turn++ {
			side := (turn + pair) % 2
			if complete = rest(ctx, spec.Arrivals, last[side]); !complete {
				break
			}
			runs[side], complete = p.carry(ctx, fmt.Sprintf("pair %d %c", pair+1, "AB"[side]), sides[side], spec, with)
			if runs[side].Error != "" {
				return p.give(ctx, runs[side])
			}
			p.learn(side, runs[side])
			last[side] = runs[side]
		}
		if complete && runs[0].Validity.State != probes.Invalid && runs[1].Validity.State != probes.Invalid {
			believed[0], believed[1] = append(believed[0], runs[0]), append(believed[1], runs[1])
			if p.decided(believed) {
				r.Comparison.Pairs = pair + 1 // the others were not asked for
				break
			}
		}
	}
	p.conclude(believed, complete)
	return nil
}

// decided asks, at the first pair and at each look, whether more pairs can change the
// answer. The first pair shows whether the sides may be compared at all.
func (p *parts) decided(believed [2][]*probes.Run) bool {
	spec := &p.run.Spec
	if spec.Gate == nil {
		return false
	}
	n := len(believed[0])
	if n != 1 && !slices.ContainsFunc(compare.Looks(spec.Pairs), func(l compare.Look) bool { return l.Pairs == n }) {
		return false
	}
	answer, _, _ := compare.Judge(compare.Input{Reference: believed[0], Candidate: believed[1], Spec: spec})
	return answer != probes.GateUndecided
}

// rest waits until a closed loop with a bound on its rate may go on after its last
// run: two runs in a row of one side are one load to its server. It is false when ctx
// ended meanwhile.
func rest(ctx context.Context, a probes.Arrivals, last *probes.Run) bool {
	gap := arrival.Gap(a)
	if gap == 0 || last == nil {
		return true
	}
	over := last.Start.Add(time.Duration(len(last.Warmup)+len(last.Records)) * gap)
	select {
	case <-time.After(time.Until(over)):
		return true
	case <-ctx.Done():
		return false
	}
}

// learn keeps what a side said of itself.
func (p *parts) learn(side int, part *probes.Run) {
	if side == 0 {
		p.run.Comparison.Reference.Model = part.Target.Model
		return
	}
	p.run.Target.Model, p.run.Facts = part.Target.Model, part.Facts
}

// conclude says what was found.
func (p *parts) conclude(believed [2][]*probes.Run, complete bool) {
	r := p.run
	if typical := layBeside(r, believed); typical != nil {
		median := r.Summary
		p.adopt(typical)
		r.Summary = median
	}
	r.Start, r.End = r.Parts[0].Run.Start, r.Parts[len(r.Parts)-1].Run.End
	r.Complete = complete
	settle(r, believed, false)
}

// layBeside makes the numbers of a comparison out of its believed runs, and names the
// candidate's typical one; nil without any.
func layBeside(r *probes.Run, believed [2][]*probes.Run) *probes.Run {
	c := r.Comparison
	if c.Used = len(believed[1]); c.Used == 0 {
		return nil
	}
	reference, candidate := summaries(believed[0]), summaries(believed[1])
	median, typical := summary.Median(candidate, c.Pairs)
	r.Summary, c.Metrics = median, summary.Compare(reference, candidate)
	return believed[1][typical]
}

// settle says what a comparison is worth and, with a gate, what it answers. Without
// one, whether the candidate is slower is not judged.
func settle(r *probes.Run, believed [2][]*probes.Run, history bool) {
	c := r.Comparison
	r.Validity = verdict.OfComparison(r)
	r.Result = resultOf(r)
	if r.Spec.Gate == nil {
		r.Verdict = verdict.Unjudged(r.Validity)
		return
	}
	c.Answer, c.Judgements, c.Grounds = compare.Judge(compare.Input{
		Reference: believed[0], Candidate: believed[1], Spec: &r.Spec, History: history, Last: true,
	})
	compare.Disbelieve(c, r.Validity, r.Complete)
	r.Verdict = compare.Verdict(c)
}

func summaries(runs []*probes.Run) []*probes.Summary {
	out := make([]*probes.Summary, len(runs))
	for i, run := range runs {
		out[i] = &run.Summary
	}
	return out
}
