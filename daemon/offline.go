package daemon

import (
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/imports"
)

// readOffline reads the last throughput of a result file.
func readOffline(path string) (probes.Offline, error) {
	file, err := os.Open(path)
	if err != nil {
		return probes.Offline{}, fmt.Errorf("open offline result: %w", err)
	}
	defer file.Close()
	return imports.Offline(path, file)
}

// offlineGap lays a run's throughput beside the offline result that its spec
// names. The file was read before the run too, so that a wrong one is told before
// hours of measuring; if it has gone since, there is nothing to compare with.
func offlineGap(run *probes.Run) probes.Offline {
	if run.Spec.OfflineResult == "" {
		return probes.Offline{}
	}
	offline, err := readOffline(run.Spec.OfflineResult)
	if err != nil {
		return probes.Offline{}
	}
	own := run.Summary.OutputThroughput
	if offline.Total {
		own = run.Summary.TotalThroughput
	}
	ceiling, _ := offline.Throughput.Get()
	if throughput, ok := own.Get(); ok && ceiling > 0 {
		offline.Gap = probes.Known(1 - throughput/ceiling)
	}
	return offline
}
