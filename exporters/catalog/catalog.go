// Package catalog is the list of every metric that inferbeat exposes, as data.
//
// The story of the data: a [Metric] states a name, its kind, unit, help text,
// labels, classic buckets, when its value changes and when its series go away.
// The exporter builds /metrics from these rows and refuses a name that is not
// among them; dashboards and alert rules take their names from the constants
// here; METRICS.md is printed from the same rows. So a name that is spelled
// differently in two places cannot exist.
//
// The package imports nothing of ours.
package catalog

//go:generate go run ./gen

import (
	"slices"
	"strings"
)

// Kind is the type of a metric.
type Kind string

const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
	// Info is a gauge whose value is always 1 and whose labels are the facts.
	Info Kind = "info"
)

// Stability is the promise behind a name; it also opens the help text, so that
// a promotion renames nothing.
type Stability string

const (
	Stable Stability = "STABLE" // changes only with a major version
	Beta   Stability = "BETA"   // may change with a note in the changelog
	Alpha  Stability = "ALPHA"  // may change or vanish
)

// Updated says when a value changes.
type Updated string

const (
	OnRequest Updated = "request" // a request ended
	OnRun     Updated = "run"     // a run started, ended or was skipped
	OnResult  Updated = "result"  // a valid or suspect result was complete
	OnConfig  Updated = "config"  // load and reload
	OnScrape  Updated = "scrape"  // computed for each scrape
	// OnReference: a stream of known times was measured, every 10 s.
	OnReference Updated = "reference stream"
	// OnTimer: a timer of the process fired; of 10 ms for its lateness, of 1 s for
	// what is sampled.
	OnTimer    Updated = "timer"
	OnStart    Updated = "start" // process start
	OnSchedule Updated = "tick"  // the scheduler looked at its queue
	OnPull     Updated = "/probe"
)

// Staleness says when a series goes away.
type Staleness string

const (
	// Cumulative series start at 0 when the pair is configured and live until five
	// minutes after it was removed.
	Cumulative Staleness = "cumulative"
	// WithPair series are gone at the first scrape after the pair was removed.
	WithPair Staleness = "pair"
	// WithResult series are as WithPair, and gone stale_after after the last result.
	WithResult Staleness = "result"
	// WithComparison series are gone at the first scrape after the comparison was
	// removed; those of a result also stale_after after the last one.
	WithComparison Staleness = "comparison"
	// InAnswer series are in the answer to one GET /probe alone, and never on /metrics.
	InAnswer Staleness = "answer"
	// WithProcess series live as long as the process.
	WithProcess Staleness = "process"
)

// Better is the direction in which a value improves.
type Better string

const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neither Better = ""
)

// Metric is one row of the catalogue.
type Metric struct {
	Name      string
	Kind      Kind
	Unit      string // seconds, tokens, ratio …; empty for plain counts and facts
	Stability Stability
	// Help begins with the stability in brackets.
	Help string
	// Labels in the order they are documented. The series of an Info metric may
	// carry further labels that the configuration allows.
	Labels []string
	// Buckets are the upper bounds of the classic form of a histogram.
	Buckets   []float64
	Updated   Updated
	Staleness Staleness
	Better    Better
}

// HasLabel reports whether the metric carries the label.
func (m Metric) HasLabel(name string) bool { return slices.Contains(m.Labels, name) }

// PerPair reports whether there is at least one series for each pair of probe
// and target.
func (m Metric) PerPair() bool {
	return len(m.Labels) >= len(identity) && slices.Equal(m.Labels[:len(identity)], identity)
}

// All lists the metrics in the order they are documented. The caller owns the
// slice, not what its rows point to.
func All() []Metric { return slices.Clone(metrics) }

// Lookup finds a metric by its name.
func Lookup(name string) (Metric, bool) {
	for _, m := range metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// Identity are the labels that say which pair a series belongs to. Neither
// instance nor pod is among them: a restart must not resolve an alert.
func Identity() []string { return slices.Clone(identity) }

var (
	identity       = []string{LabelTarget, LabelPool, LabelTargetEnv, LabelModel, LabelProbe}
	targetIdentity = identity[:4]
)

// pair returns the identity labels followed by extra ones.
func pair(extra ...string) []string { return slices.Concat(identity, extra) }

// row completes a metric with what follows from its name and stability.
func row(m Metric) Metric {
	if m.Stability == "" {
		m.Stability = Beta
	}
	m.Help = "[" + string(m.Stability) + "] " + m.Help
	if m.Unit == "" {
		m.Unit = unitOf(m.Name)
	}
	return m
}

var units = []string{"tokens_per_second", "requests_per_second", "seconds", "ratio", "tokens", "requests", "events", "series"}

// unitOf reads the unit off the end of a name; _total is not part of it.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, u := range units {
		if strings.HasSuffix(name, "_"+u) {
			return u
		}
	}
	return ""
}
