package daemon

import (
	"fmt"
	"testing"
	"time"
)

// The daemon measures its reference stream as soon as it runs.
func TestDaemonVouchesForItsClock(t *testing.T) {
	before := time.Now()
	_, url := engineAt(t, nil)
	d := daemonOf(t, fmt.Sprintf(oneCanary, 1, url))
	var at float64
	d.until("the reference stream on /metrics", func() (ok bool) { at, ok = d.metric("inferbeat_selftest_timestamp_seconds"); return ok })
	if measured := time.UnixMilli(int64(at * 1e3)); measured.Before(before.Truncate(time.Millisecond)) || measured.After(time.Now()) {
		t.Errorf("timestamp: got %s, want one after %s", measured, before)
	}
	for _, signal := range []string{"ttft", "itl"} {
		if _, ok := d.metric("inferbeat_selftest_error_seconds", "signal", signal); !ok {
			t.Errorf("error of %s: got nothing, want a value", signal)
		}
		if got, _ := d.metric("inferbeat_selftest_tolerance_seconds", "signal", signal); got != 0.005 {
			t.Errorf("tolerance of %s: got %v, want 0.005", signal, got)
		}
	}
}
