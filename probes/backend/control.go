package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/wire"
)

const (
	// controlTime bounds a call beside the measurement when its context does not.
	controlTime = 30 * time.Second
	// maxControlBody bounds the answer to such a call, in bytes.
	maxControlBody = 16 << 20
)

// errNotFound: the call exists, but its answer lacks what was asked for.
var errNotFound = errors.New("the answer does not hold it")

// statusError is an answer other than 2xx to a call beside the measurement.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s: %s", e.code, http.StatusText(e.code), e.text)
}

// maxModelName bounds a name that a server tells, in bytes: it becomes a label of every
// series of the target.
const maxModelName = 256

// Model asks the server for the model it serves: the first entry of its list, or the
// only one it has. Later requests use that name when the target has none of its own.
func (c *Client) Model(ctx context.Context) (string, error) {
	if c.d.modelsPath == "" {
		return "", fmt.Errorf("list models: backend %s has no call for it; name the model in the config", c.target.Backend)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		ModelID string `json:"model_id"` // of TGI, which serves one
	}
	if err := c.call(ctx, http.MethodGet, c.d.modelsPath, nil, &list); err != nil {
		return "", fmt.Errorf("list models: %w", err)
	}
	name := list.ModelID
	if len(list.Data) > 0 {
		name = list.Data[0].ID
	}
	if name == "" {
		return "", fmt.Errorf("list models: %w: no data[0].id; name the model in the config", errNotFound)
	}
	if len(name) > maxModelName {
		return "", fmt.Errorf("list models: the name is %d bytes long, at most %d are taken; name the model in the config", len(name), maxModelName)
	}
	c.discovered.Store(&name)
	return name, nil
}

// FlushCache empties the server's prefix cache. Servers refuse it while requests
// run, and some unless they were started in a development mode.
func (c *Client) FlushCache(ctx context.Context) error {
	if c.d.flushPath == "" {
		return fmt.Errorf("flush cache: backend %s has no call for it", c.target.Backend)
	}
	err := c.call(ctx, http.MethodPost, c.d.flushPath, nil, nil)
	var refused *statusError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound && c.d.flushPath == "/reset_prefix_cache" {
		return fmt.Errorf("flush cache: start the server with VLLM_SERVER_DEV_MODE=1: %w", err)
	}
	if err != nil {
		return fmt.Errorf("flush cache: %w", err)
	}
	return nil
}

// tokenID reads an id that stands alone or, with its piece, in an object.
type tokenID int

// UnmarshalJSON reads 17 as well as {"id":17,"piece":"a"}.
func (t *tokenID) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var full struct {
			ID int `json:"id"`
		}
		err := json.Unmarshal(b, &full)
		*t = tokenID(full.ID)
		return err
	}
	return json.Unmarshal(b, (*int)(t))
}

// Get reads a page of the target's own API or metrics, with the headers and the key of
// any request, within 30 s. It answers whatever the status is; an error says that there
// was no answer, or none that ends within maxBytes. Redirects are followed as the
// target's options say, but never to another host. The path may have a query; it lies
// beside /v1 of the base URL unless it starts with it. It may also be the target's
// MetricsURL, whose host gets neither headers nor key unless it is the target's own.
func (c *Client) Get(ctx context.Context, path string, maxBytes int64) (status int, header http.Header, body []byte, err error) {
	resp, body, err := c.converse(ctx, controlTime, http.MethodGet, path, nil, maxBytes)
	if resp == nil {
		return 0, nil, nil, fmt.Errorf("get %s: %w", withoutQuery(path), err)
	}
	if err != nil {
		err = fmt.Errorf("get %s: %w", withoutQuery(path), err)
	}
	return resp.StatusCode, resp.Header, body, err
}

// call makes one exchange beside the measurement and decodes its JSON answer into
// reply, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, body, reply any) error {
	return c.callWithin(ctx, controlTime, method, path, body, reply)
}

// callWithin is such a call with a bound of its own.
func (c *Client) callWithin(ctx context.Context, bound time.Duration, method, path string, body, reply any) error {
	var question []byte
	if body != nil {
		var err error
		if question, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	resp, text, err := c.converse(ctx, bound, method, path, question, maxControlBody)
	switch {
	case resp == nil:
		return err
	case resp.StatusCode/100 != 2:
		return &statusError{resp.StatusCode, c.printable(failureText(text))}
	case err != nil:
		return err
	case reply == nil:
		return nil
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("read answer: not the expected JSON: %w", err)
	}
	return nil
}

// converse is such an exchange: its answer and the body, which is at most limit bytes.
// With an error there may be an answer, and the part of its body that had come.
func (c *Client) converse(ctx context.Context, bound time.Duration, method, path string, question []byte, limit int64) (*wire.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	url, header, err := c.address(path)
	if err != nil {
		return nil, nil, err
	}
	req := &wire.Request{Method: method, URL: url, Header: header.Clone(), Body: question, SameHost: true}
	req.Header.Set("Accept", "*/*")
	resp, err := c.wire.Do(ctx, probes.NewClock(), req)
	if err != nil {
		return nil, nil, c.cleaned(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp, limit+1))
	tooLong := int64(len(body)) > limit
	resp.Close(err == nil && !tooLong)
	switch {
	case err != nil:
		return resp, body, c.cleaned(err)
	case tooLong:
		return resp, body[:limit], fmt.Errorf("read answer: larger than %d bytes", limit)
	}
	return resp, body, nil
}

// address is the URL of a path, and the headers that its host may see.
func (c *Client) address(path string) (url string, header http.Header, err error) {
	if path == "" || path != c.target.MetricsURL {
		url, err = engineURL(c.target.BaseURL, path)
		return url, c.header, err
	}
	if c.target.MetricsCredentials || sameOrigin(path, c.target.BaseURL) {
		return path, c.header, nil
	}
	return path, c.anonymous, nil
}

// cleaned is an error whose text holds no secret and whose chain is kept.
func (c *Client) cleaned(err error) error { return &cleanError{c.printable(err.Error()), err} }

type cleanError struct {
	text  string
	cause error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.cause }
