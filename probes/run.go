package probes

import (
	"fmt"
	"time"
)

// RunResult is how a run ended as a whole.
type RunResult string

const (
	RunSuccess RunResult = "success"
	RunFailed  RunResult = "failed"  // it could not be carried out, or no request succeeded
	RunInvalid RunResult = "invalid" // carried out, but the measurement cannot be believed
	RunAborted RunResult = "aborted" // ended by us before it was complete
)

// RunResults is the closed list.
var RunResults = []RunResult{RunSuccess, RunFailed, RunInvalid, RunAborted}

// Run is one execution of one probe on one target. It is built by one goroutine
// and never changed after it has been handed to the exporters.
type Run struct {
	ID string // UUIDv7; of an imported run a hash of its result
	// Source is the tool that measured an imported run and Origin the file and
	// line of its result; both are empty for a run of our own.
	Source string
	Origin string
	Target Target
	Spec   Spec
	Start  time.Time // wall clock at offset 0
	End    time.Time
	Result RunResult
	// Complete is false when the run was cut short.
	Complete bool
	Error    string // why it could not be carried out
	// SkippedRows is how many rows of the dataset could not be used and were left out.
	SkippedRows int
	Records     []Record
	Warmup      []Record

	Summary  Summary
	Validity Validity
	Verdict  Verdict
	// OwnVerdict is the verdict without what the nights before have added to it; zero of
	// a run that was not judged over nights.
	OwnVerdict Verdict
	Traps      []Reason
	// Facts are those of the server before the run, as far as it tells.
	Facts ServerFacts
	// Parts are the runs that this one is made of, in order: the repeats of a load,
	// the steps of a peak, both sides of each pair of a comparison. Its own records
	// are then those of one of them.
	Parts []Part
	// Comparison is nil unless the target was compared with another one.
	Comparison *Comparison
	// Changes lay the run beside the earlier ones of its fingerprint; nil when it was
	// not judged over nights.
	Changes []Change
	// Fingerprint is equal for runs that may be compared.
	Fingerprint string
	// WorkloadVersion identifies what the requests were made of: the dataset's content
	// and the way it is read.
	WorkloadVersion string
	// Steps and Capacity are those of a sweep. Its Records are empty and its Summary
	// counts the requests of all steps; a latency over all rates would be of none.
	Steps    []Step
	Capacity Capacity
	// Whole is, of a shard's run, the fingerprint of the load that it is a part of.
	Whole string
	// Merged is how many shards the run has been merged from; 0 is a run of its own.
	Merged int
	// Sending is when the measured part was sent.
	Sending Sending
}

// Sending is the span of a load, in offsets from the run's start.
type Sending struct {
	Start, End time.Duration
	// Window says that the load ended because its duration was over, so that the
	// span and not the requests bounds what is counted per second.
	Window bool
}

// Part is a run that is part of another.
type Part struct {
	Role string // what it was, for people: "repeat 2", "concurrency 8", "pair 1 A"
	Run  *Run
}

// Pair is the identity of the run's series.
func (r *Run) Pair() Pair {
	return Pair{
		Target: r.Target.Name, Pool: r.Target.Pool, Environment: r.Target.Environment,
		Model: r.Target.Model, Probe: r.Spec.Probe,
	}
}

// StepRun is one step of a sweep as a run of its own, numbered from 0.
func (r *Run) StepRun(i int) *Run {
	step := &r.Steps[i]
	run := *r
	run.ID = StepID(r.ID, i)
	run.Steps, run.Capacity, run.Spec.Sweep = nil, Capacity{}, SweepPlan{}
	run.Spec.Arrivals.Rate = step.Rate
	run.Spec.Requests, run.Spec.Duration = len(step.Records), 0
	run.Start, run.End = step.Start, step.End
	run.Records, run.Warmup = step.Records, step.Warmup
	run.Summary, run.Validity = step.Summary, step.Validity
	run.Complete = !step.Aborted && r.Result != RunAborted
	run.Verdict = Verdict{State: Pass}
	if !step.Passed {
		run.Verdict.State = Fail
	}
	run.Result = RunSuccess
	if !step.Usable() {
		run.Result, run.Verdict.State = RunInvalid, Unknown
	}
	return &run
}

// StepID is the id of a sweep's step, numbered from 0.
func StepID(runID string, step int) string { return fmt.Sprintf("%s-%d", runID, step) }

// SkipReason says why a scheduled run did not start.
type SkipReason string

const (
	SkipOverlap    SkipReason = "overlap"     // the pair's previous run was still going
	SkipTargetBusy SkipReason = "target_busy" // another run was going on the target
	SkipProberBusy SkipReason = "prober_busy" // the daemon carried out as many runs as it may
	SkipRetryAfter SkipReason = "retry_after" // the server had asked not to be asked for a while
	SkipLoadBudget SkipReason = "load_budget" // the target's environment allows no more today, or not so soon
	SkipPaused     SkipReason = "paused"
	SkipMissed     SkipReason = "missed" // the daemon was late, asleep or the clock jumped
)

// SkipReasons is the closed list.
var SkipReasons = []SkipReason{SkipOverlap, SkipTargetBusy, SkipProberBusy, SkipRetryAfter, SkipLoadBudget, SkipPaused, SkipMissed}

// Hold is why runs do not start for a target's sake, and until when.
type Hold struct {
	Reason SkipReason // SkipRetryAfter or SkipLoadBudget
	Until  time.Time
}

// EventKind says what happened.
type EventKind int

const (
	EventRunStarted EventKind = iota
	EventRequestDone
	EventRunDone
	EventSkipped
)

// Event is what the daemon tells the exporters. Which fields are set depends on Kind.
type Event struct {
	Kind  EventKind
	At    time.Time
	Pair  Pair
	RunID string
	Spec  *Spec
	// Lateness is planned start to actual start (EventRunStarted).
	Lateness time.Duration
	Record   *Record // EventRequestDone
	Run      *Run    // EventRunDone
	Skip     SkipReason
}

// PairStatus is the daemon's view of one pair at one instant: what the page
// shows and what the lifecycle and result metrics are made of.
type PairStatus struct {
	Pair       Pair
	Kind       Kind
	Spec       Spec
	Interval   time.Duration // planned time between starts; 0 when unscheduled
	Registered time.Time     // when the pair was first known
	Paused     bool

	Active              bool
	InFlight            int
	NextStart           time.Time // zero: none planned
	Held                *Hold     // nil: a run that is due may start
	LastStart           time.Time // zero: never
	LastCompletion      time.Time
	LastSuccess         time.Time
	LastDuration        time.Duration
	ConsecutiveFailures int

	// Last is the run that ended last, without its records; nil before the first.
	// Unstored says that it should be in the store, and is not.
	Last     *Run
	Unstored bool
	// Result is the last result that may be shown as a number: nil before the
	// first, after an invalid run it stays what it was, and it is nil again once
	// it is older than the spec's StaleAfter.
	Result *Result
	// Breaches are those of the spec's limits, in their order, up to Result.
	Breaches []Breach
	// Changes are the pair's metrics beside their baselines, as of the last valid
	// run; nil for a pair that is not judged over nights. They live as long as Result.
	Changes []Change
	// Peers say in what the replica is worse than the others of its pool.
	Peers []Reason
}

// Result is a valid or suspect measurement: a finished run, or the window of a
// continuous probe.
type Result struct {
	RunID       string
	CompletedAt time.Time
	Summary     Summary
	Validity    Validity
	Verdict     Verdict
	Traps       []Reason
	// Steps, without their records, and Capacity are those of a sweep.
	Steps    []Step
	Capacity Capacity
}
