package config

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Source is where a configuration comes from, in the order of precedence.
type Source struct {
	Files []string // YAML; a later one wins over an earlier one
	Env   []string // NAME=value, as os.Environ gives it; wins over files
	// Overrides come from flags and win over everything. Keys are dotted, e.g.
	// web.listen_address or targets.gw.url; a value may be a whole section.
	Overrides map[string]any
}

// Checks ask the stages what this package cannot know. A nil check passes.
type Checks struct {
	Backend         func(name string) error
	AcceptsTokenIDs func(backend string) bool
	AcceptsMessages func(backend string) bool
	// UnixURL reads the URL of a target on a unix socket; its errors must not
	// repeat the URL. Without it such URLs are refused.
	UnixURL  func(text string) (string, error)
	Schedule func(probes.Schedule) error
	Workload func(probes.Workload) error
	// HasTimes reports whether requests of a dataset bring their own times.
	HasTimes func(dataset string) bool
	// AcceptsImages reports whether a backend can send images.
	AcceptsImages func(backend string) bool
	// Adapters reports a LoRA adapter that a backend cannot ask for.
	Adapters func(backend string, w probes.Workload) error
	Arrivals func(probes.Arrivals) error
	// FlushCache and Profile report a backend that has no such call, or takes it otherwise.
	FlushCache func(backend string) error
	Profile    func(backend string, p *probes.Profile) error
	// Variables are what must not differ between the sides of a comparison.
	Variables []string
	// Discovery reads a section of service discovery. shown is its YAML as it may be
	// printed. Without it nothing of a section is printed.
	Discovery func(Section) (shown string, problems []SectionProblem)
	// Comparable reports why two targets cannot be given one load.
	Comparable func(reference, candidate probes.Target, spec probes.Spec) error
}

// Config is a valid configuration. It is never changed after [Load].
type Config struct {
	Web           Web
	Log           Log
	Metrics       Metrics
	Results       Results
	Storage       Storage
	Embedded      Embedded
	ShutdownGrace time.Duration
	Pause         bool
	// MaxConcurrentRuns is how many go on at once, of all targets together.
	MaxConcurrentRuns int
	// FalseAlarms is the yearly budget of all series together; 0 is none.
	FalseAlarms float64
	// Environments holds production, staging, development and the user's own,
	// with the limits of their class filled in.
	Environments map[string]Environment

	doc     document
	set     map[string]position
	targets []probes.Target
	specs   []probes.Spec
	pairs   []Pair
	entries []Entry
	// found is the entry of each discovered target.
	found map[string]string

	// comparisons may wait for targets that are still to be discovered.
	comparisons []plannedComparison
}

// Pair is one probe on one target, as it is executed.
type Pair struct {
	Target probes.Target // with the pair's time-outs
	Spec   probes.Spec
	Budget Budget
}

// Budget is what the environment of a target lets its runs ask for, and what one of
// them does.
type Budget struct {
	TokensPerDay int     // of all runs on the target; 0 is no limit
	Tokens       float64 // prompts and answers of one run at most; 0 is not known
	// Span is how long one run must take at least for the sake of max_rate, whatever its
	// own arrivals are; 0 without a limit.
	Span time.Duration
}

// Comparison is one comparison as it is executed.
type Comparison struct {
	Reference, Candidate probes.Target // with the comparison's time-outs
	// Spec is of the kind paired and has the comparison's name as its probe.
	Spec probes.Spec
	// ReferenceBudget and CandidateBudget are of what one comparison asks of each side.
	ReferenceBudget, CandidateBudget Budget
}

// Comparisons lists the comparisons whose targets are known, sorted by name.
func (c *Config) Comparisons() []Comparison {
	var out []Comparison
	for _, compared := range c.comparisons {
		if compared.Reference.BaseURL != "" && compared.Candidate.BaseURL != "" {
			out = append(out, compared.Comparison)
		}
	}
	return out
}

// Pairs lists every probe of every target, sorted by target; the probes of a
// target are in the order of its probes key.
func (c *Config) Pairs() []Pair { return c.pairs }

// Targets lists the targets, sorted by name. Their time-outs are those that the
// target itself sets; see [Config.Pairs].
func (c *Config) Targets() []probes.Target { return c.targets }

// Probes lists the probes, sorted by name.
func (c *Config) Probes() []probes.Spec { return c.specs }

// Default is the configuration of an empty file.
func Default() *Config {
	c, err := Load(Source{}, Checks{})
	if err != nil {
		panic("config: the defaults are not valid: " + err.Error())
	}
	return c
}

// Load reads, merges and checks a configuration. It reads files and changes
// nothing. The error is [Problems].
func Load(src Source, checks Checks) (*Config, error) {
	l := &loader{env: environ(src.Env), expanded: map[string]string{}, where: map[string]position{}, raws: map[string]rawText{}, checks: checks}
	for _, name := range src.Files {
		l.file(name)
	}
	l.variables()
	l.overrides(src.Overrides)
	doc, err := l.merge()
	if err != nil {
		return nil, err
	}
	c := &Config{doc: doc, set: l.where}
	if !l.unreadable {
		b := &builder{loader: l, doc: &c.doc, cfg: c}
		b.build()
	}
	if len(l.problems) > 0 {
		return nil, l.problems.hide(l.expanded).sorted()
	}
	return c, nil
}
