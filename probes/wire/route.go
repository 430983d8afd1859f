package wire

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/inferbeat/inferbeat/probes"
)

// route is what two requests must have in common to share a connection.
type route struct {
	https      bool
	host, port string
	// own: the host of the caller's URL. Only it gets the client certificate and
	// the server name that the options give.
	own   bool
	proxy *url.URL // nil: direct. Equal routes hold the same pointer.
	// socket is the path of a socket of this host, which is dialled then.
	socket string
}

// routeTo is the way to the host of the current URL.
func (x *exchange) routeTo(u *url.URL) (route, error) {
	c := x.client
	rt := route{https: u.Scheme == "https", host: u.Hostname(), port: portOf(u), own: x.same(u)}
	if rt.own {
		rt.socket = x.socket
	}
	if c.proxy == nil || rt.socket != "" {
		return rt, nil
	}
	var err error
	if rt.proxy, err = c.proxy(u); err != nil {
		return rt, errProxyURL
	}
	if rt.proxy != nil && !rt.https && c.options.Connection.Protocol == probes.HTTP2 {
		return rt, errProxyPlain
	}
	return rt, checkProxy(rt.proxy)
}

// firstHop is the address to dial.
func (rt route) firstHop() (host, port string) {
	if rt.proxy != nil {
		return rt.proxy.Hostname(), portOf(rt.proxy)
	}
	return rt.host, rt.port
}

// splitSocket turns unix:///path/of.sock:/request into the socket's path and the URL
// of the request on it, as nginx writes them; any other URL is returned as it is. In
// the path of the socket a colon is written as %3A.
func splitSocket(raw string) (socket, request string, err error) {
	rest, isSocket := strings.CutPrefix(raw, "unix://")
	if !isSocket {
		return "", raw, nil
	}
	escaped, request, _ := strings.Cut(rest, ":")
	if socket, err = url.PathUnescape(escaped); err != nil || !strings.HasPrefix(socket, "/") || !strings.HasPrefix(request, "/") {
		return "", "", errors.New("a socket is written unix:///path/of.sock:/request")
	}
	return socket, "http://localhost" + request, nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// errProxyURL quotes nothing: a proxy's URL may hold a password.
var errProxyURL = errors.New(`read proxy: must be "none", "env", or a URL of the form http://host:port`)

// readProxy turns the setting into a function of the target's URL. By default
// the process environment has no say: a benchmark that quietly went through a
// pod's proxy would measure the proxy.
func readProxy(setting string) (func(*url.URL) (*url.URL, error), error) {
	switch setting {
	case "", "none":
		return nil, nil
	case "env":
		return httpproxy.FromEnvironment().ProxyFunc(), nil
	}
	u, err := url.Parse(setting)
	if err != nil || u.Hostname() == "" {
		return nil, errProxyURL
	}
	if err := checkProxy(u); err != nil {
		return nil, err
	}
	return func(*url.URL) (*url.URL, error) { return u, nil }, nil
}

func checkProxy(u *url.URL) error {
	if u != nil && u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("read proxy: scheme %q is not supported, use an http or https proxy", u.Scheme)
	}
	return nil
}

// proxyAuthorization is the header for a proxy URL with user info, else empty.
func proxyAuthorization(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// tlsSettings makes the TLS configuration of a route.
type tlsSettings struct {
	base       *tls.Config
	serverName string
	client     []tls.Certificate
}

func readTLS(o probes.TLS) (*tlsSettings, error) {
	s := &tlsSettings{
		serverName: o.ServerName,
		base: &tls.Config{
			InsecureSkipVerify: o.InsecureSkipVerify,
			// Else a request of a few kilobytes leaves in several writes.
			DynamicRecordSizingDisabled: true,
		},
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read tls ca_file: %w", err)
		}
		s.base.RootCAs = x509.NewCertPool()
		if !s.base.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read tls ca_file %s: no PEM certificate in it", o.CAFile)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("read tls client certificate: cert_file and key_file must be given together")
	}
	if o.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read tls cert_file %s with key_file %s: %w", o.CertFile, o.KeyFile, err)
		}
		s.client = []tls.Certificate{certificate}
	}
	return s, nil
}

// over lays TLS on a connection to the host, for the protocol of that name.
func (s *tlsSettings) over(raw net.Conn, host string, own bool, protocol string) *tls.Conn {
	config := s.base.Clone()
	config.NextProtos = []string{protocol}
	config.ServerName, _, _ = strings.Cut(host, "%") // a zone is not part of a name
	if own {
		config.Certificates = s.client
		if s.serverName != "" {
			config.ServerName = s.serverName
		}
	}
	return tls.Client(raw, config)
}
