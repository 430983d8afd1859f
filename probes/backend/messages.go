package backend

import "github.com/inferbeat/inferbeat/probes"

// conversation is the messages of a question, or its prompt as one user message.
// Images are parts of their own before the text of the last user message, as
// bench_serving has them; without images a content is plain text.
func (q question) conversation(part func(probes.Image) map[string]any) []any {
	messages := q.Messages
	if messages == nil {
		messages = []probes.Message{{Role: "user", Content: q.Prompt}}
	}
	pictured := lastUser(messages)
	out := make([]any, len(messages))
	for i, m := range messages {
		fields := map[string]any{"role": m.Role, "content": m.Content}
		if i == pictured && len(q.Images) > 0 && part != nil {
			parts := make([]any, 0, len(q.Images)+1)
			for _, image := range q.Images {
				parts = append(parts, part(image))
			}
			fields["content"] = append(parts, map[string]any{"type": "text", "text": m.Content})
		}
		out[i] = fields
	}
	return out
}

// lastUser is the index of the last user message, or of the last message when
// there is none.
func lastUser(messages []probes.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" {
			return i
		}
	}
	return len(messages) - 1
}

func imageURLPart(i probes.Image) map[string]any {
	return map[string]any{"type": "image_url", "image_url": map[string]any{"url": i.DataURL()}}
}

func imageSourcePart(i probes.Image) map[string]any {
	return map[string]any{"type": "image", "source": map[string]any{
		"type": "base64", "media_type": i.MediaType, "data": i.Base64,
	}}
}

// responsesInput is a text, or a list of messages whose parts have types of their own.
func responsesInput(q question) any {
	if q.Messages == nil && len(q.Images) == 0 {
		return q.Prompt
	}
	messages := q.conversation(func(i probes.Image) map[string]any {
		return map[string]any{"type": "input_image", "image_url": i.DataURL()}
	})
	for _, m := range messages {
		fields := m.(map[string]any)
		if parts, ok := fields["content"].([]any); ok {
			parts[len(parts)-1].(map[string]any)["type"] = "input_text"
		}
	}
	return messages
}

// systemText takes the system messages out of a conversation, for an API that has
// them in a field of their own.
func systemText(messages []probes.Message) (system string, rest []probes.Message) {
	for _, m := range messages {
		switch {
		case m.Role != "system":
			rest = append(rest, m)
		case system == "":
			system = m.Content
		default:
			system += "\n\n" + m.Content
		}
	}
	return system, rest
}

// sentTexts is everything of the user's that is in a request.
func sentTexts(r *probes.Request) []string {
	texts := []string{r.Prompt}
	for _, m := range r.Messages {
		texts = append(texts, m.Content)
	}
	for _, i := range r.Images {
		texts = append(texts, i.Base64)
	}
	return texts
}
