package backend

import (
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// llamaCpp is the native /completion of llama-server. Events count the tokens so far,
// also those whose text is held back; the last one has stop set and no text, and the
// body ends after it.
var llamaCpp = dialect{
	path: "/completion", port: 8080, modelsPath: modelsPath, tokenize: contentWays,
	tokenIDs: true, lengthField: "n_predict", exact: ignoreEOS,
	body: llamaCppBody, lora: loraScale, countsAhead: true, parse: parseLlamaCpp,
}

func llamaCppBody(d *dialect, q question) map[string]any {
	fields := map[string]any{"prompt": q.Prompt}
	if q.TokenIDs != nil {
		fields["prompt"] = q.TokenIDs
	}
	addModel(fields, q.model) // a router of several models needs it
	d.addSampling(fields, q.Request)
	return fields
}

func loraScale(fields map[string]any, name string) error {
	id, err := loraNumber(name, "its id in GET /lora-adapters")
	fields["lora"] = []any{map[string]any{"id": id, "scale": 1.0}}
	return err
}

// parseLlamaCpp reads an event, or a whole answer. Progress of the prompt comes as
// events without text, whose count may be that of the slot's previous request.
func parseLlamaCpp(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	first, index := len(out.pieces), 0
	var times timings
	progress := false
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "index":
			if n, ok := s.Int(); ok && n > 0 {
				index = n
			}
		case "content":
			out.known = out.known || s.Peek() == '"'
			out.addPiece(s)
		case "stop":
			out.final = isTrue(s) || out.final
		case "stop_type":
			out.takeFinish(s)
		case "tokens_predicted":
			count(s, &out.completion)
		case "tokens_evaluated":
			count(s, &out.prompt)
		case "prompt_progress":
			progress = s.Peek() == '{'
			s.Skip()
		case "timings":
			times = parseTimings(s)
		default:
			out.takeCommon(s, key)
		}
	}
	out.setChoice(first, index)
	if out.final {
		out.takeTimings(times)
		return
	}
	out.finish = nil // a build may say "none" until the end
	if progress {
		out.completion = probes.Optional[int]{}
	}
}

// timings is what llama-server measured of a request. While it runs the figures are
// stale: they may be those of the slot's previous request.
type timings struct {
	known                                  bool
	cached, prompt, predicted              probes.Optional[int]
	drafted, accepted                      int
	promptMilliseconds, decodeMilliseconds probes.Optional[float64]
}

func parseTimings(s *jsonscan.Scanner) (t timings) {
	if !s.Object() {
		return t
	}
	t.known = true
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "cache_n":
			count(s, &t.cached)
		case "prompt_n":
			count(s, &t.prompt)
		case "predicted_n":
			count(s, &t.predicted)
		case "prompt_ms":
			number(s, &t.promptMilliseconds)
		case "predicted_ms":
			number(s, &t.decodeMilliseconds)
		case "draft_n":
			t.drafted, _ = s.Int()
		case "draft_n_accepted":
			t.accepted, _ = s.Int()
		default:
			s.Skip()
		}
	}
	return t
}

// takeTimings fills in what the answer itself does not count; it must be called once
// the event has proved to be the last, after everything else has been read. prompt_n
// leaves out the tokens that came from the cache.
func (d *said) takeTimings(t timings) {
	if !t.known {
		return
	}
	d.second = t.predicted
	if !d.completion.IsKnown() {
		d.completion = t.predicted
	}
	if !d.cached.IsKnown() {
		d.cached = t.cached
	}
	if n, ok := t.prompt.Get(); ok && !d.prompt.IsKnown() && t.cached.IsKnown() {
		hit, _ := t.cached.Get()
		d.prompt = probes.Known(n + hit)
	}
	d.prefill, d.decode = milliseconds(t.promptMilliseconds), milliseconds(t.decodeMilliseconds)
	d.acceptFromDrafts(t.drafted, t.accepted)
}

// acceptFromDrafts computes the tokens per verify step: every step adds one token of
// the model's own to the drafts that it accepts.
func (d *said) acceptFromDrafts(drafted, accepted int) {
	n, ok := d.completion.Get()
	if ok && drafted > 0 && accepted >= 0 && accepted < n {
		d.accept = probes.Known(float64(n) / float64(n-accepted))
	}
}

func milliseconds(ms probes.Optional[float64]) probes.Optional[time.Duration] {
	v, ok := ms.Get()
	if !ok || v < 0 || v > 1e12 {
		return probes.Optional[time.Duration]{}
	}
	return probes.Known(time.Duration(v * float64(time.Millisecond)))
}
