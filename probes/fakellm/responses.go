package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// responses is the OpenAI platform: the Responses API, and chat completions with
// reasoning that is counted and not shown. It refuses ignore_eos, and has neither
// health nor metrics pages.
var responses = flavour{
	version: "2026-01-01",
	routes: map[string]*route{
		"POST /v1/responses":        {read: readResponses, write: newResponsesRenderer, native: true, chat: true, opensAtOnce: true},
		"POST /v1/chat/completions": {read: readOpenAIChat, write: worded(&openaiWords), chat: true},
	},
	pages:        map[string]handler{"GET /v1/models": (*Engine).models},
	buckets:      vllm.buckets,
	unauthorized: `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
	unknownModel: "The model `%s` does not exist or you do not have access to it.",
	failure:      func(dst []byte, _ *route, bad refusal) []byte { return openaiError(dst, bad) },
	report: func(dst []byte, rt *route, bad refusal) []byte {
		if !rt.native {
			return append(openaiError(append(dst, "data: "...), bad), "\n\n"...)
		}
		dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"server_error\",\"message\":"...)
		return append(appendString(dst, bad.message), ",\"param\":null}\n\n"...)
	},
	limited: func(h http.Header, after time.Duration) {
		h.Set("Retry-After-Ms", strconv.FormatInt(after.Milliseconds(), 10))
		h.Set("X-Ratelimit-Limit-Requests", "500")
		h.Set("X-Ratelimit-Remaining-Requests", "0")
		h.Set("X-Ratelimit-Reset-Requests", after.String())
	},
	lost: func(w http.ResponseWriter, status int) {
		writeJSON(w, status, openaiError(nil, refusal{status: status, message: "Invalid URL"}))
	},
}

// openaiError writes an error whose code is a string or null.
func openaiError(dst []byte, bad refusal) []byte {
	kind, code := "invalid_request_error", "null"
	switch {
	case bad.param == "model":
		code = `"model_not_found"`
	case bad.param != "":
		code = `"unknown_parameter"`
	case bad.status == http.StatusTooManyRequests:
		kind, code = "requests", `"rate_limit_exceeded"`
	case bad.status >= 500:
		kind = "server_error"
	}
	param := []byte("null")
	if bad.param != "" {
		param = appendString(nil, bad.param)
	}
	return fmt.Appendf(dst, `{"error":{"message":%s,"type":%q,"param":%s,"code":%s}}`, appendString(nil, bad.message), kind, param, code)
}

// strictly refuses a field that only other engines know.
func (a *ask) strictly() error {
	if !a.IgnoreEOS {
		return nil
	}
	return &refusal{status: http.StatusBadRequest, param: "ignore_eos", message: "Unknown parameter: 'ignore_eos'."}
}

func readOpenAIChat(e *Engine, a *ask) error {
	if err := a.strictly(); err != nil {
		return err
	}
	return withNaturalEnd(readChat)(e, a)
}

var responsesParts = partNames{text: "input_text", image: "input_image", reply: "output_text"}

// readResponses reads a request: the input is a string or a list of messages.
func readResponses(e *Engine, a *ask) error {
	if err := a.strictly(); err != nil {
		return err
	}
	a.limit, a.temperature = a.MaxOutputTokens, a.Temperature
	raw := bytes.TrimSpace(a.Input)
	if len(raw) == 0 {
		return badRequest("Missing required parameter: 'input'.")
	}
	messages := []message{{Role: "user", Content: raw}}
	if raw[0] != '"' {
		if err := json.Unmarshal(raw, &messages); err != nil {
			return badRequest("Invalid type for 'input': %v", err)
		}
	}
	if a.Instructions != "" {
		messages = withSystem(appendString(nil, a.Instructions), messages)
	}
	var err error
	a.prompt, err = e.chatTokens(messages, responsesParts)
	return err
}

// openaiWords pad each chunk with a random string, against who guesses words from
// lengths.
var openaiWords = wording{
	mark:       "data: ",
	id:         [2]string{"", "chatcmpl-"},
	fields:     `,"service_tier":"default","system_fingerprint":null`,
	varies:     true,
	apart:      [2]bool{true, true},
	usageApart: [2]bool{true, true},
	roleChunk:  `{"role":"assistant","content":"","refusal":null}`,
	hidden:     true,
	finishBody: `{}`,
	choice:     logprobsChoice,
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		if at == inWhole {
			return dst
		}
		if at < inUsage && r.x.ask.StreamOptions.IncludeUsage {
			dst = append(dst, `,"usage":null`...)
		}
		dst = append(dst, `,"obfuscation":"`...)
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab"
		h := mix(r.x.seq.answer.seed, uint64(r.n), uint64(at))
		for range 1 + h>>60 {
			dst = append(dst, letters[h&63])
			h >>= 4
		}
		return append(dst, '"')
	},
	usage: func(dst []byte, r *openaiRenderer) []byte {
		dst = r.appendCounts(dst, r.n)
		dst = appendField(dst, `,"prompt_tokens_details":{"cached_tokens":`, r.x.cached())
		dst = appendField(dst, `,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":`, r.reasoned())
		return append(dst, `,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
	},
}
