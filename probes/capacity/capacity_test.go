package capacity

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var oneSLO = []probes.SLO{{Name: "a", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second}}}

// step is a measured rate with so many of n requests over objective a.
func step(rate float64, over, n int) probes.Step {
	return probes.Step{
		Rate: rate, Judged: n, Over: map[string]int{"a": over}, Effect: map[string]float64{"a": 1}, Passed: float64(over) <= 0.01*float64(n),
		Validity: probes.Validity{State: probes.Valid},
	}
}

func near(a, b probes.Optional[float64]) bool {
	x, okX := a.Get()
	y, okY := b.Get()
	return okX == okY && math.Abs(x-y) <= 1e-9*math.Abs(y)
}

// The crossing by hand: l = ln((over + .5) / (n - over + .5)), and ln(.01/.99) between
// two of them on the scale of ln rate.
func TestCrossing(t *testing.T) {
	level := math.Log(0.01 / 0.99)
	between := func(r1, l1, r2, l2 float64) probes.Optional[float64] {
		return known(r1 * math.Pow(r2/r1, (level-l1)/(l2-l1)))
	}
	l := func(over, n float64) float64 { return math.Log((over + 0.5) / (n - over + 0.5)) }
	aborted := step(8, 20, 400)
	aborted.Aborted = true
	broken := step(3, 299, 300)
	broken.Validity.State = probes.Invalid
	empty := step(3, 0, 0)
	pooled := (l(9, 300) + l(1, 300)) / 2
	for _, tt := range []struct {
		name      string
		steps     []probes.Step
		rate      probes.Optional[float64]
		bracketed bool
	}{
		{"between two", []probes.Step{step(2, 0, 300), step(4, 30, 300)}, between(2, l(0, 300), 4, l(30, 300)), true},
		{"whatever their order", []probes.Step{step(4, 30, 300), step(2, 0, 300)}, between(2, l(0, 300), 4, l(30, 300)), true},
		{"aborted is at least .2", []probes.Step{step(4, 1, 300), aborted}, between(4, l(1, 300), 8, 0.2), true},
		{"aborted with more", []probes.Step{step(4, 1, 300), {Rate: 8, Judged: 400, Over: map[string]int{"a": 390}, Aborted: true}}, between(4, l(1, 300), 8, l(390, 400)), true},
		{"a pass above a miss is pooled with it", []probes.Step{step(2, 0, 300), step(4, 9, 300), step(5, 1, 300), step(8, 60, 300)},
			between(2, l(0, 300), 4, pooled), true},
		{"invalid and empty steps are left out", []probes.Step{step(2, 0, 300), broken, empty, step(4, 30, 300)}, between(2, l(0, 300), 4, l(30, 300)), true},
		{"all pass", []probes.Step{step(2, 0, 300), step(4, 0, 300)}, known(4), false},
		{"all fail", []probes.Step{step(2, 20, 300), step(4, 40, 300)}, probes.Optional[float64]{}, false},
		{"one", []probes.Step{step(2, 0, 300)}, known(2), false},
		{"none", nil, probes.Optional[float64]{}, false},
	} {
		c := Estimate(tt.steps, oneSLO, probes.SweepConverged)
		if !near(c.Rate, tt.rate) || c.Bracketed != tt.bracketed {
			t.Errorf("%s: %v, bracketed %v; want %v, %v", tt.name, c.Rate, c.Bracketed, tt.rate, tt.bracketed)
		}
		rate, ok := c.Rate.Get()
		if safe, known := c.Safe.Get(); known != ok || safe != 0.8*rate {
			t.Errorf("%s: safe %v of %v", tt.name, c.Safe, c.Rate)
		}
	}
}

// The objective that is missed first decides.
func TestSeveralObjectives(t *testing.T) {
	slos := []probes.SLO{{Name: "a", Objective: 0.99}, {Name: "b", Objective: 0.95}}
	with := func(rate float64, a, b int) probes.Step {
		s := step(rate, a, 300)
		s.Over["b"] = b
		return s
	}
	for _, tt := range []struct {
		name      string
		steps     []probes.Step
		objective string
		known     bool
	}{
		{"a first", []probes.Step{with(1, 0, 0), with(2, 30, 0), with(4, 200, 60)}, "a", true},
		{"b first", []probes.Step{with(1, 0, 0), with(2, 0, 60), with(4, 30, 60)}, "b", true},
		{"b at the lowest rate", []probes.Step{with(1, 0, 100), with(2, 30, 200)}, "b", false},
		{"neither", []probes.Step{with(1, 0, 0), with(2, 0, 0)}, "a", true},
	} {
		c := Estimate(tt.steps, slos, probes.SweepRatesDone)
		if c.Objective != tt.objective || c.Rate.IsKnown() != tt.known {
			t.Errorf("%s: %+v, want objective %s and a rate %v", tt.name, c, tt.objective, tt.known)
		}
	}
}

// The interval holds the estimate, is the same for the same steps, shrinks with the
// number of requests and grows with the design effect.
func TestInterval(t *testing.T) {
	width := func(n int, effect float64) float64 {
		steps := []probes.Step{step(6, 0, n), step(8, n/200, n), step(10, n/60, n), step(12, n/12, n), step(14, n/4, n)}
		for i := range steps {
			steps[i].Effect["a"] = effect
			steps[i].Summary.Latency = map[probes.Signal]probes.Distribution{probes.E2E: {N: n, P50: 1e-9}} // no luck of the trace
		}
		c := Estimate(steps, oneSLO, probes.SweepConverged)
		again := Estimate(steps, oneSLO, probes.SweepConverged)
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("the same steps give two intervals:\n%s", diff)
		}
		rate, _ := c.Rate.Get()
		low, okLow := c.Low.Get()
		high, okHigh := c.High.Get()
		if !okLow || !okHigh || low >= rate || high <= rate {
			t.Fatalf("n=%d effect=%v: %v from %v to %v", n, effect, c.Rate, c.Low, c.High)
		}
		return math.Log(high / low)
	}
	few, many, crowds := width(600, 1), width(6000, 1), width(600, 4)
	if ratio := few / many; ratio < 2 || ratio > 5 {
		t.Errorf("ten times the requests make the interval %v times narrower, want about sqrt(10)", ratio)
	}
	if ratio := crowds / few; ratio < 1.3 || ratio > 3 {
		t.Errorf("four times the variance makes the interval %v times wider, want about 2", ratio)
	}
	all := Estimate([]probes.Step{step(2, 0, 3000), step(4, 0, 3000)}, oneSLO, probes.SweepCapped)
	if low, ok := all.Low.Get(); all.High.IsKnown() || !ok || math.Abs(math.Log(low/4)+1.96*0.08) > 0.02 {
		t.Errorf("a lower bound has the interval %v to %v, want 4 less the luck of a trace to unknown", all.Low, all.High)
	}
	edge := Estimate([]probes.Step{step(2, 2, 300), step(4, 100, 300)}, oneSLO, probes.SweepConverged)
	if edge.Low.IsKnown() || !edge.High.IsKnown() {
		t.Errorf("where the lowest rate is on the edge the interval is %v to %v, want unknown to something", edge.Low, edge.High)
	}
}

func TestBend(t *testing.T) {
	at := func(p99 ...float64) (steps []probes.Step) {
		for i, x := range p99 {
			s := step(float64(i+1), 0, 300)
			s.Summary.Latency = map[probes.Signal]probes.Distribution{probes.TTFTFromDue: {N: 300, P99: x}}
			steps = append(steps, s)
		}
		return steps
	}
	for _, tt := range []struct {
		name  string
		steps []probes.Step
		want  probes.Optional[float64]
	}{
		{"a knee", at(0.1, 0.1, 0.11, 0.12, 0.9, 2), known(4)},
		{"a dip is smoothed away", at(0.1, 0.3, 0.1, 0.2, 0.9, 2), known(4)},
		{"a straight line", at(0.1, 0.2, 0.3, 0.4), probes.Optional[float64]{}},
		{"flat", at(0.1, 0.1, 0.1, 0.12, 0.15), probes.Optional[float64]{}},
		{"too few", at(0.1, 0.1, 2), probes.Optional[float64]{}},
	} {
		if got := bend(tt.steps); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLength(t *testing.T) {
	e2e := probes.Distribution{N: 9, P50: 2, P95: 3}
	loose := []probes.SLO{{Objective: 0.95}}
	for _, tt := range []struct {
		rate          float64
		e2e           probes.Distribution
		slos          []probes.SLO
		measure, warm time.Duration
	}{
		{10, e2e, oneSLO, 120 * time.Second, 9 * time.Second},
		{1, e2e, oneSLO, 300 * time.Second, 9 * time.Second},
		{1, e2e, loose, 120 * time.Second, 9 * time.Second},
		{0.5, e2e, append(loose, oneSLO...), 600 * time.Second, 9 * time.Second},
		{100, probes.Distribution{N: 9, P50: 0.1, P95: 0.2}, oneSLO, 60 * time.Second, 600 * time.Millisecond},
		{100, probes.Distribution{}, oneSLO, 60 * time.Second, 0},
	} {
		if measure, warm := Length(tt.rate, tt.e2e, tt.slos); measure != tt.measure || warm.Round(time.Microsecond) != tt.warm {
			t.Errorf("Length(%v, %+v) = %v, %v; want %v, %v", tt.rate, tt.e2e, measure, warm, tt.measure, tt.warm)
		}
	}
}

// 3 of 300 are allowed: 9 + 4 x 1.73 + 3 = 18.93.
func TestTooMany(t *testing.T) {
	for over, want := range map[int]bool{0: false, 3: false, 18: false, 19: true} {
		if got := TooMany(over, 300, 0.99); got != want {
			t.Errorf("%d of 300: %v, want %v", over, got, want)
		}
	}
}

// arrived is a request due each 100 ms with the given times to its first token, sent
// as late as the client made it.
func arrived(late time.Duration, ttfts ...time.Duration) (records []probes.Record) {
	for i, ttft := range ttfts {
		due := time.Duration(i) * 100 * time.Millisecond
		records = append(records, probes.Record{
			Outcome: probes.OK, Due: due, Sent: due + late, FirstToken: probes.Known(due + late + ttft),
		})
	}
	return records
}

func goodTTFT(r *probes.Record, slo *probes.SLO) (good, counts bool) {
	if r.Outcome == probes.Cancelled {
		return false, false
	}
	d, ok := r.TTFTFromDue().Get()
	return ok && d <= slo.Bounds[probes.TTFTFromDue], true
}

func TestJudge(t *testing.T) {
	const ms = time.Millisecond
	fast, slow := make([]time.Duration, 100), make([]time.Duration, 100)
	growing, crowd := make([]time.Duration, 100), make([]time.Duration, 100)
	for i := range fast {
		fast[i], slow[i], growing[i], crowd[i] = 200*ms, 200*ms, time.Duration(200+2*i)*ms, 200*ms
		if i%10 == 0 {
			slow[i] = 2 * time.Second
		}
		if i < 10 {
			crowd[i] = 2 * time.Second
		}
	}
	cut := arrived(0, fast...)
	cut[7].Outcome = probes.Cancelled
	for _, tt := range []struct {
		name    string
		records []probes.Record
		want    probes.Step
	}{
		{"good", arrived(0, fast...), probes.Step{Judged: 100, Over: map[string]int{"a": 0}, Effect: map[string]float64{"a": 1}, Passed: true, Stationary: true}},
		{"a late client", arrived(900*ms, fast...), probes.Step{Judged: 100, Over: map[string]int{"a": 100}, Effect: map[string]float64{"a": 1}, Stationary: true}},
		{"evenly bad", arrived(0, slow...), probes.Step{Judged: 100, Over: map[string]int{"a": 10}, Effect: map[string]float64{"a": 1}, Stationary: true}},
		// All ten misses fall in one block: chi2 = (81 + 9) / (10 x .1 x .9) = 100, over 9.
		{"a crowd", arrived(0, crowd...), probes.Step{Judged: 100, Over: map[string]int{"a": 10}, Effect: map[string]float64{"a": 100.0 / 9}, Stationary: true}},
		{"growing", arrived(0, growing...), probes.Step{Judged: 100, Over: map[string]int{"a": 0}, Effect: map[string]float64{"a": 1}, Passed: true, Stationary: true}},
		{"cut requests do not count", cut, probes.Step{Judged: 99, Over: map[string]int{"a": 0}, Effect: map[string]float64{"a": 1}, Passed: true, Stationary: true}},
	} {
		step := probes.Step{Records: tt.records}
		Judge(&step, oneSLO, goodTTFT)
		step.Records = nil
		if math.Abs(step.Effect["a"]-tt.want.Effect["a"]) < 1e-9 {
			step.Effect = tt.want.Effect
		}
		if diff := cmp.Diff(tt.want, step); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	steep := make([]time.Duration, 100)
	for i := range steep {
		steep[i] = time.Duration(100+8*i) * ms
	}
	step := probes.Step{Records: arrived(0, steep...), Aborted: true}
	if Judge(&step, oneSLO, goodTTFT); step.Stationary || step.Passed {
		t.Errorf("a growing queue of an aborted step: stationary %v, passed %v; want neither", step.Stationary, step.Passed)
	}
}

func TestFromDue(t *testing.T) {
	slo := probes.SLO{Name: "a", Bounds: map[probes.Signal]time.Duration{probes.TTFT: 1, probes.TPOT: 2, probes.E2E: 3}}
	want := map[probes.Signal]time.Duration{probes.TTFTFromDue: 1, probes.TPOT: 2, probes.E2EFromDue: 3}
	if diff := cmp.Diff(want, FromDue(slo).Bounds); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
	if _, changed := slo.Bounds[probes.TTFTFromDue]; changed {
		t.Error("the objective itself was changed")
	}
}
