package fakellm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// body is what the generating routes read of a request; other fields are ignored.
type body struct {
	RID   string `json:"rid"`
	Model string `json:"model"`

	Text           json.RawMessage `json:"text"`
	InputIDs       json.RawMessage `json:"input_ids"`
	SamplingParams struct {
		MaxNewTokens *int     `json:"max_new_tokens"`
		MinNewTokens int      `json:"min_new_tokens"`
		IgnoreEOS    bool     `json:"ignore_eos"`
		Temperature  *float64 `json:"temperature"`
	} `json:"sampling_params"`

	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	Temperature         *float64        `json:"temperature"`
	Tools               []struct {
		Name     string `json:"name"` // Anthropic and Responses have no function around it
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`

	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Options struct {
		NumPredict  *int     `json:"num_predict"`
		NumCtx      int      `json:"num_ctx"`
		Temperature *float64 `json:"temperature"`
	} `json:"options"` // Ollama
	Parameters struct {
		MaxNewTokens *int     `json:"max_new_tokens"`
		Temperature  *float64 `json:"temperature"`
		DoSample     bool     `json:"do_sample"`
		Details      bool     `json:"details"`
		AdapterID    string   `json:"adapter_id"`
	} `json:"parameters"` // TGI
	NvExt struct {
		Annotations []string `json:"annotations"`
		TokenData   []int    `json:"token_data"`
		ExtraFields []string `json:"extra_fields"`
	} `json:"nvext"` // Dynamo

	Inputs    string `json:"inputs"`     // TGI
	TextInput string `json:"text_input"` // Triton
	NPredict  *int   `json:"n_predict"`  // llama.cpp
	EndID     int    `json:"end_id"`     // Triton
	MinLength int    `json:"min_length"` // Triton

	LoRAPath   string `json:"lora_path"`    // SGLang
	LoRATaskID *int64 `json:"lora_task_id"` // Triton
	LoRA       []struct {
		ID    int     `json:"id"`
		Scale float64 `json:"scale"`
	} `json:"lora"` // llama.cpp

	System          json.RawMessage `json:"system"` // Anthropic
	Input           json.RawMessage `json:"input"`  // Responses
	Instructions    string          `json:"instructions"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	Reasoning       struct {
		Summary string `json:"summary"`
	} `json:"reasoning"` // Responses
	Thinking struct {
		Type string `json:"type"`
	} `json:"thinking"` // Anthropic
	Think *bool `json:"think"` // Ollama
	Raw   bool  `json:"raw"`

	// What an answer is to tell besides.
	AccumulateTokens          bool `json:"accumulate_tokens"`       // Triton
	ReturnNumInputTokens      bool `json:"return_num_input_tokens"` // Triton
	ReturnNumOutputTokens     bool `json:"return_num_output_tokens"`
	ReturnPerfMetrics         bool `json:"return_perf_metrics"`
	ReturnProgress            bool `json:"return_progress"` // llama.cpp
	TimingsPerToken           bool `json:"timings_per_token"`
	ReturnCachedTokensDetails bool `json:"return_cached_tokens_details"`
	ReturnSpecTokensDetails   bool `json:"return_spec_tokens_details"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Images  []string        `json:"images"` // Ollama
}

// ask is a request that has been understood.
type ask struct {
	body
	route  *route
	path   string // of the URL: Triton names the model in it
	prompt []int32
	// limit is the asked length, or nil; then usual counts, or the context where
	// that is 0.
	limit       *int
	usual       int
	temperature *float64
	ignoreEOS   bool
	minTokens   int
	context     int // what prompt and answer must fit in

	maxTokens int
	greedy    bool
	adapter   string // LoRA adapter; empty for the model itself
	tool      string // name of the function to call; empty for a text answer
}

// refusal is a request that is answered with an error.
type refusal struct {
	status  int
	kind    string // as in "BadRequestError"
	param   string // some name the field
	message string
	early   bool // nothing of the answer had been decided
	// tooLong is the prompt that does not fit into the context.
	tooLong struct{ prompt, context int }
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "BadRequestError", message: fmt.Sprintf(format, args...)}
}

// understand reads a request's body and checks it as the engine would. The ask
// is never nil: even what is refused may have said that it wants a stream.
func (e *Engine) understand(c *Config, rt *route, path string, raw []byte) (*ask, *refusal) {
	f := e.flavour
	a := &ask{route: rt, path: path, context: c.ContextLength}
	a.Stream = rt.streams(rt.stream == byDefault)
	if err := json.Unmarshal(raw, &a.body); err != nil {
		bad := badRequest("JSON decode error: %v", err)
		bad.status = cmp.Or(f.badJSON, f.invalid, bad.status)
		return a, bad
	}
	a.Stream = rt.streams(a.Stream)
	if f.unknownModel != "" && a.Model != "" && strings.TrimSuffix(a.Model, ":latest") != strings.TrimSuffix(c.Model, ":latest") && !slices.Contains(c.Adapters, a.Model) {
		return a, &refusal{status: http.StatusNotFound, kind: "NotFoundError", param: "model", message: fmt.Sprintf(f.unknownModel, a.Model)}
	}
	var bad *refusal
	if err := rt.read(e, a); err != nil {
		if !errors.As(err, &bad) {
			bad = badRequest("%v", err)
		}
	} else if bad = a.limits(); bad == nil {
		bad = e.adapt(c, a)
	}
	if bad != nil {
		if bad.status == http.StatusBadRequest {
			bad.status = cmp.Or(f.invalid, bad.status)
		}
		return a, bad
	}
	if rt.chat && len(a.Tools) > 0 && string(a.ToolChoice) != `"none"` {
		a.tool = cmp.Or(a.Tools[0].Function.Name, a.Tools[0].Name)
	}
	return a, nil
}

// Error makes a refusal something that a reader of bodies can return.
func (r *refusal) Error() string { return r.message }

// readCompletion reads OpenAI's completions.
func readCompletion(e *Engine, a *ask) (err error) {
	a.limit, a.usual, a.temperature, a.ignoreEOS, a.minTokens = a.MaxTokens, 16, a.Temperature, a.IgnoreEOS, a.MinTokens
	a.prompt, err = e.plainTokens("prompt", a.Prompt)
	return err
}

// readChat reads OpenAI's chat completions.
func readChat(e *Engine, a *ask) (err error) {
	a.limit, a.temperature, a.ignoreEOS, a.minTokens = a.MaxTokens, a.Temperature, a.IgnoreEOS, a.MinTokens
	if a.MaxCompletionTokens != nil {
		a.limit = a.MaxCompletionTokens
	}
	a.prompt, err = e.chatTokens(a.Messages, openaiParts)
	return err
}

// withNaturalEnd is a reader for engines that know nothing of ignore_eos.
func withNaturalEnd(read func(e *Engine, a *ask) error) func(e *Engine, a *ask) error {
	return func(e *Engine, a *ask) error {
		err := read(e, a)
		a.ignoreEOS, a.minTokens = false, 0
		return err
	}
}

// limits settles lengths and sampling.
func (a *ask) limits() *refusal {
	left := a.context - len(a.prompt)
	a.greedy = a.temperature != nil && *a.temperature == 0
	a.maxTokens = cmp.Or(a.usual, left)
	if a.limit != nil {
		a.maxTokens = *a.limit
	}
	if a.route.clamps {
		if a.maxTokens < 0 { // no limit
			a.maxTokens = left
		}
		a.maxTokens = min(a.maxTokens, left)
	}
	switch t := a.temperature; {
	case t != nil && *t < 0:
		return badRequest("temperature must be non-negative, got %v.", *t)
	case left <= 0:
		bad := badRequest("The input (%d tokens) is longer than the model's context length (%d tokens).", len(a.prompt), a.context)
		bad.tooLong.prompt, bad.tooLong.context = len(a.prompt), a.context
		return bad
	case a.maxTokens < 1:
		return badRequest("max_tokens must be at least 1, got %d.", a.maxTokens)
	case a.maxTokens > left:
		return badRequest("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion.",
			a.context, len(a.prompt)+a.maxTokens, len(a.prompt), a.maxTokens)
	case a.minTokens > a.maxTokens:
		return badRequest("min_tokens must be less than or equal to max_tokens=%d, got %d.", a.maxTokens, a.minTokens)
	}
	return nil
}

// lengthSpread is the coefficient of variation of natural answer lengths.
const lengthSpread = 0.6

// plan settles what will be answered. A greedy answer follows from weights and
// prompt; a sampled one also from the seed and the request's ordinal.
func (e *Engine) plan(c *Config, a *ask, ordinal int) answer {
	seed := a.checkpoint(c)
	for _, t := range a.prompt {
		seed = mix(seed, uint64(t))
	}
	if !a.greedy {
		seed = mix(seed, uint64(c.Seed), uint64(ordinal))
	}
	out := answer{lex: e.lex, seed: seed, length: a.maxTokens}
	if !a.ignoreEOS {
		r := rand.New(rand.NewPCG(seed, 2))
		natural := int(math.Ceil(float64(c.MeanOutputTokens) * lognormal(r, lengthSpread)))
		if natural = max(natural, a.minTokens, 1); natural <= a.maxTokens {
			out.length, out.stops = natural, true
		}
	}
	thoughtless := a.Think != nil && !*a.Think || a.Thinking.Type == "disabled"
	if a.route.chat && !e.flavour.noReasoning && !thoughtless {
		out.reasoning = min(c.ReasoningTokens, out.length)
	}
	return out
}
