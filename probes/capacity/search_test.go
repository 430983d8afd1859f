package capacity

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func passed(rate float64) probes.Step {
	return probes.Step{Rate: rate, Judged: 300, Passed: true, Validity: probes.Validity{State: probes.Valid}}
}

func failed(rate float64) probes.Step {
	return probes.Step{Rate: rate, Judged: 300, Over: map[string]int{"a": 9}, Validity: probes.Validity{State: probes.Valid}}
}

func saturated(rate float64) probes.Step {
	s := failed(rate)
	s.Aborted = true
	return s
}

func invalid(rate float64) probes.Step {
	return probes.Step{Rate: rate, Judged: 300, Passed: true, Validity: probes.Validity{State: probes.Invalid}}
}

func known(x float64) probes.Optional[float64] { return probes.Known(x) }

func TestNext(t *testing.T) {
	doubling := Search{Plan: probes.SweepPlan{Rates: []float64{1, 2, 4, 8}}}
	cold := Search{Plan: probes.SweepPlan{Start: 2}}
	warm := Search{Last: known(10)}
	capped := Search{Plan: probes.SweepPlan{Start: 2, MaxRate: 5}}
	short := Search{Plan: probes.SweepPlan{Start: 2, MaxSteps: 3}}
	for _, tt := range []struct {
		name   string
		search Search
		steps  []probes.Step
		rate   float64
		end    probes.SweepEnd
	}{
		{"given: first", doubling, nil, 1, ""},
		{"given: next after a pass", doubling, []probes.Step{passed(1)}, 2, ""},
		{"given: next after a miss", doubling, []probes.Step{passed(1), failed(2)}, 4, ""},
		{"given: an invalid step is passed over", doubling, []probes.Step{passed(1), invalid(2)}, 4, ""},
		{"given: stop when saturated", doubling, []probes.Step{passed(1), saturated(2)}, 0, probes.SweepSaturated},
		{"given: stop when half is over", doubling, []probes.Step{passed(1), {Rate: 2, Judged: 300, Over: map[string]int{"a": 151}}}, 0, probes.SweepSaturated},
		{"given: an invalid step does not saturate", doubling, []probes.Step{{Rate: 1, Aborted: true, Judged: 300, Validity: probes.Validity{State: probes.Invalid}}}, 2, ""},
		{"given: done", doubling, []probes.Step{passed(1), passed(2), passed(4), failed(8)}, 0, probes.SweepRatesDone},
		{"given: nothing usable", doubling, []probes.Step{invalid(1), invalid(2), invalid(4), invalid(8)}, 0, probes.SweepInvalid},

		{"start: as told", cold, nil, 2, ""},
		{"start: one request after the other", Search{Alone: known(0.25)}, nil, 4, ""},
		{"start: nothing known", Search{}, nil, 1, ""},
		{"cold: double", cold, []probes.Step{passed(2), passed(4)}, 8, ""},
		{"cold: halve", cold, []probes.Step{failed(2)}, 1, ""},
		{"cold: bisect by ratio", cold, []probes.Step{passed(2), passed(4), failed(8)}, math.Sqrt(32), ""},
		{"cold: go on in the upper half", cold, []probes.Step{passed(4), failed(8), passed(6)}, math.Sqrt(48), ""},
		{"cold: converged", cold, []probes.Step{passed(4), failed(4.16)}, 0, probes.SweepConverged},
		{"cold: not yet", cold, []probes.Step{passed(4), failed(4.1601)}, math.Sqrt(4 * 4.1601), ""},
		{"cold: a pass above a miss is not believed", cold, []probes.Step{passed(2), failed(4), passed(8)}, math.Sqrt(8), ""},
		{"cold: nothing is low enough", cold, []probes.Step{failed(2.0 / 1024)}, 0, probes.SweepBelow},
		{"cold: an invalid step is measured again", cold, []probes.Step{passed(2), invalid(4)}, 4, ""},
		{"cold: what failed at other rates does not count", cold, []probes.Step{invalid(2), passed(2), invalid(4)}, 4, ""},
		{"cold: but only once", cold, []probes.Step{passed(2), invalid(4), invalid(4)}, 0, probes.SweepInvalid},

		{"warm: below the last", warm, nil, 9, ""},
		{"warm: above the last", warm, []probes.Step{passed(9)}, 11, ""},
		{"warm: bisect", warm, []probes.Step{passed(9), failed(11)}, math.Sqrt(99), ""},
		{"warm: expand", warm, []probes.Step{passed(9), passed(11)}, 11 * 1.15, ""},
		{"warm: shrink", warm, []probes.Step{failed(9)}, 9 * 0.85, ""},
		{"warm: shrink more", warm, []probes.Step{failed(9), failed(9 * 0.85)}, 9 * 0.85 * 0.85, ""},

		{"capped: not above", capped, []probes.Step{passed(2), passed(4)}, 5, ""},
		{"capped: done", capped, []probes.Step{passed(2), passed(4), passed(5)}, 0, probes.SweepCapped},
		{"capped: below the cap", capped, []probes.Step{passed(4), failed(5)}, math.Sqrt(20), ""},
		{"capped: start", Search{Plan: probes.SweepPlan{MaxRate: 5}, Last: known(10)}, nil, 5, ""},
		{"steps used up", short, []probes.Step{passed(2), passed(4), failed(8)}, 0, probes.SweepSteps},
		{"converged with the last step", short, []probes.Step{passed(2), passed(4), failed(4.1)}, 0, probes.SweepConverged},
	} {
		rate, end := tt.search.Next(tt.steps)
		if math.Abs(rate-tt.rate) > 1e-12 || end != tt.end {
			t.Errorf("%s: %v %q, want %v %q", tt.name, rate, end, tt.rate, tt.end)
		}
	}
}

// A search on a server that passes exactly below its capacity brackets it to 4 %,
// in few steps, never above the cap and never at one rate twice.
func TestSearchConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := math.Exp(rapid.Float64Range(math.Log(0.05), math.Log(500)).Draw(t, "truth log"))
		s := Search{Plan: probes.SweepPlan{Start: math.Exp(rapid.Float64Range(math.Log(0.05), math.Log(50)).Draw(t, "start log"))}}
		if rapid.Bool().Draw(t, "warm") {
			s.Last = known(truth * rapid.Float64Range(0.8, 1.25).Draw(t, "moved by"))
		}
		s.Plan.MaxSteps = 64
		if rapid.Bool().Draw(t, "capped") {
			s.Plan.MaxRate = rapid.Float64Range(0.01, 1000).Draw(t, "cap")
		}
		var steps []probes.Step
		var rates []float64
		for {
			rate, end := s.Next(steps)
			if end != "" {
				low, high := bracket(steps)
				switch {
				case end == probes.SweepConverged && (low >= truth || high < truth || high/low > converged):
					t.Fatalf("converged on [%v, %v], the truth is %v", low, high, truth)
				case end == probes.SweepCapped && (low != s.Plan.MaxRate || truth < low):
					t.Fatalf("capped at %v of %v, the truth is %v", low, s.Plan.MaxRate, truth)
				case end != probes.SweepConverged && end != probes.SweepCapped && end != probes.SweepBelow:
					t.Fatalf("ended with %s after %d steps", end, len(steps))
				case s.Last.IsKnown() && s.Plan.MaxRate == 0 && len(steps) > 12:
					t.Fatalf("a warm search took %d steps: %v", len(steps), rates)
				}
				return
			}
			if slices.Contains(rates, rate) || s.Plan.MaxRate > 0 && rate > s.Plan.MaxRate {
				t.Fatalf("%v is wanted after %v, cap %v", rate, rates, s.Plan.MaxRate)
			}
			rates = append(rates, rate)
			if rate < truth {
				steps = append(steps, passed(rate))
			} else {
				steps = append(steps, failed(rate))
			}
		}
	})
}

func TestValid(t *testing.T) {
	for _, tt := range []struct {
		rates []float64
		want  bool
	}{
		{[]float64{1, 2, 4}, true}, {[]float64{0.5}, true}, {nil, false}, {[]float64{2, 1}, false}, {[]float64{1, 1}, false},
		{[]float64{0, 1}, false}, {[]float64{-1, 1}, false}, {[]float64{1, math.Inf(1)}, false}, {[]float64{math.NaN()}, false},
	} {
		if got := Valid(tt.rates); got != tt.want {
			t.Errorf("Valid(%v) = %v, want %v", tt.rates, got, tt.want)
		}
	}
}

func TestIsotonic(t *testing.T) {
	for _, tt := range []struct{ values, weights, want []float64 }{
		{nil, nil, []float64{}},
		{[]float64{1, 2, 3}, []float64{1, 1, 1}, []float64{1, 2, 3}},
		{[]float64{3, 2, 1}, []float64{1, 1, 1}, []float64{2, 2, 2}},
		{[]float64{1, 4, 2, 5}, []float64{1, 1, 1, 1}, []float64{1, 3, 3, 5}},
		{[]float64{1, 4, 2, 5}, []float64{1, 1, 3, 1}, []float64{1, 2.5, 2.5, 5}},
		{[]float64{5, 1, 1, 1}, []float64{1, 1, 1, 1}, []float64{2, 2, 2, 2}},
	} {
		if diff := cmp.Diff(tt.want, isotonic(tt.values, tt.weights)); diff != "" {
			t.Errorf("isotonic(%v, %v) (-want +got):\n%s", tt.values, tt.weights, diff)
		}
	}
}
