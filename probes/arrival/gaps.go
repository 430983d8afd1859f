package arrival

import (
	"math"
	"math/rand/v2"
)

// stream separates the arrival gaps from whatever else is drawn from a run's
// seed: with a shared stream long prompts would always follow long gaps.
const stream = 0x6172726976616c73

// unitGaps draws gaps of mean 1 from a gamma distribution. The methods of
// rand.Rand may change between Go releases and would silently replace the frozen
// trace of every nightly run; therefore only the generator, whose output is
// specified, is taken from the library.
type unitGaps struct {
	source *rand.PCG
	shape  float64
	// d and c are Marsaglia and Tsang's constants for max(shape, shape+1).
	d, c float64
}

// newUnitGaps starts the gaps of a seed at the first one. cv is above 0.
func newUnitGaps(cv float64, seed int64) *unitGaps {
	g := &unitGaps{source: rand.NewPCG(uint64(seed), stream), shape: 1 / (cv * cv)}
	boosted := g.shape
	if g.shape < 1 {
		boosted++
	}
	g.d = boosted - 1.0/3
	g.c = 1 / math.Sqrt(9*g.d)
	return g
}

func (g *unitGaps) next() float64 {
	if g.shape == 1 {
		return -math.Log(g.uniform()) // exponential: what poisson means
	}
	x := g.marsagliaTsang()
	if g.shape < 1 {
		x *= math.Pow(g.uniform(), 1/g.shape)
	}
	return x / g.shape
}

// uniform is in (0, 1]: 0 would be an infinite gap.
func (g *unitGaps) uniform() float64 { return float64(g.source.Uint64()>>11+1) / (1 << 53) }

// normal is one value of a Box-Muller pair.
func (g *unitGaps) normal() float64 {
	return math.Sqrt(-2*math.Log(g.uniform())) * math.Cos(2*math.Pi*g.uniform())
}

// marsagliaTsang draws from gamma(shape, 1), or gamma(shape+1, 1) when shape < 1
// (G. Marsaglia, W. W. Tsang: A simple method for generating gamma variables,
// ACM TOMS 26(3), 2000).
func (g *unitGaps) marsagliaTsang() float64 {
	for {
		x := g.normal()
		v := 1 + g.c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(g.uniform()) < 0.5*x*x+g.d*(1-v+math.Log(v)) {
			return g.d * v
		}
	}
}
