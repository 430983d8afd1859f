package regression

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// TestAtLeast has values of the binomial distribution as summed by hand or by exact
// arithmetic elsewhere.
func TestAtLeast(t *testing.T) {
	for _, tt := range []struct {
		k, n int
		p    float64
		want float64
	}{
		{0, 10, 0.3, 1},
		{1, 10, 0.1, 1 - math.Pow(0.9, 10)},
		{10, 10, 0.5, math.Pow(0.5, 10)},
		{2, 3, 0.5, 0.5},
		{3, 4, 0.25, 4*math.Pow(0.25, 3)*0.75 + math.Pow(0.25, 4)},
		{1, 4, 0.9, 1 - math.Pow(0.1, 4)},
		{5, 4, 0.5, 0},
		{3, 4, 0, 0},
		{3, 4, 1, 1},
	} {
		if got := atLeast(tt.k, tt.n, tt.p); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("P(X >= %d | n = %d, p = %v) = %v, want %v", tt.k, tt.n, tt.p, got, tt.want)
		}
	}
	for k := range 60 { // both ways of summing agree
		if got, want := atLeast(k, 1000, 0.013), 1-below(k, 1000, 0.013); k > 0 && math.Abs(got-want) > 1e-10 {
			t.Fatalf("k = %d: %v and %v", k, got, want)
		}
	}
}

// failing are nights of 1000 requests each.
func failing(counts ...int) []RateNight {
	out := make([]RateNight, len(counts))
	for i, n := range counts {
		out[i] = RateNight{At: day(i), Failed: n, Judged: 1000}
	}
	return out
}

func TestDetectRate(t *testing.T) {
	quiet := []int{0, 1, 0, 0, 2, 0, 0, 1, 0, 0, 0, 1} // 5 in 12 nights: 0.04 %
	tests := []struct {
		name     string
		counts   []int
		said     []probes.Acknowledgement
		events   []said
		state    probes.ChangeState
		baseline float64
		shift    float64
	}{
		{name: "learning", counts: quiet[:10], state: probes.ChangeLearning},
		{name: "quiet", counts: quiet, state: probes.ChangeNone, baseline: 1 - 4.0/11000, shift: 1 - 0.999/(1-4.0/11000)},
		// The bound is 0.54 %; at that rate one night in 6200 has 16 failures or more, one in 2000 has 15, one in 260 has 13.
		{name: "many_but_not_surely", counts: append(slices.Clone(quiet), 13, 13, 13), state: probes.ChangeNone, baseline: 1 - 31.0/14000, shift: 1 - 0.987/(1-31.0/14000)},
		{name: "one_bad_night", counts: append(slices.Clone(quiet), 16), state: probes.ChangeSuspected, baseline: 1 - 5.0/12000, shift: 1 - 0.984/(1-5.0/12000)},
		{
			name: "two_of_three", counts: append(slices.Clone(quiet), 16, 0, 18), events: []said{{Regressed, 14, 12}},
			state: probes.ChangeWorse, baseline: 1 - 5.0/13000, shift: 1 - (1-34.0/3000)/(1-5.0/13000),
		},
		{
			name: "at_once", counts: append(slices.Clone(quiet), 100), events: []said{{Regressed, 12, 12}},
			state: probes.ChangeWorse, baseline: 1 - 5.0/12000, shift: 1 - 0.9/(1-5.0/12000),
		},
		{
			name: "recovered", counts: append(slices.Clone(quiet), 100, 90, 0, 1, 0), events: []said{{Regressed, 12, 12}, {Recovered, 16, 14}},
			state: probes.ChangeNone, baseline: 1 - 6.0/14000, shift: 1 - 1/(1-6.0/14000),
		},
		{
			name: "accepted", counts: append(slices.Clone(quiet), 100, 90, 95), said: []probes.Acknowledgement{{At: day(15)}},
			events: []said{{Regressed, 12, 12}, {Accepted, 14, 12}}, state: probes.ChangeLearning,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := detectRate(failing(tt.counts...), tt.said)
			if diff := cmp.Diff(tt.events, heard(got)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got.State != tt.state {
				t.Errorf("state = %s, want %s", got.State, tt.state)
			}
			if b := got.Baseline.Or(0); math.Abs(b-tt.baseline) > 1e-12 {
				t.Errorf("baseline = %v, want %v", b, tt.baseline)
			}
			if s := got.Shift.Or(0); math.Abs(s-tt.shift) > 1e-12 {
				t.Errorf("shift = %v, want %v", s, tt.shift)
			}
		})
	}
}
