package capacity

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	// draws of the bootstrap, and which of them, in order, are the ends of a 95 % interval.
	draws       = 1000
	tail        = draws / 40
	intervalKey = 0x1f3b // any number: the same steps must give the same interval
)

// traceScatter is the standard deviation of ln capacity between fresh traces at
// steps of 60 residence times. All steps of a sweep replay one trace, so its luck shows in
// none of them: simulated servers scatter by 5-7 %, around 3-10 % too much, and a fifth
// less in steps twice as long.
const (
	traceScatter = 0.08
	traceShrink  = 0.3
)

// interval is the 95 % interval of the crossing by a parametric bootstrap: the misses of
// each step are drawn anew around the monotone curve, in crowds as large as the step's
// design effect says, the crossing is found in each of the drawn curves, and the luck of
// the trace is added. Two sweeps over one trace are much closer to each other than that. An
// end is unknown when the curves cross outside the rates that were tried too often.
func (c *curve) interval() (low, high probes.Optional[float64]) {
	rng := rand.New(rand.NewPCG(intervalKey, uint64(len(c.over))))
	mean := make([]float64, len(c.over))
	for i, l := range c.logits() {
		mean[i] = c.judged[i] / (1 + math.Exp(-l))
		if c.aborted[i] {
			mean[i] = c.over[i] // its logit is a floor and no estimate
		}
	}
	effect := isotonic(c.effect, slices.Repeat([]float64{1}, len(c.effect)))
	drawn := *c
	drawn.over = make([]float64, len(c.over))
	rates := make([]float64, draws)
	outside := map[place]int{}
	for n := range draws {
		for i := range drawn.over {
			drawn.over[i] = min(c.judged[i], math.Round(effect[i]*poisson(rng, mean[i]/effect[i])))
		}
		rate, at := drawn.cross()
		rates[n] = rate * math.Exp(c.scatter*rng.NormFloat64())
		outside[at]++
	}
	slices.Sort(rates)
	if outside[below] <= tail {
		low = probes.Known(rates[tail])
	}
	if outside[above] <= tail {
		high = probes.Known(rates[draws-1-tail])
	}
	return low, high
}

// poisson draws a number with the given mean, large ones by their normal shape.
func poisson(rng *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
	}
	n, limit := 0.0, math.Exp(-mean)
	for product := rng.Float64(); product > limit; product *= rng.Float64() {
		n++
	}
	return n
}
