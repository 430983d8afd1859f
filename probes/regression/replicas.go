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
	others := make([]float64, 0, len(replicas))
	for i, r := range replicas {
		others = others[:0]
		for j, other := range replicas {
			if j != i {
				others = append(others, direction*math.Log(other.Value))
			}
		}
		base := s.describe(others)
		shift := direction*math.Log(r.Value) - base.center
		if shift > outlierSigmas*base.sigma && shift > math.Log1p(class.MinEffect) {
			out = append(out, Outlier{Target: r.Target, Effect: direction * math.Expm1(direction*shift), Sigmas: shift / base.sigma})
		}
	}
	slices.SortFunc(out, func(a, b Outlier) int {
		return cmp.Or(cmp.Compare(b.Sigmas, a.Sigmas), cmp.Compare(a.Target, b.Target))
	})
	return out
}
