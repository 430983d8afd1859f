package jsonl

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// ours is what bench_serving does not record: identity, time, what can be
// believed, and every series with its n. Latencies are in seconds.
type ours struct {
	Version     string  `json:"version"`
	RunID       string  `json:"run_id"`
	Source      *string `json:"source"`
	Origin      *string `json:"origin"`
	Probe       string  `json:"probe"`
	Kind        string  `json:"kind"`
	Target      target  `json:"target"`
	Start       *string `json:"start"`
	End         *string `json:"end"`
	Result      string  `json:"result"`
	Complete    bool    `json:"complete"`
	Error       *string `json:"error"`
	Fingerprint *string `json:"fingerprint"`
	Shard       *shard  `json:"shard,omitempty"`
	Merged      int     `json:"merged_shards,omitempty"`

	Validity probes.Validity `json:"validity"`
	Verdict  probes.Verdict  `json:"verdict"`
	Traps    []probes.Reason `json:"traps"`

	Workload workload `json:"workload"`
	Arrivals arrivals `json:"arrivals"`

	Requests  int                    `json:"requests"`
	Sent      int                    `json:"sent"`
	Failed    int                    `json:"failed"`
	Cancelled int                    `json:"cancelled"`
	Dropped   int                    `json:"dropped"`
	Warmup    int                    `json:"warmup"`
	Skipped   int                    `json:"skipped_rows,omitempty"` // of the dataset
	Outcomes  map[probes.Outcome]int `json:"outcomes"`
	Flags     map[string]int         `json:"flags"`

	SuccessRatio  *number            `json:"success_ratio"`
	OfferedRate   *number            `json:"offered_rate"`
	AchievedRate  *number            `json:"achieved_rate"`
	Goodput       *number            `json:"goodput"`
	SLOAttainment map[string]number  `json:"slo_attainment"`
	Latency       map[string]latency `json:"latency_seconds"`
	Steady        *steady            `json:"steady_state"`

	InputSource    *string       `json:"input_token_source"`
	OutputSource   *string       `json:"output_token_source"`
	UnknownOutputs int           `json:"unknown_outputs"`
	Retokenized    *number       `json:"retokenized_ratio"`
	CachedTokens   optional      `json:"cached_tokens"`
	InputLengths   *inputLengths `json:"input_lengths"`
	Connections    *connections  `json:"connections"`

	AcceptSource *string `json:"accept_length_source"`
	CacheHit     *number `json:"prefix_cache_hit_ratio"`
	TTFTExcess   *number `json:"client_ttft_excess_seconds"`
	Server       *server `json:"server"`
	Batch        *batch  `json:"batch"`
	Client       *client `json:"client"`

	Answer  *string  `json:"answer"`
	Repeats *repeats `json:"repeats"`
	Offline *offline `json:"offline"`
	Parts   []part   `json:"parts,omitempty"`

	Changes    []change    `json:"changes,omitempty"`
	Sweep      *sweep      `json:"sweep,omitempty"`
	Comparison *comparison `json:"comparison,omitempty"`

	// Definitions names the tool whose definitions the latencies follow; ours have none.
	Definitions *string `json:"definitions,omitempty"`

	Details *ourDetails `json:"details,omitempty"`
}

type target struct {
	Name        string            `json:"name"`
	Pool        string            `json:"pool"`
	Environment string            `json:"environment"`
	Site        *string           `json:"site"`
	Backend     string            `json:"backend"`
	Model       *string           `json:"model"`
	BaseURL     string            `json:"base_url"`
	Labels      map[string]string `json:"labels,omitempty"`
	Connection  string            `json:"connection_policy"`
}

// shard says that the line is a part of a load.
type shard struct {
	Index int    `json:"index"`
	Of    int    `json:"of"`
	Start string `json:"start_at"`
	Whole string `json:"whole_fingerprint"` // of the load
}

func newShard(run *probes.Run) *shard {
	s := run.Spec.Shard
	if !s.Split() {
		return nil
	}
	return &shard{s.Index, s.Of, s.Start.UTC().Format(time.RFC3339Nano), run.Whole}
}

type workload struct {
	Name      string `json:"name"`
	Dataset   string `json:"dataset"`
	Tokenizer string `json:"tokenizer"`
	Cache     string `json:"cache"`
	Seed      int64  `json:"seed"`
	IgnoreEOS bool   `json:"ignore_eos"`
	Stream    bool   `json:"stream"`
	Version   string `json:"version,omitempty"` // of its data and of how they are read
}

type arrivals struct {
	Process        string  `json:"process"`
	Rate           *number `json:"rate"`
	CV             *number `json:"cv"`
	MaxConcurrency *int    `json:"max_concurrency"`
	StartTogether  *bool   `json:"start_together,omitempty"` // of a closed loop
	RampSeconds    *number `json:"ramp_seconds,omitempty"`
}

// steady is the run without its ramp and its drain; instants are seconds from the
// run's start.
type steady struct {
	Start             number  `json:"start"`
	End               number  `json:"end"`
	Completed         int     `json:"completed"`
	RequestThroughput *number `json:"request_throughput"`
	OutputThroughput  *number `json:"output_throughput"`
}

func newSteady(s *probes.SteadyState) *steady {
	start, ok := s.Start.Get()
	if !ok {
		return nil
	}
	end, _ := s.End.Get()
	return &steady{number(start.Seconds()), number(end.Seconds()), s.Completed, known(s.RequestThroughput), known(s.OutputThroughput)}
}

// latency is a distribution in strict JSON.
type latency struct {
	N      int    `json:"n"`
	Mean   number `json:"mean"`
	Stddev number `json:"stddev"`
	Min    number `json:"min"`
	P50    number `json:"p50"`
	P90    number `json:"p90"`
	P95    number `json:"p95"`
	P99    number `json:"p99"`
	Max    number `json:"max"`
}

type inputLengths struct {
	N             int    `json:"n"`
	MeanRequested number `json:"mean_requested"`
	MeanServer    number `json:"mean_server"`
	MaxDeviation  number `json:"max_deviation"`
	Off           int    `json:"off"`
}

// connections counts the measured requests that were sent.
type connections struct {
	New      int `json:"new"`
	Reused   int `json:"reused"`
	Reopened int `json:"reopened"` // the server had closed the reused one
}

func newOurs(run *probes.Run, version string) ours {
	s, w := &run.Summary, &run.Spec.Workload
	o := ours{
		Version: version, RunID: run.ID, Source: text(run.Source), Origin: text(run.Origin), Probe: run.Spec.Probe, Kind: string(run.Spec.Kind),
		Target: newTarget(&run.Target),
		Start:  instant(run.Start), End: instant(run.End), Result: string(run.Result), Complete: run.Complete,
		Error: text(run.Error), Fingerprint: text(run.Fingerprint),
		Shard: newShard(run), Merged: run.Merged,
		Validity: run.Validity, Verdict: run.Verdict, Traps: run.Traps,
		Workload: workload{
			Name: w.Name, Dataset: w.Dataset, Tokenizer: w.Tokenizer, Cache: string(w.Cache), Seed: w.Seed,
			IgnoreEOS: w.Sampling.IgnoreEOS, Stream: w.Sampling.Stream, Version: run.WorkloadVersion,
		},
		Arrivals: newArrivals(run.Spec.Arrivals),
		Requests: s.Requests, Sent: s.Sent, Failed: s.Failed, Cancelled: s.Cancelled, Dropped: s.Dropped, Warmup: s.Warmup, Skipped: run.SkippedRows,
		Outcomes: s.Outcomes, Flags: s.Flags,
		SuccessRatio: known(s.SuccessRatio), OfferedRate: known(s.OfferedRate), AchievedRate: known(s.AchievedRate), Goodput: known(s.Goodput),
		InputSource: text(string(s.InputSource)), OutputSource: text(string(s.OutputSource)), UnknownOutputs: s.UnknownOutputs, Retokenized: known(s.RetokenizedRatio),
		CachedTokens: s.CachedTokens, Connections: countConnections(run.Records),
	}
	o.AcceptSource, o.CacheHit, o.TTFTExcess = text(string(s.AcceptSource)), known(s.CacheHitRatio()), known(s.TTFTExcess())
	o.Server, o.Steady, o.Sweep = newServer(run), newSteady(&s.Steady), newSweep(run)
	o.Client = newClient(&s.Client)
	o.Batch = newBatch(s.Batch)
	o.Answer = text(string(s.Answer))
	o.Definitions = text(string(run.Spec.Definitions))
	o.Repeats, o.Offline = newRepeats(&s.Repeats), newOffline(&s.Offline)
	o.Comparison = newComparison(run.Comparison)
	o.Changes = newChanges(run.Changes)
	if o.Traps == nil {
		o.Traps = []probes.Reason{}
	}
	if s.SLOAttainment != nil {
		o.SLOAttainment = map[string]number{}
		for name, share := range s.SLOAttainment {
			o.SLOAttainment[name] = number(share)
		}
	}
	o.Latency = map[string]latency{}
	for _, signal := range probes.Signals {
		if d := s.Distribution(signal); d.N > 0 {
			o.Latency[string(signal)] = newLatency(d)
		}
	}
	if in := s.Input; in.N > 0 {
		o.InputLengths = &inputLengths{in.N, number(in.MeanRequested), number(in.MeanServer), number(in.MaxDeviation), in.Off}
	}
	return o
}

func newLatency(d probes.Distribution) latency {
	return latency{d.N, number(d.Mean), number(d.Stddev), number(d.Min),
		number(d.P50), number(d.P90), number(d.P95), number(d.P99), number(d.Max)}
}

// batch is in seconds and tokens per second.
type batch struct {
	Size              int     `json:"size"`
	Prefill           *number `json:"prefill"`
	DecodeStep        *number `json:"decode_step"`
	Latency           *number `json:"latency"`
	InputThroughput   *number `json:"input_throughput"`
	DecodeThroughput  *number `json:"decode_throughput"`
	StepThroughput    *number `json:"decode_step_throughput"`
	OverallThroughput *number `json:"overall_throughput"`
}

func newBatch(b probes.BatchTimes) *batch {
	if b.Size == 0 {
		return nil
	}
	return &batch{b.Size, known(b.Prefill), known(b.DecodeStep), known(b.Latency),
		known(b.InputThroughput), known(b.DecodeThroughput), known(b.StepThroughput), known(b.OverallThroughput)}
}

// repeats says that the line is a median; its runs are the parts.
type repeats struct {
	Runs   int                      `json:"runs"`
	Used   int                      `json:"used"`
	Spread map[string]spreadNumbers `json:"spread"`
}

type spreadNumbers struct {
	N      int    `json:"n"`
	Median number `json:"median"`
	Min    number `json:"min"`
	Max    number `json:"max"`
}

func newRepeats(r *probes.Repeats) *repeats {
	if r.Runs == 0 {
		return nil
	}
	out := &repeats{Runs: r.Runs, Used: r.Used, Spread: map[string]spreadNumbers{}}
	for _, s := range r.Spread {
		out.Spread[s.Name] = spreadNumbers{s.N, number(s.Median), number(s.Min), number(s.Max)}
	}
	return out
}

// offline is the engine's own throughput beside the run's, in tokens per second.
type offline struct {
	Source     string  `json:"source"`
	Throughput *number `json:"throughput"`
	Total      bool    `json:"total"`
	Gap        *number `json:"gap_ratio"`
}

func newOffline(o *probes.Offline) *offline {
	if !o.Throughput.IsKnown() {
		return nil
	}
	return &offline{o.Source, known(o.Throughput), o.Total, known(o.Gap)}
}

// part is the whole line of a run that is part of another.
type part struct {
	Role string `json:"role"`
	*line
}

func newArrivals(a probes.Arrivals) arrivals {
	out := arrivals{Process: string(a.Process), MaxConcurrency: positive(a.MaxConcurrency)}
	if a.OpenLoop() && a.Process != probes.FromTrace && a.Rate > 0 {
		out.Rate = new(number(a.Rate))
	}
	if !a.OpenLoop() {
		out.StartTogether = new(a.StartTogether)
	}
	if a.Process == probes.Gamma {
		out.CV = new(number(a.CV))
	}
	if a.Ramp > 0 {
		out.RampSeconds = new(number(a.Ramp.Seconds()))
	}
	return out
}

// countConnections is nil when the records are not there to count.
func countConnections(records []probes.Record) *connections {
	if len(records) == 0 {
		return nil
	}
	var c connections
	for i := range records {
		switch r := &records[i]; {
		case r.Outcome == probes.Dropped:
		case r.Flags.Has(probes.StaleReuse):
			c.Reopened++
		case r.Connection.Reused:
			c.Reused++
		default:
			c.New++
		}
	}
	return &c
}
