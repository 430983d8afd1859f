package workload

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// row is one request as a file describes it: a text, a conversation, or a length
// alone, with what else the file knows.
type row struct {
	at       probes.Optional[time.Duration] // since some beginning of the file's own
	text     string
	messages []probes.Message
	images   []probes.Image
	answer   string // a recorded answer, whose length is asked for
	input    int    // tokens, when there is no text
	hashIDs  []int64
	output   int // tokens; 0 is not written
	session  string
	sampling func(*probes.Sampling) // nil: as the workload has it
}

// composed reports a row without a text, whose prompt has to be made up.
func (r *row) composed() bool { return r.messages == nil && r.text == "" }

// decoder reads one row from a line. A nil row stands for a line that is no request.
type decoder func(line []byte) (*row, error)

// jsonRow holds the names that recorded traffic uses for the same thing: those of
// mooncake traces, of bench_serving's and vLLM's own files, and of the OpenAI API.
type jsonRow struct {
	Timestamp     json.RawMessage `json:"timestamp"`
	Prompt        *string         `json:"prompt"`
	TextInput     *string         `json:"text_input"`
	Messages      []jsonMessage   `json:"messages"`
	Conversations []jsonTurn      `json:"conversations"`
	Conversation  []jsonTurn      `json:"conversation"`

	InputLength         *int    `json:"input_length"`
	InputTokens         *int    `json:"input_tokens"`
	HashIDs             []int64 `json:"hash_ids"`
	OutputLength        *int    `json:"output_length"`
	OutputTokens        *int    `json:"output_tokens"`
	MaxTokens           *int    `json:"max_tokens"`
	MaxCompletionTokens *int    `json:"max_completion_tokens"`

	SessionID   json.RawMessage `json:"session_id"`
	Session     json.RawMessage `json:"session"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	LoRA        string          `json:"lora"`
	ExtraBody   map[string]any  `json:"extra_body"`
}

type jsonMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type jsonTurn struct {
	Value   string `json:"value"`
	Content string `json:"content"`
}

// jsonLines reads a JSON object a line; numbers as times count units.
func jsonLines(unit string) decoder {
	return func(line []byte) (*row, error) {
		var j jsonRow
		if err := json.Unmarshal(line, &j); err != nil {
			return nil, err
		}
		r := &row{hashIDs: j.HashIDs}
		for _, step := range []func(*row) error{
			func(r *row) (err error) { r.at, err = jsonTime(j.Timestamp, unit); return err },
			j.takeText, j.takeLengths, j.takeSampling,
		} {
			if err := step(r); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
}

func (j *jsonRow) takeText(r *row) error {
	turns := j.Conversations
	if turns == nil {
		turns = j.Conversation
	}
	switch {
	case j.Messages != nil:
		return j.takeMessages(r)
	case j.Prompt != nil:
		r.text = *j.Prompt
	case j.TextInput != nil:
		r.text = *j.TextInput
	case len(turns) > 0:
		r.text = turns[0].Value + turns[0].Content
		if len(turns) > 1 {
			r.answer = turns[1].Value + turns[1].Content
		}
	case j.InputLength == nil && j.InputTokens == nil:
		return errors.New("has none of prompt, messages, conversations, text_input and input_length")
	default:
		return nil
	}
	if r.text == "" {
		return errors.New("its prompt is empty")
	}
	return nil
}

func (j *jsonRow) takeMessages(r *row) error {
	if len(j.Messages) == 0 {
		return errors.New("messages: is empty")
	}
	for i, m := range j.Messages {
		text, images, err := content(m.Content)
		if err != nil {
			return fmt.Errorf("messages[%d].content: %w", i, err)
		}
		if m.Role == "" {
			return fmt.Errorf("messages[%d]: has no role", i)
		}
		r.messages = append(r.messages, probes.Message{Role: m.Role, Content: text})
		r.images = append(r.images, images...)
	}
	return nil
}

// content reads a text, or a list of texts and images.
func content(raw json.RawMessage) (text string, images []probes.Image, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil, nil // a message that was a tool call
	}
	if raw[0] == '"' {
		return text, nil, json.Unmarshal(raw, &text)
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", nil, err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			text += p.Text
		case "image_url":
			kind, data, ok := strings.Cut(strings.TrimPrefix(p.ImageURL.URL, "data:"), ";base64,")
			if !ok || !strings.HasPrefix(p.ImageURL.URL, "data:") {
				return "", nil, errors.New("an image must be a data URL in base64: the server under test shall not fetch others")
			}
			images = append(images, probes.Image{MediaType: kind, Base64: data})
		default:
			return "", nil, fmt.Errorf("part of type %q cannot be sent, only text and image_url", p.Type)
		}
	}
	return text, images, nil
}

func (j *jsonRow) takeLengths(r *row) error {
	for _, length := range []struct {
		name string
		n    *int
		into *int
	}{
		{"input_length", j.InputLength, &r.input}, {"input_tokens", j.InputTokens, &r.input},
		{"output_length", j.OutputLength, &r.output}, {"output_tokens", j.OutputTokens, &r.output},
		{"max_tokens", j.MaxTokens, &r.output}, {"max_completion_tokens", j.MaxCompletionTokens, &r.output},
	} {
		if length.n == nil {
			continue
		}
		if *length.n < 1 || *length.n > maxLength {
			return fmt.Errorf("%s: %d is not from 1 to %d tokens", length.name, *length.n, maxLength)
		}
		*length.into = *length.n
	}
	return nil
}

// maxLength bounds what a row may ask for; beyond it a row is broken.
const maxLength = 16 << 20

func (j *jsonRow) takeSampling(r *row) error {
	session := j.SessionID
	if session == nil {
		session = j.Session
	}
	// A number is as good a name as a text.
	if s := strings.Trim(string(session), `"`); s != "null" {
		r.session = s
	}
	if _, ok := j.ExtraBody["stream"]; ok {
		return errors.New("extra_body: stream cannot be set by a row, it decides how everything is measured")
	}
	if t := j.Temperature; t != nil && *t < 0 {
		return fmt.Errorf("temperature: %v is negative", *t)
	}
	if p := j.TopP; p != nil && !(*p > 0 && *p <= 1) {
		return fmt.Errorf("top_p: %v is outside 0 (exclusive) to 1", *p)
	}
	if j.Temperature == nil && j.TopP == nil && j.LoRA == "" && j.ExtraBody == nil {
		return nil
	}
	r.sampling = func(s *probes.Sampling) {
		if j.Temperature != nil {
			s.Temperature = *j.Temperature
		}
		if j.TopP != nil {
			s.TopP = probes.Known(*j.TopP)
		}
		if j.LoRA != "" {
			s.LoRA = j.LoRA
		}
		if j.ExtraBody != nil {
			s.ExtraBody = merged(s.ExtraBody, j.ExtraBody)
		}
	}
	return nil
}

// merged is base with the fields of over.
func merged(base, over map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(over))
	for _, fields := range []map[string]any{base, over} {
		for name, value := range fields {
			out[name] = value
		}
	}
	return out
}

// columns finds what a CSV file has by the names in its first line: the positions
// moved between versions of the same data set.
type columns struct {
	names  []string
	time   int
	input  int
	output int
	// session is -1 in files without one.
	session int
	clock   func(string) (time.Duration, error)
	// failures: an answer without tokens is a request that failed when it was
	// recorded, and no mistake.
	failures bool
}

// csvRows reads the header from l and returns what decodes the rows after it.
func csvRows(l *lineReader, c columns, want [3]string, session string) (decoder, error) {
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: is empty", l.path)
	}
	if err != nil {
		return nil, err
	}
	if c.names, err = cells(line); err != nil {
		return nil, l.at(err)
	}
	for i, into := range []*int{&c.time, &c.input, &c.output} {
		if *into = slices.Index(c.names, want[i]); *into < 0 {
			return nil, l.at(fmt.Errorf("the first line has no column %q", want[i]))
		}
	}
	c.session = slices.Index(c.names, session)
	return c.decode, nil
}

func (c columns) decode(line []byte) (*row, error) {
	fields, err := cells(line)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(c.names) {
		return nil, fmt.Errorf("has %d columns, the first line %d", len(fields), len(c.names))
	}
	r := &row{}
	at, err := c.clock(fields[c.time])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.names[c.time], err)
	}
	r.at = probes.Known(at)
	if r.input, err = tokens(fields[c.input]); err != nil {
		return nil, fmt.Errorf("%s: %w", c.names[c.input], err)
	}
	if r.output, err = tokens(fields[c.output]); err != nil {
		return nil, fmt.Errorf("%s: %w", c.names[c.output], err)
	}
	if c.failures && r.output == 0 {
		return nil, nil
	}
	if r.input == 0 || r.output == 0 {
		return nil, fmt.Errorf("%d input and %d output tokens are no request", r.input, r.output)
	}
	if c.session >= 0 {
		r.session = fields[c.session]
	}
	return r, nil
}

func cells(line []byte) ([]string, error) {
	return csv.NewReader(strings.NewReader(string(line))).Read()
}

// tokens reads a count; some files write it as a float.
func tokens(text string) (int, error) {
	whole, rest, _ := strings.Cut(text, ".")
	n := 0
	for _, c := range whole {
		if n = 10*n + int(c-'0'); c < '0' || c > '9' || n > maxLength {
			return 0, fmt.Errorf("%q is not a number of tokens", text)
		}
	}
	if whole == "" || strings.Trim(rest, "0") != "" {
		return 0, fmt.Errorf("%q is not a number of tokens", text)
	}
	return n, nil
}
