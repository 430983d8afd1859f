package probes

import (
	"encoding/json"
	"math"
	"time"
)

// Signal names a latency series of a run.
type Signal string

const (
	TTFT             Signal = "ttft"               // sent to first token
	TTFTFromDue      Signal = "ttft_from_due"      // due to first token
	TTFTAfterConnect Signal = "ttft_after_connect" // connection ready to first token
	FirstAnswer      Signal = "first_answer"       // sent to first token that is not reasoning
	TPOT             Signal = "tpot"               // time per output token after the first
	ITL              Signal = "itl"                // per token, where a chunk's tokens are known
	ChunkGap         Signal = "chunk_gap"          // per chunk, whatever it holds
	E2E              Signal = "e2e"                // sent to last token
	E2EFromDue       Signal = "e2e_from_due"       // due to last token
	SendLag          Signal = "send_lag"           // due to sent
	ConnectSetup     Signal = "connection_setup"   // DNS, connect and TLS of new connections
	// TTFTFirst and TTFTSecond are of the first request of a canary's run, which
	// comes after a pause, and of the one that follows it at once. Both are in TTFT
	// too.
	TTFTFirst  Signal = "ttft_first"
	TTFTSecond Signal = "ttft_second"
)

// Signals lists them in the order they are documented.
var Signals = []Signal{
	TTFT, TTFTFromDue, TTFTAfterConnect, FirstAnswer, TPOT, ITL, ChunkGap,
	E2E, E2EFromDue, SendLag, ConnectSetup, TTFTFirst, TTFTSecond,
}

// Statistic names a number drawn from a distribution.
type Statistic string

const (
	StatMean   Statistic = "mean"
	StatP50    Statistic = "p50"
	StatP90    Statistic = "p90"
	StatP95    Statistic = "p95"
	StatP99    Statistic = "p99"
	StatMax    Statistic = "max"
	StatStddev Statistic = "stddev"
	// StatTailRatio is p99 divided by the mean.
	StatTailRatio Statistic = "tail_ratio"
)

// Statistics lists those of a [Distribution] in the order they are documented.
var Statistics = []Statistic{StatMean, StatP50, StatP90, StatP95, StatP99, StatMax, StatStddev}

// Distribution holds the exact statistics of N pooled raw samples in seconds.
// Percentiles are linear between ranks, the standard deviation is that of the
// population, both as NumPy computes them by default. N = 0 means that nothing
// is known; the other fields then mean nothing. In the distribution of an
// imported run a statistic that its tool did not write is NaN.
type Distribution struct {
	N      int
	Mean   float64
	Stddev float64
	Min    float64
	P50    float64
	P90    float64
	P95    float64
	P99    float64
	Max    float64
}

// Samples needed before a statistic may be judged.
const (
	MinSamplesMean = 20
	MinSamplesP99  = 100
)

// Get returns one statistic; it is unknown when there are no samples.
func (d Distribution) Get(s Statistic) Optional[float64] {
	if d.N == 0 {
		return Optional[float64]{}
	}
	switch s {
	case StatMean:
		return orUnknown(d.Mean)
	case StatP50:
		return orUnknown(d.P50)
	case StatP90:
		return orUnknown(d.P90)
	case StatP95:
		return orUnknown(d.P95)
	case StatP99:
		return orUnknown(d.P99)
	case StatMax:
		return orUnknown(d.Max)
	case StatStddev:
		return orUnknown(d.Stddev)
	case StatTailRatio:
		return d.TailRatio()
	}
	return Optional[float64]{}
}

// TailRatio is p99 / mean; unknown without samples or when the mean is 0.
func (d Distribution) TailRatio() Optional[float64] {
	if d.N == 0 || !(d.Mean > 0) {
		return Optional[float64]{}
	}
	return orUnknown(d.P99 / d.Mean)
}

func orUnknown(f float64) Optional[float64] {
	if math.IsNaN(f) {
		return Optional[float64]{}
	}
	return Known(f)
}

// Enough reports whether N supports judging the statistic: 100 samples for a p99
// or a tail ratio, 20 for anything else.
func (d Distribution) Enough(s Statistic) bool {
	if s == StatP99 || s == StatTailRatio {
		return d.N >= MinSamplesP99
	}
	return d.N >= MinSamplesMean
}

// MarshalJSON writes null when there are no samples, and for a statistic that is
// not known.
func (d Distribution) MarshalJSON() ([]byte, error) {
	if d.N == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		N      int               `json:"n"`
		Mean   Optional[float64] `json:"mean"`
		Stddev Optional[float64] `json:"stddev"`
		Min    Optional[float64] `json:"min"`
		P50    Optional[float64] `json:"p50"`
		P90    Optional[float64] `json:"p90"`
		P95    Optional[float64] `json:"p95"`
		P99    Optional[float64] `json:"p99"`
		Max    Optional[float64] `json:"max"`
	}{d.N, orUnknown(d.Mean), orUnknown(d.Stddev), orUnknown(d.Min), orUnknown(d.P50), orUnknown(d.P90),
		orUnknown(d.P95), orUnknown(d.P99), orUnknown(d.Max)})
}

// Summary is the statistics of a run, warm-up left out. Rates are per second of
// Duration.
type Summary struct {
	// Duration runs from the first due time to the end of the last request, or
	// to the end of the window of a run that is bounded by time.
	Duration time.Duration

	Requests  int // all measured requests, dropped ones included
	Sent      int
	Completed int // outcome ok
	Failed    int // outcomes that count against the target
	Cancelled int
	Dropped   int
	Outcomes  map[Outcome]int
	Flags     map[string]int // records that carry each flag
	Warmup    int            // warm-up requests, of any outcome

	Latency map[Signal]Distribution

	InputTokens  Optional[int] // of completed requests: the server's counts, else the dataset's
	InputSource  TokenSource
	CachedTokens Optional[int]
	// ImageTokens is the part of InputTokens that is no text: what the server counted
	// for requests with images, less the length of their texts. Unknown without images.
	ImageTokens Optional[int]
	// OutputTokens counts completed requests, and the tokens that cut requests
	// had delivered when the window ended.
	OutputTokens   Optional[int]
	OutputSource   TokenSource // the least trusted source among the records
	UnknownOutputs int         // completed requests whose output tokens are unknown
	// RetokenizedOutput is our own count of all completed answers' texts, and
	// RetokenizedRatio what it is of the server's count; unknown without a local
	// tokenizer.
	RetokenizedOutput Optional[int]
	RetokenizedRatio  Optional[float64]

	RequestThroughput    Optional[float64]
	InputThroughput      Optional[float64]
	OutputThroughput     Optional[float64]
	TotalThroughput      Optional[float64]
	PeakOutputThroughput Optional[float64] // fullest one-second bucket
	Concurrency          Optional[float64] // sum of E2E over Duration (Little)
	PeakConcurrency      int               // most requests in flight at one instant

	OfferedRate  Optional[float64] // planned; +Inf for a burst, unknown in a closed loop
	AchievedRate Optional[float64] // sent requests over the planned span
	SuccessRatio Optional[float64] // completed over completed and failed

	// Goodput is completed requests per second that met every SLO; unknown
	// without SLOs.
	Goodput       Optional[float64]
	SLOAttainment map[string]float64 // share of completed and failed requests that were good

	Input InputLengths

	// AcceptLength is tokens per speculative verify step, bonus token included, from
	// the best source there is.
	AcceptLength Optional[float64]
	AcceptSource AcceptSource // empty when AcceptLength is unknown

	// Steady is the run without its beginning and its end.
	Steady SteadyState

	// Server is what the server's own counters say about the time of the run, and
	// Timings what it says with each of our answers.
	Server  ServerSummary
	Timings ServerTimings

	// Answer is what became of the spec's question; empty without one.
	Answer Answer
	// Client is what is known about the process that made the run.
	Client Client

	// Repeats is filled for the median of several runs.
	Repeats Repeats
	// Offline is the throughput without a server, if there is one to compare with.
	Offline Offline
	// Batch is filled for runs of the kind batch; its Size is 0 for others.
	Batch BatchTimes
}

// Answer says whether a pinned greedy answer was given.
type Answer string

const (
	AnswerRight   Answer = "right"
	AnswerWrong   Answer = "wrong"
	AnswerMissing Answer = "missing" // the question failed, or was not asked
)

// Repeats says how far runs that were to be equal were apart.
type Repeats struct {
	// Runs is how many were run and Used how many of them could be believed; every
	// number of the summary is the median of those, one by one, except for the
	// counts: they are of the run with the median output throughput.
	Runs, Used int
	Spread     []Spread
}

// Spread is one number over several runs, in the unit that its name ends with.
type Spread struct {
	Name             string // e.g. output_throughput, ttft_p99_seconds
	N                int    // runs in which it is known
	Median, Min, Max float64
}

// Offline lays a run's throughput beside that without a server.
type Offline struct {
	// Throughput is without a server, in output tokens per second, or in all
	// tokens per second when Total is set because nobody wrote the former.
	Throughput Optional[float64]
	Total      bool
	Source     string // the tool, or peak
	// Gap is 1 - the run's throughput / Throughput.
	Gap Optional[float64]
}

// Gaps between a server's throughput and that of its engine alone. Up to
// NormalOfflineGap is what HTTP, tokenizing and streaming cost; above
// MaxOfflineGap they are the bottleneck.
const (
	NormalOfflineGap = 0.15
	MaxOfflineGap    = 0.20
)

// BatchTimes are those of one batch of equal requests that was sent at once.
// Times are in seconds, throughputs in tokens per second of the whole batch.
type BatchTimes struct {
	Size int
	// Prefill is the time from the first send to the last first token.
	Prefill Optional[float64]
	// DecodeStep is the median time of a step in which each request gets a token,
	// known where chunks hold one token each.
	DecodeStep Optional[float64]
	// Latency is the time from the first send to the last token.
	Latency Optional[float64]

	InputThroughput   Optional[float64] // prompt tokens over Prefill
	DecodeThroughput  Optional[float64] // output tokens over Latency - Prefill
	StepThroughput    Optional[float64] // Size over DecodeStep
	OverallThroughput Optional[float64] // all tokens over Latency
}

// SteadyState is the part of a run in which as many requests end as begin, and its
// throughput: the figures beside it count the time in which the server was filling
// up and emptying, which makes short runs look slow. Everything is unknown when the
// run has no such part, or when fewer than 20 requests ended in it.
type SteadyState struct {
	// Start is the end of the ramp and one mean residence time; End is when the last
	// request was sent. Both are offsets from the run's start.
	Start, End        Optional[time.Duration]
	Completed         int // requests that ended well between them
	RequestThroughput Optional[float64]
	// OutputThroughput counts tokens when they arrived. It is unknown when some answer's
	// tokens have no instants.
	OutputThroughput Optional[float64]
}

// SustainedOutput is the output tokens per second of the steady state, else of the
// whole run.
func (s *Summary) SustainedOutput() Optional[float64] {
	if s.Steady.OutputThroughput.IsKnown() {
		return s.Steady.OutputThroughput
	}
	return s.OutputThroughput
}

// InputLengths lays the asked prompt lengths beside the server's counts, over
// the requests for which both are known.
type InputLengths struct {
	N             int
	MeanRequested float64
	MeanServer    float64
	MaxDeviation  float64 // largest |server/requested - 1|
	Off           int     // requests whose two lengths differ
}

// Distribution reports a latency distribution, empty when the signal has no samples.
func (s *Summary) Distribution(signal Signal) Distribution { return s.Latency[signal] }

// TextTokens is the part of InputTokens that is text.
func (s *Summary) TextTokens() Optional[int] {
	n, ok := s.InputTokens.Get()
	if !ok {
		return s.InputTokens
	}
	return Known(n - s.ImageTokens.Or(0))
}
