package compare

import "testing"

// BenchmarkJudge is the last look of a gate with all metrics that a load has.
func BenchmarkJudge(b *testing.B) {
	spec := loadSpec()
	in := Input{Reference: steady(1, 10), Candidate: steady(1.01, 10), Spec: &spec}
	b.ReportAllocs()
	for b.Loop() {
		Judge(in)
	}
}
