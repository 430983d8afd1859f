package fakellm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
)

// plainTokens reads a string, a list of ids, or a list of one of these. Text
// gets a beginning-of-sequence token, ids are taken as they are.
func (e *Engine) plainTokens(field string, raw json.RawMessage) ([]int32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("field required: %s", field)
	}
	var text string
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		return e.tok.append([]int32{tokenBOS}, text), nil
	}
	var ids []int
	if err := json.Unmarshal(raw, &ids); err == nil && len(ids) > 0 {
		return e.checkIDs(field, ids)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		return nil, fmt.Errorf("%s must be a string, a list of token ids, or a list of one of these", field)
	}
	return e.plainTokens(field, list[0])
}

func (e *Engine) checkIDs(field string, ids []int) ([]int32, error) {
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		if _, ok := e.tok.text(id); !ok {
			return nil, fmt.Errorf("%s[%d]: token id %d is out of vocabulary", field, i, id)
		}
		tokens[i] = int32(id)
	}
	return tokens, nil
}

// chatTokens renders the chat template: two tokens before the first message, two
// after the last, one before the answer, three between messages.
func (e *Engine) chatTokens(messages []message, names partNames) ([]int32, error) {
	if len(messages) == 0 {
		return nil, fmt.Errorf("messages must not be empty")
	}
	tokens := []int32{tokenBOS, tokenUser}
	for i, m := range messages {
		if i > 0 {
			tokens = append(tokens, tokenEOS, tokenTurn, tokenUser)
		}
		var err error
		if tokens, err = e.contentTokens(tokens, m.Content, names); err != nil {
			return nil, fmt.Errorf("messages[%d].content: %w", i, err)
		}
		for _, image := range m.Images {
			tokens = appendImage(tokens, image)
		}
	}
	return append(tokens, tokenEOS, tokenTurn, tokenReply), nil
}

func (e *Engine) contentTokens(dst []int32, raw json.RawMessage, names partNames) ([]int32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return dst, nil
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return e.tok.append(dst, text), nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Source   json.RawMessage `json:"source"`
		ImageURL json.RawMessage `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	for _, p := range parts {
		switch p.Type {
		case names.text, cmp.Or(names.reply, names.text):
			dst = e.tok.append(dst, p.Text)
		case names.image:
			var nested struct {
				URL string `json:"url"`
			}
			if json.Unmarshal(p.ImageURL, &nested) != nil {
				// A data URL by itself, or a source object.
				nested.URL = string(p.ImageURL) + string(p.Source)
			}
			dst = appendImage(dst, nested.URL)
		default:
			return nil, fmt.Errorf("part type %q is not supported", p.Type)
		}
	}
	return dst, nil
}

// appendImage writes the tokens of an image. Different images must not share
// cached blocks.
func appendImage(dst []int32, image string) []int32 {
	dst = append(dst, tokenImage, int32(hashString(image)%namedTokens))
	for range ImageTokens - 2 {
		dst = append(dst, tokenImage)
	}
	return dst
}
