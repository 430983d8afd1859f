package cli

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	capacities "github.com/inferbeat/inferbeat/probes/capacity"
)

// A demo of minutes has no nights to look back on. These are made up: two months of a
// benchmark and of a sweep of both staging replicas, which nobody has measured. They go
// through the judgement, the store and the metrics like any others.
const (
	demoNightsBack = 60
	demoSickNights = 6 // of the replica that has got a new version
	demoProbe      = "nightly"
	demoSweep      = "nightly-capacity"
)

// madeUp is a staging replica's level and what became of it.
type madeUp struct {
	target       string
	seed         uint64
	ttft, tpot   float64 // median, in seconds
	accept       float64 // 0: it does not speculate
	capacity     float64 // in requests per second
	engine       string
	version, new string  // before and with the last nights
	slower       float64 // share by which tpot has grown with them
}

var demoHistory = []madeUp{
	{target: "llama-staging-a", seed: 5, ttft: 0.071, tpot: 0.0042, accept: 2.8, capacity: 21.5, engine: "sglang", version: "0.5.3", new: "0.5.3"},
	{target: "llama-staging-b", seed: 2, ttft: 0.064, tpot: 0.0071, capacity: 17.2, engine: "vllm", version: "0.11.0", new: "0.11.1", slower: 0.18},
}

// demoNights are the made-up runs of the nights before now, oldest first.
func demoNights(now time.Time) []*probes.Run {
	const hour, sweepAfter = 3, 30 * time.Minute
	night := time.Date(now.Year(), now.Month(), now.Day(), hour, 0, 0, 0, time.UTC)
	if !night.Before(now.Add(-time.Hour)) {
		night = night.AddDate(0, 0, -1)
	}
	var out []*probes.Run
	for back := demoNightsBack - 1; back >= 0; back-- {
		for i := range demoHistory {
			out = append(out, demoHistory[i].load(night.AddDate(0, 0, -back), back))
		}
		for i := range demoHistory {
			out = append(out, demoHistory[i].sweep(night.AddDate(0, 0, -back).Add(sweepAfter), back))
		}
	}
	return out
}

// scatterOf scatters as nights do: mostly by a percent or two, now and then by ten.
func scatterOf(random *rand.Rand) func(sigma float64) float64 {
	return func(sigma float64) float64 {
		z := random.NormFloat64()
		if random.Float64() < 0.02 {
			z += 4
		}
		return math.Exp(sigma * z)
	}
}

// facts are what the server said of itself on a night, and by how much it was slower.
func (m *madeUp) facts(back int) (facts probes.ServerFacts, slowdown float64) {
	if back < demoSickNights {
		return probes.ServerFacts{Engine: m.engine, Version: m.new}, 1 + m.slower
	}
	return probes.ServerFacts{Engine: m.engine, Version: m.version}, 1
}

func (m *madeUp) run(probe string, at time.Time, back int, s probes.Summary) *probes.Run {
	facts, _ := m.facts(back)
	return &probes.Run{
		ID: fmt.Sprintf("made-up-%s-%s-%s", probe, m.target, at.Format(time.DateOnly)), Target: probes.Target{Name: m.target}, Spec: probes.Spec{Probe: probe},
		Start: at, End: at.Add(s.Duration), Result: probes.RunSuccess, Complete: true, Fingerprint: "made-up",
		Summary: s, Facts: facts, Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
	}
}

// load is one night's benchmark.
func (m *madeUp) load(at time.Time, back int) *probes.Run {
	const requests, tokens, rate = 400, 160, 8.0
	scatter := scatterOf(rand.New(rand.NewPCG(m.seed, uint64(back))))
	_, slowdown := m.facts(back)
	tpot, ttft := m.tpot*scatter(0.012)*slowdown, m.ttft*scatter(0.02)
	s := madeUpSummary(requests, tokens, rate, ttft, tpot, 1.2*scatter(0.1), 0.4*scatter(0.1), 0.5*scatter(0.1))
	if m.accept > 0 {
		s.AcceptLength = probes.Known(math.Round(100*m.accept*scatter(0.004)) / 100)
	}
	return m.run(demoProbe, at, back, s)
}

// sweep is one night's search for the capacity: the queue grows as that of a server that
// is alone grows with its load, and the objective is missed accordingly.
func (m *madeUp) sweep(at time.Time, back int) *probes.Run {
	const tokens, span = 104, time.Minute
	slo := probes.SLO{Name: "ttft_p95", Objective: 0.95, Bounds: map[probes.Signal]time.Duration{probes.TTFT: 250 * time.Millisecond}}
	scatter := scatterOf(rand.New(rand.NewPCG(m.seed, uint64(demoNightsBack+back))))
	_, slowdown := m.facts(back)
	capacity := m.capacity * scatter(0.015) / slowdown
	allowed := (1 - slo.Objective) / slo.Objective
	var steps []probes.Step
	asked := 0
	for start, rates := at, []float64{4, 8, 12, 16, 20, 24}; len(steps) < len(rates); start = start.Add(span) {
		rate := rates[len(steps)]
		requests := int(rate * span.Seconds())
		odds := allowed * math.Pow(rate/capacity, 9) // of missing the objective
		missed := int(math.Round(float64(requests) * odds / (1 + odds)))
		load := min(rate/(1.3*capacity), 0.95)
		s := madeUpSummary(requests, tokens, min(rate, 1.2*capacity), m.ttft*(1+0.3*load/(1-load)), m.tpot*slowdown*(1+load), 1+3*load, 0.4, 0.5)
		s.Server.Queue = probes.Level{N: int(span.Seconds()), Mean: load * load / (1 - load)}
		step := probes.Step{
			Rate: rate, Start: start, End: start.Add(span), Summary: s, Validity: probes.Validity{State: probes.Valid}, Stationary: true,
			Judged: requests, Over: map[string]int{slo.Name: missed}, Effect: map[string]float64{slo.Name: 1},
			Passed: float64(missed) <= (1-slo.Objective)*float64(requests),
		}
		steps = append(steps, step)
		asked += requests
		if !step.Passed {
			break
		}
	}
	run := m.run(demoSweep, at, back, probes.Summary{
		Duration: steps[len(steps)-1].End.Sub(at), Requests: asked, Sent: asked, Completed: asked, Outcomes: map[probes.Outcome]int{probes.OK: asked},
	})
	run.Steps, run.Capacity = steps, capacities.Estimate(steps, []probes.SLO{slo}, probes.SweepRatesDone)
	return run
}

// madeUpSummary is that of a load in which all went well. Tails are how far the p99 is
// above the median, as a share of it.
func madeUpSummary(requests, tokens int, rate, ttft, tpot, ttftTail, tpotTail, e2eTail float64) probes.Summary {
	spread := func(median, tail float64) probes.Distribution {
		return probes.Distribution{
			N: requests, Mean: 1.02 * median, Stddev: 0.15 * median, Min: 0.8 * median, P50: median,
			P90: (1 + 0.3*tail) * median, P95: (1 + 0.5*tail) * median, P99: (1 + tail) * median, Max: (1 + 1.5*tail) * median,
		}
	}
	return probes.Summary{
		Duration: time.Duration(float64(requests) / rate * float64(time.Second)), Requests: requests, Sent: requests, Completed: requests,
		Outcomes: map[probes.Outcome]int{probes.OK: requests}, OutputTokens: probes.Known(requests * tokens), OutputSource: probes.TokensServer,
		RequestThroughput: probes.Known(rate), OutputThroughput: probes.Known(rate * float64(tokens)), OfferedRate: probes.Known(rate),
		AchievedRate: probes.Known(rate), SuccessRatio: probes.Known(1.0),
		Latency: map[probes.Signal]probes.Distribution{
			probes.TTFT: spread(ttft, ttftTail), probes.TTFTFromDue: spread(ttft, ttftTail),
			probes.TPOT: spread(tpot, tpotTail), probes.E2E: spread(ttft+float64(tokens-1)*tpot, e2eTail),
		},
	}
}

// marked says on the target that a run was made up, for those who find it in the store.
func marked(target probes.Target) probes.Target {
	labels := map[string]string{"made_up": "true"}
	maps.Copy(labels, target.Labels)
	target.Labels = labels
	return target
}
