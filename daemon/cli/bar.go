package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// bar draws one line of at most width columns: how much of the run is done, and
// what is going on.
func bar(p loadgen.Counts, spec probes.Spec, elapsed time.Duration, width int) string {
	share := 0.0
	text := fmt.Sprintf(" %d done, %d in flight", p.Done, p.InFlight)
	switch {
	case spec.Requests > 0:
		share = float64(p.Done) / float64(spec.Requests)
		text = fmt.Sprintf(" %d/%d done, %d in flight", p.Done, spec.Requests, p.InFlight)
	case spec.Duration > 0:
		share = elapsed.Seconds() / spec.Duration.Seconds()
	}
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	text += fmt.Sprintf(", %s", elapsed.Round(time.Second))
	cells := min(40, width-len(text)-3)
	if cells < 5 {
		return text[:min(len(text), max(width, 0))]
	}
	filled := int(min(max(share, 0), 1) * float64(cells))
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", cells-filled) + "]" + text
}
