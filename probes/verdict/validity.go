package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/stats"
)

// Evidence is what the daemon noticed about a run beside its records.
type Evidence struct {
	Concurrent  bool // another run was going on the target
	Interrupted bool // ended by us before it was complete
	// Stopped is the limit for which we ended it, and by how much it was passed; empty
	// for a run that was not stopped for its target's sake.
	Stopped string
	// Changed are the facts of the server that were not the same before and after,
	// with their values after.
	Changed         []probes.Fact
	ServerRestarted bool
	// ProfilerLeftOn is why the server's profiler could not be stopped; empty when it
	// was, or never ran.
	ProfilerLeftOn string
	// Window says that the records are the window of a continuous probe and not
	// one of its runs. They have no common clock, so lags and rate are not judged
	// again; each of the runs has been, when it ended.
	Window bool
	// Shards are the validities of the runs that a run was merged from. What each of
	// them saw happen to the server is taken over.
	Shards []probes.Validity
}

// Validity says whether the run's numbers can be believed. It needs Target,
// Spec, Records, Warmup, Complete and Summary of the run; its reasons come in
// the order of [ValidityCodes].
func Validity(run *probes.Run, evidence Evidence) probes.Validity {
	c := &check{run: run, s: &run.Summary, evidence: evidence, validity: probes.Validity{State: probes.Valid}}
	if run.Source != "" {
		c.add(probes.Suspect, Imported, "measured by %s, with its clock and its definitions; it keeps no evidence of how late its client was", run.Source)
		c.sampleCounts()
		return c.validity
	}
	c.cpu()
	c.reading()
	if !evidence.Window {
		lags := splitLags(run)
		c.lateness(lags)
		c.rate(lags)
	}
	c.circumstances()
	c.sampleCounts()
	c.prompts()
	c.answers()
	c.transport()
	return c.validity
}

type check struct {
	run      *probes.Run
	s        *probes.Summary
	evidence Evidence
	validity probes.Validity
}

func (c *check) add(state probes.ValidityState, code, format string, args ...any) {
	c.validity.Reasons = append(c.validity.Reasons, probes.Reason{Code: code, Text: fmt.Sprintf(format, args...)})
	if c.validity.State != probes.Invalid { // nothing makes an invalid run better
		c.validity.State = state
	}
}

// Doubt adds a reason to doubt a measurement, which is then suspect at best.
func Doubt(v probes.Validity, code, format string, args ...any) probes.Validity {
	if v.State != probes.Invalid {
		v.State = probes.Suspect
	}
	v.Reasons = append(slices.Clip(v.Reasons), probes.Reason{Code: code, Text: fmt.Sprintf(format, args...)})
	return v
}

func (c *check) cpu() {
	if share, ok := c.s.Client.CPUShare.Get(); ok && share > SaturatedCPUShare {
		c.add(probes.Invalid, ClientSaturated, "the client used %.0f %% of its CPU, more than %.0f %%", share*100, SaturatedCPUShare*100)
	}
}

// reading asks whether this process was kept from reading in time where nobody else
// dated what came.
func (c *check) reading() {
	client := &c.s.Client
	if stamped, ok := client.Stamped.Get(); ok && stamped < MinStamped && client.ReceiveLag.P99 > LateSuspect.Seconds() {
		c.add(probes.Suspect, ClientLate, "reads returned %s after the bytes had come (p99, n=%d), more than %v, and %.1f %% of the reads have no stamp of the kernel",
			seconds(client.ReceiveLag.P99), client.ReceiveLag.N, LateSuspect, (1-stamped)*100)
	}
	if held, ok := client.Throttled.Get(); ok && c.s.Duration > 0 && held.Seconds() > ThrottledSuspect*c.s.Duration.Seconds() {
		c.add(probes.Suspect, ClientThrottled, "the CPU quota held the client back for %v in a run of %v", held, c.s.Duration)
	}
}

// lateness asks whether this process sent in time, and whether it was free to.
func (c *check) lateness(lags []lateness) {
	arrivals := &c.run.Spec.Arrivals
	if arrivals.Process == probes.Burst {
		return
	}
	var own, slot []float64
	for i := range lags {
		if c.run.Records[i].Outcome != probes.Dropped {
			own = append(own, lags[i].own.Seconds())
			slot = append(slot, lags[i].slot.Seconds())
		}
	}
	late, waited := stats.DescribeInPlace(own), stats.DescribeInPlace(slot)
	switch {
	case late.P99 > LateInvalid.Seconds():
		c.add(probes.Invalid, ClientLate, "requests left %s late (p99, n=%d), more than %v", seconds(late.P99), late.N, LateInvalid)
	case late.P99 > LateSuspect.Seconds():
		c.add(probes.Suspect, ClientLate, "requests left %s late (p99, n=%d), more than %v", seconds(late.P99), late.N, LateSuspect)
	}
	if waited.P99 > LateSuspect.Seconds() {
		c.add(probes.Suspect, ClientCapped, "requests waited %s (p99, n=%d) for one of %d slots",
			seconds(waited.P99), waited.N, arrivals.MaxConcurrency)
	}
}

// rate asks whether the asked load arrived, and who is to blame if not: had
// requests only been as late as the client itself made them, would enough have
// been sent in time?
func (c *check) rate(lags []lateness) {
	records := c.run.Records
	arrivals := &c.run.Spec.Arrivals
	if !arrivals.OpenLoop() || arrivals.Process == probes.Burst || len(records) < probes.MinSamplesMean {
		return
	}
	p, ok := planOf(records)
	if !ok {
		return
	}
	sent, couldHave := 0, 0
	for i := range records {
		r := &records[i]
		dropped := r.Outcome == probes.Dropped
		if !dropped && r.Sent < p.end {
			sent++
		}
		if dropped && arrivals.MaxConcurrency > 0 || !dropped && r.Due+lags[i].own < p.end {
			couldHave++
		}
	}
	if share(sent, p.planned) >= MinAchievedRate {
		return
	}
	planned := 1 / p.gap.Seconds()
	achieved := planned * share(sent, p.planned)
	if share(couldHave, p.planned) < MinAchievedRate {
		c.add(probes.Invalid, RateNotAchieved, "the client sent %.4g of %.4g requests per second (%d of %d in time)",
			achieved, planned, sent, p.planned)
		return
	}
	c.add(probes.Suspect, RateNotAchieved, "with %d slots %.4g of %.4g requests per second were sent (%d of %d in time)",
		arrivals.MaxConcurrency, achieved, planned, sent, p.planned)
}

func (c *check) circumstances() {
	if changed := c.evidence.Changed; len(changed) > 0 {
		now := make([]string, len(changed))
		for i, f := range changed {
			now[i] = f.Name + " " + f.Value
		}
		c.add(probes.Invalid, FingerprintChanged, "the server changed during the run, it is now %s", strings.Join(now, ", "))
	}
	if c.evidence.ServerRestarted {
		c.add(probes.Suspect, ServerRestarted, "the server restarted during the run")
	}
	if c.evidence.Concurrent {
		c.add(probes.Suspect, ConcurrentRun, "another run was going on the target")
	}
	if c.run.Spec.Profile != nil {
		c.add(probes.Suspect, Profiled, "the server was profiled during the run, which slows it")
	}
	if why := c.evidence.ProfilerLeftOn; why != "" {
		c.add(probes.Suspect, ProfilerLeftOn, "the server's profiler may still be running: %s", why)
	}
	c.shards()
	switch why := c.evidence.Stopped; {
	case why != "" && !c.run.Complete:
		c.add(probes.Suspect, Stopped, "%s", why)
	case c.evidence.Interrupted || !c.run.Complete && !c.evidence.Window:
		c.add(probes.Suspect, Incomplete, "the run was cut short after %d completed requests", c.s.Completed)
	}
	if c.s.Dropped > 0 {
		c.add(probes.Suspect, DroppedRequests, "%d of %d requests were never sent", c.s.Dropped, c.s.Requests)
	}
}

// shards takes over what cannot be seen in the pooled records, once.
func (c *check) shards() {
	for i, v := range c.evidence.Shards {
		for _, r := range v.Reasons {
			told := slices.ContainsFunc(c.validity.Reasons, func(had probes.Reason) bool { return had.Code == r.Code })
			switch {
			case told:
			case r.Code == FingerprintChanged:
				c.add(probes.Invalid, r.Code, "shard %d: %s", i, r.Text)
			case r.Code == ServerRestarted || r.Code == ConcurrentRun:
				c.add(probes.Suspect, r.Code, "shard %d: %s", i, r.Text)
			}
		}
	}
}

func (c *check) sampleCounts() {
	if c.run.Spec.Kind.Continuous() && !c.evidence.Window || c.run.Spec.Kind == probes.Batch {
		return
	}
	onlyFailures := c.s.Completed == 0 && c.s.Failed >= probes.MinSamplesMean
	if c.s.Completed < probes.MinSamplesMean && !onlyFailures {
		c.add(probes.Suspect, TooFewSamples, "%d requests were completed, a mean needs %d", c.s.Completed, probes.MinSamplesMean)
		return
	}
	for _, l := range c.run.Spec.Limits {
		d := c.s.Distribution(l.Signal)
		if d.N > 0 && !d.Enough(l.Statistic) {
			c.add(probes.Suspect, TooFewSamples, "%s %s rests on %d samples, it needs %d", l.Signal, l.Statistic, d.N, needed(l.Statistic))
			return
		}
	}
}

// needed is the number behind Distribution.Enough.
func needed(s probes.Statistic) int {
	if s == probes.StatP99 || s == probes.StatTailRatio {
		return probes.MinSamplesP99
	}
	return probes.MinSamplesMean
}

// prompts asks whether the prompts were the asked ones.
func (c *check) prompts() {
	if c.run.Spec.Workload.Cache == probes.CacheCold {
		c.coldCache()
	}
	in := &c.s.Input
	if in.N > 0 {
		meanOff := math.Abs(in.MeanServer - in.MeanRequested)
		if meanOff > MaxInputMeanOff*in.MeanRequested || in.MaxDeviation > MaxInputOff {
			c.add(probes.Suspect, InputLengthOff, "asked for %.1f prompt tokens on average, the server counted %.1f; %d of %d differ, the worst by %.1f %%",
				in.MeanRequested, in.MeanServer, in.Off, in.N, in.MaxDeviation*100)
		}
	}
	if approxLengths(&c.run.Spec.Workload) {
		c.add(probes.Suspect, ApproxInputLengths, "prompt lengths were estimated without a tokenizer")
	}
}

func approxLengths(w *probes.Workload) bool { return w.Tokenizer == "approx" && !w.TokenIDs }

func (c *check) coldCache() {
	var cached, prompt int
	for i := range c.run.Records {
		r := &c.run.Records[i]
		n, hasCached := r.CachedTokens.Get()
		of, hasPrompt := r.PromptTokens.Get()
		if hasCached && hasPrompt {
			cached += n
			prompt += of
		}
	}
	if prompt == 0 {
		c.coldCacheOfServer()
		return
	}
	hit := share(cached, prompt)
	if hit <= CacheHitSuspect {
		return
	}
	c.add(cacheState(hit), CacheHitOnCold, "%d of %d prompt tokens (%.1f %%) came from the prefix cache, though every prompt should be new",
		cached, prompt, hit*100)
}

// coldCacheOfServer stands in for counts of single answers. The server's own hit
// ratio is about our prompts only when it had no others; the window of a
// continuous probe and the server's counters are about different times.
func (c *check) coldCacheOfServer() {
	hit, ok := c.s.Server.PrefixCache.HitRatio.Get()
	if !ok || hit <= CacheHitSuspect || c.evidence.Window || !c.s.ServerSawOnlyUs() {
		return
	}
	c.add(cacheState(hit), CacheHitOnCold, "the server found %.1f %% of its prompt tokens in the prefix cache, though every prompt should be new", hit*100)
}

func cacheState(hit float64) probes.ValidityState {
	if hit > CacheHitInvalid {
		return probes.Invalid
	}
	return probes.Suspect
}

// answers asks whether the answers were the asked ones and were counted.
func (c *check) answers() {
	c.flagged(probes.ShortOutput, ShortOutput, c.shortOutputText())
	if c.s.UnknownOutputs > 0 {
		c.add(probes.Suspect, TokenCountUnknown, "the tokens of %d of %d completed answers are unknown", c.s.UnknownOutputs, c.s.Completed)
	}
	sources := map[probes.TokenSource]int{}
	for i := range c.run.Records {
		if r := &c.run.Records[i]; r.Outcome == probes.OK && r.OutputSource != "" {
			sources[r.OutputSource]++
		}
	}
	if len(sources) > 1 {
		c.add(probes.Suspect, TokenSourcesMixed, "output tokens were counted by the server for %d answers, by the client for %d, estimated for %d",
			sources[probes.TokensServer], sources[probes.TokensClient], sources[probes.TokensApprox])
	}
	c.flagged(probes.UsageNotMonotone, UsageNotMonotone, "a running token count went down")
	c.flagged(probes.CountMismatch, CountMismatch, "two counts by the server of one answer's tokens differ")
}

// shortOutputText names the worst answer.
func (c *check) shortOutputText() string {
	worst, got, asked := 1.0, 0, 0
	for i := range c.run.Records {
		r := &c.run.Records[i]
		n, ok := r.OutputTokens.Get()
		if !r.Flags.Has(probes.ShortOutput) || !ok {
			continue
		}
		if part := share(n, r.RequestedOutput); part < worst {
			worst, got, asked = part, n, r.RequestedOutput
		}
	}
	return fmt.Sprintf("answers were shorter than forced, the shortest had %d of %d tokens (%.3f)", got, asked, worst)
}

// transport asks whether the way of the bytes distorted them.
func (c *check) transport() {
	if c.run.Spec.Workload.Sampling.Stream { // one body is what --disable-stream asks for
		c.flagged(probes.NotStreamed, NotStreamed, "a stream was asked for and one body came")
	}
	c.flagged(probes.OtherModel, OtherModel, "the answer names another model than the one asked for")
	c.flagged(probes.UnparsableEvent, UnparsableEvents, "an event was not legal JSON")
	c.flagged(probes.Compressed, Compressed, "the server compressed although identity was asked for")
	zero, gaps := 0, 0
	for i := range c.run.Records {
		r := &c.run.Records[i]
		if r.Outcome != probes.OK || len(r.Chunks) == 0 {
			continue
		}
		z, n := r.ZeroGaps()
		zero += z
		gaps += n
	}
	if share(zero, gaps) > MaxZeroGaps {
		c.add(probes.Suspect, Coalesced, "%d of %d chunk gaps (%.1f %%) are zero because one read brought several events", zero, gaps, share(zero, gaps)*100)
	}
}

// flagged adds a suspicion when any record carries the flag.
func (c *check) flagged(flag probes.Flags, code, text string) {
	if n := c.s.Flags[flag.Names()[0]]; n > 0 {
		c.add(probes.Suspect, code, "%d of %d requests: %s", n, c.s.Requests, text)
	}
}

// share is part/of, and 0 of nothing.
func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// seconds prints a time for people, with three digits.
func seconds(s float64) string {
	d := time.Duration(math.Round(s * 1e9))
	step := time.Nanosecond
	for d.Abs() >= 1000*step {
		step *= 10
	}
	return d.Round(step).String()
}
