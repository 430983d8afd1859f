package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// server prints what the server says about itself and about the time of the run.
// The block is left out for a server that says nothing.
func (p *printer) server(run *probes.Run) {
	s, facts := &run.Summary, &run.Facts
	if !facts.Known() && !s.Server.Known() && !s.Timings.Known() {
		return
	}
	p.rule("Server", '-')
	defer p.timings(&s.Timings)
	p.row("Engine:", orUnknown(strings.TrimSpace(facts.Engine+" "+facts.Version)))
	for _, f := range facts.All() {
		if f.Name != "engine" && f.Name != "version" {
			p.row(sentenceCase(f.Name)+":", f.Value)
		}
	}
	if !s.Server.Known() {
		return
	}
	if s.Server.Restarted {
		p.row("Restarted during the run:", "yes")
	}
	p.optionalCount("Requests ended, all clients:", s.Server.Requests)
	p.level("waiting requests", s.Server.Queue, 1)
	p.level("running requests", s.Server.Running, 1)
	p.level("KV cache usage (%)", s.Server.KVUsage, 100)
	p.optionalCount("Preemptions:", s.Server.Preemptions)
	p.scaled("Prefix cache hits by server (%):", s.Server.PrefixCache.HitRatio, 100)
	for _, tier := range slices.Sorted(maps.Keys(s.Server.PrefixCache.Tiers)) {
		p.float("  "+tier+":", s.Server.PrefixCache.Tiers[tier]*100)
	}
	p.serverMean("Mean TTFT by server (ms):", s.Server.TTFT)
	p.serverMean("Mean TPOT by server (ms):", s.Server.TPOT)
	p.scaled("Client TTFT minus server's (ms):", s.TTFTExcess(), 1e3)
}

// timings are left out for a server whose answers tell none.
func (p *printer) timings(t *probes.ServerTimings) {
	if !t.Known() {
		return
	}
	p.serverMean("Mean prefill by server's answers (ms):", t.Prefill)
	p.serverMean("Mean decode by server's answers (ms):", t.Decode)
	p.optional("Decode rate by server's answers (tok/s):", t.DecodeRate)
}

// sentenceCase makes "tensor_parallel" a row's label.
func sentenceCase(name string) string {
	name = strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}

func (p *printer) level(name string, l probes.Level, unit float64) {
	mean, highest := unknown, unknown
	if l.N > 0 {
		mean, highest = decimals(l.Mean*unit), decimals(l.Max*unit)
	}
	p.row("Mean "+name+":", mean)
	p.row("Max "+name+":", highest)
}

func (p *printer) serverMean(label string, m probes.ServerMean) {
	if m.N == 0 {
		p.row(label, unknown)
		return
	}
	p.row(label, fmt.Sprintf("%-10s n=%d", decimals(m.Mean*1e3), m.N))
}

func (p *printer) scaled(label string, v probes.Optional[float64], unit float64) {
	if f, ok := v.Get(); ok {
		p.float(label, f*unit)
	} else {
		p.row(label, unknown)
	}
}

// acceptSources say what an accept length is the average of.
var acceptSources = map[probes.AcceptSource]string{
	probes.AcceptCounters: "server's counters", probes.AcceptRequests: "answers", probes.AcceptGauge: "server's gauge",
	probes.AcceptLifetime: "since server start",
}

// speculation is left out for a server that does not speculate.
func (p *printer) speculation(s *probes.Summary) {
	if !s.AcceptLength.IsKnown() {
		return
	}
	p.row("Accept length from:", orUnknown(acceptSources[s.AcceptSource]))
	p.scaled("Accepted drafts (%):", s.Server.AcceptanceRatio, 100)
	for i, rate := range s.Server.PerPosition {
		p.float(fmt.Sprintf("Accepted at position %d (%%):", i+1), rate*100)
	}
}
