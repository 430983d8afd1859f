package fakellm

import (
	"errors"
	"fmt"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Engine flavours: which wire shapes, routes, pages and metric names are spoken.
const (
	SGLang          = "sglang"           // /generate and the OpenAI routes
	VLLM            = "vllm"             // OpenAI routes
	LMDeploy        = "lmdeploy"         // OpenAI routes and a /generate of its own
	Triton          = "triton"           // TensorRT-LLM behind Triton: /v2/models/ensemble/generate_stream
	TRTLLM          = "trtllm"           // trtllm-serve: OpenAI routes
	Truss           = "truss"            // /v1/models/model:predict
	TGI             = "tgi"              // /generate_stream, /generate and the OpenAI routes
	LlamaCPP        = "llamacpp"         // llama-server: /completion and the OpenAI routes
	Ollama          = "ollama"           // /api/generate, /api/chat and the OpenAI routes
	Dynamo          = "dynamo"           // OpenAI routes with annotations
	Anthropic       = "anthropic"        // /v1/messages
	OpenAIResponses = "openai-responses" // /v1/responses
)

// Config is a simulated replica. Where zero cannot be meant, it stands for the
// default that is named.
type Config struct {
	Model   string // served name; default "fake-8b"
	Engine  string // one of [Engines]; default [SGLang]
	Version string // default a plausible one
	// Weights names the checkpoint; default Model. Greedy answers depend on the
	// prompt and on this alone, so two replicas of equal Weights agree word for word.
	Weights string
	// Adapters are the LoRA adapters that can be asked for, by the names or, where an
	// engine counts them, the numbers that its requests carry.
	Adapters []string
	// Seed fixes everything drawn: jitter, accepted drafts, sampled answers, faults.
	Seed int64

	// A prefill step takes PrefillBase + uncached prompt tokens / PrefillTokensPerSecond.
	PrefillBase            time.Duration
	PrefillTokensPerSecond float64 // default 20000
	// MaxPrefillTokens bounds the uncached tokens of one prefill step (one prompt
	// always fits); default 16384.
	MaxPrefillTokens int
	// A decode step takes DecodeBase + DecodePerSequence x batch.
	DecodeBase        time.Duration // default 8 ms
	DecodePerSequence time.Duration
	// Jitter is the coefficient of variation of a lognormal factor of mean 1 on
	// each step's length.
	Jitter float64
	// MaxBatch is how many sequences may run; the others wait. Default 32.
	MaxBatch int
	// ContextLength bounds prompt plus output; default 32768.
	ContextLength int
	// KVTokens is the pool that KV usage is a share of; default 131072.
	// It only informs: nothing is preempted.
	KVTokens int
	// MeanOutputTokens is the mean of the lognormal length at which an answer
	// stops by itself (unless ignore_eos); default 200.
	MeanOutputTokens int

	Cache       PrefixCache
	Speculation Speculation

	// ReasoningTokens of each chat answer come first, in the reasoning channel, on
	// routes that have one.
	ReasoningTokens int
	// CacheReport puts cached tokens into the usage of the OpenAI routes, as
	// --enable-cache-report and --enable-prompt-tokens-details do.
	CacheReport bool
	// DevMode opens vLLM's /reset_prefix_cache.
	DevMode bool
	// Profiler gives vLLM the profiler that it has only when started with one; SGLang
	// has its own always.
	Profiler bool
	// APIKey, when set, is asked for as a bearer token.
	APIKey probes.Secret
	// ServerInfo is merged over the launch arguments in SGLang's /server_info.
	ServerInfo map[string]any

	// Script, when set, replaces the batching model.
	Script *Script
	// Faults are what goes wrong; see also [Engine.SetFaults].
	Faults []Fault
	// KeepRequests is how many requests [Stats] remembers one by one; default 1024.
	KeepRequests int
}

// PrefixCache is a block-wise prefix cache with LRU eviction. The zero value is off.
type PrefixCache struct {
	BlockTokens int // default 16
	Blocks      int // capacity; 0 is no cache
}

// Speculation makes each decode step verify DraftTokens drafted tokens per
// sequence. The zero value is off.
type Speculation struct {
	DraftTokens int
	// AcceptLength is the mean number of tokens per verify step, the bonus token
	// included: 1 <= AcceptLength <= DraftTokens + 1.
	AcceptLength float64
}

// Script fixes the times of every token, whatever else is running.
type Script struct {
	// TTFT lists, cyclically in order of arrival, the time from the instant the
	// request was fully read to its first token event.
	TTFT []time.Duration
	// ITL is the time between token events; 0 sends them back to back.
	ITL time.Duration
	// TokensPerEvent is how many tokens an event brings; default 1.
	TokensPerEvent int
}

// withDefaults fills what zero cannot mean.
func (c Config) withDefaults() Config {
	setDefault(&c.Model, "fake-8b")
	setDefault(&c.Engine, SGLang)
	if f := flavours[c.Engine]; f != nil {
		setDefault(&c.Version, f.version)
	}
	setDefault(&c.Weights, c.Model)
	setDefault(&c.PrefillTokensPerSecond, 20000)
	setDefault(&c.MaxPrefillTokens, 16384)
	setDefault(&c.DecodeBase, 8*time.Millisecond)
	setDefault(&c.MaxBatch, 32)
	setDefault(&c.ContextLength, 32768)
	setDefault(&c.KVTokens, 131072)
	setDefault(&c.MeanOutputTokens, 200)
	setDefault(&c.Cache.BlockTokens, 16)
	setDefault(&c.KeepRequests, 1024)
	if c.Script != nil {
		s := *c.Script
		setDefault(&s.TokensPerEvent, 1)
		c.Script = &s
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports every field that makes no sense.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if flavours[c.Engine] == nil {
		bad("read Engine: %q is not one of %v", c.Engine, Engines)
	}
	for _, f := range []struct {
		name     string
		value    float64
		positive bool
	}{
		{"PrefillBase", c.PrefillBase.Seconds(), false},
		{"PrefillTokensPerSecond", c.PrefillTokensPerSecond, true},
		{"MaxPrefillTokens", float64(c.MaxPrefillTokens), true},
		{"DecodeBase", c.DecodeBase.Seconds(), true},
		{"DecodePerSequence", c.DecodePerSequence.Seconds(), false},
		{"Jitter", c.Jitter, false},
		{"MaxBatch", float64(c.MaxBatch), true},
		{"ContextLength", float64(c.ContextLength), true},
		{"KVTokens", float64(c.KVTokens), true},
		{"MeanOutputTokens", float64(c.MeanOutputTokens), true},
		{"Cache.BlockTokens", float64(c.Cache.BlockTokens), true},
		{"Cache.Blocks", float64(c.Cache.Blocks), false},
		{"ReasoningTokens", float64(c.ReasoningTokens), false},
		{"KeepRequests", float64(c.KeepRequests), true},
	} {
		if !(f.value >= 0) || f.positive && f.value == 0 {
			bad("read %s: %v is out of range", f.name, f.value)
		}
	}
	if s := c.Speculation; s != (Speculation{}) {
		if s.DraftTokens < 1 || !(s.AcceptLength >= 1 && s.AcceptLength <= float64(s.DraftTokens+1)) {
			bad("read Speculation: AcceptLength %v must lie between 1 and DraftTokens + 1 = %d", s.AcceptLength, s.DraftTokens+1)
		}
	}
	if c.Script != nil {
		errs = append(errs, c.Script.validate())
	}
	for i, f := range c.Faults {
		if err := f.validate(); err != nil {
			bad("read Faults[%d]: %w", i, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Script) validate() error {
	if len(s.TTFT) == 0 || s.ITL < 0 || s.TokensPerEvent < 1 {
		return errors.New("read Script: needs at least one TTFT, ITL >= 0 and TokensPerEvent >= 1")
	}
	for i, d := range s.TTFT {
		if d < 0 {
			return fmt.Errorf("read Script.TTFT[%d]: %v is negative", i, d)
		}
	}
	return nil
}
