package daemon

import (
	"runtime"
	"syscall"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// cpuMeter measures what share of the processor time available to this process
// it used. A client that is short of processor time reports its own lateness as
// the server's.
type cpuMeter struct {
	began time.Time
	used  time.Duration
	known bool
}

func startCPUMeter() cpuMeter {
	used, ok := processCPU()
	return cpuMeter{time.Now(), used, ok}
}

// share is process time over elapsed time and GOMAXPROCS, which follows the
// container's quota. It is unknown over too short a span to mean anything.
func (m cpuMeter) share() probes.Optional[float64] {
	used, ok := processCPU()
	elapsed := time.Since(m.began)
	if !ok || !m.known || elapsed < 100*time.Millisecond {
		return probes.Optional[float64]{}
	}
	return probes.Known((used - m.used).Seconds() / elapsed.Seconds() / float64(runtime.GOMAXPROCS(0)))
}

func processCPU() (time.Duration, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
