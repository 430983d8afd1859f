package wire

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// A reader that comes late, over TCP and over TLS on it: bytes are as old as they
// are, the reading shows how late it was.
func TestLateReaderKeepsTheTimes(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			write := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				for range write {
					_, _ = io.WriteString(w, "token")
					w.(http.Flusher).Flush()
				}
			}))
			if scheme == "http" {
				server.Start()
			} else {
				server.StartTLS()
			}
			defer server.Close()
			c := client(t, Options{Connection: probes.Connection{TLS: probes.TLS{InsecureSkipVerify: true}}})
			clock := probes.NewClock()
			r := do(t, c, clock, get(server.URL))
			defer r.Close(false)
			defer close(write)
			var buf [64]byte
			late := func() (lag time.Duration) {
				asked := clock.Now()
				write <- struct{}{}
				for quiet(r.cn.raw.Conn) {
					runtime.Gosched()
				}
				there := clock.Now()
				if n, err := r.Read(buf[:]); string(buf[:n]) != "token" || err != nil {
					t.Fatalf("Read = %q, %v", buf[:n], err)
				}
				if r.LastRead() < asked {
					t.Fatalf("came at %v, asked for at %v", r.LastRead(), asked)
				}
				return there - r.LastRead()
			}
			// The kernel takes a moment to begin with it.
			for until := time.Now().Add(10 * time.Second); late() <= 0; {
				if time.Now().After(until) {
					t.Fatal("the kernel does not stamp")
				}
			}
			before := r.Receiving()
			for range 5 {
				if lag := late(); lag <= 0 {
					t.Errorf("bytes are dated %v after they were seen", -lag)
				}
			}
			after := r.Receiving()
			diff(t, "stamped reads", after.Stamped-before.Stamped, after.Reads-before.Reads)
			if after.LagSum <= before.LagSum || after.LagMax <= 0 {
				t.Errorf("lag added up to %v before and %v after, the longest was %v", before.LagSum, after.LagSum, after.LagMax)
			}
		})
	}
}

// BenchmarkReceive is one read of one event with its stamp, with the write and the
// delivery on loopback that it takes.
func BenchmarkReceive(b *testing.B) {
	peers := make(chan net.Conn, 1)
	end := make(chan struct{})
	defer close(end)
	address := listen(b, func(p *peer) {
		peers <- p.Conn
		<-end
	})
	raw, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	from, s := <-peers, newSocket(raw, new(poller))
	event, buf := make([]byte, 250), make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := from.Write(event); err != nil {
			b.Fatal(err)
		}
		if n, err := s.Read(buf); n != len(event) || err != nil {
			b.Fatalf("Read = %d, %v", n, err)
		}
	}
}
