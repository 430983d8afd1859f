package regression

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

var long = flag.Bool("long", false, "simulate at full size and write SIMULATION.md")

// noise makes nights of one series as they were found to be: half of the variance
// with the heavy tails of Student's t with 5 degrees of freedom, a quarter that the
// next night inherits, a quarter of the day; two nights in a hundred are 3 to 10
// sigmas off, mostly to the slow side; and the level walks by a fiftieth of a sigma.
type noise struct {
	*rand.Rand
	sigma         float64
	inherit, walk float64
}

func newNoise(seed uint64, sigma float64) *noise {
	n := &noise{Rand: rand.New(rand.NewPCG(seed, 20261130)), sigma: sigma}
	n.inherit = n.NormFloat64()
	return n
}

// night is the logarithm of the next night's value, relative to its level.
func (n *noise) night() float64 {
	const phi = 0.6
	n.inherit = phi*n.inherit + math.Sqrt(1-phi*phi)*n.NormFloat64()
	n.walk += 0.02 * n.NormFloat64()
	chi := 0.0
	for range 5 {
		g := n.NormFloat64()
		chi += g * g
	}
	student := n.NormFloat64() / math.Sqrt(chi/5) / math.Sqrt(5.0/3)
	y := math.Sqrt(0.5)*student + 0.5*n.inherit + 0.5*n.NormFloat64() + n.walk
	if n.Float64() < 0.02 {
		off := 3 + 7*n.Float64()
		if n.Float64() > 0.8 {
			off = -off
		}
		y += off
	}
	return n.sigma * y
}

// history is a series of so many nights, with a step of a share at night onset.
func (n *noise) history(nights, onset int, step float64) []Night {
	out := make([]Night, nights)
	for i := range out {
		y := n.night()
		if i >= onset {
			y += math.Log1p(step)
		}
		out[i] = Night{At: firstNight.Add(time.Duration(i) * 24 * time.Hour), Value: 100 * math.Exp(y), Runs: 1}
	}
	return out
}

const quietNights = 395

// falseAlarms are regressions in series whose level nobody changed.
func falseAlarms(sigma float64, series int, seed uint64, settings Settings) (events int, years float64) {
	for i := range series {
		nights := newNoise(seed+uint64(i), sigma).history(quietNights, quietNights, 0)
		for _, e := range Detect(nights, settings, Nightly, nil).Events {
			if e.Kind == Regressed {
				events++
			}
		}
	}
	return events, float64(series) * quietNights / 365
}

// found is what became of steps.
type found struct {
	steps, detected, near, covered int
	delay                          float64 // mean, in nights
}

const allowedNights = 14

// detections are regressions within 14 nights of a step.
func detections(sigma, step float64, series int, seed uint64, settings Settings) found {
	out := found{steps: series}
	for i := range series {
		n := newNoise(seed+uint64(i), sigma)
		onset := 60 + n.IntN(20)
		track := Detect(n.history(onset+allowedNights, onset, step), settings, Nightly, nil)
		for _, e := range track.Events {
			if e.Kind != Regressed || e.Night < onset {
				continue
			}
			out.detected++
			out.delay += float64(e.Night - onset)
			if d := e.Since - onset; d >= -1 && d <= 1 {
				out.near++
			}
			if e.Low.Or(0) <= step && step <= e.High.Or(0) {
				out.covered++
			}
			break
		}
	}
	if out.detected > 0 {
		out.delay /= float64(out.detected)
	}
	return out
}

// simulated are the settings of a series whose usual spread is known.
func simulated(sigma float64) Settings {
	return Settings{Direction: 1, Threshold: 4, MinEffect: 0.03, Prior: sigma, Floor: 0.003}
}

// runsOf are the values of single runs of the nights of a series: nights scatter by 2 %,
// runs by 4 %, and three runs in a hundred are bad.
type runsOf struct {
	night *noise
	*rand.Rand
}

func newRuns(seed uint64) *runsOf {
	return &runsOf{newNoise(seed, 0.02), rand.New(rand.NewPCG(seed, 77))}
}

// value is that of a night of so many runs; again asks for two more after a first one.
func (r *runsOf) value(runs int, shift float64, again func(first float64) bool) (value float64, made int) {
	level := r.night.night() + shift
	one := func() float64 {
		y := level + 0.04*r.NormFloat64()
		if r.Float64() < 0.03 {
			y += 0.04 * (3 + 7*r.Float64())
		}
		return 100 * math.Exp(y)
	}
	values := []float64{one()}
	if again != nil && again(values[0]) {
		runs = 3
	}
	for len(values) < runs {
		values = append(values, one())
	}
	return newScanner(Settings{}, Nightly).median(values), len(values)
}

// policy is how often a night is run.
type policy struct {
	name     string
	runs     int
	adaptive bool
}

var policies = []policy{{"1 run", 1, false}, {"1 run, 2 more if odd", 1, true}, {"median of 3", 3, false}}

// series plays a policy over nights, with a step from night onset on.
func (p policy) series(seed uint64, nights, onset int, step float64) (out []Night, runs int) {
	r, settings := newRuns(seed), simulated(0.045)
	for i := range nights {
		shift := 0.0
		if i >= onset {
			shift = math.Log1p(step)
		}
		var again func(float64) bool
		if p.adaptive {
			again = func(first float64) bool {
				z, ok := surprise(out[max(0, len(out)-80):], first, settings, nil)
				return ok && math.Abs(z) > rerunSigmas
			}
		}
		value, made := r.value(p.runs, shift, again)
		runs += made
		out = append(out, Night{At: firstNight.Add(time.Duration(i) * 24 * time.Hour), Value: value, Runs: made})
	}
	return out, runs
}

func (p policy) falseAlarms(series int, seed uint64) (events, runs int, nights int) {
	for i := range series {
		s, made := p.series(seed+uint64(i), quietNights, quietNights, 0)
		runs, nights = runs+made, nights+len(s)
		events += regressions(s, simulated(0.045), Nightly)
	}
	return events, runs, nights
}

func (p policy) detections(step float64, series int, seed uint64) (detected int) {
	for i := range series {
		s, _ := p.series(seed+uint64(i), 60+allowedNights, 60, step)
		for _, e := range Detect(s, simulated(0.045), Nightly, nil).Events {
			if e.Kind == Regressed && e.Night >= 60 {
				detected++
				break
			}
		}
	}
	return detected
}

func regressions(nights []Night, settings Settings, rule Rule) (n int) {
	for _, e := range Detect(nights, settings, rule, nil).Events {
		if e.Kind == Regressed {
			n++
		}
	}
	return n
}

// hourlyAlarms are regressions in hours whose level nobody changed. A quarter of the
// variance is shared by a whole day, and an hour inherits most of the one before.
func hourlyAlarms(series, days int, seed uint64) (events int, years float64) {
	settings := simulated(0.03)
	for i := range series {
		r := rand.New(rand.NewPCG(seed+uint64(i), 5))
		inherit, day := r.NormFloat64(), 0.0
		var out []Night
		for h := range 24 * days {
			if h%24 == 0 {
				day = r.NormFloat64()
			}
			inherit = 0.9*inherit + math.Sqrt(1-0.81)*r.NormFloat64()
			y := math.Sqrt(0.5)*r.NormFloat64() + 0.5*inherit + 0.5*day
			out = append(out, Night{At: firstNight.Add(time.Duration(h) * time.Hour), Value: 100 * math.Exp(0.03*y), Runs: 1})
		}
		events += regressions(out, settings, Hourly)
	}
	return events, float64(series*days) / 365
}

// drifts are series that get worse by a share over so many nights, and what found it.
func drifts(sigma, share float64, over, series int, seed uint64) (found int, nights float64) {
	for i := range series {
		n := newNoise(seed+uint64(i), sigma)
		const before = 60
		out := make([]Night, before+over+30)
		for t := range out {
			y := n.night() + math.Log1p(share)*clip(float64(t-before)/float64(over), 0, 1)
			out[t] = Night{At: firstNight.Add(time.Duration(t) * 24 * time.Hour), Value: 100 * math.Exp(y), Runs: 1}
		}
		for _, e := range Detect(out, simulated(sigma), Nightly, nil).Events {
			if (e.Kind == Regressed || e.Kind == Drifted) && e.Night >= before {
				found++
				nights += float64(e.Night - before)
				break
			}
		}
	}
	return found, nights / float64(max(found, 1))
}

var (
	sigmas = []float64{0.02, 0.03, 0.05, 0.08, 0.12, 0.20}
	steps  = []float64{0.03, 0.05, 0.10, 0.20, 0.50}
)

const simulationFile = "SIMULATION.md"

// TestSimulation repeats a small part of SIMULATION.md. So few series may differ from
// what is written there by three standard errors.
func TestSimulation(t *testing.T) {
	if *long {
		if err := os.WriteFile(simulationFile, []byte(simulate()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(simulationFile)
	if err != nil {
		t.Fatal(err)
	}
	const series, sigma = 60, 0.05
	row := cells(t, string(text), "| 5 % |")
	want, err := strconv.ParseFloat(row[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	events, years := falseAlarms(sigma, series, 50_000, simulated(sigma))
	if most := want*years + 3*math.Sqrt(want*years); float64(events) > most {
		t.Errorf("%d false alarms in %.0f years, want at most %.1f", events, years, most)
	}
	for i, step := range steps {
		var percent float64
		if _, err := fmt.Sscanf(row[i+1], "%f %%", &percent); err != nil {
			t.Fatalf("cell %q: %v", row[i+1], err)
		}
		p := percent / 100
		f := detections(sigma, step, series, 60_000, simulated(sigma))
		// A share that was seen as 0 or 1 among 300 may be one in a hundred off.
		allowed := 3*math.Sqrt(p*(1-p)/series) + 0.02
		if got := float64(f.detected) / series; math.Abs(got-p) > allowed {
			t.Errorf("steps of %.0f %%: %.2f found, want %.2f +- %.2f", 100*step, got, p, allowed)
		}
	}
}

// cells are those behind a row's head.
func cells(t *testing.T, text, head string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, head); ok {
			out := strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), "|"), "|")
			for i := range out {
				out[i] = strings.TrimSpace(out[i])
			}
			return out
		}
	}
	t.Fatalf("%s has no row %q", simulationFile, head)
	return nil
}

// simulate is the text of SIMULATION.md.
func simulate() string {
	var b strings.Builder
	b.WriteString(`# What the detector promises

Written by ` + "`go test ./probes/regression -run TestSimulation -args -long`" + ` (a minute); do not edit.
The default test repeats a part of it.

A night's logarithm is, in shares of its variance, half Student's t with 5 degrees of freedom, a quarter inherited from the
night before (0.6 of it), a quarter of the day; two nights in a hundred are 3 to 10 sigmas off, four of five to the slow
side; the level walks by a fiftieth of a sigma a night. The usual spread of the metric is known, the smallest effect is
3 %, sensitivity is normal. 1000 quiet series of 395 nights a row, 300 steps a cell.

## Steps

False alarms are per series and year. Then, for a step of that share: how many are found within 14 nights (after how many
nights on average, the first one being night 0; share with the right first night, give or take one; share whose
interval holds the truth). Weak steps are found when chance helps, and then look larger than they are.

| sigma | false alarms | +3 % | +5 % | +10 % | +20 % | +50 % |
| --- | --- | --- | --- | --- | --- | --- |
`)
	const quiet, stepped = 1000, 300
	for _, sigma := range sigmas {
		events, years := falseAlarms(sigma, quiet, 1000, simulated(sigma))
		fmt.Fprintf(&b, "| %.0f %% | %.2f |", 100*sigma, float64(events)/years)
		for _, step := range steps {
			f := detections(sigma, step, stepped, 7000, simulated(sigma))
			of := float64(max(1, f.detected))
			fmt.Fprintf(&b, " %.0f %% (%.1f; %.2f; %.2f) |", 100*float64(f.detected)/stepped, f.delay, float64(f.near)/of, float64(f.covered)/of)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Sensitivity\n\nAt a sigma of 5 %.\n\n| sensitivity | score | false alarms | +10 % |\n| --- | --- | --- | --- |\n")
	for _, sensitivity := range probes.Sensitivities {
		s := simulated(0.05)
		s.Threshold = Threshold(sensitivity)
		events, years := falseAlarms(0.05, quiet, 1000, s)
		f := detections(0.05, 0.10, stepped, 7000, s)
		fmt.Fprintf(&b, "| %s | %.1f | %.2f | %.0f %% |\n", sensitivity, s.Threshold, float64(events)/years, 100*float64(f.detected)/stepped)
	}
	b.WriteString("\n## Runs a night\n\nNights scatter by 2 %, runs by 4 %, and three runs in a hundred are bad.\n\n| the night is | runs a night | false alarms | +5 % | +10 % | +20 % |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, p := range policies {
		const series = 150
		events, runs, nights := p.falseAlarms(series, 300)
		fmt.Fprintf(&b, "| %s | %.1f | %.2f |", p.name, float64(runs)/float64(nights), float64(events)/(float64(nights)/365))
		for _, step := range []float64{0.05, 0.10, 0.20} {
			fmt.Fprintf(&b, " %.0f %% |", 100*float64(p.detections(step, series, 900))/series)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## What creeps\n\n10 % worse over so many nights: share that is found by the scan or by the anchor (mean night).\n\n| sigma | 30 nights | 60 nights | 120 nights |\n| --- | --- | --- | --- |\n")
	for _, sigma := range []float64{0.03, 0.05} {
		fmt.Fprintf(&b, "| %.0f %% |", 100*sigma)
		for _, over := range []int{30, 60, 120} {
			n, nights := drifts(sigma, 0.10, over, stepped, 400)
			fmt.Fprintf(&b, " %.0f %% (%.0f) |", 100*float64(n)/stepped, nights)
		}
		b.WriteString("\n")
	}
	events, years := hourlyAlarms(60, 365, 40)
	fmt.Fprintf(&b, "\n## Hours\n\n60 series of a year of hours, of which each inherits 0.9 of a quarter of the variance and shares a quarter with its day:\n%.2f false alarms per series and year by the hours alone.\n", float64(events)/years)
	return b.String()
}
