package arrival

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func take(seq iter.Seq[time.Duration], n int) []time.Duration {
	var out []time.Duration
	for d := range seq {
		if out = append(out, d); len(out) == n {
			break
		}
	}
	return out
}

func constantRate(rate float64) probes.Arrivals {
	return probes.Arrivals{Process: probes.Constant, Rate: rate}
}

func poisson(rate float64) probes.Arrivals {
	return probes.Arrivals{Process: probes.Poisson, Rate: rate}
}

func gamma(rate, cv float64) probes.Arrivals {
	return probes.Arrivals{Process: probes.Gamma, Rate: rate, CV: cv}
}

func TestConstantIsAbsolute(t *testing.T) {
	for _, test := range []struct {
		rate float64
		i    int
		want time.Duration
	}{
		{10, 7, 700 * time.Millisecond},
		{200, 1999, 9995 * time.Millisecond},
		{3, 1, 333333333},
		{3, 2, 666666667},
		{3, 3, time.Second},
		{3, 3_000_000, 1_000_000 * time.Second},
		{0.5, 4, 8 * time.Second},
		{1e6, 999_999, 999_999 * time.Microsecond},
	} {
		got := take(Offsets(constantRate(test.rate), test.i+1, 1), 0)
		if len(got) != test.i+1 || got[0] != 0 || got[test.i] != test.want {
			t.Errorf("rate %v: got %d offsets from %v to %v, want %d from 0 to %v",
				test.rate, len(got), got[0], got[len(got)-1], test.i+1, test.want)
		}
	}
}

func TestFewRequests(t *testing.T) {
	for _, a := range []probes.Arrivals{
		constantRate(2), poisson(2), gamma(2, 0.5), gamma(2, 3),
		{Process: probes.Burst, Rate: math.Inf(1)},
	} {
		if got := take(Offsets(a, 1, 9), 0); !slices.Equal(got, []time.Duration{0}) {
			t.Errorf("%s: got %v for one request, want [0s]", a.Process, got)
		}
		if got := take(Offsets(a, -1, 9), 0); len(got) != 0 {
			t.Errorf("%s: got %v for a negative count, want none", a.Process, got)
		}
	}
	// The only gap of two requests is scaled to the mean gap.
	want := []time.Duration{0, 500 * time.Millisecond}
	for _, a := range []probes.Arrivals{poisson(2), gamma(2, 0.5), gamma(2, 50)} {
		if got := take(Offsets(a, 2, 9), 0); !slices.Equal(got, want) {
			t.Errorf("%s: got %v for two requests, want %v", a.Process, got, want)
		}
	}
}

func TestProcessesWithoutGaps(t *testing.T) {
	burst := probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1), MaxConcurrency: 4}
	if got, want := take(Offsets(burst, 5, 1), 0), make([]time.Duration, 5); !slices.Equal(got, want) {
		t.Errorf("burst of 5: got %v, want %v", got, want)
	}
	if got := take(Offsets(burst, 0, 1), 1); len(got) != 0 {
		t.Errorf("burst of unknown size: got %v, want none", got)
	}
	closed := probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}
	if got := Offsets(closed, 5, 1); got != nil {
		t.Errorf("closed loop: got offsets %v, want nil", take(got, 1))
	}
	if got := Offsets(probes.Arrivals{Process: probes.FromTrace}, 5, 1); got != nil {
		t.Errorf("trace: got offsets %v, want nil", take(got, 1))
	}
}

// These offsets are the frozen trace of seed 42. When they change, every stored
// baseline has been measured under another load.
func TestFrozenTrace(t *testing.T) {
	for _, test := range []struct {
		a    probes.Arrivals
		n    int
		want []time.Duration
	}{
		{poisson(8), 0, []time.Duration{0, 211247221, 432814317, 448257382, 449171758, 528746165}},
		{poisson(8), 6, []time.Duration{0, 249703018, 511604558, 529858904, 530939735, 625000000}},
		{gamma(8, 0.5), 0, []time.Duration{0, 176252907, 283865327, 365124333, 415996430, 457764269}},
		{gamma(8, 2), 0, []time.Duration{0, 997696297, 999075789, 1030538060, 1031170370, 1033713930}},
	} {
		if got := take(Offsets(test.a, test.n, 42), 6); !slices.Equal(got, test.want) {
			t.Errorf("%s cv %v n %d: got %d, want %d", test.a.Process, test.a.CV, test.n, got, test.want)
		}
	}
}

func TestGammaMeetsItsNeighbours(t *testing.T) {
	for _, n := range []int{0, 50} {
		if got, want := take(Offsets(gamma(7, 0), n, 3), 50), take(Offsets(constantRate(7), n, 3), 50); !slices.Equal(got, want) {
			t.Errorf("n %d, cv 0: got %v, want the constant %v", n, got, want)
		}
		if got, want := take(Offsets(gamma(7, 1), n, 3), 50), take(Offsets(poisson(7), n, 3), 50); !slices.Equal(got, want) {
			t.Errorf("n %d, cv 1: got %v, want the poisson %v", n, got, want)
		}
	}
	b := probes.BurstinessToCV(math.Inf(1))
	if got, want := take(Offsets(gamma(7, b), 9, 3), 0), take(Offsets(constantRate(7), 9, 3), 0); !slices.Equal(got, want) {
		t.Errorf("burstiness +Inf: got %v, want %v", got, want)
	}
}

// A cv so small that its gamma shape is not a finite number, and the smallest
// and largest that are drawn.
func TestExtremeVariation(t *testing.T) {
	want := take(Offsets(constantRate(10), 20, 1), 0)
	if got := take(Offsets(gamma(10, 1e-200), 20, 1), 0); !slices.Equal(got, want) {
		t.Errorf("cv 1e-200: got %v, want %v", got, want)
	}
	for i, got := range take(Offsets(gamma(10, constantBelow), 20, 1), 0) {
		if off := (got - want[i]).Abs(); off > time.Microsecond {
			t.Errorf("cv %v: offset %d is %v, want %v within a microsecond", constantBelow, i, got, want[i])
		}
	}
	// With practically all of the gaps zero the whole span lies in a few of them.
	got := take(Offsets(gamma(10, MaxCV), 20, 1), 0)
	if got[19] != 1900*time.Millisecond || !slices.IsSorted(got) {
		t.Errorf("cv %d: got %v, want a rising sequence to 1.9s", MaxCV, got)
	}
	for seed := range int64(2000) {
		if got := take(Offsets(gamma(10, MaxCV), 3, seed), 0); got[0] != 0 || got[2] != 200*time.Millisecond {
			t.Fatalf("cv %d seed %d: got %v, want 0 first and 200ms last", MaxCV, seed, got)
		}
	}
}

func TestOffsetsSaturate(t *testing.T) {
	for _, a := range []probes.Arrivals{constantRate(1e-12), poisson(1e-300), gamma(1e-12, 2)} {
		for _, n := range []int{0, 4} {
			got := take(Offsets(a, n, 5), 4)
			if got[0] != 0 || got[3] != math.MaxInt64 || !slices.IsSorted(got) {
				t.Errorf("%s n %d: got %v, want 0 first and the maximum last", a.Process, n, got)
			}
		}
	}
}

// moments of the gaps in units of the mean gap.
func moments(offsets []time.Duration, rate float64) (mean, cv float64) {
	var sum, squares float64
	n := float64(len(offsets) - 1)
	for i := 1; i < len(offsets); i++ {
		g := (offsets[i] - offsets[i-1]).Seconds() * rate
		sum += g
		squares += g * g
	}
	mean = sum / n
	return mean, math.Sqrt(squares/n-mean*mean) / mean
}

// The bounds are five standard errors: cv/sqrt(n) for the mean; for the cv the
// gamma's kurtosis gives cv*sqrt((1+2cv^2)/2n) at least, taken doubled for its
// skewed tail. Seeds are fixed, so the test cannot flicker.
func TestMeanAndVariation(t *testing.T) {
	const n = 50_001
	const rate = 20.0
	for _, cv := range []float64{0.01, 0.25, 0.5, 0.9, 1, 1.1, 2, 3} {
		for _, seed := range []int64{0, 42, -7} {
			t.Run(fmt.Sprintf("cv=%v/seed=%d", cv, seed), func(t *testing.T) {
				a := gamma(rate, cv)
				mean, got := moments(take(Offsets(a, 0, seed), n), rate)
				if bound := 5 * cv / math.Sqrt(n); math.Abs(mean-1) > bound {
					t.Errorf("free: got mean gap %v, want 1 within %v", mean, bound)
				}
				if bound := 10 * cv * math.Sqrt((1+2*cv*cv)/(2*n)); math.Abs(got-cv) > bound {
					t.Errorf("free: got cv %v, want %v within %v", got, cv, bound)
				}
				mean, scaledCV := moments(take(Offsets(a, n, seed), n), rate)
				if math.Abs(mean-1) > 1e-9 {
					t.Errorf("scaled: got mean gap %v, want exactly 1", mean)
				}
				if math.Abs(scaledCV-got) > 1e-5 {
					t.Errorf("scaled: got cv %v, want the free sequence's %v", scaledCV, got)
				}
			})
		}
	}
}

// A right mean and cv could come from a wrong distribution. The wanted quantiles
// are the gamma distribution's (SciPy: gamma.ppf(p, shape) / shape); each must
// have its share of the gaps below it, within five standard errors.
func TestQuantiles(t *testing.T) {
	const n = 100_000
	levels := []float64{0.1, 0.5, 0.9, 0.99}
	for _, test := range []struct {
		cv        float64
		quantiles []float64
	}{
		{0.5, []float64{0.43619239070622784, 0.9180151872127245, 1.6701957670639658, 2.5112793787079166}},
		{1, []float64{0.10536051565782628, 0.6931471805599453, 2.302585092994046, 4.605170185988091}},
		{2, []float64{0.00027000249542535795, 0.17469520941149336, 3.001571488947329, 9.735541688788071}},
	} {
		below := make([]int, len(levels))
		gaps := newUnitGaps(test.cv, 11)
		for range n {
			gap := gaps.next()
			for i, q := range test.quantiles {
				if gap < q {
					below[i]++
				}
			}
		}
		for i, p := range levels {
			got := float64(below[i]) / n
			if bound := 5 * math.Sqrt(p*(1-p)/n); math.Abs(got-p) > bound {
				t.Errorf("cv %v: a share of %v of the gaps is below %v, want %v within %v",
					test.cv, got, test.quantiles[i], p, bound)
			}
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[time.Duration]int64{}
	for seed := int64(-50); seed < 50; seed++ {
		second := take(Offsets(poisson(1), 0, seed), 2)[1]
		if other, ok := seen[second]; ok {
			t.Errorf("seeds %d and %d start with the same gap %v", seed, other, second)
		}
		seen[second] = seed
	}
}

func drawArrivals(t *rapid.T) probes.Arrivals {
	return probes.Arrivals{
		Process: rapid.SampledFrom([]probes.ArrivalProcess{probes.Constant, probes.Poisson, probes.Gamma}).Draw(t, "process"),
		Rate:    rapid.Float64Range(1e-3, MaxRate).Draw(t, "rate"),
		CV:      rapid.Float64Range(0, MaxCV).Draw(t, "cv"),
	}
}

// One frozen trace: the offsets of a seed, measured in mean gaps, do not depend
// on the rate. They may differ by the rounding to nanoseconds.
func TestRateOnlySqueezes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawArrivals(t)
		b := a
		b.Rate = rapid.Float64Range(1e-3, MaxRate).Draw(t, "other rate")
		n := rapid.SampledFrom([]int{0, 60}).Draw(t, "n")
		seed := rapid.Int64().Draw(t, "seed")
		at, bt := take(Offsets(a, n, seed), 60), take(Offsets(b, n, seed), 60)
		for i := range at {
			x, y := float64(at[i])*a.Rate, float64(bt[i])*b.Rate
			if math.Abs(x-y) > 0.5*(a.Rate+b.Rate)+1e-12*math.Max(x, y) {
				t.Fatalf("offset %d is %v at %v/s and %v at %v/s", i, at[i], a.Rate, bt[i], b.Rate)
			}
		}
	})
}

// A known number only scales the free gaps.
func TestScaledKeepsProportions(t *testing.T) {
	const n, rate = 1000, 50.0
	for _, a := range []probes.Arrivals{poisson(rate), gamma(rate, 0.3), gamma(rate, 2)} {
		free, scaled := take(Offsets(a, 0, 5), n), take(Offsets(a, n, 5), n)
		if want := time.Duration(float64(n-1) / rate * 1e9); scaled[n-1] != want {
			t.Errorf("%s cv %v: last of %d is due at %v, want %v", a.Process, a.CV, n, scaled[n-1], want)
		}
		factor := float64(scaled[n-1]) / float64(free[n-1])
		for i := range free {
			if off := math.Abs(float64(free[i])*factor - float64(scaled[i])); off > 2 {
				t.Fatalf("%s cv %v: offset %d is off by %v ns from the scaled free one", a.Process, a.CV, i, off)
			}
		}
	}
}

func checkOffsets(t interface{ Fatalf(string, ...any) }, a probes.Arrivals, n int, seed int64) {
	seq := Offsets(a, n, seed)
	got := take(seq, 0)
	if len(got) != n {
		t.Fatalf("got %d offsets, want %d", len(got), n)
	}
	if n == 0 {
		return
	}
	if got[0] != 0 || !slices.IsSorted(got) {
		t.Fatalf("got %v, want a rising sequence from 0", got)
	}
	want := time.Duration(0)
	if a.Process != probes.Burst {
		want = due(probes.Arrivals{Rate: a.Rate}, float64(n-1))
	}
	if got[n-1] != want {
		t.Fatalf("last of %d is due at %v, want %v", n, got[n-1], want)
	}
	if again := take(seq, 0); !slices.Equal(got, again) {
		t.Fatalf("second pass gives %v, want %v", again, got)
	}
	if again := take(Offsets(a, n, seed), 0); !slices.Equal(got, again) {
		t.Fatalf("second call gives %v, want %v", again, got)
	}
}

func TestOffsetsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkOffsets(t, drawArrivals(t), rapid.IntRange(1, 300).Draw(t, "n"), rapid.Int64().Draw(t, "seed"))
	})
}

func FuzzOffsets(f *testing.F) {
	f.Add(uint8(0), 200.0, 0.0, uint16(20), int64(1))
	f.Add(uint8(1), 8.0, 1.0, uint16(20), int64(2))
	f.Add(uint8(2), 8.0, 0.2, uint16(20), int64(3))
	f.Add(uint8(2), 8.0, 100.0, uint16(20), int64(3))
	f.Add(uint8(2), 5e-324, 1e-160, uint16(3), int64(3))
	f.Add(uint8(3), math.Inf(1), 0.0, uint16(20), int64(4))
	f.Add(uint8(4), 0.0, 0.0, uint16(20), int64(5))
	f.Add(uint8(5), 0.0, 0.0, uint16(20), int64(6))
	f.Fuzz(func(t *testing.T, process uint8, rate, cv float64, n uint16, seed int64) {
		a := probes.Arrivals{
			Process: probes.ArrivalProcesses[int(process)%len(probes.ArrivalProcesses)],
			Rate:    rate, CV: cv, MaxConcurrency: 1,
		}
		if Validate(a) != nil || n == 0 {
			return
		}
		if a.Process == probes.ClosedLoop || a.Process == probes.FromTrace {
			// Their due times come from the answers, or with the requests.
			if Offsets(a, int(n), seed) != nil {
				t.Fatalf("%s has offsets of its own", a.Process)
			}
			return
		}
		checkOffsets(t, a, int(n%2000)+1, seed)
	})
}

func TestPlanned(t *testing.T) {
	burst := probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)}
	closed := probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 2}
	for _, test := range []struct {
		name  string
		a     probes.Arrivals
		n     int
		d     time.Duration
		count int
		span  time.Duration
	}{
		{"by count", constantRate(200), 2000, 0, 2000, 10 * time.Second},
		{"poisson by count", poisson(8), 1000, 0, 1000, 125 * time.Second},
		{"by duration", constantRate(10), 0, 10 * time.Second, 100, 10 * time.Second},
		{"one due at the very end is not asked", constantRate(1), 0, 3 * time.Second, 3, 3 * time.Second},
		{"one due just before the end is", constantRate(1), 0, 3*time.Second + 1, 4, 3*time.Second + 1},
		{"count first", constantRate(10), 20, 10 * time.Second, 20, 2 * time.Second},
		{"duration first", constantRate(10), 500, 10 * time.Second, 100, 10 * time.Second},
		{"all due but the last gap is cut", constantRate(1), 4, 3500 * time.Millisecond, 4, 3500 * time.Millisecond},
		{"too many to count one by one", constantRate(1e6), 0, 24 * time.Hour, 86_400_000_000, 24 * time.Hour},
		{"trace", probes.Arrivals{Process: probes.FromTrace}, 7, time.Minute, 7, 0},
		{"gamma of cv 0", gamma(10, 0), 0, 10 * time.Second, 100, 10 * time.Second},
		{"burst", burst, 50, 0, 50, 0},
		{"burst with duration", burst, 50, time.Second, 50, 0},
		{"closed loop by count", closed, 50, time.Second, 50, 0},
		{"closed loop by duration", closed, 0, time.Second, 0, 0},
		{"endless", constantRate(10), 0, 0, 0, 0},
		{"negative count", constantRate(10), -1, time.Second, 0, 0},
		{"negative duration", constantRate(10), 1, -time.Second, 0, 0},
	} {
		count, span := Planned(test.a, test.n, test.d, 1)
		if count != test.count || span != test.span {
			t.Errorf("%s: got %d in %v, want %d in %v", test.name, count, span, test.count, test.span)
		}
	}
}

// Planned promises what Offsets then asks.
func TestPlannedMatchesOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawArrivals(t)
		a.Rate = rapid.Float64Range(0.1, 100).Draw(t, "modest rate")
		n := rapid.IntRange(0, 100).Draw(t, "n")
		d := time.Duration(rapid.Int64Range(1, int64(5*time.Second)).Draw(t, "d"))
		seed := rapid.Int64().Draw(t, "seed")
		want := 0
		for due := range Offsets(a, n, seed) {
			if due >= d {
				break
			}
			want++
		}
		count, span := Planned(a, n, d, seed)
		if count != want {
			t.Fatalf("got %d planned, want the %d due", count, want)
		}
		if span <= 0 || span > d {
			t.Fatalf("got span %v, want it within %v", span, d)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, a := range []probes.Arrivals{
		constantRate(10), constantRate(MaxRate), constantRate(1e-3), poisson(8), gamma(8, 0), gamma(8, 1), gamma(8, MaxCV),
		gamma(8, probes.BurstinessToCV(math.Inf(1))),
		{Process: probes.Burst}, {Process: probes.Burst, Rate: math.Inf(1), MaxConcurrency: 4},
		{Process: probes.FromTrace}, {Process: probes.FromTrace, MaxConcurrency: 3}, {Process: probes.ClosedLoop, MaxConcurrency: 1}, {Process: probes.ClosedLoop, MaxConcurrency: 1, Rate: math.Inf(1)},
		{Process: probes.Poisson, Rate: 8, MaxConcurrency: 4},
	} {
		if err := Validate(a); err != nil {
			t.Errorf("%+v: got %v, want it accepted", a, err)
		}
	}
	const (
		cvText   = "cv: must be from 0 (constant) to 100, is %s; a burstiness b is cv 1/sqrt(b) and must be positive"
		rateText = "rate: must be above 0 requests per second, is %s"
	)
	for _, test := range []struct {
		a    probes.Arrivals
		want []string
	}{
		{gamma(5, probes.BurstinessToCV(0)), []string{fmt.Sprintf(cvText, "+Inf")}},
		{gamma(5, probes.BurstinessToCV(-1)), []string{fmt.Sprintf(cvText, "NaN")}},
		{gamma(5, -0.5), []string{fmt.Sprintf(cvText, "-0.5")}},
		{gamma(5, 101), []string{fmt.Sprintf(cvText, "101")}},
		{poisson(-1), []string{fmt.Sprintf(rateText, "-1")}},
		{poisson(0), []string{fmt.Sprintf(rateText, "0")}},
		{constantRate(math.NaN()), []string{fmt.Sprintf(rateText, "NaN")}},
		{constantRate(math.Inf(-1)), []string{fmt.Sprintf(rateText, "-Inf")}},
		{constantRate(math.Inf(1)), []string{"rate: an infinite rate is a burst, not constant; choose burst"}},
		{poisson(math.Inf(1)), []string{"rate: an infinite rate is a burst, not poisson; choose burst"}},
		{constantRate(1.5e6), []string{"rate: must not be above 1e+06 requests per second, is 1.5e+06"}},
		{probes.Arrivals{Process: probes.Burst, Rate: 8},
			[]string{"rate: a burst has none, is 8; leave it out, or choose constant, poisson or gamma"}},
		{probes.Arrivals{Process: probes.Burst, MaxConcurrency: -1}, []string{"max_concurrency: must not be negative, is -1"}},
		{probes.Arrivals{Process: probes.ClosedLoop},
			[]string{"max_concurrency: a closed loop needs at least 1, it is the number of workers"}},
		{probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1, Rate: -1},
			[]string{"rate: the bound of a closed loop must be from 0 (none) to 1e+06 requests per second, is -1"}},
		{probes.Arrivals{Process: "ramp", Rate: 1},
			[]string{`process: "ramp" is unknown, use one of ["constant" "poisson" "gamma" "burst" "closed" "trace"]`}},
		{probes.Arrivals{Process: probes.FromTrace, Rate: 2}, []string{"rate: a trace has its own times, is 2; leave it out, or stretch the trace"}},
		{probes.Arrivals{Process: probes.Poisson, Rate: 5, MaxConcurrency: 2, StartTogether: true},
			[]string{"start_together: belongs to a closed loop, not to poisson arrivals"}},
		{probes.Arrivals{Process: probes.Gamma, Rate: -1, CV: -2, MaxConcurrency: -3}, []string{
			fmt.Sprintf(rateText, "-1"), fmt.Sprintf(cvText, "-2"), "max_concurrency: must not be negative, is -3",
		}},
	} {
		err := Validate(test.a)
		if err == nil {
			t.Errorf("%+v: accepted, want %q", test.a, test.want)
			continue
		}
		if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%+v: (-want +got)\n%s", test.a, diff)
		}
	}
}

func TestGap(t *testing.T) {
	for _, test := range []struct {
		a    probes.Arrivals
		want time.Duration
	}{
		{probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4, Rate: 0.5}, 2 * time.Second},
		{probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4, Rate: 3}, 333333333},
		{probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}, 0},
		{probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4, Rate: math.Inf(1)}, 0},
		{probes.Arrivals{Process: probes.Poisson, Rate: 2}, 0},
	} {
		if got := Gap(test.a); got != test.want {
			t.Errorf("%+v: got a gap of %v, want %v", test.a, got, test.want)
		}
	}
}

func TestSlotGap(t *testing.T) {
	closed := func(workers int) probes.Arrivals {
		return probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: workers}
	}
	together := closed(64)
	together.StartTogether = true
	for _, test := range []struct {
		a    probes.Arrivals
		want time.Duration
	}{
		{closed(1), 0},
		{closed(2), time.Millisecond},
		{closed(1000), time.Millisecond},
		{closed(4000), 250 * time.Microsecond},
		{together, 0},
		{probes.Arrivals{Process: probes.Burst, MaxConcurrency: 64}, 0},
		{probes.Arrivals{Process: probes.ClosedLoop}, 0},
	} {
		if got := SlotGap(test.a); got != test.want {
			t.Errorf("%+v: got a gap of %v, want %v", test.a, got, test.want)
		}
		if span := time.Duration(max(0, test.a.MaxConcurrency-1)) * SlotGap(test.a); span >= time.Second {
			t.Errorf("%+v: the last worker starts after %v, want within a second", test.a, span)
		}
	}
}

func BenchmarkOffsets(b *testing.B) {
	for _, a := range []probes.Arrivals{constantRate(100), poisson(100), gamma(100, 0.5), gamma(100, 2)} {
		b.Run(fmt.Sprintf("%s/cv=%v", a.Process, a.CV), func(b *testing.B) {
			b.ReportAllocs()
			next, stop := iter.Pull(Offsets(a, 0, 1))
			defer stop()
			for b.Loop() {
				next()
			}
		})
	}
}

func ramped(a probes.Arrivals, ramp time.Duration) probes.Arrivals {
	a.Ramp = ramp
	return a
}

// At 10 a second after a ramp of 4 s, 20 requests are wanted by its end: the first
// one at once, the 5th after half of it.
func TestRamp(t *testing.T) {
	got := take(Offsets(ramped(constantRate(10), 4*time.Second), 41, 1), 0)
	for i, want := range map[int]time.Duration{
		0: 0, 5: 2 * time.Second, 20: 4 * time.Second, 21: 4100 * time.Millisecond, 30: 5 * time.Second, 40: 6 * time.Second,
	} {
		if got[i] != want {
			t.Errorf("request %d is due at %v, want %v", i, got[i], want)
		}
	}
}

// A ramp moves due times and leaves the sequence of gaps alone: undone, it gives the
// trace without it.
func TestRampKeepsTheTrace(t *testing.T) {
	const rate, ramp = 7.0, 3.0
	for _, n := range []int{0, 200} {
		for _, a := range []probes.Arrivals{poisson(rate), gamma(rate, 2), constantRate(rate)} {
			plain := take(Offsets(a, n, 5), 200)
			for i, at := range take(Offsets(ramped(a, ramp*1e9), n, 5), 200) {
				s := at.Seconds()
				requests := rate * (s - ramp/2)
				if s < ramp {
					requests = rate * s * s / (2 * ramp)
				}
				if want := plain[i].Seconds() * rate; math.Abs(requests-want) > 1e-6 {
					t.Fatalf("%s, n=%d: request %d is due when %v requests are wanted, want %v", a.Process, n, i, requests, want)
				}
			}
		}
	}
}

func TestRampIsPlanned(t *testing.T) {
	a := ramped(constantRate(10), 4*time.Second)
	for _, tt := range []struct {
		n     int
		d     time.Duration
		count int
		span  time.Duration
	}{
		{40, 0, 40, 6 * time.Second},
		{0, 6 * time.Second, 40, 6 * time.Second},
		{0, 2 * time.Second, 5, 2 * time.Second},
		{5, time.Minute, 5, 2 * time.Second},
	} {
		if count, span := Planned(a, tt.n, tt.d, 1); count != tt.count || span != tt.span {
			t.Errorf("Planned(%d, %v) = %d over %v, want %d over %v", tt.n, tt.d, count, span, tt.count, tt.span)
		}
	}
}

func TestValidateRamp(t *testing.T) {
	closed := probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1, Ramp: time.Second}
	for _, tt := range []struct {
		a    probes.Arrivals
		want string
	}{
		{ramped(poisson(1), time.Second), ""},
		{ramped(poisson(1), -time.Second), "ramp: must not be negative, is -1s"},
		{closed, "ramp: closed arrivals have no rate that could rise; choose constant, poisson or gamma"},
		{probes.Arrivals{Process: probes.Burst, Ramp: time.Second}, "ramp: burst arrivals have no rate that could rise; choose constant, poisson or gamma"},
	} {
		got := ""
		if err := Validate(tt.a); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Validate(%+v) = %q, want %q", tt.a, got, tt.want)
		}
	}
}
