package regression

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Options are what a pair's judgement needs beside its runs.
type Options struct {
	Spec *probes.Spec
	// Location is where a day begins and ends; nil is UTC.
	Location *time.Location
	// Hourly looks at the hours too. They bring news within the day; the nights remain
	// the surer word.
	Hourly bool
	// Threshold replaces that of the spec's sensitivity; 0 does not.
	Threshold float64
	// Said are the pair's acknowledgements, oldest first.
	Said []probes.Acknowledgement
}

// News is an event in words that need no series beside them.
type News struct {
	Metric probes.RegressionMetric
	Kind   EventKind
	At     time.Time // of the night on which it became known
	Since  time.Time // first night of what it speaks of
	Before time.Time // last night before that; zero: none
	// Effect is the change as a share, positive is worse; Low and High bound it.
	Effect, Low, High probes.Optional[float64]
	// Renamed are the facts of the server that differ between Before and Since.
	Renamed []probes.FactChange
}

// Judgement is what the nights of a pair say.
type Judgement struct {
	Changes []probes.Change // in the order of the vocabulary
	News    []News          // of all nights, by metric
}

// Threshold is the score from which a change of a primary metric is believed. The
// rates of false alarms that go with it are in SIMULATION.md.
func Threshold(s probes.Sensitivity) float64 {
	switch s {
	case probes.SensitivityHigh:
		return 3.5
	case probes.SensitivityLow:
		return 4.5
	}
	return 4
}

// secondaryMore is what is added to the threshold for secondary metrics.
const secondaryMore = 0.5

// Judge lays the last sample of a pair beside the earlier ones of its fingerprint, for
// each metric that the probe measures. Samples are in order of time.
func Judge(samples []Sample, o Options) Judgement {
	var out Judgement
	if len(samples) == 0 {
		return out
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	fingerprint := samples[len(samples)-1].Fingerprint
	own := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.Fingerprint != fingerprint })
	asked := o.Spec.Regression.Metrics
	for _, metric := range probes.RegressionMetrics {
		if !Applies(metric, o.Spec) || len(asked) > 0 && !slices.Contains(asked, metric) {
			continue
		}
		j := judged{metric: metric, options: &o, said: saidOf(o.Said, metric)}
		var ok bool
		if metric == probes.MetricSuccessRatio {
			ok = j.rate(own)
		} else {
			ok = j.series(own)
		}
		if !ok {
			continue
		}
		change := j.change()
		if j.track.State == probes.ChangeLearning {
			change.Reasons = append(change.Reasons, otherEnvironment(metric, j.nights, samples, fingerprint, &o)...)
		}
		out.Changes = append(out.Changes, change)
		out.News = append(out.News, j.news()...)
	}
	return out
}

func saidOf(said []probes.Acknowledgement, metric probes.RegressionMetric) []probes.Acknowledgement {
	return slices.DeleteFunc(slices.Clone(said), func(a probes.Acknowledgement) bool {
		return a.Metric != "" && a.Metric != metric
	})
}

// judged is one metric of a pair.
type judged struct {
	metric  probes.RegressionMetric
	options *Options
	said    []probes.Acknowledgement

	direction int
	nights    []Night // of failures too, which have no Value
	track     Track
	hourly    bool // the track is that of hours
}

// settingsOf are those of a metric under the spec's wishes.
func settingsOf(class Class, o *Options) Settings {
	r := &o.Spec.Regression
	s := Settings{
		Direction: class.Direction, Threshold: Threshold(r.Sensitivity), MinEffect: class.MinEffect, Prior: class.Prior,
		Floor: class.Floor, DisplayStep: class.DisplayStep, AutoAccept: r.AutoAccept,
	}
	if o.Threshold > 0 {
		s.Threshold = o.Threshold
	}
	if class.Secondary {
		s.Threshold += secondaryMore
	}
	if own, ok := r.MinEffects[class.Metric]; ok {
		s.MinEffect = own
	}
	return s
}

// series judges a metric that has values. It is false when there is none to show.
func (j *judged) series(samples []Sample) bool {
	class, _ := classOf(j.metric)
	settings := settingsOf(class, j.options)
	j.direction = class.Direction
	j.nights = Nights(samples, j.metric, j.options.Location)
	j.track = Detect(j.nights, settings, Nightly, j.said)
	if j.options.Hourly && j.track.State != probes.ChangeWorse {
		settings.Threshold = min(settings.Threshold, hourlyMost)
		byHour := hours(samples, j.metric)
		if track := Detect(byHour, settings, Hourly, j.said); track.State == probes.ChangeWorse {
			j.nights, j.track, j.hourly = byHour, track, true
		}
	}
	return len(j.nights) > 0 || !class.Optional
}

// hourlyMost is the highest threshold for hours. They resemble each other so much that
// a day of hours, each clipped at 3 sigmas, scores 4.8 at most.
const hourlyMost = 4.5

func (j *judged) rate(samples []Sample) bool {
	nights := rateNights(samples, j.options.Location)
	j.direction = -1
	j.track = detectRate(nights, j.said)
	for _, n := range nights {
		j.nights = append(j.nights, Night{At: n.At, Runs: 1, Facts: n.Facts})
	}
	return len(nights) > 0
}

// worse is a shift as a share of the old value; positive is worse.
func (j *judged) worse(shift probes.Optional[float64]) probes.Optional[float64] {
	d, ok := shift.Get()
	if !ok || j.metric == probes.MetricSuccessRatio {
		return shift
	}
	return probes.Known(float64(j.direction) * math.Expm1(float64(j.direction)*d))
}

func (j *judged) change() probes.Change {
	t := &j.track
	c := probes.Change{
		Metric: j.metric, State: t.State, Effect: j.worse(t.Shift), Low: j.worse(t.Low), High: j.worse(t.High),
		Baseline: t.Baseline, BaselineRuns: t.BaselineNights,
	}
	if t.BaselineNights > 0 && t.Segment >= 0 {
		c.BaselineAt = j.nights[t.Segment].At
	}
	if t.Onset >= 0 {
		c.Onset = j.nights[t.Onset].At
		c.Renamed = j.renamedAt(t.Onset)
	}
	if sigma, ok := t.Sigma.Get(); ok {
		c.SmallestStep = probes.Known(math.Expm1(2 * sigma))
	}
	c.Reasons = j.reasons(&c)
	return c
}

func (j *judged) reasons(c *probes.Change) []probes.Reason {
	day := func(t time.Time) string { return t.In(j.options.Location).Format(time.DateOnly) }
	say := func(code, format string, args ...any) probes.Reason {
		return probes.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
	}
	switch c.State {
	case probes.ChangeWorse:
		reasons := []probes.Reason{say(probes.ReasonRegression, "%s is %s worse than its baseline since %s (%s)",
			j.metric, share(c.Effect, c.Low, c.High), day(c.Onset), Severity(c.Effect.Or(0)))}
		if j.hourly {
			reasons = append(reasons, say(probes.ReasonHourly, "the hours since %s say so; the nights do not yet", c.Onset.In(j.options.Location).Format(time.DateTime)))
		}
		return append(reasons, j.cause(j.track.Onset)...)
	case probes.ChangeBetter:
		return append([]probes.Reason{say(probes.ReasonImprovement, "%s is %s better since %s, which is the new baseline",
			j.metric, share(negative(c.Effect), negative(c.High), negative(c.Low)), day(c.Onset))}, j.cause(j.track.Onset)...)
	case probes.ChangeSuspected:
		return []probes.Reason{say(probes.ReasonOddNight, "%s was %s worse than its baseline on %s; one night proves nothing", j.metric, share(c.Effect, c.Low, c.High), day(c.Onset))}
	case probes.ChangeDrift:
		return []probes.Reason{say(probes.ReasonDrift, "%s has crept %s away from where it was on the first nights since %s", j.metric, share(c.Effect, c.Low, c.High), day(c.BaselineAt))}
	case probes.ChangeUnstable:
		return []probes.Reason{say(probes.ReasonUnstableSeries, "%s jumps to and fro; until the benchmark is mended nothing is concluded from it", j.metric)}
	case probes.ChangeLearning:
		if len(j.nights) == 0 {
			return []probes.Reason{say(probes.ReasonNoNights, "no night has a %s that can be judged", j.metric)}
		}
		return []probes.Reason{say(probes.ReasonTooFewNights, "%s: %d of the %d nights that a judgement needs", j.metric, j.learnt(), Nightly.Learn+2)}
	}
	return nil
}

// learnt is how many nights of the present segment there are.
func (j *judged) learnt() int {
	if j.track.Segment < 0 {
		return 0
	}
	return len(j.nights) - j.track.Segment
}

// cause says what the server calls itself on both sides of a change.
func (j *judged) cause(onset int) []probes.Reason {
	if onset <= 0 {
		return nil
	}
	if changed := j.renamedAt(onset); len(changed) > 0 {
		return []probes.Reason{{Code: probes.ReasonVersionChanged, Text: "between the last night before and the first night of it: " + join(changed)}}
	}
	if !j.nights[onset-1].Facts.Known() || !j.nights[onset].Facts.Known() {
		return nil
	}
	return []probes.Reason{{Code: probes.ReasonVersionUnchanged, Text: "the server says the same about itself before and after; its surroundings are suspected"}}
}

// renamedAt are the facts that are not those of the night before.
func (j *judged) renamedAt(night int) []probes.FactChange {
	if night <= 0 {
		return nil
	}
	return renamed(&j.nights[night-1].Facts, &j.nights[night].Facts)
}

func join(changes []probes.FactChange) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// renamed lists the facts that are known on both sides and differ.
func renamed(before, after *probes.ServerFacts) []probes.FactChange {
	var out []probes.FactChange
	then := before.All()
	for _, now := range before.Changed(after) {
		i := slices.IndexFunc(then, func(f probes.Fact) bool { return f.Name == now.Name })
		out = append(out, probes.FactChange{Name: now.Name, Before: then[i].Value, After: now.Value})
	}
	return out
}

func (j *judged) news() []News {
	var out []News
	for _, e := range j.track.Events {
		n := News{Metric: j.metric, Kind: e.Kind, At: j.nights[e.Night].At, Since: j.nights[e.Since].At}
		n.Effect, n.Low, n.High = j.oriented(e.Change), j.oriented(e.Low), j.oriented(e.High)
		if j.direction < 0 {
			n.Low, n.High = n.High, n.Low
		}
		if e.Since > 0 {
			n.Before = j.nights[e.Since-1].At
			n.Renamed = j.renamedAt(e.Since)
		}
		out = append(out, n)
	}
	return out
}

// oriented turns new/old - 1 into a share of which positive is worse.
func (j *judged) oriented(change probes.Optional[float64]) probes.Optional[float64] {
	v, ok := change.Get()
	if !ok {
		return change
	}
	return probes.Known(float64(j.direction) * v)
}

// Severity is how grave a regression of that share is.
func Severity(effect float64) string {
	switch {
	case effect > 0.25:
		return "critical"
	case effect >= 0.10:
		return "major"
	}
	return minor
}

const minor = "minor"

func negative(o probes.Optional[float64]) probes.Optional[float64] {
	if v, ok := o.Get(); ok {
		return probes.Known(-v)
	}
	return o
}

// share is an effect in words: "8.5 % (3.9 to 13.3 %)".
func share(effect, low, high probes.Optional[float64]) string {
	text := fmt.Sprintf("%.1f %%", 100*effect.Or(0))
	if l, ok := low.Get(); ok {
		text += fmt.Sprintf(" (%.1f to %.1f %%)", 100*l, 100*high.Or(0))
	}
	return text
}

// compared is how many nights of a new environment are laid beside the old one.
const compared = 3

// otherEnvironment lays the first nights of a new environment beside the last ones of
// the one before, for information.
func otherEnvironment(metric probes.RegressionMetric, nights []Night, samples []Sample, fingerprint string, o *Options) []probes.Reason {
	class, ok := classOf(metric)
	first := slices.IndexFunc(samples, func(s Sample) bool { return s.Fingerprint == fingerprint })
	if !ok || first <= 0 || len(nights) < compared {
		return nil
	}
	old := samples[first-1].Fingerprint
	before := slices.DeleteFunc(slices.Clone(samples[:first]), func(s Sample) bool { return s.Fingerprint != old })
	earlier := Nights(before, metric, o.Location)
	if len(earlier) < Nightly.Learn {
		return nil
	}
	s := newScanner(settingsOf(class, o), Nightly)
	y := func(nights []Night) []float64 {
		out := make([]float64, len(nights))
		for i := range nights {
			out[i] = float64(class.Direction) * math.Log(nights[i].Value)
		}
		return out
	}
	r := scanned{base: s.describe(y(earlier[max(0, len(earlier)-Nightly.Window):]))}
	r.inflow = Nightly.medianVariance(r.base.n)
	shift, half := s.median(y(nights[:compared]))-r.base.center, s.halfWidth(&r, compared)
	j := judged{metric: metric, direction: class.Direction}
	worse := func(d float64) probes.Optional[float64] { return j.worse(probes.Known(d)) }
	return []probes.Reason{{Code: probes.ReasonEnvironmentChanged, Text: fmt.Sprintf(
		"a new environment since %s: %s changed for the worse by %s; the two are not comparable, this is for information",
		nights[0].At.In(o.Location).Format(time.DateOnly), metric, share(worse(shift), worse(shift-half), worse(shift+half)))}}
}
