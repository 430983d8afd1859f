package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

const host = "llm.example.test"

func TestPhasesAreMeasuredApart(t *testing.T) {
	ca := newAuthority(t)
	secured := ca.secured(host, 45*ms, reply(100*ms, okHello))
	bubble(t, func(t *testing.T) {
		n := &network{connect: 15 * ms, serve: secured}
		c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{TLS: probes.TLS{CAFile: ca.File}}})
		c.lookup = func(ctx context.Context, _, name string) ([]netip.Addr, error) {
			diff(t, "name", name, host)
			return []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.7")}, pause(ctx, 5*ms)
		}
		clock := probes.NewClock()
		time.Sleep(time.Second) // a clock that began long before
		r := whole(t, c, clock, post("https://"+host+":8443/v1/completions", "{}"))
		diff(t, "trace", r.Trace, probes.ConnectionTrace{
			DNS: known(5 * ms), Connect: known(15 * ms), TLS: known(45 * ms), Protocol: "HTTP/1.1", LocalAddress: "pipe"})
		diff(t, "first byte", r.FirstByte, time.Second+165*ms)
		diff(t, "last read", r.LastRead(), time.Second+165*ms)
		diff(t, "addresses", n.addrs, []string{"192.0.2.7:8443"})

		r = whole(t, c, clock, post("https://"+host+":8443/v1/completions", "{}"))
		diff(t, "trace of the second", r.Trace, probes.ConnectionTrace{Reused: true, Protocol: "HTTP/1.1", LocalAddress: "pipe"})
		diff(t, "first byte of the second", r.FirstByte, time.Second+265*ms)
	})
}

func TestSpacedRequestsPayForTheirConnections(t *testing.T) {
	ca := newAuthority(t)
	idle := func(header string) func(int, *peer) {
		return ca.secured(host, 45*ms, func(_ int, p *peer) {
			defer p.Close()
			for {
				_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
				if p.read() == nil {
					return
				}
				time.Sleep(100 * ms)
				p.say("HTTP/1.1 200 OK\r\n%sContent-Length: 5\r\n\r\nhello", header)
			}
		})
	}
	for _, test := range []struct {
		name, header string
		stale        bool
	}{
		{"server says how long", "Keep-Alive: timeout=5, max=100\r\n", false},
		{"server says nothing", "", true},
	} {
		serve := idle(test.header)
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{connect: 15 * ms, serve: serve}
				c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{TLS: probes.TLS{CAFile: ca.File}}})
				clock := probes.NewClock()
				for i := range 5 {
					sent := clock.Now()
					r := whole(t, c, clock, post("https://"+host, "{}"))
					diff(t, "trace", r.Trace, probes.ConnectionTrace{
						Connect: known(15 * ms), TLS: known(45 * ms), Protocol: "HTTP/1.1", LocalAddress: "pipe"})
					diff(t, "ttfb", r.FirstByte-sent, 160*ms)
					diff(t, "after connect", r.FirstByte-sent-r.Trace.Setup(), 100*ms)
					diff(t, "stale", r.Stale, test.stale && i > 0)
					time.Sleep(time.Minute)
				}
				for i := range 10 { // in a row
					sent := clock.Now()
					r := whole(t, c, clock, post("https://"+host, "{}"))
					diff(t, "reused", r.Trace.Reused, i > 0)
					want := 160 * ms
					if i > 0 {
						want = 100 * ms
					}
					diff(t, "ttfb in a row", r.FirstByte-sent, want)
				}
			})
		})
	}
}

func TestPolicyNewDialsEveryTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{connect: 15 * ms, serve: reply(100*ms, okHello)}
		c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{Policy: probes.ConnectionNew}})
		for range 3 {
			r := whole(t, c, probes.NewClock(), get("http://a"))
			diff(t, "reused", r.Trace.Reused, false)
			diff(t, "first byte", r.FirstByte, 115*ms)
		}
		diff(t, "addresses", n.addrs, []string{"a:80", "a:80", "a:80"})
	})
}

func TestConnectionIsNotKept(t *testing.T) {
	for name, answer := range map[string]string{
		"connection close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		"http/1.0":         "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"timeout of 0":     "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 5\r\n\r\nhello",
		"more than asked":  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 408 Request Timeout\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				closed := 0
				n := &network{serve: func(_ int, p *peer) {
					p.read()
					p.say("%s", answer)
					p.gone()
					closed++
				}}
				c := client(t, Options{DialContext: n.dial})
				whole(t, c, probes.NewClock(), get("http://a"))
				synctest.Wait()
				diff(t, "closed", closed, 1)
				whole(t, c, probes.NewClock(), get("http://a"))
				diff(t, "dials", len(n.addrs), 2)
			})
		})
	}
}

func TestKeepFor(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                         maxIdle,
		"timeout=5, max=100":       4 * time.Second,
		"max=100, Timeout = \"5\"": 4 * time.Second,
		"timeout=1":                500 * ms,
		"timeout=0":                0,
		"timeout=-3":               maxIdle,
		"timeout=soon":             maxIdle,
		"timeout=99999999999":      maxIdle - time.Second,
		"timeout=75":               74 * time.Second,
	} {
		if got := keepFor(http.Header{"Keep-Alive": {value}}); got != want {
			t.Errorf("keepFor(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestIdleConnectionsExpireFromTheBottom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closed := map[int]time.Duration{}
		clock := probes.NewClock()
		n := &network{serve: func(n int, p *peer) {
			for p.read() != nil {
				p.say("%s", okHello)
			}
			closed[n] = clock.Now()
		}}
		c := client(t, Options{DialContext: n.dial})
		first, second := do(t, c, clock, get("http://a")), do(t, c, clock, get("http://a"))
		first.Close(true)
		second.Close(true) // on top
		for range 4 {
			time.Sleep(30 * time.Second)
			whole(t, c, clock, get("http://a"))
		}
		synctest.Wait()
		diff(t, "dials", len(n.addrs), 2)
		diff(t, "closed", closed, map[int]time.Duration{1: 90 * time.Second})
		c.Close()
		synctest.Wait()
		diff(t, "closed after Close", closed, map[int]time.Duration{1: 90 * time.Second, 2: 120 * time.Second})
		whole(t, c, clock, get("http://a"))
		synctest.Wait()
		diff(t, "a closed client keeps nothing", closed[3], 120*time.Second)
	})
}

func TestStaleReuseIsReopenedOnceBeforeTheFirstByte(t *testing.T) {
	hangUp := func(p *peer) { p.read() }
	partial := func(p *peer) { p.read(); p.say("HTTP") }
	interim := func(p *peer) { p.read(); p.say("HTTP/1.1 100 Continue\r\n\r\n") }
	answer := func(p *peer) { p.read(); p.say("%s", okHello) }
	silence := func(p *peer) { p.read(); p.gone() }
	for _, test := range []struct {
		name          string
		second, fresh func(*peer)
		dials         int
		stale         bool
		phase         Phase
		cause         error
	}{
		{"closed while the request came", hangUp, answer, 2, true, "", nil},
		{"the new one is closed too", hangUp, hangUp, 2, true, PhaseResponse, io.ErrUnexpectedEOF},
		{"a byte had come", partial, answer, 1, false, PhaseResponse, io.ErrUnexpectedEOF},
		{"an interim answer had come", interim, answer, 1, false, PhaseResponse, io.ErrUnexpectedEOF},
		{"silence is not staleness", silence, answer, 1, false, PhaseResponse, os.ErrDeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{connect: 15 * ms, serve: func(n int, p *peer) {
					defer p.Close()
					if n == 1 {
						answer(p)
						test.second(p)
						return
					}
					test.fresh(p)
				}}
				c := client(t, Options{DialContext: n.dial})
				clock := probes.NewClock()
				whole(t, c, clock, post("http://a", "{}"))
				req := post("http://a", "{}")
				req.Deadline = known(clock.Now() + time.Second)
				r, err := c.Do(t.Context(), clock, req)
				diff(t, "dials", len(n.addrs), test.dials)
				if test.phase == "" {
					if err != nil {
						t.Fatal(err)
					}
					diff(t, "stale", r.Stale, test.stale)
					diff(t, "reused", r.Trace.Reused, false)
					diff(t, "connect", r.Trace.Connect, known(15*ms))
					diff(t, "body", text(t, r), "hello")
					r.Close(true)
					return
				}
				e := failure(t, err)
				diff(t, "phase", e.Phase, test.phase)
				diff(t, "stale", e.Stale, test.stale)
				diff(t, "reused", e.Trace.Reused, !test.stale)
				if !errors.Is(err, test.cause) {
					t.Errorf("error = %v, want %v", err, test.cause)
				}
			})
		})
	}
}

func TestFreshConnectionIsNeverRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: func(_ int, p *peer) { p.read(); p.Close() }}
		c := client(t, Options{DialContext: n.dial})
		_, err := c.Do(t.Context(), probes.NewClock(), post("http://a", "{}"))
		e := failure(t, err)
		diff(t, "phase", e.Phase, PhaseResponse)
		diff(t, "stale", e.Stale, false)
		diff(t, "dials", len(n.addrs), 1)
	})
}

func TestSlowHeader(t *testing.T) {
	serve := func(_ int, p *peer) {
		defer p.Close()
		p.read()
		time.Sleep(time.Second)
		p.say("HTTP/1.1 200")
		time.Sleep(2 * time.Second)
		p.say(" OK\r\nContent-Length: 5\r\n\r\n")
		time.Sleep(time.Hour)
		p.say("hello")
	}
	bubble(t, func(t *testing.T) {
		c := client(t, Options{DialContext: (&network{serve: serve}).dial, ConnectTimeout: ms})
		clock := probes.NewClock()
		req := get("http://a")
		req.Deadline = known(5 * time.Second)
		r := whole(t, c, clock, req) // the deadline does not bound the body
		diff(t, "first byte", r.FirstByte, time.Second)
		diff(t, "end", clock.Now(), time.Hour+3*time.Second)

		clock = probes.NewClock()
		req.Deadline = known(2 * time.Second)
		_, err := c.Do(t.Context(), clock, req)
		diff(t, "phase", failure(t, err).Phase, PhaseResponse)
		diff(t, "gave up", clock.Now(), 2*time.Second)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error = %v, want os.ErrDeadlineExceeded", err)
		}
	})
}

// stages is a server behind TLS that reaches each phase after another 100 ms.
func stages(ca *authority) func(int, *peer) {
	return ca.secured(host, 100*ms, func(_ int, p *peer) {
		defer p.Close()
		time.Sleep(100 * ms) // the client is writing
		p.read()
		time.Sleep(100 * ms)
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
		time.Sleep(100 * ms)
		p.say("llo")
	})
}

func TestCancelAndDeadlineInEveryPhase(t *testing.T) {
	ca := newAuthority(t)
	cause := errors.New("window is over")
	for i, phase := range []Phase{PhaseDNS, PhaseConnect, PhaseTLS, PhaseWrite, PhaseResponse, PhaseBody} {
		at := time.Duration(i)*100*ms + 50*ms
		run := func(t *testing.T, ctx context.Context, deadline probes.Optional[time.Duration]) error {
			serve := stages(ca)
			clock := probes.NewClock()
			n := &network{connect: 100 * ms, serve: serve}
			c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{TLS: probes.TLS{CAFile: ca.File}}})
			c.lookup = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, pause(ctx, 100*ms)
			}
			req := post("https://"+host, "{}")
			req.Deadline = deadline
			r, err := c.Do(ctx, clock, req)
			if err == nil {
				r.SetReadDeadline(deadline)
				_, err = io.ReadAll(r)
				r.Close(true)
			}
			diff(t, "ended at", clock.Now(), at)
			e := failure(t, err)
			diff(t, "phase", e.Phase, phase)
			want := probes.ConnectionTrace{DNS: known(min(at, 100*ms))}
			if i >= 1 {
				want.Connect = known(min(at-100*ms, 100*ms))
			}
			if i >= 2 {
				want.TLS = known(min(at-200*ms, 100*ms))
				want.LocalAddress = "pipe"
			}
			if i >= 5 {
				want.Protocol = "HTTP/1.1"
			}
			diff(t, "trace", e.Trace, want)
			return err
		}
		t.Run("cancel/"+string(phase), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(at, func() { cancel(cause) })
				err := run(t, ctx, probes.Optional[time.Duration]{})
				if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
					t.Errorf("error = %v, want context.Canceled with its cause", err)
				}
			})
		})
		t.Run("deadline/"+string(phase), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				err := run(t, t.Context(), known(at))
				if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrConnectTimeout) {
					t.Errorf("error = %v, want os.ErrDeadlineExceeded alone", err)
				}
			})
		})
	}
}

func TestCancellationClosesTheSocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clock := probes.NewClock()
		var closed time.Duration
		n := &network{serve: func(_ int, p *peer) {
			p.read()
			p.say("HTTP/1.1 200 OK\r\n\r\nx")
			p.gone()
			closed = clock.Now()
		}}
		c := client(t, Options{DialContext: n.dial})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := c.Do(ctx, clock, get("http://a"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * ms)
		cancel() // while nobody reads
		synctest.Wait()
		diff(t, "closed", closed, 70*ms)
		if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
			t.Errorf("read = %v, want context.Canceled", err)
		}
		r.Close(true)
	})
}

func TestCancellationAfterCloseSparesTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: reply(ms, okHello)}
		c := client(t, Options{DialContext: n.dial})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := c.Do(ctx, probes.NewClock(), get("http://a"))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "body", text(t, r), "hello")
		r.Close(true)
		cancel()
		synctest.Wait()
		diff(t, "reused", whole(t, c, probes.NewClock(), get("http://a")).Trace.Reused, true)
	})
}

func TestCancellationBeforeCloseGivesTheConnectionUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: reply(ms, okHello)}
		c := client(t, Options{DialContext: n.dial})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := c.Do(ctx, probes.NewClock(), get("http://a"))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "body", text(t, r), "hello")
		cancel()
		r.Close(true)
		again := whole(t, c, probes.NewClock(), get("http://a"))
		diff(t, "reused, stale", []bool{again.Trace.Reused, again.Stale}, []bool{false, false})
	})
}

func TestConnectTimeoutIsNotTheRequestsDeadline(t *testing.T) {
	ca := newAuthority(t)
	for _, test := range []struct {
		limit time.Duration
		phase Phase
	}{{30 * ms, PhaseDNS}, {80 * ms, PhaseConnect}, {130 * ms, PhaseTLS}} {
		serve := ca.secured(host, 50*ms, reply(0, okHello))
		t.Run(string(test.phase), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{connect: 50 * ms, serve: serve}
				c := client(t, Options{DialContext: n.dial, ConnectTimeout: test.limit,
					Connection: probes.Connection{TLS: probes.TLS{CAFile: ca.File}}})
				c.lookup = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
					return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, pause(ctx, 50*ms)
				}
				clock := probes.NewClock()
				req := get("https://" + host)
				req.Deadline = known(time.Second)
				_, err := c.Do(t.Context(), clock, req)
				e := failure(t, err)
				diff(t, "gave up", clock.Now(), test.limit)
				diff(t, "phase", e.Phase, test.phase)
				diff(t, "set-up", e.Trace.Setup(), test.limit)
				if !errors.Is(err, ErrConnectTimeout) || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("error = %v, want ErrConnectTimeout alone", err)
				}
			})
		})
	}
}

func TestNameDoesNotResolve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := client(t, Options{DialContext: (&network{}).dial})
		c.lookup = func(ctx context.Context, _, name string) ([]netip.Addr, error) {
			_ = pause(ctx, 7*ms)
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		_, err := c.Do(t.Context(), probes.NewClock(), get("http://no-such-host.invalid:8000"))
		e := failure(t, err)
		diff(t, "phase", e.Phase, PhaseDNS)
		diff(t, "trace", e.Trace, probes.ConnectionTrace{DNS: known(7 * ms)})
		diff(t, "text", err.Error(), "resolve host: lookup no-such-host.invalid: no such host")
	})
}

func TestResolverOutOfDescriptors(t *testing.T) {
	c := client(t, Options{DialContext: (&network{}).dial})
	c.lookup = func(_ context.Context, _, name string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "dial udp 192.0.2.53:53: socket: too many open files", Name: name}
	}
	_, err := c.Do(t.Context(), probes.NewClock(), get("http://a"))
	diff(t, "phase", failure(t, err).Phase, PhaseClient)
	c.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }
	_, err = c.Do(t.Context(), probes.NewClock(), get("http://a"))
	diff(t, "text", err.Error(), "resolve host: lookup a: no such host")
}

func TestAddressesAreTriedInOrder(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	none := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}
	full := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	silent := errors.New("silent")
	for _, test := range []struct {
		name  string
		dials []error // nil connects
		took  time.Duration
		phase Phase
		cause error
	}{
		{"second answers", []error{refused, nil}, 20 * ms, "", nil},
		{"first is silent", []error{silent, nil}, 510 * ms, "", nil},
		{"all refuse", []error{refused, refused, refused}, 30 * ms, PhaseConnect, syscall.ECONNREFUSED},
		{"all are silent", []error{silent, silent}, time.Second, PhaseConnect, ErrConnectTimeout},
		{"silent, then refused", []error{silent, refused}, 510 * ms, PhaseConnect, syscall.ECONNREFUSED},
		{"no IPv6 here, then refused", []error{none, refused}, 20 * ms, PhaseConnect, syscall.ECONNREFUSED},
		{"refused, then no port", []error{refused, none}, 20 * ms, PhaseConnect, syscall.ECONNREFUSED},
		{"no port for any", []error{none, none}, 20 * ms, PhaseClient, syscall.EADDRNOTAVAIL},
		{"out of descriptors", []error{full, nil}, 10 * ms, PhaseClient, syscall.EMFILE},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := &network{serve: reply(0, okHello)}
				tried := 0
				c := client(t, Options{ConnectTimeout: time.Second, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					err := test.dials[tried]
					tried++
					if err == silent {
						<-ctx.Done()
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
					}
					time.Sleep(10 * ms)
					if err != nil {
						return nil, err
					}
					return n.dial(ctx, network, address)
				}})
				c.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
					return []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}[:len(test.dials)], nil
				}
				r, err := c.Do(t.Context(), probes.NewClock(), get("http://a:8000"))
				if test.phase == "" {
					if err != nil {
						t.Fatal(err)
					}
					diff(t, "connect", r.Trace.Connect, known(test.took))
					diff(t, "address", n.addrs, []string{"192.0.2.1:8000"})
					r.Close(true)
					return
				}
				e := failure(t, err)
				diff(t, "phase", e.Phase, test.phase)
				diff(t, "connect", e.Trace.Connect, known(test.took))
				if !errors.Is(err, test.cause) || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("error = %v, want %v", err, test.cause)
				}
			})
		})
	}
}

func TestLiteralsAreNotLookedUp(t *testing.T) {
	for url, want := range map[string][2]string{ // address dialled, Host sent
		"http://10.9.8.7":                      {"10.9.8.7:80", "10.9.8.7"},
		"http://10.9.8.7:8000/v1":              {"10.9.8.7:8000", "10.9.8.7:8000"},
		"http://[::]:8000":                     {"[::]:8000", "[::]:8000"},
		"http://[2001:db8::1]":                 {"[2001:db8::1]:80", "[2001:db8::1]"},
		"http://[fe80::1%25eth0]:8000/v1/chat": {"[fe80::1%eth0]:8000", "[fe80::1]:8000"},
	} {
		t.Run(url, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var sent string
				n := &network{serve: func(_ int, p *peer) {
					defer p.Close()
					sent = p.read().Host
					p.say("%s", okHello)
				}}
				c := client(t, Options{DialContext: n.dial})
				c.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
					return nil, errors.New("a literal was looked up")
				}
				r := whole(t, c, probes.NewClock(), get(url))
				diff(t, "address", n.addrs, []string{want[0]})
				diff(t, "host", sent, want[1])
				diff(t, "dns known", r.Trace.DNS.IsKnown(), false)
			})
		})
	}
}

// recorder is a connection that remembers each write and answers with text.
type recorder struct {
	net.Conn
	writes  []string
	fail    error // of the write
	answers io.Reader
}

func (c *recorder) Write(p []byte) (int, error) {
	c.writes = append(c.writes, string(p))
	return len(p), c.fail
}
func (c *recorder) Read(p []byte) (int, error)      { return c.answers.Read(p) }
func (c *recorder) SetDeadline(time.Time) error     { return nil }
func (c *recorder) SetReadDeadline(time.Time) error { return nil }
func (c *recorder) LocalAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }
func (c *recorder) Close() error                    { return nil }

func TestRequestOnTheWire(t *testing.T) {
	for _, test := range []struct {
		name string
		req  Request
		want string
	}{
		{"post", Request{Method: "POST", URL: "http://[::1]:8000/v1/completions?a=b#c", Body: []byte(`{"x":1}`),
			Header: http.Header{"User-Agent": {"inferbeat"}, "Authorization": {"Bearer k"}}},
			"POST /v1/completions?a=b HTTP/1.1\r\nHost: [::1]:8000\r\nUser-Agent: inferbeat\r\nContent-Length: 7\r\nAccept-Encoding: identity\r\nAuthorization: Bearer k\r\n\r\n{\"x\":1}"},
		{"post of nothing", Request{Method: "POST", URL: "http://a:8000", Header: http.Header{"User-Agent": {""}}},
			"POST / HTTP/1.1\r\nHost: a:8000\r\nContent-Length: 0\r\nAccept-Encoding: identity\r\n\r\n"},
		{"own encoding and host", Request{Method: "GET", URL: "http://a:8000/x", Header: http.Header{"User-Agent": {""}, "Accept-Encoding": {"gzip"}, "Host": {"b"}}},
			"GET /x HTTP/1.1\r\nHost: b\r\nAccept-Encoding: gzip\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := &recorder{answers: strings.NewReader(okHello)}
			c := client(t, Options{DialContext: func(context.Context, string, string) (net.Conn, error) { return rec, nil }})
			before := test.req.Header.Clone()
			r := whole(t, c, probes.NewClock(), &test.req)
			diff(t, "writes", rec.writes, []string{test.want})
			diff(t, "caller's header", test.req.Header, before)
			diff(t, "local address", r.Trace.LocalAddress, "192.0.2.1:4711")
		})
	}
}

func TestAnswerToAnUnfinishedRequestIsHeard(t *testing.T) {
	rec := &recorder{fail: syscall.EPIPE, answers: strings.NewReader("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nhello")}
	dials := 0
	c := client(t, Options{DialContext: func(context.Context, string, string) (net.Conn, error) { dials++; return rec, nil }})
	r := whole(t, c, probes.NewClock(), post("http://a", "{}"))
	diff(t, "status", r.StatusCode, 413)
	rec.answers = strings.NewReader("")
	_, err := c.Do(t.Context(), probes.NewClock(), post("http://a", "{}"))
	e := failure(t, err)
	diff(t, "phase", e.Phase, PhaseWrite)
	diff(t, "stale", e.Stale, false) // the first connection was not kept
	diff(t, "dials", dials, 2)
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error = %v, want EPIPE", err)
	}
}

// deaf is a connection on which every write breaks.
type deaf struct{ net.Conn }

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAnswerToAnUnfinishedRequestIsWaitedForShortly(t *testing.T) {
	for _, test := range []struct{ deadline, took time.Duration }{{20 * ms, 20 * ms}, {time.Second, 50 * ms}, {0, 50 * ms}} {
		bubble(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			c := client(t, Options{DialContext: func(context.Context, string, string) (net.Conn, error) { return deaf{ours}, nil }})
			clock := probes.NewClock()
			req := post("http://a", "{}")
			if test.deadline > 0 {
				req.Deadline = known(test.deadline)
			}
			_, err := c.Do(t.Context(), clock, req)
			diff(t, "phase", failure(t, err).Phase, PhaseWrite)
			diff(t, "took", clock.Now(), test.took)
		})
	}
}

func TestDeadlineWhileWritingOnAReusedConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: func(_ int, p *peer) {
			p.read()
			p.say("%s", okHello)
			time.Sleep(time.Hour) // reads no more
		}}
		c := client(t, Options{DialContext: n.dial})
		clock := probes.NewClock()
		whole(t, c, clock, post("http://a", "{}"))
		req := post("http://a", "{}")
		req.Deadline = known(200 * ms)
		_, err := c.Do(t.Context(), clock, req)
		e := failure(t, err)
		diff(t, "phase", e.Phase, PhaseWrite)
		diff(t, "reused", e.Trace.Reused, true)
		diff(t, "gave up", clock.Now(), 200*ms)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error = %v, want os.ErrDeadlineExceeded", err)
		}
	})
}

func TestRequestThatCannotBeBuilt(t *testing.T) {
	c := client(t, Options{DialContext: (&network{}).dial})
	for _, test := range []struct {
		req  *Request
		want string
	}{
		{get("ftp://a"), "prepare request: url must be http://host or https://host"},
		{get("http://"), "prepare request: url must be http://host or https://host"},
		{get("http://user:secret@a:port"), `prepare request: parse url: invalid port ":port" after host`},
		{&Request{Method: "GE T", URL: "http://a"}, `prepare request: net/http: invalid method "GE T"`},
	} {
		_, err := c.Do(t.Context(), probes.NewClock(), test.req)
		diff(t, "phase", failure(t, err).Phase, PhaseClient)
		diff(t, "text", err.Error(), test.want)
	}
}

func TestNotHTTP(t *testing.T) {
	for name, answer := range map[string]string{
		"garbage":         "SSH-2.0-OpenSSH_9.6\r\n\r\n",
		"long garbage":    strings.Repeat("x", 5000) + "\r\n\r\n",
		"http/2":          "\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n\r\n",
		"status":          "HTTP/1.1 2x0 OK\r\n\r\n",
		"status 0":        "HTTP/1.1 000 OK\r\n\r\n",
		"upgrade":         "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"huge header":     "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader) + "\r\n\r\n",
		"huge status":     strings.Repeat("x", maxHeader+1),
		"endless interim": strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", maxHeader/30),
		"two lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{answers: strings.NewReader(answer)}
			c := client(t, Options{DialContext: func(context.Context, string, string) (net.Conn, error) { return rec, nil }})
			_, err := c.Do(t.Context(), probes.NewClock(), get("http://a"))
			e := failure(t, err)
			diff(t, "phase", e.Phase, PhaseResponse)
			if len(err.Error()) > maxErrorText+3 {
				t.Errorf("error text has %d bytes", len(err.Error()))
			}
			if errors.Is(err, errHeaderTooLarge) != (strings.HasPrefix(name, "huge") || name == "endless interim") {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestLargeHeaderIsAccepted(t *testing.T) {
	value := strings.Repeat("x", maxHeader-1000)
	rec := &recorder{answers: strings.NewReader("HTTP/1.1 200 OK\r\nX: " + value + "\r\nContent-Length: 2000005\r\n\r\n" + strings.Repeat("y", 2000000) + "hello")}
	c := client(t, Options{DialContext: func(context.Context, string, string) (net.Conn, error) { return rec, nil }})
	r := do(t, c, probes.NewClock(), get("http://a"))
	diff(t, "header", r.Header.Get("X") == value, true)
	diff(t, "body", len(text(t, r)), 2000005) // the bound is the header's alone
	r.Close(true)
}

func TestInterimAnswersAreSkipped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &network{serve: func(n int, p *peer) {
			defer p.Close()
			p.read()
			time.Sleep(10 * ms)
			if n == 2 { // its end together with the answer
				p.say("HTTP/1.1 100 Con")
				time.Sleep(20 * ms)
				p.say("tinue\r\n\r\n%s", okHello)
				return
			}
			p.say("HTTP/1.1 100 Continue\r\n\r\n")
			time.Sleep(20 * ms)
			p.say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
			time.Sleep(30 * ms)
			p.say("%s", okHello)
		}}
		c := client(t, Options{DialContext: n.dial, Connection: probes.Connection{Policy: probes.ConnectionNew}})
		r := whole(t, c, probes.NewClock(), post("http://a", "{}"))
		diff(t, "status", r.StatusCode, 200)
		diff(t, "first byte", r.FirstByte, 60*ms)
		diff(t, "header of an interim answer", r.Header.Get("Link"), "")
		diff(t, "first byte of one read", whole(t, c, probes.NewClock(), post("http://a", "{}")).FirstByte, 30*ms)
	})
}
