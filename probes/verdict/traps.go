package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

const (
	// warmupTail is how much slower the first tenth of the requests may be.
	warmupTail = 1.5
	// hiddenQueue is the ratio of the two views of TTFT from which the view from
	// sent hides a queue.
	hiddenQueue = 1.1
)

// Traps lists the self-deceptions that a reader of the run could fall for, in
// the order of [TrapCodes]. None of them makes the run suspect: each number is
// right, only not the answer to the question that is easily read into it.
func Traps(run *probes.Run) []probes.Reason {
	t := &traps{run: run}
	t.cache()
	t.warmup()
	t.concurrency()
	t.samples()
	t.arrivals()
	if approxLengths(&run.Spec.Workload) {
		t.add(ApproxInputLengths, "prompt lengths were estimated without a tokenizer and may be off by tens of percent")
	}
	return t.found
}

type traps struct {
	run   *probes.Run
	found []probes.Reason
}

func (t *traps) add(code, format string, args ...any) {
	t.found = append(t.found, probes.Reason{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (t *traps) cache() {
	w := &t.run.Spec.Workload
	if w.Cache == probes.CacheShared && (w.Dataset == "random" || w.Dataset == "random-ids") {
		t.add(RandomAgainstPrefixCache, "%s prompts have no common prefix, so this does not show what a prefix cache does", w.Dataset)
	}
	if w.Cache == probes.CacheWarm {
		t.add(FixedPromptsWarmCache, "the prompts are the same every run, so the prefix cache may answer; compare with warm runs only")
	}
}

func (t *traps) warmup() {
	spec := &t.run.Spec
	if spec.Kind.Continuous() || t.run.Source != "" { // other tools do not write down how they warmed up
		return
	}
	if spec.Warmup == (probes.Warmup{}) {
		t.add(FirstRequestCounted, "there was no warm-up, so the first of %d requests count what a cold server costs", t.run.Summary.Requests)
		return
	}
	warmed := slices.ContainsFunc(t.run.Warmup, func(r probes.Record) bool { return r.Outcome == probes.OK })
	if !warmed {
		t.add(WarmupTooShort, "none of %d warm-up requests succeeded", len(t.run.Warmup))
		return
	}
	if first, rest, n, ok := t.firstTenth(); ok && first > warmupTail*rest {
		t.add(WarmupTooShort, "the median TTFT of the first %d requests is %s, of the others %s; warm up for longer", n, seconds(first), seconds(rest))
	}
}

// firstTenth gives the median TTFT of the requests sent first and of the others.
func (t *traps) firstTenth() (first, rest float64, n int, ok bool) {
	var answered []*probes.Record
	for i := range t.run.Records {
		if r := &t.run.Records[i]; r.TTFT().IsKnown() {
			answered = append(answered, r)
		}
	}
	if len(answered) < probes.MinSamplesP99 {
		return 0, 0, 0, false
	}
	slices.SortFunc(answered, func(a, b *probes.Record) int { return int(min(max(a.Sent-b.Sent, -1), 1)) })
	ttfts := make([]float64, len(answered))
	for i, r := range answered {
		d, _ := r.TTFT().Get()
		ttfts[i] = d.Seconds()
	}
	n = len(ttfts) / 10
	return stats.DescribeInPlace(ttfts[:n]).P50, stats.DescribeInPlace(ttfts[n:]).P50, n, true
}

func (t *traps) concurrency() {
	a := &t.run.Spec.Arrivals
	mean, ok := t.run.Summary.Concurrency.Get()
	rated := a.OpenLoop() && a.Process != probes.Burst && !math.IsInf(a.Rate, 1)
	if ok && rated && a.MaxConcurrency > 1 && mean < float64(a.MaxConcurrency)/2 {
		t.add(RateBelowConcurrency, "at %.4g requests per second %.1f of %d requests were in flight on average; this is no result at a concurrency of %d",
			a.Rate, mean, a.MaxConcurrency, a.MaxConcurrency)
	}
}

func (t *traps) samples() {
	spec, s := &t.run.Spec, &t.run.Summary
	onlyMean := meanOnly(spec.Limits)
	switch d := s.Distribution(probes.TTFT); {
	case d.N > 0 && !d.Enough(probes.StatP99):
		t.add(MeanWithoutP99, "%d samples support a mean but no p99, which needs %d; a mean hides the tail", d.N, probes.MinSamplesP99)
	case len(onlyMean) > 0:
		t.add(MeanWithoutP99, "limits look at the mean of %s alone; a mean hides the tail", strings.Join(onlyMean, ", "))
	}
	if mean, ok := meanOutput(s); ok && mean < MinOutputTokens {
		t.add(ShortOutputs, "answers have %.1f tokens on average; time per output token shows from %d on", mean, MinOutputTokens)
	}
	byHand := spec.Schedule.Every == 0 && spec.Schedule.Cron == ""
	switch runs := max(1, spec.Repeats); {
	case !byHand || spec.Kind.Continuous() || runs >= 3:
	case runs == 2:
		t.add(SingleRun, "two runs have no median; publish that of 3 to 5")
	default:
		t.add(SingleRun, "this is one run; publish the median of 3 to 5")
	}
}

// meanOnly lists the signals with a limit on the mean and none on the tail.
func meanOnly(limits []probes.Limit) []string {
	var signals []string
	for _, l := range limits {
		tail := slices.ContainsFunc(limits, func(o probes.Limit) bool {
			return o.Signal == l.Signal && o.Statistic != probes.StatMean && o.Statistic != probes.StatP50 && o.Statistic != probes.StatStddev
		})
		if l.Statistic == probes.StatMean && !tail && !slices.Contains(signals, string(l.Signal)) {
			signals = append(signals, string(l.Signal))
		}
	}
	return signals
}

func (t *traps) arrivals() {
	a, s := &t.run.Spec.Arrivals, &t.run.Summary
	sent, due := s.Distribution(probes.TTFT), s.Distribution(probes.TTFTFromDue)
	switch {
	case !a.OpenLoop():
		t.add(CoordinatedOmission, "a closed loop of %d asks a slow server less often, so its queue does not show", a.MaxConcurrency)
	case a.MaxConcurrency > 0 && sent.N > 0 && due.Mean > hiddenQueue*sent.Mean:
		t.add(CoordinatedOmission, "requests waited for one of %d slots: mean TTFT is %s from due but %s from sent; users feel the first",
			a.MaxConcurrency, seconds(due.Mean), seconds(sent.Mean))
	}
	if a.Process == probes.Burst && s.Requests > 1 {
		t.add(AllAtOnce, "%d requests were due at once, so TTFT is the time to drain the queue and not a latency at a rate", s.Requests)
	}
}
