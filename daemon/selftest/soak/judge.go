package main

import (
	"fmt"
	"io"
	"time"
)

// sample is what the process kept at one instant.
type sample struct {
	at         time.Duration
	heapMiB    float64 // live, after a collection
	goroutines float64 // those of the servers' connections left out
	// connections are what the daemon keeps open for later runs.
	connections int
	rssMiB      float64 // 0 where the system does not tell
	events      int64   // token events written by the servers so far
	runs        int64
}

// bounds are what may be gained over the second half.
type bounds struct{ heapMiB, goroutines float64 }

// maxConnections is what the configuration can have in flight at once: on each of
// three targets 8 requests of the canary and 32 of the load. A pool that holds
// more has lost some.
const maxConnections = 3 * (8 + 32)

// judge looks at the second half of the samples and says what grows.
func judge(samples []sample, b bounds, w io.Writer) (failures []string) {
	half := samples[len(samples)/2:]
	for _, q := range []struct {
		name, unit string
		of         func(sample) float64
		bound      float64
	}{
		{"heap", " MiB", func(s sample) float64 { return s.heapMiB }, b.heapMiB},
		{"goroutines", "", func(s sample) float64 { return s.goroutines }, b.goroutines},
	} {
		gain := growth(half, q.of)
		fmt.Fprintf(w, "%s: %+.2f%s over the last %s, may be %+.2f\n", q.name, gain, q.unit, span(half).Round(time.Second), q.bound)
		if gain > q.bound {
			failures = append(failures, fmt.Sprintf("%s grew by %.2f%s over the last %s, more than %.2f", q.name, gain, q.unit, span(half).Round(time.Second), q.bound))
		}
	}
	if n := samples[len(samples)-1].connections; n > maxConnections {
		failures = append(failures, fmt.Sprintf("%d connections are kept open, more than %d", n, maxConnections))
	}
	return failures
}

func span(samples []sample) time.Duration { return samples[len(samples)-1].at - samples[0].at }

// growth is the slope of the least-squares line through the samples, times their span.
func growth(samples []sample, of func(sample) float64) float64 {
	var meanT, meanV float64
	for _, s := range samples {
		meanT += s.at.Seconds() / float64(len(samples))
		meanV += of(s) / float64(len(samples))
	}
	var covariance, variance float64
	for _, s := range samples {
		dt := s.at.Seconds() - meanT
		covariance += dt * (of(s) - meanV)
		variance += dt * dt
	}
	if variance == 0 {
		return 0
	}
	return covariance / variance * span(samples).Seconds()
}
