package backend

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

// result is what a test compares of a record; nil is unknown.
type result struct {
	Outcome     probes.Outcome
	Chunks      []time.Duration
	Tokens      []int
	Text        string
	Finish      string
	N, Prompt   any
	Cached      any
	TTFT, TPOT  any
	E2E, Answer any
	End         any
	Flags       []string
}

func resultOf(rec probes.Record) result {
	return result{
		Outcome: rec.Outcome, Chunks: chunkTimes(rec), Tokens: chunkTokens(rec), Text: rec.Text, Finish: rec.FinishReason,
		N: known(rec.OutputTokens), Prompt: known(rec.PromptTokens), Cached: known(rec.CachedTokens),
		TTFT: known(rec.TTFT()), TPOT: known(rec.TPOT()), E2E: known(rec.E2E()), Answer: known(rec.TimeToFirstAnswer()),
		End: known(rec.End), Flags: rec.Flags.Names(),
	}
}

func every(n int, first, gap time.Duration) []time.Duration {
	at := make([]time.Duration, n)
	for i := range at {
		at[i] = first + time.Duration(i)*gap
	}
	return at
}

func repeat(n, v int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func TestTimelines(t *testing.T) {
	type duration = time.Duration
	zero := duration(0)
	tests := []struct {
		script, backend string
		limits          probes.Timeouts
		want            result
	}{
		{script: "awkward-cuts.jsonl", backend: "vllm-chat", want: result{ // vllm-project/vllm#51172
			Outcome: probes.OK, Chunks: []duration{131 * ms, 150 * ms, 150 * ms}, Tokens: []int{0, 0, 0}, Text: "one two three", Finish: "stop",
			TTFT: 131 * ms, E2E: 150 * ms, Answer: 131 * ms, End: 175 * ms, Flags: []string{"coalesced"}}},
		{script: "no-blank-after-data.sse", backend: "vllm-chat", want: result{ // openai/openai-python#498
			Outcome: probes.OK, Chunks: every(2, 0, 0), Tokens: []int{1, 1}, Text: "ok then", Finish: "stop", N: 2, Prompt: 6,
			TTFT: zero, TPOT: zero, E2E: zero, Answer: zero, End: zero, Flags: []string{"coalesced"}}},
		{script: "heartbeats.jsonl", backend: "vllm-chat", limits: probes.Timeouts{Idle: 1500 * ms}, want: result{ // sgl-project/sglang#29251
			Outcome: probes.OK, Chunks: []duration{4200 * ms, 4250 * ms}, Tokens: []int{1, 1}, Text: "Warm up", Finish: "stop", N: 2, Prompt: 900,
			TTFT: 4200 * ms, TPOT: 50 * ms, E2E: 4250 * ms, Answer: 4200 * ms, End: 4260 * ms}},
		{script: "heartbeats.jsonl", backend: "vllm-chat", limits: probes.Timeouts{FirstToken: 3 * time.Second}, want: result{
			Outcome: probes.TimeoutFirstToken, End: 3000 * ms}},
		{script: "heartbeats.jsonl", backend: "vllm-chat", limits: probes.Timeouts{Idle: 900 * ms}, want: result{
			Outcome: probes.TimeoutIdle, End: 900 * ms}},
		{script: "error-field.sse", backend: "openai", want: result{Outcome: probes.StreamError, End: zero}},      // ggml-org/llama.cpp#16109
		{script: "error-event.sse", backend: "openai-chat", want: result{Outcome: probes.StreamError, End: zero}}, // huggingface/huggingface_hub#2514
		{script: "clean-close.sse", backend: "openai-chat", want: result{ // vllm-project/vllm#54628
			Outcome: probes.Truncated, Chunks: every(3, 0, 0), Tokens: []int{0, 0, 0}, Text: "The answer is", End: zero, Flags: []string{"coalesced"}}},
		{script: "end-mark-then-silence.jsonl", backend: "vllm-chat", want: result{ // darshi1337/apogee#139
			Outcome: probes.OK, Chunks: []duration{50 * ms, 80 * ms}, Tokens: []int{1, 1}, Text: "done soon", Finish: "stop", N: 2, Prompt: 5,
			TTFT: 50 * ms, TPOT: 30 * ms, E2E: 80 * ms, Answer: 50 * ms, End: 90 * ms}},
		{script: "empty-choices.sse", backend: "openai-chat", want: result{ // triton-inference-server/perf_analyzer#413
			Outcome: probes.OK, Chunks: every(2, 0, 0), Tokens: []int{0, 0}, Text: "Blue sky", Finish: "stop", N: 3, Prompt: 11,
			TTFT: zero, TPOT: zero, E2E: zero, Answer: zero, End: zero, Flags: []string{"coalesced"}}},
		{script: "cumulative.sse", backend: "sglang", want: result{ // sgl-project/sglang#215
			Outcome: probes.OK, Chunks: every(3, 0, 0), Tokens: []int{1, 1, 2}, Text: "The cat sat", Finish: "length", N: 4, Prompt: 7,
			TTFT: zero, TPOT: zero, E2E: zero, Answer: zero, End: zero, Flags: []string{"coalesced"}}},
		{script: "role-first.jsonl", backend: "vllm-chat", want: result{ // vllm-project/vllm#3768
			Outcome: probes.OK, Chunks: []duration{480 * ms, 500 * ms}, Tokens: []int{1, 1}, Text: "Hi there", Finish: "stop", N: 2, Prompt: 8,
			TTFT: 480 * ms, TPOT: 20 * ms, E2E: 500 * ms, Answer: 480 * ms, End: 502 * ms}},
		{script: "reasoning-only.jsonl", backend: "vllm-chat", want: result{ // kubernetes-sigs/inference-perf#559
			Outcome: probes.OK, Chunks: every(12, 210*ms, 30*ms), Tokens: repeat(12, 1), Finish: "length", N: 12, Prompt: 64,
			TTFT: 210 * ms, TPOT: 30 * ms, E2E: 540 * ms, End: 542 * ms}},
		{script: "tool-call-only.jsonl", backend: "vllm-chat", want: result{ // ai-dynamo/aiperf#804
			Outcome: probes.OK, Chunks: []duration{300 * ms, 500 * ms, 700 * ms}, Tokens: []int{1, 8, 8}, Finish: "tool_calls", N: 17, Prompt: 120,
			TTFT: 300 * ms, TPOT: 25 * ms, E2E: 700 * ms, Answer: 300 * ms, End: 702 * ms}},
		{script: "four-tokens-per-chunk.jsonl", backend: "vllm-chat", want: result{ // sgl-project/sglang#12064
			Outcome: probes.OK, Chunks: every(11, 100*ms, 40*ms), Tokens: append([]int{1}, repeat(10, 4)...), Finish: "length", N: 41, Prompt: 50,
			TTFT: 100 * ms, TPOT: 10 * ms, E2E: 500 * ms, Answer: 100 * ms, End: 502 * ms}},
		{script: "stops-early.jsonl", backend: "openai-chat", want: result{ // sgl-project/sglang#10746
			Outcome: probes.OK, Chunks: every(5, 1000*ms, 20*ms), Tokens: repeat(5, 1), Text: "t0 t1 t2 t3 t4 ", Finish: "stop", N: 5, Prompt: 30,
			TTFT: 1000 * ms, TPOT: 20 * ms, E2E: 1080 * ms, Answer: 1000 * ms, End: 1082 * ms}},
		{script: "ignores-stream.jsonl", backend: "openai-chat", want: result{ // BerriAI/litellm#31385
			Outcome: probes.OK, Text: "whole answer at once", Finish: "stop", N: 120, Prompt: 12,
			E2E: 2300 * ms, End: 2300 * ms, Flags: []string{"not_streamed"}}},
		{script: "running-usage.sse", backend: "vllm-chat", want: result{ // pydantic/pydantic-ai#4056
			Outcome: probes.OK, Chunks: every(5, 0, 0), Tokens: repeat(5, 1), Text: "k1k2k3k4k5", Finish: "stop", N: 5, Prompt: 9,
			TTFT: zero, TPOT: zero, E2E: zero, Answer: zero, End: zero, Flags: []string{"coalesced"}}},
		{script: "usage-beyond-text.sse", backend: "openai-chat", want: result{ // CentML/flexible-inference-bench#66
			Outcome: probes.OK, Chunks: every(3, 0, 0), Tokens: repeat(3, 0), Text: "a" + strings.Repeat(" ", 15) + "b", Finish: "length", N: 18, Prompt: 4,
			TTFT: zero, TPOT: zero, E2E: zero, Answer: zero, End: zero, Flags: []string{"coalesced"}}},
		{script: "image-prompt.sse", backend: "vllm-chat", want: result{ // vllm-project/vllm#38654
			Outcome: probes.OK, Chunks: every(1, 0, 0), Tokens: []int{0}, Text: "A dog", Finish: "stop", N: 3, Prompt: 1324, Cached: 0,
			TTFT: zero, E2E: zero, Answer: zero, End: zero}},
		{script: "gzip.jsonl", backend: "openai-chat", want: result{ // Wei-Shaw/sub2api#4691
			Outcome: probes.OK, Chunks: every(3, 900*ms, 0), Tokens: repeat(3, 1), Text: "zip me up", Finish: "stop", N: 3, Prompt: 3,
			TTFT: 900 * ms, TPOT: zero, E2E: 900 * ms, Answer: 900 * ms, End: 900 * ms, Flags: []string{"compressed", "coalesced"}}},
	}
	for _, test := range tests {
		t.Run(test.script+" "+string(test.want.Outcome), func(t *testing.T) {
			tg := target(test.backend)
			tg.Timeouts = test.limits
			rec := once(t, tg, request(), script(t, test.script))
			got := resultOf(rec)
			if test.script == "four-tokens-per-chunk.jsonl" {
				got.Text = ""
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if (rec.Error == "") != (rec.Outcome == probes.OK) {
				t.Errorf("outcome %s with error %q", rec.Outcome, rec.Error)
			}
		})
	}
}

func TestPerTokenLatencies(t *testing.T) {
	tests := []struct {
		script string
		itl    []float64
		gaps   []float64
	}{
		{"tool-call-only.jsonl", floats(16, 0.025), floats(2, 0.2)},
		{"four-tokens-per-chunk.jsonl", floats(40, 0.01), floats(10, 0.04)},
		{"stops-early.jsonl", floats(4, 0.02), floats(4, 0.02)},
		{"awkward-cuts.jsonl", nil, []float64{0.019, 0}},
	}
	for _, test := range tests {
		rec := once(t, target("vllm-chat"), request(), script(t, test.script))
		if diff := cmp.Diff(test.itl, rec.AppendITL(nil), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("%s: ITL (-want +got):\n%s", test.script, diff)
		}
		if diff := cmp.Diff(test.gaps, rec.AppendChunkGaps(nil), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("%s: chunk gaps (-want +got):\n%s", test.script, diff)
		}
	}
}

func floats(n int, v float64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// mark3labs/mcp-go#61: readers built on a default line scanner stop at 64 KiB.
func TestLongLine(t *testing.T) {
	rec := once(t, target("vllm-chat"), request(), script(t, "long-line.sse"))
	if rec.Outcome != probes.OK || known(rec.OutputTokens) != 24012 || len(rec.Chunks) == 0 {
		t.Errorf("got %s %q, %v tokens, %d token events, want ok, 24012 and some", rec.Outcome, rec.Error, known(rec.OutputTokens), len(rec.Chunks))
	}
	body := append([]byte("data: {\"choices\":[{\"text\":\""), make([]byte, 17<<20)...)
	for i := range body[27:] {
		body[27+i] = 'x'
	}
	rec = once(t, target("vllm"), request(), sse(body))
	if rec.Outcome != probes.BadResponse || !strings.Contains(rec.Error, "line too long") {
		t.Errorf("a line of 17 MiB gave %s %q, want bad_response: line too long", rec.Outcome, rec.Error)
	}
}

// kubernetes-sigs/inference-perf#746: short answers pass as success.
func TestShortOutput(t *testing.T) {
	tests := []struct {
		name       string
		backend    string
		max        int
		ignoreEOS  bool
		extra      map[string]any
		want       bool
		exact      bool
		wantLength int
	}{
		{"shorter than forced", "vllm-chat", 64, true, nil, true, true, 64},
		{"as long as forced", "vllm-chat", 11, true, nil, false, true, 11},
		{"not forced", "vllm-chat", 64, false, nil, false, false, 64},
		{"the server does not know ignore_eos", "openai-chat", 64, true, nil, false, false, 64},
		{"lifted by an extra field", "vllm-chat", 64, true, map[string]any{"ignore_eos": false}, false, false, 64},
		{"length changed by an extra field", "vllm-chat", 64, true, map[string]any{"max_completion_tokens": 11}, false, true, 11},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req := request()
			req.MaxOutputTokens, req.Sampling.IgnoreEOS, req.Sampling.ExtraBody = test.max, test.ignoreEOS, test.extra
			rec := once(t, target(test.backend), req, script(t, "short-output.sse"))
			if known(rec.OutputTokens) != 11 || rec.Outcome != probes.OK {
				t.Fatalf("got %s with %v tokens, want ok with 11", rec.Outcome, known(rec.OutputTokens))
			}
			if rec.Flags.Has(probes.ShortOutput) != test.want || rec.ExactOutput != test.exact || rec.RequestedOutput != test.wantLength {
				t.Errorf("short %v, exact %v of %d, want %v, %v of %d", rec.Flags.Has(probes.ShortOutput), rec.ExactOutput, rec.RequestedOutput,
					test.want, test.exact, test.wantLength)
			}
			if rec.E2E().IsKnown() == test.want {
				t.Errorf("E2E is %v although short is %v", rec.E2E(), test.want)
			}
		})
	}
}

// mozilla-ai/any-llm-go#152: a bound on the whole request kills a healthy stream.
func TestBounds(t *testing.T) {
	second := time.Second
	usual := probes.Timeouts{Connect: second, FirstToken: 2 * second, Idle: second}
	with := func(change func(*probes.Timeouts)) probes.Timeouts {
		limits := usual
		change(&limits)
		return limits
	}
	long := tokens(120, 60*ms, 50*ms, "close")
	tests := []struct {
		name    string
		limits  probes.Timeouts
		script  timeline
		outcome probes.Outcome
		end     time.Duration
		chunks  int
		ttft    any
	}{
		{"no total bound", usual, long, probes.OK, 6010 * ms, 120, 60 * ms},
		{"total", with(func(l *probes.Timeouts) { l.Total = 3 * second }), long, probes.TimeoutTotal, 3 * second, 59, 60 * ms},
		{"no bound at all", probes.Timeouts{}, long, probes.OK, 6010 * ms, 120, 60 * ms},
		{"silence after a token", usual, tokens(3, 100*ms, 50*ms, "hold"), probes.TimeoutIdle, 1200 * ms, 3, 100 * ms},
		{"no first token", with(func(l *probes.Timeouts) { l.Idle = 0 }), tokens(1, 5*second, 0, "close"), probes.TimeoutFirstToken, 2 * second, 0, nil},
		{"silence is shorter than the first token's bound", usual, tokens(1, 5*second, 0, "close"), probes.TimeoutIdle, second, 0, nil},
		{"the end mark is still due", with(func(l *probes.Timeouts) { l.FirstToken = 100 * ms }), tokens(2, 90*ms, 500*ms, "close"), probes.OK, 590 * ms, 2, 90 * ms},
		{"no answer at all", usual, timeline{200, nil, []step{{at: 30 * second, end: "close"}}}, probes.TimeoutIdle, second, 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tg := target("vllm-chat")
			tg.Timeouts = test.limits
			rec := once(t, tg, request(), test.script)
			if rec.Outcome != test.outcome || known(rec.End) != test.end {
				t.Errorf("got %s (%s) at %v, want %s at %v", rec.Outcome, rec.Error, rec.End, test.outcome, test.end)
			}
			if n := len(rec.Chunks); n != test.chunks {
				t.Errorf("got %d token events, want %d", n, test.chunks)
			}
			if got := known(rec.TTFT()); got != test.ttft {
				t.Errorf("TTFT %v, want %v", got, test.ttft)
			}
			if test.outcome != probes.OK && (rec.E2E().IsKnown() || rec.TPOT().IsKnown()) {
				t.Errorf("a cut request has E2E %v and TPOT %v", rec.E2E(), rec.TPOT())
			}
		})
	}
}

func TestHeartbeatsDoNotOutrunABound(t *testing.T) {
	tl := timeline{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}}
	for i := range 5000 {
		tl.steps = append(tl.steps, step{at: time.Duration(i) * ms, data: []byte(": ping\n\n")})
	}
	tg := target("vllm-chat")
	tg.Timeouts.FirstToken = 2 * time.Second
	rec := once(t, tg, request(), tl)
	if rec.Outcome != probes.TimeoutFirstToken || known(rec.End) != 2*time.Second {
		t.Errorf("got %s at %v, want timeout_first_token at 2s", rec.Outcome, rec.End)
	}
}

// A server in trouble may leave the socket open after its error.
func TestErrorThenSilence(t *testing.T) {
	tl := tokens(1, 100*ms, 0, "hold")
	tl.steps = append(tl.steps[:1:1], step{at: 200 * ms, data: []byte("data: {\"error\":\"out of memory\"}\n\n")}, step{at: 200 * ms, end: "hold"})
	rec := once(t, target("vllm-chat"), request(), tl)
	if rec.Outcome != probes.StreamError || rec.Error != "out of memory" || known(rec.End) != 1200*ms {
		t.Errorf("got %s %q at %v, want stream_error at 1.2s", rec.Outcome, rec.Error, rec.End)
	}
}

func TestCancelKeepsWhatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []timeline{script(t, "four-tokens-per-chunk.jsonl")}}
		c := newClient(t, target("vllm-chat"), s)
		ctx, cancel := contextWithTimeout(t, 250*ms)
		defer cancel()
		rec := c.Do(ctx, probes.NewClock(), request(), 0)
		c.Close()
		if rec.Outcome != probes.Cancelled || known(rec.End) != 250*ms {
			t.Errorf("got %s (%s) at %v, want cancelled at 250ms", rec.Outcome, rec.Error, rec.End)
		}
		if diff := cmp.Diff([]int{1, 4, 4, 4}, chunkTokens(rec)); diff != "" || known(rec.OutputTokens) != 13 {
			t.Errorf("%v tokens, chunks (-want +got):\n%s", known(rec.OutputTokens), diff)
		}
		time.Sleep(time.Hour)
	})
}

// Answers that were not asked for as a stream are silent while they are made.
func TestNotStreamed(t *testing.T) {
	req := request()
	req.Sampling.Stream = false
	tg := target("sglang")
	tg.Timeouts = probes.Timeouts{FirstToken: time.Second, Idle: time.Second}
	body := `{"text":"All at once.","meta_info":{"prompt_tokens":9,"completion_tokens":5,"cached_tokens":0,"finish_reason":{"type":"length","length":5}}}`
	want := result{
		Outcome: probes.OK, Text: "All at once.", Finish: "length", N: 5, Prompt: 9, Cached: 0,
		E2E: 4 * time.Second, End: 4 * time.Second, Flags: []string{"not_streamed"},
	}
	if diff := cmp.Diff(want, resultOf(once(t, tg, req, answer(200, 4*time.Second, "application/json", body)))); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	tg.Timeouts.Total = 3 * time.Second
	rec := once(t, tg, req, answer(200, 4*time.Second, "application/json", body))
	if rec.Outcome != probes.TimeoutTotal || known(rec.End) != 3*time.Second {
		t.Errorf("got %s at %v, want timeout_total at 3s", rec.Outcome, rec.End)
	}
}

// More cached tokens than the prompt has are a mistake, and not known.
func TestCachedTokensAreOfThePrompt(t *testing.T) {
	req := request()
	req.Sampling.Stream = false
	for cached, want := range map[string]probes.Optional[int]{"9": probes.Known(9), "10": {}, "1000000000": {}, "-1": {}} {
		body := `{"text":"a","meta_info":{"cached_tokens":` + cached + `,"prompt_tokens":9,"completion_tokens":5,"finish_reason":{"type":"length"}}}`
		rec := once(t, target("sglang"), req, answer(200, time.Second, "application/json", body))
		if rec.CachedTokens != want || known(rec.PromptTokens) != 9 {
			t.Errorf("cached_tokens %s of 9: %v of %v, want %v of 9", cached, rec.CachedTokens, rec.PromptTokens, want)
		}
	}
}

// ollama/ollama#3427: the count of a cached prompt disappears.
func TestOllamaWithoutPromptCount(t *testing.T) {
	rec := once(t, target("ollama"), request(), streamOf(mustRead(t, "timelines", "ollama-no-prompt-count.ndjson"), ".ndjson"))
	if rec.Outcome != probes.OK || rec.Text != "Hello!" || known(rec.OutputTokens) != 3 || len(rec.Chunks) != 3 || rec.FinishReason != "stop" {
		t.Errorf("got %s, %q, %v tokens in %d chunks, finish %q, want ok, Hello!, 3, 3, stop", rec.Outcome, rec.Text, known(rec.OutputTokens), len(rec.Chunks), rec.FinishReason)
	}
	if rec.PromptTokens.IsKnown() || rec.CachedTokens.IsKnown() || rec.ServerPrefill.IsKnown() {
		t.Errorf("prompt %v, cached %v, prefill %v, want all unknown", rec.PromptTokens, rec.CachedTokens, rec.ServerPrefill)
	}
	if known(rec.ServerDecode) != 90*ms {
		t.Errorf("server's decode took %v, want 90ms", rec.ServerDecode)
	}
}

// llama-server tells the progress of a long prompt in events of the answer's own shape,
// the first of them at once.
func TestPromptProgressIsNoToken(t *testing.T) {
	body := string(mustRead(t, "captured", "llama-server-long_prefill_progress.sse"))
	second := strings.Index(body, `data: {"index":0,"content":"","tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":0,"tokens_evaluated":1602,"prompt_progress":{"total":1602,"cache":0,"processed":1602`)
	token := strings.Index(body, `data: {"index":0,"content":",",`)
	if second < 0 || token < 0 {
		t.Fatal("the captured stream is another one")
	}
	rec := once(t, target("llamacpp"), request(), timeline{200, map[string]string{"Content-Type": "text/event-stream"}, []step{
		{at: 6 * ms, data: []byte(body[:second])}, {at: 428 * ms, data: []byte(body[second:token])}, {at: 431 * ms, data: []byte(body[token:])}, {at: 432 * ms, end: "close"},
	}})
	if rec.Outcome != probes.OK || known(rec.TTFT()) != 431*ms || known(rec.PromptTokens) != 1602 || known(rec.OutputTokens) != 8 {
		t.Errorf("got %s, TTFT %v, prompt %v, %v tokens, want ok, 431ms, 1602, 8", rec.Outcome, rec.TTFT(), rec.PromptTokens, rec.OutputTokens)
	}
}
