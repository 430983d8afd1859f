package fakellm

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An adapter is another model: it is listed, answers in its own words, and only the
// field that its engine reads asks for it.
func TestAdapters(t *testing.T) {
	for _, tt := range []struct {
		engine, path, body, want string
		status                   int
	}{
		{VLLM, "/v1/completions", `{"model":"sql","prompt":"a b"}`, "sql", 200},
		{VLLM, "/v1/completions", `{"model":"m","lora_path":"sql","prompt":"a b"}`, "", 200},
		{VLLM, "/v1/completions", `{"model":"poet","prompt":"a b"}`, "", 404},
		{SGLang, "/v1/completions", `{"model":"m","lora_path":"sql","prompt":"a b"}`, "sql", 200},
		{SGLang, "/generate", `{"text":"a b","lora_path":"sql"}`, "sql", 200},
		{SGLang, "/generate", `{"text":"a b","lora_path":null}`, "", 200},
		{SGLang, "/generate", `{"text":"a b","lora_path":"poet"}`, "", 400},
		{TGI, "/generate", `{"inputs":"a b","parameters":{"adapter_id":"sql"}}`, "sql", 200},
		{Triton, "/v2/models/ensemble/generate", `{"text_input":"a b","max_tokens":3,"lora_task_id":7}`, "7", 200},
		{Triton, "/v2/models/ensemble/generate", `{"text_input":"a b","max_tokens":3,"lora_task_id":8}`, "", 400},
		{LlamaCPP, "/completion", `{"prompt":"a b","n_predict":3,"lora":[{"id":3,"scale":0},{"id":7,"scale":1}]}`, "7", 200},
		{LlamaCPP, "/completion", `{"prompt":"a b","n_predict":3,"lora":[{"id":7,"scale":0}]}`, "", 200},
	} {
		c := exact()
		c.Model, c.Engine, c.Adapters = "m", tt.engine, []string{"sql", "7"}
		bubble(t, c, func(r *rig) {
			got := r.post(tt.path, tt.body)
			trace := r.engine.Stats().Requests[0]
			if got.status != tt.status || trace.Adapter != tt.want {
				t.Errorf("%s %s: status %d with adapter %q, want %d with %q: %s", tt.engine, tt.body, got.status, trace.Adapter, tt.status, tt.want, got.raw)
			}
		})
	}
}

func TestAdaptersAreListedAndSayOtherThings(t *testing.T) {
	c := exact()
	c.Model, c.Engine, c.Adapters = "m", VLLM, []string{"sql"}
	bubble(t, c, func(r *rig) {
		var list struct {
			Data []struct {
				ID     string  `json:"id"`
				Parent *string `json:"parent"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(r.get("/v1/models").raw), &list); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, m := range list.Data {
			got[m.ID] = "none"
			if m.Parent != nil {
				got[m.ID] = *m.Parent
			}
		}
		if d := cmp.Diff(map[string]string{"m": "none", "sql": "m"}, got); d != "" || list.Data[0].ID != "m" {
			t.Errorf("models and their parents (-want +got):\n%s", d)
		}
		said := map[string]string{}
		for _, model := range []string{"m", "sql", "sql"} {
			var answer struct {
				Model   string `json:"model"`
				Choices []struct {
					Text string `json:"text"`
				} `json:"choices"`
			}
			if err := json.Unmarshal([]byte(r.post("/v1/completions", `{"model":"`+model+`","prompt":"a b","temperature":0,"max_tokens":8}`).raw), &answer); err != nil {
				t.Fatal(err)
			}
			text := answer.Choices[0].Text
			if before, ok := said[model]; ok && before != text || answer.Model != model {
				t.Errorf("%s calls itself %q and says %q after %q", model, answer.Model, text, before)
			}
			said[model] = text
		}
		if said["m"] == said["sql"] {
			t.Errorf("the model and its adapter both say %q", said["m"])
		}
	})
}
