package regression

import (
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Failures are rare counts: most nights have none, and one more is no change of
// anything. A night is bad when even the lower bound of its rate is beyond what the
// baseline's rate allows.
const (
	rateConfidence = 0.001 // one-sided
	rateFactor     = 2.0
	rateMargin     = 0.005
	rateAtOnce     = 0.05 // a lower bound above this needs no second night
	rateOf         = 3    // nights, of which two must be bad
)

// RateNight is the failures of one night.
type RateNight struct {
	At             time.Time
	Failed, Judged int
	Facts          probes.ServerFacts
}

// rateNights are the failures by calendar days of the location, oldest first.
func rateNights(samples []Sample, location *time.Location) []RateNight {
	var out []RateNight
	year, day := 0, 0
	for i := range samples {
		s := &samples[i]
		if s.Judged == 0 {
			continue
		}
		at := s.At.In(location)
		if len(out) == 0 || at.Year() != year || at.YearDay() != day {
			year, day = at.Year(), at.YearDay()
			out = append(out, RateNight{At: s.At})
		}
		night := &out[len(out)-1]
		night.Failed, night.Judged, night.Facts = night.Failed+s.Failed, night.Judged+s.Judged, s.Facts
	}
	return out
}

// detectRate walks over nights of failures. Shift and Baseline of the track are those
// of the success ratio: 1 - ratio/baseline and the baseline's ratio.
func detectRate(nights []RateNight, said []probes.Acknowledgement) Track {
	w := &rateWalk{nights: nights, open: -1}
	inOrder(len(nights), func(t int) time.Time { return nights[t].At }, said, w.night, w.accept)
	return w.track()
}

// rateWalk is the memory of detectRate.
type rateWalk struct {
	nights   []RateNight
	accepted []int
	bad      []bool // of all nights since the baseline was long enough
	open     int    // onset of the open regression; -1: none
	events   []Event
}

// baseline is the failure rate of the accepted nights that are young enough.
func (w *rateWalk) baseline(at time.Time) (rate float64, nights int) {
	failed, judged := 0, 0
	for i := len(w.accepted) - 1; i >= 0 && nights < Nightly.Window; i-- {
		night := &w.nights[w.accepted[i]]
		if at.Sub(night.At) > maxAge {
			break
		}
		failed, judged, nights = failed+night.Failed, judged+night.Judged, nights+1
	}
	if judged == 0 {
		return 0, nights
	}
	return float64(failed) / float64(judged), nights
}

func (w *rateWalk) night(t int) {
	night := &w.nights[t]
	w.bad = append(w.bad, false)
	rate, n := w.baseline(night.At)
	if n < Nightly.Learn {
		w.accepted = append(w.accepted, t)
		return
	}
	bound := max(rateFactor*rate, rate+rateMargin)
	w.bad[t] = surelyAbove(night, bound)
	bad := 0
	for i := max(0, t-rateOf+1); i <= t; i++ {
		if w.bad[i] {
			bad++
		}
	}
	switch {
	case w.open >= 0 && bad == 0:
		w.recover(t)
	case w.open < 0 && (bad >= 2 || w.bad[t] && surelyAbove(night, max(bound, rateAtOnce))):
		w.regress(t)
	case w.open < 0 && !w.bad[t]:
		w.accepted = append(w.accepted, t)
	}
}

func (w *rateWalk) regress(t int) {
	w.open = t
	for i := max(0, t-rateOf+1); i < t; i++ {
		if w.bad[i] {
			w.open = i
			break
		}
	}
	w.events = append(w.events, Event{Night: t, Kind: Regressed, Since: w.open, Change: probes.Known(w.change(w.open, t))})
}

// recover closes a regression with the nights that were as before.
func (w *rateWalk) recover(t int) {
	at := t - rateOf + 1
	w.events = append(w.events, Event{Night: t, Kind: Recovered, Since: at, Change: probes.Known(w.change(at, t))})
	for i := at; i <= t; i++ {
		w.accepted = append(w.accepted, i)
	}
	w.open = -1
}

// change is new/old - 1 of the success ratio, over the nights from since to t.
func (w *rateWalk) change(since, t int) float64 {
	rate, _ := w.baseline(w.nights[t].At)
	failed, judged := 0, 0
	for _, night := range w.nights[since : t+1] {
		failed, judged = failed+night.Failed, judged+night.Judged
	}
	if rate >= 1 || judged == 0 {
		return 0
	}
	return (1-float64(failed)/float64(judged))/(1-rate) - 1
}

func (w *rateWalk) accept(t int, a *probes.Acknowledgement) {
	since := w.open
	if !a.Since.IsZero() {
		for since = 0; since < t && w.nights[since].At.Before(a.Since); {
			since++
		}
	}
	if since < 0 || since >= t {
		return
	}
	w.events = append(w.events, Event{Night: t - 1, Kind: Accepted, Since: since})
	w.open, w.accepted = -1, nil
	for i := since; i < t; i++ {
		w.accepted, w.bad[i] = append(w.accepted, i), false
	}
}

func (w *rateWalk) track() Track {
	out := Track{Events: w.events, State: probes.ChangeLearning, Segment: -1, Onset: -1}
	if len(w.accepted) > 0 {
		out.Segment = w.accepted[0]
	}
	t := len(w.nights) - 1
	if t < 0 {
		return out
	}
	last := w.accepted
	if n := len(last); n > 0 && last[n-1] == t { // tonight is not part of what it is held against
		w.accepted = last[:n-1]
	}
	rate, n := w.baseline(w.nights[t].At)
	since := t
	switch {
	case w.open >= 0:
		out.State, out.Onset, since = probes.ChangeWorse, w.open, w.open
	case n < Nightly.Learn:
		w.accepted = last
		return out
	case w.bad[t]:
		out.State, out.Onset = probes.ChangeSuspected, t
	default:
		out.State = probes.ChangeNone
	}
	out.Baseline, out.BaselineNights = probes.Known(1-rate), n
	out.Shift = probes.Known(-w.change(since, t))
	w.accepted = last
	return out
}

// surelyAbove reports whether the one-sided Clopper-Pearson lower bound of the night's
// rate is above p: whether so many failures would be a wonder if p were the rate.
func surelyAbove(night *RateNight, p float64) bool {
	return atLeast(night.Failed, night.Judged, p) < rateConfidence
}

// atLeast is the probability of k or more failures among n at rate p.
func atLeast(k, n int, p float64) float64 {
	switch {
	case k <= 0 || p >= 1:
		return 1
	case k > n || p <= 0:
		return 0
	case float64(k) <= float64(n)*p: // half or more; the sum below would be long
		return 1 - below(k, n, p)
	}
	term, sum := probability(k, n, p), 0.0
	for i := k; i <= n && term > 1e-18*sum; i++ {
		sum += term
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}

// below is the probability of fewer than k.
func below(k, n int, p float64) float64 {
	sum := 0.0
	term := probability(k-1, n, p)
	for i := k - 1; i >= 0 && term > 1e-18*sum; i-- {
		sum += term
		term *= float64(i) / float64(n-i+1) * (1 - p) / p
	}
	return sum
}

// probability is that of exactly k failures among n at rate p.
func probability(k, n int, p float64) float64 {
	choose := logFactorial(n) - logFactorial(k) - logFactorial(n-k)
	return math.Exp(choose + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

func logFactorial(n int) float64 {
	v, _ := math.Lgamma(float64(n) + 1)
	return v
}
