package regression

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

// wave are quiet nights: a pattern of 2 % around a level, which has no luck in it.
func wave(level float64, nights int) []float64 {
	pattern := []float64{0, 0.02, -0.01, 0.01, -0.02, 0.005, -0.015, 0.015, -0.005}
	out := make([]float64, nights)
	for i := range out {
		out[i] = level * math.Exp(pattern[i%len(pattern)])
	}
	return out
}

// quiet are the settings for series of such nights.
func quiet() Settings {
	return Settings{Direction: 1, Threshold: 4, MinEffect: 0.03, Prior: 0.02, Floor: 0.003}
}

// said is an event without its sizes.
type said struct {
	Kind         EventKind
	Night, Since int
}

func heard(track Track) []said {
	var out []said
	for _, e := range track.Events {
		out = append(out, said{e.Kind, e.Night, e.Since})
	}
	return out
}

func day(n int) time.Time { return firstNight.AddDate(0, 0, n) }

func TestStates(t *testing.T) {
	step := slices.Concat(wave(100, 40), wave(120, 6))
	spike := slices.Concat(wave(100, 40), []float64{115})
	tests := []struct {
		name       string
		values     []float64
		settings   func(*Settings)
		said       []probes.Acknowledgement
		events     []said
		state      probes.ChangeState
		onset      int
		segment    int
		baseline   int
		wantShift  float64 // of the state, in natural units; NaN is unknown
		shiftWithn float64
	}{
		{name: "learning", values: wave(100, 11), state: probes.ChangeLearning, onset: -1, wantShift: math.NaN()},
		{name: "first_verdict", values: wave(100, 12), state: probes.ChangeNone, onset: -1, baseline: 10, wantShift: -0.0099, shiftWithn: 0.011},
		{name: "one_odd_night", values: spike, state: probes.ChangeSuspected, onset: 40, baseline: 26, wantShift: 0.15, shiftWithn: 0.011},
		{
			name: "two_nights_are_enough", values: step[:42], events: []said{{Regressed, 41, 40}},
			state: probes.ChangeWorse, onset: 40, baseline: 27, wantShift: 0.21, shiftWithn: 0.011,
		},
		{
			name: "accepted", values: step, events: []said{{Regressed, 41, 40}, {Accepted, 45, 40}},
			said:  []probes.Acknowledgement{{At: day(46)}},
			state: probes.ChangeLearning, onset: -1, segment: 40, wantShift: math.NaN(),
		},
		{
			name: "accepted_before_there_was_anything", values: step, events: []said{{Regressed, 41, 40}},
			said:  []probes.Acknowledgement{{At: day(30)}},
			state: probes.ChangeWorse, onset: 40, baseline: 27, wantShift: 0.20, shiftWithn: 0.011,
		},
		{
			name: "accepted_from_a_night_on", values: step, events: []said{{Regressed, 41, 40}, {Accepted, 45, 42}},
			said:  []probes.Acknowledgement{{At: day(46), Since: day(42)}},
			state: probes.ChangeLearning, onset: -1, segment: 42, wantShift: math.NaN(),
		},
		{
			name: "accepted_by_itself", values: slices.Concat(wave(100, 40), wave(120, 40)),
			settings: func(s *Settings) { s.AutoAccept = 30 },
			events:   []said{{Regressed, 41, 40}, {Accepted, 71, 40}},
			state:    probes.ChangeNone, onset: -1, segment: 40, baseline: 25, wantShift: 0, shiftWithn: 0.02,
		},
		{
			name: "worse_again", values: slices.Concat(wave(100, 40), wave(120, 20), wave(150, 6)),
			events: []said{{Regressed, 41, 40}, {Worsened, 61, 60}},
			state:  probes.ChangeWorse, onset: 40, baseline: 27, wantShift: 0.515, shiftWithn: 0.011,
		},
		{
			name: "recovered", values: slices.Concat(wave(100, 40), wave(120, 10), wave(100, 5)),
			events: []said{{Regressed, 41, 40}, {Recovered, 52, 50}},
			state:  probes.ChangeNone, onset: -1, baseline: 30, wantShift: -0.02, shiftWithn: 0.011,
		},
		{
			name: "an_improvement_is_kept", values: slices.Concat(wave(100, 40), wave(85, 4)),
			events: []said{{Improved, 42, 40}},
			state:  probes.ChangeBetter, onset: 40, segment: 40, baseline: 28, wantShift: -0.145, shiftWithn: 0.011,
		},
		{
			name: "losing_it_is_a_regression", values: slices.Concat(wave(100, 40), wave(85, 20), wave(100, 3)),
			events: []said{{Improved, 42, 40}, {Regressed, 61, 60}},
			state:  probes.ChangeWorse, onset: 60, segment: 40, baseline: 10, wantShift: 0.19, shiftWithn: 0.02,
		},
		{
			name: "creeping", values: creeping(80, 0.0008), events: []said{{Drifted, 70, 70}},
			state: probes.ChangeDrift, onset: 70, baseline: 30, wantShift: 0.0606, shiftWithn: 0.011,
		},
		{
			name: "what_creeps_is_accepted", values: creeping(80, 0.0008), events: []said{{Drifted, 70, 70}, {Accepted, 73, 67}},
			said:  []probes.Acknowledgement{{At: day(74).Add(-time.Hour)}},
			state: probes.ChangeNone, onset: -1, segment: 67, baseline: 10, wantShift: 0.0, shiftWithn: 0.03,
		},
		{
			name: "bimodal", values: bimodal(40), events: []said{{Unstable, 20, 20}},
			state: probes.ChangeUnstable, onset: -1, baseline: 25, wantShift: 1, shiftWithn: 1.01,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			settings := quiet()
			if tt.settings != nil {
				tt.settings(&settings)
			}
			got := Detect(nightly(tt.values), settings, Nightly, tt.said)
			if diff := cmp.Diff(tt.events, heard(got)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got.State != tt.state || got.Onset != tt.onset || got.Segment != tt.segment || got.BaselineNights != tt.baseline {
				t.Errorf("state %s, onset %d, segment %d, baseline of %d nights; want %s, %d, %d, %d",
					got.State, got.Onset, got.Segment, got.BaselineNights, tt.state, tt.onset, tt.segment, tt.baseline)
			}
			shift, known := got.Shift.Get()
			if known == math.IsNaN(tt.wantShift) || known && math.Abs(math.Expm1(shift)-tt.wantShift) > tt.shiftWithn {
				t.Errorf("shift = %v (known: %v), want %v", math.Expm1(shift), known, tt.wantShift)
			}
		})
	}
}

// creeping gets worse by a share every night.
func creeping(nights int, share float64) []float64 {
	out := wave(100, nights)
	for i := range out {
		out[i] *= math.Exp(float64(i) * share)
	}
	return out
}

func bimodal(nights int) []float64 {
	out := wave(100, nights)
	for i := range out {
		if i%3 == 1 {
			out[i] *= 2
		}
	}
	return out
}

// TestNoticeOfInstability: a series on the edge is not news every week.
func TestNoticeOfInstability(t *testing.T) {
	values := wave(100, 150)
	for _, i := range []int{5, 8, 12, 75, 80, 82, 86, 88, 90} {
		values[i] *= 2
	}
	got := heard(Detect(nightly(values), quiet(), Nightly, nil))
	if diff := cmp.Diff([]said{{Unstable, 19, 19}, {Unstable, 91, 91}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGaps: nights that are missing are no nights, and what is older than 90 days is no
// baseline.
func TestGaps(t *testing.T) {
	nights := nightly(slices.Concat(wave(100, 30), wave(120, 2)))
	for i := 30; i < len(nights); i++ {
		nights[i].At = nights[i].At.AddDate(0, 0, 14)
	}
	if got := heard(Detect(nights, quiet(), Nightly, nil)); !slices.Equal(got, []said{{Regressed, 31, 30}}) {
		t.Errorf("after two weeks without a run: %v, want a regression", got)
	}
	for i := 30; i < len(nights); i++ {
		nights[i].At = nights[i].At.AddDate(0, 0, 80)
	}
	got := Detect(nights, quiet(), Nightly, nil)
	if len(got.Events) != 0 || got.State != probes.ChangeLearning {
		t.Errorf("after three months: %v %v, want nothing but learning", heard(got), got.State)
	}
}

// TestFloorOfDisplayedDigits: a value that the server rounds to 0.01 jumps by that.
func TestFloorOfDisplayedDigits(t *testing.T) {
	values := slices.Repeat([]float64{1.01}, 30)
	settings := Settings{Direction: -1, Threshold: 4, MinEffect: 0.002, Prior: 0, Floor: 0.001, DisplayStep: 0.01}
	track := Detect(nightly(values), settings, Nightly, nil)
	if got, want := track.Sigma.Or(0), 0.005/1.01; math.Abs(got-want) > 1e-12 {
		t.Errorf("sigma = %v, want half a displayed step, %v", got, want)
	}
}

// TestNoForesight: what is said of a night depends on no later one, so that what was
// reported yesterday still stands when everything is computed again today.
func TestNoForesight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nights := drawNights(t)
		cut := rapid.IntRange(0, len(nights)).Draw(t, "cut")
		settings := quiet()
		settings.AutoAccept = rapid.SampledFrom([]int{0, 20}).Draw(t, "auto")
		whole := Detect(nights, settings, Nightly, nil).Events
		until := slices.DeleteFunc(slices.Clone(whole), func(e Event) bool { return e.Night >= cut })
		part := Detect(nights[:cut], settings, Nightly, nil).Events
		if len(until) == 0 && len(part) == 0 {
			return
		}
		if diff := cmp.Diff(until, part); diff != "" {
			t.Fatalf("(-whole +part):\n%s", diff)
		}
	})
}

// TestUnitsDoNotMatter: milliseconds or seconds, times or rates.
func TestUnitsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nights := drawNights(t)
		want := Detect(nights, quiet(), Nightly, nil)
		scaled, inverted := slices.Clone(nights), slices.Clone(nights)
		for i := range nights {
			scaled[i].Value *= 1024 // exact, but not in logarithms
			inverted[i].Value = 1 / nights[i].Value
		}
		rates := quiet()
		rates.Direction = -1
		for name, got := range map[string]Track{
			"scaled": Detect(scaled, quiet(), Nightly, nil), "inverted": Detect(inverted, rates, Nightly, nil),
		} {
			if !slices.Equal(heard(want), heard(got)) || want.State != got.State {
				t.Fatalf("%s: %v %v, want %v %v", name, heard(got), got.State, heard(want), want.State)
			}
		}
	})
}

// drawNights are a random history with up to three steps.
func drawNights(t *rapid.T) []Night {
	n := newNoise(rapid.Uint64().Draw(t, "seed"), 0.03)
	var out []Night
	level := 0.0
	for range rapid.IntRange(1, 4).Draw(t, "levels") {
		for range rapid.IntRange(1, 50).Draw(t, "nights") {
			out = append(out, Night{At: day(len(out)), Value: math.Exp(level + n.night()), Runs: 1})
		}
		level += rapid.Float64Range(-0.4, 0.4).Draw(t, "step")
	}
	return out
}
