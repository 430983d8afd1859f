package regression

import (
	"math"

	"github.com/inferbeat/inferbeat/probes"
)

// What creeps moves a baseline along. Drift is therefore tested against the nights
// with which the segment began, which nothing moves.
const (
	anchorNights = 30
	driftNights  = 7
	driftAfter   = 45 // nights of the segment
	driftSigmas  = 4.5
	driftEffect  = 1.5 // times the smallest effect of a step
)

// anchored lays the last nights beside the segment's first ones.
type anchored struct {
	base  level
	shift float64
	half  float64 // of the 95 % interval
	bound float64 // above which the shift is a drift
}

// anchor needs driftAfter accepted nights.
func (w *walk) anchor() anchored {
	n := len(w.values)
	a := anchored{base: w.describe(w.values[:anchorNights])}
	a.shift = w.median(w.values[n-driftNights:]) - a.base.center
	spread := a.base.sigma * math.Sqrt(w.variance[driftNights]/(driftNights*driftNights)*1.2+2.75/anchorNights)
	a.half = 1.96 * spread
	a.bound = max(math.Log1p(driftEffect*w.MinEffect), driftSigmas*spread)
	return a
}

// creep looks for a drift. One that is known ends when the series is back within half
// of what made it one, so that it does not come and go with every night.
func (w *walk) creep(t int) {
	if !w.rule.Creeping || len(w.values) < driftAfter {
		return
	}
	a := w.anchor()
	switch {
	case w.drift < 0 && a.shift > a.bound:
		w.drift = t
		low, high := w.natural(a.shift-a.half), w.natural(a.shift+a.half)
		w.events = append(w.events, Event{
			Night: t, Kind: Drifted, Since: t, Change: probes.Known(w.natural(a.shift)),
			Low: probes.Known(min(low, high)), High: probes.Known(max(low, high)),
		})
	case w.drift >= 0 && a.shift < a.bound/2:
		w.drift = -1
		w.events = append(w.events, Event{Night: t, Kind: DriftEnded, Since: t, Change: probes.Known(w.natural(a.shift))})
	}
}
