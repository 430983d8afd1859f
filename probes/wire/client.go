package wire

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Options are the properties of a client.
type Options struct {
	// Connection gives policy, redirects, proxy and TLS. Its key and headers
	// are the caller's to put into Request.Header.
	Connection probes.Connection
	// ConnectTimeout bounds one dial: look-up, TCP, proxy and TLS together; 0 is
	// no bound.
	ConnectTimeout time.Duration
	// DialContext replaces look-up and TCP: it gets host:port as the URL has it, or
	// the network unix and a path, and must return when its context ends. The
	// connection is the client's then: a TCP connection is taken over into a
	// descriptor of its own, and the one that was returned is closed.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client makes exchanges and keeps idle connections between them. It may be used
// by many goroutines; it starts none. Without anybody using it, it keeps its
// idle connections until Close.
type Client struct {
	options Options
	tls     *tlsSettings
	proxy   func(*url.URL) (*url.URL, error) // nil: always direct
	pool    pool
	poller  poller
	buffers sync.Pool // *bytes.Buffer for encoded requests

	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error) // nil: dial looks up
}

// NewClient reads the certificate files and the proxy settings; an error names
// the field and the file.
func NewClient(o Options) (*Client, error) {
	c := &Client{options: o, dial: o.DialContext}
	switch o.Connection.Policy {
	case "", probes.ConnectionReuse, probes.ConnectionNew:
	default:
		return nil, fmt.Errorf("read connection policy: %q is neither %q nor %q", o.Connection.Policy, probes.ConnectionReuse, probes.ConnectionNew)
	}
	switch o.Connection.Protocol {
	case "", probes.HTTP1, probes.HTTP2:
	default:
		return nil, fmt.Errorf("read protocol: %q is neither %q nor %q", o.Connection.Protocol, probes.HTTP1, probes.HTTP2)
	}
	if o.ConnectTimeout < 0 {
		return nil, fmt.Errorf("read connect timeout: %v is negative (0 means no bound)", o.ConnectTimeout)
	}
	var err error
	if c.tls, err = readTLS(o.Connection.TLS); err != nil {
		return nil, err
	}
	if c.proxy, err = readProxy(o.Connection.Proxy); err != nil {
		return nil, err
	}
	if c.dial == nil {
		c.dial = new(net.Dialer).DialContext
		c.lookup = net.DefaultResolver.LookupNetIP
	}
	return c, nil
}

// Close closes the idle connections; those in use are closed when their
// responses are.
func (c *Client) Close() { c.pool.close() }

// Request is one HTTP request.
type Request struct {
	Method string
	// URL is http://…, https://…, or unix:///path/of.sock:/request for a server that
	// listens on a socket of this host; it sees the host localhost then.
	URL string
	// Header is sent as it is, with Accept-Encoding: identity when it has none. A
	// Host entry replaces the URL's host on the wire.
	Header http.Header
	Body   []byte // must not change before Do has returned
	// Deadline is the offset on the clock by which the head of the answer must
	// have come; it bounds connecting and writing too.
	Deadline probes.Optional[time.Duration]
	// SameHost: a redirect to another host is returned, whatever the options say.
	SameHost bool
}

// Do sends the request and returns when the headers of the answer have been
// read. Errors are *Error. Any answer is a Response, whatever its status; a
// redirect is followed only if the options say so, only for 307 and 308, with
// method and body unchanged, and at most 5 times: the next one is returned.
// When ctx ends, the connection is closed at once, also while the body is read.
func (c *Client) Do(ctx context.Context, clock probes.Clock, req *Request) (*Response, error) {
	x, err := c.newExchange(ctx, clock, req)
	if err != nil {
		return nil, &Error{Phase: PhaseClient, Err: err}
	}
	for {
		resp, err := x.roundTrip()
		if err != nil {
			return nil, err
		}
		if !x.follow(resp) {
			return resp, nil
		}
	}
}

// maxKeptBuffer keeps one request with images from pinning its size forever.
const maxKeptBuffer = 1 << 20

func (c *Client) buffer() *bytes.Buffer {
	if b, ok := c.buffers.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (c *Client) release(b *bytes.Buffer) {
	if b.Cap() <= maxKeptBuffer {
		b.Reset()
		c.buffers.Put(b)
	}
}
