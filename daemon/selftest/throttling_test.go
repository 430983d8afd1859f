package selftest

import (
	"testing"
	"testing/fstest"
	"time"
)

func files(pairs ...string) fstest.MapFS {
	system := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		system[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return system
}

func TestThrottlingOfTheCgroup(t *testing.T) {
	const v2 = "usage_usec 600\nnr_periods 50\nnr_throttled 7\nthrottled_usec 12500\n"
	const v1 = "nr_periods 50\nnr_throttled 3\nthrottled_time 2500000\n"
	for _, test := range []struct {
		name   string
		system fstest.MapFS
		want   Throttling
	}{
		{"version 2", files("proc/self/cgroup", "0::/pods/a\n", "sys/fs/cgroup/pods/a/cpu.stat", v2), Throttling{true, 7, 12500 * time.Microsecond}},
		{"version 2, mounted as root", files("proc/self/cgroup", "0::/pods/a\n", "sys/fs/cgroup/cpu.stat", v2), Throttling{true, 7, 12500 * time.Microsecond}},
		{"version 2, the root group", files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.stat", v2), Throttling{true, 7, 12500 * time.Microsecond}},
		{"version 1", files("proc/self/cgroup", "5:cpuset:/x\n3:cpu,cpuacct:/docker/b\n", "sys/fs/cgroup/cpu,cpuacct/docker/b/cpu.stat", v1), Throttling{true, 3, 2500 * time.Microsecond}},
		{"without a quota there is no such line", files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.stat", "usage_usec 5\n"), Throttling{}},
		{"no cgroups", files(), Throttling{}},
	} {
		if got := readThrottling(test.system); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestThrottlingMeanwhile(t *testing.T) {
	before, after := Throttling{true, 3, time.Second}, Throttling{true, 7, 1500 * time.Millisecond}
	for _, test := range []struct{ before, after, want Throttling }{
		{before, after, Throttling{true, 4, 500 * time.Millisecond}},
		{Throttling{}, after, Throttling{}},
		{before, Throttling{}, Throttling{}},
	} {
		if got := test.after.since(test.before); got != test.want {
			t.Errorf("%+v since %+v = %+v, want %+v", test.after, test.before, got, test.want)
		}
	}
}
