package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// MinPairs are the fewest pairs that a comparison is judged by. A run is a value, and
// with fewer of them the error cannot be shared among several metrics.
const MinPairs = 5

// Look is a number of pairs at which it is asked whether they decide, and the
// one-sided error that this look may have.
type Look struct {
	Pairs int
	Alpha float64
}

// Looks are those of a comparison of at most so many pairs: after 5, 7 and the last.
// The errors are small enough for the three of them together to stay near 5 %.
func Looks(pairs int) []Look {
	last := Look{pairs, 0.02}
	if pairs >= 10 {
		last.Alpha = 0.025
	}
	var out []Look
	for _, early := range []Look{{5, 0.02}, {7, 0.02}} {
		if early.Pairs < pairs {
			out = append(out, early)
		}
	}
	return append(out, last)
}

// CanRefuse reports whether the last look of so many pairs has error enough for so
// many primary metrics: 5 pairs have it for 5.
func CanRefuse(pairs, primaries int) bool {
	looks := Looks(pairs)
	last := looks[len(looks)-1]
	return cut(pairs, pairs, last.Alpha/float64(max(1, primaries))) > 0
}

// Input is what a judgement is made of.
type Input struct {
	// Reference and Candidate are the believed runs of both sides; runs at one index
	// are a pair.
	Reference, Candidate []*probes.Run
	// Spec says what was asked, and by its Gate, Margins and Pairs how to judge it.
	Spec *probes.Spec
	// History says that the runs were not interleaved.
	History bool
	// Last says that there will be no more pairs.
	Last bool
}

// Judge says whether the candidate may take the reference's place.
func Judge(in Input) (answer probes.GateAnswer, judgements []probes.Judgement, grounds probes.Grounds) {
	j := judge{Input: in, primary: Primary(in.Spec), pairs: min(len(in.Reference), len(in.Candidate))}
	looks := Looks(in.Spec.Pairs)
	at := slices.IndexFunc(looks, func(l Look) bool { return j.pairs <= l.Pairs })
	if at < 0 {
		at = len(looks) - 1
	}
	j.alpha = looks[at].Alpha
	j.last = in.Last || j.pairs >= in.Spec.Pairs
	j.grounds = probes.Grounds{Pairs: j.pairs, Alpha: j.alpha, History: in.History}
	for _, l := range looks {
		j.grounds.Looks = append(j.grounds.Looks, l.Pairs)
	}
	for i := range Metrics {
		if judged, ok := j.metric(&Metrics[i]); ok {
			j.judgements = append(j.judgements, judged)
		}
	}
	answer = j.conclude()
	return answer, j.judgements, j.grounds
}

type judge struct {
	Input
	primary    []probes.RegressionMetric
	pairs      int
	alpha      float64
	last       bool
	judgements []probes.Judgement
	grounds    probes.Grounds
}

// open is the answer that more pairs may still change.
func (j *judge) open() probes.GateAnswer {
	if j.last {
		return probes.GateInconclusive
	}
	return probes.GateUndecided
}

// metric judges one; false when neither side has it, so that there is nothing to say.
func (j *judge) metric(m *Metric) (probes.Judgement, bool) {
	a, b := values(m, j.Reference), values(m, j.Candidate)
	if len(a) == 0 && len(b) == 0 {
		return probes.Judgement{}, false
	}
	out := probes.Judgement{
		Metric: m.Name, Answer: j.open(), Primary: slices.Contains(j.primary, m.Name), N: min(len(a), len(b)),
		HigherBetter: m.HigherBetter, Points: m.Points, Margin: m.Margin,
	}
	if margin, ok := j.Spec.Margins[m.Name]; ok {
		out.Margin = margin
	}
	if out.N == 0 {
		return out, out.Primary // there is no median of the other side to show
	}
	out.Reference, out.Candidate = median(slices.Clone(a)), median(slices.Clone(b))
	m.lay(&out, oriented(m, a), oriented(m, b), j.alpha, len(j.primary))
	if out.N >= MinPairs {
		out.Answer = decide(m, &out, j.open())
	}
	return out, true
}

// decide holds the bounds of a metric against its margin, both on the metric's own
// scale of effects.
func decide(m *Metric, out *probes.Judgement, open probes.GateAnswer) probes.GateAnswer {
	effect, _ := out.Effect.Get()
	surely, sure := out.Surely.Get()
	high, bounded := out.High.Get()
	switch {
	case sure && surely > 0 && m.shift(effect) >= m.shift(out.Margin)/2:
		return probes.GateRegressed
	case bounded && high < out.Margin:
		return probes.GatePass
	}
	return open
}

// lay fills in what the values of both sides say, on the scale on which up is worse.
func (m *Metric) lay(out *probes.Judgement, a, b []float64, alpha float64, sharing int) {
	e := estimate(a, b, alpha)
	surely, _ := bounds(differences(a, b), cut(len(a), len(b), alpha/float64(max(1, sharing))))
	out.Effect = probes.Known(m.effect(e.Shift))
	out.Low, out.High, out.Surely, out.Detectable = m.effects(e.Low), m.effects(e.High), m.effects(surely), m.effects(e.Visible)
	out.P = e.P
}

// effects is effect of what may be unknown.
func (m *Metric) effects(shift probes.Optional[float64]) probes.Optional[float64] {
	v, ok := shift.Get()
	if !ok {
		return shift
	}
	return probes.Known(m.effect(v))
}

// values are those that the runs have.
func values(m *Metric, runs []*probes.Run) []float64 {
	var out []float64
	for _, run := range runs {
		if v, ok := m.Value(run).Get(); ok {
			out = append(out, v)
		}
	}
	return out
}

func oriented(m *Metric, values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = m.worse(v)
	}
	return out
}

func (j *judge) reason(code, format string, args ...any) {
	j.grounds.Reasons = append(j.grounds.Reasons, probes.Reason{Code: code, Text: fmt.Sprintf(format, args...)})
}

// conclude is the answer of the whole, with its reasons.
func (j *judge) conclude() probes.GateAnswer {
	if differ := j.controls(); differ {
		return probes.GateInvalid
	}
	if j.History {
		j.reason(NotInterleaved, "history, not interleaved: the pairs are nights of two series, so what differs between their surroundings is part of the shift")
	}
	if j.pairs < MinPairs {
		j.reason(TooFewPairs, "%d pairs can be believed, and a judgement needs %d", j.pairs, MinPairs)
		if j.last {
			return probes.GateInvalid
		}
		return probes.GateUndecided
	}
	asked := j.Spec.Gate != nil && len(j.Spec.Gate.Primary) > 0
	answer, judged := probes.GatePass, false
	for _, name := range j.primary {
		i := slices.IndexFunc(j.judgements, func(o probes.Judgement) bool { return o.Metric == name })
		if i < 0 {
			if asked { // a default that this load does not have is no loss
				j.reason(MetricUnknown, "%s is known on neither side", name)
				answer = j.worst(answer, j.open())
			}
			continue
		}
		judged = true
		answer = j.worst(answer, j.explain(&j.judgements[i]))
	}
	if !judged {
		j.reason(NothingToJudge, "none of %s is known on both sides", join(j.primary))
		return probes.GateInvalid
	}
	if answer == probes.GatePass {
		for i := range j.judgements {
			if o := &j.judgements[i]; !o.Primary && o.Answer == probes.GateRegressed {
				j.reason(SecondaryWorse, "%s", sentence(o, j.alpha))
			}
		}
	}
	return answer
}

// Disbelieve takes the answer back when the comparison as a whole is invalid or was
// cut short, whatever its pairs say.
func Disbelieve(c *probes.Comparison, v probes.Validity, complete bool) {
	var cause string
	switch {
	case !complete:
		cause = "the comparison was cut short"
	case v.State == probes.Invalid:
		codes := make([]string, len(v.Reasons))
		for i, r := range v.Reasons {
			codes[i] = r.Code
		}
		cause = "the comparison is invalid: " + strings.Join(codes, ", ")
	default:
		return
	}
	c.Answer = probes.GateInvalid
	c.Grounds.Reasons = append([]probes.Reason{{Code: NotBelieved, Text: cause}}, c.Grounds.Reasons...)
}

// worst is the graver of two answers: one metric that has regressed is enough.
func (j *judge) worst(a, b probes.GateAnswer) probes.GateAnswer {
	if a == probes.GateRegressed || b == probes.GatePass {
		return a
	}
	return b
}

// explain says why a primary metric does not pass.
func (j *judge) explain(o *probes.Judgement) probes.GateAnswer {
	switch {
	case o.Answer == probes.GateRegressed:
		j.reason(Worse, "%s", sentence(o, j.alpha))
	case o.N < MinPairs:
		j.reason(MetricUnknown, "%s is known in %d runs of a side, and a judgement needs %d", o.Metric, o.N, MinPairs)
	case o.Answer != probes.GatePass:
		text := sentence(o, j.alpha)
		if seen, ok := o.Detectable.Get(); ok {
			text += fmt.Sprintf("; %d runs of this noise cannot show less than %s", o.N, amount(o, seen))
		}
		j.reason(NotDecided, "%s", text)
	}
	return o.Answer
}

// sentence tells a shift with its interval and margin.
func sentence(o *probes.Judgement, alpha float64) string {
	effect, _ := o.Effect.Get()
	text := fmt.Sprintf("%s is %s", o.Metric, direction(o, effect))
	low, bounded := o.Low.Get()
	high, also := o.High.Get()
	if bounded && also {
		text += fmt.Sprintf(" (%g %% interval from %s to %s)", 100*(1-2*alpha), direction(o, low), direction(o, high))
	}
	return text + fmt.Sprintf(", and %s are allowed", amount(o, o.Margin))
}

func direction(o *probes.Judgement, effect float64) string {
	if effect < 0 {
		return amount(o, -effect) + " better"
	}
	return amount(o, effect) + " worse"
}

// amount is an effect in per cent, or in percentage points.
func amount(o *probes.Judgement, effect float64) string {
	unit := "%"
	if o.Points {
		unit = "points"
	}
	return fmt.Sprintf("%.2f %s", 100*effect+0, unit) // +0: no negative zero
}

func join(names []probes.RegressionMetric) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	return strings.Join(texts, ", ")
}
