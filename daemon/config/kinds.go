package config

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// ofKinds are the keys of a probe that mean something to some kinds only.
var ofKinds = []struct {
	key   string
	kinds []probes.Kind
}{
	{"repeats", []probes.Kind{probes.Load}},
	{"batch_size", []probes.Kind{probes.Batch}},
	{"start_concurrency", []probes.Kind{probes.Peak}},
	{"expect", []probes.Kind{probes.Canary}},
	{"profile", []probes.Kind{probes.Load, probes.Replay, probes.Batch}},
	{"offline_result", []probes.Kind{probes.Load, probes.Peak}},
}

// notOfKinds are the keys that contradict what a kind does, with the reason.
var notOfKinds = map[probes.Kind]struct {
	reason string
	keys   []string
}{
	probes.Peak:  {"a peak is a closed loop, as fast as the answers come", []string{"request_rate", "arrivals", "burstiness", "cv", "start_together"}},
	probes.Batch: {"a batch is batch_size requests at once", []string{"num_prompts", "duration", "request_rate", "arrivals", "burstiness", "cv", "max_concurrency", "start_together"}},
}

// kindKeys refuses keys that have no effect on the probe's kind or contradict it,
// and decides what the kind itself says.
func (b *builder) kindKeys(path string, p *probe) {
	kind := probes.Kind(p.Kind)
	if kind == "" {
		return
	}
	written := func(key string) bool { return b.set(path + "." + key) }
	for _, k := range ofKinds {
		if written(k.key) && !slices.Contains(k.kinds, kind) {
			b.report(path+"."+k.key, "has no effect on a %s; it belongs to %s", kind, strings.Join(words(k.kinds), " and "))
		}
	}
	for _, key := range notOfKinds[kind].keys {
		if written(key) {
			b.report(path+"."+key, "must not be written: %s", notOfKinds[kind].reason)
		}
	}
	b.readable(path+".offline_result", p.OfflineResult)
	if written("expect") {
		b.expect(path+".expect", &p.Expect)
	}
	switch kind {
	case probes.Peak:
		b.required(path, "max_concurrency", p.MaxConcurrency > 0)
		if p.StartConcurrency > p.MaxConcurrency && p.MaxConcurrency > 0 {
			b.report(path+".start_concurrency", "must not be above max_concurrency, which is %d", p.MaxConcurrency)
		}
		if p.NumPrompts == 0 && p.Duration == 0 && !written("num_prompts") {
			p.NumPrompts = defaultPeakPrompts
		}
		p.StartConcurrency = max(1, p.StartConcurrency)
	case probes.Batch:
		b.required(path, "batch_size", p.BatchSize > 0)
		if w, ok := b.workloads[p.Workload]; ok && !equalLengths(w) {
			b.report(path+".workload", "a batch needs prompts of one length: a random dataset with range_ratio 1")
		}
		if w := b.workloads[p.Workload]; w.Name != "" && !w.Sampling.Stream {
			b.report(path+".workload", "a batch needs stream: true, or there is no first token to end its prefill")
		}
	}
}

// defaultAnswerTokens bounds the answer to a pinned question.
const defaultAnswerTokens = 32

var digest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (b *builder) expect(path string, e *expect) {
	b.required(path, "prompt", e.Prompt != "")
	answers := 0
	for _, written := range []bool{e.Equals != "", e.Contains != "", e.SHA256 != ""} {
		if written {
			answers++
		}
	}
	if answers != 1 {
		b.report(path, "needs one of equals, contains and sha256")
	}
	if e.SHA256 != "" && !digest.MatchString(e.SHA256) {
		b.report(path+".sha256", "must be 64 hexadecimal digits")
	}
}

// expectation is zero unless it was written.
func (b *builder) expectation(path string, p *probe) probes.Expect {
	if !b.set(path + ".expect") {
		return probes.Expect{}
	}
	p.Expect.MaxTokens = or(p.Expect.MaxTokens, defaultAnswerTokens)
	return probes.Expect(p.Expect)
}

// profile is nil unless it was asked for, by enabled or by any of its details.
func (b *builder) profile(path string, p *probe) *probes.Profile {
	detailed := !b.set(path+".profile.enabled") && !reflect.ValueOf(p.Profile).IsZero()
	if !p.Profile.Enabled && !detailed {
		return nil
	}
	return &probes.Profile{
		Activities: p.Profile.Activities, StartStep: p.Profile.StartStep, Steps: p.Profile.NumSteps, ByStage: p.Profile.ByStage,
		Stages: p.Profile.Stages, OutputDir: p.Profile.OutputDir, Prefix: p.Profile.Prefix,
	}
}

// load is how many requests a run has and when they are due, which some kinds do
// not leave open.
func (b *builder) load(path string, p *probe, canary bool) (probes.Arrivals, int) {
	switch probes.Kind(p.Kind) {
	case probes.Peak:
		return probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: p.MaxConcurrency}, p.NumPrompts
	case probes.Batch:
		return probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}, p.BatchSize
	}
	return b.arrivals(path, p, canary), p.NumPrompts
}

// defaultPeakPrompts is how many requests the small steps of a peak have.
const defaultPeakPrompts = 64

func equalLengths(w probes.Workload) bool {
	return strings.HasPrefix(w.Dataset, "random") && w.RangeRatio == 1
}
