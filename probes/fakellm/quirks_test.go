package fakellm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// timesOf are the instants of the events that contain a text.
func timesOf(r reply, text string) []time.Duration {
	var at []time.Duration
	for _, ev := range r.events {
		if strings.Contains(ev.data, text) {
			at = append(at, ev.at)
		}
	}
	return at
}

func TestTGIKeepsSilentStreamsAlive(t *testing.T) {
	c := endless(TGI)
	c.Script = &Script{TTFT: []time.Duration{50 * time.Second}, ITL: 20 * time.Second}
	bubble(t, c, func(r *rig) {
		got := r.post("/generate_stream", `{"inputs":"a","parameters":{"max_new_tokens":2}}`)
		var pings []time.Duration
		for _, ev := range got.events {
			if ev.data == ":" {
				pings = append(pings, ev.at)
			}
		}
		if diff := cmp.Diff([]time.Duration{15 * time.Second, 30 * time.Second, 45 * time.Second, 65 * time.Second}, pings); diff != "" {
			t.Errorf("pings (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{50 * time.Second, 70 * time.Second}, got.times()); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	})
	c = struck(dialect{engine: TGI}, Fault{Kind: HangAfterTokens, AfterTokens: 1})
	bubble(t, c, func(r *rig) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		got := r.send(ctx, "/generate_stream", `{"inputs":"a","parameters":{"max_new_tokens":2}}`, nil)
		if n := strings.Count(got.raw, ":\n\n"); n != 3 || got.end != time.Minute {
			t.Errorf("hanging: got %d pings until %v, want 3 until 1m", n, got.end)
		}
	})
}

func TestTGIRefusesInBandOnlyWhatItStreams(t *testing.T) {
	const body = `{"error":"Input validation error: ` + "`inputs` cannot be empty" + `","error_type":"validation"}`
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/generate_stream", `{}`, 200, "data:" + body + "\n\n"},
		{"/generate", `{}`, 422, body},
		{"/", `{"stream":true}`, 200, "data:" + body + "\n\n"},
		{"/", `{}`, 422, body},
		{"/v1/completions", `{"stream":true}`, 200, "data:{\"error\":{\"message\":\"Input validation error: field required: prompt\",\"http_status_code\":422}}\n\ndata:[DONE]\n\n"},
	} {
		bubble(t, endless(TGI), func(r *rig) {
			if got := r.post(tt.path, tt.body); got.status != tt.status || got.raw != tt.want {
				t.Errorf("%s %s:\n got %d %s\nwant %d %s", tt.path, tt.body, got.status, got.raw, tt.status, tt.want)
			}
		})
	}
	// Overload is an HTTP status for who does not stream.
	bubble(t, struck(dialect{engine: TGI}, Fault{Kind: TooManyRequests}), func(r *rig) {
		if got := r.post("/generate", `{"inputs":"a"}`); got.status != 429 || got.raw != `{"error":"Model is overloaded","error_type":"overloaded"}` {
			t.Errorf("overloaded: got %d %s", got.status, got.raw)
		}
	})
}

func TestTGITellsTimesInHeaders(t *testing.T) {
	bubble(t, endless(TGI), func(r *rig) {
		got := r.post("/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"max_new_tokens":4}}`, words(9)))
		for name, want := range map[string]string{"x-total-time": "50", "x-queue-time": "0", "x-inference-time": "50",
			"x-time-per-token": "12", "x-prompt-tokens": "10", "x-generated-tokens": "4"} {
			if h := got.header.Get(name); h != want {
				t.Errorf("%s: got %q, want %q", name, h, want)
			}
		}
		if strings.Contains(got.raw, "details") {
			t.Errorf("got details that were not asked for: %s", got.raw)
		}
		list := r.post("/", `{"inputs":"a","parameters":{"max_new_tokens":1}}`)
		if !strings.HasPrefix(list.raw, `[{"generated_text":"`) {
			t.Errorf("the root route: got %s, want a list", list.raw)
		}
	})
}

func TestLlamaTellsProgressAndTimings(t *testing.T) {
	type timings struct {
		Cache     int     `json:"cache_n"`
		Prompt    int     `json:"prompt_n"`
		PromptMS  float64 `json:"prompt_ms"`
		PromptPer float64 `json:"prompt_per_token_ms"`
		PromptPS  float64 `json:"prompt_per_second"`
		N         int     `json:"predicted_n"`
		MS        float64 `json:"predicted_ms"`
		Per       float64 `json:"predicted_per_token_ms"`
		PS        float64 `json:"predicted_per_second"`
		Drafts    *int    `json:"draft_n"`
		Accepted  *int    `json:"draft_n_accepted"`
	}
	lastTimings := func(t *testing.T, r reply) timings {
		t.Helper()
		for i := len(r.events) - 1; i >= 0; i-- {
			var ev struct{ Timings *timings }
			if json.Unmarshal([]byte(r.events[i].data), &ev) == nil && ev.Timings != nil {
				return *ev.Timings
			}
		}
		t.Fatalf("no timings in %s", r.raw)
		return timings{}
	}
	for _, d := range dialects() {
		if d.engine != LlamaCPP {
			continue
		}
		c := endless(LlamaCPP)
		c.Cache = PrefixCache{BlockTokens: 4, Blocks: 100}
		bubble(t, c, func(r *rig) {
			r.post(d.path, d.body(1, true, ""))
			got := r.post(d.path, d.body(4, true, `"return_progress":true,`))
			// 8 of 10 tokens are cached: 10 + 2 ms of prefill.
			want := timings{Cache: 8, Prompt: 2, PromptMS: 12, PromptPer: 6, PromptPS: 1000 * 2. / 12, N: 4, MS: 30, Per: 7.5, PS: 1000 * 4. / 30}
			if diff := cmp.Diff(want, lastTimings(t, got)); diff != "" {
				t.Errorf("%v: timings (-want +got):\n%s", d, diff)
			}
			// The batch is formed a nanosecond after the request came.
			if diff := cmp.Diff([]time.Duration{1, 12 * time.Millisecond}, timesOf(got, "prompt_progress")); diff != "" {
				t.Errorf("%v: progress at (-want +got):\n%s", d, diff)
			}
			for _, want := range []string{`"prompt_progress":{"total":10,"cache":8,"processed":8,"time_ms":0}`, `"prompt_progress":{"total":10,"cache":8,"processed":10,"time_ms":12}`} {
				if strings.Count(got.raw, want) != 1 {
					t.Errorf("%v: got %s\nwant it to contain %s", d, got.raw, want)
				}
			}
			if diff := cmp.Diff(ms(12, 22, 32, 42), got.times()); diff != "" {
				t.Errorf("%v: tokens (-want +got):\n%s", d, diff)
			}
			if got.headers != 1 {
				t.Errorf("%v: headers: got %v, want them with the progress", d, got.headers)
			}
			every := r.post(d.path, d.body(4, true, `"timings_per_token":true,`))
			if n := len(timesOf(every, `"predicted_n":`)); n != 5 {
				t.Errorf("%v: got timings in %d events, want 5", d, n)
			}
		})
		c = endless(LlamaCPP)
		c.Speculation = Speculation{3, 2.5}
		bubble(t, c, func(r *rig) {
			got := r.post(d.path, d.body(40, true, ""))
			s, last := r.engine.Stats(), lastTimings(t, got)
			if last.Drafts == nil || int64(*last.Drafts) != s.DraftTokens || int64(*last.Accepted) != s.AcceptedTokens {
				t.Errorf("%v: got drafts %v, accepted %v, want %d, %d", d, last.Drafts, last.Accepted, s.DraftTokens, s.AcceptedTokens)
			}
			// One event per token, in bursts.
			at := got.times()
			steps := map[time.Duration]bool{}
			for _, at := range at {
				steps[at] = true
			}
			if len(at) != 40 || int64(len(steps)) != s.VerifySteps+1 {
				t.Errorf("%v: got %d events at %d instants, want 40 at %d", d, len(at), len(steps), s.VerifySteps+1)
			}
		})
	}
}

func TestLlamaClampsAndErrs(t *testing.T) {
	c := endless(LlamaCPP)
	c.ContextLength = 14
	bubble(t, c, func(r *rig) {
		for _, limit := range []string{`"n_predict":-1,`, `"n_predict":4000,`, ``} {
			got := r.post("/completion", fmt.Sprintf(`{%s"prompt":%q}`, limit, words(9)))
			if !strings.Contains(got.raw, `"tokens_predicted":4,"tokens_evaluated":10`) || !strings.Contains(got.raw, `"tokens_cached":13`) {
				t.Errorf("%s: got %s, want 4 tokens", limit, got.raw)
			}
		}
		tooLong := `{"error":{"code":400,"message":"request (15 tokens) exceeds the available context size (14 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":15,"n_ctx":14}}`
		if got := r.post("/v1/completions", completionBody(words(14), 2)); got.status != 400 || got.raw != tooLong {
			t.Errorf("too long:\n got %d %s\nwant 400 %s", got.status, got.raw, tooLong)
		}
		got := r.get("/health")
		if got.header.Get("Keep-Alive") != "timeout=5, max=100" || got.header.Get("Server") != "llama.cpp" || got.raw != `{"status":"ok"}` {
			t.Errorf("health: got %v %s", got.header, got.raw)
		}
	})
}

func TestOllamaHidesCachedPromptsAndCutsLongOnes(t *testing.T) {
	c := endless(Ollama)
	c.Cache = PrefixCache{BlockTokens: 4, Blocks: 100}
	bubble(t, c, func(r *rig) {
		body := fmt.Sprintf(`{"model":"fake-8b:latest","messages":[{"role":"user","content":%q}],"options":{"num_predict":4}}`, words(5))
		end := func(r reply) string { _, rest, _ := strings.Cut(r.raw, `"done":true`); return rest }
		cold, warm := end(r.post("/api/chat", body)), end(r.post("/api/chat", body))
		if want := `,"done_reason":"length","total_duration":50000000,"load_duration":0,"prompt_eval_count":10,"prompt_eval_duration":20000000,"eval_count":4,"eval_duration":30000000}` + "\n"; cold != want {
			t.Errorf("cold:\n got %s\nwant %s", cold, want)
		}
		if want := `,"done_reason":"length","total_duration":42000000,"load_duration":0,"prompt_eval_duration":12000000,"eval_count":4,"eval_duration":30000000}` + "\n"; warm != want {
			t.Errorf("warm:\n got %s\nwant %s", warm, want)
		}
		cut := r.post("/api/generate", fmt.Sprintf(`{"prompt":%q,"raw":true,"options":{"num_predict":4,"num_ctx":12}}`, words(40)))
		if trace := r.engine.Stats().Requests[2]; trace.PromptTokens != 12 || trace.OutputTokens() != 4 {
			t.Errorf("a prompt of 41 tokens in a context of 12: got %d and %d tokens, want 12 and 4: %s", trace.PromptTokens, trace.OutputTokens(), cut.raw)
		}
		usage := r.post("/v1/completions", completionBody(words(9), 4))
		if n := strings.Count(usage.raw, `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`); n != 5 {
			t.Errorf("got %d usages of zeros, want 5", n)
		}
		if got := r.post("/api/chat", `{"model":"nope"}`); got.status != 404 || got.raw != `{"error":"model 'nope' not found"}` {
			t.Errorf("unknown model: got %d %s", got.status, got.raw)
		}
		if got := r.post("/api/chat", `{"messages":[{"role":"user","content":"a"}],"stream":false,"options":{"num_predict":1}}`); got.header.Get("Content-Type") != "application/json" {
			t.Errorf("in one piece: got content type %q", got.header.Get("Content-Type"))
		}
		if got := r.get("/metrics"); got.status != 404 || got.raw != "404 page not found" {
			t.Errorf("metrics: got %d %s", got.status, got.raw)
		}
	})
}

func TestTritonModelsAndCounts(t *testing.T) {
	bubble(t, endless(Triton), func(r *rig) {
		body := fmt.Sprintf(`{"text_input":%q,"max_tokens":3,"accumulate_tokens":true}`, words(9))
		texts := func(path string) (list []string) {
			for _, ev := range r.post(path, body).events {
				var e struct {
					Text string `json:"text_output"`
				}
				if err := json.Unmarshal([]byte(ev.data), &e); err != nil {
					t.Fatal(err)
				}
				list = append(list, e.Text)
			}
			return list
		}
		deltas, all := texts("/v2/models/ensemble/generate_stream"), texts("/v2/models/tensorrt_llm_bls/versions/1/generate_stream")
		if len(deltas) != 3 || len(all) != 3 || CountTokens(all[2]) != 3 || !strings.HasPrefix(all[1], all[0]) || CountTokens(strings.Join(deltas, "")) != 3 {
			t.Errorf("got deltas %q, accumulated %q", deltas, all)
		}
		if got := r.post("/v2/models/nope/generate_stream", body); got.status != 400 || got.raw != `{"error":"Request for unknown model: 'nope' is not found"}` {
			t.Errorf("unknown model: got %d %s", got.status, got.raw)
		}
	})
	// An answer goes on past its natural end with an end_id that is no token.
	c := endless(Triton)
	c.MeanOutputTokens, c.Speculation, c.Cache.Blocks = 5, Speculation{3, 2.5}, 100
	bubble(t, c, func(r *rig) {
		r.post("/v2/models/ensemble/generate", fmt.Sprintf(`{"text_input":%q,"max_tokens":60,"min_length":60,"end_id":1048576}`, words(40)))
		got := r.post("/v2/models/ensemble/generate", fmt.Sprintf(`{"text_input":%q,"max_tokens":60,"return_perf_metrics":true}`, words(40)))
		s := r.engine.Stats()
		if n := s.Requests[0].OutputTokens(); n != 60 {
			t.Errorf("got %d tokens, want 60", n)
		}
		if n := s.Requests[1].OutputTokens(); n >= 60 {
			t.Errorf("got %d tokens, want a natural end", n)
		}
		if !strings.Contains(got.raw, `"kv_cache_reused_blocks":2,"kv_cache_alloc_new_blocks":1,"kv_cache_alloc_total_blocks":3`) {
			t.Errorf("blocks: got %s", got.raw)
		}
	})
}

func TestDynamoAnnotates(t *testing.T) {
	bubble(t, endless(Dynamo), func(r *rig) {
		got := r.send(context.Background(), "/v1/completions", `{"prompt":"x","max_tokens":2,"stream":true,"stream_options":{"include_usage":true},
			"nvext":{"annotations":["token_ids","request_id","llm_metrics"],"token_data":[5,6,7],"extra_fields":["timing","worker_id"]}}`, http.Header{"X-Request-Id": {"abc"}})
		for _, want := range []string{"event: request_id\n: \"abc\"\n\nevent: token_ids\n: [5,6,7]\n\n", "event: llm_metrics\n: {\"input_tokens\":3,\"output_tokens\":1}\n\ndata:{",
			`"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}},"nvext":{"worker_id":{"decode_worker_id":7},"timing":{"ttft_ms":13}}}`} {
			if strings.Count(got.raw, want) != 1 {
				t.Errorf("got %s\nwant it to contain %q", got.raw, want)
			}
		}
		if diff := cmp.Diff([]time.Duration{1, 1}, append(timesOf(got, "abc")[:1], timesOf(got, "[5,6,7]")...)); diff != "" {
			t.Errorf("annotations at (-want +got):\n%s", diff)
		}
		plain := r.post("/v1/completions", completionBody("x", 2))
		if strings.Contains(plain.raw, "event:") || strings.Contains(plain.raw, "nvext") {
			t.Errorf("not asked for: got %s", plain.raw)
		}
	})
}

func TestAnthropicSplitsThePromptByCache(t *testing.T) {
	c := endless(Anthropic)
	c.Cache = PrefixCache{BlockTokens: 4, Blocks: 100}
	bubble(t, c, func(r *rig) {
		body := fmt.Sprintf(`{"max_tokens":4,"stream":true,"system":%q,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aaaa"}}]}]}`, words(9))
		total := 9 + 1 + ChatTemplateTokens + ChatTurnTokens + ImageTokens // 274 = 68 blocks and 2
		for i, want := range []string{`"usage":{"input_tokens":2,"cache_creation_input_tokens":272,"cache_read_input_tokens":0,"output_tokens":1}`,
			`"usage":{"input_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":272,"output_tokens":1}`} {
			got := r.post("/v1/messages", body)
			if strings.Count(got.raw, want) != 1 {
				t.Errorf("request %d: got %s\nwant it to contain %s", i, got.raw, want)
			}
			if !strings.Contains(got.raw, `"usage":{"output_tokens":4}`) {
				t.Errorf("request %d: got %s, want a total of 4", i, got.raw)
			}
			// The message starts when the prefill begins, long before the first token.
			if diff := cmp.Diff([]time.Duration{1}, timesOf(got, "message_start")); diff != "" {
				t.Errorf("request %d: start at (-want +got):\n%s", i, diff)
			}
		}
		counted := r.post("/v1/messages/count_tokens", strings.Replace(body, `"max_tokens":4,"stream":true,`, "", 1))
		if want := fmt.Sprintf(`{"input_tokens":%d}`, total); counted.raw != want {
			t.Errorf("count: got %s, want %s", counted.raw, want)
		}
		for body, want := range map[string]string{
			`{"messages":[{"role":"user","content":"a"}]}`:                                    "max_tokens: Field required",
			`{"max_tokens":4,"messages":[]}`:                                                  "messages: at least one message is required",
			`{"max_tokens":4,"messages":[{"role":"user","content":"a"}],"ignore_eos":true}`:   "ignore_eos: Extra inputs are not permitted",
			`{"max_tokens":4,"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`:  `messages[0].content: part type \"image_url\" is not supported`,
			`{"max_tokens":4,"messages":[{"role":"user","content":[{"type":"input_text"}]}]}`: `messages[0].content: part type \"input_text\" is not supported`,
		} {
			if got := r.post("/v1/messages", body); got.status != 400 || got.raw != `{"type":"error","error":{"type":"invalid_request_error","message":"`+want+`"}}` {
				t.Errorf("%s: got %d %s, want 400 %s", body, got.status, got.raw, want)
			}
		}
	})
}

func TestResponsesBeginAtOnceAndHideTheirReasoning(t *testing.T) {
	c := endless(OpenAIResponses)
	c.ReasoningTokens, c.MaxBatch = 3, 1
	bubble(t, c, func(r *rig) {
		body := `{"input":[{"role":"user","content":[{"type":"input_text","text":"a b c d e"}]}],"max_output_tokens":5,"stream":true}`
		// The second comes a millisecond later and waits for the first.
		var replies [2]reply
		var both sync.WaitGroup
		for i := range replies {
			both.Go(func() { replies[i] = r.post("/v1/responses", body) })
			time.Sleep(time.Millisecond)
		}
		both.Wait()
		for i, wait := range []time.Duration{0, 59 * time.Millisecond} {
			got := replies[i]
			if diff := cmp.Diff(make([]time.Duration, 1), timesOf(got, "response.in_progress")); diff != "" {
				t.Errorf("request %d: in progress at (-want +got):\n%s", i, diff)
			}
			// 20 ms of prefill bring the first of 3 hidden tokens.
			if diff := cmp.Diff([]time.Duration{wait + 50*time.Millisecond, wait + 60*time.Millisecond}, got.times()); diff != "" {
				t.Errorf("request %d: visible tokens at (-want +got):\n%s", i, diff)
			}
			if want := `"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":15}`; !strings.Contains(got.raw, want) {
				t.Errorf("request %d: got %s\nwant it to contain %s", i, got.raw, want)
			}
		}
		for i, trace := range r.engine.Stats().Requests {
			if diff := cmp.Diff(replies[i].times(), []time.Duration{trace.Sent[0].At, trace.Sent[1].At}); diff != "" || trace.Sent[0].Tokens != 4 {
				t.Errorf("request %d: sent %v (-received +sent):\n%s", i, trace.Sent, diff)
			}
		}
		strict := r.post("/v1/responses", `{"input":"a","ignore_eos":true}`)
		if want := `{"error":{"message":"Unknown parameter: 'ignore_eos'.","type":"invalid_request_error","param":"ignore_eos","code":"unknown_parameter"}}`; strict.status != 400 || strict.raw != want {
			t.Errorf("ignore_eos:\n got %d %s\nwant 400 %s", strict.status, strict.raw, want)
		}
		unknown := r.post("/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"a"}]}`)
		if unknown.status != 404 || !strings.Contains(unknown.raw, `"code":"model_not_found"`) {
			t.Errorf("unknown model: got %d %s", unknown.status, unknown.raw)
		}
	})
}

func TestTRTLLMTellsTokensPerIteration(t *testing.T) {
	c := endless(TRTLLM)
	c.Speculation = Speculation{3, 2.5}
	bubble(t, c, func(r *rig) {
		got := r.post("/v1/chat/completions", chatBody(words(5), 40))
		s := r.engine.Stats()
		if want := fmt.Sprintf(`"finish_reason":"length","avg_decoded_tokens_per_iter":%v}`, 40/float64(s.VerifySteps+1)); !strings.Contains(got.raw, want) {
			t.Errorf("got %s\nwant it to contain %s", got.raw, want)
		}
		if strings.Count(got.raw, "} \n\n") != 1 {
			t.Errorf("got %d lines with a space at their end, want that of the role", strings.Count(got.raw, "} \n\n"))
		}
		var steps []struct {
			Iter    int
			Latency float64 `json:"iterLatencyMS"`
			Batch   struct {
				Context    int `json:"numContextRequests"`
				Generation int `json:"numGenRequests"`
			} `json:"inflightBatchingStats"`
			Spec *struct {
				Drafts   int64   `json:"numDraftTokens"`
				Accepted int64   `json:"numAcceptedTokens"`
				Requests int64   `json:"numRequestsWithDraftTokens"`
				Length   float64 `json:"acceptanceLength"`
			} `json:"specDecodingStats"`
		}
		if err := json.Unmarshal([]byte(r.get("/metrics").raw), &steps); err != nil {
			t.Fatal(err)
		}
		if int64(len(steps)) != s.PrefillSteps+s.DecodeSteps {
			t.Fatalf("got %d iterations, want %d", len(steps), s.PrefillSteps+s.DecodeSteps)
		}
		var drafts, accepted, requests int64
		for i, step := range steps {
			latency, generation := 10., 1
			if i == 0 {
				latency, generation = 20, 0
			}
			if step.Iter != i+1 || step.Latency != latency || step.Batch.Generation != generation || step.Batch.Context != 1-generation {
				t.Errorf("iteration %d: got %+v", i+1, step)
			}
			if step.Spec != nil {
				drafts += step.Spec.Drafts
				accepted += step.Spec.Accepted
				requests += step.Spec.Requests
			}
		}
		if drafts != s.DraftTokens || accepted != s.AcceptedTokens || requests != s.VerifySteps {
			t.Errorf("got %d drafts, %d accepted, %d verified, want %d, %d, %d", drafts, accepted, requests, s.DraftTokens, s.AcceptedTokens, s.VerifySteps)
		}
		if again := r.get("/metrics").raw; again != "[]" {
			t.Errorf("read again: got %s, want []", again)
		}
	})
}

func TestLMDeployTakesNoFlatListOfIDs(t *testing.T) {
	bubble(t, endless(LMDeploy), func(r *rig) {
		if got := r.post("/v1/completions", `{"prompt":[1,2,3],"max_tokens":1}`); got.status != 400 || !strings.Contains(got.raw, "prompt must be a string or a list of strings") {
			t.Errorf("completions: got %d %s", got.status, got.raw)
		}
		got := r.post("/generate", `{"input_ids":[1,2,3],"max_tokens":1}`)
		if !strings.Contains(got.raw, `"prompt_tokens":3,"completion_tokens":1}`) {
			t.Errorf("generate: got %d %s", got.status, got.raw)
		}
		if got := r.post("/v1/encode", `{"input":"a b"}`); !strings.HasSuffix(got.raw, `"length":3}`) {
			t.Errorf("encode: got %s", got.raw)
		}
	})
}
