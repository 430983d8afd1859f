package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

const noContent = "HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"

// seen is what a server noted of a request.
type seen struct {
	Method, Path, Host, Body string
	Header                   http.Header
}

func note(req *http.Request) seen {
	body, _ := io.ReadAll(req.Body)
	return seen{req.Method, req.URL.Path, req.Host, string(body), req.Header}
}

func TestRedirectIsReturnedByDefault(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, follow := range []bool{false, true} {
			if follow && status >= 307 {
				continue
			}
			t.Run(fmt.Sprintf("%d/follow=%v", status, follow), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					n := &network{serve: reply(40*ms, fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: /v1/x/?a=b\r\nContent-Length: 5\r\n\r\nhello", status))}
					c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{FollowRedirects: follow}})
					r := whole(t, c, probes.NewClock(), post("http://a:8000/v1/x", "{}"))
					diff(t, "status", r.StatusCode, status)
					diff(t, "location", r.Location, "http://a:8000/v1/x/?a=b")
					diff(t, "redirects", r.Trace.Redirects, 0)
					diff(t, "first byte", r.FirstByte, 40*ms)
				})
			})
		}
	}
}

func TestRedirectIsFollowedWithTheWholeBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got []seen
		n := &network{connect: 15 * ms, serve: func(_ int, p *peer) {
			defer p.Close()
			for req := p.read(); req != nil; req = p.read() {
				got = append(got, note(req))
				time.Sleep(40 * ms)
				if req.URL.Path == "/v1/completions" {
					p.say(noContent, "/v1/completions/")
					continue
				}
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
				time.Sleep(260 * ms)
				p.say("hello")
			}
		}}
		c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{FollowRedirects: true}})
		clock := probes.NewClock()
		req := post("http://a/v1/completions", `{"prompt":"x"}`)
		req.Header.Set("Authorization", "Bearer k")
		r := do(t, c, clock, req)
		diff(t, "arrivals", arrivals(t, r, clock), []string{`355ms "hello"`, `355ms "EOF"`})
		r.Close(true)
		diff(t, "trace", r.Trace, probes.ConnectionTrace{Connect: known(15 * ms), Redirects: 1, Protocol: "HTTP/1.1", LocalAddress: "pipe"})
		diff(t, "first byte", r.FirstByte, 95*ms)
		header := http.Header{"Accept-Encoding": {"identity"}, "Authorization": {"Bearer k"}, "Content-Length": {"14"},
			"Content-Type": {"application/json"}, "User-Agent": {"Go-http-client/1.1"}}
		diff(t, "requests", got, []seen{
			{"POST", "/v1/completions", "a", `{"prompt":"x"}`, header},
			{"POST", "/v1/completions/", "a", `{"prompt":"x"}`, header},
		})
	})
}

func TestRedirectToAnotherHostCarriesNoCredentials(t *testing.T) {
	for _, test := range []struct {
		name, from, to string
		safe           bool // the headers may go along
		dialled        string
	}{
		{"another host", "http://a/x", "http://b/y", false, "b:80"},
		{"another port", "http://a/x", "http://a:81/y", false, "a:81"},
		{"subdomain", "http://a/x", "http://evil.a/y", false, "evil.a:80"},
		{"same host", "http://a/x", "http://A:80/y", true, "A:80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var got []seen
				n := &network{connect: 15 * ms, serve: func(_ int, p *peer) {
					defer p.Close()
					for req := p.read(); req != nil; req = p.read() {
						got = append(got, note(req))
						if req.URL.Path == "/x" {
							p.say(noContent, test.to)
						} else {
							p.say("%s", okHello)
						}
					}
				}}
				c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{FollowRedirects: true}})
				req := post(test.from, "{}")
				for name, value := range map[string]string{"Authorization": "Bearer k", "X-Api-Key": "k", "Accept": "text/event-stream", "User-Agent": "u", "Cookie": "c"} {
					req.Header.Set(name, value)
				}
				r := whole(t, c, probes.NewClock(), req)
				want := http.Header{"Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "Content-Length": {"2"},
					"Content-Type": {"application/json"}, "User-Agent": {"u"}}
				if test.safe {
					want.Set("Authorization", "Bearer k")
					want.Set("X-Api-Key", "k")
					want.Set("Cookie", "c")
				}
				target, _ := url.Parse(test.to)
				diff(t, "second request", got[1], seen{"POST", "/y", target.Host, "{}", want})
				diff(t, "connect", r.Trace.Connect, known(15*ms*time.Duration(len(n.addrs))))
				diff(t, "dialled", n.addrs[len(n.addrs)-1], test.dialled)
				diff(t, "caller's header", len(req.Header), 6)
			})
		})
	}
}

func TestRedirectsComeToAnEnd(t *testing.T) {
	for name, test := range map[string]struct {
		location string
		count    int
		want     string
	}{
		"loop":       {"/x", 5, "http://a/x"},
		"nowhere":    {"", 0, ""},
		"not a url":  {"http://[", 0, ""},
		"not http":   {"file:///etc/passwd", 0, "file:///etc/passwd"},
		"a password": {"ftp://u:secret@b/", 0, "ftp://u:xxxxx@b/"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{serve: reply(10*ms, fmt.Sprintf(noContent, test.location))}
				c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{FollowRedirects: true}})
				r := do(t, c, probes.NewClock(), post("http://a/x", "{}"))
				diff(t, "status", r.StatusCode, 307)
				diff(t, "redirects", r.Trace.Redirects, test.count)
				diff(t, "location", r.Location, test.want)
				diff(t, "first byte", r.FirstByte, time.Duration(test.count+1)*10*ms)
			})
		})
	}
}

func TestSameOrigin(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"http://a", "https://a", true},
		{"http://a:80", "https://a:443", true},
		{"http://a:8000", "https://a:8443", false},
		{"https://a", "http://a", false},
		{"https://a:443", "http://a:443", false},
		{"https://a", "https://a.", false},
	} {
		from, _ := url.Parse(test.from)
		to, _ := url.Parse(test.to)
		if got := sameOrigin(from, to); got != test.want {
			t.Errorf("sameOrigin(%s, %s) = %v, want %v", test.from, test.to, got, test.want)
		}
	}
}

func TestCertificateForAnAddressWithAZone(t *testing.T) {
	ca := newAuthority(t)
	serve := ca.secured("fe80::1", 45*ms, reply(0, okHello))
	bubble(t, func(t *testing.T) {
		n := &network{connect: 15 * ms, serve: serve}
		c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{TLS: probes.TLS{CAFile: ca.File}}})
		r := whole(t, c, probes.NewClock(), get("https://[fe80::1%25eth0]:8443"))
		diff(t, "tls", r.Trace.TLS, known(45*ms))
	})
}

// listen serves each connection on a loopback socket.
func listen(t testing.TB, serve func(*peer)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(newPeer(c))
			}()
		}
	}()
	return l.Addr().String()
}

func TestServerNameWhenTheURLHoldsAnAddress(t *testing.T) {
	ca := newAuthority(t)
	certificate, _, _ := ca.issue(host)
	_, clientCert, clientKey := ca.issue("inferbeat")
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	var mu sync.Mutex
	var hello *tls.ClientHelloInfo
	handshakes := 0
	address := listen(t, func(p *peer) {
		c := tls.Server(p.Conn, &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
			GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				mu.Lock()
				defer mu.Unlock()
				hello = h
				handshakes++
				return nil, nil
			}, Certificates: []tls.Certificate{certificate}})
		if c.Handshake() != nil {
			return
		}
		name := ""
		if certs := c.ConnectionState().PeerCertificates; len(certs) > 0 {
			name = certs[0].Subject.CommonName
		}
		q := newPeer(c)
		for q.read() != nil {
			q.say("HTTP/1.1 200 OK\r\nX-Client: %s\r\nContent-Length: 5\r\n\r\nhello", name)
		}
	})
	for _, test := range []struct {
		name    string
		options probes.TLS
		phase   Phase
		sni     string
		client  string
	}{
		{"name and authority", probes.TLS{CAFile: ca.File, ServerName: host}, "", host, ""},
		{"with a client certificate", probes.TLS{CAFile: ca.File, ServerName: host, CertFile: clientCert, KeyFile: clientKey}, "", host, "inferbeat"},
		{"the address is not in the certificate", probes.TLS{CAFile: ca.File}, PhaseTLS, "", ""},
		{"another name", probes.TLS{CAFile: ca.File, ServerName: "other.example.test"}, PhaseTLS, "other.example.test", ""},
		{"unknown authority", probes.TLS{ServerName: host}, PhaseTLS, host, ""},
		{"asked not to look", probes.TLS{InsecureSkipVerify: true}, "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			mu.Lock()
			handshakes = 0
			mu.Unlock()
			c := client(t, Options{Connection: probes.Connection{TLS: test.options}})
			r, err := c.Do(t.Context(), probes.NewClock(), get("https://"+address))
			mu.Lock()
			diff(t, "handshakes", handshakes, 1) // no second, insecure one
			diff(t, "sni", hello.ServerName, test.sni)
			diff(t, "protocols", hello.SupportedProtos, []string{"http/1.1"})
			mu.Unlock()
			if test.phase != "" {
				e := failure(t, err)
				diff(t, "phase", e.Phase, test.phase)
				diff(t, "connect and tls known", []bool{e.Trace.Connect.IsKnown(), e.Trace.TLS.IsKnown()}, []bool{true, true})
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "client", r.Header.Get("X-Client"), test.client)
			diff(t, "body", text(t, r), "hello")
			r.Close(true)
			diff(t, "reused under TLS", whole(t, c, probes.NewClock(), get("https://"+address)).Trace.Reused, true)
		})
	}
	t.Run("not TLS at all", func(t *testing.T) {
		plain := listen(t, func(p *peer) { p.say("HTTP/1.1 400 Bad Request\r\n\r\n") })
		_, err := client(t, Options{}).Do(t.Context(), probes.NewClock(), get("https://"+plain))
		diff(t, "phase", failure(t, err).Phase, PhaseTLS)
	})
}

func TestOptionsThatCannotBe(t *testing.T) {
	ca := newAuthority(t)
	_, cert, key := ca.issue("inferbeat")
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, test := range []struct {
		connection probes.Connection
		want       string
	}{
		{probes.Connection{TLS: probes.TLS{CAFile: missing}}, "read tls ca_file: open " + missing + ": no such file or directory"},
		{probes.Connection{TLS: probes.TLS{CAFile: key}}, "read tls ca_file " + key + ": no PEM certificate in it"},
		{probes.Connection{TLS: probes.TLS{CertFile: cert}}, "read tls client certificate: cert_file and key_file must be given together"},
		{probes.Connection{TLS: probes.TLS{CertFile: cert, KeyFile: missing}}, "read tls cert_file " + cert + " with key_file " + missing + ": open " + missing + ": no such file or directory"},
		{probes.Connection{Proxy: "http://u:secret@p:x"}, `read proxy: must be "none", "env", or a URL of the form http://host:port`},
		{probes.Connection{Proxy: "secret"}, `read proxy: must be "none", "env", or a URL of the form http://host:port`},
		{probes.Connection{Proxy: "socks5://u:secret@p:1080"}, `read proxy: scheme "socks5" is not supported, use an http or https proxy`},
		{probes.Connection{Policy: "always"}, `read connection policy: "always" is neither "reuse" nor "new"`},
	} {
		_, err := NewClient(Options{Connection: test.connection})
		diff(t, "error", fmt.Sprint(err), test.want)
	}
	_, err := NewClient(Options{ConnectTimeout: -time.Second})
	diff(t, "error", fmt.Sprint(err), "read connect timeout: -1s is negative (0 means no bound)")
}

// proxyStub counts and notes what a proxy is asked for.
type proxyStub struct {
	url  string
	asks atomic.Int32
	last atomic.Value // request line and credentials
}

// newProxy serves absolute-form requests itself and tunnels CONNECT to target.
func newProxy(t *testing.T, target string) *proxyStub {
	stub := new(proxyStub)
	stub.url = listen(t, func(p *peer) {
		for req := p.read(); req != nil; req = p.read() {
			stub.asks.Add(1)
			stub.last.Store(req.Method + " " + req.RequestURI + " " + req.Header.Get("Proxy-Authorization"))
			if req.URL.Path == "/moved" {
				p.say(noContent, "https://"+req.Host+"/x")
				continue
			}
			if req.Method != http.MethodConnect {
				p.say("%s", okHello)
				continue
			}
			if target == "" {
				p.say("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			up, err := net.Dial("tcp", target)
			if err != nil {
				return
			}
			p.say("HTTP/1.1 200 Connection established\r\n\r\n")
			go func() { _, _ = io.Copy(up, p.br); up.Close() }()
			_, _ = io.Copy(p.Conn, up)
			return
		}
	})
	return stub
}

func TestProxyFromTheEnvironmentOnlyWhenAskedFor(t *testing.T) {
	stub := newProxy(t, "")
	direct := listen(t, func(p *peer) { reply(0, okHello)(1, p) })
	_, port, _ := net.SplitHostPort(direct)
	for _, test := range []struct {
		name, setting, noProxy, url string
		asks                        int32
	}{
		{"default", "", "", "http://10.9.8.7:8000/x", 0},
		{"none", "none", "", "http://10.9.8.7:8000/x", 0},
		{"env", "env", "", "http://10.9.8.7:8000/x", 1},
		{"env, excluded", "env", "10.0.0.0/8", "http://10.9.8.7:8000/x", 0},
		{"env, localhost", "env", "", "http://localhost:" + port, 0},
		{"given", "http://" + stub.url, "10.0.0.0/8", "http://10.9.8.7:8000/x", 1},
		{"given, localhost", "http://" + stub.url, "", "http://localhost:" + port, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("HTTP_PROXY", "http://"+stub.url)
			t.Setenv("http_proxy", "http://"+stub.url)
			t.Setenv("NO_PROXY", test.noProxy)
			t.Setenv("no_proxy", test.noProxy)
			before := stub.asks.Load()
			c := client(t, Options{Connection: probes.Connection{Proxy: test.setting},
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					if strings.HasPrefix(address, "10.9.8.7") || strings.HasPrefix(address, "localhost") {
						address = direct
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}})
			whole(t, c, probes.NewClock(), get(test.url))
			r := whole(t, c, probes.NewClock(), get(test.url))
			diff(t, "asks of the proxy", stub.asks.Load()-before, 2*test.asks)
			diff(t, "reused", r.Trace.Reused, true)
			if test.asks > 0 {
				u, _ := url.Parse(test.url)
				diff(t, "asked for", stub.last.Load(), any("GET http://"+u.Host+u.RequestURI()+" "))
			}
		})
	}
}

func TestTunnelThroughAProxy(t *testing.T) {
	ca := newAuthority(t)
	certificate, _, _ := ca.issue(host)
	secure := listen(t, func(p *peer) {
		q := newPeer(tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{certificate}}))
		for req := q.read(); req != nil; req = q.read() {
			if credentials := req.Header.Get("Proxy-Authorization"); credentials != "" {
				q.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nleak!")
				continue
			}
			q.say("%s", okHello)
		}
	})
	stub := newProxy(t, secure)
	c := client(t, Options{Connection: probes.Connection{Proxy: "http://u:secret@" + stub.url, TLS: probes.TLS{CAFile: ca.File}}})
	r := whole(t, c, probes.NewClock(), post("https://"+host+":8443/x", "{}"))
	diff(t, "phases known", []bool{r.Trace.DNS.IsKnown(), r.Trace.Connect.IsKnown(), r.Trace.TLS.IsKnown()}, []bool{false, true, true})
	diff(t, "asked for", stub.last.Load(), any("CONNECT "+host+":8443 Basic dTpzZWNyZXQ="))
	diff(t, "reused", whole(t, c, probes.NewClock(), post("https://"+host+":8443/x", "{}")).Trace.Reused, true)
	diff(t, "asks", stub.asks.Load(), int32(1))

	c = client(t, Options{Connection: probes.Connection{Proxy: "http://u:secret@" + stub.url, TLS: probes.TLS{CAFile: ca.File}, FollowRedirects: true}})
	r = whole(t, c, probes.NewClock(), post("http://"+host+"/moved", "{}")) // the credentials stay behind
	diff(t, "redirects", r.Trace.Redirects, 1)
	diff(t, "tls known", r.Trace.TLS.IsKnown(), true)

	refusing := newProxy(t, "")
	c = client(t, Options{Connection: probes.Connection{Proxy: "http://u:secret@" + refusing.url}})
	_, err := c.Do(t.Context(), probes.NewClock(), get("https://"+host))
	diff(t, "phase", failure(t, err).Phase, PhaseConnect)
	diff(t, "text", err.Error(), "open connection: ask proxy for llm.example.test:443: proxy answered 407 Proxy Authentication Required")
	whole(t, c, probes.NewClock(), get("http://"+host)) // plain http: in absolute form, with the credentials
	diff(t, "asked for", refusing.last.Load(), any("GET http://"+host+"/ Basic dTpzZWNyZXQ="))
}

func TestProxyThatIsNone(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\n\r\nSSH-2.0": "proxy sent 7 bytes before the handshake",
		"SSH-2.0\r\n\r\n":                `malformed HTTP response "SSH-2.0"`,
		"":                               "unexpected EOF",
	} {
		c := client(t, Options{Connection: probes.Connection{Proxy: "http://p:3128"},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return &recorder{answers: strings.NewReader(answer)}, nil
			}})
		_, err := c.Do(t.Context(), probes.NewClock(), get("https://a"))
		diff(t, "phase", failure(t, err).Phase, PhaseConnect)
		diff(t, "text", err.Error(), "open connection: ask proxy for a:443: "+want)
	}
}

func TestProxyBehindTLS(t *testing.T) {
	ca := newAuthority(t)
	certificate, _, _ := ca.issue("proxy.example.test")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()
	var dialled string
	c := client(t, Options{Connection: probes.Connection{Proxy: "https://proxy.example.test", TLS: probes.TLS{CAFile: ca.File, ServerName: "not.the.proxy"}},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled = address
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		}})
	r := whole(t, c, probes.NewClock(), get("http://10.9.8.7:8000"))
	diff(t, "dialled", dialled, "proxy.example.test:443")
	diff(t, "tls to the target", r.Trace.TLS.IsKnown(), false)
}

func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = client(t, Options{}).Do(t.Context(), probes.NewClock(), get("http://"+address))
	e := failure(t, err)
	diff(t, "phase", e.Phase, PhaseConnect)
	diff(t, "dns and connect known", []bool{e.Trace.DNS.IsKnown(), e.Trace.Connect.IsKnown()}, []bool{false, true})
	diff(t, "text", err.Error(), "open connection: dial tcp "+address+": connect: connection refused")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a refusal passes for a deadline")
	}
}
