package daemon

import (
	"context"
	"time"

	"github.com/inferbeat/inferbeat/daemon/selftest"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
)

// refer keeps the reference stream going. Without it the daemon measures all the
// same; the missing series says that nobody vouches for its clock.
func (a *App) refer(ctx context.Context) {
	warn := func(err error) { a.log.Warn("the reference stream says nothing about this prober's clock", "err", err) }
	if err := a.reference.Run(ctx, warn); err != nil {
		warn(err)
	}
}

// selfTest is what the reference stream showed last.
func (a *App) selfTest() prom.SelfTest {
	s := prom.SelfTest{Tolerance: map[string]time.Duration{
		string(probes.TTFT): selftest.ReferenceTolerance, string(probes.ITL): selftest.ReferenceTolerance,
	}}
	if last, ok := a.reference.Last(); ok {
		s.At = last.At
		s.Error = map[string]time.Duration{string(probes.TTFT): last.TTFT, string(probes.ITL): last.ITL}
	}
	return s
}
