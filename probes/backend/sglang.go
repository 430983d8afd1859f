package backend

import (
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/jsonscan"
)

// ignoreEOS is what most engines know to force a length.
var ignoreEOS = map[string]any{"ignore_eos": true}

// sglangNative is SGLang's own /generate. Its text is cumulative, unless the
// server runs with incremental output; its completion count always is.
var sglangNative = dialect{
	path: "/generate", images: true, port: 30000, modelsPath: modelsPath, flushPath: "/flush_cache", profile: sglangProfile, tokenize: textWays,
	tokenIDs: true, sampling: "sampling_params", lengthField: "max_new_tokens", exact: ignoreEOS,
	body: generateBody, lora: loraPath, cumulative: true, parse: parseGenerate,
}

// SGLang's OpenAI routes.
var (
	sglangText = dialect{
		path: completionsPath, port: 30000, modelsPath: modelsPath, flushPath: "/flush_cache", profile: sglangProfile, tokenize: textWays,
		tokenIDs: true, lengthField: "max_tokens", exact: ignoreEOS, runningUsage: true,
		body: completionsBody, lora: loraPath, parse: parseOpenAI,
	}
	sglangChat = dialect{
		path: chatPath, messages: true, images: true, port: 30000, modelsPath: modelsPath, flushPath: "/flush_cache", profile: sglangProfile, tokenize: chatWays,
		lengthField: "max_completion_tokens", exact: ignoreEOS, runningUsage: true,
		body: chatBody, lora: loraPath, parse: parseOpenAI,
	}
)

// loraPath names the adapter in a field of its own, beside the model.
func loraPath(fields map[string]any, name string) error {
	fields["lora_path"] = name
	return nil
}

func generateBody(d *dialect, q question) map[string]any {
	params := map[string]any{}
	d.addSampling(params, q.Request)
	fields := map[string]any{d.sampling: params}
	if q.TokenIDs != nil {
		fields["input_ids"] = q.TokenIDs
	} else {
		fields["text"] = q.Prompt
	}
	if len(q.Images) > 0 {
		// No template is applied here: a model that wants a mark where its images are
		// finds it in the prompt or nowhere.
		urls := make([]string, len(q.Images))
		for i, image := range q.Images {
			urls[i] = image.DataURL()
		}
		fields["image_data"] = urls
	}
	return fields
}

func parseGenerate(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	hasText := false
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "text":
			out.text, hasText = s.String()
		case "output_ids":
			for ok := s.Array(); ok && s.Element(); s.Skip() {
				out.ids++
			}
		case "meta_info":
			out.known = out.known || s.Peek() == '{'
			parseMetaInfo(s, out)
		case "error":
			out.failed = failure(s) || out.failed
		case "object":
			if raw, ok := s.String(); ok && string(raw) == "error" {
				out.failed = true
			}
		default:
			s.Skip()
		}
	}
	out.known = out.known || hasText
	// A server without a tokenizer sends ids alone; they are its output then.
	out.answer = len(out.text) > 0 || (out.ids > 0 && !hasText)
}

func parseMetaInfo(s *jsonscan.Scanner, out *said) {
	if !s.Object() {
		return
	}
	verifySteps := 0
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "completion_tokens":
			count(s, &out.completion)
		case "prompt_tokens":
			count(s, &out.prompt)
		case "cached_tokens":
			count(s, &out.cached)
		case "reasoning_tokens":
			count(s, &out.thought)
		case "finish_reason":
			parseFinish(s, out)
		case "spec_accept_length":
			acceptLength(s, out)
		case "spec_verify_ct":
			verifySteps, _ = s.Int()
		default:
			s.Skip()
		}
	}
	if n, ok := out.completion.Get(); ok && n > 0 && verifySteps > 0 && !out.accept.IsKnown() {
		out.accept = probes.Known(float64(n) / float64(verifySteps))
	}
}

// parseFinish reads null, a word, or {"type":…,"message":…}.
func parseFinish(s *jsonscan.Scanner, out *said) {
	if s.Peek() == '"' {
		out.finish, _ = s.String()
		return
	}
	if !s.Object() {
		return
	}
	for key, ok := s.Key(); ok; key, ok = s.Key() {
		switch string(key) {
		case "type":
			out.finish, _ = s.String()
		case "message":
			out.abortText, _ = s.String()
		default:
			s.Skip()
		}
	}
}
