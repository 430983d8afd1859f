package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// UnmarshalJSON undoes MarshalJSON.
func (n *number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"inf"`:
		*n = number(math.Inf(1))
	case `"-inf"`:
		*n = number(math.Inf(-1))
	case "null":
		*n = number(math.NaN())
	default:
		var f float64
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("parse number: %w", err)
		}
		*n = number(f)
	}
	return nil
}

// resultLine is the part of a line that a result is laid beside others by.
type resultLine struct {
	FixedOutput       *int     `json:"sharegpt_output_len"`
	InputLen          *int     `json:"random_input_len"`
	OutputLen         *int     `json:"random_output_len"`
	RangeRatio        *number  `json:"random_range_ratio"`
	Duration          number   `json:"duration"`
	Completed         int      `json:"completed"`
	TotalInput        optional `json:"total_input_tokens"`
	TotalOutput       optional `json:"total_output_tokens"`
	RequestThroughput *number  `json:"request_throughput"`
	InputThroughput   *number  `json:"input_throughput"`
	OutputThroughput  *number  `json:"output_throughput"`
	TotalThroughput   *number  `json:"total_throughput"`
	Concurrency       *number  `json:"concurrency"`
	AcceptLength      *number  `json:"accept_length"`
	Inferbeat         *struct {
		ours
		Parts []struct {
			Role string `json:"role"`
			resultLine
		} `json:"parts"`
		// These are read by [Read]; here they would only cost time.
		Client  json.RawMessage `json:"client"`
		Details *struct {
			Spec    *probes.Spec       `json:"spec"`
			Facts   probes.ServerFacts `json:"facts"`
			Records []record           `json:"records"`
		} `json:"details"`
	} `json:"inferbeat"`
}

// Results returns the runs of a file of lines, as far as a comparison of results needs
// them: who was asked what, the statistics, what they are worth, and where the lines
// have details the records. Steps of a sweep come with their sweep. A line that is not
// one of ours ends the reading with an error that names it.
func Results(file string, r io.Reader) ([]*probes.Run, error) {
	var runs []*probes.Run
	err := eachLine(file, r, func(text []byte, origin string) error {
		var l resultLine
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("parse result: %w", err)
		}
		if l.Inferbeat == nil {
			return errors.New("read result: is not one of inferbeat")
		}
		run := l.run()
		run.Origin = origin
		runs = append(withoutSteps(runs, run), run)
		return nil
	})
	return runs, err
}

// withoutSteps drops the lines of a sweep's steps, which stand before its own.
func withoutSteps(runs []*probes.Run, sweep *probes.Run) []*probes.Run {
	for i := len(sweep.Steps) - 1; i >= 0 && len(runs) > 0 && runs[len(runs)-1].ID == probes.StepID(sweep.ID, i); i-- {
		runs = runs[:len(runs)-1]
	}
	return runs
}

func (l *resultLine) run() *probes.Run {
	o := l.Inferbeat
	run := &probes.Run{
		ID: o.RunID, Source: word(o.Source), Target: o.Target.back(), Spec: l.spec(), Start: moment(o.Start), End: moment(o.End),
		Result: probes.RunResult(o.Result), Complete: o.Complete, Error: word(o.Error), Fingerprint: word(o.Fingerprint), WorkloadVersion: o.Workload.Version,
		Validity: o.Validity, Verdict: o.Verdict, Traps: o.Traps, Merged: o.Merged, Summary: l.summary(),
	}
	if o.Server != nil {
		run.Facts = o.Server.Facts
	}
	if d := o.Details; d != nil {
		if d.Spec != nil {
			run.Spec = restored(*d.Spec)
		}
		run.Facts = d.Facts
		for i := range d.Records {
			if r := d.Records[i].back(); r.Warmup {
				run.Warmup = append(run.Warmup, r)
			} else {
				run.Records = append(run.Records, r)
			}
		}
	}
	if o.Sweep != nil {
		o.Sweep.back(run)
	}
	for i := range o.Parts {
		if p := &o.Parts[i]; p.Inferbeat != nil {
			run.Parts = append(run.Parts, probes.Part{Role: p.Role, Run: p.run()})
		}
	}
	if c := o.Comparison; c != nil {
		run.Comparison = &probes.Comparison{Reference: c.Reference.back(), Pairs: c.Pairs, Used: c.Used}
	}
	return run
}

// spec is what the line says of it; with details there is all of it.
func (l *resultLine) spec() probes.Spec {
	o, w, a := l.Inferbeat, &l.Inferbeat.Workload, &l.Inferbeat.Arrivals
	spec := probes.Spec{
		Probe: o.Probe, Kind: probes.Kind(o.Kind), Requests: o.Requests, Warmup: probes.Warmup{Requests: o.Warmup},
		Workload: probes.Workload{
			Name: w.Name, Dataset: w.Dataset, Tokenizer: w.Tokenizer, Cache: probes.CacheClass(w.Cache), Seed: w.Seed,
			InputTokens: count(l.InputLen), OutputTokens: count(l.OutputLen), FixedOutputTokens: count(l.FixedOutput),
			Sampling: probes.Sampling{IgnoreEOS: w.IgnoreEOS, Stream: w.Stream},
		},
		Arrivals: probes.Arrivals{Process: probes.ArrivalProcess(a.Process), MaxConcurrency: count(a.MaxConcurrency)},
	}
	spec.Workload.RangeRatio, _ = value(l.RangeRatio).Get()
	spec.Arrivals.CV, _ = value(a.CV).Get()
	ramp, _ := value(a.RampSeconds).Get()
	spec.Arrivals.Ramp = time.Duration(ramp * 1e9)
	if rate, ok := value(a.Rate).Get(); ok {
		spec.Arrivals.Rate = rate
	}
	return restored(spec)
}

func (l *resultLine) summary() probes.Summary {
	o := l.Inferbeat
	s := probes.Summary{
		Duration: time.Duration(math.Round(float64(l.Duration) * 1e9)), Requests: o.Requests, Sent: o.Sent, Completed: l.Completed,
		Failed: o.Failed, Cancelled: o.Cancelled, Dropped: o.Dropped, Outcomes: o.Outcomes, Flags: o.Flags, Warmup: o.Warmup,
		Latency: map[probes.Signal]probes.Distribution{}, InputTokens: l.TotalInput, OutputTokens: l.TotalOutput,
		InputSource: probes.TokenSource(word(o.InputSource)), OutputSource: probes.TokenSource(word(o.OutputSource)), CachedTokens: o.CachedTokens,
		RequestThroughput: value(l.RequestThroughput), InputThroughput: value(l.InputThroughput), OutputThroughput: value(l.OutputThroughput),
		TotalThroughput: value(l.TotalThroughput), Concurrency: value(l.Concurrency), AcceptLength: value(l.AcceptLength),
		AcceptSource: probes.AcceptSource(word(o.AcceptSource)), SuccessRatio: value(o.SuccessRatio), OfferedRate: value(o.OfferedRate),
		AchievedRate: value(o.AchievedRate), Goodput: value(o.Goodput),
	}
	for signal, d := range o.Latency {
		s.Latency[probes.Signal(signal)] = probes.Distribution{
			N: d.N, Mean: float64(d.Mean), Stddev: float64(d.Stddev), Min: float64(d.Min), P50: float64(d.P50),
			P90: float64(d.P90), P95: float64(d.P95), P99: float64(d.P99), Max: float64(d.Max),
		}
	}
	if server := o.Server; server != nil {
		s.Server.PrefixCache.HitRatio, s.Server.AcceptLength = value(server.CacheHit), value(server.AcceptLength)
	}
	return s
}

// back gives a run the capacity and the curve of its sweep.
func (s *sweep) back(run *probes.Run) {
	run.Capacity = probes.Capacity{
		Rate: value(s.Capacity), Low: value(s.Low), High: value(s.High), Bracketed: s.Bracketed, Objective: word(s.Objective),
		Safe: value(s.Safe), Bend: value(s.Bend), End: probes.SweepEnd(s.End),
	}
	for _, one := range s.Steps {
		step := probes.Step{Rate: float64(one.Rate), Judged: one.Judged, Over: one.Over, Effect: one.Effect, Passed: one.Passed, Aborted: one.Aborted, Stationary: one.Stationary}
		step.Validity.State = probes.Invalid
		if one.Usable {
			step.Validity.State = probes.Valid
		}
		nan := math.NaN()
		distribution := func(p50, p99, mean *number) probes.Distribution {
			d := probes.Distribution{N: max(1, one.Judged), Mean: nan, Stddev: nan, Min: nan, P50: nan, P90: nan, P95: nan, P99: nan, Max: nan}
			d.P50, d.P99, d.Mean = value(p50).Or(nan), value(p99).Or(nan), value(mean).Or(nan)
			return d
		}
		step.Summary = probes.Summary{AchievedRate: value(one.Achieved), OutputThroughput: value(one.Output), Latency: map[probes.Signal]probes.Distribution{}}
		if one.TTFTp99 != nil {
			step.Summary.Latency[probes.TTFTFromDue] = distribution(one.TTFTp50, one.TTFTp99, nil)
		}
		if one.TPOTMean != nil {
			step.Summary.Latency[probes.TPOT] = distribution(nil, nil, one.TPOTMean)
		}
		run.Steps = append(run.Steps, step)
	}
}

func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func count(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func value(n *number) probes.Optional[float64] {
	if n == nil || math.IsNaN(float64(*n)) {
		return probes.Optional[float64]{}
	}
	return probes.Known(float64(*n))
}

// moment is the zero time when the text is none.
func moment(s *string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, word(s))
	if err != nil {
		return time.Time{}
	}
	return t
}
