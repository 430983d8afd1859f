package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type object = map[string]any

// healthy answers a health check with an empty 200.
func healthy(_ *Engine, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"version": e.config().Version}))
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	c := e.config()
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"object": "list", "data": append([]object{{
		"id": c.Model, "object": "model", "created": 1767225600, "owned_by": c.Engine,
		"root": c.Weights, "parent": nil, "max_model_len": c.ContextLength,
	}}, c.adapterModels()...)}))
}

// tokenize answers for a prompt (a string, or in SGLang a list of them) or for
// messages.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	c := e.config()
	var in struct {
		Prompt           json.RawMessage `json:"prompt"`
		Messages         []message       `json:"messages"`
		AddSpecialTokens *bool           `json:"add_special_tokens"`
		ReturnTokenStrs  bool            `json:"return_token_strs"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		e.fail(w, *badRequest("JSON decode error: %v", err))
		return
	}
	special := in.AddSpecialTokens == nil || *in.AddSpecialTokens
	if in.Messages != nil {
		tokens, err := e.chatTokens(in.Messages, openaiParts)
		if err != nil {
			e.fail(w, *badRequest("%v", err))
			return
		}
		writeJSON(w, http.StatusOK, e.tokenization(c, in.ReturnTokenStrs, tokens))
		return
	}
	var text string
	if err := json.Unmarshal(in.Prompt, &text); err == nil {
		writeJSON(w, http.StatusOK, e.tokenization(c, in.ReturnTokenStrs, e.encode(text, special)))
		return
	}
	var texts []string
	if err := json.Unmarshal(in.Prompt, &texts); err != nil || c.Engine != SGLang {
		e.fail(w, *badRequest("prompt must be a string"))
		return
	}
	lists, counts := make([][]int32, len(texts)), make([]int, len(texts))
	for i, text := range texts {
		lists[i] = e.encode(text, special)
		counts[i] = len(lists[i])
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{"tokens": lists, "count": counts, "max_model_len": c.ContextLength}))
}

func (e *Engine) encode(text string, special bool) []int32 {
	tokens := []int32{}
	if special {
		tokens = append(tokens, tokenBOS)
	}
	return e.tok.append(tokens, text)
}

func (e *Engine) tokenization(c *Config, withText bool, tokens []int32) []byte {
	out := object{"tokens": tokens, "count": len(tokens), "max_model_len": c.ContextLength}
	if c.Engine == VLLM {
		out["token_strs"] = nil
		if withText {
			strs := make([]string, len(tokens))
			for i, id := range tokens {
				strs[i], _ = e.tok.text(int(id))
			}
			out["token_strs"] = strs
		}
	}
	return appendJSON(nil, out)
}

// detokenize turns ids (in SGLang also a list of id lists) back into text.
func (e *Engine) detokenize(w http.ResponseWriter, r *http.Request) {
	c := e.config()
	var in struct {
		Tokens json.RawMessage `json:"tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		e.fail(w, *badRequest("JSON decode error: %v", err))
		return
	}
	key := "text"
	if c.Engine == VLLM {
		key = "prompt"
	}
	var lists [][]int
	batch := bytes.HasPrefix(bytes.TrimSpace(in.Tokens), []byte("[[")) && c.Engine == SGLang
	var err error
	if batch {
		err = json.Unmarshal(in.Tokens, &lists)
	} else {
		lists = make([][]int, 1)
		err = json.Unmarshal(in.Tokens, &lists[0])
	}
	if err != nil {
		e.fail(w, *badRequest("tokens must be a list of token ids"))
		return
	}
	texts := make([]string, len(lists))
	for i, ids := range lists {
		if texts[i], err = e.decode(ids); err != nil {
			e.fail(w, *badRequest("%v", err))
			return
		}
	}
	if batch {
		writeJSON(w, http.StatusOK, appendJSON(nil, object{key: texts}))
		return
	}
	writeJSON(w, http.StatusOK, appendJSON(nil, object{key: texts[0]}))
}

func (e *Engine) decode(ids []int) (string, error) {
	var text strings.Builder
	for i, id := range ids {
		piece, ok := e.tok.text(id)
		if !ok {
			return "", fmt.Errorf("tokens[%d]: token id %d is out of vocabulary", i, id)
		}
		text.WriteString(piece)
	}
	return text.String(), nil
}
