package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
)

// route is a generating route.
type route int

const (
	native route = iota // SGLang's /generate
	completions
	chat
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
	ReturnCachedTokensDetails bool `json:"return_cached_tokens_details"`
	ReturnSpecTokensDetails   bool `json:"return_spec_tokens_details"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// ask is a request that has been understood.
type ask struct {
	body
	route     route
	prompt    []int32
	maxTokens int
	ignoreEOS bool
	minTokens int
	greedy    bool
	tool      string // name of the function to call; empty for a text answer
}

// refusal is a request that is answered with an error.
type refusal struct {
	status  int
	kind    string // as in "BadRequestError"
	param   string // vLLM names the field
	message string
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "BadRequestError", message: fmt.Sprintf(format, args...)}
}

// understand reads a request's body and checks it as the engine would. The ask
// is never nil: even what is refused may have said that it wants a stream.
func (e *Engine) understand(c *Config, r route, raw []byte) (*ask, *refusal) {
	a := &ask{route: r}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		return a, badRequest("JSON decode error: %v", err)
	}
	if c.Engine == VLLM && a.Model != "" && a.Model != c.Model {
		return a, &refusal{http.StatusNotFound, "NotFoundError", "model", fmt.Sprintf("The model `%s` does not exist.", a.Model)}
	}
	var err error
	if a.prompt, err = e.promptTokens(a); err != nil {
		return a, badRequest("%v", err)
	}
	if bad := a.limits(c); bad != nil {
		return a, bad
	}
	if a.route == chat && len(a.Tools) > 0 && string(a.ToolChoice) != `"none"` {
		a.tool = a.Tools[0].Function.Name
	}
	return a, nil
}

// limits settles lengths and sampling.
func (a *ask) limits(c *Config) *refusal {
	limit, temperature := a.MaxTokens, a.Temperature
	a.ignoreEOS, a.minTokens = a.IgnoreEOS, a.MinTokens
	left := c.ContextLength - len(a.prompt)
	byDefault := left
	switch {
	case a.route == native:
		p := a.SamplingParams
		limit, temperature, a.ignoreEOS, a.minTokens = p.MaxNewTokens, p.Temperature, p.IgnoreEOS, p.MinNewTokens
		byDefault = 128
	case a.route == completions:
		byDefault = 16
	case a.MaxCompletionTokens != nil:
		limit = a.MaxCompletionTokens
	}
	a.greedy = temperature != nil && *temperature == 0
	a.maxTokens = byDefault
	if limit != nil {
		a.maxTokens = *limit
	}
	switch {
	case temperature != nil && *temperature < 0:
		return badRequest("temperature must be non-negative, got %v.", *temperature)
	case left <= 0:
		return badRequest("The input (%d tokens) is longer than the model's context length (%d tokens).", len(a.prompt), c.ContextLength)
	case a.maxTokens < 1:
		return badRequest("max_tokens must be at least 1, got %d.", a.maxTokens)
	case a.maxTokens > left:
		return badRequest("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion.",
			c.ContextLength, len(a.prompt)+a.maxTokens, len(a.prompt), a.maxTokens)
	case a.minTokens > a.maxTokens:
		return badRequest("min_tokens must be less than or equal to max_tokens=%d, got %d.", a.maxTokens, a.minTokens)
	}
	return nil
}

// promptTokens turns whatever holds the prompt into ids.
func (e *Engine) promptTokens(a *ask) ([]int32, error) {
	switch {
	case a.route == chat:
		return e.chatTokens(a.Messages)
	case a.route == native && a.InputIDs != nil:
		return e.plainTokens("input_ids", a.InputIDs)
	case a.route == native:
		return e.plainTokens("text", a.Text)
	}
	return e.plainTokens("prompt", a.Prompt)
}

// plainTokens reads a string, a list of ids, or a list of one of these. Text
// gets a beginning-of-sequence token, ids are taken as they are.
func (e *Engine) plainTokens(field string, raw json.RawMessage) ([]int32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("field required: %s", field)
	}
	var text string
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		return e.tok.append([]int32{tokenBOS}, text), nil
	}
	var ids []int
	if err := json.Unmarshal(raw, &ids); err == nil && len(ids) > 0 {
		return e.checkIDs(field, ids)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		return nil, fmt.Errorf("%s must be a string, a list of token ids, or a list of one of these", field)
	}
	return e.plainTokens(field, list[0])
}

func (e *Engine) checkIDs(field string, ids []int) ([]int32, error) {
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		if _, ok := e.tok.text(id); !ok {
			return nil, fmt.Errorf("%s[%d]: token id %d is out of vocabulary", field, i, id)
		}
		tokens[i] = int32(id)
	}
	return tokens, nil
}

// chatTokens renders the chat template: two tokens before the first message, two
// after the last, one before the answer, three between messages.
func (e *Engine) chatTokens(messages []message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, fmt.Errorf("messages must not be empty")
	}
	tokens := []int32{tokenBOS, tokenUser}
	for i, m := range messages {
		if i > 0 {
			tokens = append(tokens, tokenEOS, tokenTurn, tokenUser)
		}
		var err error
		if tokens, err = e.contentTokens(tokens, m.Content); err != nil {
			return nil, fmt.Errorf("messages[%d].content: %w", i, err)
		}
	}
	return append(tokens, tokenEOS, tokenTurn, tokenReply), nil
}

func (e *Engine) contentTokens(dst []int32, raw json.RawMessage) ([]int32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return dst, nil
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return e.tok.append(dst, text), nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			dst = e.tok.append(dst, p.Text)
		case "image_url":
			// Different images must not share cached blocks.
			pixel := int32(hashString(p.ImageURL.URL) % namedTokens)
			dst = append(dst, tokenImage, pixel)
			for range ImageTokens - 2 {
				dst = append(dst, tokenImage)
			}
		default:
			return nil, fmt.Errorf("part type %q is not supported", p.Type)
		}
	}
	return dst, nil
}

// lengthSpread is the coefficient of variation of natural answer lengths.
const lengthSpread = 0.6

// plan settles what will be answered. A greedy answer follows from weights and
// prompt; a sampled one also from the seed and the request's ordinal.
func (e *Engine) plan(c *Config, a *ask, ordinal int) answer {
	seed := hashString(c.Weights)
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
	if a.route == chat {
		out.reasoning = min(c.ReasoningTokens, out.length)
	}
	return out
}
