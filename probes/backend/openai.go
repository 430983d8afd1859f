package backend

import (
	"fmt"
	"strconv"
)

const (
	completionsPath = "/v1/completions"
	chatPath        = "/v1/chat/completions"
	modelsPath      = "/v1/models"
)

// The two routes as OpenAI and everybody without a dialect of their own has them. A
// length cannot be forced: the API refuses fields that it does not know.
var (
	openAIText = dialect{
		path: completionsPath, port: 443, modelsPath: modelsPath, tokenize: textWays, tokenIDs: true, lengthField: "max_tokens",
		body: completionsBody, lora: loraModel, parse: parseOpenAI,
	}
	openAIChat = dialect{
		path: chatPath, messages: true, images: true, port: 443, modelsPath: modelsPath, tokenize: chatWays, lengthField: "max_completion_tokens",
		body: chatBody, lora: loraModel, parse: parseOpenAI,
	}
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

// chatBody asks for an answer to the conversation, in most cases one user message.
func chatBody(d *dialect, q question) map[string]any {
	fields := d.openAIBody(q)
	fields["messages"] = q.conversation(imageURLPart)
	return fields
}

// openAIBody is what the two routes have in common. Usage is asked for because it
// is the only count of output tokens that can be trusted, and for every chunk
// where the server can do it, because only then are the tokens of a chunk known.
func (d *dialect) openAIBody(q question) map[string]any {
	fields := map[string]any{}
	addModel(fields, q.model)
	d.addSampling(fields, q.Request)
	options := map[string]any{"include_usage": true}
	if d.runningUsage {
		options["continuous_usage_stats"] = true
	}
	fields["stream_options"] = options
	return fields
}

// loraModel names the adapter as the model, as most servers have it.
func loraModel(fields map[string]any, name string) error {
	fields["model"] = name
	return nil
}

// loraNumber reads an adapter that the server knows by a number only.
func loraNumber(name, where string) (int, error) {
	id, err := strconv.Atoi(name)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("choose lora adapter %q: this server knows adapters by number, %s", name, where)
	}
	return id, nil
}
