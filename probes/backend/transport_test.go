package backend

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// one is a listener to be closed once.
type one struct{ conns chan net.Conn }

func (l one) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l one) Close() error   { close(l.conns); return nil }
func (l one) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// Every dialect means the same over HTTP/2 and on a socket of this host.
func TestDialectsOverHTTP2OnASocket(t *testing.T) {
	for name, v := range voices() {
		synctest.Test(t, func(t *testing.T) {
			steps, text := v.spoken(3)
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			l := one{make(chan net.Conn)}
			server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", v.kind)
				began := time.Now()
				for _, s := range append(steps, at(first+2*gap+tail, v.close(text, 3, false))) {
					time.Sleep(s.at - time.Since(began))
					_, _ = w.Write(s.data)
					w.(http.Flusher).Flush()
				}
			})}
			go func() { _ = server.Serve(l) }()
			var dialled []string
			tg := target(name)
			tg.BaseURL, tg.Connection.Protocol = "unix:///run/engine.sock:/team/v1", probes.HTTP2
			c, err := New(tg, Options{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
				dialled = append(dialled, network+" "+address)
				ours, theirs := net.Pipe()
				l.conns <- theirs
				return ours, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			clock := probes.NewClock()
			for i := range 2 {
				rec := c.Do(t.Context(), clock, request(), clock.Now())
				if rec.Outcome != probes.OK || rec.Text != text || rec.Connection.Protocol != "HTTP/2.0" || rec.Connection.Reused != (i > 0) {
					t.Errorf("%s: got %s %q, text %q over %s, reused %v", name, rec.Outcome, rec.Error, rec.Text, rec.Connection.Protocol, rec.Connection.Reused)
				}
				if known(rec.TTFT()) != first || known(rec.E2E()) != first+2*gap {
					t.Errorf("%s: TTFT %v, E2E %v, want %v, %v", name, rec.TTFT(), rec.E2E(), first, first+2*gap)
				}
			}
			if diff := cmp.Diff([]string{"unix /run/engine.sock"}, dialled); diff != "" {
				t.Errorf("%s: dialled (-want +got):\n%s", name, diff)
			}
			c.Close()
			_ = server.Close()
			time.Sleep(time.Hour)
		})
	}
}
