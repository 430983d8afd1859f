package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func refused(pause time.Duration) *probes.Record {
	return &probes.Record{Outcome: probes.HTTP429, StatusCode: 429, RetryAfter: probes.Known(pause)}
}

func wantHold(t *testing.T, what string, got, want *probes.Hold) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func quietUntil(at time.Time) *probes.Hold {
	return &probes.Hold{Reason: probes.SkipRetryAfter, Until: at}
}
func spentUntil(at time.Time) *probes.Hold {
	return &probes.Hold{Reason: probes.SkipLoadBudget, Until: at}
}

// A server that wants to be left alone is, but not for a year, and its canary goes on
// seeing it.
func TestRetryAfterHoldsRunsBack(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name         string
		answers      []*probes.Record
		load, canary time.Duration // after noon; 0 is not held
	}{
		{"as asked", []*probes.Record{refused(90 * second)}, 90 * second, 90 * second},
		{"a year", []*probes.Record{refused(365 * 24 * time.Hour)}, LongestPause, LongestCanaryPause},
		{"the longer one", []*probes.Record{refused(time.Minute), refused(10 * second)}, time.Minute, time.Minute},
		{"none", []*probes.Record{refused(0)}, 0, 0},
		{"of a success", []*probes.Record{{Outcome: probes.OK, RetryAfter: probes.Known(time.Minute)}}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g Gate
			for _, r := range c.answers {
				g.Answered("t", r, noon)
			}
			for continuous, pause := range map[bool]time.Duration{false: c.load, true: c.canary} {
				ask := Ask{Target: "t", Continuous: continuous}
				if pause > 0 {
					until := noon.Add(pause)
					wantHold(t, "just before its end", g.Held(until.Add(-1), ask), quietUntil(until))
					if _, hold := g.Admit(until.Add(-1), Ask{Target: "other"}, ask); hold == nil {
						t.Error("a run that needs two targets may begin, want it held by the second")
					}
				}
				wantHold(t, "at its end", g.Held(noon.Add(pause), ask), nil)
			}
			wantHold(t, "another target", g.Held(noon, Ask{Target: "u"}), nil)
		})
	}
}

// What a run may use is set aside while it goes on, and what it has used counts until
// the day is over.
func TestTokensOfADay(t *testing.T) {
	var g Gate
	ask := Ask{Target: "t", PerDay: 1000, Tokens: 400}
	midnight := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	first, _ := g.Admit(noon, ask)
	second, hold := g.Admit(noon, ask)
	wantHold(t, "two runs that fit", hold, nil)
	_, hold = g.Admit(noon, ask)
	wantHold(t, "a third that might not", hold, spentUntil(midnight))
	wantHold(t, "as things stand", g.Held(noon, ask), nil) // nothing has been used so far
	first.Ended(noon, map[string]float64{"t": 150, "u": 9})
	wantHold(t, "after the first used less", g.Held(noon, ask), nil)
	second.Ended(noon, map[string]float64{"t": 450.4})
	wantHold(t, "601 of 1000 used", g.Held(noon, ask), spentUntil(midnight))
	wantHold(t, "exactly the rest", g.Held(noon, Ask{Target: "t", PerDay: 1000, Tokens: 399}), nil)
	wantHold(t, "of unknown size", g.Held(noon, Ask{Target: "t", PerDay: 1000}), nil)
	wantHold(t, "of unknown size, nothing left", g.Held(noon, Ask{Target: "t", PerDay: 600}), spentUntil(midnight))
	wantHold(t, "without a limit", g.Held(noon, Ask{Target: "t", Tokens: 1e9}), nil)
	if got, want := string(g.Encode("t")), "20574 601"; got != want {
		t.Errorf("encoded %q, want %q", got, want)
	}

	var next Gate // of the next process
	if err := next.Restore("t", g.Encode("t")); err != nil {
		t.Fatal(err)
	}
	wantHold(t, "after a restart", next.Held(noon, ask), spentUntil(midnight))
	wantHold(t, "on the next day", next.Held(midnight, ask), nil)
	for text, want := range map[string]string{
		"x 1": `read what target t has used: day: strconv.ParseInt: parsing "x": invalid syntax`,
		"1":   `read what target t has used: tokens: strconv.ParseFloat: parsing "": invalid syntax`,
	} {
		if err := next.Restore("t", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("Restore(%q) = %v, want %s", text, err, want)
		}
	}
}

// No schedule has spread unplanned runs, so each waits until what was sent before it is
// within the rate.
func TestUnplannedRunsKeepTheRate(t *testing.T) {
	var g Gate
	planned := Ask{Target: "t", Span: 2 * time.Second}
	unplanned := planned
	unplanned.Unplanned = true
	for _, ask := range []Ask{planned, planned} {
		if _, hold := g.Admit(noon, ask); hold != nil {
			t.Errorf("a planned run is held: %+v", hold)
		}
	}
	wantHold(t, "right after", g.Held(noon.Add(2*time.Second-1), unplanned), spentUntil(noon.Add(2*time.Second)))
	if _, hold := g.Admit(noon.Add(2*time.Second), unplanned); hold != nil {
		t.Errorf("two seconds later it is held: %+v", hold)
	}
	wantHold(t, "right after that", g.Held(noon.Add(2*time.Second), unplanned), spentUntil(noon.Add(4*time.Second)))
}

// Names of discovered targets never end, so what means nothing any more is dropped.
func TestAccountsOfGoneTargetsAreDropped(t *testing.T) {
	var g Gate
	for _, target := range []string{"used", "held", "running"} {
		admission, _ := g.Admit(noon, Ask{Target: target, PerDay: 100, Tokens: 10})
		switch target {
		case "used":
			admission.Ended(noon, map[string]float64{target: 10})
		case "held":
			admission.Ended(noon, nil)
			g.Answered(target, refused(time.Hour), noon.Add(11*time.Hour+30*time.Minute))
		}
	}
	if _, hold := g.Admit(noon.Add(12*time.Hour), Ask{Target: "new"}); hold != nil {
		t.Fatal(hold)
	}
	var left []string
	for _, target := range []string{"used", "held", "running", "new"} {
		if g.accounts[target] != nil {
			left = append(left, target)
		}
	}
	if d := cmp.Diff([]string{"held", "running", "new"}, left); d != "" {
		t.Errorf("accounts (-want +got):\n%s", d)
	}
}
