package backend

const (
	completionsPath = "/v1/completions"
	chatPath        = "/v1/chat/completions"
)

// completionsBody asks for a text completion. best_of is left out: 1 is its
// default, and several servers refuse the field.
func completionsBody(d *dialect, q question) map[string]any {
	fields := d.openAIBody(q)
	if q.TokenIDs != nil {
		fields["prompt"] = q.TokenIDs
	} else {
		fields["prompt"] = q.Prompt
	}
	return fields
}

// chatBody asks for an answer to one user message.
func chatBody(d *dialect, q question) map[string]any {
	fields := d.openAIBody(q)
	fields["messages"] = []any{map[string]any{"role": "user", "content": q.Prompt}}
	return fields
}

// openAIBody is what the two routes have in common. Usage is asked for because it
// is the only count of output tokens that can be trusted, and for every chunk
// where the server can do it, because only then are the tokens of a chunk known.
func (d *dialect) openAIBody(q question) map[string]any {
	fields := map[string]any{}
	if q.model != "" {
		fields["model"] = q.model
	}
	d.addSampling(fields, q.Request)
	options := map[string]any{"include_usage": true}
	if d.runningUsage {
		options["continuous_usage_stats"] = true
	}
	fields["stream_options"] = options
	return fields
}

type bodyFunc = func(*dialect, question) map[string]any

// withLoRAPath names the adapter in a field of its own, as SGLang does.
func withLoRAPath(build bodyFunc) bodyFunc {
	return func(d *dialect, q question) map[string]any {
		fields := build(d, q)
		if q.Sampling.LoRA != "" {
			fields["lora_path"] = q.Sampling.LoRA
		}
		return fields
	}
}

// withLoRAModel names the adapter as the model, as everybody else does.
func withLoRAModel(build bodyFunc) bodyFunc {
	return func(d *dialect, q question) map[string]any {
		if q.Sampling.LoRA != "" {
			q.model = q.Sampling.LoRA
		}
		return build(d, q)
	}
}
