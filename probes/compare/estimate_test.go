package compare

import (
	"math"
	"testing"

	"github.com/inferbeat/inferbeat/probes"
	"pgregory.net/rapid"
)

func TestEstimate(t *testing.T) {
	a := []float64{10, 11, 12, 13, 14}
	b := []float64{12, 13.5, 14, 15, 30} // one bad run
	got := estimate(a, b, 0.02)
	// The 25 differences in order: -2 -1 -.5 0 0 .5 1 1 1 1.5 2 2 2 2.5 3 3 3.5 4 4 5 16 17 18 19 20
	if got.Shift != 2 {
		t.Errorf("shift %v, want 2: the 13th of 25 differences", got.Shift)
	}
	if low, high := got.Low.Or(math.NaN()), got.High.Or(math.NaN()); low != -0.5 || high != 18 {
		t.Errorf("bounds %v to %v, want -0.5 to 18: the third from either end", low, high)
	}
	if p := got.P.Or(math.NaN()); math.Abs(p-brute(a, b)) > 1e-12 {
		t.Errorf("p %v, want %v", p, brute(a, b))
	}
	// Distances from the medians: 2 1 0 1 2, and 2 .5 0 1 16; both have the median 1.
	noise := 1.4826 * (1 + 0.8/4.2)
	if got := got.Noise.Or(math.NaN()); math.Abs(got-noise) > 1e-12 {
		t.Errorf("noise %v, want %v", got, noise)
	}
	if got, want := got.Visible.Or(math.NaN()), 2.49*noise*math.Sqrt(0.4); math.Abs(got-want) > 1e-12 {
		t.Errorf("visible %v, want %v", got, want)
	}
}

func TestEstimateOfFewRuns(t *testing.T) {
	got := estimate([]float64{1, 2, 3}, []float64{4, 5, 6}, 0.025)
	if got.Shift != 3 || got.Low.IsKnown() || got.High.IsKnown() || got.P.IsKnown() {
		t.Errorf("three runs of each side claim %+v; they can show a shift of 3 and nothing more", got)
	}
	if got := estimate([]float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, 0.025); got.Noise.IsKnown() || got.Visible.IsKnown() {
		t.Errorf("equal values tell a noise: %+v", got)
	}
}

func TestEstimateFollowsItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Map(rapid.IntRange(-1000, 1000), func(i int) float64 { return float64(i) / 8 }) // sums are exact
		a := rapid.SliceOfN(value, 4, 12).Draw(t, "a")
		b := rapid.SliceOfN(value, 4, 12).Draw(t, "b")
		by := value.Draw(t, "by")
		moved := make([]float64, len(b))
		for i := range b {
			moved[i] = b[i] + by
		}
		there, back, further := estimate(a, b, 0.025), estimate(b, a, 0.025), estimate(a, moved, 0.025)
		if there.Shift != -back.Shift || there.Low.Or(0) != -back.High.Or(0) || there.P != back.P {
			t.Fatalf("exchanging the sides does not turn the sign: %+v and %+v", there, back)
		}
		if further.Shift != there.Shift+by || further.Low.Or(0) != there.Low.Or(0)+by {
			t.Fatalf("moving a side by %v moves the shift from %v to %v", by, there.Shift, further.Shift)
		}
		low, high := there.Low.Get, there.High.Get
		if l, ok := low(); ok {
			if h, _ := high(); l > there.Shift || h < there.Shift {
				t.Fatalf("the shift %v is not between its bounds %v and %v", there.Shift, l, h)
			}
		}
	})
}

func TestMetricsAreTheVocabulary(t *testing.T) {
	if len(Metrics) != len(probes.ComparisonMetrics) {
		t.Fatalf("%d metrics, and the vocabulary has %d", len(Metrics), len(probes.ComparisonMetrics))
	}
	for i, name := range probes.ComparisonMetrics {
		if Metrics[i].Name != name {
			t.Errorf("metric %d is %s, want %s", i, Metrics[i].Name, name)
		}
	}
}
