package probes

import (
	"math"
	"time"
)

// Kind is the job of a probe.
type Kind string

const (
	// Canary sends a few requests often; its results are a sliding window.
	Canary Kind = "canary"
	// Load is the online benchmark: N requests or a duration at a rate or concurrency.
	Load Kind = "load"
	// Peak saturates the target in a closed loop: its throughput ceiling.
	Peak Kind = "peak"
	// Batch sends one batch of equal requests at once: prefill and decode step time.
	Batch Kind = "batch"
	// Replay sends the requests of a trace at the trace's own times.
	Replay Kind = "replay"
	// Sweep is a staircase or a search of rates; its result is a [Capacity].
	Sweep Kind = "sweep"
	// Paired lays two targets beside each other. It belongs to no single target, so
	// it is none of [Kinds], which are those of a target's probes.
	Paired Kind = "paired"
)

// Kinds lists the probe kinds in the order they are documented.
var Kinds = []Kind{Canary, Load, Replay, Peak, Batch, Sweep}

// Continuous reports whether single runs are too small to be judged alone, so
// that results are windows over many of them.
func (k Kind) Continuous() bool { return k == Canary }

// Spec is a probe as it is executed on one target.
type Spec struct {
	Probe    string
	Kind     Kind
	Workload Workload
	Arrivals Arrivals
	// Requests is how many measured requests are sent; 0 means until Duration.
	Requests int
	// Duration is when sending stops and requests in flight are cut; 0 means
	// until Requests have ended.
	Duration time.Duration
	Warmup   Warmup
	Schedule Schedule
	SLOs     []SLO
	Limits   []Limit
	// QueueLimits bound the mean number of requests that wait in the server while the
	// probe runs. They are for alerts: a queue alone is no broken promise, so no
	// verdict counts it.
	QueueLimits []QueueLimit
	// FailureThreshold is how many runs in a row must fail before the target counts
	// as down; 0 is never.
	FailureThreshold int
	Window           Window
	// StaleAfter is the age at which a result no longer stands.
	StaleAfter time.Duration
	// FlushCache empties the server's prefix cache before the run.
	FlushCache bool
	// Profile has the server's own profiler run during the measured part, whose numbers
	// are then those of a slower server; nil leaves it off.
	Profile *Profile `json:",omitempty"`
	// Repeats is how many times a load is run, one after the other; its result is
	// the median of them. 0 and 1 are once.
	Repeats int
	// Gate judges the candidate of a comparison; nil leaves its numbers to the reader.
	// With it Pairs is the most that may be run: fewer are, once they decide.
	Gate *Gate
	// Pairs is how often each side of a comparison is run; 0 is no comparison.
	Pairs int
	// Margins are by how much the candidate of a comparison may be worse, in the unit
	// of [Judgement.Margin]; a metric that is not listed has the margin of its class.
	Margins map[RegressionMetric]float64
	// StartConcurrency is where a peak begins; it doubles up to Arrivals.MaxConcurrency.
	StartConcurrency int
	// OfflineResult is a file whose last result is the throughput without a
	// server, which a run's own is held against; empty for none.
	OfflineResult string
	// Expect is a question of its own after each run of a canary, whose answer is
	// known: a server that is fast because it is broken gets it wrong.
	Expect Expect
	// KeepText keeps the generated text in each record (for --output-details).
	KeepText bool
	// Definitions are those that the records follow.
	Definitions Definitions
	// Sweep is what a sweep does; Requests and Duration then bound each of its steps.
	Sweep SweepPlan
	// Regression says how its runs are judged against those of earlier nights.
	Regression Regression `json:",omitzero"`
	// StopWhen is what the target's environment asks for, whatever the probe.
	StopWhen StopWhen
	// Shard is the part of the load that this process sends. Requests, Arrivals and
	// Warmup are those of the whole load.
	Shard Shard
}

// Profile is what a server's profiler is asked for. All but its being there is for
// servers that take it: zero values leave the choice to them.
type Profile struct {
	Activities []string // as SGLang names them: CPU, GPU, CUDA_PROFILER ...
	StartStep  int      // forward steps before it begins
	Steps      int      // forward steps after which it ends by itself
	ByStage    bool     // prefill and decode apart
	Stages     []string // these stages alone
	OutputDir  string   // on the server
	Prefix     string   // of its files
}

// StopWhen is when a run must stop for its target's sake. 0 is no limit; without any,
// nothing that a server says stops a run. With one, an error answer with Retry-After
// does too.
type StopWhen struct {
	QueueAbove      float64 // requests that wait in the server, by its own count
	ErrorRatioAbove float64 // share of the last requests that failed
}

// PeakTurns is how many requests each worker of a peak's step has at least: with
// fewer, filling and draining the server would be most of the step.
const PeakTurns = 4

// PeakStep is the step of a peak with so many workers.
func (s Spec) PeakStep(workers int) Spec {
	s.Arrivals.Process, s.Arrivals.MaxConcurrency = ClosedLoop, workers
	if s.Requests > 0 {
		s.Requests = max(s.Requests, PeakTurns*workers)
	}
	return s
}

// MostRequests is how many measured requests all parts of a run send at most; 0
// is not known.
func (s Spec) MostRequests() int {
	if s.Kind != Peak {
		runs := max(1, s.Repeats)
		if s.Regression.Confirm {
			runs = max(runs, ConfirmRuns)
		}
		return s.Shard.Share(s.Requests) * runs * max(1, 2*s.Pairs)
	}
	sum := 0
	for workers := max(1, s.StartConcurrency); ; workers *= 2 {
		workers = min(workers, s.Arrivals.MaxConcurrency)
		sum += s.PeakStep(workers).Requests
		if workers == s.Arrivals.MaxConcurrency || s.Requests == 0 {
			return sum
		}
	}
}

// MostInFlight is how many requests may be in flight at once; 0 is no bound.
func (s Spec) MostInFlight() int {
	most := s.Arrivals.MaxConcurrency
	if n := s.Shard.Share(s.Requests); s.Kind != Peak && n > 0 && (most == 0 || n < most) {
		return n
	}
	return most
}

// Expect pins a greedy answer. The zero value asks nothing; else one of Equals,
// Contains and SHA256 is set. White space around answers does not count. Prompt
// and answer are nobody's business but the server's, so they print as secrets.
type Expect struct {
	Prompt    Secret
	Equals    Secret
	Contains  Secret
	SHA256    string // hex digest of the whole answer
	MaxTokens int
}

// Warmup is load that is sent before the measurement and counted apart. It is
// shaped like the load: same arrivals, prompts of its own.
type Warmup struct {
	Requests int
	Duration time.Duration
}

// Window bounds the records that a continuous probe's result is computed from.
type Window struct {
	MinSamples int           // the last so many requests
	MaxAge     time.Duration // none older than this
}

// Schedule says when a probe runs. Exactly one of Every and Cron is set for a
// scheduled probe, none for one that is only run by hand.
type Schedule struct {
	Every    time.Duration
	Cron     string // five fields
	Timezone string // IANA name for Cron; empty is UTC
	// AllowParallel lets the run start although another one is running on the
	// target. Two runs of one pair never overlap.
	AllowParallel bool
}

// CacheClass says what a workload expects of the server's prefix cache.
type CacheClass string

const (
	// CacheCold: every prompt is new to the server (salted per run).
	CacheCold CacheClass = "cold"
	// CacheWarm: the same prompts every run, on purpose.
	CacheWarm CacheClass = "warm"
	// CacheShared: prompts share prefixes among themselves, on purpose.
	CacheShared CacheClass = "shared"
)

// Workload is what is asked: dataset, lengths, sampling and seed policy.
type Workload struct {
	Name    string
	Dataset string // see workload.Datasets
	Path    string // file of a dataset that reads one
	// URL is where the file is fetched from when it is not there, and SHA256 what
	// it must hash to, in hex. Without them nothing is ever fetched.
	URL    string `json:",omitzero"`
	SHA256 string `json:",omitzero"`
	// SkipBadRows leaves out rows of the file that cannot be used, and counts them.
	SkipBadRows bool `json:",omitzero"`

	InputTokens  int        // random*, text, image: full input length
	OutputTokens int        // random*, text, image, mmmu: full output length; others: where a row has none
	RangeRatio   float64    // random*, text, image: lengths are uniform in [max(int(full*ratio),1), full]
	Groups       Groups     `json:",omitzero"` // generated-shared-prefix
	Images       ImageShape `json:",omitzero"` // image
	Trace        Trace      `json:",omitzero"` // trace, mooncake, burstgpt, azure
	// FixedOutputTokens and ContextTokens are sharegpt's --sharegpt-output-len
	// and --sharegpt-context-len; 0 is not set.
	FixedOutputTokens int
	ContextTokens     int

	// Tokenizer is [TokenizerServer], [TokenizerApprox], or one of our own: see
	// [Workload.LocalTokenizer].
	Tokenizer string
	// ApplyChatTemplate sends the prompt as the tokenizer's chat template renders it,
	// to backends that do not apply one themselves.
	ApplyChatTemplate bool `json:",omitzero"`
	VocabSize         int  // random-ids: ids are below it
	// TokenIDs sends prompts as token ids instead of text.
	TokenIDs bool
	Cache    CacheClass
	// Seed fixes lengths, texts and arrival gaps; runs differ only by their salt.
	Seed     int64
	Sampling Sampling
	// Adapters are what each request takes its Sampling.LoRA from, when there are
	// several to choose among.
	Adapters Adapters `json:",omitzero"`
}

// SetAdapters gives the requests their LoRA adapters. One alone is everybody's:
// nothing is chosen then.
func (w *Workload) SetAdapters(a Adapters) {
	if len(a.Names) == 1 && a.Choice == AdaptersUniform {
		w.Sampling.LoRA = a.Names[0]
		return
	}
	w.Adapters = a
}

// AdapterNames are all LoRA adapters that requests may ask for.
func (w *Workload) AdapterNames() []string {
	if w.Sampling.LoRA != "" {
		return append([]string{w.Sampling.LoRA}, w.Adapters.Names...)
	}
	return w.Adapters.Names
}

// AdapterChoice names how requests are spread over LoRA adapters, as bench_serving
// calls it.
type AdapterChoice string

const (
	AdaptersUniform  AdapterChoice = "uniform"  // each one as likely as another
	AdaptersDistinct AdapterChoice = "distinct" // in turns, so that neighbours never have the same
	AdaptersSkewed   AdapterChoice = "skewed"   // the first ones are popular; see Adapters.Alpha
)

// AdapterChoices lists them in the order they are documented.
var AdapterChoices = []AdapterChoice{AdaptersUniform, AdaptersDistinct, AdaptersSkewed}

// Adapters are the LoRA adapters of a workload. Which one a request gets depends on
// the workload's seed and the request's index alone, so that a repeat, a replay and
// the other side of a comparison ask the same of the server.
type Adapters struct {
	Names  []string
	Choice AdapterChoice
	// Alpha is the factor by which each name of a skewed choice is less likely than
	// the one before it; above 1, and 0 for other choices.
	Alpha float64
}

// Groups are the prompts of generated-shared-prefix: each one is a system prompt,
// which a group has in common, and a question of its own. Lengths are in tokens.
type Groups struct {
	Count          int
	PromptsOfEach  int
	SystemTokens   int
	QuestionTokens int
	OutputTokens   int
	RangeRatio     float64 // as the workload's own
	// ZipfAlpha makes groups unequally popular: a prompt belongs to group k, counted
	// from 0, with a probability proportional to 1/(k+1)^ZipfAlpha. 0 gives each
	// group the same number of prompts.
	ZipfAlpha float64
	// Ordered sends the prompts of a group one after the other; else all are shuffled.
	Ordered bool `json:",omitzero"`
}

// ImageShape is what the pictures of the image dataset look like.
type ImageShape struct {
	Count int // in each request
	// RandomCount draws the number of each request from 1 to Count.
	RandomCount bool `json:",omitzero"`
	// Resolution is 4k, 1080p, 720p, 360p, height x width as in 512x768, or drawn for
	// each image as in random:256x256-1024x768.
	Resolution string
	Format     string // jpeg or png
	Content    string // random or blank
}

// Trace is how a file of timed requests is read.
type Trace struct {
	// TimeUnit is what a number stands for as a time: s, ms, us or ns. Times are
	// counted from the first row's; ISO 8601 texts need no unit.
	TimeUnit string
	// Slowdown stretches the times; 0 is 1.
	Slowdown float64
	// Rounds makes each row of mooncake a session of so many turns; 0 is 1.
	Rounds int
	// Name picks the file when Path is a folder of mooncake traces.
	Name string
	// BlockTokens is how many tokens one hash id stands for; 0 is 512.
	BlockTokens int
}

// Sampling is how the answer is generated.
type Sampling struct {
	Temperature float64
	TopP        Optional[float64]
	IgnoreEOS   bool
	Stream      bool
	// ExtraBody is merged over the request body; it cannot change stream.
	ExtraBody map[string]any
	LoRA      string // adapter, empty for the model itself; see Workload.Adapters
}

// ArrivalProcess names how due times follow each other.
type ArrivalProcess string

const (
	Constant   ArrivalProcess = "constant"
	Poisson    ArrivalProcess = "poisson"
	Gamma      ArrivalProcess = "gamma"
	Burst      ArrivalProcess = "burst"  // everything is due at once
	ClosedLoop ArrivalProcess = "closed" // a request is due when an earlier one has ended
	FromTrace  ArrivalProcess = "trace"  // the requests bring their own times
)

// ArrivalProcesses lists them in the order they are documented.
var ArrivalProcesses = []ArrivalProcess{Constant, Poisson, Gamma, Burst, ClosedLoop, FromTrace}

// Arrivals is when it is asked.
type Arrivals struct {
	Process ArrivalProcess
	// Rate is in requests per second; +Inf for a burst, unused in a trace. In a closed
	// loop it is the most that it starts, 0 and +Inf being no bound.
	Rate float64
	// CV is the coefficient of variation of a gamma process's gaps (1 is
	// Poisson, 0 is constant). vLLM's burstiness b is the gamma shape: CV = 1/sqrt(b).
	CV float64
	// MaxConcurrency is how many requests may be in flight; 0 is no bound. In a
	// closed loop it is the number of workers.
	MaxConcurrency int
	// StartTogether starts the workers of a closed loop at one instant. Else they
	// start one after the other, so that neither their connects nor their first
	// prompts are a burst that nobody asked for.
	StartTogether bool
	// Ramp is the time in which the rate rises from 0 to Rate in a straight line;
	// constant, poisson and gamma have it.
	Ramp time.Duration
}

// OpenLoop reports whether due times do not depend on the answers.
func (a Arrivals) OpenLoop() bool { return a.Process != ClosedLoop }

// BurstinessToCV converts vLLM's burstiness (gamma shape) to a coefficient of variation.
func BurstinessToCV(b float64) float64 { return 1 / math.Sqrt(b) }

// Severity ranks a limit.
type Severity string

const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Severities lists them from mild to grave.
var Severities = []Severity{Info, Warning, Critical}

// SLO is a promise about single requests: a share Objective of them is good, and
// good means successful and below every bound.
type SLO struct {
	Name      string
	Objective float64 // share, 0 < Objective < 1
	Window    time.Duration
	// Bounds are upper limits of TTFT, TPOT and E2E. An empty map promises
	// success alone.
	Bounds map[Signal]time.Duration
}

// Limit is a promise about a statistic of a result.
type Limit struct {
	Signal    Signal
	Statistic Statistic
	Severity  Severity
	// Bound is in seconds, or a plain ratio for StatTailRatio.
	Bound float64
}

// TailFloor is the p99 in seconds below which a tail ratio is not judged: 5 times a
// mean of a few milliseconds hurts nobody.
const TailFloor = 0.2

// Breached holds a distribution against the limit. A tail ratio breaches it from the
// bound on, everything else above it. The answer is unknown without the statistic
// and with fewer samples than it needs.
func (l Limit) Breached(d Distribution) Optional[bool] {
	got, known := d.Get(l.Statistic).Get()
	switch {
	case !known || !d.Enough(l.Statistic):
		return Optional[bool]{}
	case l.Statistic == StatTailRatio:
		return Known(got >= l.Bound && d.P99 >= TailFloor)
	}
	return Known(got > l.Bound)
}

// QueueLimit is a bound of the server's waiting requests, on average over a run.
type QueueLimit struct {
	Severity Severity
	Bound    float64
}

// Breach is how many results in a row breached a limit, up to the last one that
// could be judged.
type Breach struct {
	Limit Limit
	Runs  int
}
