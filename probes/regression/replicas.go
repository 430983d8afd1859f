package regression

import (
	"cmp"
	"math"
	"slices"

	"github.com/inferbeat/inferbeat/probes"
)

// Replica is what one replica of a pool measures now.
type Replica struct {
	Target string
	Value  float64 // positive
}

// Outlier is a replica that is worse than the others of its pool.
type Outlier struct {
	Target string
	// Effect is how much worse it is than the median of the others, as a share.
	Effect float64
	Sigmas float64
}

const (
	minReplicas   = 3 // with two, nobody knows which one is odd
	outlierSigmas = 3.5
	// manyReplicas is from how many on one of them moves neither median nor spread of
	// all; leaving each out in turn would then only cost time.
	manyReplicas = 20
)

// Outliers finds the replicas that are worse than the others: more than 3.5 sigmas and
// the metric's smallest effect above the median of the others. Sigma is the robust
// spread of the others, with the usual one of the metric for as long as they are few.
// Worst first.
func Outliers(metric probes.RegressionMetric, replicas []Replica) []Outlier {
	class, ok := classOf(metric)
	if !ok || len(replicas) < minReplicas {
		return nil
	}
	s := newScanner(Settings{Direction: class.Direction, Prior: class.Prior, Floor: class.Floor, DisplayStep: class.DisplayStep}, Nightly)
	direction := float64(class.Direction)
	var out []Outlier
	all := make([]float64, len(replicas))
	for i, r := range replicas {
		all[i] = direction * math.Log(r.Value)
	}
	others := make([]float64, 0, len(replicas))
	base := s.describe(all)
	for i, r := range replicas {
		if len(replicas) < manyReplicas {
			base = s.describe(append(append(others[:0], all[:i]...), all[i+1:]...))
		}
		shift := all[i] - base.center
		if shift > outlierSigmas*base.sigma && shift > math.Log1p(class.MinEffect) {
			out = append(out, Outlier{Target: r.Target, Effect: direction * math.Expm1(direction*shift), Sigmas: shift / base.sigma})
		}
	}
	slices.SortFunc(out, func(a, b Outlier) int {
		return cmp.Or(cmp.Compare(b.Sigmas, a.Sigmas), cmp.Compare(a.Target, b.Target))
	})
	return out
}

// Current is what a standing result says, whatever kind of probe it is of. A canary's
// window is no night, but replicas that are asked the same can be laid side by side.
func Current(spec probes.Spec, result *probes.Result) Sample {
	if spec.Kind.Continuous() {
		spec.Kind = probes.Load
	}
	s := Sample{At: result.CompletedAt, Repeats: 1}
	s.take(&probes.Run{Spec: spec, Summary: result.Summary, Capacity: result.Capacity})
	return s
}
