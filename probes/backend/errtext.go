package backend

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxErrorText bounds the error text of a record, in bytes.
	maxErrorText = 300
	// maxErrorBody bounds how much of an error's body is read.
	maxErrorBody = 64 << 10
	// minSecret is the shortest part of a header's value that is hidden: shorter
	// ones are words like "true", not credentials.
	minSecret = 6
)

// failureText finds the message in an error that a server sent, in any of the
// shapes in use: an error object or string, FastAPI's detail, a flat object, plain text.
func failureText(body []byte) string {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		var text string
		if json.Unmarshal(body, &text) == nil {
			return text
		}
		return string(body[:min(len(body), maxErrorBody)])
	}
	if response, ok := fields["response"].(map[string]any); ok {
		// The Responses API. Never its other fields: they hold the answer.
		fields = map[string]any{"error": response["error"], "message": "", "type": response["status"]}
	}
	for _, name := range []string{"error", "detail"} {
		switch value := fields[name].(type) {
		case string:
			return withKind(value, fields["error_type"], nil)
		case map[string]any:
			message, _ := value["message"].(string)
			return withKind(message, value["type"], value["code"])
		case []any:
			return detailText(value)
		}
	}
	if message, ok := fields["message"].(string); ok {
		return withKind(message, fields["type"], fields["code"])
	}
	return string(body[:min(len(body), maxErrorBody)])
}

// withKind appends an error's type and code to its message.
func withKind(message string, kinds ...any) string {
	var known []string
	for _, kind := range kinds {
		switch k := kind.(type) {
		case string:
			known = append(known, k)
		case float64:
			known = append(known, fmt.Sprint(k))
		}
	}
	switch {
	case len(known) == 0 && message == "":
		return "error without a message"
	case len(known) == 0:
		return message
	}
	return strings.TrimSpace(message + " (" + strings.Join(known, ", ") + ")")
}

// detailText joins the messages of a validation error. Its "input" member is left
// out: it repeats the prompt.
func detailText(items []any) string {
	var parts []string
	for _, item := range items {
		fields, _ := item.(map[string]any)
		message, _ := fields["msg"].(string)
		var where []string
		if place, ok := fields["loc"].([]any); ok {
			for _, step := range place {
				where = append(where, fmt.Sprint(step))
			}
		}
		parts = append(parts, strings.TrimSpace(strings.Join(where, ".")+" "+message))
	}
	return strings.Join(parts, "; ")
}

// oneLine makes any text printable on one line of at most limit bytes.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// secretsOf lists what must never be printed: key and header values, and their
// parts, because a server may repeat "Bearer x" as "x".
func secretsOf(values ...string) []string {
	var secrets []string
	for _, value := range values {
		if len(value) >= minSecret {
			secrets = append(secrets, value)
		}
		for part := range strings.FieldsSeq(value) {
			if part != value && len(part) >= minSecret && !strings.EqualFold(part, "bearer") {
				secrets = append(secrets, part)
			}
		}
	}
	return secrets
}

// printable is an error text as a record may hold it: without secrets, without
// the prompt, bounded, on one line. Servers do repeat what was sent to them.
func (c *Client) printable(text string, prompts ...string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "<secret>")
	}
	const telling = 24 // enough to know the prompt again, too much to be chance
	for _, prompt := range prompts {
		if len(prompt) >= telling {
			if at := strings.Index(text, prompt[:telling]); at >= 0 {
				text = text[:at] + "<prompt>"
			}
		}
	}
	return oneLine(text, maxErrorText)
}
