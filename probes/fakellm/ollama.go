package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ollama streams lines of JSON on its own routes, unless told otherwise, and
// events on the OpenAI ones. It knows no ignore_eos, cuts prompts to the context
// without a word, and has no metrics page.
var ollama = flavour{
	version: "0.17.4",
	routes: map[string]*route{
		"POST /api/generate":        ollamaRoute(readOllamaGenerate),
		"POST /api/chat":            ollamaRoute(readOllamaChat),
		"POST /v1/completions":      {read: withNaturalEnd(readCompletion), write: worded(&ollamaWords), clamps: true, contentType: "text/event-stream"},
		"POST /v1/chat/completions": {read: withNaturalEnd(readChat), write: worded(&ollamaWords), chat: true, clamps: true, contentType: "text/event-stream"},
	},
	pages: map[string]handler{
		"GET /{$}": func(_ *Engine, w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusOK, "Ollama is running")
		},
		"GET /api/version": (*Engine).version, "GET /api/tags": (*Engine).ollamaTags, "GET /api/ps": (*Engine).ollamaPS,
		"POST /api/show": (*Engine).ollamaShow, "GET /v1/models": (*Engine).ollamaModels,
	},
	buckets:      vllm.buckets,
	unknownModel: "model '%s' not found",
	echoesModel:  true,
	lost: func(w http.ResponseWriter, status int) {
		writeText(w, status, fmt.Sprintf("%d %s", status, map[int]string{404: "page not found", 405: "method not allowed"}[status]))
	},
	failure: func(dst []byte, rt *route, bad refusal) []byte {
		if rt == nil || rt.native {
			return bareError(dst, bad)
		}
		return ollamaOpenAIError(dst, bad)
	},
	report: func(dst []byte, rt *route, bad refusal) []byte {
		bad.message = "an error was encountered while running the model: " + bad.message
		if rt.native {
			return append(bareError(dst, bad), '\n')
		}
		return append(ollamaOpenAIError(append(dst, "data: "...), bad), "\n\n"...)
	},
}

func ollamaRoute(read func(*Engine, *ask) error) *route {
	return &route{read: read, write: newOllamaRenderer, native: true, chat: true, stream: byDefault, clamps: true,
		// A reader of lines skips an empty one.
		contentType: "application/x-ndjson", ping: "\n"}
}

func ollamaOpenAIError(dst []byte, bad refusal) []byte {
	kind := "api_error"
	if bad.status == http.StatusBadRequest {
		kind = "invalid_request_error"
	}
	return fmt.Appendf(dst, `{"error":{"message":%s,"type":%q,"param":null,"code":null}}`, appendString(nil, bad.message), kind)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// readOllamaGenerate reads /api/generate; the template is put around the prompt
// unless it is raw.
func readOllamaGenerate(e *Engine, a *ask) (err error) {
	if a.Raw {
		a.prompt, err = e.plainTokens("prompt", a.Prompt)
	} else {
		a.prompt, err = e.chatTokens([]message{{Role: "user", Content: a.Prompt}}, openaiParts)
	}
	a.ollamaOptions()
	return err
}

func readOllamaChat(e *Engine, a *ask) (err error) {
	a.prompt, err = e.chatTokens(a.Messages, openaiParts)
	a.ollamaOptions()
	return err
}

// ollamaOptions settles length and sampling. A prompt loses its middle to fit; the
// answer then shifts the context on.
func (a *ask) ollamaOptions() {
	o := a.Options
	a.limit, a.temperature = o.NumPredict, o.Temperature
	window := a.context
	if o.NumCtx > 0 {
		window = o.NumCtx
	}
	if drop := len(a.prompt) - window; drop > 0 {
		a.prompt = slices.Delete(a.prompt, 1, 1+drop)
	}
	a.context = len(a.prompt) + window
}

// ollamaWords repeat the role; completions have a usage of zeros in every chunk
// but the last, when it was asked for.
var ollamaWords = wording{
	mark:       "data: ",
	id:         [2]string{"cmpl-", "chatcmpl-"},
	fields:     `,"system_fingerprint":"fp_ollama"`,
	perToken:   true,
	apart:      [2]bool{true, true},
	usageApart: [2]bool{true, true},
	role:       inEveryDelta,
	reasoning:  "reasoning",
	noContent:  `"content":""`,
	finishBody: `{"role":"assistant","content":""}`,
	wholeCalls: true,
	choice:     plainChoice,
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		if r.chat == 0 && at < inUsage && r.x.ask.StreamOptions.IncludeUsage {
			return append(dst, `,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`...)
		}
		return dst
	},
	usage: plainUsage,
}

// ollamaRenderer writes lines.
type ollamaRenderer struct {
	draft
	generate bool   // "response" instead of a message
	head     []byte // a line up to its time
	toolName []byte // as JSON
}

func newOllamaRenderer(x *exchange, _ string) renderer {
	r := &ollamaRenderer{draft: draft{x: x}, generate: x.ask.path == "/api/generate", toolName: appendString(nil, x.ask.tool)}
	r.head = append(r.head, `{"model":`...)
	r.head = appendString(r.head, x.model())
	r.head = append(r.head, `,"created_at":"`...)
	return r
}

// event writes a line a token; a tool call is a line of its own when it is complete.
func (r *ollamaRenderer) event(dst []byte, n int, last bool) []byte {
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	a := &r.x.seq.answer
	from, border, to := r.advance(n)
	for i := from; i < border; i++ {
		dst = r.line(dst, i, true)
	}
	if r.x.ask.tool != "" {
		r.arguments = a.appendArguments(r.arguments, max(border, a.reasoning+1), to)
		if last && to > a.reasoning {
			dst = r.appendLast(dst)
		}
		return dst
	}
	for i := border; i < to; i++ {
		if !a.silent(i) {
			dst = r.line(dst, i, false)
		}
	}
	return dst
}

// line writes token i.
func (r *ollamaRenderer) line(dst []byte, i int, thought bool) []byte {
	dst = r.begin(dst)
	if thought {
		dst = append(dst, `","thinking":"`...)
	}
	dst = r.x.seq.answer.appendText(dst, i, i+1)
	dst = append(dst, '"')
	return append(r.endMessage(dst), `,"done":false}`+"\n"...)
}

// begin opens a line into its text.
func (r *ollamaRenderer) begin(dst []byte) []byte {
	dst = append(dst, r.head...)
	dst = time.Now().UTC().AppendFormat(dst, time.RFC3339Nano)
	if r.generate {
		return append(dst, `","response":"`...)
	}
	return append(dst, `","message":{"role":"assistant","content":"`...)
}

func (r *ollamaRenderer) endMessage(dst []byte) []byte {
	if r.generate {
		return dst
	}
	return append(dst, '}')
}

// appendLast writes what was held back: the call, or the text it turned out to be.
func (r *ollamaRenderer) appendLast(dst []byte) []byte {
	dst = r.begin(dst)
	if r.called() {
		dst = append(dst, '"')
		dst = r.appendCall(dst)
	} else {
		dst = append(dst, r.arguments...)
		dst = append(dst, '"')
	}
	return append(r.endMessage(dst), `,"done":false}`+"\n"...)
}

// appendCall writes the call: its arguments are an object.
func (r *ollamaRenderer) appendCall(dst []byte) []byte {
	dst = append(dst, `,"tool_calls":[{"function":{"name":`...)
	dst = append(dst, r.toolName...)
	dst = append(dst, `,"arguments":`...)
	dst = append(dst, unescape(r.arguments)...)
	return append(dst, "}}]"...)
}

func (r *ollamaRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		return r.x.e.flavour.report(dst, r.x.route, refusal{status: 500, message: failure})
	}
	dst = r.begin(dst)
	dst = append(dst, '"')
	return append(r.final(r.endMessage(dst)), '\n')
}

func (r *ollamaRenderer) whole(dst []byte) []byte {
	dst = r.begin(dst)
	dst = append(dst, r.text...)
	if r.x.ask.tool != "" && !r.called() {
		dst = append(dst, r.arguments...)
	}
	dst = append(dst, '"')
	if len(r.thought) > 0 {
		dst = append(dst, `,"thinking":"`...)
		dst = append(dst, r.thought...)
		dst = append(dst, '"')
	}
	if r.called() {
		dst = r.appendCall(dst)
	}
	return r.final(r.endMessage(dst))
}

// final ends the last line: counts and durations in nanoseconds. A prompt that was
// partly cached has no count.
func (r *ollamaRenderer) final(dst []byte) []byte {
	x, s := r.x, r.x.seq
	dst = append(dst, `,"done":true,"done_reason":"`...)
	dst = append(dst, s.answer.finishReason()...)
	dst = append(dst, '"')
	if r.generate {
		dst = append(dst, `,"context":`...)
		dst = appendJSON(dst, s.appendAll(nil))
	}
	dst = appendField(dst, `,"total_duration":`, int(x.last.Sub(s.received)))
	dst = appendField(dst, `,"load_duration":`, int(s.admitted.Sub(s.received).Round(time.Microsecond)))
	if x.cached() == 0 {
		dst = appendField(dst, `,"prompt_eval_count":`, len(s.prompt))
	}
	dst = appendField(dst, `,"prompt_eval_duration":`, int(x.promptTime()))
	dst = appendField(dst, `,"eval_count":`, r.n)
	dst = appendField(dst, `,"eval_duration":`, int(x.last.Sub(x.first)))
	return append(dst, '}')
}

// tagged is the name with its tag.
func (c *Config) tagged() string {
	if strings.Contains(c.Model, ":") {
		return c.Model
	}
	return c.Model + ":latest"
}

var ollamaDetails = object{"parent_model": "", "format": "gguf", "family": "llama", "families": []string{"llama"},
	"parameter_size": "8.0B", "quantization_level": "Q4_K_M"}

// digest names the weights.
func (c *Config) digest() string {
	h := hashString(c.Weights)
	return fmt.Sprintf("%016x%016x%016x%016x", h, mix(h, 1), mix(h, 2), mix(h, 3))
}

func (e *Engine) ollamaTags(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"models": []object{{
		"name": c.tagged(), "model": c.tagged(), "modified_at": "2026-01-01T00:00:00Z", "size": 4920753328,
		"digest": c.digest(), "details": ollamaDetails,
	}}}))
}

func (e *Engine) ollamaPS(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"models": []object{{
		"name": c.tagged(), "model": c.tagged(), "size": 4920753328, "digest": c.digest(), "details": ollamaDetails,
		"expires_at": time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339Nano), "size_vram": 4920753328, "context_length": c.ContextLength,
	}}}))
}

func (e *Engine) ollamaShow(w http.ResponseWriter, r *http.Request) {
	c := e.config()
	var in struct{ Model, Name string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		e.fail(w, *badRequest("%v", err))
		return
	}
	if name := in.Model + in.Name; name != c.Model && name != c.tagged() {
		e.fail(w, refusal{status: http.StatusNotFound, message: fmt.Sprintf("model '%s' not found", name)})
		return
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"details": ollamaDetails, "capabilities": []string{"completion"}, "modified_at": "2026-01-01T00:00:00Z",
		"parameters": fmt.Sprintf("num_ctx %d", c.ContextLength),
		"model_info": object{"general.architecture": "llama", "general.parameter_count": 8030261312, "llama.context_length": c.ContextLength},
	}))
}

func (e *Engine) ollamaModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"object": "list", "data": []object{{
		"id": e.config().tagged(), "object": "model", "created": 1767225600, "owned_by": "library",
	}}}))
}
