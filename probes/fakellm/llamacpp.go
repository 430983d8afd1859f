package fakellm

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// llamacpp is llama-server: its own /completion and the OpenAI routes, with its
// timings in each. Headers come with the first result. The Keep-Alive header
// promises 5 s of idleness, which is for whoever serves the [Engine.Handler] to
// keep (http.Server.IdleTimeout).
var llamacpp = flavour{
	version: "b9000-173442644",
	adapter: llamacppAdapter,
	routes: map[string]*route{
		"POST /completion":          &llamaCompletion,
		"POST /completions":         &llamaCompletion,
		"POST /v1/completions":      llamaRoute(route{read: readLlamaOpenAI(readCompletion), write: newLlamaOpenAI}),
		"POST /v1/chat/completions": llamaRoute(route{read: readLlamaOpenAI(readChat), write: newLlamaOpenAI, chat: true}),
	},
	pages: map[string]handler{
		"GET /health": llamaHealth, "GET /v1/health": llamaHealth, "GET /v1/models": (*Engine).llamaModels,
		"GET /props": (*Engine).llamaProps, "GET /slots": (*Engine).llamaSlots, "POST /slots/{id}": (*Engine).llamaEraseSlot,
		"POST /tokenize": (*Engine).llamaTokenize, "POST /detokenize": (*Engine).llamaDetokenize,
		"POST /apply-template": (*Engine).llamaApplyTemplate,
	},
	header:       [][2]string{{"Server", "llama.cpp"}, {"Keep-Alive", "timeout=5, max=100"}},
	metrics:      (*Engine).llamaMetrics,
	buckets:      vllm.buckets,
	guards:       func(path string) bool { return path != "/health" && path != "/v1/health" && path != "/v1/models" },
	unauthorized: `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`,
	lost: func(w http.ResponseWriter, _ int) {
		writeJSON(w, http.StatusNotFound, []byte(`{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`))
	},
	echoesModel:   true,
	closesOnError: true,
	badJSON:       http.StatusInternalServerError,
	failure: func(dst []byte, _ *route, bad refusal) []byte {
		dst = append(dst, `{"error":`...)
		return append(llamaError(dst, bad), '}')
	},
	report: func(dst []byte, _ *route, bad refusal) []byte {
		if bad.early {
			// As builds of early 2025 did, which had sent status 200 by then.
			dst = append(dst, "error: "...)
			return append(llamaError(dst, bad), "\n\n"...)
		}
		dst = append(dst, `data: {"error":`...)
		return append(llamaError(dst, bad), "}\n\n"...)
	},
}

func llamaRoute(rt route) *route {
	rt.clamps, rt.lateHeaders, rt.cleanFailure, rt.contentType = true, true, true, "text/event-stream"
	return &rt
}

var llamaCompletion = *llamaRoute(route{read: readLlama, write: newLlamaRenderer, native: true})

// llamaError writes the object inside "error".
func llamaError(dst []byte, bad refusal) []byte {
	kind, message := "server_error", bad.message
	switch {
	case bad.tooLong.context > 0:
		kind = "exceed_context_size_error"
		message = fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", bad.tooLong.prompt, bad.tooLong.context)
	case bad.status == http.StatusServiceUnavailable:
		kind = "unavailable_error"
	case bad.status < 500:
		kind = "invalid_request_error"
	}
	dst = fmt.Appendf(dst, `{"code":%d,"message":%s,"type":%q`, bad.status, appendString(nil, message), kind)
	if bad.tooLong.context > 0 {
		dst = fmt.Appendf(dst, `,"n_prompt_tokens":%d,"n_ctx":%d`, bad.tooLong.prompt, bad.tooLong.context)
	}
	return append(dst, '}')
}

// readLlama reads /completion.
func readLlama(e *Engine, a *ask) (err error) {
	a.limit, a.temperature, a.ignoreEOS = a.NPredict, a.Temperature, a.IgnoreEOS
	if a.limit == nil {
		a.limit = a.MaxTokens
	}
	a.prompt, err = e.plainTokens("prompt", a.Prompt)
	return err
}

// readLlamaOpenAI reads an OpenAI route, where no limit is the usual one and
// n_predict is another name of it.
func readLlamaOpenAI(read func(*Engine, *ask) error) func(*Engine, *ask) error {
	return func(e *Engine, a *ask) error {
		err := read(e, a)
		a.usual = 0
		if a.limit == nil {
			a.limit = a.MaxCompletionTokens
		}
		if a.limit == nil {
			a.limit = a.NPredict
		}
		return err
	}
}

// llamaWords put the choices first. Each token has its own chunk, in bursts when
// drafts are accepted. Completions tell the usage with the finish reason, asked
// or not; the timings are on the last chunk.
var llamaWords = wording{
	mark:       "data: ",
	id:         [2]string{"chatcmpl-", "chatcmpl-"},
	fields:     `,"system_fingerprint":"{version}"`,
	reorder:    true,
	perToken:   true,
	apart:      [2]bool{true, true},
	usageApart: [2]bool{false, true},
	roleChunk:  `{"role":"assistant","content":null}`,
	reasoning:  "reasoning_content",
	finishBody: `{}`,
	choice: func(dst []byte, r *openaiRenderer, finished bool) []byte {
		if r.chat == 0 {
			return logprobsChoice(dst, r, finished)
		}
		return plainChoice(dst, r, finished)
	},
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		if at == inFinish && r.chat == 0 {
			dst = append(dst, `,"usage":`...)
			dst = cachedUsage(dst, r)
		}
		final := at >= inUsage || at == inFinish && (r.chat == 0 || !r.x.ask.StreamOptions.IncludeUsage)
		if final || r.x.ask.TimingsPerToken && at == inToken {
			dst = append(dst, `,"timings":`...)
			dst = r.x.appendTimings(dst, r.n)
		}
		return dst
	},
	usage: cachedUsage,
}

// llamaOpenAI adds to the OpenAI routes what tells the progress of the prompt.
type llamaOpenAI struct{ *openaiRenderer }

func newLlamaOpenAI(x *exchange, id string) renderer {
	return llamaOpenAI{worded(&llamaWords)(x, id).(*openaiRenderer)}
}

func (r llamaOpenAI) opens() bool { return r.x.ask.ReturnProgress && r.x.ask.Stream }

func (r llamaOpenAI) open(dst []byte) []byte { return r.progress(dst, r.x.cached(), 0) }

func (r llamaOpenAI) event(dst []byte, n int, last bool) []byte {
	if r.n == 0 && r.opens() {
		dst = r.progress(dst, len(r.x.seq.prompt), r.x.promptTime())
	}
	return r.openaiRenderer.event(dst, n, last)
}

// progress writes a chunk without a token.
func (r llamaOpenAI) progress(dst []byte, processed int, took time.Duration) []byte {
	dst = r.begin(dst)
	if r.chat == 1 {
		dst = append(dst, r.roleChunk...)
	} else {
		dst = append(dst, '"')
	}
	dst = r.choice(dst, r.openaiRenderer, false)
	dst = append(dst, "}]"...)
	dst = append(dst, r.after...)
	return append(r.x.appendProgress(dst, processed, took), "}\n\n"...)
}

// appendProgress tells how much of the prompt has been processed.
func (x *exchange) appendProgress(dst []byte, processed int, took time.Duration) []byte {
	dst = appendField(dst, `,"prompt_progress":{"total":`, len(x.seq.prompt))
	dst = appendField(dst, `,"cache":`, x.cached())
	dst = appendField(dst, `,"processed":`, processed)
	dst = appendField(dst, `,"time_ms":`, int(took.Milliseconds()))
	return append(dst, '}')
}

// llamaRenderer writes /completion.
type llamaRenderer struct{ draft }

func newLlamaRenderer(x *exchange, _ string) renderer { return &llamaRenderer{draft{x: x}} }

// opens: a request can ask for the progress of its prompt.
func (r *llamaRenderer) opens() bool { return r.x.ask.ReturnProgress }

func (r *llamaRenderer) open(dst []byte) []byte { return r.progress(dst, r.x.cached(), 0) }

// progress writes an event without a token.
func (r *llamaRenderer) progress(dst []byte, processed int, took time.Duration) []byte {
	dst = append(dst, `data: {"index":0,"content":"","tokens":[]`...)
	dst = r.appendCounts(dst, 0)
	return append(r.x.appendProgress(dst, processed, took), "}\n\n"...)
}

// appendCounts writes the counts of an event that is not the last.
func (r *llamaRenderer) appendCounts(dst []byte, predicted int) []byte {
	dst = appendField(dst, `,"stop":false,"id_slot":-1,"tokens_predicted":`, predicted)
	return appendField(dst, `,"tokens_evaluated":`, len(r.x.seq.prompt))
}

// event writes one event a token. All of one step show its end in their counts.
func (r *llamaRenderer) event(dst []byte, n int, last bool) []byte {
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	a := &r.x.seq.answer
	if r.n == 0 && r.x.ask.ReturnProgress {
		dst = r.progress(dst, len(r.x.seq.prompt), r.x.promptTime())
	}
	from, _, to := r.advance(n)
	for i := from; i < to; i++ {
		if a.silent(i) {
			continue // the last event has its count
		}
		dst = append(dst, `data: {"index":0,"content":"`...)
		dst = a.appendText(dst, i, i+1)
		dst = appendField(dst, `","tokens":[`, int(a.id(i)))
		dst = append(dst, ']')
		dst = r.appendCounts(dst, to)
		if r.x.ask.TimingsPerToken {
			dst = append(dst, `,"timings":`...)
			dst = r.x.appendTimings(dst, to)
		}
		dst = append(dst, "}\n\n"...)
	}
	return dst
}

func (r *llamaRenderer) finish(dst []byte, failure string) []byte {
	if failure != "" {
		return r.x.e.flavour.report(dst, r.x.route, refusal{status: 500, message: failure})
	}
	dst = append(dst, "data: "...)
	return append(r.final(dst), "\n\n"...)
}

func (r *llamaRenderer) whole(dst []byte) []byte { return r.final(dst) }

// final writes the last event, which is also the answer in one piece.
func (r *llamaRenderer) final(dst []byte) []byte {
	x, a := r.x, &r.x.seq.answer
	stop := "limit"
	if a.stops {
		stop = "eos"
	}
	dst = append(dst, `{"index":0,"content":"`...)
	dst = append(dst, r.text...)
	dst = appendField(dst, `","tokens":[],"id_slot":`, (x.seq.ordinal-1)%x.cfg.MaxBatch)
	dst = append(dst, `,"stop":true,"model":`...)
	dst = appendString(dst, x.model())
	dst = appendField(dst, `,"tokens_predicted":`, r.n)
	dst = appendField(dst, `,"tokens_evaluated":`, len(x.seq.prompt))
	dst = append(dst, `,"generation_settings":`...)
	dst = appendJSON(dst, x.ask.llamaSettings(x.ask.maxTokens))
	dst = append(dst, `,"prompt":`...)
	dst = appendString(dst, x.e.textOf(x.seq.prompt))
	dst = fmt.Appendf(dst, `,"has_new_line":false,"truncated":false,"stop_type":%q,"stopping_word":""`, stop)
	// Not the reused prefix, but what the slot holds now: all but the last token.
	dst = appendField(dst, `,"tokens_cached":`, len(x.seq.prompt)+r.n-1)
	dst = append(dst, `,"timings":`...)
	return append(x.appendTimings(dst, r.n), '}')
}

// llamaSettings are those that matter here.
func (a *ask) llamaSettings(limit int) object {
	temperature := 0.8
	if a.temperature != nil {
		temperature = *a.temperature
	}
	return object{"seed": 4294967295, "temperature": temperature, "max_tokens": limit, "n_predict": limit,
		"ignore_eos": a.ignoreEOS, "stream": a.Stream, "timings_per_token": a.TimingsPerToken}
}

// promptTime is what the prefill took, in whole microseconds.
func (x *exchange) promptTime() time.Duration {
	return x.first.Sub(x.seq.admitted).Round(time.Microsecond)
}

// appendTimings writes llama.cpp's timings after n tokens. Predicting begins with
// the first token.
func (x *exchange) appendTimings(dst []byte, n int) []byte {
	cached := x.cached()
	fresh := len(x.seq.prompt) - cached
	prompt := max(x.promptTime(), time.Microsecond)
	predicted := max(x.last.Sub(x.first).Round(time.Microsecond), time.Microsecond)
	dst = appendField(dst, `{"cache_n":`, cached)
	dst = appendRate(dst, "prompt", fresh, prompt)
	dst = appendRate(dst, "predicted", n, predicted)
	if x.drafts > 0 {
		dst = appendField(dst, `,"draft_n":`, x.drafts)
		dst = appendField(dst, `,"draft_n_accepted":`, x.accepted)
	}
	return append(dst, '}')
}

// appendRate writes the four numbers of one half of the work.
func appendRate(dst []byte, half string, n int, took time.Duration) []byte {
	ms := float64(took) / float64(time.Millisecond)
	field := func(name string, v float64) {
		dst = append(dst, ',', '"')
		dst = append(dst, half...)
		dst = append(dst, name...)
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	}
	field(`_n":`, float64(n))
	field(`_ms":`, ms)
	field(`_per_token_ms":`, ms/float64(n))
	field(`_per_second":`, 1000*float64(n)/ms)
	return dst
}
