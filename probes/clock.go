package probes

import "time"

// Clock gives the monotonic offset from a run's start. Every instant of a run is
// read from the same Clock, so differences survive any step of the wall clock.
type Clock struct {
	// Start must come from time.Now: without its monotonic reading the offsets
	// would follow the wall clock.
	Start time.Time
}

// NewClock starts a clock at this moment.
func NewClock() Clock { return Clock{Start: time.Now()} }

// Now is the time since the run's start.
func (c Clock) Now() time.Duration { return time.Since(c.Start) }
