package schedule

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

func mustParse(t testing.TB, s probes.Schedule) Plan {
	t.Helper()
	p, err := Parse(s)
	if err != nil {
		t.Fatalf("Parse(%+v): %v", s, err)
	}
	return p
}

func utcMinutes(times []time.Time) string {
	var out []string
	for _, at := range times {
		out = append(out, at.UTC().Format("2006-01-02T15:04Z"))
	}
	return strings.Join(out, " ")
}

func localTime(t *testing.T, zone, text string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestCronAtClockChanges(t *testing.T) {
	text, err := os.ReadFile("testdata/dst.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	if len(lines) != 4 {
		t.Fatalf("testdata/dst.tsv has %d rows, want 4", len(lines))
	}
	lines = append(lines,
		// A time that comes twice: the first of the two only.
		"30 2 * * *\tEurope/Berlin\t2026-10-24 12:00\t2026-10-25T00:30Z 2026-10-26T01:30Z",
		"30 1 * * *\tAmerica/New_York\t2026-10-31 12:00\t2026-11-01T05:30Z 2026-11-02T06:30Z",
		"0,30 2-3 * * *\tEurope/Berlin\t2026-10-25 00:00\t2026-10-25T00:00Z 2026-10-25T00:30Z 2026-10-25T02:00Z 2026-10-25T02:30Z 2026-10-26T01:00Z",
		// Several times inside the gap: once after it.
		"*/15 2 * * *\tEurope/Berlin\t2027-03-28 00:00\t2027-03-28T01:00Z 2027-03-29T00:00Z 2027-03-29T00:15Z",
		// The end of the gap is a start of its own as well: once.
		"0 2,3 * * *\tEurope/Berlin\t2027-03-28 00:00\t2027-03-28T01:00Z 2027-03-29T00:00Z 2027-03-29T01:00Z",
		// Hourly plans follow hours when the clock is set back too.
		"30 * * * *\tEurope/Berlin\t2026-10-25 01:00\t2026-10-24T23:30Z 2026-10-25T00:30Z 2026-10-25T01:30Z 2026-10-25T02:30Z",
		"0 0-23 * * *\tEurope/Berlin\t2027-03-28 00:00\t2027-03-28T00:00Z 2027-03-28T01:00Z 2027-03-28T02:00Z",
		// Half an hour (Lord Howe), and a day that never was (Samoa).
		"15 2 * * *\tAustralia/Lord_Howe\t2026-10-03 12:00\t2026-10-03T15:30Z 2026-10-04T15:15Z",
		"0 12 * * *\tPacific/Apia\t2011-12-29 00:00\t2011-12-29T22:00Z 2011-12-30T10:00Z 2011-12-30T22:00Z",
		// Leap day, day of the week, and the fields' or-rule.
		"0 0 29 2 *\tUTC\t2026-01-01 00:00\t2028-02-29T00:00Z 2032-02-29T00:00Z",
		"0 4 * * 6\tEurope/Berlin\t2026-11-27 00:00\t2026-11-28T03:00Z 2026-12-05T03:00Z",
		"0 * * 1 1\tUTC\t2026-11-27 00:00\t2027-01-04T00:00Z 2027-01-04T01:00Z",
		"0 0 13 * 5\tUTC\t2026-11-01 00:00\t2026-11-06T00:00Z 2026-11-13T00:00Z 2026-11-20T00:00Z",
	)
	for _, line := range lines {
		f := strings.Split(line, "\t")
		spec, zone, from, want := f[0], f[1], f[2], f[3]
		t.Run(strings.NewReplacer(" ", "_", "/", "|").Replace(spec+"@"+zone+"@"+from), func(t *testing.T) {
			p := mustParse(t, probes.Schedule{Cron: spec, Timezone: zone})
			got := utcMinutes(p.NextN(localTime(t, zone, from), 12345, len(strings.Fields(want))))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A daily plan runs exactly once for every date, whatever the zone's clock does. Where
// the clock skips the hour before midnight, as in Nuuk, the run of that date starts
// with the first minute of the next one.
func TestDailyPlanRunsOncePerDate(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe",
		"Africa/Casablanca", "America/Nuuk", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Chatham", "Africa/Cairo", "America/Havana"}
	rapid.Check(t, func(rt *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		minute, hour := rapid.IntRange(0, 59).Draw(rt, "minute"), rapid.IntRange(0, 23).Draw(rt, "hour")
		p, err := Parse(probes.Schedule{Cron: fmt.Sprintf("%d %d * * *", minute, hour), Timezone: zone})
		if err != nil {
			rt.Fatal(err)
		}
		year := rapid.IntRange(2000, 2035).Draw(rt, "year")
		at := time.Date(year, 1, 1, 0, 0, 0, 0, p.zone).Add(-time.Nanosecond)
		end := time.Date(year+1, 1, 1, 0, 0, 0, 0, p.zone)
		date := time.Date(year-1, 12, 31, 0, 0, 0, 0, time.UTC)
		for {
			at = p.Next(at, 0)
			if !at.Before(end) {
				break
			}
			date = date.AddDate(0, 0, 1)
			want := date.Format(time.DateOnly)
			if time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, p.zone).Hour() != hour && hour == 23 {
				want = date.AddDate(0, 0, 1).Format(time.DateOnly)
			}
			if got := at.Format(time.DateOnly); got != want {
				rt.Fatalf("start %v, want one on %s", at, want)
			}
		}
		if got, want := date.Format(time.DateOnly), fmt.Sprintf("%d-12-31", year); got != want {
			rt.Fatalf("last start of the year on %s, want %s", got, want)
		}
	})
}

// Next is a step function: every instant before a start has that start as its next.
func TestNextDoesNotDependOnWhenItIsAsked(t *testing.T) {
	specs := []string{"*/7 * * * *", "30 2 * * *", "0 */2 * * *", "5,50 1-4 * * 0", "0 0 1 * *", "15 * 25-31 3,10 *"}
	zones := []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia"}
	rapid.Check(t, func(rt *rapid.T) {
		s := probes.Schedule{Every: time.Duration(rapid.Int64Range(int64(time.Second), int64(72*time.Hour)).Draw(rt, "every"))}
		if rapid.Bool().Draw(rt, "cron") {
			s = probes.Schedule{Cron: rapid.SampledFrom(specs).Draw(rt, "spec"), Timezone: rapid.SampledFrom(zones).Draw(rt, "zone")}
		}
		p, err := Parse(s)
		if err != nil {
			rt.Fatal(err)
		}
		spread := rapid.Uint64().Draw(rt, "spread")
		after := time.Unix(rapid.Int64Range(-1e9, 2e9).Draw(rt, "second"), rapid.Int64Range(0, 999_999_999).Draw(rt, "nanosecond"))
		next := p.Next(after, spread)
		if !next.After(after) {
			rt.Fatalf("next of %v is %v, want later", after, next)
		}
		between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after))-1).Draw(rt, "between")))
		if got := p.Next(between, spread); !got.Equal(next) {
			rt.Fatalf("next of %v is %v, but next of %v before it is %v", between, got, after, next)
		}
	})
}

func TestEveryIsAFixedGridSpreadByIdentity(t *testing.T) {
	p := mustParse(t, probes.Schedule{Every: 30 * time.Second})
	from := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if got, want := p.Next(from, 0), from.Add(30*time.Second); !got.Equal(want) {
		t.Errorf("without spread: next of %v is %v, want %v", from, got, want)
	}
	if got, want := p.Next(from.Add(-1), 7_500), from.Add(7500*time.Millisecond); !got.Equal(want) {
		t.Errorf("spread 7500 ms: got %v, want %v", got, want)
	}
	if got, want := p.Next(time.Unix(-45, 0), 10_000), time.Unix(-20, 0); !got.Equal(want) {
		t.Errorf("before the epoch: got %v, want %v", got, want)
	}
	var buckets [10]int
	for target := range 1000 {
		pair := probes.Pair{Target: fmt.Sprintf("replica-%d", target), Probe: "canary", Model: "learnt late"}
		starts := p.NextN(from, Spread(pair), 3)
		for i := range 2 {
			if gap := starts[i+1].Sub(starts[i]); gap != 30*time.Second {
				t.Fatalf("%s: gap %v, want 30s", pair.Target, gap)
			}
		}
		pair.Model, pair.Pool = "", "other"
		if again := p.Next(from.Add(time.Minute), Spread(pair)); !again.Equal(starts[2]) {
			t.Fatalf("%s: after a restart %v, want %v on the old grid", pair.Target, again, starts[2])
		}
		buckets[starts[0].Sub(from)*10/(30*time.Second+1)]++
	}
	for i, n := range buckets {
		if n < 60 || n > 140 {
			t.Errorf("tenth %d of the interval has %d of 1000 starts, want about 100: %v", i, n, buckets)
		}
	}
}

func TestIntervalAndUnscheduled(t *testing.T) {
	winter := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		s    probes.Schedule
		want time.Duration
	}{
		{probes.Schedule{Every: 90 * time.Second}, 90 * time.Second},
		{probes.Schedule{Cron: "0 2 * * *", Timezone: "Europe/Berlin"}, 24 * time.Hour},
		{probes.Schedule{Cron: "*/5 * * * *"}, 5 * time.Minute},
		{probes.Schedule{Cron: "0 4 * * 6"}, 7 * 24 * time.Hour},
		{probes.Schedule{}, 0},
	} {
		if got := mustParse(t, tc.s).Interval(winter); got != tc.want {
			t.Errorf("interval of %+v is %v, want %v", tc.s, got, tc.want)
		}
	}
	var none Plan
	if none.Scheduled() || !none.Next(winter, 1).IsZero() || none.NextN(winter, 1, 3) != nil {
		t.Error("the zero plan starts something")
	}
	if !mustParse(t, probes.Schedule{Cron: "0 2 * * *"}).Scheduled() {
		t.Error("a cron plan is not scheduled")
	}
	// The night of the change is an hour shorter.
	before := localTime(t, "Europe/Berlin", "2027-03-27 00:00")
	if got := mustParse(t, probes.Schedule{Cron: "30 3 * * *", Timezone: "Europe/Berlin"}).Interval(before); got != 23*time.Hour {
		t.Errorf("interval over the change is %v, want 23h", got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		s    probes.Schedule
		want string
	}{
		{probes.Schedule{Every: time.Minute, Cron: "0 2 * * *"}, "schedule: every and schedule exclude each other"},
		{probes.Schedule{Every: time.Millisecond}, "every: 1ms is too short, it must be at least 1s"},
		{probes.Schedule{Every: -time.Minute}, "every: -1m0s is too short"},
		{probes.Schedule{Every: time.Minute, Timezone: "UTC"}, "timezone: needs a schedule"},
		{probes.Schedule{Cron: "0 2 * * *", Timezone: "Europe/Atlantis"}, `timezone: load "Europe/Atlantis"`},
		{probes.Schedule{Cron: "0 2 * * *", Timezone: "Local"}, "timezone: Local differs between hosts"},
		{probes.Schedule{Cron: "0 2 * *"}, `schedule: parse "0 2 * *"`},
		{probes.Schedule{Cron: "0 0 2 * * *"}, `schedule: parse "0 0 2 * * *"`},
		{probes.Schedule{Cron: "61 2 * * *"}, `schedule: parse "61 2 * * *"`},
		{probes.Schedule{Cron: "@daily"}, `schedule: "@daily" is not a cron expression of five fields`},
		{probes.Schedule{Cron: "TZ=UTC 0 2 * * *"}, `schedule: "TZ=UTC 0 2 * * *" is not a cron expression`},
		{probes.Schedule{Cron: "0 0 30 2 *"}, `schedule: "0 0 30 2 *" never comes`},
	} {
		_, err := Parse(tc.s)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Parse(%+v): %v, want %q", tc.s, err, tc.want)
		}
	}
}

func BenchmarkNextCron(b *testing.B) {
	for _, spec := range []string{"30 2 * * *", "30 * * * *", "0 4 * * 6", "5 * 1 1 *"} {
		b.Run(strings.ReplaceAll(spec, " ", "_"), func(b *testing.B) {
			p := mustParse(b, probes.Schedule{Cron: spec, Timezone: "Europe/Berlin"})
			at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				p.Next(at, 0)
			}
		})
	}
}
