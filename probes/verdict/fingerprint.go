package verdict

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/inferbeat/inferbeat/probes"
)

// Fingerprint is a short hash of what two runs must have in common to be
// compared: what is asked (workload, lengths, sampling, seed, and the version of
// its data), when (arrivals, numbers, warm-up), of what (model, backend, class of
// environment), how the server computes (quantization, parallelism, data types,
// attention backend and the other facts of its environment, as far as it tells)
// and by which way (connection policy, protocol, proxy).
//
// It leaves out the server's version: whether a new build is slower is the
// question that comparable runs answer.
//
// It also leaves out names, labels and addresses, so that a renamed probe or a moved
// replica keeps its history; promises, schedule and window, which change what is
// done with a result and not the result; timeouts; and secrets.
func Fingerprint(spec probes.Spec, target probes.Target, facts probes.ServerFacts, workloadVersion string) string {
	w, a := spec.Workload, spec.Arrivals
	// Not probes.Spec itself: a field added there must not silently end every
	// baseline. The names below are part of the hash.
	parts := map[string]any{
		"v":           1,
		"kind":        spec.Kind,
		"requests":    spec.Requests,
		"duration":    spec.Duration,
		"warmup":      []any{spec.Warmup.Requests, spec.Warmup.Duration},
		"flush_cache": spec.FlushCache,
		// JSON has no infinite rate.
		"arrivals": []any{a.Process, number(a.Rate), number(a.CV), a.MaxConcurrency},
		"workload": []any{
			workloadVersion, w.Dataset, w.InputTokens, w.OutputTokens, number(w.RangeRatio), w.FixedOutputTokens,
			w.ContextTokens, tokenizerKey(&w), w.VocabSize, w.TokenIDs, w.Cache, w.Seed,
		},
		"sampling": []any{
			number(w.Sampling.Temperature), w.Sampling.TopP.String(), w.Sampling.IgnoreEOS, w.Sampling.Stream,
			canonical(w.Sampling.ExtraBody), w.Sampling.LoRA,
		},
		"target": []any{target.Model, target.Backend, target.Environment, target.Connection.Policy, proxyKey(target.Connection.Proxy)},
	}
	addLoadParts(parts, &spec, target, facts)
	addWorkloadParts(parts, &w)
	text, err := json.Marshal(parts)
	if err != nil {
		// Everything above is a string, a bool, an integer or one of canonical's texts.
		panic(fmt.Sprintf("verdict: marshal fingerprint: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// addLoadParts adds what only some loads, servers or connections have. Each key
// is left out where it does not apply, so that all others keep their hash.
func addLoadParts(parts map[string]any, spec *probes.Spec, target probes.Target, facts probes.ServerFacts) {
	a := spec.Arrivals
	if spec.StartConcurrency > 1 { // left out else, so that other kinds keep their hash
		parts["start_concurrency"] = spec.StartConcurrency
	}
	// Only where there is one: a key that all runs had would end every baseline.
	if a.Ramp > 0 {
		parts["ramp"] = a.Ramp
	}
	if spec.Kind == probes.Sweep {
		// A capacity is one of objectives, and of the rates that it was looked for at.
		parts["sweep"] = []any{spec.Sweep, objectives(spec.SLOs)}
	}
	if spec.Definitions != probes.OwnDefinitions {
		parts["definitions"] = spec.Definitions
	}
	if spec.Profile != nil {
		parts["profile"] = true // whatever is profiled, the server is slower
	}
	if a.StartTogether {
		parts["start_together"] = true
	}
	// A part of a load is no measurement of the load, but the parts are alike.
	if spec.Shard.Split() {
		parts["shards"] = spec.Shard.Of
	}
	if environment := facts.Environment(); len(environment) > 0 {
		parts["server"] = environment
	}
	if p := target.Connection.Protocol; p != "" && p != probes.HTTP1 { // the default has no name of its own
		parts["protocol"] = p
	}
}

// addWorkloadParts adds what only some workloads have, likewise.
func addWorkloadParts(parts map[string]any, w *probes.Workload) {
	// Absent for workloads without them, which were there before these.
	if w.Groups != (probes.Groups{}) {
		g := w.Groups
		parts["groups"] = []any{g.Count, g.PromptsOfEach, g.SystemTokens, g.QuestionTokens, g.OutputTokens, number(g.RangeRatio), number(g.ZipfAlpha)}
		if g.Ordered {
			parts["ordered"] = true
		}
	}
	if i := w.Images; i != (probes.ImageShape{}) {
		parts["images"] = []any{i.Count, i.Resolution, i.Format, i.Content}
		if i.RandomCount {
			parts["random_image_count"] = true
		}
	}
	// Which file it is, its content says: that is in the workload's version.
	if t := w.Trace; t != (probes.Trace{Name: t.Name}) {
		parts["trace"] = []any{t.TimeUnit, number(t.Slowdown), t.Rounds, t.BlockTokens}
	}
	if a := w.Adapters; len(a.Names) > 0 {
		parts["adapters"] = []any{a.Names, a.Choice, number(a.Alpha)}
	}
	if w.SkipBadRows {
		parts["skip_bad_rows"] = true
	}
	if w.ApplyChatTemplate {
		parts["chat_template"] = true
	}
}

// tokenizerKey leaves out where a tokenizer's file lies. What it holds is part of the
// workload's version.
func tokenizerKey(w *probes.Workload) string {
	if w.LocalTokenizer() {
		return "local"
	}
	return w.Tokenizer
}

// objectives are what a request is held against, names and windows left out.
func objectives(slos []probes.SLO) []any {
	out := make([]any, len(slos))
	for i := range slos {
		out[i] = []any{number(slos[i].Objective), slos[i].Bounds}
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// canonical is JSON with sorted keys. A body that JSON cannot hold could not be
// sent either; its runs fail, but they need a fingerprint.
func canonical(body map[string]any) string {
	if len(body) == 0 {
		return ""
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Sprint(body) // fmt sorts keys too
	}
	return string(text)
}

// proxyKey keeps the route and drops the credentials, whose rotation changes no
// measurement.
func proxyKey(proxy string) string {
	if proxy == "" {
		return "none"
	}
	if u, err := url.Parse(proxy); err == nil && u.User != nil {
		u.User = nil
		return u.String()
	}
	return proxy
}
