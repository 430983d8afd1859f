package selftest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// hostMeter measures what other processes do to this host during a self test:
// their work is in every figure.
type hostMeter struct {
	stat string // of the host's processors; empty where the system does not tell
	ours time.Duration
}

const statFile = "/proc/stat"

func startHostMeter() hostMeter {
	text, err := os.ReadFile(statFile)
	if err != nil {
		return hostMeter{}
	}
	return hostMeter{string(text), familyCPU()}
}

// others is the share of the host's processor time that was spent, and not by
// this process or its children that have ended.
func (m hostMeter) others() probes.Optional[float64] {
	now := startHostMeter()
	return othersShare(m.stat, now.stat, now.ours-m.ours)
}

// userHertz is the unit of /proc/stat, the same on every Linux that Go runs on.
const userHertz = 100

// othersShare compares two readings of /proc/stat.
func othersShare(before, after string, ours time.Duration) probes.Optional[float64] {
	busyBefore, totalBefore, err := hostTicks(before)
	if err != nil {
		return probes.Optional[float64]{}
	}
	busyAfter, totalAfter, err := hostTicks(after)
	if err != nil || totalAfter <= totalBefore {
		return probes.Optional[float64]{}
	}
	theirs := float64(busyAfter-busyBefore) - ours.Seconds()*userHertz
	return probes.Known(max(0, theirs/float64(totalAfter-totalBefore)))
}

// hostTicks reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq, softirq and steal. What follows is counted in user and nice already.
func hostTicks(stat string) (busy, total int64, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("read %s: %q is not the sum of the processors", statFile, line)
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", statFile, err)
		}
		total += ticks
		if i != 3 && i != 4 { // idle, iowait
			busy += ticks
		}
	}
	return busy, total, nil
}

// familyCPU is the processor time of this process and of its children that were
// waited for.
func familyCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return ProcessCPU()
	}
	return ProcessCPU() + time.Duration(usage.Utime.Nano()+usage.Stime.Nano())
}
