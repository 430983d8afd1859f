package daemon

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/daemon/selftest"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/wire"
)

// processMeter measures what this process uses and is refused. A client that is
// short of processor time reports its own lateness as the server's.
type processMeter struct {
	began time.Time
	usage selftest.UsageMeter
	room  probes.Process // what there was at the start
}

func startProcessMeter() processMeter {
	system := os.DirFS("/")
	return processMeter{time.Now(), selftest.StartUsage(), probes.Process{
		DescriptorRoom: descriptorRoom(system), PortRoom: portRoom(system),
	}}
}

// shortestMeasured is the span from which a share of the CPU time means anything.
const shortestMeasured = 100 * time.Millisecond

// stop is what happened since the start.
func (m processMeter) stop() probes.Process {
	out, used, elapsed := m.room, m.usage.Stop(), time.Since(m.began)
	if elapsed >= shortestMeasured {
		// GOMAXPROCS follows the container's quota.
		out.CPUShare = probes.Known(used.CPU.Seconds() / elapsed.Seconds() / float64(runtime.GOMAXPROCS(0)))
	}
	out.GCPauses = probes.Known(used.GCPauses)
	out.GCPauseTotal, out.GCPauseMax = probes.Known(used.GCPauseTotal), probes.Known(used.GCPauseMax)
	if t := used.Throttling; t.Known {
		out.ThrottledPeriods, out.Throttled = probes.Known(t.Periods), probes.Known(t.Held)
	}
	return out
}

// descriptorRoom is how many more files this process may open.
func descriptorRoom(system fs.FS) probes.Optional[int] {
	soft, _, err := wire.RaiseDescriptorLimit()
	open, errList := fs.ReadDir(system, "proc/self/fd")
	if err != nil || errList != nil || soft > math.MaxInt32 {
		return probes.Optional[int]{}
	}
	return probes.Known(max(int(soft)-len(open), 0))
}

// portRoom is how many local ports a new TCP connection can still choose from. One
// port may serve connections to several targets, so there may be more.
func portRoom(system fs.FS) probes.Optional[int] {
	limits, err := fs.ReadFile(system, "proc/sys/net/ipv4/ip_local_port_range")
	sockets, errSockets := fs.ReadFile(system, "proc/net/sockstat")
	bounds := strings.Fields(string(limits))
	if err != nil || errSockets != nil || len(bounds) != 2 {
		return probes.Optional[int]{}
	}
	low, errLow := strconv.Atoi(bounds[0])
	high, errHigh := strconv.Atoi(bounds[1])
	_, tcp, ok := strings.Cut(string(sockets), "TCP: ")
	if errLow != nil || errHigh != nil || !ok {
		return probes.Optional[int]{}
	}
	tcp, _, _ = strings.Cut(tcp, "\n")
	used := 0
	fields := strings.Fields(tcp)
	for i := 0; i+1 < len(fields); i += 2 {
		if n, err := strconv.Atoi(fields[i+1]); err == nil && (fields[i] == "inuse" || fields[i] == "tw") {
			used += n
		}
	}
	return probes.Known(max(high-low+1-used, 0))
}
