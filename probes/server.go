package probes

import (
	"slices"
	"time"
)

// ServerFacts says what serves a target, as the server describes itself. Only
// the fields below are ever read: launch arguments hold keys. Text is cleaned and
// bounded by its reader. What the server did not say is empty or unknown; what it
// says it does not use is "none".
//
// The value is comparable; equal facts are equal servers as far as is known.
type ServerFacts struct {
	Engine  string `json:"engine,omitempty"`  // "sglang", "vllm", "llamacpp" …
	Version string `json:"version,omitempty"` // of the engine
	// Model is the first name that the server answers to, Weights the checkpoint
	// behind it, Revision what tells two states of one checkpoint apart.
	Model    string `json:"model,omitempty"`
	Weights  string `json:"weights,omitempty"`
	Revision string `json:"revision,omitempty"`

	Quantization     string        `json:"quantization,omitempty"`
	DType            string        `json:"dtype,omitempty"`
	KVCacheDType     string        `json:"kv_cache_dtype,omitempty"`
	TensorParallel   Optional[int] `json:"tensor_parallel,omitzero"`
	PipelineParallel Optional[int] `json:"pipeline_parallel,omitzero"`
	DataParallel     Optional[int] `json:"data_parallel,omitzero"`
	ExpertParallel   Optional[int] `json:"expert_parallel,omitzero"`
	// AttentionBackend is "prefill/decode" where the two differ.
	AttentionBackend string `json:"attention_backend,omitempty"`
	// SpeculativeAlgorithm is how tokens are drafted, and SpeculativeTokens how
	// many a step verifies.
	SpeculativeAlgorithm string         `json:"speculative_algorithm,omitempty"`
	SpeculativeTokens    Optional[int]  `json:"speculative_tokens,omitzero"`
	PrefixCaching        Optional[bool] `json:"prefix_caching,omitzero"`
	ContextLength        Optional[int]  `json:"context_length,omitzero"` // tokens
	Accelerator          string         `json:"accelerator,omitempty"`

	// Incarnation is another text after each start of the server, where the server
	// tells its starts apart. It means nothing else and is not shown.
	Incarnation string `json:"-"`
}

// Fact is one named fact.
type Fact struct{ Name, Value string }

// Environment lists the known facts that decide whether latencies may be
// compared: what computes and how. A new Version or Revision is not among them,
// because what it does to latency is what a regression test asks; neither is the
// name, which is the target's.
func (f *ServerFacts) Environment() []Fact {
	return known([]Fact{
		{"engine", f.Engine}, {"weights", f.Weights}, {"quantization", f.Quantization}, {"dtype", f.DType},
		{"kv_cache_dtype", f.KVCacheDType}, {"tensor_parallel", number(f.TensorParallel)},
		{"pipeline_parallel", number(f.PipelineParallel)}, {"data_parallel", number(f.DataParallel)},
		{"expert_parallel", number(f.ExpertParallel)}, {"attention_backend", f.AttentionBackend},
		{"speculative_algorithm", f.SpeculativeAlgorithm}, {"speculative_tokens", number(f.SpeculativeTokens)},
		{"prefix_caching", number(f.PrefixCaching)}, {"accelerator", f.Accelerator},
	})
}

// All lists all known facts that may be shown.
func (f *ServerFacts) All() []Fact {
	named := known([]Fact{{"version", f.Version}, {"model", f.Model}, {"revision", f.Revision}, {"context_length", number(f.ContextLength)}})
	return append(f.Environment(), named...)
}

// Known reports whether the server said anything about itself.
func (f *ServerFacts) Known() bool { return len(f.All()) > 0 }

// Changed lists the facts that are known before and after and are not the same,
// each with its value after. A fact that could not be read on one side has not
// changed.
func (f *ServerFacts) Changed(after *ServerFacts) []Fact {
	before := f.All()
	return slices.DeleteFunc(after.All(), func(now Fact) bool {
		i := slices.IndexFunc(before, func(then Fact) bool { return then.Name == now.Name })
		return i < 0 || before[i].Value == now.Value
	})
}

// Restarted reports whether the server says of itself that it is another process
// than before.
func (f *ServerFacts) Restarted(after *ServerFacts) bool {
	return f.Incarnation != "" && after.Incarnation != "" && f.Incarnation != after.Incarnation
}

// FillFrom takes over what only an earlier look at the same server could read: a
// page that did not answer in time must not look like another environment. A
// server of another engine or version has to say everything anew.
func (f *ServerFacts) FillFrom(earlier *ServerFacts) {
	if f.Engine != earlier.Engine && f.Engine != "" || f.Version != earlier.Version && f.Version != "" {
		return
	}
	fill(&f.Engine, earlier.Engine)
	fill(&f.Version, earlier.Version)
	fill(&f.Model, earlier.Model)
	fill(&f.Weights, earlier.Weights)
	fill(&f.Revision, earlier.Revision)
	fill(&f.Quantization, earlier.Quantization)
	fill(&f.DType, earlier.DType)
	fill(&f.KVCacheDType, earlier.KVCacheDType)
	fill(&f.TensorParallel, earlier.TensorParallel)
	fill(&f.PipelineParallel, earlier.PipelineParallel)
	fill(&f.DataParallel, earlier.DataParallel)
	fill(&f.ExpertParallel, earlier.ExpertParallel)
	fill(&f.AttentionBackend, earlier.AttentionBackend)
	fill(&f.SpeculativeAlgorithm, earlier.SpeculativeAlgorithm)
	fill(&f.SpeculativeTokens, earlier.SpeculativeTokens)
	fill(&f.PrefixCaching, earlier.PrefixCaching)
	fill(&f.ContextLength, earlier.ContextLength)
	fill(&f.Accelerator, earlier.Accelerator)
	fill(&f.Incarnation, earlier.Incarnation)
}

// fill sets a field that is unknown.
func fill[T comparable](field *T, earlier T) {
	var unknown T
	if *field == unknown {
		*field = earlier
	}
}

// number is the value's text, or "" when it is unknown.
func number[T comparable](o Optional[T]) string {
	if !o.IsKnown() {
		return ""
	}
	return o.String()
}

func known(facts []Fact) []Fact {
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}

// AcceptSource says where the accept length of a run comes from, the most
// trusted first.
type AcceptSource string

const (
	// AcceptCounters: differences of the server's counters over the run.
	AcceptCounters AcceptSource = "counters"
	// AcceptRequests: what the server reported with each answer.
	AcceptRequests AcceptSource = "requests"
	// AcceptGauge: mean of the server's own short-term average during the run.
	AcceptGauge AcceptSource = "gauge"
	// AcceptLifetime: the server's average since its start, other traffic and
	// earlier runs included. It is no property of the run and is never judged.
	AcceptLifetime AcceptSource = "lifetime"
)

// Level is a gauge of the server over the samples taken during a run. N = 0
// means that nothing is known.
type Level struct {
	N    int
	Mean float64
	Max  float64
}

// ServerMean is the mean of N observations that the server itself made during a
// run, in seconds. N = 0 means that nothing is known.
type ServerMean struct {
	N    int
	Mean float64
}

// ServerTimings are the server's own times of the run's completed requests, as its
// answers tell them (llama.cpp, Ollama): time in its queue, network and client left out.
type ServerTimings struct {
	Prefill ServerMean // of the prompt, cached tokens left out
	Decode  ServerMean // of the answer
	// DecodeRate is output tokens per second of Decode, of a request on the average: all
	// tokens over all times.
	DecodeRate Optional[float64]
}

// Known reports whether any answer told a time.
func (t *ServerTimings) Known() bool { return t.Prefill.N > 0 || t.Decode.N > 0 }

// PrefixCache is what the server counted of its prefix cache over a run. Unknown
// when nothing was queried.
type PrefixCache struct {
	HitRatio Optional[float64] // of all tiers
	// Tiers are the shares of the same queries that each tier answered: "device",
	// "host", "storage", "external"; nil when the server does not tell them apart.
	Tiers map[string]float64
}

// ServerSummary is what the server's own counters and gauges say about the time
// of a run. They count all traffic, not only ours. Unknown fields are those that
// the server does not report, and all counters when it restarted on the way.
type ServerSummary struct {
	// Span is the time between the two readings that counters are differences of;
	// 0 when there were not two.
	Span time.Duration
	// Restarted: counters went down, or the server named another start.
	Restarted bool

	// AcceptLength is tokens per verify step, bonus token included, as far as the
	// server's page tells; the run's own is in [Summary].
	AcceptLength Optional[float64]
	AcceptSource AcceptSource // empty when AcceptLength is unknown
	// AcceptanceRatio is accepted drafts over drafted tokens; PerPosition is the
	// share of verify steps that accepted the draft at each position.
	AcceptanceRatio Optional[float64]
	PerPosition     []float64

	PrefixCache PrefixCache
	Queue       Level         // requests waiting, all ranks
	Running     Level         // requests running, all ranks
	KVUsage     Level         // 0 to 1; Mean over ranks and time, Max of the fullest rank
	Preemptions Optional[int] // or retractions

	TTFT ServerMean // as the server measures it, network and router left out
	TPOT ServerMean
	// Requests ended during the run by the server's count, all clients.
	Requests Optional[int]
}

// Known reports whether the server's page told anything about the run.
func (s *ServerSummary) Known() bool {
	return s.Restarted || s.AcceptLength.IsKnown() || s.AcceptanceRatio.IsKnown() || s.PrefixCache.HitRatio.IsKnown() ||
		s.Queue.N > 0 || s.Running.N > 0 || s.KVUsage.N > 0 || s.Preemptions.IsKnown() || s.TTFT.N > 0 || s.TPOT.N > 0 ||
		s.Requests.IsKnown()
}

// othersShare is how much of the server's traffic may be that of others for its
// averages to stand for our requests.
const othersShare = 0.1

// ServerSawOnlyUs reports whether nearly all requests that the server counted
// during the run were the run's own: its averages and ratios then speak about
// them. It is false when the server does not count.
func (s *Summary) ServerSawOnlyUs() bool {
	n, ok := s.Server.Requests.Get()
	return ok && s.Sent > 0 && float64(n) <= (1+othersShare)*float64(s.Sent)
}

// TTFTExcess is the client's mean TTFT minus the server's, in seconds: connection
// set-up, network and router. It is known when both are means over nearly the
// same requests.
func (s *Summary) TTFTExcess() Optional[float64] {
	ours, server := s.Distribution(TTFT), s.Server.TTFT
	if ours.N == 0 || server.N == 0 {
		return Optional[float64]{}
	}
	if ratio := float64(server.N) / float64(ours.N); ratio < 1-othersShare || ratio > 1+othersShare {
		return Optional[float64]{}
	}
	return Known(ours.Mean - server.Mean)
}

// CacheHitRatio is the share of input tokens that came from the prefix cache: by
// the counts that the server sent with each answer, else by its own counters.
func (s *Summary) CacheHitRatio() Optional[float64] {
	cached, ok := s.CachedTokens.Get()
	input, counted := s.InputTokens.Get()
	if ok && counted && input > 0 && s.InputSource == TokensServer {
		return Known(float64(cached) / float64(input))
	}
	return s.Server.PrefixCache.HitRatio
}
