package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/inferbeat/inferbeat/probes"
)

// What was handed to a dialect without a field for it.
var (
	errTextOnly   = errors.New("backend takes prompts as text only")
	errNoMessages = errors.New("backend takes one prompt and no conversation, choose a chat backend")
	errNoImages   = errors.New("backend takes no images, choose a chat backend or sglang")
)

// asked is a finished request body and what it asks for.
type asked struct {
	body   []byte
	model  string
	forced int // the output length that the server must produce; 0: it may stop earlier
}

// encode writes the request body. What it asks for is read back from the finished
// body, because extra fields may have changed it.
func (d *dialect) encode(q question) (asked, error) {
	if q.TokenIDs != nil && !d.tokenIDs {
		return asked{}, fmt.Errorf("send token ids: %w", errTextOnly)
	}
	if q.Messages != nil && !d.messages {
		return asked{}, fmt.Errorf("send messages: %w", errNoMessages)
	}
	if len(q.Images) > 0 && !d.images {
		return asked{}, fmt.Errorf("send images: %w", errNoImages)
	}
	fields := d.body(d, q)
	if q.Sampling.LoRA != "" {
		if err := d.lora(fields, q.Sampling.LoRA); err != nil {
			return asked{}, err
		}
	}
	merge(fields, q.Sampling.ExtraBody)
	// Whether the answer is a stream decides how it is measured; extra fields
	// must not change it behind our back.
	fields["stream"] = q.Sampling.Stream
	if !q.Sampling.Stream {
		delete(fields, "stream_options") // refused by servers without stream
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return asked{}, fmt.Errorf("encode request body: %w", err)
	}
	model, _ := fields["model"].(string)
	return asked{bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), model, d.forcedLength(fields)}, nil
}

// forcedLength is the output length if the fields that force it are in the body, else 0.
func (d *dialect) forcedLength(fields map[string]any) int {
	if d.sampling != "" {
		fields, _ = fields[d.sampling].(map[string]any)
	}
	for name, value := range d.exact {
		if fields[name] != value {
			return 0
		}
	}
	if d.exact == nil {
		return 0
	}
	switch n := fields[d.lengthField].(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return 0
}

// addModel names the model, if a name is known.
func addModel(fields map[string]any, name string) {
	if name != "" {
		fields["model"] = name
	}
}

// merge writes extra over fields, object into object. It never changes extra.
func merge(fields, extra map[string]any) {
	for name, value := range extra {
		theirs, isObject := value.(map[string]any)
		ours, wasObject := fields[name].(map[string]any)
		if isObject && wasObject {
			ours = maps.Clone(ours)
			merge(ours, theirs)
			value = ours
		}
		fields[name] = value
	}
}

// addSampling writes what all dialects have under one name or another.
func (d *dialect) addSampling(fields map[string]any, r *probes.Request) {
	fields["temperature"] = r.Sampling.Temperature
	if p, ok := r.Sampling.TopP.Get(); ok {
		fields["top_p"] = p
	}
	if r.MaxOutputTokens > 0 {
		fields[d.lengthField] = r.MaxOutputTokens
	}
	if !r.Sampling.IgnoreEOS {
		return
	}
	maps.Copy(fields, d.exact)
	for _, name := range d.leastFields {
		fields[name] = r.MaxOutputTokens
	}
}
