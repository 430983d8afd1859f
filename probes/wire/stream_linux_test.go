package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inferbeat/inferbeat/probes"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// streamed reads a whole answer by Stream.
func streamed(r *Response) (got string, err error) {
	var all strings.Builder
	var buf [4096]byte
	err = r.Stream(buf[:], func(p []byte) bool { all.Write(p); return true })
	return all.String(), err
}

// finish fails the test when the streams hang: a lost wake-up shows as nothing else.
func finish(t *testing.T, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		stacks := make([]byte, 1<<16)
		t.Fatalf("streams hang\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// Many streams at once whose servers cut their answers anywhere, write as fast as they
// can or pause, and close with the last bytes or keep the connection: every byte comes,
// in order, and time does not run backwards.
func TestManyStreams(t *testing.T) {
	const streams, rounds = 40, 4
	address := listen(t, func(p *peer) {
		defer p.Close()
		for request := p.read(); request != nil; request = p.read() {
			var seed uint64
			_, _ = fmt.Sscanf(request.URL.Path, "/%d", &seed)
			random := rand.New(rand.NewPCG(seed, 1))
			answer := chunkedHead
			for i := range 60 {
				answer += chunk(fmt.Sprintf("<%d.%d>", seed, i))
			}
			closes := random.IntN(3) == 0
			if answer += "0\r\n\r\n"; closes {
				answer = strings.Replace(answer, "Transfer", "Connection: close\r\nTransfer", 1)
			}
			for len(answer) > 0 {
				n := 1 + random.IntN(min(len(answer), 200))
				p.say("%s", answer[:n])
				answer = answer[n:]
				switch random.IntN(4) {
				case 0:
					time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
				case 1:
					runtime.Gosched()
				}
			}
			if closes {
				return
			}
		}
	})
	c := client(t, Options{})
	clock := probes.NewClock()
	var wg sync.WaitGroup
	for s := range streams {
		wg.Go(func() {
			for round := range rounds {
				seed := s*rounds + round
				r, err := c.Do(t.Context(), clock, get(fmt.Sprintf("http://%s/%d", address, seed)))
				if err != nil {
					t.Error(err)
					return
				}
				var all strings.Builder
				var buf [64]byte
				last := r.FirstByte
				err = r.Stream(buf[:], func(p []byte) bool {
					all.Write(p)
					if at := r.LastRead(); at < last {
						t.Errorf("stream %d: bytes are dated %v after bytes of %v", seed, at, last)
					} else {
						last = at
					}
					return true
				})
				want := ""
				for i := range 60 {
					want += fmt.Sprintf("<%d.%d>", seed, i)
				}
				if err != io.EOF || all.String() != want {
					t.Errorf("stream %d: %v, %q", seed, err, all.String())
				}
				if now := clock.Now(); last > now {
					t.Errorf("stream %d: bytes are dated %v, it is %v", seed, last, now)
				}
				r.Close(true)
			}
		})
	}
	finish(t, &wg)
	c.Close()
	diff(t, "connections left", len(c.poller.conns), 0)
	diff(t, "waits left", len(c.poller.waiting), 0)
}

// peerIsThere asks the kernel whether the connection is open in both directions.
func peerIsThere(t *testing.T, r *Response) bool {
	info, err := unix.GetsockoptTCPInfo(r.cn.raw.polled.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		t.Errorf("look at the connection: %v", err)
		return false
	}
	return info.State == unix.BPF_TCP_ESTABLISHED
}

// The end of a connection comes together with the last bytes and makes no edge of its
// own, or it comes alone.
func TestEndOfAConnectionIsSeen(t *testing.T) {
	for _, test := range []struct {
		name, first, last string
		reset             bool
		want              string
		err               error
	}{
		{"with the last bytes, at its place", "HTTP/1.1 200 OK\r\n\r\nab", "cd", false, "abcd", io.EOF},
		{"with the last bytes, too early", chunkedHead + "2\r\nab\r\n", "2\r\ncd\r\n", false, "abcd", io.ErrUnexpectedEOF},
		{"inside a line", chunkedHead + "2\r\nab\r\n", "2", false, "ab", io.ErrUnexpectedEOF},
		{"alone", chunkedHead + "2\r\nab\r\n", "", false, "ab", io.ErrUnexpectedEOF},
		{"broken", chunkedHead + "2\r\nab\r\n", "", true, "ab", syscall.ECONNRESET},
	} {
		t.Run(test.name, func(t *testing.T) {
			proceed := make(chan struct{})
			address := listen(t, func(p *peer) {
				p.read()
				p.say("%s", test.first)
				<-proceed
				if test.reset {
					_ = p.Conn.(*net.TCPConn).SetLinger(0)
				}
				p.say("%s", test.last)
				p.Close()
			})
			c := client(t, Options{})
			r := do(t, c, probes.NewClock(), get("http://"+address))
			defer r.Close(false)
			var all strings.Builder
			var buf [16]byte
			var wg sync.WaitGroup
			wg.Go(func() {
				err := r.Stream(buf[:], func(p []byte) bool {
					all.Write(p)
					if all.Len() == 2 {
						close(proceed)
						// The edges of bytes and end come while nobody waits.
						for until := time.Now().Add(10 * time.Second); peerIsThere(t, r) && time.Now().Before(until); {
							runtime.Gosched()
						}
					}
					return true
				})
				if !errors.Is(err, test.err) || all.String() != test.want {
					t.Errorf("Stream = %v after %q, want %v after %q", err, all.String(), test.err, test.want)
				}
			})
			finish(t, &wg)
		})
	}
}

// open starts n streams that say "go" and then nothing. The first of them leads.
func open(t *testing.T, c *Client, n int) (responses []*Response) {
	t.Helper()
	address := listen(t, func(p *peer) {
		p.read()
		p.say("%s%s", chunkedHead, chunk("go"))
		p.gone()
	})
	for range n {
		responses = append(responses, do(t, c, probes.NewClock(), get("http://"+address)))
	}
	return responses
}

// A bound passes for the one that leads and for those that follow; take moves it.
func TestStreamKeepsItsDeadline(t *testing.T) {
	c := client(t, Options{})
	responses := open(t, c, 3)
	var wg sync.WaitGroup
	for i, r := range responses {
		wg.Go(func() {
			const early, late = 20 * ms, 60 * ms
			bound := r.clock.Now() + early
			r.SetReadDeadline(known(bound))
			var buf [16]byte
			err := r.Stream(buf[:], func([]byte) bool {
				bound = r.clock.Now() + late
				r.SetReadDeadline(known(bound))
				return true
			})
			now := r.clock.Now()
			if e := failure(t, err); e.Phase != PhaseBody || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("stream %d: %v", i, err)
			}
			if now < bound {
				t.Errorf("stream %d ended at %v, before its bound at %v", i, now, bound)
			}
			r.Close(false)
		})
	}
	finish(t, &wg)
}

// Who leads and who follows can be cancelled, and the server sees it.
func TestStreamIsCancelled(t *testing.T) {
	c := client(t, Options{})
	gone := make(chan struct{}, 3)
	address := listen(t, func(p *peer) {
		p.read()
		p.say("%s%s", chunkedHead, chunk("go"))
		p.gone()
		gone <- struct{}{}
	})
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}} {
		var wg sync.WaitGroup
		var cancels []context.CancelFunc
		ends := make([]chan struct{}, 3)
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			ends[i] = make(chan struct{})
			started := make(chan struct{})
			r, err := c.Do(ctx, probes.NewClock(), get("http://"+address))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer close(ends[i])
				var buf [16]byte
				err := r.Stream(buf[:], func([]byte) bool { close(started); return true })
				if e := failure(t, err); e.Phase != PhaseBody || !errors.Is(err, context.Canceled) {
					t.Errorf("stream %d: %v", i, err)
				}
				r.Close(false)
			})
			<-started
		}
		for _, i := range order {
			cancels[i]()
			<-ends[i]
			<-gone
		}
		finish(t, &wg)
	}
}

// A panic in take is its own caller's, whoever was leading.
func TestPanicInAStreamIsItsOwn(t *testing.T) {
	speak := make(chan struct{})
	address := listen(t, func(p *peer) {
		request := p.read()
		p.say("%s%s", chunkedHead, chunk("go"))
		if request.URL.Path == "/panics" {
			<-speak
			p.say("%s", chunk("bad"))
			p.gone()
			return
		}
		p.gone()
	})
	c := client(t, Options{})
	leader := do(t, c, probes.NewClock(), get("http://"+address+"/leads"))
	var wg sync.WaitGroup
	wg.Go(func() {
		leader.SetReadDeadline(known(leader.clock.Now() + 100*ms))
		got, err := streamed(leader)
		if got != "go" || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the leader's stream: %q, %v", got, err)
		}
		leader.Close(false)
	})
	for led := false; !led; runtime.Gosched() {
		c.poller.mu.Lock()
		led = c.poller.led
		c.poller.mu.Unlock()
	}
	wg.Go(func() {
		r := do(t, c, probes.NewClock(), get("http://"+address+"/panics"))
		defer func() { diff(t, "recovered", recover(), "not legal"); r.Close(false) }()
		var buf [16]byte
		_ = r.Stream(buf[:], func(p []byte) bool {
			if string(p) == "bad" {
				panic("not legal")
			}
			close(speak)
			return true
		})
		t.Error("no panic")
	})
	finish(t, &wg)
}

// Bytes that lie in the inbox keep the date of their own arrival, however late they
// are looked at, and what take leaves is still there for the next read.
func TestInboxKeepsEveryStamp(t *testing.T) {
	write := make(chan string)
	address := listen(t, func(p *peer) {
		p.read()
		for text := range write {
			p.say("%s", text)
		}
		p.gone()
	})
	defer close(write)
	c := client(t, Options{})
	clock := probes.NewClock()
	go func() { write <- chunkedHead + chunk("start") }()
	r := do(t, c, clock, get("http://"+address))
	defer r.Close(false)
	raw := r.cn.raw.polled
	var asked, there []time.Duration
	var buf [64]byte
	if n, err := r.Read(buf[:]); string(buf[:n]) != "start" || err != nil {
		t.Fatalf("Read = %q, %v", buf[:n], err)
	}
	for _, text := range []string{"one", "two", "three"} {
		asked = append(asked, clock.Now())
		write <- chunk(text)
		for quiet(raw) {
			runtime.Gosched()
		}
		there = append(there, clock.Now())
		raw.drained = false // as the poller says after an edge
		diff(t, "urgent", raw.collect(), false)
	}
	var got []string
	err := r.Stream(buf[:], func(p []byte) bool {
		i := len(got)
		got = append(got, string(p))
		if at := r.LastRead(); at < asked[i] || at > there[i] {
			t.Errorf("%q came at %v, was written after %v and there at %v", p, at, asked[i], there[i])
		}
		return i < 1
	})
	diff(t, "first two", got, []string{"one", "two"})
	diff(t, "error", err, nil)
	diff(t, "the third is held", r.cn.raw.holds(), true)
	n, err := r.Read(buf[:])
	diff(t, "third", string(buf[:n]), "three")
	diff(t, "error", err, nil)
	diff(t, "held", r.cn.raw.holds(), false)
	if stamped := r.Receiving(); stamped.Reads < 4 {
		t.Errorf("%d reads, want at least 4", stamped.Reads)
	}
}

func TestInbox(t *testing.T) {
	var b inbox
	keep := func(text string, wall int64) bool {
		return b.keep(copy(b.room(), text), time.Unix(wall, 0), wall)
	}
	type took struct {
		Text string
		Wall int64
	}
	take := func(size int) took {
		p := make([]byte, size)
		n, at, wall := b.take(p)
		diff(t, "date of the read", at, time.Unix(wall, 0))
		return took{string(p[:n]), wall}
	}
	diff(t, "urgent", keep("abc", 1), false)
	diff(t, "urgent", keep("de", 2), false)
	diff(t, "part of the first", take(2), took{"ab", 1})
	diff(t, "rest of the first", take(9), took{"c", 1})
	diff(t, "second", take(9), took{"de", 2})
	diff(t, "empty", b.empty(), true)
	diff(t, "end of a message", keep("x\r\n0\r\n\r\n", 3), true)
	take(99)
	for i := range inboxPortions {
		diff(t, "last portion that fits", keep("y", 4), i == inboxPortions-1)
	}
	for range inboxPortions {
		take(9)
	}
	diff(t, "no room for the next", keep(strings.Repeat("z", inboxBytes-inboxRoom+1), 5), true)
	text, into := []byte("abc"), make([]byte, inboxBytes)
	diff(t, "allocations", testing.AllocsPerRun(10, func() {
		b.take(into)
		b.keep(copy(b.room(), text), time.Time{}, 6)
	}), 0.0)
}

// What does not fit into the socket's buffers is written as the server takes it.
func TestWriteWaitsForTheServer(t *testing.T) {
	read, total := make(chan struct{}), make(chan int64)
	address := listen(t, func(p *peer) {
		<-read
		n, _ := io.Copy(io.Discard, p)
		total <- n
	})
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := newSocket(raw, new(poller))
	text := make([]byte, 16<<20)
	if err := s.SetDeadline(time.Now().Add(20 * ms)); err != nil {
		t.Fatal(err)
	}
	before, err := s.Write(text)
	if !errors.Is(err, os.ErrDeadlineExceeded) || before == 0 || before == len(text) {
		t.Errorf("nobody reads: wrote %d bytes, %v", before, err)
	}
	close(read)
	if err := s.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	after, err := s.Write(text)
	diff(t, "error", err, nil)
	diff(t, "written", after, len(text))
	diff(t, "closed", s.Close(), nil)
	diff(t, "read", <-total, int64(before+after))
}

// While many streams are fast enough for rounds, the last bytes of another one are
// looked at although nothing follows them and they do not end the message.
func TestSilenceAfterTheLastBytesIsNoWait(t *testing.T) {
	seen := make(chan struct{})
	address := listen(t, func(p *peer) {
		request := p.read()
		p.say("%s%s", chunkedHead, chunk("go"))
		if request.URL.Path == "/ends" {
			time.Sleep(50 * ms) // by now the others are at it
			p.say("%s", chunk("[DONE]"))
			p.gone()
			return
		}
		for {
			select {
			case <-seen:
				p.say("0\r\n\r\n")
				return
			case <-time.After(ms):
				p.say("%s", chunk("more"))
			}
		}
	})
	c := client(t, Options{})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			r := do(t, c, probes.NewClock(), get("http://"+address+"/goes-on"))
			defer r.Close(true)
			if _, err := streamed(r); err != io.EOF {
				t.Errorf("a fast stream: %v", err)
			}
		})
	}
	wg.Go(func() {
		defer close(seen)
		r := do(t, c, probes.NewClock(), get("http://"+address+"/ends"))
		defer r.Close(false)
		var buf [16]byte
		if err := r.Stream(buf[:], func(p []byte) bool { return string(p) != "[DONE]" }); err != nil {
			t.Errorf("the stream that ends: %v", err)
		}
	})
	finish(t, &wg)
}

// Inboxes ripen in the order in which they were begun, and all at once when the events
// do not come fast any more.
func TestInboxesRipen(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for _, test := range []struct {
		name      string
		now       time.Duration
		busy      bool
		due, left int
	}{
		{"too early", keepTime - 1, true, 0, 3},
		{"the first", keepTime, true, 1, 2},
		{"the second was looked at meanwhile", keepTime + 1*ms, true, 1, 1},
		{"the third", keepTime + 2*ms, true, 2, 0},
		{"quiet", 3 * ms, false, 2, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &poller{busy: test.busy, now: at(test.now)}
			for i := range 3 {
				since := at(time.Duration(i) * ms)
				c := &polled{kept: since}
				if i == 1 {
					c.kept = at(50 * ms) // begun again
				}
				p.kept = append(p.kept, kept{c, since})
			}
			p.ripen()
			diff(t, "inboxes that wait", len(p.kept), test.left)
			diff(t, "streams to look at", len(p.batch), test.due)
			for _, c := range p.batch {
				diff(t, "due and served", []bool{c.due, c.served}, []bool{true, true})
			}
		})
	}
}

// Rounds pay from five events in a millisecond on, however long the stretch was.
func TestRoundsFollowTheRate(t *testing.T) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	for _, test := range []struct {
		seen   int
		length time.Duration
		want   bool
	}{{1, 200 * time.Millisecond, false}, {50_000, 200 * time.Millisecond, true}, {0, 2 * ms, false}} {
		p := &poller{epoll: epoll, seen: test.seen, began: time.Now().Add(-test.length), now: time.Now()}
		diff(t, "events", p.look(0), 0)
		diff(t, fmt.Sprintf("rounds after %d events in %v", test.seen, test.length), p.busy, test.want)
		diff(t, "a new stretch", p.seen, 0)
	}
}

// BenchmarkStreams is one event on each of 64 streams, with its write and the delivery
// on loopback; the rest of the machine's processors are the writer's.
func BenchmarkStreams(b *testing.B) {
	const streams = 64
	peers := make(chan net.Conn, streams)
	end := make(chan struct{})
	address := listen(b, func(p *peer) {
		p.read()
		p.say("%s", chunkedHead)
		peers <- p.Conn
		<-end
	})
	c := client(b, Options{})
	event := []byte(chunk("data: " + strings.Repeat("x", 240) + "\n\n"))
	var taken atomic.Int64
	var wg sync.WaitGroup
	var servers []net.Conn
	for range streams {
		r := do(b, c, probes.NewClock(), get("http://"+address))
		servers = append(servers, <-peers)
		wg.Go(func() {
			buf := make([]byte, 4096)
			_ = r.Stream(buf, func([]byte) bool { taken.Add(1); return true })
			r.Close(false)
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, server := range servers {
			if _, err := server.Write(event); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(streams, "events/op")
	close(end)
	wg.Wait()
	if taken.Load() == 0 {
		b.Fatal("no event was taken")
	}
}
