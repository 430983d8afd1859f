package selftest

import (
	"math"
	"os"
	"runtime/metrics"
	"syscall"
	"time"
)

// Usage is what a load cost the process that sent it.
type Usage struct {
	CPU      time.Duration // user and system time
	GCPauses int
	// GCPauseTotal is the sum of the pauses, rounded up as the longest is.
	GCPauseTotal time.Duration
	// GCPauseMax is the longest stop of the world by the garbage collector: the
	// upper bound of the runtime's own histogram, so at most a fifth too long.
	GCPauseMax time.Duration
	Throttling Throttling
}

// UsageMeter is a reading at the start.
type UsageMeter struct {
	cpu       time.Duration
	pauses    []uint64
	throttled Throttling
}

// StartUsage begins to measure what this process uses.
func StartUsage() UsageMeter {
	counts, _ := gcPauses()
	return UsageMeter{ProcessCPU(), counts, readThrottling(os.DirFS("/"))}
}

// Stop is what was used since the start. It may be called more than once.
func (m UsageMeter) Stop() Usage {
	u := Usage{CPU: ProcessCPU() - m.cpu, Throttling: readThrottling(os.DirFS("/")).since(m.throttled)}
	counts, bounds := gcPauses()
	for i, n := range counts {
		if i < len(m.pauses) {
			n -= m.pauses[i]
		}
		if n == 0 {
			continue
		}
		u.GCPauses += int(n)
		longest := bounds[i+1]
		if math.IsInf(longest, 1) {
			longest = bounds[i]
		}
		u.GCPauseMax = time.Duration(longest * float64(time.Second))
		u.GCPauseTotal += time.Duration(n) * u.GCPauseMax
	}
	return u
}

// ProcessCPU is the user and system time of this process up to now.
func ProcessCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // only a bad argument fails
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// gcPauses is the runtime's histogram of stops of the world, in seconds.
func gcPauses() (counts []uint64, bounds []float64) {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil, nil
	}
	h := sample[0].Value.Float64Histogram()
	return append([]uint64(nil), h.Counts...), h.Buckets
}
