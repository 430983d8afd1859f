package daemon

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
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
		want   throttling
	}{
		{"version 2", files("proc/self/cgroup", "0::/pods/a\n", "sys/fs/cgroup/pods/a/cpu.stat", v2), throttling{true, 7, 12500 * time.Microsecond}},
		{"version 2, mounted as root", files("proc/self/cgroup", "0::/pods/a\n", "sys/fs/cgroup/cpu.stat", v2), throttling{true, 7, 12500 * time.Microsecond}},
		{"version 2, the root group", files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.stat", v2), throttling{true, 7, 12500 * time.Microsecond}},
		{"version 1", files("proc/self/cgroup", "5:cpuset:/x\n3:cpu,cpuacct:/docker/b\n", "sys/fs/cgroup/cpu,cpuacct/docker/b/cpu.stat", v1), throttling{true, 3, 2500 * time.Microsecond}},
		{"without a quota there is no such line", files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.stat", "usage_usec 5\n"), throttling{}},
		{"no cgroups", files(), throttling{}},
	} {
		if got := readThrottling(test.system); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestPortRoom(t *testing.T) {
	const limits, sockets = "proc/sys/net/ipv4/ip_local_port_range", "proc/net/sockstat"
	const counts = "sockets: used 300\nTCP: inuse 120 orphan 2 tw 80 alloc 140 mem 9\nUDP: inuse 4 mem 0\n"
	for _, test := range []struct {
		name   string
		system fstest.MapFS
		want   probes.Optional[int]
	}{
		{"ports in use and in their last minute", files(limits, "32768\t60999\n", sockets, counts), probes.Known(28232 - 200)},
		{"fewer than none", files(limits, "1024 1100\n", sockets, counts), probes.Known(0)},
		{"no range", files(sockets, counts), probes.Optional[int]{}},
		{"garbled range", files(limits, "a b\n", sockets, counts), probes.Optional[int]{}},
		{"no counts", files(limits, "32768 60999\n"), probes.Optional[int]{}},
	} {
		if got := portRoom(test.system); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
