package backend

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/wire"
)

// Options are what a client needs besides its target. The zero value is ready to use.
type Options struct {
	// DialContext replaces the network, for a simulated engine.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// UserAgent is sent with every request; empty is "inferbeat/devel".
	UserAgent string
}

// Client sends requests to one target. It may be used from many goroutines.
type Client struct {
	target probes.Target
	d      *dialect
	header http.Header
	// anonymous are the headers for a host that is to know no secret.
	anonymous http.Header
	secrets   []string
	wire      *wire.Client
	// streamURL and wholeURL take requests for either kind of answer.
	streamURL, wholeURL string

	// discovered is the model's name as the server lists it.
	discovered atomic.Pointer[string]
	// tokenizeWay is 1 + the index of the form that the target's tokenizer took;
	// 0 while none is known.
	tokenizeWay atomic.Int32
	readings    sync.Pool
}

// New makes a client for a target. It fails for an unknown backend, a base URL
// that is malformed or holds a secret, and whatever wire.NewClient refuses.
func New(t probes.Target, o Options) (*Client, error) {
	if err := Check(t.Backend); err != nil {
		return nil, fmt.Errorf("open target %s: %w", t.Name, err)
	}
	c := &Client{target: t, d: dialects[t.Backend]}
	if err := c.setURLs(); err != nil {
		return nil, fmt.Errorf("open target %s: %w", t.Name, err)
	}
	c.readings.New = func() any { return newReading() }
	c.setHeader(t.Connection, o.UserAgent)
	var err error
	c.wire, err = wire.NewClient(wire.Options{
		Connection: t.Connection, ConnectTimeout: t.Timeouts.Connect, DialContext: o.DialContext,
	})
	if err != nil {
		return nil, fmt.Errorf("open target %s: %w", t.Name, err)
	}
	return c, nil
}

// setURLs joins base and paths. The user's own path takes every kind of request.
func (c *Client) setURLs() (err error) {
	if c.target.Path != "" {
		c.streamURL, err = joinURL(c.target.BaseURL, c.target.Path)
		c.wholeURL = c.streamURL
		return err
	}
	if c.streamURL, err = engineURL(c.target.BaseURL, c.d.path); err != nil {
		return err
	}
	c.wholeURL = c.streamURL
	if c.d.wholePath != "" {
		c.wholeURL, err = engineURL(c.target.BaseURL, c.d.wholePath)
	}
	return err
}

// setHeader builds what all requests have in common. The user's own headers win,
// but for the one that says what we are.
func (c *Client) setHeader(conn probes.Connection, userAgent string) {
	if userAgent == "" {
		userAgent = "inferbeat/devel"
	}
	c.header = http.Header{}
	c.header.Set("Content-Type", "application/json")
	c.header.Set("Accept", "text/event-stream")
	if c.d.lines {
		c.header.Set("Accept", "application/x-ndjson")
	}
	for name, value := range c.d.header {
		c.header.Set(name, value)
	}
	c.header.Set("User-Agent", userAgent)
	c.anonymous = http.Header{"User-Agent": {userAgent}, "X-Inferbeat-Probe": {"1"}}
	if key := conn.APIKey.Reveal(); key != "" {
		if c.d.keyHeader != "" {
			c.header.Set(c.d.keyHeader, key)
		} else {
			c.header.Set("Authorization", "Bearer "+key)
		}
		c.secrets = append(c.secrets, secretsOf(key)...)
	}
	for _, name := range slices.Sorted(maps.Keys(conn.Headers)) {
		value := conn.Headers[name].Reveal()
		c.header.Set(name, value)
		c.secrets = append(c.secrets, secretsOf(value)...)
	}
	c.header.Set("X-Inferbeat-Probe", "1")
}

// Close closes idle connections. Requests in flight must have ended.
func (c *Client) Close() { c.wire.Close() }

// model is the name to ask for: the target's, else the one that Model found.
func (c *Client) model() string {
	if c.target.Model != "" {
		return c.target.Model
	}
	if name := c.discovered.Load(); name != nil {
		return *name
	}
	return ""
}

// Do sends one request and reads its answer to the end. It always returns: errors,
// timeouts and panics become the record's outcome. When ctx is cancelled the
// record keeps what had come by then. due is copied into the record. The record's
// text, when it is kept, is the answer alone: reasoning and tool calls are not in it,
// so a count made from the text is short for such answers.
func (c *Client) Do(ctx context.Context, clock probes.Clock, req *probes.Request, due time.Duration) (rec probes.Record) {
	rec = probes.Record{
		ID: req.ID, Index: req.Index, Warmup: req.Warmup, Definitions: req.Definitions, Due: due,
		RequestedInput: req.InputTokens, RequestedOutput: req.MaxOutputTokens, Images: len(req.Images),
	}
	defer func() {
		if p := recover(); p != nil {
			rec.Outcome, rec.End = probes.BadResponse, probes.Known(clock.Now())
			rec.Error = c.printable(fmt.Sprint("read answer: internal error: ", p), sentTexts(req)...)
		}
	}()
	x := exchange{Client: c, ctx: ctx, clock: clock, req: req, rec: &rec}
	x.run()
	return rec
}
