package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// maxRedirects is how many redirects are followed before one is returned.
const maxRedirects = 5

// earlyAnswer is how long an answer is waited for after the server stopped
// reading the request.
const earlyAnswer = 50 * time.Millisecond

// foreignHeaders are what another host gets to see of the caller's headers.
// Anything else may be a credential.
var foreignHeaders = []string{"Content-Type", "Accept", "Accept-Encoding", "User-Agent"}

// exchange is one Do: the request as it stands after the redirects so far, and
// what is known about its connections.
type exchange struct {
	client   *Client
	ctx      context.Context
	clock    probes.Clock
	deadline time.Time // zero: none
	origin   *url.URL
	socket   string // where the origin is, if not on the network
	head     *http.Request
	body     []byte
	sameHost bool
	trace    probes.ConnectionTrace
	stale    bool
}

func (c *Client) newExchange(ctx context.Context, clock probes.Clock, req *Request) (*exchange, error) {
	socket, target, err := splitSocket(req.URL)
	if err != nil {
		return nil, err
	}
	head, err := http.NewRequest(req.Method, target, nil)
	var malformed *url.Error
	if errors.As(err, &malformed) {
		err = fmt.Errorf("parse url: %w", malformed.Err) // without the url itself
	}
	if err != nil {
		return nil, err
	}
	if (head.URL.Scheme != "http" && head.URL.Scheme != "https") || head.URL.Hostname() == "" {
		return nil, errors.New("url must be http://host or https://host")
	}
	head.Header = make(http.Header, len(req.Header)+1)
	maps.Copy(head.Header, req.Header)
	if head.Header.Get("Accept-Encoding") == "" {
		head.Header["Accept-Encoding"] = []string{"identity"}
	}
	if host := req.Header.Get("Host"); host != "" {
		head.Host = host
	}
	return &exchange{
		client:   c,
		ctx:      ctx,
		clock:    clock,
		deadline: instant(clock, req.Deadline),
		origin:   head.URL,
		socket:   socket,
		head:     head,
		body:     req.Body,
		sameHost: req.SameHost,
		trace:    probes.ConnectionTrace{Reused: true},
	}, nil
}

// roundTrip sends the request to one server, on an idle connection if there is
// one, and returns its answer.
func (x *exchange) roundTrip() (*Response, error) {
	rt, err := x.routeTo(x.head.URL)
	if err != nil {
		return nil, x.fail(PhaseClient, err)
	}
	message := x.client.buffer()
	defer x.client.release(message)
	if err := x.encode(message, rt); err != nil {
		return nil, x.fail(PhaseClient, err)
	}
	if x.client.options.Connection.Policy != probes.ConnectionNew {
		if cn := x.client.pool.take(rt); cn != nil {
			resp, err := x.send(cn, message.Bytes())
			if err == nil || !x.wasStale(cn, err) {
				return resp, err
			}
			x.stale = true
		}
	}
	x.trace.Reused = false
	cn, err := x.dial(rt)
	if err != nil {
		return nil, err
	}
	return x.send(cn, message.Bytes())
}

// wasStale tells a connection that its server had closed from any other failure:
// no byte of an answer had come, and neither we nor the clock ended it.
func (x *exchange) wasStale(cn *conn, err error) bool {
	return !cn.answered() && x.ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// encode writes the whole request, so that it leaves in one write.
func (x *exchange) encode(message *bytes.Buffer, rt route) error {
	head := *x.head
	if len(x.body) > 0 {
		head.Body = io.NopCloser(bytes.NewReader(x.body))
		head.ContentLength = int64(len(x.body))
	}
	if rt.proxy == nil || rt.https {
		return head.Write(message)
	}
	if credentials := proxyAuthorization(rt.proxy); credentials != "" {
		head.Header = maps.Clone(head.Header)
		head.Header["Proxy-Authorization"] = []string{credentials}
	}
	return head.WriteProxy(message)
}

// send writes the request and reads the head of the answer. On failure the
// connection is closed.
func (x *exchange) send(cn *conn, message []byte) (*Response, error) {
	cn.watch(x.ctx)
	cn.begin(x.clock)
	x.trace.LocalAddress, x.trace.Protocol = cn.local, ""
	head, phase, err := x.converse(cn, message)
	if err == nil && !x.deadline.IsZero() {
		phase, err = PhaseResponse, cn.raw.SetDeadline(time.Time{})
	}
	if err != nil {
		err := x.fail(phase, err)
		cn.close()
		return nil, err
	}
	x.trace.Protocol = head.Proto
	return x.respond(cn, head), nil
}

// converse is the write and the read that follows it, and which of them failed.
func (x *exchange) converse(cn *conn, message []byte) (*http.Response, Phase, error) {
	// Set even when there is none: a fresh connection still has its dial's.
	if err := cn.raw.SetDeadline(x.deadline); err != nil {
		return nil, PhaseWrite, err
	}
	if cn.h2 != nil {
		return cn.h2.converse(x)
	}
	_, wrote := cn.stream.Write(message)
	if wrote == nil {
		head, err := cn.readHead(x.head)
		return head, PhaseResponse, err
	}
	if x.ctx.Err() != nil || errors.Is(wrote, os.ErrDeadlineExceeded) {
		return nil, PhaseWrite, wrote
	}
	// A server may answer (413, 401) and hang up without reading a long body;
	// its answer says more than our broken pipe.
	by := time.Now().Add(earlyAnswer)
	if !x.deadline.IsZero() && x.deadline.Before(by) {
		by = x.deadline
	}
	if cn.raw.SetReadDeadline(by) != nil {
		return nil, PhaseWrite, wrote
	}
	head, err := cn.readHead(x.head)
	if err != nil {
		return nil, PhaseWrite, wrote
	}
	head.Close = true
	return head, PhaseWrite, cn.raw.SetReadDeadline(x.deadline)
}

func (x *exchange) respond(cn *conn, head *http.Response) *Response {
	r := &Response{
		StatusCode: head.StatusCode,
		Header:     head.Header,
		Trace:      x.trace,
		FirstByte:  cn.firstByte,
		Stale:      x.stale,
		client:     x.client,
		ctx:        x.ctx,
		clock:      x.clock,
		cn:         cn,
	}
	r.body.br = cn.br
	r.body.next, r.body.left = framingOf(head)
	if cn.h2 != nil {
		r.body.next, r.body.frames = framed, cn.h2
		if cn.h2.last {
			r.body.next = ended
		}
	}
	if coding := contentCoding(head.Header); coding != "" && r.body.next != ended {
		r.Compressed = true
		r.decoder = decoder{coding: coding, src: &r.body}
	}
	if x.client.options.Connection.Policy != probes.ConnectionNew && !head.Close {
		r.keep = keepFor(head.Header)
	}
	if to := x.target(r); to != nil {
		r.Location = to.Redacted()
	}
	return r
}

// target is where a redirect points to; nil when the answer is none.
func (x *exchange) target(r *Response) *url.URL {
	location := r.Header.Get("Location")
	if r.StatusCode/100 != 3 || location == "" {
		return nil
	}
	to, err := x.head.URL.Parse(location)
	if err != nil {
		return nil
	}
	return to
}

// follow makes the request point to the redirect's target and closes the
// redirect, or reports that the response is to be returned. Only 307 and 308
// promise that method and body survive.
func (x *exchange) follow(r *Response) bool {
	permitted := x.client.options.Connection.FollowRedirects && x.trace.Redirects < maxRedirects
	if !permitted || (r.StatusCode != http.StatusTemporaryRedirect && r.StatusCode != http.StatusPermanentRedirect) {
		return false
	}
	to := x.target(r)
	if to == nil || (to.Scheme != "http" && to.Scheme != "https") || to.Hostname() == "" {
		return false
	}
	if x.sameHost && !x.same(to) {
		return false
	}
	r.Close(true)
	x.trace.Redirects++
	if !x.same(to) {
		// Not restored when a later redirect leads back: the way there was
		// somebody else's choice.
		for name := range x.head.Header {
			if !slices.Contains(foreignHeaders, http.CanonicalHeaderKey(name)) {
				delete(x.head.Header, name)
			}
		}
		x.head.Host = to.Host
	} else if x.head.Host == x.head.URL.Host {
		x.head.Host = to.Host
	}
	x.head.URL = to
	return true
}

// same reports whether to is the caller's own host. What listens on a socket knows
// no TLS.
func (x *exchange) same(to *url.URL) bool {
	return sameOrigin(x.origin, to) && (x.socket == "" || to.Scheme == "http")
}

// sameOrigin reports whether to may see what was meant for from: the same host
// and port, and never less protected. The usual step from http to https on the
// standard ports is the same origin.
func sameOrigin(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	if from.Scheme == to.Scheme {
		return portOf(from) == portOf(to)
	}
	return to.Scheme == "https" && portOf(from) == "80" && portOf(to) == "443"
}

// fail makes the error of a phase. A cancellation shows as many things, the
// closed socket first; it is named for what it is.
func (x *exchange) fail(phase Phase, err error) *Error {
	if x.ctx.Err() != nil {
		err = cancelled(x.ctx)
	}
	x.trace.Reused = x.trace.Reused && phase != PhaseClient
	return &Error{Phase: phase, Err: err, Trace: x.trace, Stale: x.stale}
}
