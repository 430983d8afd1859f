package fakellm

import (
	"fmt"
	"testing"
	"time"
)

// What is wrong with a request is said in each engine's own words.
func TestWrongRequestsOfEveryEngine(t *testing.T) {
	const endOfJSON = "JSON decode error: unexpected end of JSON input"
	llama := func(code int, message, kind string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"type":%q}}`, code, message, kind)
	}
	for _, tt := range []struct {
		engine, path, body string
		status             int
		want               string
	}{
		{LMDeploy, "/v1/completions", `{`, 400, `{"message":"` + endOfJSON + `","type":"invalid_request_error","code":400,"param":null,"object":"error"}`},
		{LMDeploy, "/v1/completions", `{"model":"nope","prompt":"a"}`, 404, `{"message":"The model 'nope' does not exist.","type":"invalid_request_error","code":404,"param":null,"object":"error"}`},
		{LMDeploy, "/v1/encode", `{`, 400, `{"message":"JSON decode error: unexpected EOF","type":"invalid_request_error","code":400,"param":null,"object":"error"}`},
		{LMDeploy, "/nothing", `{}`, 404, `{"detail":"Not Found"}`},
		{Triton, "/v2/models/ensemble/generate_stream", `{`, 400, `{"error":"` + endOfJSON + `"}`},
		{Triton, "/v2/models/ensemble/generate_stream", `{}`, 400, `{"error":"expected input 'text_input' for model 'ensemble'"}`},
		{Triton, "/v2/nothing", `{}`, 404, `{"error":"Not Found"}`},
		{TRTLLM, "/v1/completions", `{"prompt":"a","max_tokens":-1}`, 400, `{"object":"error","message":"max_tokens must be at least 1, got -1.","type":"BadRequestError","param":null,"code":400}`},
		{Truss, "/v1/models/model:predict", `{`, 400, `{"error":"` + endOfJSON + `"}`},
		{TGI, "/generate", `{`, 422, `{"error":"Input validation error: ` + endOfJSON + `","error_type":"validation"}`},
		{TGI, "/tokenize", `{`, 422, `{"error":"Input validation error: JSON decode error: unexpected EOF","error_type":"validation"}`},
		{LlamaCPP, "/completion", `{`, 500, llama(500, endOfJSON, "server_error")},
		{LlamaCPP, "/v1/chat/completions", `{"messages":[]}`, 400, llama(400, "messages must not be empty", "invalid_request_error")},
		{LlamaCPP, "/nothing", `{}`, 404, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`},
		{LlamaCPP, "/tokenize", `{`, 500, llama(500, "JSON decode error: unexpected EOF", "server_error")},
		{LlamaCPP, "/detokenize", `{`, 500, llama(500, "JSON decode error: unexpected EOF", "server_error")},
		{LlamaCPP, "/detokenize", `{"tokens":[-1]}`, 400, llama(400, "tokens[0]: token id -1 is out of vocabulary", "invalid_request_error")},
		{LlamaCPP, "/apply-template", `{"messages":[{"content":[1]}]}`, 400, llama(400, "Expected 'content' to be a string", "invalid_request_error")},
		{LlamaCPP, "/slots/0", ``, 400, llama(400, "Invalid action", "invalid_request_error")},
		{Ollama, "/api/chat", `{`, 400, `{"error":"` + endOfJSON + `"}`},
		{Ollama, "/v1/completions", `{`, 400, `{"error":{"message":"` + endOfJSON + `","type":"invalid_request_error","param":null,"code":null}}`},
		{Ollama, "/v1/completions", `{"model":"nope","prompt":"a"}`, 404, `{"error":{"message":"model 'nope' not found","type":"api_error","param":null,"code":null}}`},
		{Ollama, "/api/show", `{"model":"nope"}`, 404, `{"error":"model 'nope' not found"}`},
		{Ollama, "/api/tags", ``, 405, "405 method not allowed"},
		{Dynamo, "/v1/chat/completions", `{"model":"nope","messages":[]}`, 404, `{"message":"Model not found: nope","type":"Not Found","code":404}`},
		{Dynamo, "/v1/completions", `{"nvext":{"token_data":[-1]}}`, 400, `{"message":"nvext.token_data[0]: token id -1 is out of vocabulary","type":"Bad Request","code":400}`},
		{Anthropic, "/v1/messages", `{"model":"nope"}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"model: nope"}}`},
		{Anthropic, "/v1/messages/count_tokens", `{`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"JSON decode error: unexpected EOF"}}`},
		{Anthropic, "/v1/nothing", `{}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`},
		{OpenAIResponses, "/v1/responses", `{}`, 400, `{"error":{"message":"Missing required parameter: 'input'.","type":"invalid_request_error","param":null,"code":null}}`},
		{OpenAIResponses, "/v1/chat/completions", `{"ignore_eos":true}`, 400, `{"error":{"message":"Unknown parameter: 'ignore_eos'.","type":"invalid_request_error","param":"ignore_eos","code":"unknown_parameter"}}`},
		{OpenAIResponses, "/v1/nothing", `{}`, 404, `{"error":{"message":"Invalid URL","type":"invalid_request_error","param":null,"code":null}}`},
	} {
		bubble(t, endless(tt.engine), func(r *rig) {
			got := r.post(tt.path, tt.body)
			if got.status != tt.status || got.raw != tt.want {
				t.Errorf("%s%s %s:\n got %d %s\nwant %d %s", tt.engine, tt.path, tt.body, got.status, got.raw, tt.status, tt.want)
			}
			// llama-server hangs up after an error.
			if closes := got.header.Get("Keep-Alive") == "" && got.closed; closes != (tt.engine == LlamaCPP) {
				t.Errorf("%s%s: got a closed connection: %v", tt.engine, tt.path, closes)
			}
			if s := r.engine.Stats(); s.Refused != s.Received {
				t.Errorf("%s%s: got %d of %d refused", tt.engine, tt.path, s.Refused, s.Received)
			}
		})
	}
}

func TestRateLimitsAreToldInHeaders(t *testing.T) {
	for _, tt := range []struct {
		engine, path string
		want         map[string]string
	}{
		{OpenAIResponses, "/v1/responses", map[string]string{"Retry-After": "20", "Retry-After-Ms": "19500", "X-Ratelimit-Limit-Requests": "500",
			"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "19.5s"}},
		// A bubble begins at midnight of 2000-01-01.
		{Anthropic, "/v1/messages", map[string]string{"Retry-After": "20", "Anthropic-Ratelimit-Requests-Remaining": "0",
			"Anthropic-Ratelimit-Requests-Reset": "2000-01-01T00:00:19Z"}},
	} {
		bubble(t, struck(dialect{engine: tt.engine}, Fault{Kind: TooManyRequests, Delay: 19500 * time.Millisecond}), func(r *rig) {
			got := r.post(tt.path, `{}`)
			for name, want := range tt.want {
				if h := got.header.Get(name); h != want || got.status != 429 {
					t.Errorf("%s: status %d, %s: got %q, want %q", tt.engine, got.status, name, h, want)
				}
			}
		})
	}
}

func TestTritonListsItsInputs(t *testing.T) {
	bubble(t, endless(Triton), func(r *rig) {
		want := `{"inputs":[{"name":"text_input","datatype":"BYTES","shape":[-1,1]},{"name":"max_tokens","datatype":"INT32","shape":[-1,1]},`
		if got := r.get("/v2/models/ensemble"); got.status != 200 || len(got.raw) < len(want) || got.raw[:len(want)] != want {
			t.Errorf("got %d %s\nwant it to begin with %s", got.status, got.raw, want)
		}
		for _, path := range []string{"/v2/models/nope", "/v2/models/nope/config"} {
			if got := r.get(path); got.status != 400 || got.raw != `{"error":"Request for unknown model: 'nope' is not found"}` {
				t.Errorf("%s: got %d %s", path, got.status, got.raw)
			}
		}
	})
}
