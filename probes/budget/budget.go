// Package budget counts how much of a promise is left.
//
// The story of the data: each good or bad request of an objective is added to the
// [Ledger] of its pool at the time at which it ended. The ledger keeps counts in slots of
// five minutes, a day of slots as a few hundred bytes, so that the 30 days of an objective
// fit into memory and survive a restart. [Ledger.Within] adds the window up, and
// [Remaining] says what share of the budget is unspent.
//
// The counts are exact; only the window's far edge moves in steps of a slot.
package budget

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Slot is the step in which a window moves.
const Slot = 5 * time.Minute

const slotsOfDay = int64(24 * time.Hour / Slot)

// Events are counts of requests that kept or missed an objective.
type Events struct{ Good, Bad uint64 }

// Ledger holds the counts of one objective. The zero value is empty. Its methods may
// not be called at once.
type Ledger struct {
	days []day // in order
}

// day holds the slots in which something happened, encoded: the distance to the slot
// before, good, bad.
type day struct {
	number int64 // since 1970
	sum    Events
	slots  []slot // decoded, of the youngest day only
	coded  []byte // of every other day
}

type slot struct {
	index int64 // of the day
	Events
}

// Add counts an event at the time at which it ended, and returns its day.
func (l *Ledger) Add(at time.Time, good bool) (dayNumber int64) {
	number, index := position(at)
	d := l.day(number)
	d.open()
	i, found := slices.BinarySearchFunc(d.slots, index, func(s slot, index int64) int { return int(s.index - index) })
	if !found {
		d.slots = slices.Insert(d.slots, i, slot{index: index})
	}
	for _, e := range []*Events{&d.slots[i].Events, &d.sum} {
		if good {
			e.Good++
		} else {
			e.Bad++
		}
	}
	return number
}

// position is a time's day and its slot in it.
func position(at time.Time) (number, index int64) {
	all := floorDiv(at.Unix(), int64(Slot/time.Second))
	number = floorDiv(all, slotsOfDay)
	return number, all - number*slotsOfDay
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// day finds a day, or makes it. All but the youngest are encoded.
func (l *Ledger) day(number int64) *day {
	i, found := slices.BinarySearchFunc(l.days, number, func(d day, number int64) int { return int(d.number - number) })
	if !found {
		l.days = slices.Insert(l.days, i, day{number: number})
	}
	for j := range l.days {
		if j != i && j != len(l.days)-1 {
			l.days[j].shut()
		}
	}
	return &l.days[i]
}

func (d *day) open() {
	if d.slots == nil {
		d.slots, _ = decode(d.coded) // it was checked when it came
	}
	d.coded = nil
}

func (d *day) shut() {
	if d.slots != nil {
		d.coded, d.slots = encode(d.slots), nil
	}
}

// Within adds up the events of the window that ends now. A slot of which any part is in
// the window is in it as a whole.
func (l *Ledger) Within(now time.Time, window time.Duration) (sum Events) {
	firstDay, first := position(now.Add(-window)) // a window of whole slots has a part of one more
	lastDay, last := position(now)
	for i := range l.days {
		d := &l.days[i]
		switch {
		case d.number < firstDay || d.number > lastDay:
			continue
		case d.number > firstDay && d.number < lastDay:
			sum.Good, sum.Bad = sum.Good+d.sum.Good, sum.Bad+d.sum.Bad
			continue
		}
		slots := d.slots
		if slots == nil {
			slots, _ = decode(d.coded)
		}
		for _, s := range slots {
			if d.number == firstDay && s.index < first || d.number == lastDay && s.index > last {
				continue
			}
			sum.Good, sum.Bad = sum.Good+s.Good, sum.Bad+s.Bad
		}
	}
	return sum
}

// Forget drops the days that ended before a time.
func (l *Ledger) Forget(before time.Time) {
	number, _ := position(before)
	l.days = slices.DeleteFunc(l.days, func(d day) bool { return d.number < number })
}

// Day is the encoded form of one day; nil when nothing happened on it.
func (l *Ledger) Day(number int64) []byte {
	for i := range l.days {
		if d := &l.days[i]; d.number == number {
			if d.slots != nil {
				return encode(d.slots)
			}
			return slices.Clone(d.coded)
		}
	}
	return nil
}

// Restore takes over a day as Day encoded it, in place of what there is of it.
func (l *Ledger) Restore(number int64, coded []byte) error {
	slots, err := decode(coded)
	if err != nil {
		return err
	}
	restored := day{number: number, coded: slices.Clone(coded)}
	for _, s := range slots {
		restored.sum.Good, restored.sum.Bad = restored.sum.Good+s.Good, restored.sum.Bad+s.Bad
	}
	*l.day(number) = restored
	return nil
}

// DayOf is the number of the day that a time is in, in UTC.
func DayOf(at time.Time) int64 {
	number, _ := position(at)
	return number
}

// DayEnd is when a day is over.
func DayEnd(number int64) time.Time { return time.Unix((number+1)*24*60*60, 0).UTC() }

func encode(slots []slot) []byte {
	b := make([]byte, 0, 3*len(slots))
	last := int64(0)
	for _, s := range slots {
		b = binary.AppendUvarint(b, uint64(s.index-last))
		b = binary.AppendUvarint(b, s.Good)
		b = binary.AppendUvarint(b, s.Bad)
		last = s.index
	}
	return b
}

var errDamaged = errors.New("read error budget: it is damaged")

func decode(b []byte) ([]slot, error) {
	slots := []slot{}
	index := int64(0)
	for len(b) > 0 {
		var fields [3]uint64
		for i := range fields {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, errDamaged
			}
			fields[i], b = v, b[n:]
		}
		if fields[0] >= uint64(slotsOfDay) {
			return nil, errDamaged
		}
		index += int64(fields[0])
		if index >= slotsOfDay || len(slots) > 0 && fields[0] == 0 {
			return nil, errDamaged
		}
		slots = append(slots, slot{index, Events{fields[1], fields[2]}})
	}
	return slots, nil
}

// Remaining is the unspent share of the budget that an objective leaves for these
// events: 1 is untouched, 0 is used up, and it is negative when more was bad than was
// allowed. It is unknown without an event.
func Remaining(e Events, objective float64) probes.Optional[float64] {
	total := e.Good + e.Bad
	if total == 0 {
		return probes.Optional[float64]{}
	}
	// 1 - 0.99 is not 0.01 in binary; objectives have a few digits.
	share := math.Round((1-objective)*1e9) / 1e9
	return probes.Known(1 - float64(e.Bad)/float64(total)/share)
}
