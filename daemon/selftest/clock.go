package selftest

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inferbeat/inferbeat/probes"
)

// systemStart is the reading of CLOCK_MONOTONIC, which all processes share, at
// the start of a process's own clock. Several readings are bracketed and the
// tightest is taken, so that a process that was interrupted in between does not
// shift its whole time line; what is left is some tens of nanoseconds.
func systemStart(c probes.Clock) (time.Duration, error) {
	var start time.Duration
	for i, tightest := 0, time.Duration(0); i < 64; i++ {
		var ts unix.Timespec
		before := c.Now()
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		after := c.Now()
		if err != nil {
			return 0, fmt.Errorf("read the monotonic clock: %w", err)
		}
		if width := after - before; i == 0 || width < tightest {
			tightest, start = width, time.Duration(ts.Nano())-before-width/2
		}
	}
	return start, nil
}
