package fakellm

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBatchOfOneHasExactTimes(t *testing.T) {
	// 9 words and the beginning of sequence: 10 + 10 ms of prefill, then 8 + 2 ms a step.
	for _, tt := range []struct{ engine, path, body string }{
		{SGLang, "/generate", generateBody(words(9), 4)},
		{SGLang, "/v1/completions", completionBody(words(9), 4)},
		{VLLM, "/v1/completions", completionBody(words(9), 4)},
		{SGLang, "/v1/chat/completions", chatBody(words(5), 4)},
		{VLLM, "/v1/chat/completions", chatBody(words(5), 4)},
	} {
		t.Run(tt.engine+tt.path, func(t *testing.T) {
			c := exact()
			c.Engine = tt.engine
			bubble(t, c, func(r *rig) {
				got := r.post(tt.path, tt.body)
				if diff := cmp.Diff(ms(20, 30, 40, 50), got.times()); diff != "" {
					t.Errorf("token times (-want +got):\n%s", diff)
				}
				wantHeaders := time.Duration(0)
				if tt.engine == SGLang && tt.path != "/generate" {
					wantHeaders = 20 * time.Millisecond
				}
				if got.headers != wantHeaders {
					t.Errorf("headers: got %v, want %v", got.headers, wantHeaders)
				}
				if !strings.HasSuffix(got.raw, "\n\ndata: [DONE]\n\n") {
					t.Errorf("end: got %q, want an end mark", got.raw)
				}
				s := r.engine.Stats()
				want := []SentEvent{{20 * time.Millisecond, 1}, {30 * time.Millisecond, 1}, {40 * time.Millisecond, 1}, {50 * time.Millisecond, 1}}
				if diff := cmp.Diff(want, s.Requests[0].Sent); diff != "" {
					t.Errorf("truth (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// together posts n bodies at one instant.
func (r *rig) together(path string, bodies ...string) []reply {
	replies := make([]reply, len(bodies))
	var wg sync.WaitGroup
	for i, body := range bodies {
		wg.Go(func() { replies[i] = r.post(path, body) })
	}
	wg.Wait()
	return replies
}

func TestStepGrowsWithTheBatch(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		body := generateBody(words(9), 3)
		// Four prompts of 10 tokens are prefilled in one step of 10 + 40 ms; a step
		// of four takes 8 + 4 x 2 ms.
		for i, got := range r.together("/generate", body, body, body, body) {
			if diff := cmp.Diff(ms(50, 66, 82), got.times()); diff != "" {
				t.Errorf("request %d (-want +got):\n%s", i, diff)
			}
		}
		if s := r.engine.Stats(); s.PrefillSteps != 1 || s.DecodeSteps != 2 {
			t.Errorf("steps: got %d prefill, %d decode, want 1, 2", s.PrefillSteps, s.DecodeSteps)
		}
	})
}

func TestPrefillHoldsUpRunningSequences(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		var first reply
		var wg sync.WaitGroup
		wg.Go(func() { first = r.post("/generate", generateBody(words(9), 4)) })
		time.Sleep(25 * time.Millisecond) // in the middle of the first decode step
		second := r.post("/generate", generateBody(words(9), 2))
		wg.Wait()
		// Decode until 30, prefill of the second until 50, then two share a step of 12 ms.
		if diff := cmp.Diff(ms(20, 30, 62, 72), first.times()); diff != "" {
			t.Errorf("first (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ms(25, 37), second.times()); diff != "" {
			t.Errorf("second (-want +got):\n%s", diff)
		}
	})
}

func TestFullSlotsQueue(t *testing.T) {
	c := exact()
	c.MaxBatch = 1
	bubble(t, c, func(r *rig) {
		body := generateBody(words(9), 3) // 20 + 2 x 10 ms of engine time
		replies := make(chan reply, 3)
		for range 3 {
			go func() { replies <- r.post("/generate", body) }()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond)
		if s := r.engine.Stats(); s.Running != 1 || s.Waiting != 2 {
			t.Errorf("at 5 ms: got %d running, %d waiting, want 1, 2", s.Running, s.Waiting)
		}
		for i, want := range [][]time.Duration{ms(20, 30, 40), ms(59, 69, 79), ms(98, 108, 118)} {
			got := <-replies
			if diff := cmp.Diff(want, got.times()); diff != "" {
				t.Errorf("request %d (-want +got):\n%s", i, diff)
			}
		}
		s := r.engine.Stats()
		for i, want := range ms(0, 39, 78) {
			// The batch is formed a nanosecond after the step before has ended.
			if got := s.Requests[i].Queued - time.Nanosecond; got != want {
				t.Errorf("request %d queued: got %v, want %v", i, got, want)
			}
		}
	})
}

func TestLongPromptsDoNotShareAPrefillStep(t *testing.T) {
	c := exact()
	c.MaxPrefillTokens = 15
	bubble(t, c, func(r *rig) {
		body := generateBody(words(9), 1)
		replies := r.together("/generate", body, body)
		got := []time.Duration{min(replies[0].end, replies[1].end), max(replies[0].end, replies[1].end)}
		if diff := cmp.Diff(ms(20, 40), got); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
}

func TestPrefixHitShortensTTFT(t *testing.T) {
	c := Config{
		PrefillBase: 56 * time.Millisecond, PrefillTokensPerSecond: 1000, ContextLength: 8192,
		Cache: PrefixCache{Blocks: 1000},
	}
	bubble(t, c, func(r *rig) {
		prompt := words(3939)
		for i, tt := range []struct {
			prompt string
			want   time.Duration
			cached int
		}{
			{prompt, 3996 * time.Millisecond, 0},
			{prompt, 60 * time.Millisecond, 3936}, // 246 blocks of 16; 4 tokens are left
			{"salt " + prompt, 3997 * time.Millisecond, 0},
			{prompt + " tail", 61 * time.Millisecond, 3936},
		} {
			got := r.post("/generate", generateBody(tt.prompt, 1))
			if got.times()[0] != tt.want {
				t.Errorf("prompt %d: got TTFT %v, want %v", i, got.times()[0], tt.want)
			}
			if cached := r.engine.Stats().Requests[i].CachedTokens; cached != tt.cached {
				t.Errorf("prompt %d: got %d cached tokens, want %d", i, cached, tt.cached)
			}
		}
		if got := r.get("/flush_cache"); got.status != 200 {
			t.Fatalf("flush_cache: got status %d, want 200", got.status)
		}
		if got := r.post("/generate", generateBody(prompt, 1)); got.times()[0] != 3996*time.Millisecond {
			t.Errorf("after the flush: got TTFT %v, want 3.996s", got.times()[0])
		}
	})
}

func TestAnswersAreCachedForTheNextTurn(t *testing.T) {
	c := exact()
	c.Cache.Blocks = 100
	bubble(t, c, func(r *rig) {
		first := r.post("/generate", generateBody(words(15), 32))
		answer := decodeLast(t, first).Text
		second := r.post("/generate", generateBody(words(15)+"\n"+answer, 1))
		// The line break changes the token that begins the answer: only the first
		// block, the prompt, is found again.
		if got := decodeLast(t, second).Meta.CachedTokens; got != 16 {
			t.Errorf("other text: got %d cached tokens, want 16", got)
		}
		ids := appendInts(nil, append(decodeIDs(t, r, words(15)), decodeLast(t, first).OutputIDs...))
		third := r.post("/generate", `{"input_ids":`+string(ids)+`,"sampling_params":{"max_new_tokens":1,"ignore_eos":true},"stream":true}`)
		if got := decodeLast(t, third).Meta.CachedTokens; got != 32 {
			t.Errorf("same ids: got %d cached tokens, want 32", got)
		}
	})
}

func TestSpeculationMeetsItsAcceptLength(t *testing.T) {
	for _, want := range []Speculation{{3, 1}, {3, 2.5}, {4, 3.2}, {2, 3}} {
		c := exact()
		c.Seed, c.Speculation, c.ContextLength = 7, want, 1<<20
		bubble(t, c, func(r *rig) {
			const n = 20000
			got := r.post("/v1/completions", completionBody(words(9), n))
			s := r.engine.Stats()
			if s.GeneratedTokens != n || s.VerifiedTokens != n-1 {
				t.Errorf("tokens: got %d of which %d verified, want %d, %d", s.GeneratedTokens, s.VerifiedTokens, n, n-1)
			}
			if events := int64(len(got.times())); events != s.VerifySteps+1 {
				t.Errorf("events: got %d, want %d", events, s.VerifySteps+1)
			}
			// Five standard errors of a mean over the verify steps, whose deviation
			// is at most half the range.
			bound := 5 * float64(want.DraftTokens) / 2 / math.Sqrt(float64(s.VerifySteps))
			if math.Abs(s.AcceptLength()-want.AcceptLength) > bound {
				t.Errorf("accept length: got %v, want %v +- %v", s.AcceptLength(), want.AcceptLength, bound)
			}
			if s.AcceptedTokens+s.VerifySteps != s.VerifiedTokens || s.DraftTokens != s.VerifySteps*int64(want.DraftTokens) {
				t.Errorf("counters do not add up: %+v", s.Totals)
			}
			// A step's length does not depend on how much is accepted.
			if end := 20*time.Millisecond + time.Duration(s.VerifySteps)*10*time.Millisecond; got.end != end {
				t.Errorf("end: got %v, want %v", got.end, end)
			}
		})
	}
}

func TestDisconnectFreesTheSlotAtOnce(t *testing.T) {
	c := exact()
	c.MaxBatch = 1
	bubble(t, c, func(r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		go r.send(ctx, "/generate", generateBody(words(9), 1000), nil)
		time.Sleep(35 * time.Millisecond)
		cancel()
		synctest.Wait()
		if s := r.engine.Stats(); s.Running != 0 || s.Aborted != 1 || s.GeneratedTokens != 2 {
			t.Errorf("got %d running, %d aborted, %d tokens, want 0, 1, 2", s.Running, s.Aborted, s.GeneratedTokens)
		}
		// The step in progress is completed (5 ms), then the slot is taken.
		if got := r.post("/generate", generateBody(words(9), 1)); got.end != 25*time.Millisecond {
			t.Errorf("next request: got %v, want 25ms", got.end)
		}
	})
}

func TestWaitingRequestMayLeave(t *testing.T) {
	c := exact()
	c.MaxBatch = 1
	bubble(t, c, func(r *rig) {
		go r.post("/generate", generateBody(words(9), 10))
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		r.send(ctx, "/generate", generateBody(words(9), 10), nil)
		synctest.Wait()
		s := r.engine.Stats()
		if s.Running != 1 || s.Waiting != 0 || s.Aborted != 1 {
			t.Errorf("got %d running, %d waiting, %d aborted, want 1, 0, 1", s.Running, s.Waiting, s.Aborted)
		}
		time.Sleep(time.Second)
		if s := r.engine.Stats(); s.Finished != 1 || s.PromptTokens != 10 {
			t.Errorf("got %d finished, %d prompt tokens, want 1, 10", s.Finished, s.PromptTokens)
		}
	})
}

func TestSlowReaderStillGetsEveryEvent(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		resp, err := r.client.Post("http://engine/generate", "application/json", strings.NewReader(generateBody(words(9), 50)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		time.Sleep(10 * time.Second)
		if s := r.engine.Stats(); s.Finished != 1 || s.Running != 0 {
			t.Errorf("engine: got %d finished, %d running, want 1, 0", s.Finished, s.Running)
		}
		var got reply
		got.read(resp.Body, time.Now())
		if n := len(got.times()); n != 50 {
			t.Errorf("got %d token events, want 50", n)
		}
	})
}

func TestScriptFixesEveryTime(t *testing.T) {
	c := exact()
	c.MaxBatch = 1 // a script does not queue
	c.Script = &Script{TTFT: ms(100, 300), ITL: 25 * time.Millisecond, TokensPerEvent: 2}
	bubble(t, c, func(r *rig) {
		want := [][]time.Duration{ms(100, 125, 150), ms(300, 325, 350), ms(100, 125, 150)}
		replies := make([]chan reply, len(want))
		for i := range want {
			replies[i] = make(chan reply, 1)
			go func() { replies[i] <- r.post("/v1/chat/completions", chatBody(words(50), 5)) }()
			time.Sleep(time.Millisecond)
		}
		for i := range want {
			if diff := cmp.Diff(want[i], (<-replies[i]).times()); diff != "" {
				t.Errorf("request %d (-want +got):\n%s", i, diff)
			}
		}
		s := r.engine.Stats()
		if s.Finished != 3 || s.GeneratedTokens != 15 || s.Running != 0 || s.PrefillSteps != 0 {
			t.Errorf("got %+v, want 3 finished, 15 tokens, no steps", s.Totals)
		}
		if got := s.Requests[0].OutputTokens(); got != 5 {
			t.Errorf("output tokens: got %d, want 5", got)
		}
	})
}

func TestGreedyAnswersDependOnPromptAndWeightsAlone(t *testing.T) {
	text := func(c Config, body string) string {
		var text string
		bubble(t, c, func(r *rig) {
			r.post("/generate", generateBody("another one first", 3))
			text = decodeLast(t, r.post("/generate", body)).Text
		})
		return text
	}
	base := exact()
	body := generateBody(words(9), 12)
	want := text(base, body)
	if n := CountTokens(want); n != 12 {
		t.Errorf("answer %q: got %d tokens, want 12", want, n)
	}
	other := base
	other.Seed, other.Jitter, other.MaxBatch = 99, 0.3, 2
	if got := text(other, body); got != want {
		t.Errorf("another seed: got %q, want %q", got, want)
	}
	other.Weights = "fake-8b-int4"
	if got := text(other, body); got == want {
		t.Errorf("other weights: got the same answer %q", got)
	}
	sampled := strings.Replace(body, `"temperature":0`, `"temperature":1`, 1)
	if got := text(base, sampled); got == want {
		t.Errorf("sampled: got the greedy answer %q", got)
	}
}

func TestAnswersStopByThemselves(t *testing.T) {
	c := exact()
	c.MeanOutputTokens = 50
	bubble(t, c, func(r *rig) {
		total := 0
		const n = 400
		for i := range n {
			body := strings.NewReplacer(`"ignore_eos":true`, `"ignore_eos":false`, "word", words(1+i%7)).Replace(generateBody(words(2+i/7), 4000))
			last := decodeLast(t, r.post("/generate", body))
			total += last.Meta.CompletionTokens
			if last.Meta.FinishReason.Type != "stop" || last.Meta.FinishReason.Matched != tokenEOS {
				t.Fatalf("finish reason: got %+v, want stop", last.Meta.FinishReason)
			}
			// The end-of-sequence token counts but prints nothing.
			if printed := CountTokens(last.Text); printed != last.Meta.CompletionTokens-1 {
				t.Fatalf("printed tokens: got %d of %d", printed, last.Meta.CompletionTokens)
			}
		}
		if mean := float64(total) / n; math.Abs(mean-50) > 5*0.6*50/math.Sqrt(n) {
			t.Errorf("mean length: got %v, want about 50", mean)
		}
	})
}

func TestJitterIsSeededAndCentred(t *testing.T) {
	run := func(seed int64) (gaps []time.Duration) {
		c := exact()
		c.Seed, c.Jitter = seed, 0.2
		bubble(t, c, func(r *rig) {
			at := r.post("/v1/completions", completionBody(words(9), 2001)).times()
			for i := range at[1:] {
				gaps = append(gaps, at[i+1]-at[i])
			}
		})
		return gaps
	}
	a, again, b := run(1), run(1), run(2)
	if diff := cmp.Diff(a, again); diff != "" {
		t.Errorf("same seed, different times:\n%s", diff)
	}
	if cmp.Equal(a, b) {
		t.Error("different seeds, same times")
	}
	var sum, squares float64
	for _, g := range a {
		x := g.Seconds() / 0.010
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / 2000
	cv := math.Sqrt(squares/2000-mean*mean) / mean
	if math.Abs(mean-1) > 5*0.2/math.Sqrt(2000) || math.Abs(cv-0.2) > 0.02 {
		t.Errorf("factor: got mean %v, cv %v, want 1, 0.2", mean, cv)
	}
}

func TestConfigChangesTakeEffect(t *testing.T) {
	bubble(t, exact(), func(r *rig) {
		done := make(chan reply)
		go func() { done <- r.post("/generate", generateBody(words(9), 4)) }()
		time.Sleep(25 * time.Millisecond)
		sick := exact()
		sick.DecodeBase = 98 * time.Millisecond
		if err := r.engine.SetConfig(sick); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ms(20, 30, 130, 230), (<-done).times()); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		vllm := exact()
		vllm.Engine = VLLM
		if err := r.engine.SetConfig(vllm); err == nil {
			t.Error("changing the flavour: got no error")
		}
	})
}

func TestConfigMistakesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{Engine: "gserver"}, `configure engine: read Engine: "gserver" is not one of [anthropic dynamo llamacpp lmdeploy ollama openai-responses sglang tgi triton trtllm truss vllm]`},
		{Config{DecodeBase: -1}, "configure engine: read DecodeBase: -1e-09 is out of range"},
		{Config{Jitter: math.NaN()}, "configure engine: read Jitter: NaN is out of range"},
		{Config{Speculation: Speculation{DraftTokens: 2, AcceptLength: 3.5}}, "configure engine: read Speculation: AcceptLength 3.5 must lie between 1 and DraftTokens + 1 = 3"},
		{Config{Script: &Script{}}, "configure engine: read Script: needs at least one TTFT, ITL >= 0 and TokensPerEvent >= 1"},
		{Config{Faults: []Fault{{Kind: "rot"}}}, `configure engine: read Faults[0]: read Kind: "rot" is not one of [hang_before_headers hang_after_tokens reset disconnect truncate slow error_under_200 error_mid_stream too_many_requests unavailable stall garbage wrong_model close_connection heartbeats]`},
		{Config{Faults: []Fault{{Kind: Slow, Factor: 2, Probability: 0.5}}}, "configure engine: read Faults[0]: read slow: needs Factor > 0, and is the whole engine's: no Probability, no Requests"},
	} {
		_, err := New(tt.config)
		if err == nil || err.Error() != tt.want {
			t.Errorf("New(%+v):\n got %v\nwant %s", tt.config, err, tt.want)
		}
	}
}

func TestBooksBalance(t *testing.T) {
	c := exact()
	c.MaxBatch, c.KeepRequests = 2, 3
	c.Faults = []Fault{{Kind: TooManyRequests, Requests: []int{1}}, {Kind: Reset, AfterTokens: 2, Requests: []int{2}}}
	bubble(t, c, func(r *rig) {
		for range 6 {
			go r.post("/generate", generateBody(words(9), 4))
			time.Sleep(time.Millisecond)
		}
		for range 1000 { // ms, far more than it takes
			s := r.engine.Stats()
			if got := s.Refused + s.Finished + s.Aborted + int64(s.Running+s.Waiting); got != s.Received {
				t.Fatalf("books: %d received, %d accounted for: %+v", s.Received, got, s)
			}
			if s.Running+s.Waiting == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		s := r.engine.Stats()
		if s.Received != 6 || s.Refused != 1 || s.Aborted != 1 || s.Finished != 4 {
			t.Errorf("got %+v, want 6 received, 1 refused, 1 aborted, 4 finished", s.Totals)
		}
		if len(s.Requests) != 3 || s.Requests[0].Ordinal != 4 {
			t.Errorf("kept: got %d requests from ordinal %d, want 3 from 4", len(s.Requests), s.Requests[0].Ordinal)
		}
	})
}
