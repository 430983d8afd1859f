package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/inferbeat/inferbeat/probes"
)

// A tokenizeWay is one form in which servers take a text to tokenize.
type tokenizeWay func(c *Client, ctx context.Context, text string) ([]int, error)

// The forms of each kind of dialect in the order in which they are tried. The counts
// must be those that the server itself will report for a prompt, or the asked lengths
// would never be the served ones: special tokens are part of them, and so is the chat
// template where the dialect has one.
var (
	textWays       = []tokenizeWay{tokenizePrompt, tokenizeContent}
	chatWays       = []tokenizeWay{tokenizeMessages, tokenizeTemplated, tokenizePrompt, tokenizeContent}
	contentWays    = []tokenizeWay{tokenizeContent}
	inputsWays     = []tokenizeWay{tokenizeInputs}
	encodeWays     = []tokenizeWay{tokenizeEncode}
	encodeChatWays = []tokenizeWay{tokenizeEncodeChat}
)

// Tokenize gives the token ids that the server counts for a prompt of that text,
// special tokens and, in a chat dialect, the chat template included. Where a
// server cannot apply its template outside of a completion, the template is
// missing from the count.
func (c *Client) Tokenize(ctx context.Context, text string) ([]int, error) {
	ways := c.d.tokenize
	if len(ways) == 0 {
		return nil, fmt.Errorf("tokenize: backend %s has no call for it", c.target.Backend)
	}
	if way := c.tokenizeWay.Load(); way > 0 {
		ways = ways[way-1 : way]
	}
	var first error
	for i, way := range ways {
		ids, err := way(c, ctx, text)
		if err == nil {
			c.tokenizeWay.CompareAndSwap(0, int32(i+1))
			return ids, nil
		}
		if first == nil {
			first = err
		}
		var refused *statusError
		if !errors.As(err, &refused) && !errors.Is(err, errNotFound) {
			break // the target does not answer; another form will not help
		}
	}
	return nil, fmt.Errorf("tokenize: %w", first)
}

// tokenizePrompt is the form of SGLang and vLLM.
func tokenizePrompt(c *Client, ctx context.Context, text string) ([]int, error) {
	return c.tokens(ctx, text, c.named(map[string]any{"prompt": text, "add_special_tokens": true}))
}

// tokenizeContent is llama.cpp's form; it answers a body without content with an
// empty list.
func tokenizeContent(c *Client, ctx context.Context, text string) ([]int, error) {
	return c.tokens(ctx, text, map[string]any{"content": text, "add_special": true})
}

// tokenizeMessages lets the server apply its chat template, as vLLM and newer
// SGLang can.
func tokenizeMessages(c *Client, ctx context.Context, text string) ([]int, error) {
	return c.tokens(ctx, text, c.named(map[string]any{"messages": question{Request: &probes.Request{Prompt: text}}.conversation(nil), "add_generation_prompt": true}))
}

// tokenizeTemplated asks llama.cpp for the rendered template first.
func tokenizeTemplated(c *Client, ctx context.Context, text string) ([]int, error) {
	var rendered struct {
		Prompt string `json:"prompt"`
	}
	if err := c.call(ctx, http.MethodPost, "/apply-template", map[string]any{"messages": question{Request: &probes.Request{Prompt: text}}.conversation(nil)}, &rendered); err != nil {
		return nil, err
	}
	if rendered.Prompt == "" {
		return nil, fmt.Errorf("%w: no prompt", errNotFound)
	}
	return c.tokens(ctx, text, map[string]any{"content": rendered.Prompt, "add_special": true, "parse_special": true})
}

// tokenizeInputs is TGI's form.
func tokenizeInputs(c *Client, ctx context.Context, text string) ([]int, error) {
	var reply []tokenID
	if err := c.call(ctx, http.MethodPost, "/tokenize", map[string]any{"inputs": text}, &reply); err != nil {
		return nil, err
	}
	return plainIDs(reply, text)
}

// tokenizeEncode is LMDeploy's form.
func tokenizeEncode(c *Client, ctx context.Context, text string) ([]int, error) {
	return c.encode(ctx, text, false)
}

// tokenizeEncodeChat lets LMDeploy apply its chat template.
func tokenizeEncodeChat(c *Client, ctx context.Context, text string) ([]int, error) {
	return c.encode(ctx, text, true)
}

func (c *Client) encode(ctx context.Context, text string, template bool) ([]int, error) {
	var reply struct {
		IDs []tokenID `json:"input_ids"`
	}
	body := map[string]any{"input": text, "do_preprocess": template, "add_bos": true}
	if err := c.call(ctx, http.MethodPost, "/v1/encode", body, &reply); err != nil {
		return nil, err
	}
	return plainIDs(reply.IDs, text)
}

func (c *Client) tokens(ctx context.Context, text string, body map[string]any) ([]int, error) {
	var reply struct {
		Tokens []tokenID `json:"tokens"`
	}
	if err := c.call(ctx, http.MethodPost, "/tokenize", body, &reply); err != nil {
		return nil, err
	}
	return plainIDs(reply.Tokens, text)
}

func plainIDs(tokens []tokenID, text string) ([]int, error) {
	if len(tokens) == 0 && text != "" {
		return nil, fmt.Errorf("%w: no tokens", errNotFound)
	}
	ids := make([]int, len(tokens))
	for i, id := range tokens {
		ids[i] = int(id)
	}
	return ids, nil
}

func (c *Client) named(body map[string]any) map[string]any {
	addModel(body, c.model())
	return body
}

// Detokenize gives the text of token ids.
func (c *Client) Detokenize(ctx context.Context, ids []int) (string, error) {
	if ids == nil {
		ids = []int{}
	}
	body := map[string]any{"tokens": ids}
	addModel(body, c.model())
	var reply struct {
		Text    *string `json:"text"`    // SGLang
		Prompt  *string `json:"prompt"`  // vLLM
		Content *string `json:"content"` // llama.cpp
	}
	if err := c.call(ctx, http.MethodPost, "/detokenize", body, &reply); err != nil {
		return "", fmt.Errorf("detokenize: %w", err)
	}
	for _, text := range []*string{reply.Text, reply.Prompt, reply.Content} {
		if text != nil {
			return *text, nil
		}
	}
	return "", fmt.Errorf("detokenize: %w: no text", errNotFound)
}
