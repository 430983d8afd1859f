package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

var errNoResponse = fmt.Errorf("no response in time: %w", os.ErrDeadlineExceeded)

// dialing is one attempt to get a connection, bounded by the connect timeout or
// the request's deadline, whichever comes first.
type dialing struct {
	*exchange
	ctx   context.Context
	until time.Time // zero: no bound
	cause error     // what it means when until has passed
}

// dial opens a connection for the route and adds its phases to the trace, the
// failed one too.
func (x *exchange) dial(rt route) (*conn, error) {
	d := dialing{exchange: x, ctx: x.ctx, until: x.deadline, cause: errNoResponse}
	if limit := x.client.options.ConnectTimeout; limit > 0 {
		if until := time.Now().Add(limit); d.until.IsZero() || until.Before(d.until) {
			d.until, d.cause = until, fmt.Errorf("%w: not ready within %v", ErrConnectTimeout, limit)
		}
	}
	if !d.until.IsZero() {
		ctx, cancel := context.WithDeadlineCause(x.ctx, d.until, d.cause)
		defer cancel()
		d.ctx = ctx
	}
	raw, err := d.reach(rt)
	if err != nil {
		return nil, err
	}
	cn := newConn(newSocket(raw, &x.client.poller), rt)
	cn.watch(x.ctx)
	x.trace.LocalAddress = cn.local
	if err := d.prepare(cn); err != nil {
		cn.close()
		return nil, err
	}
	return cn, nil
}

// prepare takes a connected socket through proxy and TLS to the target.
func (d *dialing) prepare(cn *conn) error {
	if err := cn.raw.SetDeadline(d.until); err != nil {
		return d.failed(PhaseConnect, err)
	}
	rt, http2 := cn.route, d.client.options.Connection.Protocol == probes.HTTP2
	if http2 {
		cn.h2 = newFrames(cn)
	}
	if rt.proxy != nil {
		begin := d.clock.Now()
		err := d.throughProxy(cn)
		d.trace.Connect = plus(d.trace.Connect, d.clock.Now()-begin)
		if err != nil {
			return d.failed(PhaseConnect, err)
		}
	}
	if !rt.https {
		return nil
	}
	protocol := "http/1.1"
	if http2 {
		protocol = "h2"
	}
	begin := d.clock.Now()
	secure := d.client.tls.over(cn.stream, rt.host, rt.own, protocol)
	err := secure.Handshake()
	d.trace.TLS = plus(d.trace.TLS, d.clock.Now()-begin)
	if err == nil && http2 && secure.ConnectionState().NegotiatedProtocol != protocol {
		err = errNoHTTP2
	}
	if err != nil {
		return d.failed(PhaseTLS, err)
	}
	cn.stream = secure
	return nil
}

// reach resolves the host if need be and connects to the first address that
// answers.
func (d *dialing) reach(rt route) (net.Conn, error) {
	if rt.socket != "" {
		return d.connect("unix", []string{rt.socket})
	}
	host, port := rt.firstHop()
	addresses := []string{net.JoinHostPort(host, port)}
	if _, literal := netip.ParseAddr(host); literal != nil && d.client.lookup != nil {
		begin := d.clock.Now()
		ips, err := d.client.lookup(d.ctx, "ip", host)
		d.trace.DNS = plus(d.trace.DNS, d.clock.Now()-begin)
		if err == nil && len(ips) == 0 {
			err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		if err != nil {
			return nil, d.failed(PhaseDNS, err)
		}
		addresses = addresses[:0]
		for _, ip := range ips {
			addresses = append(addresses, net.JoinHostPort(ip.Unmap().String(), port))
		}
	}
	return d.connect("tcp", addresses)
}

func (d *dialing) connect(network string, addresses []string) (net.Conn, error) {
	begin := d.clock.Now()
	raw, err := d.connectAny(network, addresses)
	d.trace.Connect = plus(d.trace.Connect, d.clock.Now()-begin)
	if err != nil {
		return nil, d.failed(PhaseConnect, err)
	}
	return raw, nil
}

// connectAny tries the addresses in order. Each may use its share of the time
// that is left, so that one silent address does not eat the others' chance.
func (d *dialing) connectAny(network string, addresses []string) (net.Conn, error) {
	var failures error
	for i, address := range addresses {
		raw, err := d.connectOne(network, address, len(addresses)-i)
		if err == nil {
			return raw, nil
		}
		switch {
		case d.ctx.Err() != nil || outOfDescriptors(err):
			return nil, err
		case failures == nil || (outOfPorts(failures) && !outOfPorts(err)):
			failures = err
		case !outOfPorts(err):
			failures = fmt.Errorf("%w; %w", failures, err)
		}
	}
	return nil, failures
}

func (d *dialing) connectOne(network, address string, left int) (net.Conn, error) {
	if left == 1 || d.until.IsZero() {
		return d.client.dial(d.ctx, network, address)
	}
	share := time.Until(d.until) / time.Duration(left)
	ctx, cancel := context.WithTimeout(d.ctx, share)
	defer cancel()
	raw, err := d.client.dial(ctx, network, address)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && d.ctx.Err() == nil {
		// Not wrapped: it would pass for the end of the whole request.
		return nil, fmt.Errorf("dial %s %s: no answer within %v", network, address, share)
	}
	return raw, err
}

// throughProxy secures an https proxy, and asks it for a tunnel to an https target.
func (d *dialing) throughProxy(cn *conn) error {
	rt := cn.route
	if rt.proxy.Scheme == "https" {
		secure := d.client.tls.over(cn.raw, rt.proxy.Hostname(), false, "http/1.1")
		if err := secure.Handshake(); err != nil {
			return fmt.Errorf("secure connection to proxy: %w", err)
		}
		cn.stream = secure
	}
	if !rt.https {
		return nil
	}
	address := net.JoinHostPort(rt.host, rt.port)
	request := http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Opaque: address},
		Host:   address,
		Header: http.Header{"User-Agent": {d.head.UserAgent()}},
	}
	if credentials := proxyAuthorization(rt.proxy); credentials != "" {
		request.Header["Proxy-Authorization"] = []string{credentials}
	}
	var message bytes.Buffer
	if err := request.Write(&message); err != nil {
		return fmt.Errorf("ask proxy for %s: %w", address, err)
	}
	if _, err := cn.stream.Write(message.Bytes()); err != nil {
		return fmt.Errorf("ask proxy for %s: %w", address, err)
	}
	// A reader of its own: TLS will read from the stream below cn.br. The proxy
	// sends nothing after its headers before the handshake begins.
	br := bufio.NewReader(io.LimitReader(cn.stream, maxHeader))
	answer, err := http.ReadResponse(br, &request)
	switch {
	case err != nil:
		return fmt.Errorf("ask proxy for %s: %w", address, err)
	case answer.StatusCode/100 != 2:
		return fmt.Errorf("ask proxy for %s: proxy answered %s", address, answer.Status)
	case br.Buffered() > 0:
		return fmt.Errorf("ask proxy for %s: proxy sent %d bytes before the handshake", address, br.Buffered())
	}
	return nil
}

// failed makes the error of a dial phase: it tells our own shortage from the
// network's failure, and which bound has passed.
func (d *dialing) failed(phase Phase, err error) *Error {
	var dns *net.DNSError
	switch {
	case outOfDescriptors(err) || outOfPorts(err):
		phase = PhaseClient
	case errors.As(err, &dns) && strings.Contains(dns.Err, syscall.EMFILE.Error()):
		phase = PhaseClient // the resolver keeps the text only
	case !d.until.IsZero() && (d.ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)):
		err = d.cause
	}
	return d.fail(phase, err)
}

// plus adds a phase's time to what earlier hops have spent in it.
func plus(sum probes.Optional[time.Duration], d time.Duration) probes.Optional[time.Duration] {
	before, _ := sum.Get()
	return probes.Known(before + d)
}
