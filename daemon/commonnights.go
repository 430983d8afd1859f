package daemon

import (
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/compare"
)

// CompareNights judges the last common nights of two series as if they were the pairs
// of a comparison. They were not interleaved, and the result says so. Gate and margins
// are as in a [probes.Spec]. Neither series may be empty.
func CompareNights(reference, candidate []*probes.Run, gate *probes.Gate, margins map[probes.RegressionMetric]float64) *probes.Run {
	a, b := compare.Nights(reference, candidate)
	last := candidate[len(candidate)-1]
	run := &probes.Run{
		ID: newRunID(), Target: last.Target, Spec: last.Spec, Facts: last.Facts, Start: last.Start, End: last.End, Complete: true,
		Comparison: &probes.Comparison{Reference: reference[len(reference)-1].Target},
	}
	if len(a) > 0 {
		run.Start, run.End = b[0].Start, b[len(b)-1].End
	}
	// The kind stays that of the load: it says which metrics decide.
	run.Spec.Pairs, run.Spec.Gate, run.Spec.Margins = compare.MostNights, gate, margins
	for i := range a {
		run.Parts = append(run.Parts, probes.Part{Role: fmt.Sprintf("night %d A", i+1), Run: a[i]}, probes.Part{Role: fmt.Sprintf("night %d B", i+1), Run: b[i]})
	}
	run.Comparison.Pairs = len(a) // no night was lost that had both
	believed := [2][]*probes.Run{a, b}
	layBeside(run, believed)
	settle(run, believed, true)
	return run
}
