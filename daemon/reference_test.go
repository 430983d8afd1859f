package daemon

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The daemon measures its reference stream as soon as it runs.
func TestDaemonVouchesForItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		before := time.Now()
		_, url := n.engine(nil)
		d := n.daemon(fmt.Sprintf(oneCanary, 1, url))
		var at float64
		d.until("the reference stream on /metrics", func() (ok bool) { at, ok = d.metric("inferbeat_selftest_timestamp_seconds"); return ok })
		if measured := time.UnixMilli(int64(at * 1e3)); measured.Before(before.Truncate(time.Millisecond)) || measured.After(time.Now()) {
			t.Errorf("timestamp: got %s, want one after %s", measured, before)
		}
		for _, signal := range []string{"ttft", "itl"} {
			if got, ok := d.metric("inferbeat_selftest_error_seconds", "signal", signal); !ok || got != 0 {
				t.Errorf("error of %s: got %v (present %v), want 0 where no time passes unseen", signal, got, ok)
			}
			if got, _ := d.metric("inferbeat_selftest_tolerance_seconds", "signal", signal); got != 0.005 {
				t.Errorf("tolerance of %s: got %v, want 0.005", signal, got)
			}
		}
	})
}
