package compare

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	// The critical values of Mann and Whitney's U for equal sides, at one-sided errors
	// of .05, .025, .02 and .01; 0 is no interval.
	want := map[int][4]int{
		3: {1, 0, 0, 0}, 4: {2, 1, 1, 0}, 5: {5, 3, 3, 2}, 6: {8, 6, 5, 4},
		7: {12, 9, 9, 7}, 8: {16, 14, 13, 10}, 9: {22, 18, 18, 15}, 10: {28, 24, 23, 20},
	}
	for k, row := range want {
		for i, alpha := range []float64{0.05, 0.025, 0.02, 0.01} {
			if got := cut(k, k, alpha); got != row[i] {
				t.Errorf("cut(%d, %d, %g) = %d, want %d", k, k, alpha, got, row[i])
			}
		}
	}
}

func TestCutOfFiveMetrics(t *testing.T) {
	// Five pairs let five metrics share the error of the first look, and not six.
	if got := cut(5, 5, 0.02/5); got != 1 {
		t.Errorf("cut for five metrics: %d, want 1", got)
	}
	if got := cut(5, 5, 0.02/6); got != 0 {
		t.Errorf("cut for six metrics: %d, want 0", got)
	}
}

func TestCutOfManyRuns(t *testing.T) {
	// The normal law takes over where counting ends, without a step: at 50 and 50 its
	// interval is the exact one or up to two counts of about a thousand wider.
	mean, sd := normalLaw(50, 50)
	for _, alpha := range []float64{0.05, 0.025, 0.005} {
		exact := cut(50, 50, alpha)
		normal := int(math.Floor(mean - math.Sqrt2*math.Erfinv(1-2*alpha)*sd + 0.5))
		if d := exact - normal; d < 0 || d > 2 {
			t.Errorf("alpha %g: exact cut %d, normal %d", alpha, exact, normal)
		}
	}
	if got := cut(51, 51, 0.025); got <= cut(50, 50, 0.025) {
		t.Errorf("cut(51, 51) = %d, not above cut(50, 50) = %d", got, cut(50, 50, 0.025))
	}
}

func TestLaw(t *testing.T) {
	// Of the 6 orders of 2 and 2 values, U is 0, 1, 3 and 4 in one each and 2 in two.
	want := []float64{1. / 6, 1. / 6, 2. / 6, 1. / 6, 1. / 6}
	got := law(2, 2)
	for u := range want {
		if math.Abs(got[u]-want[u]) > 1e-15 {
			t.Errorf("law(2, 2)[%d] = %v, want %v", u, got[u], want[u])
		}
	}
}

func TestProbability(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"three and three, apart", []float64{1, 2, 3}, []float64{4, 5, 6}, 2. / 20},
		{"four and four, apart", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2. / 70},
		{"five and five, apart", []float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2. / 252},
		{"the other way round", []float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 2. / 70},
		{"interleaved evenly", []float64{1, 4}, []float64{2, 3}, 1},
		{"all equal", []float64{1, 1, 1}, []float64{1, 1, 1}, 1},
		{"a value in common", []float64{1, 2, 3}, []float64{3, 4, 5}, 2. * 2 / 20}, // {3,4,5} and its equal with the other 3
		{"sides of two sizes", []float64{1}, []float64{2, 3, 4}, 2. / 4},
	} {
		if got := probability(tt.a, tt.b); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// brute counts every way to deal the values out.
func brute(a, b []float64) float64 {
	all := slices.Concat(a, b)
	twice := func(x float64) (r int) {
		for _, y := range all {
			switch {
			case y < x:
				r += 2
			case y == x:
				r++
			}
		}
		return r
	}
	own := 0
	for _, y := range b {
		own += twice(y)
	}
	low, high, ways := 0, 0, 0
	for mask := range 1 << len(all) {
		n, sum := 0, 0
		for i, x := range all {
			if mask>>i&1 == 1 {
				n++
				sum += twice(x)
			}
		}
		if n != len(b) {
			continue
		}
		ways++
		if sum <= own {
			low++
		}
		if sum >= own {
			high++
		}
	}
	return min(1, 2*float64(min(low, high))/float64(ways))
}

func TestProbabilityCountsEveryDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Map(rapid.IntRange(0, 6), func(i int) float64 { return float64(i) })
		a := rapid.SliceOfN(value, 1, 5).Draw(t, "a")
		b := rapid.SliceOfN(value, 1, 5).Draw(t, "b")
		if got, want := probability(a, b), brute(a, b); math.Abs(got-want) > 1e-12 {
			t.Fatalf("probability(%v, %v) = %v, want %v", a, b, got, want)
		}
	})
}

func TestProbabilityOfManyRuns(t *testing.T) {
	a, b := make([]float64, 51), make([]float64, 51)
	for i := range a {
		a[i], b[i] = float64(2*i), float64(2*i+17)
	}
	// The same sides less one value have the exact law.
	if normal, exact := probability(a, b), probability(a[:50], b[:50]); math.Abs(normal-exact) > 0.01 {
		t.Errorf("normal law %v, exact law of one value less %v", normal, exact)
	}
}
