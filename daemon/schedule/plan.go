package schedule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // zones must load in an image without a zone database

	"github.com/robfig/cron/v3"

	"github.com/inferbeat/inferbeat/probes"
)

// minEvery keeps a typo from turning a probe into a load test.
const minEvery = time.Second

// Plan is a parsed schedule: a pure function from an instant to the next start. The
// zero Plan never starts anything.
type Plan struct {
	source probes.Schedule
	cron   *cron.SpecSchedule
	zone   *time.Location
	// hourly is whether the hour field lets every hour through. Such a schedule
	// means the passing of hours, not the reading of the clock: when clocks change
	// it neither catches up nor leaves out.
	hourly bool
}

// Parse reads a schedule. An empty one is a plan that never starts.
func Parse(s probes.Schedule) (Plan, error) {
	p := Plan{source: s}
	switch {
	case s.Every != 0 && s.Cron != "":
		return Plan{}, errors.New("schedule: every and schedule exclude each other, keep one")
	case s.Cron == "" && s.Timezone != "":
		return Plan{}, errors.New("timezone: needs a schedule (every counts from a fixed instant and knows no zone)")
	case s.Cron == "" && s.Every == 0:
		return p, nil
	case s.Cron == "" && s.Every < minEvery:
		return Plan{}, fmt.Errorf("every: %v is too short, it must be at least %v", s.Every, minEvery)
	case s.Cron == "":
		return p, nil
	}
	var err error
	if p.zone, err = loadZone(s.Timezone); err != nil {
		return Plan{}, err
	}
	if strings.ContainsAny(s.Cron, "@=") {
		return Plan{}, fmt.Errorf("schedule: %q is not a cron expression of five fields; set every or timezone instead", s.Cron)
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(s.Cron)
	if err != nil {
		return Plan{}, fmt.Errorf("schedule: parse %q: %w (minute hour day-of-month month day-of-week)", s.Cron, err)
	}
	p.cron = parsed.(*cron.SpecSchedule)
	// The expression is evaluated on a calendar without zones; see instant.
	p.cron.Location = time.UTC
	const allHours = 1<<24 - 1
	p.hourly = p.cron.Hour&allHours == allHours
	if p.cron.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Plan{}, fmt.Errorf("schedule: %q never comes, there is no such date", s.Cron)
	}
	return p, nil
}

func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("timezone: Local differs between hosts, use an IANA name such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("timezone: load %q: %w (use an IANA name such as Europe/Berlin)", name, err)
	}
	return zone, nil
}

// Scheduled reports whether the plan ever starts anything.
func (p Plan) Scheduled() bool { return p.source.Every > 0 || p.cron != nil }

// Spread turns the identity of a pair into the number that Next spreads starts by.
// It is the same after every restart. The model is left out: it may be learnt late.
func Spread(pair probes.Pair) uint64 {
	h := fnv.New64a()
	h.Write([]byte(pair.Target))
	h.Write([]byte{0})
	h.Write([]byte(pair.Probe))
	// The low bits of FNV hardly differ between names that differ in their last
	// letter, and a remainder is taken of them.
	z := h.Sum64()
	z = (z ^ z>>33) * 0xff51afd7ed558ccd
	return z ^ z>>33
}

// Next is the first start after an instant; zero for a plan that never starts.
//
// A plan with every starts on a grid of that width through the Unix epoch, moved by
// spread within one width (in milliseconds), so that equal probes of many targets do
// not start together and a restart changes nothing.
//
// A cron plan starts when its zone's clock shows the time; spread does not move it.
// A time that a clock change leaves out starts at the first instant after the gap,
// several of them once; a time that comes twice starts the first time only. Plans
// whose hour field is * start whenever the minute comes, gap or not.
func (p Plan) Next(after time.Time, spread uint64) time.Time {
	switch {
	case p.source.Every > 0:
		return p.nextOnGrid(after, spread)
	case p.cron == nil:
		return time.Time{}
	case p.hourly:
		return p.nextMinute(after)
	}
	return p.nextReading(after)
}

func (p Plan) nextOnGrid(after time.Time, spread uint64) time.Time {
	every := p.source.Every
	offset := time.Duration(spread%uint64(every/time.Millisecond)) * time.Millisecond
	since := time.Duration(after.UnixNano()) - offset
	steps := since / every
	if since < 0 && since%every != 0 {
		steps-- // division truncates towards zero
	}
	return time.Unix(0, int64((steps+1)*every+offset)).UTC()
}

// longestChange is more than any clock change: Samoa left out a whole day in 2011.
const longestChange = 25 * time.Hour

// nextReading walks the calendar of clock readings. The instants of ascending
// readings never descend, so the first one after the given instant is the answer.
func (p Plan) nextReading(after time.Time) time.Time {
	reading := readingOf(after.In(p.zone)).Add(-longestChange)
	for {
		reading = p.cron.Next(reading)
		if reading.IsZero() {
			return time.Time{}
		}
		if at := instant(reading, p.zone); at.After(after) {
			return at
		}
	}
}

// nextMinute walks real minutes; far from the next match it jumps, but never past
// what a clock change could bring forward.
func (p Plan) nextMinute(after time.Time) time.Time {
	at := after.In(p.zone).Truncate(time.Minute).Add(time.Minute)
	limit := at.AddDate(5, 0, 0)
	for at.Before(limit) {
		reading := readingOf(at)
		next := p.cron.Next(reading.Add(-time.Second))
		if next.IsZero() {
			return next
		}
		if next.Equal(reading) {
			return at
		}
		at = at.Add(max(next.Sub(reading)-longestChange, time.Minute))
	}
	return time.Time{}
}

// readingOf is what the clock of a time's zone shows, as a UTC time.
func readingOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// instant is when a zone's clock first shows a reading, or the end of the gap that
// leaves the reading out. time.Date leaves both cases open, so the offsets before,
// at and after its guess are tried.
func instant(reading time.Time, zone *time.Location) time.Time {
	guess := time.Date(reading.Year(), reading.Month(), reading.Day(), reading.Hour(), reading.Minute(), 0, 0, zone)
	start, end := guess.ZoneBounds() // zero where the zone has no change
	offsets := []time.Time{guess}
	var changes []time.Time // between neighbours of offsets
	if !start.IsZero() {
		offsets = append([]time.Time{start.Add(-time.Second)}, offsets...)
		changes = append(changes, start)
	}
	if !end.IsZero() {
		offsets = append(offsets, end)
		changes = append(changes, end)
	}
	var first time.Time
	for _, in := range offsets {
		at := atOffset(reading, in)
		if readingOf(at).Equal(reading) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if !first.IsZero() {
		return first
	}
	for i, change := range changes {
		before, after := atOffset(reading, offsets[i]), atOffset(reading, offsets[i+1])
		if !before.Before(change) && after.Before(change) {
			return change
		}
	}
	return guess
}

// atOffset is the instant of a reading under the offset in force at another time.
func atOffset(reading, in time.Time) time.Time {
	_, offset := in.Zone()
	return reading.Add(-time.Duration(offset) * time.Second).In(in.Location())
}

// NextN lists the next n starts after an instant, fewer if there are no more.
func (p Plan) NextN(after time.Time, spread uint64, n int) []time.Time {
	var starts []time.Time
	for range n {
		after = p.Next(after, spread)
		if after.IsZero() {
			break
		}
		starts = append(starts, after)
	}
	return starts
}

// Interval is the planned time between the next two starts after an instant; 0 for a
// plan that never starts.
func (p Plan) Interval(at time.Time) time.Duration {
	if p.source.Every > 0 {
		return p.source.Every
	}
	next := p.NextN(at, 0, 2)
	if len(next) < 2 {
		return 0
	}
	return next[1].Sub(next[0])
}

// missedCounted bounds the counting of missed starts of a cron plan, so that a clock
// that wakes up decades later does not hold up the loop.
const missedCounted = 10_000

// latest is the last start in [due, now] and how many came before it. A due after
// now is returned as it is.
func (p Plan) latest(due, now time.Time, spread uint64) (last time.Time, before int) {
	if p.source.Every > 0 {
		steps := max(0, now.Sub(due)/p.source.Every)
		return due.Add(steps * p.source.Every), int(steps)
	}
	for before < missedCounted {
		next := p.Next(due, spread)
		if next.IsZero() || next.After(now) {
			break
		}
		due, before = next, before+1
	}
	return due, before
}
