package fakellm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// askedAdapter is the LoRA adapter that a request names where its engine looks for
// one; empty asks for the model itself. Most engines serve adapters as models.
func (f *flavour) askedAdapter(c *Config, a *ask) string {
	named := ""
	if f.adapter != nil {
		named = f.adapter(&a.body)
	}
	if named == "" && slices.Contains(c.Adapters, a.Model) {
		named = a.Model
	}
	return named
}

// adapt settles the adapter of a request. An engine that was not started with it
// refuses.
func (e *Engine) adapt(c *Config, a *ask) *refusal {
	a.adapter = e.flavour.askedAdapter(c, a)
	if a.adapter != "" && !slices.Contains(c.Adapters, a.adapter) {
		return badRequest("The following requested LoRA adapters are not loaded: {%q}. Loaded adapters: %q.", a.adapter, c.Adapters)
	}
	return nil
}

// Where an engine has a field of its own.

func sglangAdapter(b *body) string { return b.LoRAPath }

func tgiAdapter(b *body) string { return b.Parameters.AdapterID }

func tritonAdapter(b *body) string {
	if b.LoRATaskID == nil {
		return ""
	}
	return strconv.FormatInt(*b.LoRATaskID, 10)
}

// llamacppAdapter takes the first adapter of a scale above 0; a list may set several
// and switch others off.
func llamacppAdapter(b *body) string {
	for _, l := range b.LoRA {
		if l.Scale > 0 {
			return strconv.Itoa(l.ID)
		}
	}
	return ""
}

// adapterModels are the adapters in a list of models.
func (c *Config) adapterModels() (list []object) {
	for _, name := range c.Adapters {
		list = append(list, object{
			"id": name, "object": "model", "created": 1767225600, "owned_by": c.Engine,
			"root": fmt.Sprintf("/adapters/%s", name), "parent": c.Model, "max_model_len": c.ContextLength,
		})
	}
	return list
}

// checkpoint is what a greedy answer follows from besides the prompt.
func (a *ask) checkpoint(c *Config) uint64 {
	seed := hashString(c.Weights)
	if a.adapter == "" {
		return seed
	}
	return mix(seed, hashString(a.adapter))
}

// answeringModel is the name that an answer carries unless a fault changes it.
func (x *exchange) answeringModel() string {
	if x.e.flavour.echoesModel || x.ask.Model == x.ask.adapter {
		return cmp.Or(x.ask.Model, x.cfg.Model)
	}
	return x.cfg.Model
}
