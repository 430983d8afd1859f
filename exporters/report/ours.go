package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// inferbeat prints the second block.
func (p *printer) inferbeat(run *probes.Run) {
	s := &run.Summary
	p.rule(" Inferbeat ", '=')
	p.row("Run:", run.ID)
	if run.Source != "" {
		p.row("Imported from:", fmt.Sprintf("%s (%s)", run.Source, run.Origin))
	}
	if s := run.Spec.Shard; s.Split() {
		p.row("Shard:", fmt.Sprintf("%d of %d (a part of the load)", s.Index, s.Of))
	}
	if run.Merged > 0 {
		p.count("Merged from shards:", run.Merged)
	}
	p.row("Probe:", run.Spec.Probe)
	p.row("Target:", fmt.Sprintf("%s (%s)", run.Target.Name, run.Target.Environment))
	p.row("Model:", orUnknown(run.Target.Model))
	if d := run.Spec.Definitions; d != probes.OwnDefinitions {
		p.row("Latencies defined as by:", string(d))
	}
	p.outcome(run)
	if s.Answer != "" {
		p.row("Answer to the pinned question:", string(s.Answer))
	}
	for _, pair := range []struct {
		name   string
		signal probes.Signal
	}{{"first TTFT", probes.TTFTFirst}, {"second TTFT", probes.TTFTSecond}} {
		if d := s.Distribution(pair.signal); d.N > 0 {
			p.latency(pair.name, d, probes.StatMean, probes.StatP50, probes.StatMax)
		}
	}
	p.batch(&s.Batch)
	p.repeats(&s.Repeats)
	p.parts(run)
	p.offline(s)
	p.requests(s)
	if run.SkippedRows > 0 {
		p.count("Rows of the dataset left out:", run.SkippedRows)
	}
	p.samples(s)
	p.client(run)
	p.rule("Time to First Token from Due Time", '-')
	p.latency("TTFT from due", s.Distribution(probes.TTFTFromDue), benchStats...)
	p.rule("Chunk Gap", '-')
	p.latency("chunk gap", s.Distribution(probes.ChunkGap), append(benchStats, probes.StatMax)...)
	p.steady(s)
	p.tokens(s)
	p.server(run)
	p.speculation(s)
	p.objectives(run)
	p.conclusions(run)
	p.traps(run)
}

// outcome prints how a run ended.
func (p *printer) outcome(run *probes.Run) {
	p.row("Result:", resultText(run))
	if run.Error != "" {
		p.sentence(run.Error)
	}
}

// conclusions say what to think of a run.
func (p *printer) conclusions(run *probes.Run) {
	p.nights(run.Changes)
	p.rule("Validity", '-')
	p.row("Validity:", orUnknown(string(run.Validity.State)))
	p.reasons(run.Validity.Reasons)
	p.rule("Verdict", '-')
	p.row("Verdict:", orUnknown(string(run.Verdict.State)))
	p.reasons(run.Verdict.Reasons)
}

// traps are the last block.
func (p *printer) traps(run *probes.Run) {
	p.rule("Traps", '-')
	p.count("Traps:", len(run.Traps))
	p.reasons(run.Traps)
	p.rule("", '=')
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

func resultText(run *probes.Run) string {
	if !run.Complete && run.Result != probes.RunFailed {
		return string(run.Result) + " (cut short)"
	}
	return string(run.Result)
}

// batch prints what bench_one_batch_server reports, for a run of one batch.
func (p *printer) batch(b *probes.BatchTimes) {
	if b.Size == 0 {
		return
	}
	p.rule("Batch", '-')
	p.count("Batch size:", b.Size)
	p.milliseconds("Prefill (last first token) (ms):", b.Prefill)
	p.milliseconds("Median decode step (ms):", b.DecodeStep)
	p.milliseconds("Batch latency (ms):", b.Latency)
	p.optional("Prefill throughput (tok/s):", b.InputThroughput)
	p.optional("Decode throughput (tok/s):", b.DecodeThroughput)
	p.optional("Decode step throughput (tok/s):", b.StepThroughput)
	p.optional("Overall throughput (tok/s):", b.OverallThroughput)
}

// spreadRows are the numbers whose spread over repeats is printed; all are in the
// JSON line.
var spreadRows = []struct {
	name, label string
	scale       float64
}{
	{"request_throughput", "Request throughput (req/s)", 1}, {"output_throughput", "Output throughput (tok/s)", 1},
	{"ttft_mean_seconds", "Mean TTFT (ms)", 1e3}, {"ttft_p50_seconds", "Median TTFT (ms)", 1e3}, {"ttft_p99_seconds", "P99 TTFT (ms)", 1e3},
	{"tpot_mean_seconds", "Mean TPOT (ms)", 1e3}, {"tpot_p99_seconds", "P99 TPOT (ms)", 1e3},
	{"e2e_mean_seconds", "Mean E2E Latency (ms)", 1e3}, {"e2e_p99_seconds", "P99 E2E Latency (ms)", 1e3},
}

// repeats says that the numbers are medians, and of what.
func (p *printer) repeats(r *probes.Repeats) {
	if r.Runs == 0 {
		return
	}
	p.rule("Repeats", '-')
	p.row("Every number is the median of (runs):", fmt.Sprintf("%d of %d", r.Used, r.Runs))
	for _, row := range spreadRows {
		for _, s := range r.Spread {
			if s.Name == row.name {
				p.row(row.label+":", fmt.Sprintf("%-10s %s .. %s", decimals(s.Median*row.scale), decimals(s.Min*row.scale), decimals(s.Max*row.scale)))
			}
		}
	}
}

// parts lists the runs that the run is made of.
func (p *printer) parts(run *probes.Run) {
	if len(run.Parts) == 0 {
		return
	}
	p.rule("Parts", '-')
	fmt.Fprintf(p, "%-20s %9s %10s %10s %9s %9s  %s\n", "", "completed", "req/s", "out tok/s", "TTFT p50", "TPOT p50", "validity")
	for _, part := range run.Parts {
		s := &part.Run.Summary
		fmt.Fprintf(p, "%-20s %9d %10s %10s %9s %9s  %s\n", plain(part.Role), s.Completed, known(s.RequestThroughput, 1), known(s.OutputThroughput, 1),
			known(s.Distribution(probes.TTFT).Get(probes.StatP50), 1e3), known(s.Distribution(probes.TPOT).Get(probes.StatP50), 1e3), part.Run.Validity.State)
	}
}

func known(f probes.Optional[float64], scale float64) string {
	if v, ok := f.Get(); ok {
		return decimals(v * scale)
	}
	return unknown
}

// offline lays the throughput beside that of the engine alone.
func (p *printer) offline(s *probes.Summary) {
	o := &s.Offline
	if !o.Throughput.IsKnown() {
		return
	}
	p.rule("Offline", '-')
	label := "Output"
	if o.Total {
		label = "Total"
	}
	p.row("Offline result of:", o.Source)
	p.optional("Offline "+strings.ToLower(label)+" throughput (tok/s):", o.Throughput)
	p.scaled("Online below offline (%):", o.Gap, 100)
	p.sentence(fmt.Sprintf("5 to %.0f %% are what a server costs; more than %.0f %% are worth a search", probes.NormalOfflineGap*100, probes.MaxOfflineGap*100))
}

func (p *printer) milliseconds(label string, seconds probes.Optional[float64]) {
	p.scaled(label, seconds, 1e3)
}

func (p *printer) requests(s *probes.Summary) {
	p.rule("Requests", '-')
	p.count("Requests:", s.Requests)
	p.count("Failed requests:", s.Failed)
	for _, o := range probes.Outcomes {
		if n := s.Outcomes[o]; n > 0 && o.Failed() {
			p.count("  "+string(o)+":", n)
		}
	}
	p.count("Cancelled requests:", s.Cancelled)
	p.count("Dropped requests (never sent):", s.Dropped)
	p.count("Warm-up requests (not counted above):", s.Warmup)
	ratio := unknown
	if r, ok := s.SuccessRatio.Get(); ok {
		ratio = decimals(r * 100)
	}
	p.row("Success ratio (%):", ratio)
}

// samples prints the n behind each series, and a mark where it does not carry a
// p99.
func (p *printer) samples(s *probes.Summary) {
	p.rule("Samples", '-')
	for _, series := range []struct {
		name   string
		signal probes.Signal
	}{
		{"E2E", probes.E2E}, {"TTFT", probes.TTFT}, {"TPOT", probes.TPOT}, {"ITL", probes.ITL}, {"Chunk gap", probes.ChunkGap},
	} {
		d := s.Distribution(series.signal)
		value := fmt.Sprintf("%-10d", d.N)
		if d.N > 0 && !d.Enough(probes.StatP99) {
			value += fmt.Sprintf(" ! p99 needs %d", probes.MinSamplesP99)
		}
		p.row(series.name+" samples (n):", value)
	}
}

// client prints what the measuring side did: its rate, its lateness, what kept it
// from its work, its connections.
func (p *printer) client(run *probes.Run) {
	s := &run.Summary
	p.rule("Client", '-')
	p.optional("Asked request rate (req/s):", s.OfferedRate)
	p.optional("Achieved request rate (req/s):", s.AchievedRate)
	p.latency("send lag", s.Distribution(probes.SendLag), probes.StatMean, probes.StatP99, probes.StatMax)
	p.process(&s.Client)
	fresh, reused, reopened := connections(run.Records)
	p.optionalCount("New connections:", fresh)
	p.optionalCount("Reused connections:", reused)
	p.optionalCount("Reopened connections (server closed):", reopened)
	p.latency("connection set-up", s.Distribution(probes.ConnectSetup), probes.StatMean, probes.StatP99, probes.StatMax)
}

// process prints what is known of the process that made the run. Nothing is known of
// one whose result was imported.
func (p *printer) process(c *probes.Client) {
	p.latency("receive lag", c.ReceiveLag, probes.StatP50, probes.StatP99, probes.StatMax)
	p.scaled("Reads stamped by the kernel (%):", c.Stamped, 100)
	p.scaled("Gaps without length, coalesced (%):", c.Coalesced, 100)
	p.scaled("CPU share (%):", c.CPUShare, 100)
	p.optionalCount("GC pauses:", c.GCPauses)
	p.duration("GC pauses, sum (ms):", c.GCPauseTotal)
	p.duration("GC pauses, longest (ms):", c.GCPauseMax)
	p.optionalCount("CPU quota, periods throttled:", c.ThrottledPeriods)
	p.duration("CPU quota, throttled (ms):", c.Throttled)
	p.optionalCount("Room for open files:", c.DescriptorRoom)
	p.optionalCount("Room for local ports:", c.PortRoom)
}

func (p *printer) duration(label string, d probes.Optional[time.Duration]) {
	var seconds probes.Optional[float64]
	if length, ok := d.Get(); ok {
		seconds = probes.Known(length.Seconds())
	}
	p.milliseconds(label, seconds)
}

// connections counts the measured requests that were sent, by what carried them;
// unknown without records.
func connections(records []probes.Record) (fresh, reused, reopened probes.Optional[int]) {
	if len(records) == 0 {
		return
	}
	var n [3]int
	for i := range records {
		switch r := &records[i]; {
		case r.Outcome == probes.Dropped:
		case r.Flags.Has(probes.StaleReuse):
			n[2]++
		case r.Connection.Reused:
			n[1]++
		default:
			n[0]++
		}
	}
	return probes.Known(n[0]), probes.Known(n[1]), probes.Known(n[2])
}

// steady prints the throughput between the ramp and the drain, beside that of the
// whole run in the first block. It is left out for a run that has no such part.
func (p *printer) steady(s *probes.Summary) {
	start, ok := s.Steady.Start.Get()
	if !ok {
		return
	}
	end, _ := s.Steady.End.Get()
	p.rule("Steady State", '-')
	p.row("From, to (s):", decimals(start.Seconds())+" to "+decimals(end.Seconds()))
	p.count("Requests completed:", s.Steady.Completed)
	p.optional("Request throughput (req/s):", s.Steady.RequestThroughput)
	p.optional("Output token throughput (tok/s):", s.Steady.OutputThroughput)
}

func (p *printer) tokens(s *probes.Summary) {
	p.rule("Tokens", '-')
	p.optionalCount("Cached input tokens:", s.CachedTokens)
	p.scaled("Prefix cache hit ratio (%):", s.CacheHitRatio(), 100)
	p.row("Input token source:", orUnknown(string(s.InputSource)))
	p.row("Output token source:", orUnknown(string(s.OutputSource)))
	p.count("Requests with unknown output tokens:", s.UnknownOutputs)
	asked, server, deviation := unknown, unknown, unknown
	if s.Input.N > 0 {
		asked, server, deviation = decimals(s.Input.MeanRequested), decimals(s.Input.MeanServer), decimals(s.Input.MaxDeviation*100)
	}
	p.row("Mean input length asked (tok):", asked)
	p.row("Mean input length by server (tok):", server)
	p.row("Max input length deviation (%):", deviation)
}

// objectives are left out for a probe that promises nothing.
func (p *printer) objectives(run *probes.Run) {
	if len(run.Spec.SLOs) == 0 {
		return
	}
	p.rule("Objectives", '-')
	p.optional("Goodput (req/s):", run.Summary.Goodput)
	for _, slo := range run.Spec.SLOs {
		value := unknown
		if share, ok := run.Summary.SLOAttainment[slo.Name]; ok {
			value = fmt.Sprintf("%-10s of %s", decimals(share*100), strings.TrimSuffix(decimals(slo.Objective*100), ".00"))
		}
		p.row("SLO "+slo.Name+" (% good):", value)
	}
}
