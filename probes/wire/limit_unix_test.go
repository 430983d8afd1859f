//go:build unix

package wire

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRaiseDescriptorLimit(t *testing.T) {
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
	lowered := before
	lowered.Cur = before.Max / 2
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing to do
		soft, hard, err := RaiseDescriptorLimit()
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &after); err != nil {
			t.Fatal(err)
		}
		diff(t, "returned", []uint64{soft, hard}, []uint64{uint64(before.Max), uint64(before.Max)})
		diff(t, "soft limit", uint64(after.Cur), uint64(before.Max))
	}
}
