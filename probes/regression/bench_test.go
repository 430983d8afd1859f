package regression

import "testing"

// BenchmarkDetect is a year and more of nights of the metrics of one pair: what is
// computed anew after each nightly run.
func BenchmarkDetect(b *testing.B) {
	var series [11][]Night
	for i := range series {
		series[i] = newNoise(uint64(i), 0.03).history(400, 400, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, nights := range series {
			Detect(nights, simulated(0.03), Nightly, nil)
		}
	}
}
