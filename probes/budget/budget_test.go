package budget

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		name      string
		events    Events
		objective float64
		want      probes.Optional[float64]
	}{
		{"nothing happened", Events{}, 0.99, probes.Optional[float64]{}},
		{"untouched", Events{Good: 1}, 0.99, probes.Known(1.0)},
		{"half spent", Events{Good: 995, Bad: 5}, 0.99, probes.Known(0.5)},
		{"used up", Events{Good: 990, Bad: 10}, 0.99, probes.Known(0.0)},
		{"overspent three times", Events{Good: 960, Bad: 40}, 0.99, probes.Known(-3.0)},
		{"three nines", Events{Good: 3999, Bad: 1}, 0.999, probes.Known(0.75)},
		{"all bad", Events{Bad: 7}, 0.9, probes.Known(-9.0)},
	} {
		if got := Remaining(c.events, c.objective); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWindow(t *testing.T) {
	var l Ledger
	for minutes := 0; minutes <= 60; minutes += 5 { // 13 events, the last one at noon
		l.Add(noon.Add(time.Duration(minutes-60)*time.Minute), minutes%10 == 0)
	}
	for _, c := range []struct {
		name   string
		now    time.Time
		window time.Duration
		want   Events
	}{
		{"all", noon, 24 * time.Hour, Events{7, 6}},
		{"a second has a part of two slots", noon, time.Second, Events{1, 1}},
		{"the slot that begins now", noon.Add(time.Minute), time.Second, Events{1, 0}},
		{"the edge is out", noon, 10 * time.Minute, Events{2, 1}},
		{"a nanosecond more is the whole slot before", noon, 10*time.Minute + time.Nanosecond, Events{2, 2}},
		{"half an hour", noon.Add(4 * time.Minute), 30 * time.Minute, Events{4, 3}},
		{"long after", noon.Add(48 * time.Hour), 24 * time.Hour, Events{}},
		{"before", noon.Add(-2 * time.Hour), time.Hour, Events{}},
	} {
		if got := l.Within(c.now, c.window); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Whatever the order in which events come, and whichever days have been encoded,
// stored and restored on the way, the window holds the events whose slots are in it.
func TestLedgerAgainstAList(t *testing.T) {
	type event struct {
		at   time.Time
		good bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var l Ledger
		var all []event
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			e := event{noon.Add(time.Duration(rapid.Int64Range(0, 10*24*3600).Draw(t, "second")) * time.Second), rapid.Bool().Draw(t, "good")}
			all = append(all, e)
			number := l.Add(e.at, e.good)
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				var next Ledger
				for d := number - 11; d <= number+11; d++ {
					if coded := l.Day(d); coded != nil {
						if err := next.Restore(d, coded); err != nil {
							t.Fatal(err)
						}
						if again := next.Day(d); !bytes.Equal(coded, again) {
							t.Fatalf("day %d after a restart: got %x, want %x", d, again, coded)
						}
					}
				}
				l = next
			}
		}
		now := noon.Add(time.Duration(rapid.Int64Range(0, 10*24*3600).Draw(t, "now")) * time.Second)
		window := time.Duration(rapid.Int64Range(1, 11*24*3600).Draw(t, "window")) * time.Second
		var want Events
		for _, e := range all {
			start := e.at.Truncate(Slot)
			if !start.Add(Slot).After(now.Add(-window)) || start.After(now) {
				continue
			}
			if e.good {
				want.Good++
			} else {
				want.Bad++
			}
		}
		if got := l.Within(now, window); got != want {
			t.Fatalf("window of %v at %v: got %+v, want %+v", window, now, got, want)
		}
		l.Forget(now.Add(-window))
		if got := l.Within(now, window); got != want {
			t.Fatalf("after what is older was forgotten: got %+v, want %+v", got, want)
		}
	})
}

func TestForget(t *testing.T) {
	var l Ledger
	old := l.Add(noon, true)
	l.Add(noon.Add(24*time.Hour), true)
	l.Forget(DayEnd(old))
	if got := l.Within(noon.Add(24*time.Hour), 1000*time.Hour); got != (Events{Good: 1}) || l.Day(old) != nil {
		t.Errorf("after forgetting a day: got %+v and %x, want one event and nothing", got, l.Day(old))
	}
}

func TestRestoreDamaged(t *testing.T) {
	for _, coded := range [][]byte{{0x80}, {1, 2}, {0xff, 0xff, 1, 1, 1}, {1, 1, 1, 0, 1, 1}, {0xa0, 0x02, 1, 1}, {0x9f, 0x02, 1, 1, 1, 1, 1}} {
		var l Ledger
		if err := l.Restore(3, coded); err == nil || l.Day(3) != nil {
			t.Errorf("restore %x: got %v and %x, want an error and nothing", coded, err, l.Day(3))
		}
	}
}

// A pool of targets that are asked twice a minute, 30 days of it.
func BenchmarkWithin30Days(b *testing.B) {
	var l Ledger
	for at := noon; at.Before(noon.Add(30 * 24 * time.Hour)); at = at.Add(30 * time.Second) {
		l.Add(at, true)
	}
	size := 0
	for _, d := range l.days {
		size += len(l.Day(d.number))
	}
	b.ReportAllocs()
	for b.Loop() {
		if e := l.Within(noon.Add(30*24*time.Hour), 30*24*time.Hour); e.Good != 86400 {
			b.Fatal(e)
		}
	}
	b.ReportMetric(float64(size)/30, "B/day")
}
