package fakellm

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// All events of one step tell the count at its end.
func TestLlamaCountsByStep(t *testing.T) {
	c := endless(LlamaCPP)
	c.Speculation = Speculation{3, 2.5}
	bubble(t, c, func(r *rig) {
		got := r.post("/completion", `{"prompt":"a","n_predict":40,"stream":true}`)
		reached, n := map[time.Duration]int{}, 0
		for _, at := range got.times() {
			n++
			reached[at] = n
		}
		if len(reached) == 40 {
			t.Error("got no burst")
		}
		for _, ev := range got.events[:40] {
			if want := fmt.Sprintf(`"tokens_predicted":%d,`, reached[ev.at]); !strings.Contains(ev.data, want) {
				t.Errorf("at %v: got %s, want %s", ev.at, ev.data, want)
			}
		}
	})
}

// Some engines end an answer where it ends, whatever they are asked.
func TestWhoKnowsIgnoreEOS(t *testing.T) {
	knows := map[string]bool{LMDeploy: true, TRTLLM: true, Truss: true, LlamaCPP: true, Dynamo: true}
	for _, d := range dialects() {
		if d.engine == Anthropic || d.engine == OpenAIResponses {
			continue // they refuse it
		}
		c := exact()
		c.Engine, c.MeanOutputTokens = d.engine, 5
		bubble(t, c, func(r *rig) {
			d.said(t, r.post(d.path, d.body(200, true, `"ignore_eos":true,`)))
			if n := r.engine.Stats().Requests[0].OutputTokens(); (n == 200) != knows[d.engine] {
				t.Errorf("%v: got %d of 200 tokens, want all: %v", d, n, knows[d.engine])
			}
		})
	}
}

// How many events 4 tokens make tells what has an event of its own: the role, the
// finish reason, the usage, the end.
func TestEventsOfFourTokens(t *testing.T) {
	want := map[string]int{
		LMDeploy + "/generate": 6, LMDeploy + "/v1/completions": 7, LMDeploy + "/v1/chat/completions": 8,
		Triton + "/v2/models/ensemble/generate_stream": 4, Truss + "/v1/models/model:predict": 6,
		TRTLLM + "/v1/completions": 6, TRTLLM + "/v1/chat/completions": 7,
		TGI + "/generate_stream": 4, TGI + "/v1/completions": 5, TGI + "/v1/chat/completions": 7,
		LlamaCPP + "/completion": 5, LlamaCPP + "/v1/completions": 6, LlamaCPP + "/v1/chat/completions": 8,
		Ollama + "/api/generate": 5, Ollama + "/api/chat": 5, Ollama + "/v1/completions": 7, Ollama + "/v1/chat/completions": 7,
		Dynamo + "/v1/completions": 7, Dynamo + "/v1/chat/completions": 7,
		// start, block start, ping, 4, block stop, delta, stop
		Anthropic + "/v1/messages": 10,
		// created, in progress, item and part added, 4, text, part and item done, incomplete
		OpenAIResponses + "/v1/responses": 12, OpenAIResponses + "/v1/chat/completions": 8,
	}
	for _, d := range dialects() {
		bubble(t, endless(d.engine), func(r *rig) {
			if got := r.post(d.path, d.body(4, true, "")); len(got.events) != want[d.String()] {
				t.Errorf("%v: got %d events, want %d: %s", d, len(got.events), want[d.String()], got.raw)
			}
		})
	}
}
