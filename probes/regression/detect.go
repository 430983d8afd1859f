package regression

import (
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Settings are what the detector is told about one series.
type Settings struct {
	// Direction is +1 where lower is better and -1 where higher is better.
	Direction int
	// Threshold is the score from which a change is believed; see [Threshold].
	Threshold float64
	// MinEffect is the smallest change, as a share, that anybody wants to hear of.
	MinEffect float64
	// Prior is the usual spread of such a series, as a share, and Floor the smallest one
	// that is believed.
	Prior, Floor float64
	// DisplayStep is the distance of two values that the server can show; 0 is none.
	DisplayStep float64
	// AutoAccept is after how many nights an open regression becomes the new baseline;
	// 0 leaves that to people.
	AutoAccept int
}

// Night is one point of a series.
type Night struct {
	At    time.Time // of its first run
	Value float64   // positive, in the metric's own unit
	Runs  int       // whose median the value is
	// Facts are those of the server that the night measured.
	Facts probes.ServerFacts
}

// EventKind says what became known on a night.
type EventKind string

const (
	Regressed  EventKind = "regression"
	Worsened   EventKind = "worse" // an open regression has become one of another size
	Recovered  EventKind = "recovered"
	Improved   EventKind = "improvement"
	Accepted   EventKind = "accepted"
	Drifted    EventKind = "drift"
	DriftEnded EventKind = "drift_ended"
	Unstable   EventKind = "unstable"
)

// Event is something that became known on a night. Nights are indices of the series.
type Event struct {
	Night int
	Kind  EventKind
	Since int // first night of what the event speaks of
	// Change is new/old - 1 in the metric's own unit; Low and High bound it with 95 %
	// confidence. They are unknown where the event is not about a size.
	Change, Low, High probes.Optional[float64]
	Score             probes.Optional[float64] // against the threshold
}

// Track is what a series of nights says.
type Track struct {
	Events []Event
	State  probes.ChangeState
	// Shift is how far the series is above its baseline on the scale on which up is
	// worse; Low and High bound it. All are unknown while the state is learning.
	Shift, Low, High probes.Optional[float64]
	Score            probes.Optional[float64] // of the last night's scan
	Last             probes.Optional[float64] // sigmas of the last night
	Sigma            probes.Optional[float64]
	Baseline         probes.Optional[float64] // level, in the metric's own unit
	BaselineNights   int
	// Segment is the night with which the present baseline began, Onset the first one of
	// the open change; -1: none.
	Segment, Onset int
}

// maxAge bounds the nights of a baseline. What a replica did a season ago is no
// measure for today.
const maxAge = 90 * 24 * time.Hour

// Detect walks over the nights of one series, of one fingerprint and oldest first,
// and says what happened and how it stands after the last. said are the
// acknowledgements of the series, oldest first.
//
// Formulas: C_k is the sum of z clipped at 3 over the last k nights, the score is the
// largest C_k / sqrt(v_k + k^2 u) for 2 <= k <= 15, where v_k and u are the variances
// of the sum and of the baseline's median under autocorrelation.
func Detect(nights []Night, settings Settings, rule Rule, said []probes.Acknowledgement) Track {
	return walkOver(nights, settings, rule, said).track()
}

// walkOver is the detector after the last night.
func walkOver(nights []Night, settings Settings, rule Rule, said []probes.Acknowledgement) *walk {
	w := &walk{scanner: newScanner(settings, rule), nights: nights, y: make([]float64, len(nights)), noticed: -unstableNotice, drift: -1}
	for i := range nights {
		w.y[i] = float64(settings.Direction) * math.Log(nights[i].Value)
	}
	inOrder(len(nights), func(t int) time.Time { return nights[t].At }, said, w.night, w.accept)
	return w
}

// inOrder shows the nights and what was said about them in the order they came:
// an acknowledgement goes before the first night that is later than it.
func inOrder(nights int, at func(night int) time.Time, said []probes.Acknowledgement, night func(t int), accept func(before int, a *probes.Acknowledgement)) {
	for t := range nights {
		for len(said) > 0 && said[0].At.Before(at(t)) {
			accept(t, &said[0])
			said = said[1:]
		}
		night(t)
	}
	for i := range said {
		accept(nights, &said[i])
	}
}

// walk is the detector's memory.
type walk struct {
	*scanner
	nights []Night
	y      []float64 // oriented logarithms of all nights
	// accepted are the nights of the present segment that may be part of a baseline,
	// values their y. Those before young are too old for one.
	accepted []int
	values   []float64
	young    int

	open      *change
	improved  *change // the event with which the segment began; nil: with something else
	suspected bool
	unstableA bool
	noticed   int // night of the last notice that the series is unstable
	drift     int // night on which a drift became known; -1: none
	events    []Event
}

// change is a shift against a frozen baseline.
type change struct {
	scanned
	onset, alert    int
	shift           float64 // that recovery is tested against
	low, high, size float64
	level           int // onset of the present level of an open regression
}

// unstableNotice is after how many nights a series that is unstable again is news.
const unstableNotice = 30

// night takes one night in.
func (w *walk) night(t int) {
	w.suspected = false
	if w.open != nil {
		w.whileOpen(t)
		return
	}
	w.accepted, w.values = append(w.accepted, t), append(w.values, w.y[t])
	for w.nights[t].At.Sub(w.nights[w.accepted[w.young]].At) > maxAge {
		w.young++
	}
	y := w.values[w.young:]
	up, ok := w.scan(y)
	if !ok {
		return
	}
	if w.jumps(t, y, up.base.sigma) {
		return
	}
	w.improved = nil
	if k, worse := w.worse(y, &up); worse {
		w.regress(t, k, &up)
		return
	}
	down := w.search(y, up.base, -1)
	if down.score > w.Threshold && down.shift > math.Log1p(w.MinEffect) && down.k >= 3 {
		w.improve(t, &down)
		return
	}
	tonight := w.y[t] - up.base.center
	w.suspected = tonight > suspectSigmas*up.base.sigma && tonight > math.Log1p(w.MinEffect)
	w.creep(t)
}

// jumps notices a series whose alarms would mean nothing.
func (w *walk) jumps(t int, y []float64, sigma float64) bool {
	was := w.unstableA
	w.unstableA = w.unstable(y, sigma, was)
	if w.unstableA && !was && t-w.noticed >= unstableNotice {
		w.noticed = t
		w.events = append(w.events, Event{Night: t, Kind: Unstable, Since: t})
	}
	return w.unstableA
}

// regress opens a regression of the last k nights, which leave the baseline.
func (w *walk) regress(t, k int, r *scanned) {
	n := len(w.accepted)
	onset := w.accepted[n-k]
	c := &change{scanned: *r, onset: onset, alert: t, level: onset}
	c.size = w.median(w.values[n-k:]) - r.base.center
	half := w.halfWidth(r, k)
	c.low, c.high, c.shift = c.size-half, c.size+half, c.size
	w.open, w.drift = c, -1
	w.report(t, Regressed, onset, c, r.score)
	w.accepted, w.values = w.accepted[:n-k], w.values[:n-k]
}

// improve makes the last nights the beginning of a new segment.
func (w *walk) improve(t int, r *scanned) {
	n := len(w.accepted)
	onset := w.accepted[n-r.k]
	c := &change{scanned: *r, onset: onset, alert: t, size: -r.shift}
	half := w.halfWidth(r, r.k)
	c.low, c.high = c.size-half, c.size+half
	w.report(t, Improved, onset, c, r.score)
	w.restart(w.accepted[n-r.k:])
	w.improved = c
}

// restart begins a segment that knows only these nights.
func (w *walk) restart(nights []int) {
	accepted := append([]int(nil), nights...)
	w.accepted, w.values, w.young = accepted, w.values[:0:0], 0
	for _, i := range accepted {
		w.values = append(w.values, w.y[i])
	}
	w.drift, w.improved, w.suspected, w.unstableA = -1, nil, false, false
}

// whileOpen holds a night against an open regression.
func (w *walk) whileOpen(t int) {
	c := w.open
	if age := t - c.onset; age >= refineFrom && age <= refineUntil && c.level == c.onset {
		w.refine(t)
	}
	recent := w.y[t-min(recoveryNights, t-c.alert)+1 : t+1]
	if score := w.recovery(recent); score > recoveryScore {
		w.recover(t, score)
		return
	}
	if w.AutoAccept > 0 && t-c.alert >= w.AutoAccept {
		w.take(t+1, c.onset)
		return
	}
	w.worsen(t)
}

// refine estimates the shift anew: the nights on which an alarm goes off are those
// that happened to be bad.
func (w *walk) refine(t int) {
	c := w.open
	nights := w.y[c.onset : t+1]
	c.size = max(w.median(nights)-c.base.center, math.Log1p(w.MinEffect))
	c.shift = c.size
	half := w.halfWidth(&c.scanned, len(nights))
	c.low, c.high = c.size-half, c.size+half
}

// recovery is the log likelihood ratio of "at the baseline" against "still shifted",
// made smaller because neighbouring nights resemble each other.
func (w *walk) recovery(recent []float64) float64 {
	c := w.open
	q, sum := c.shift/c.base.sigma, 0.0
	for _, y := range recent {
		sum += q * (q/2 - clip((y-c.base.center)/c.base.sigma, -clipAt, q+clipAt))
	}
	return sum / (1 + w.rule.Phi)
}

// recover closes a regression. The nights of the old level join the baseline.
func (w *walk) recover(t int, score float64) {
	c, at := w.open, t
	for at-1 > c.alert && w.y[at-1]-c.base.center < c.shift/2 {
		at--
	}
	back := w.median(w.y[at:t+1]) - c.base.center
	w.events = append(w.events, Event{
		Night: t, Kind: Recovered, Since: at, Change: probes.Known(w.natural(back)), Score: probes.Known(score),
	})
	for i := at; i <= t; i++ {
		w.accepted, w.values = append(w.accepted, i), append(w.values, w.y[i])
	}
	w.open = nil
}

// worsen looks for a further step among the nights of an open regression.
func (w *walk) worsen(t int) {
	c := w.open
	nights := w.y[c.level : t+1]
	r, ok := w.scan(nights)
	if !ok {
		return
	}
	k, worse := w.worse(nights, &r)
	if !worse {
		return
	}
	c.level = t - k + 1
	c.size = w.median(nights[len(nights)-k:]) - c.base.center
	half := w.halfWidth(&c.scanned, k)
	c.low, c.high = c.size-half, c.size+half
	w.report(t, Worsened, c.level, c, r.score)
}

// accept is somebody's word, said before night t, that the present level is right.
func (w *walk) accept(t int, a *probes.Acknowledgement) {
	since := -1
	if !a.Since.IsZero() {
		for since = 0; since < t && w.nights[since].At.Before(a.Since); {
			since++
		}
	}
	switch {
	case since >= t: // of nights that have not been
	case since >= 0:
		w.take(t, since)
	case w.open != nil:
		w.take(t, w.open.onset)
	case w.drift >= 0:
		w.take(t, w.accepted[max(0, len(w.accepted)-driftNights)])
	}
}

// take makes the nights from since on, and before t, the new baseline.
func (w *walk) take(t, since int) {
	w.events = append(w.events, Event{Night: t - 1, Kind: Accepted, Since: since})
	w.open = nil
	nights := make([]int, 0, t-since)
	for i := since; i < t; i++ {
		nights = append(nights, i)
	}
	w.restart(nights)
}

func (w *walk) report(t int, kind EventKind, since int, c *change, score float64) {
	low, high := w.natural(c.low), w.natural(c.high)
	w.events = append(w.events, Event{
		Night: t, Kind: kind, Since: since, Change: probes.Known(w.natural(c.size)),
		Low: probes.Known(min(low, high)), High: probes.Known(max(low, high)), Score: probes.Known(score),
	})
}

// natural turns a shift into new/old - 1 of the metric's own unit.
func (w *walk) natural(shift float64) float64 { return math.Expm1(float64(w.Direction) * shift) }

// track is how the series stands after the last night.
func (w *walk) track() Track {
	out := Track{Events: w.events, State: probes.ChangeLearning, Segment: -1, Onset: -1}
	if len(w.accepted) > 0 {
		out.Segment = w.accepted[0]
	}
	if c := w.open; c != nil {
		out.State, out.Onset = probes.ChangeWorse, c.onset
		w.stand(&out, c.base, c.size, c.low, c.high)
		return out
	}
	r, ok := w.scan(w.values[w.young:])
	if c := w.improved; c != nil {
		out.State, out.Onset = probes.ChangeBetter, c.onset
		w.stand(&out, c.base, c.size, c.low, c.high)
		return out
	}
	if !ok {
		return out
	}
	tonight := w.values[len(w.values)-1] - r.base.center
	half := w.halfWidth(&r, 1)
	w.stand(&out, r.base, tonight, tonight-half, tonight+half)
	out.Score = probes.Known(r.score)
	last := w.accepted[len(w.accepted)-1]
	switch out.State = probes.ChangeNone; {
	case w.unstableA:
		out.State = probes.ChangeUnstable
	case w.suspected:
		out.State, out.Onset = probes.ChangeSuspected, last
	case w.drift >= 0:
		out.State, out.Onset = probes.ChangeDrift, w.drift
		a := w.anchor()
		w.stand(&out, a.base, a.shift, a.shift-a.half, a.shift+a.half)
	}
	return out
}

// stand fills in the level and how far the series is off it.
func (w *walk) stand(out *Track, base level, shift, low, high float64) {
	out.Shift, out.Low, out.High = probes.Known(shift), probes.Known(low), probes.Known(high)
	out.Sigma, out.BaselineNights = probes.Known(base.sigma), base.n
	out.Baseline = probes.Known(math.Exp(float64(w.Direction) * base.center))
	out.Last = probes.Known((w.y[len(w.y)-1] - base.center) / base.sigma)
}
