package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestDescribe has literal results, as numpy.percentile and numpy.std give them.
func TestDescribe(t *testing.T) {
	tests := []struct {
		name    string
		samples []float64
		want    Description
	}{
		{name: "none"},
		{"one", []float64{7}, Description{1, 7, 0, 7, 7, 7, 7, 7, 7}},
		{"two", []float64{3, 1}, Description{2, 2, 1, 1, 2, 2.8, 2.9, 2.98, 3}},
		{
			"nine_alike_and_an_outlier",
			[]float64{10, 11, 12, 13, 14, 15, 16, 17, 18, 100},
			Description{10, 22.6, 25.916018212680747, 10, 14.5, 26.2, 63.1, 92.62, 100},
		},
		{
			"queueing_behind_one_slot", // due every 100 ms, served in 500 ms
			[]float64{500, 900, 1300, 1700, 2100, 2500, 2900, 3300},
			Description{8, 1900, 916.5151389911681, 500, 1900, 3020, 3160, 3272, 3300},
		},
		{"equal", slices.Repeat([]float64{0.1}, 1000), Description{1000, 0.1, 0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.samples)
			got := Describe(tt.samples)
			if diff := cmp.Diff(tt.want, got, closeTo(1e-15)); diff != "" {
				t.Errorf("Describe(%v) (-want +got):\n%s", tt.samples, diff)
			}
			if !slices.Equal(before, tt.samples) {
				t.Errorf("Describe changed its argument: got %v, want %v", tt.samples, before)
			}
		})
	}
}

// closeTo allows a few units in the last place, which decimal literals need.
func closeTo(relative float64) cmp.Option {
	return cmp.Comparer(func(a, b float64) bool {
		return a == b || math.Abs(a-b) <= relative*max(math.Abs(a), math.Abs(b))
	})
}

// TestSpreadFarFromZero fails for the textbook formula mean(x*x) - mean(x)^2.
func TestSpreadFarFromZero(t *testing.T) {
	const far = 1e9
	got := Describe([]float64{far + 4, far + 7, far + 13, far + 16})
	if got.Mean != far+10 || got.Stddev != math.Sqrt(22.5) {
		t.Errorf("got mean %v stddev %v, want %v and %v", got.Mean, got.Stddev, far+10, math.Sqrt(22.5))
	}
}

// TestMeanOfMany: a plain sum of so many tenths is off in the twelfth digit.
func TestMeanOfMany(t *testing.T) {
	samples := make([]float64, 100_000)
	for i := range samples {
		samples[i] = 0.1
	}
	samples[0] = 0.7
	want := naive(samples).Mean
	if got := Describe(samples).Mean; math.Abs(got-want) > 4e-16*want {
		t.Errorf("mean = %v, want %v", got, want)
	}
}

// TestPartition: both sides hold something, or selecting would not come to an end.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 5), func(i int) float64 { return float64(i) }), 2, 60).Draw(t, "s")
		cut := partition(s)
		if cut < 1 || cut >= len(s) {
			t.Fatalf("cut = %d of %d", cut, len(s))
		}
		if left, right := slices.Max(s[:cut]), slices.Min(s[cut:]); left > right {
			t.Fatalf("%v before %v", left, right)
		}
	})
}

// The largest magnitude that is taken, of either sign.
func TestLargestSamples(t *testing.T) {
	if d := Describe([]float64{-1e140, 1e140}); d.Mean != 0 || d.Stddev != 1e140 || d.Min != -1e140 || d.Max != 1e140 {
		t.Errorf("got %+v, want a mean of 0 and a deviation of 1e140", d)
	}
}

func TestNotANumberPanics(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200} {
		for name, f := range map[string]func([]float64){
			"Describe": func(s []float64) { Describe(s) },
			"Mean":     func(s []float64) { Mean(s) },
			"Stddev":   func(s []float64) { Stddev(s) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s with a sample of %v: got no panic", name, bad)
					}
				}()
				f([]float64{1, bad, 2})
			}()
		}
	}
}

func TestPercentile(t *testing.T) {
	sorted := []float64{10, 11, 12, 13, 14, 15, 16, 17, 18, 100}
	for _, tt := range []struct {
		p    int
		want float64
	}{{0, 10}, {50, 14.5}, {90, 26.2}, {95, 63.1}, {99, 92.62}, {100, 100}} {
		if got := Percentile(sorted, tt.p); math.Abs(got-tt.want) > 1e-15*tt.want {
			t.Errorf("Percentile(%v) = %v, want %v", tt.p, got, tt.want)
		}
	}
	for _, bad := range []func(){
		func() { Percentile(nil, 50) },
		func() { Percentile(sorted, -1) },
		func() { Percentile(sorted, 101) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Percentile out of range: got no panic")
				}
			}()
			bad()
		}()
	}
}

func TestEmptyIsUnknown(t *testing.T) {
	if _, ok := Mean(nil); ok {
		t.Error("Mean(nil) is known, want unknown")
	}
	if _, ok := Stddev(nil); ok {
		t.Error("Stddev(nil) is known, want unknown")
	}
	if m, ok := Mean([]float64{1, 2, 6}); !ok || m != 3 {
		t.Errorf("Mean = %v %v, want 3 true", m, ok)
	}
	if s, ok := Stddev([]float64{1, 3}); !ok || s != 1 {
		t.Errorf("Stddev = %v %v, want 1 true", s, ok)
	}
}

// naive is the definition, word for word, in arbitrary precision.
func naive(samples []float64) Description {
	n := len(samples)
	sorted := slices.Sorted(slices.Values(samples))
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	sum := num(0)
	for _, x := range samples {
		sum.Add(sum, num(x))
	}
	mean := new(big.Float).Quo(sum, num(float64(n)))
	squares := num(0)
	for _, x := range samples {
		dev := new(big.Float).Sub(num(x), mean)
		squares.Add(squares, dev.Mul(dev, dev))
	}
	d := Description{N: n, Min: sorted[0], Max: sorted[n-1]}
	d.Mean, _ = mean.Float64()
	d.Stddev, _ = new(big.Float).Sqrt(squares.Quo(squares, num(float64(n)))).Float64()
	for q, p := range map[int]*float64{50: &d.P50, 90: &d.P90, 95: &d.P95, 99: &d.P99} {
		low := q * (n - 1) / 100
		part := float64(q*(n-1)%100) / 100
		*p = sorted[low]
		if part > 0 {
			*p += (sorted[low+1] - sorted[low]) * part
		}
	}
	return d
}

func TestDescribeAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few distinct values as well as many: gaps of a steady stream repeat.
		sample := rapid.OneOf(
			rapid.Map(rapid.Float64Range(0, 1e3), func(x float64) float64 { return math.Round(x*1e9) / 1e9 }), // clock ticks
			rapid.Map(rapid.IntRange(0, 3), func(i int) float64 { return float64(i) * 0.1 }),
		)
		samples := rapid.SliceOfN(sample, 1, 400).Draw(t, "samples")
		got, want := Describe(samples), naive(samples)
		scale := max(want.Max, 1e-300)
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-13*scale })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		// The spread is a difference of near values; its error is measured against itself.
		if want.Stddev > 1e-6*scale && math.Abs(got.Stddev-want.Stddev) > 1e-8*want.Stddev {
			t.Fatalf("stddev: got %v, want %v", got.Stddev, want.Stddev)
		}
	})
}

func TestDescribeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 300).Draw(t, "samples")
		d := Describe(samples)
		order := []float64{d.Min, d.P50, d.P90, d.P95, d.P99, d.Max}
		if !slices.IsSorted(order) {
			t.Fatalf("min, p50, p90, p95, p99, max are not ascending: %v", order)
		}
		if d.Mean < d.Min || d.Mean > d.Max || d.Stddev < 0 || d.Stddev > d.Max-d.Min {
			t.Fatalf("mean or stddev out of range: %+v", d)
		}
		shuffled := rapid.Permutation(samples).Draw(t, "shuffled")
		if e := Describe(shuffled); e.P50 != d.P50 || e.P99 != d.P99 {
			t.Fatalf("order matters: p50 %v and %v, p99 %v and %v", d.P50, e.P50, d.P99, e.P99)
		}
	})
}

// TestPlaceOnHardOrders compares with sorting on orders that are bad for
// quickselect, and checks that no sample is lost.
func TestPlaceOnHardOrders(t *testing.T) {
	const n = 5000
	rng := rand.New(rand.NewPCG(1, 2))
	orders := map[string]func(i int) float64{
		"ascending":  func(i int) float64 { return float64(i) },
		"descending": func(i int) float64 { return float64(n - i) },
		"organ_pipe": func(i int) float64 { return float64(min(i, n-i)) },
		"two_values": func(i int) float64 { return float64(i % 2) },
		"equal":      func(int) float64 { return 4 },
		"saw":        func(i int) float64 { return float64(i % 37) },
		"random":     func(int) float64 { return rng.Float64() },
		"mostly_0":   func(i int) float64 { return float64(max(0, i-n+50)) },
	}
	for name, f := range orders {
		for _, budget := range []int{0, 1, 3, 30} {
			s := make([]float64, n)
			for i := range s {
				s[i] = f(i)
			}
			sorted := slices.Sorted(slices.Values(s))
			ranks := []int{0, 1, 2499, 2500, 4950, 4951, 4999}
			placeWithin(s, 0, ranks, budget)
			for _, r := range ranks {
				if s[r] != sorted[r] {
					t.Errorf("%s, budget %d: rank %d = %v, want %v", name, budget, r, s[r], sorted[r])
				}
			}
			if slices.Sort(s); !slices.Equal(s, sorted) {
				t.Errorf("%s, budget %d: samples were lost", name, budget)
			}
		}
	}
}

// benchSamples are log-normal, like latencies.
func benchSamples(n int) []float64 {
	rng := rand.New(rand.NewPCG(3, 4))
	s := make([]float64, n)
	for i := range s {
		s[i] = 0.02 * math.Exp(0.5*rng.NormFloat64())
	}
	return s
}

func BenchmarkDescribeInPlace100k(b *testing.B) {
	src := benchSamples(100_000)
	buf := make([]float64, len(src))
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, src)
		DescribeInPlace(buf)
	}
}

// BenchmarkSort100k is what selecting saves.
func BenchmarkSort100k(b *testing.B) {
	src := benchSamples(100_000)
	buf := make([]float64, len(src))
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, src)
		slices.Sort(buf)
	}
}
