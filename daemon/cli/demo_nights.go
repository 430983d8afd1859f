package cli

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// A demo of minutes has no nights to look back on. These are made up: two months of a
// benchmark of both staging replicas, which nobody has measured. They go through the
// judgement, the store and the metrics like any others.
const (
	demoNightsBack = 60
	demoSickNights = 6 // of the replica that has got a new version
	demoProbe      = "nightly"
)

// madeUp is a staging replica's level and what became of it.
type madeUp struct {
	target       string
	seed         uint64
	ttft, tpot   float64 // median, in seconds
	accept       float64 // 0: it does not speculate
	engine       string
	version, new string  // before and with the last nights
	slower       float64 // share by which tpot has grown with them
}

var demoHistory = []madeUp{
	{target: "llama-staging-a", seed: 5, ttft: 0.071, tpot: 0.0042, accept: 2.8, engine: "sglang", version: "0.5.3", new: "0.5.3"},
	{target: "llama-staging-b", seed: 2, ttft: 0.064, tpot: 0.0071, engine: "vllm", version: "0.11.0", new: "0.11.1", slower: 0.18},
}

// demoNights are the made-up runs of the nights before now, oldest first.
func demoNights(now time.Time) []*probes.Run {
	night := time.Date(now.Year(), now.Month(), now.Day(), 3, 0, 0, 0, time.UTC)
	if !night.Before(now.Add(-time.Hour)) {
		night = night.AddDate(0, 0, -1)
	}
	var out []*probes.Run
	for back := demoNightsBack - 1; back >= 0; back-- {
		for i := range demoHistory {
			out = append(out, demoHistory[i].run(night.AddDate(0, 0, -back), back))
		}
	}
	return out
}

// run is one night's. It scatters as nights do: mostly by a percent or two, now and then
// by ten.
func (m *madeUp) run(at time.Time, back int) *probes.Run {
	random := rand.New(rand.NewPCG(m.seed, uint64(back)))
	scatter := func(sigma float64) float64 {
		z := random.NormFloat64()
		if random.Float64() < 0.02 {
			z += 4
		}
		return math.Exp(sigma * z)
	}
	tpot, ttft, facts := m.tpot*scatter(0.012), m.ttft*scatter(0.02), probes.ServerFacts{Engine: m.engine, Version: m.version}
	if back < demoSickNights {
		tpot *= 1 + m.slower
		facts.Version = m.new
	}
	const requests, tokens, rate = 400, 160, 8.0
	spread := func(median, tail float64) probes.Distribution {
		return probes.Distribution{
			N: requests, Mean: 1.02 * median, Stddev: 0.15 * median, Min: 0.8 * median, P50: median,
			P90: (1 + 0.3*tail) * median, P95: (1 + 0.5*tail) * median, P99: (1 + tail) * median, Max: (1 + 1.5*tail) * median,
		}
	}
	s := probes.Summary{
		Duration: time.Duration(requests / rate * float64(time.Second)), Requests: requests, Sent: requests, Completed: requests,
		Outcomes: map[probes.Outcome]int{probes.OK: requests}, OutputTokens: probes.Known(requests * tokens), OutputSource: probes.TokensServer,
		RequestThroughput: probes.Known(rate), OutputThroughput: probes.Known(rate * tokens), OfferedRate: probes.Known(rate),
		AchievedRate: probes.Known(rate), SuccessRatio: probes.Known(1.0),
		Latency: map[probes.Signal]probes.Distribution{
			probes.TTFT: spread(ttft, 1.2*scatter(0.1)), probes.TPOT: spread(tpot, 0.4*scatter(0.1)), probes.E2E: spread(ttft+(tokens-1)*tpot, 0.5*scatter(0.1)),
		},
	}
	if m.accept > 0 {
		s.AcceptLength = probes.Known(math.Round(100*m.accept*scatter(0.004)) / 100)
	}
	return &probes.Run{
		ID: fmt.Sprintf("made-up-%s-%s", m.target, at.Format(time.DateOnly)), Target: probes.Target{Name: m.target}, Spec: probes.Spec{Probe: demoProbe},
		Start: at, End: at.Add(s.Duration), Result: probes.RunSuccess, Complete: true, Fingerprint: "made-up",
		Summary: s, Facts: facts, Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
	}
}

// marked says on the target that a run was made up, for those who find it in the store.
func marked(target probes.Target) probes.Target {
	labels := map[string]string{"made_up": "true"}
	maps.Copy(labels, target.Labels)
	target.Labels = labels
	return target
}
