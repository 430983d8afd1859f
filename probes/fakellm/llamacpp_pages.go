package fakellm

import (
	"encoding/json"
	"net/http"
	"strings"
)

func llamaHealth(_ *Engine, w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

func (e *Engine) llamaModels(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"models": []object{{"name": c.Model, "model": c.Model, "type": "model", "capabilities": []string{"completion"},
			"details": object{"format": "gguf"}}},
		"object": "list",
		"data": []object{{"id": c.Model, "aliases": []string{c.Model}, "object": "model", "created": 1767225600, "owned_by": "llamacpp",
			"meta": object{"vocab_type": 1, "n_vocab": firstSeenToken + maxSeenTokens, "n_ctx_train": c.ContextLength,
				"n_embd": 4096, "n_params": 8030261312, "size": 4912898304}}},
	}))
}

func (e *Engine) llamaProps(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	var nothing ask
	writeJSON(w, http.StatusOK, appendJSON(nil, object{
		"default_generation_settings": object{"params": nothing.llamaSettings(-1), "n_ctx": c.ContextLength},
		"total_slots":                 c.MaxBatch, "model_alias": c.Model, "model_path": "/models/" + c.Weights + ".gguf",
		"modalities": object{"vision": false, "audio": false}, "endpoint_slots": true, "endpoint_props": true, "endpoint_metrics": true,
		"chat_template": llamaTemplate, "bos_token": "<s>", "eos_token": "</s>", "build_info": c.Version, "is_sleeping": false,
	}))
}

// llamaSlots shows a slot per place in the batch.
func (e *Engine) llamaSlots(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	c := e.cfg
	slots := make([]object, c.MaxBatch)
	for i := range slots {
		slots[i] = object{"id": i, "n_ctx": c.ContextLength, "speculative": c.Speculation.DraftTokens > 0, "is_processing": false}
	}
	for i, s := range e.running {
		slots[i]["is_processing"], slots[i]["id_task"] = true, s.ordinal
		slots[i]["next_token"] = []object{{"has_next_token": true, "n_remain": s.answer.length - s.produced, "n_decoded": s.produced}}
	}
	e.mu.Unlock()
	writeJSON(w, http.StatusOK, appendJSON(nil, slots))
}

// llamaEraseSlot forgets the cache, of which there is one for all slots.
func (e *Engine) llamaEraseSlot(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("action") != "erase" {
		e.fail(w, *badRequest("Invalid action"))
		return
	}
	e.mu.Lock()
	n := e.cache.len() * e.cache.block
	e.mu.Unlock()
	if !e.FlushCache() {
		e.fail(w, *badRequest("Slot is processing"))
		return
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"id_slot": json.Number(slotID(r.PathValue("id"))), "n_erased": n}))
}

// slotID is a path's number, 0 if it is none.
func slotID(s string) string {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return "0"
	}
	return s
}

func (e *Engine) llamaTokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Content    string `json:"content"`
		AddSpecial bool   `json:"add_special"`
		WithPieces bool   `json:"with_pieces"`
	}
	if !e.decodeBody(w, r, &in) {
		return
	}
	tokens := e.encode(in.Content, in.AddSpecial)
	if !in.WithPieces {
		writeJSON(w, http.StatusOK, appendJSON(nil, object{"tokens": tokens}))
		return
	}
	pieces := make([]object, len(tokens))
	for i, id := range tokens {
		piece, _ := e.tok.text(int(id))
		pieces[i] = object{"id": id, "piece": piece}
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"tokens": pieces}))
}

func (e *Engine) llamaDetokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tokens []int `json:"tokens"`
	}
	if !e.decodeBody(w, r, &in) {
		return
	}
	text, err := e.decode(in.Tokens)
	if err != nil {
		e.fail(w, *badRequest("%v", err))
		return
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"content": text}))
}

// decodeBody reads the body of a page; when it cannot, it has answered.
func (e *Engine) decodeBody(w http.ResponseWriter, r *http.Request, in any) bool {
	if err := json.NewDecoder(r.Body).Decode(in); err != nil {
		bad := badRequest("JSON decode error: %v", err)
		if f := e.flavour; f.badJSON != 0 {
			bad.status = f.badJSON
		}
		e.fail(w, *bad)
		return false
	}
	return true
}

const llamaTemplate = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

// llamaApplyTemplate shows a chat as the text that would be its prompt. (The chat
// route itself puts single tokens for the marks.)
func (e *Engine) llamaApplyTemplate(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []message `json:"messages"`
	}
	if !e.decodeBody(w, r, &in) {
		return
	}
	var prompt strings.Builder
	for _, m := range in.Messages {
		var content string
		if json.Unmarshal(m.Content, &content) != nil {
			e.fail(w, *badRequest("Expected 'content' to be a string"))
			return
		}
		prompt.WriteString("<|im_start|>" + m.Role + "\n" + content + "<|im_end|>\n")
	}
	prompt.WriteString("<|im_start|>assistant\n")
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"prompt": prompt.String()}))
}

// textOf is the text of tokens.
func (e *Engine) textOf(tokens []int32) string {
	var text strings.Builder
	for _, id := range tokens {
		piece, _ := e.tok.text(int(id))
		text.WriteString(piece)
	}
	return text.String()
}

// llamaMetrics count generated tokens when a request ends, and prompt tokens
// without the cached ones. Nothing in them tells of speculation. The caller holds
// the lock.
func (e *Engine) llamaMetrics(p *page) {
	g, t := e.gaugesLocked(), &e.totals
	steps := t.PrefillSteps + t.DecodeSteps
	prompt, predicted := float64(t.PromptTokens-t.CachedTokens), sum(e.done.generated)
	rate := func(n, seconds float64) float64 {
		if seconds == 0 {
			return 0
		}
		return n / seconds
	}
	p.value("counter", "llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", prompt)
	p.value("counter", "llamacpp:prompt_seconds_total", "Prompt process time", e.lat.prefill.sum)
	p.value("counter", "llamacpp:tokens_predicted_total", "Number of generation tokens processed.", predicted)
	p.value("counter", "llamacpp:tokens_predicted_seconds_total", "Predict process time", e.lat.decode.sum)
	p.value("counter", "llamacpp:n_decode_total", "Total number of llama_decode() calls", float64(steps))
	p.value("counter", "llamacpp:n_tokens_max", "Largest observed n_tokens.", float64(e.longest))
	p.value("counter", "llamacpp:n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", ratio(e.busy, steps))
	p.value("gauge", "llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.", rate(prompt, e.lat.prefill.sum))
	p.value("gauge", "llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.", rate(predicted, e.lat.decode.sum))
	p.value("gauge", "llamacpp:requests_processing", "Number of requests processing.", float64(g.running))
	p.value("gauge", "llamacpp:requests_deferred", "Number of requests deferred.", float64(g.waiting))
}
