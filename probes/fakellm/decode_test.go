package fakellm

import (
	"encoding/json"
	"testing"
)

// nativeEvent is an event of /generate as a client reads it.
type nativeEvent struct {
	Text      string
	OutputIDs []int `json:"output_ids"`
	Meta      struct {
		ID           string
		FinishReason *struct {
			Type    string
			Length  int
			Matched int
			Message string
		} `json:"finish_reason"`
		PromptTokens     int     `json:"prompt_tokens"`
		CompletionTokens int     `json:"completion_tokens"`
		CachedTokens     int     `json:"cached_tokens"`
		E2E              float64 `json:"e2e_latency"`
		AcceptLength     float64 `json:"spec_accept_length"`
		VerifyCt         int     `json:"spec_verify_ct"`
		Histogram        []int   `json:"spec_accept_histogram"`
	} `json:"meta_info"`
}

// decodeLast reads the last token event of a native stream.
func decodeLast(t *testing.T, r reply) nativeEvent {
	t.Helper()
	if r.err != nil || len(r.events) < 2 || r.events[len(r.events)-1].data != "[DONE]" {
		t.Fatalf("reply: got status %d, error %v, %d events, want a complete stream: %s", r.status, r.err, len(r.events), r.raw)
	}
	var ev nativeEvent
	if err := json.Unmarshal([]byte(r.events[len(r.events)-2].data), &ev); err != nil {
		t.Fatalf("last event: %v", err)
	}
	return ev
}

// decodeIDs asks the engine to tokenize.
func decodeIDs(t *testing.T, r *rig, text string) []int {
	t.Helper()
	body, err := json.Marshal(map[string]string{"prompt": text})
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Tokens []int }
	if err := json.Unmarshal([]byte(r.post("/tokenize", string(body)).raw), &out); err != nil {
		t.Fatalf("tokenize: %v", err)
	}
	return out.Tokens
}
