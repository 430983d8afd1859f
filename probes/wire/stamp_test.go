package wire

import (
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// read is one read of a scripted socket. Times count from its opening; the wall
// clock runs ahead of that by whatever step says.
type read struct {
	at      time.Duration // when it returned
	stamp   time.Duration // the kernel's, by the wall clock then in force; 0: none
	step    time.Duration // of the wall clock, up to this read
	stepped time.Duration // of the wall clock, up to the stamp
	pause   time.Duration // between the readings of the two clocks
}

func TestKernelStampsOnTheRunsClock(t *testing.T) {
	const us = time.Microsecond
	for _, test := range []struct {
		name  string
		floor time.Duration // begin of the exchange
		reads []read
		want  []time.Duration
		lags  probes.Receiving
	}{
		{
			name:  "late reads keep their true times",
			reads: []read{{at: 12 * ms, stamp: 10 * ms}, {at: 45 * ms, stamp: 30 * ms}},
			want:  []time.Duration{10 * ms, 30 * ms},
			lags:  probes.Receiving{Reads: 2, Stamped: 2, LagSum: 17 * ms, LagMax: 15 * ms, Late: 2},
		},
		{
			name:  "no stamp",
			reads: []read{{at: 12 * ms}, {at: 33 * ms, stamp: 30 * ms}},
			want:  []time.Duration{12 * ms, 30 * ms},
			lags:  probes.Receiving{Reads: 2, Stamped: 1, LagSum: 3 * ms, LagMax: 3 * ms, Late: 1},
		},
		{
			name:  "a segment read in two pieces came once",
			reads: []read{{at: 12 * ms, stamp: 10 * ms}, {at: 13 * ms, stamp: 10 * ms}},
			want:  []time.Duration{10 * ms, 10 * ms},
			lags:  probes.Receiving{Reads: 2, Stamped: 2, LagSum: 5 * ms, LagMax: 3 * ms, Late: 2},
		},
		{
			name: "the wall clock is set forward after the stamp",
			reads: []read{
				{at: 10 * ms, stamp: 9 * ms},
				{at: 30 * ms, stamp: 29 * ms, step: time.Hour},
				{at: 50 * ms, stamp: 49 * ms, step: time.Hour, stepped: time.Hour},
			},
			want: []time.Duration{9 * ms, 30 * ms, 49 * ms},
			lags: probes.Receiving{Reads: 3, Stamped: 2, LagSum: 2 * ms, LagMax: ms},
		},
		{
			name: "the wall clock is set back before the stamp, by less than a gap",
			reads: []read{
				{at: 10 * ms, stamp: 9 * ms},
				{at: 30 * ms, stamp: 29 * ms, step: -5 * ms, stepped: -5 * ms},
				{at: 50 * ms, stamp: 49 * ms, step: -5 * ms, stepped: -5 * ms},
			},
			want: []time.Duration{9 * ms, 30 * ms, 49 * ms},
			lags: probes.Receiving{Reads: 3, Stamped: 2, LagSum: 2 * ms, LagMax: ms},
		},
		{
			name:  "a stamp from before the exchange",
			floor: 20 * ms,
			reads: []read{{at: 30 * ms, stamp: 19 * ms}, {at: 50 * ms, stamp: 49 * ms}},
			want:  []time.Duration{30 * ms, 49 * ms},
			lags:  probes.Receiving{Reads: 2, Stamped: 1, LagSum: ms, LagMax: ms},
		},
		{
			name:  "a stamp from the future",
			reads: []read{{at: 30 * ms, stamp: 31 * ms}},
			want:  []time.Duration{30 * ms},
			lags:  probes.Receiving{Reads: 1},
		},
		{
			name:  "time does not run backwards after a read without stamp",
			reads: []read{{at: 30 * ms}, {at: 31 * ms, stamp: 29 * ms}},
			want:  []time.Duration{30 * ms, 30 * ms},
			lags:  probes.Receiving{Reads: 2, Stamped: 1, LagSum: 2 * ms, LagMax: 2 * ms, Late: 1},
		},
		{
			name: "the process was held up between the two clocks",
			reads: []read{
				{at: 10 * ms, stamp: 9 * ms, pause: 50 * us}, // 50 us too late, and known to be no worse
				{at: 30 * ms, stamp: 29 * ms},
				{at: 50 * ms, stamp: 49 * ms, pause: 50 * us}, // the best reading stays
			},
			want: []time.Duration{9*ms + 50*us, 29 * ms, 49 * ms},
			lags: probes.Receiving{Reads: 3, Stamped: 3, LagSum: 3*ms - 50*us, LagMax: ms},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSocket(nil, nil)
			s.floor = s.opened.Add(test.floor)
			var got []time.Duration
			for _, r := range test.reads {
				wall := func(at, step time.Duration) int64 { return s.opened.UnixNano() + int64(at+step) }
				stamp := int64(0)
				if r.stamp != 0 {
					stamp = wall(r.stamp, r.stepped)
				}
				s.date(s.opened.Add(r.at), wall(r.at, r.step)-int64(r.pause), stamp)
				got = append(got, s.arrived.Sub(s.opened))
			}
			diff(t, "dates", got, test.want)
			diff(t, "receiving", s.receiving, test.lags)
		})
	}
}
