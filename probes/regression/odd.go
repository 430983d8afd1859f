package regression

import (
	"math"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Odd lists the primary metrics in which a first run is so far from where the earlier
// nights let it be expected that two more runs are worth their cost. A bad run is then
// outvoted the same night; a bad night is confirmed. While a regression is open its
// own level is what is expected.
//
// With one such run a night, and two more only for the odd ones, there are a tenth of
// the false alarms at a third of the price of three runs every night.
func Odd(earlier []Sample, first *Sample, o Options) []probes.RegressionMetric {
	if o.Location == nil {
		o.Location = time.UTC
	}
	own := slices.DeleteFunc(slices.Clone(earlier), func(s Sample) bool { return s.Fingerprint != first.Fingerprint })
	asked := o.Spec.Regression.Metrics
	var odd []probes.RegressionMetric
	for _, class := range classes {
		if class.Secondary || !class.applies(o.Spec) || len(asked) > 0 && !slices.Contains(asked, class.Metric) {
			continue
		}
		value, ok := first.Value(class.Metric).Get()
		if !ok {
			continue
		}
		nights := Nights(own, class.Metric, o.Location)
		if z, ok := surprise(nights, value, settingsOf(class, &o), saidOf(o.Said, class.Metric)); ok && math.Abs(z) > rerunSigmas {
			odd = append(odd, class.Metric)
		}
	}
	return odd
}

// surprise is how many sigmas a value is above what the nights let it be expected.
func surprise(nights []Night, value float64, settings Settings, said []probes.Acknowledgement) (z float64, ok bool) {
	w := walkOver(nights, settings, Nightly, said)
	expected := level{}
	if c := w.open; c != nil {
		expected = c.base
		expected.center += c.size
	} else {
		r, ok := w.scan(w.values[w.young:])
		if !ok {
			return 0, false
		}
		expected = r.base
	}
	return (float64(settings.Direction)*math.Log(value) - expected.center) / expected.sigma, true
}
