package workload

import (
	"hash/fnv"
	"math"
	"slices"
	"sort"

	"github.com/inferbeat/inferbeat/probes"
)

// DefaultAdapterAlpha is bench_serving's --lora-zipf-alpha.
const DefaultAdapterAlpha = 1.5

// adapters chooses each request's LoRA adapter out of several.
type adapters struct {
	names   []string // empty: there is nothing to choose
	choice  probes.AdapterChoice
	seed    int64
	popular []float64 // running sum of the weights of a skewed choice
}

func newAdapters(w probes.Workload) adapters {
	a := adapters{names: w.Adapters.Names, choice: w.Adapters.Choice, seed: w.Seed}
	if a.choice == probes.AdaptersSkewed {
		sum := 0.0
		for i := range a.names {
			// bench_serving's weights, which it calls Zipf's although they are geometric.
			sum += math.Pow(w.Adapters.Alpha, -float64(i))
			a.popular = append(a.popular, sum)
		}
	}
	return a
}

// choose sets the adapter of a request.
//
// Warm-up requests take all names in turn from the first on, whatever the choice:
// they are there to load them. The turns of a conversation keep one adapter, since
// what a server has cached of the turns before belongs to the adapter that it was
// computed with; the conversation's name stands in for the index then.
func (a *adapters) choose(r *probes.Request) {
	if len(a.names) == 0 {
		return
	}
	index := r.Index
	if r.Session != "" {
		h := fnv.New64a()
		h.Write([]byte(r.Session))
		index = int(h.Sum64() >> 1)
	}
	r.Sampling.LoRA = a.names[a.pick(index, r.Warmup)]
}

// pick is the place of the adapter of an index.
func (a *adapters) pick(index int, warmup bool) int {
	draw := newSequence(a.seed, forAdapter, index)
	switch {
	case warmup || a.choice == probes.AdaptersDistinct:
		return index % len(a.names)
	case a.choice == probes.AdaptersSkewed:
		return weighted(&draw, a.popular)
	}
	return draw.below(len(a.names))
}

// weighted draws a place whose likelihoods are the steps of a running sum.
func weighted(draw *sequence, sums []float64) int {
	x := float64(draw.next()>>11) / (1 << 53) * sums[len(sums)-1]
	return min(sort.SearchFloat64s(sums, x), len(sums)-1)
}

func validateAdapters(a probes.Adapters, refuse refuseFunc) {
	if a.Choice != "" && !slices.Contains(probes.AdapterChoices, a.Choice) {
		refuse("lora_request_distribution", "unknown %q, use one of %q", a.Choice, probes.AdapterChoices)
		return
	}
	if n := len(a.Names); n < 2 && (a.Choice == probes.AdaptersDistinct || a.Choice == probes.AdaptersSkewed) {
		refuse("lora_request_distribution", "%s chooses among at least two adapters, lora names %d", a.Choice, n)
	}
	for i, name := range a.Names {
		switch {
		case name == "":
			refuse("lora", "a name is empty")
		case slices.Contains(a.Names[:i], name):
			refuse("lora", "names %q twice", name)
		}
	}
	switch {
	case a.Choice == probes.AdaptersSkewed && !(a.Alpha > 1 && !math.IsInf(a.Alpha, 1)):
		refuse("lora_zipf_alpha", "%v is not a number above 1", a.Alpha)
	case a.Choice != probes.AdaptersSkewed && a.Alpha != 0:
		refuse("lora_zipf_alpha", "has no effect, lora_request_distribution is not skewed")
	}
}
