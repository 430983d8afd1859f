package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// tgi is Hugging Face's text-generation-inference: one event per token, no space
// behind "data:", a comment after 15 s of silence, and every error of a stream
// under status 200. It knows no ignore_eos and has no reasoning channel.
var tgi = flavour{
	version: "3.3.7",
	adapter: tgiAdapter,
	routes: map[string]*route{
		"POST /generate_stream":     tgiRoute(route{read: readTGI, write: newTGIRenderer, native: true, stream: always}),
		"POST /generate":            tgiRoute(route{read: readTGI, write: newTGIRenderer, native: true, stream: never}),
		"POST /{$}":                 tgiRoute(route{read: readTGI, write: newTGIRenderer, native: true}),
		"POST /v1/completions":      tgiRoute(route{read: withNaturalEnd(readCompletion), write: worded(&tgiWords)}),
		"POST /v1/chat/completions": tgiRoute(route{read: withNaturalEnd(readChat), write: worded(&tgiWords), chat: true}),
	},
	pages: map[string]handler{
		"GET /health": healthy, "GET /v1/models": (*Engine).models, "GET /info": (*Engine).tgiInfo,
		"POST /tokenize": (*Engine).tgiTokenize,
	},
	metrics:     (*Engine).tgiMetrics,
	buckets:     vllm.buckets,
	guards:      func(path string) bool { return path != "/health" && path != "/info" && path != "/metrics" },
	noReasoning: true,
	invalid:     http.StatusUnprocessableEntity,
	failure:     func(dst []byte, _ *route, bad refusal) []byte { return tgiError(dst, bad) },
	report: func(dst []byte, rt *route, bad refusal) []byte {
		dst = append(dst, "data:"...)
		if rt.native {
			return append(tgiError(dst, bad), "\n\n"...)
		}
		dst = append(dst, `{"error":{"message":`...)
		dst = appendString(dst, tgiMessage(bad))
		return fmt.Appendf(dst, ",\"http_status_code\":%d}}\n\ndata:[DONE]\n\n", bad.status)
	},
}

func tgiRoute(rt route) *route {
	rt.inBand, rt.ping, rt.keepAlive = allErrors, ":\n\n", 15*time.Second
	return &rt
}

// tgiError writes {"error":…,"error_type":…}.
func tgiError(dst []byte, bad refusal) []byte {
	kind := "generation"
	switch bad.status {
	case http.StatusUnprocessableEntity:
		kind = "validation"
	case http.StatusTooManyRequests:
		kind = "overloaded"
	case http.StatusServiceUnavailable:
		kind = "healthcheck"
	}
	dst = append(dst, `{"error":`...)
	dst = appendString(dst, tgiMessage(bad))
	return fmt.Appendf(dst, `,"error_type":%q}`, kind)
}

func tgiMessage(bad refusal) string {
	switch bad.status {
	case http.StatusUnprocessableEntity:
		return "Input validation error: " + bad.message
	case http.StatusTooManyRequests:
		return "Model is overloaded"
	}
	return bad.message
}

// readTGI reads the native routes.
func readTGI(e *Engine, a *ask) error {
	p := a.Parameters
	a.limit, a.usual, a.temperature = p.MaxNewTokens, 100, p.Temperature
	if !p.DoSample && p.Temperature == nil {
		a.temperature = new(float64)
	}
	if a.Inputs == "" {
		return badRequest("`inputs` cannot be empty")
	}
	a.prompt = e.tok.append([]int32{tokenBOS}, a.Inputs)
	return nil
}

// tgiWords tell the role in every delta and nobody's id.
var tgiWords = wording{
	mark:       "data:",
	noID:       true,
	fields:     `,"system_fingerprint":"{version}-native"`,
	perToken:   true,
	apart:      [2]bool{false, true},
	usageApart: [2]bool{false, true},
	role:       inEveryDelta,
	noContent:  `"content":""`,
	finishBody: `{"role":"assistant","content":""}`,
	choice: func(dst []byte, r *openaiRenderer, finished bool) []byte {
		if r.chat == 0 && !finished {
			return append(dst, `,"logprobs":null,"finish_reason":""`...)
		}
		return logprobsChoice(dst, r, finished)
	},
	extra: func(dst []byte, r *openaiRenderer, at place) []byte {
		switch {
		case r.chat == 0 && at == inFinish:
			return plainUsage(append(dst, `,"usage":`...), r)
		case r.chat == 1 && at < inUsage:
			return append(dst, `,"usage":null`...)
		}
		return dst
	},
	usage: plainUsage,
}

// tgiRenderer writes the native routes.
type tgiRenderer struct{ draft }

func newTGIRenderer(x *exchange, _ string) renderer { return &tgiRenderer{draft{x: x}} }

func (r *tgiRenderer) event(dst []byte, n int, last bool) []byte {
	if !r.x.ask.Stream {
		r.collect(n)
		return dst
	}
	for i := range n {
		r.collect(1) // the last event repeats all text
		dst = appendField(dst, `data:{"index":`, r.n)
		dst = append(dst, `,"token":`...)
		dst = r.appendToken(dst, r.n-1)
		if last && i == n-1 {
			dst = append(dst, `,"generated_text":"`...)
			dst = append(dst, r.text...)
			dst = append(dst, `","details":`...)
			dst = r.appendDetails(dst, false)
			dst = append(dst, "}\n\n"...)
			continue
		}
		dst = append(dst, `,"generated_text":null,"details":null}`+"\n\n"...)
	}
	return dst
}

// appendToken writes token i, the end of sequence as a special one.
func (r *tgiRenderer) appendToken(dst []byte, i int) []byte {
	a := &r.x.seq.answer
	dst = appendField(dst, `{"id":`, int(a.id(i)))
	if a.silent(i) {
		return append(dst, `,"text":"</s>","logprob":-0.25,"special":true}`...)
	}
	dst = append(dst, `,"text":"`...)
	dst = a.appendText(dst, i, i+1)
	return append(dst, `","logprob":-0.25,"special":false}`...)
}

// appendDetails writes the details, or null where they were not asked for.
func (r *tgiRenderer) appendDetails(dst []byte, withTokens bool) []byte {
	if !r.x.ask.Parameters.Details {
		return append(dst, "null"...)
	}
	reason := "length"
	if r.x.seq.answer.stops {
		reason = "eos_token"
	}
	dst = append(dst, `{"finish_reason":"`...)
	dst = append(dst, reason...)
	dst = appendField(dst, `","generated_tokens":`, r.n)
	dst = append(dst, `,"seed":null`...)
	if !withTokens {
		dst = appendField(dst, `,"input_length":`, len(r.x.seq.prompt))
		return append(dst, '}')
	}
	dst = append(dst, `,"prefill":[],"tokens":[`...)
	for i := range r.n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendToken(dst, i)
	}
	return append(dst, "]}"...)
}

// finish has nothing to say: the stream ends with the body.
func (r *tgiRenderer) finish(dst []byte, failure string) []byte {
	if failure == "" {
		return dst
	}
	return r.x.e.flavour.report(dst, r.x.route, refusal{status: 500, message: failure})
}

// whole also tells the times in headers, in milliseconds. The root route answers
// with a list.
func (r *tgiRenderer) whole(dst []byte) []byte {
	x, s := r.x, r.x.seq
	for _, h := range []struct {
		name string
		n    int64
	}{
		{"x-total-time", x.last.Sub(s.received).Milliseconds()},
		{"x-validation-time", 0},
		{"x-queue-time", s.admitted.Sub(s.received).Milliseconds()},
		{"x-inference-time", x.last.Sub(s.admitted).Round(time.Microsecond).Milliseconds()},
		{"x-time-per-token", x.last.Sub(s.admitted).Round(time.Microsecond).Milliseconds() / int64(r.n)},
		{"x-prompt-tokens", int64(len(s.prompt))},
		{"x-generated-tokens", int64(r.n)},
	} {
		x.w.Header().Set(h.name, strconv.FormatInt(h.n, 10))
	}
	inList := x.ask.path == "/"
	if inList {
		dst = append(dst, '[')
	}
	dst = append(dst, `{"generated_text":"`...)
	dst = append(dst, r.text...)
	dst = append(dst, '"')
	if x.ask.Parameters.Details {
		dst = append(dst, `,"details":`...)
		dst = r.appendDetails(dst, true)
	}
	if dst = append(dst, '}'); inList {
		dst = append(dst, ']')
	}
	return dst
}

func (e *Engine) tgiInfo(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"model_id": c.Weights, "model_sha": nil, "model_pipeline_tag": "text-generation", "max_concurrent_requests": 128,
		"max_best_of": 2, "max_stop_sequences": 4, "max_input_tokens": c.ContextLength - 1, "max_total_tokens": c.ContextLength,
		"validation_workers": 2, "max_client_batch_size": 4, "router": "text-generation-router",
		"version": c.Version, "sha": "0000000000000000000000000000000000000000", "docker_label": nil,
	}))
}

// tgiTokenize lists the tokens of a text and where they stand in it.
func (e *Engine) tgiTokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Inputs string `json:"inputs"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		e.fail(w, refusal{status: http.StatusUnprocessableEntity, message: fmt.Sprintf("JSON decode error: %v", err)})
		return
	}
	list, start := []object{{"id": tokenBOS, "text": "<s>", "start": 0, "stop": 0}}, 0
	for text := in.Inputs; text != ""; {
		n := pieceLength(text)
		list = append(list, object{"id": e.tok.id(text[:n]), "text": text[:n], "start": start, "stop": start + n})
		text, start = text[n:], start+n
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, list))
}

// tgiMetrics are the router's; counters have no _total. The caller holds the lock.
func (e *Engine) tgiMetrics(p *page) {
	g, t := e.gaugesLocked(), &e.totals
	p.value("gauge", "tgi_batch_current_size", "Current batch size", float64(g.running))
	p.value("gauge", "tgi_queue_size", "Current number of requests in the queue", float64(g.waiting))
	p.value("counter", "tgi_request_count", "Total number of requests", float64(t.Received))
	p.value("counter", "tgi_request_success", "Number of successful requests", float64(t.Finished))
	p.family("counter", "tgi_request_failure", "Number of failed requests")
	p.line("tgi_request_failure", float64(t.Refused), "err", "validation")
	p.line("tgi_request_failure", float64(t.Aborted), "err", "generation")
	p.histogram("tgi_request_duration", "Request duration", e.lat.e2e)
	p.histogram("tgi_request_queue_duration", "Time spent in the queue per request", e.lat.queue)
	p.histogram("tgi_request_inference_duration", "Request inference duration", e.lat.inference)
	p.histogram("tgi_request_mean_time_per_token_duration", "Mean time per token per request", e.lat.tpot)
	p.histogram("tgi_request_input_length", "Input token length per request", e.lat.prompt)
	p.histogram("tgi_request_generated_tokens", "Generated tokens per request", e.lat.output)
	if e.cfg.Speculation.DraftTokens > 0 {
		p.histogram("tgi_request_skipped_tokens", "Speculated tokens per request", e.lat.skipped)
	}
}
