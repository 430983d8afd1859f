package compare

import (
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// nightly makes runs at hours after a common start; a negative hour is an invalid run.
func nightly(name string, hours ...float64) (runs []*probes.Run) {
	start := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for i, h := range hours {
		run := steady(1, 10)[i%10]
		run.ID, run.Complete, run.Validity.State = name+string(rune('0'+i)), true, probes.Valid
		if h < 0 {
			run.Validity.State, h = probes.Invalid, -h
		}
		run.Start = start.Add(time.Duration(h * float64(time.Hour)))
		runs = append(runs, run)
	}
	return runs
}

func TestNights(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []*probes.Run
		want string
	}{
		{"every night", nightly("a", 0, 24, 48), nightly("b", 1, 25, 49), "a0b0 a1b1 a2b2"},
		{"a night is missing on each side", nightly("a", 0, 48, 72), nightly("b", 1, 25, 73), "a0b0 a2b2"},
		{"an invalid run is no night", nightly("a", 0, -24, 48), nightly("b", 1, 25, 49), "a0b0 a2b2"},
		{"two runs in one night, of which the nearest is taken", nightly("a", 0, 3), nightly("b", 2.5), "a1b0"},
		{"a run is in one pair", nightly("a", 0), nightly("b", 1, 2), "a0b1"},
		{"further apart than a night", nightly("a", 0), nightly("b", 13), ""},
		{"out of order", nightly("a", 24, 0), nightly("b", 25, 1), "a1b1 a0b0"},
		{"no more than ten", nightly("a", 0, 24, 48, 72, 96, 120, 144, 168, 192, 216, 240, 264), nightly("b", 0, 24, 48, 72, 96, 120, 144, 168, 192, 216, 240, 264),
			"a2b2 a3b3 a4b4 a5b5 a6b6 a7b7 a8b8 a9b9 a:b: a;b;"},
	} {
		a, b := Nights(tt.a, tt.b)
		var got []string
		for i := range a {
			got = append(got, a[i].ID+b[i].ID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestHistoryIsSaidToBeOne(t *testing.T) {
	spec := loadSpec()
	answer, _, grounds := Judge(Input{Reference: steady(1, 10), Candidate: steady(1, 10), Spec: &spec, History: true, Last: true})
	if answer != probes.GatePass || !grounds.History || codes(grounds) != NotInterleaved || !strings.HasPrefix(grounds.Reasons[0].Text, "history, not interleaved") {
		t.Errorf("%s with %+v, want pass and a word on the history", answer, grounds)
	}
}
