package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

func TestWorkersNeverHoldMoreConnectionsThanTheyAre(t *testing.T) {
	const workers, waves = 50, 20
	var opened atomic.Int32
	var mu sync.Mutex
	arrived, wave := 0, make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		mine := wave
		if arrived++; arrived == workers {
			close(wave)
			arrived, wave = 0, make(chan struct{})
		}
		mu.Unlock()
		select {
		case <-mine: // all workers are in flight
		case <-r.Context().Done():
		}
		w.(http.Flusher).Flush() // chunked
		_, _ = io.WriteString(w, "hello")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()

	c := client(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var reused atomic.Int32
	for range workers {
		wg.Go(func() {
			for range waves {
				r, err := c.Do(ctx, probes.NewClock(), post(server.URL, "{}"))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(r); string(got) != "hello" || err != nil {
					t.Errorf("body = %q, %v", got, err)
				}
				if r.Trace.Reused {
					reused.Add(1)
				}
				r.Close(true)
			}
		})
	}
	wg.Wait()
	diff(t, "connections", opened.Load(), int32(workers))
	diff(t, "requests on reused connections", reused.Load(), int32(workers*(waves-1)))
}

// An idle connection that its server has closed is seen before the request is
// sent on it, so that it is neither a failure nor a repeated request.
func TestServerDropsIdleConnections(t *testing.T) {
	ca := newAuthority(t)
	certificate, _, _ := ca.issue(host)
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			var requests atomic.Int32
			dropped := make(chan struct{})
			address := listen(t, func(p *peer) {
				if scheme == "https" {
					p = newPeer(tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{certificate}}))
				}
				if p.read() != nil {
					requests.Add(1)
					p.say("%s", okHello)
				}
				p.Close()
				dropped <- struct{}{}
			})
			c := client(t, Options{Connection: probes.Connection{TLS: probes.TLS{CAFile: ca.File, ServerName: host}}})
			for range 5 {
				r := whole(t, c, probes.NewClock(), post(scheme+"://"+address, "{}"))
				<-dropped
				waitReadable(t, c)
				got := []bool{r.Trace.Reused, r.Stale, r.Trace.DNS.IsKnown(), r.Trace.Connect.IsKnown(), r.Trace.TLS.IsKnown()}
				diff(t, "reused, stale, dns, connect, tls", got, []bool{false, false, false, true, scheme == "https"})
			}
			diff(t, "requests", requests.Load(), int32(5))
		})
	}
}

// waitReadable returns once the server's close has reached the idle connection.
func waitReadable(t *testing.T, c *Client) {
	t.Helper()
	for _, stack := range c.pool.idle {
		for _, cn := range stack {
			for cn.usable() {
				runtime.Gosched()
			}
		}
	}
}

func TestPeekTakesNothing(t *testing.T) {
	var theirs net.Conn
	accepted := make(chan struct{})
	end := make(chan struct{})
	defer close(end)
	address := listen(t, func(p *peer) {
		theirs = p.Conn
		close(accepted)
		<-end
	})
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	<-accepted
	diff(t, "open and silent", quiet(raw), true)
	if _, err := io.WriteString(theirs, "x"); err != nil {
		t.Fatal(err)
	}
	for quiet(raw) {
		runtime.Gosched()
	}
	one := make([]byte, 1)
	n, err := raw.Read(one)
	diff(t, "read", string(one[:n]), "x")
	diff(t, "error", err, nil)
	diff(t, "silent again", quiet(raw), true)
	raw.Close()
	diff(t, "closed by us", quiet(raw), false)
	ours, _ := net.Pipe()
	diff(t, "without a descriptor", quiet(ours), true)
}

func TestReadDeadlineDoesNotOutliveItsResponse(t *testing.T) {
	address := listen(t, func(p *peer) { reply(0, okHello)(1, p) })
	c := client(t, Options{})
	r := do(t, c, probes.NewClock(), get("http://"+address))
	diff(t, "body", text(t, r), "hello")
	r.SetReadDeadline(known(0)) // long past
	r.Close(true)
	diff(t, "reused", whole(t, c, probes.NewClock(), get("http://"+address)).Trace.Reused, true)
}

func TestLocalhostIsLookedUp(t *testing.T) {
	address := listen(t, func(p *peer) { reply(0, okHello)(1, p) })
	_, port, _ := net.SplitHostPort(address)
	c := client(t, Options{ConnectTimeout: time.Minute})
	r := whole(t, c, probes.NewClock(), get("http://localhost:"+port))
	diff(t, "dns and connect known", []bool{r.Trace.DNS.IsKnown(), r.Trace.Connect.IsKnown()}, []bool{true, true})
	if !strings.HasPrefix(r.Trace.LocalAddress, "127.0.0.1:") {
		t.Errorf("local address = %q", r.Trace.LocalAddress)
	}
	diff(t, "set-up of a reused connection", whole(t, c, probes.NewClock(), get("http://localhost:"+port)).Trace.Setup(), time.Duration(0))
}

// children are the goroutines that the calling goroutine has started and that
// still run.
func children() (names []string) {
	buf := make([]byte, 1<<20)
	me, _, _ := strings.Cut(strings.TrimPrefix(string(buf[:runtime.Stack(buf, false)]), "goroutine "), " ")
	for line := range strings.Lines(string(buf[:runtime.Stack(buf, true)])) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "created by ") && strings.HasSuffix(line, " in goroutine "+me) {
			names = append(names, line)
		}
	}
	return names
}

func TestNoGoroutinePerRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	block := make(chan struct{})
	go func() { <-block }()
	diff(t, "the count sees a goroutine", len(children()), 1)
	c := client(t, answering(okHello))
	req := post("http://a", "{}")
	clock := probes.NewClock()
	req.Deadline = known(time.Hour)
	r, err := c.Do(ctx, clock, req)
	if err != nil {
		t.Fatal(err)
	}
	r.SetReadDeadline(known(time.Hour))
	diff(t, "goroutines with an answer open", len(children()), 1)
	diff(t, "body", text(t, r), "hello")
	r.Close(true)
	diff(t, "goroutines after", len(children()), 1)
	close(block)
}

// BenchmarkExchange is a whole exchange on a reused loopback connection.
func BenchmarkExchange(b *testing.B) {
	address := listen(b, rawServer)
	c := client(b, Options{})
	clock := probes.NewClock()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	req := post("http://"+address+"/v1/completions", strings.Repeat("x", 2048))
	var scrap [4096]byte
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.Do(ctx, clock, req)
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err = r.Read(scrap[:]); err != nil {
				break
			}
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		r.Close(true)
	}
	if n := len(c.pool.idle); n != 1 {
		b.Fatalf("%d routes in the pool", n)
	}
}

// BenchmarkExchangeStandard is the same through http.Transport, for comparison.
func BenchmarkExchangeStandard(b *testing.B) {
	address := listen(b, rawServer)
	c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	payload := strings.Repeat("x", 2048)
	var scrap [4096]byte
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/v1/completions", strings.NewReader(payload))
		r, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err = r.Body.Read(scrap[:]); err != nil {
				break
			}
		}
		r.Body.Close()
	}
}

// rawServer answers with as little work as possible.
func rawServer(p *peer) {
	answer := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	for {
		length := 0
		for {
			line, err := p.br.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) == 2 {
				break
			}
			if digits, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("Content-Length: ")); ok {
				length, _ = strconv.Atoi(string(digits))
			}
		}
		if _, err := p.br.Discard(length); err != nil {
			return
		}
		if _, err := p.Write(answer); err != nil {
			return
		}
	}
}

// stream is an endless chunked answer: each read brings one event.
type stream struct {
	recorder
	head  []byte
	event []byte
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(p, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	return copy(p, s.event), nil
}

// BenchmarkBodyRead is one Read that finds one chunk with one token event, with
// the kernel's part left out.
func BenchmarkBodyRead(b *testing.B) {
	event := "data: " + strings.Repeat("x", 240) + "\n\n"
	s := &stream{head: []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), event: []byte(chunk(event))}
	c := client(b, Options{DialContext: func(context.Context, string, string) (net.Conn, error) { return s, nil }})
	r := do(b, c, probes.NewClock(), get("http://a"))
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		n, err := r.Read(buf)
		if err != nil || n != len(event) {
			b.Fatalf("Read = %d, %v", n, err)
		}
	}
	r.Close(false)
}

// A server of this host that listens on no port.
func TestSocketOfThisHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my engine.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host+r.URL.Path)
		if r.URL.Path == "/v1/old" {
			http.Redirect(w, r, "/v1/new", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, "hello")
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	c := client(t, Options{Connection: probes.Connection{FollowRedirects: true, Proxy: "http://127.0.0.1:1"}})
	url := "unix://" + strings.ReplaceAll(path, " ", "%20") + ":/v1/old"
	for i := range 2 {
		r := whole(t, c, probes.NewClock(), post(url, "{}"))
		diff(t, "redirects", r.Trace.Redirects, 1)
		diff(t, "reused", r.Trace.Reused, i > 0)
		diff(t, "connected", r.Trace.Connect.IsKnown(), i == 0)
		diff(t, "looked up", r.Trace.DNS.IsKnown(), false)
	}
	diff(t, "requests", hosts, []string{"localhost/v1/old", "localhost/v1/new", "localhost/v1/old", "localhost/v1/new"})
	_, err = c.Do(t.Context(), probes.NewClock(), get("unix:///nowhere/engine.sock:/v1"))
	if e := failure(t, err); e.Phase != PhaseConnect || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a socket that is not there: phase %s, error %v", e.Phase, err)
	}
	for _, url := range []string{"unix:///run/engine.sock", "unix://run/engine.sock:/v1", "unix:///run/engine.sock:v1", "unix:///%zz:/v1"} {
		if _, err := c.Do(t.Context(), probes.NewClock(), get(url)); failure(t, err).Phase != PhaseClient {
			t.Errorf("%s: %v, want a failure of the client", url, err)
		}
	}
}

// A redirect from a socket to a host of the network is a redirect to another host, and
// one to https is as well: nobody speaks TLS on a socket.
func TestRedirectFromASocket(t *testing.T) {
	for _, to := range []string{"http://b/y", "https://localhost/y"} {
		bubble(t, func(t *testing.T) {
			var networks []string
			n := &network{serve: func(_ int, p *peer) {
				defer p.Close()
				if p.read() != nil {
					p.say(noContent, to)
				}
			}}
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				networks = append(networks, network+" "+address)
				return n.dial(ctx, network, address)
			}
			c := client(t, Options{DialContext: dial, Connection: probes.Connection{FollowRedirects: true}})
			req := post("unix:///run/engine.sock:/x", "{}")
			req.SameHost = true
			r := do(t, c, probes.NewClock(), req)
			diff(t, "location", r.Location, to)
			diff(t, "dialled", networks, []string{"unix /run/engine.sock"})
			r.Close(false)
		})
	}
}
