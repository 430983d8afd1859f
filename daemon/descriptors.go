package daemon

import (
	"fmt"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
	"github.com/inferbeat/inferbeat/probes/wire"
)

// spareDescriptors are what the process needs beside its connections: standard
// streams, result files, listeners, scrapes, name servers.
const spareDescriptors = 64

// ReserveDescriptors raises the soft limit of open files and refuses a run that
// could not fit: a request that fails for want of a descriptor would otherwise
// look like a fault of the target.
func ReserveDescriptors(spec probes.Spec) error {
	_, hard, err := wire.RaiseDescriptorLimit()
	if err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	if spec.Kind == probes.Sweep {
		return nil // how many will be in flight is what it finds out; it stops where they pile up
	}
	count, _ := arrival.Planned(spec.Arrivals, spec.Requests, spec.Duration, spec.Workload.Seed)
	if limit := spec.MostInFlight(); limit > 0 && (count == 0 || limit < count || spec.Kind == probes.Peak) {
		count = limit
	}
	if need := uint64(count) + spareDescriptors; need > hard {
		return fmt.Errorf("up to %d requests in flight need %d open files, but the hard limit is %d; lower the concurrency or raise it (ulimit -Hn)", count, need, hard)
	}
	return nil
}
