package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/daemon/schedule"
	"github.com/inferbeat/inferbeat/exporters/prom"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/arrival"
)

// unknownAmount marks a number that depends on the target's answers or on a dataset.
const unknownAmount = -1

// Plan is what a configuration will do.
type Plan struct {
	Series  int // on /metrics once every pair has a result
	Targets []TargetPlan
	Pairs   []PairPlan
	// Comparisons are as pairs, of which the target is the candidate.
	Comparisons []PairPlan
	// Entries are those whose targets are still to be discovered.
	Entries []EntryPlan
}

// EntryPlan is what each target will see that service discovery finds for an entry.
type EntryPlan struct {
	TargetPlan
	Mechanisms []string // e.g. kubernetes
	Series     int      // that each target adds
	Probes     []string // each with when it starts
}

// TargetPlan is the load that one target will see. Amounts below 0 are not known
// beforehand.
type TargetPlan struct {
	Name           string
	Environment    string
	RequestsPerDay int // over the next 24 hours, warm-up included
	TokensPerDay   int // asked at most, prompts and answers
	MostInFlight   int
}

// PairPlan is one pair and its next starts, in the time zone of its schedule.
type PairPlan struct {
	Target, Probe string
	Reference     string // of a comparison
	When          string
	Starts        []time.Time
}

// NewPlan computes what a configuration will do from now on.
func NewPlan(c *config.Config, now time.Time, starts int) Plan {
	var p Plan
	statuses := make([]probes.PairStatus, 0, len(c.Pairs()))
	for _, pair := range c.Pairs() {
		identity := pairOf(pair)
		statuses = append(statuses, probes.PairStatus{Pair: identity, Kind: pair.Spec.Kind, Spec: pair.Spec})
		plan, err := schedule.Parse(pair.Spec.Schedule)
		if err != nil {
			continue // config has refused it already
		}
		entry := schedule.Entry{Pair: identity, Plan: plan}
		p.Pairs = append(p.Pairs, PairPlan{
			Target: identity.Target, Probe: identity.Probe, When: describe(pair.Spec.Schedule),
			Starts: inZone(entry.NextN(now, starts), pair.Spec.Schedule.Timezone),
		})
		p.addLoad(pair.Target, pair.Spec, runsWithin(entry, now, 24*time.Hour))
	}
	for _, e := range c.Entries() {
		p.Entries = append(p.Entries, newEntryPlan(&e, c, now))
	}
	p.addComparisons(c.Comparisons(), now, starts)
	p.Series = prom.EstimateSeries(statuses, prom.HistogramMode(c.Metrics.Histograms)) + prom.EstimateComparisons(len(p.Comparisons))
	return p
}

// newEntryPlan plans for one target of an entry.
func newEntryPlan(e *config.Entry, c *config.Config, now time.Time) EntryPlan {
	out := EntryPlan{TargetPlan: TargetPlan{Name: e.Name, Environment: string(e.Target.Environment)}, Mechanisms: e.Mechanisms()}
	var one Plan
	var statuses []probes.PairStatus
	for _, pair := range e.Pairs {
		statuses = append(statuses, probes.PairStatus{Pair: pairOf(pair), Kind: pair.Spec.Kind, Spec: pair.Spec})
		out.Probes = append(out.Probes, pair.Spec.Probe+", "+describe(pair.Spec.Schedule))
		if plan, err := schedule.Parse(pair.Spec.Schedule); err == nil {
			one.addLoad(pair.Target, pair.Spec, runsWithin(schedule.Entry{Pair: pairOf(pair), Plan: plan}, now, 24*time.Hour))
		}
	}
	if len(one.Targets) > 0 {
		out.TargetPlan = one.Targets[0]
	}
	out.Series = prom.EstimateSeries(statuses, prom.HistogramMode(c.Metrics.Histograms))
	return out
}

// addComparisons adds what comparisons ask of both their targets.
func (p *Plan) addComparisons(list []config.Comparison, now time.Time, starts int) {
	for _, c := range list {
		plan, err := schedule.Parse(c.Spec.Schedule)
		if err != nil {
			continue // config has refused it already
		}
		entry := schedule.Entry{Pair: comparisonPair(c), Plan: plan}
		p.Comparisons = append(p.Comparisons, PairPlan{
			Target: c.Candidate.Name, Probe: c.Spec.Probe, Reference: c.Reference.Name, When: describe(c.Spec.Schedule),
			Starts: inZone(entry.NextN(now, starts), c.Spec.Schedule.Timezone),
		})
		runs := c.Spec.Pairs * runsWithin(entry, now, 24*time.Hour)
		p.addLoad(c.Reference, sideSpec(c.Spec), runs)
		p.addLoad(c.Candidate, sideSpec(c.Spec), runs)
	}
}

// planOf finds the plan of a target, or begins it.
func (p *Plan) planOf(target probes.Target) *TargetPlan {
	i := slices.IndexFunc(p.Targets, func(t TargetPlan) bool { return t.Name == target.Name })
	if i < 0 {
		i = len(p.Targets)
		p.Targets = append(p.Targets, TargetPlan{Name: target.Name, Environment: string(target.Environment)})
	}
	return &p.Targets[i]
}

// addLoad adds the load of so many runs in a day to their target.
func (p *Plan) addLoad(target probes.Target, spec probes.Spec, runs int) {
	t := p.planOf(target)
	if spec.Kind == probes.Sweep {
		if runs > 0 { // its steps follow from what it finds
			t.RequestsPerDay, t.TokensPerDay = unknownAmount, unknownAmount
		}
		t.MostInFlight = max(t.MostInFlight, spec.Arrivals.MaxConcurrency)
		return
	}
	requests, _ := arrival.Planned(spec.Arrivals, spec.Requests, spec.Duration, spec.Workload.Seed)
	if most := spec.MostRequests(); most > requests {
		requests = most
	}
	warmup, _ := arrival.Planned(spec.Arrivals, spec.Warmup.Requests, spec.Warmup.Duration, spec.Workload.Seed)
	warmup *= max(1, spec.Repeats) // requests are those of all repeats
	if requests == 0 && runs > 0 {
		t.RequestsPerDay, t.TokensPerDay = unknownAmount, unknownAmount
	}
	if t.RequestsPerDay >= 0 {
		t.RequestsPerDay += runs * (requests + warmup)
	}
	tokens := spec.Workload.InputTokens + spec.Workload.OutputTokens
	if tokens == 0 && runs > 0 {
		t.TokensPerDay = unknownAmount
	}
	if t.TokensPerDay >= 0 {
		t.TokensPerDay += runs * (requests + warmup) * tokens
	}
	inFlight := spec.MostInFlight()
	if inFlight == 0 {
		inFlight = requests
	}
	t.MostInFlight = max(t.MostInFlight, inFlight)
}

// runsWithin counts the starts of the next span.
func runsWithin(entry schedule.Entry, now time.Time, span time.Duration) int {
	interval := entry.Plan.Interval(now)
	if interval <= 0 {
		return 0
	}
	if interval < time.Minute {
		return int(span / interval) // an every-plan: its grid is regular
	}
	count := 0
	for at := entry.Next(now); !at.IsZero() && !at.After(now.Add(span)); at = entry.Next(at) {
		count++
	}
	return count
}

func describe(s probes.Schedule) string {
	switch {
	case s.Every > 0:
		return fmt.Sprintf("every %s", s.Every)
	case s.Cron != "":
		zone := s.Timezone
		if zone == "" {
			zone = "UTC"
		}
		return fmt.Sprintf("at %q in %s", s.Cron, zone)
	}
	return "by hand only"
}

func inZone(times []time.Time, zone string) []time.Time {
	location, err := time.LoadLocation(zone)
	if err != nil {
		location = time.UTC
	}
	for i := range times {
		times[i] = times[i].In(location)
	}
	return times
}
