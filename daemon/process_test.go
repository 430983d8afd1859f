package daemon

import (
	"testing"
	"testing/fstest"

	"github.com/inferbeat/inferbeat/probes"
)

func files(pairs ...string) fstest.MapFS {
	system := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		system[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return system
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
