package probes

import "time"

// SweepPlan says at which rates a sweep measures.
type SweepPlan struct {
	// Rates are asked in this order, rising; without them the rates are searched.
	Rates []float64
	// Start is the first rate of a search that knows no earlier result; 0 is the one at
	// which one request follows the other.
	Start float64
	// MaxRate is never exceeded; 0 is no bound.
	MaxRate float64
	// MaxSteps bounds a search; 0 is [MaxSweepSteps].
	MaxSteps int
}

// MaxSweepSteps is the largest number of steps of a sweep. Its steps are numbered in
// a label, whose values are bounded by it.
const MaxSweepSteps = 16

// Headroom is the share of the capacity that a replica may be loaded with.
const Headroom = 0.8

// Step is one rate of a sweep. Its instants are offsets from the step's own start.
type Step struct {
	Rate    float64 // asked, in requests per second
	Start   time.Time
	End     time.Time
	Records []Record // measured; nil where only results are kept
	Warmup  []Record

	Summary  Summary
	Validity Validity
	// Over are the requests that missed each objective, by its name, of Judged that
	// were completed or failed. They are judged from their due time: a user of an open
	// system does not care who made them wait.
	Judged int
	Over   map[string]int
	// Effect is how much more the number over an objective scatters than if requests were
	// independent (design effect), by the objective's name; 1 when it does not.
	Effect map[string]float64
	// Passed: every objective was kept. It means nothing when the step is not Usable.
	Passed bool
	// Aborted: so many requests were over an objective that the rest was not sent.
	Aborted bool
	// Stationary is false when TTFT grew while the step lasted; its latencies are then
	// functions of how long it lasted.
	Stationary bool
}

// Usable reports whether the step may be part of a result.
func (s *Step) Usable() bool { return s.Validity.State != Invalid && s.Judged > 0 }

// SweepEnd says why a sweep took no further step.
type SweepEnd string

const (
	SweepConverged SweepEnd = "converged" // the capacity is known as closely as was wanted
	SweepRatesDone SweepEnd = "rates_done"
	SweepSaturated SweepEnd = "saturated" // higher rates could only hurt
	SweepCapped    SweepEnd = "capped"    // the highest allowed rate still passed
	SweepBelow     SweepEnd = "below"     // the lowest rate failed
	SweepSteps     SweepEnd = "steps"     // the number of steps was used up
	SweepInvalid   SweepEnd = "invalid"   // no rate could be measured
	SweepCut       SweepEnd = "cut"       // ended by us
)

// Capacity is the result of a sweep, in requests per second.
type Capacity struct {
	// Rate is the highest one that keeps every objective: where the share of
	// requests over one of them reaches what it allows. When Bracketed is false it is
	// the highest rate that was tried, a lower bound.
	Rate Optional[float64]
	// Low and High are its 95 % interval; High is unknown for a lower bound, and Low
	// when even the lowest rate might be too much.
	Low, High Optional[float64]
	Bracketed bool
	// Objective is the name of the one that is missed first.
	Objective string
	// Safe is Headroom times Rate.
	Safe Optional[float64]
	// Bend is where the curve of TTFT p99 bends most. It depends on the rates that were
	// tried: a hint for the eye, never to be stored or compared.
	Bend Optional[float64]
	End  SweepEnd
}
