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

func (c *Client) addModel(body map[string]any) {
	if name := c.model(); name != "" {
		body["model"] = name
	}
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

// call makes one exchange beside the measurement and decodes its JSON answer into
// reply, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, body, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	url, err := engineURL(c.target.BaseURL, path)
	if err != nil {
		return err
	}
	req := &wire.Request{Method: method, URL: url, Header: c.header.Clone()}
	req.Header.Set("Accept", "*/*")
	if body != nil {
		if req.Body, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	resp, err := c.wire.Do(ctx, probes.NewClock(), req)
	if err != nil {
		return c.cleaned(err)
	}
	text, err := io.ReadAll(io.LimitReader(resp, maxControlBody+1))
	resp.Close(err == nil && len(text) <= maxControlBody)
	switch {
	case resp.StatusCode/100 != 2:
		return &statusError{resp.StatusCode, c.printable(failureText(text), "")}
	case err != nil:
		return c.cleaned(err)
	case len(text) > maxControlBody:
		return fmt.Errorf("read answer: larger than %d bytes", maxControlBody)
	case reply == nil:
		return nil
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("read answer: not the expected JSON: %w", err)
	}
	return nil
}

// cleaned is an error whose text holds no secret and whose chain is kept.
func (c *Client) cleaned(err error) error { return &cleanError{c.printable(err.Error(), ""), err} }

type cleanError struct {
	text  string
	cause error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.cause }
