package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

const ms = time.Millisecond

// bubble runs a test in virtual time and lets the servers' scripts end.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(3 * time.Hour)
		f(t)
	})
}

// network is a set of scripted servers behind DialContext.
type network struct {
	connect time.Duration
	// serve runs for each connection, numbered from 1, and owns it.
	serve func(n int, c *peer)
	addrs []string // dialled, in order
}

// peer is the server's end of a connection.
type peer struct {
	net.Conn
	br *bufio.Reader
}

func newPeer(c net.Conn) *peer { return &peer{Conn: c, br: bufio.NewReader(c)} }

// dial must only be called from one goroutine at a time.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.addrs = append(n.addrs, address)
	if err := pause(ctx, n.connect); err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go n.serve(len(n.addrs), newPeer(theirs))
	return ours, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read takes one whole request; nil when the client has gone.
func (p *peer) read() *http.Request {
	req, err := http.ReadRequest(p.br)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req
}

func (p *peer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Conn, format, args...)
}

// gone waits until the client has closed and returns when it did.
func (p *peer) gone() { _, _ = p.br.ReadByte() }

const okHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// reply answers every request with text after a delay.
func reply(delay time.Duration, text string) func(int, *peer) {
	return func(_ int, p *peer) {
		defer p.Close()
		for p.read() != nil {
			time.Sleep(delay)
			p.say("%s", text)
		}
	}
}

func client(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := NewClient(o)
	if err != nil {
		t.Fatalf("NewClient: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func get(url string) *Request { return &Request{Method: "GET", URL: url} }

func post(url, body string) *Request {
	return &Request{Method: "POST", URL: url, Body: []byte(body),
		Header: http.Header{"Content-Type": {"application/json"}}}
}

func do(t testing.TB, c *Client, clock probes.Clock, req *Request) *Response {
	t.Helper()
	resp, err := c.Do(t.Context(), clock, req)
	if err != nil {
		t.Fatalf("Do %s %s: %v", req.Method, req.URL, err)
	}
	return resp
}

func text(t testing.TB, r *Response) string {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read body: %v (after %q)", err, all)
	}
	return string(all)
}

// whole does one exchange to its end and returns the response.
func whole(t testing.TB, c *Client, clock probes.Clock, req *Request) *Response {
	t.Helper()
	r := do(t, c, clock, req)
	if got, want := text(t, r), "hello"; got != want {
		t.Errorf("body = %q, want %q", got, want)
	}
	r.Close(true)
	return r
}

func failure(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T), want an *Error", err, err)
	}
	return e
}

func diff(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func known(d time.Duration) probes.Optional[time.Duration] { return probes.Known(d) }

// authority is a private certificate authority in a temporary directory.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	File string // its certificate, PEM
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, key := a.sign(template, template, nil)
	a.key = key
	a.cert, _ = x509.ParseCertificate(der)
	a.File = a.write("CERTIFICATE", der)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func (a *authority) write(kind string, der []byte) string {
	a.t.Helper()
	f, err := os.CreateTemp(a.t.TempDir(), "*.pem")
	if err == nil {
		err = errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close())
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return filepath.Clean(f.Name())
}

// issue makes a certificate for a name or an address, for both ends of a connection.
func (a *authority) issue(name string) (certificate tls.Certificate, certFile, keyFile string) {
	a.t.Helper()
	var ips []net.IP
	if ip := net.ParseIP(name); ip != nil {
		ips = append(ips, ip)
	}
	der, key := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IPAddresses: ips, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, a.key)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, a.write("CERTIFICATE", der), a.write("PRIVATE KEY", pkcs8)
}

// secured puts a server script behind TLS whose handshake begins after a delay.
func (a *authority) secured(name string, delay time.Duration, serve func(int, *peer)) func(int, *peer) {
	certificate, _, _ := a.issue(name)
	return func(n int, p *peer) {
		time.Sleep(delay)
		c := tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"},
			// A ticket is written while the client writes its request: a pipe
			// without a buffer would hold both forever.
			SessionTicketsDisabled: true})
		if c.Handshake() != nil {
			_ = p.Close()
			return
		}
		serve(n, newPeer(c))
	}
}
