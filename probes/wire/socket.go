package wire

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// stepTolerance is how much the distance between the wall clock and the monotonic
// one may seem to move from one reading of both to the next. Slewing moves both
// alike. More than this is a step, or a reading that was interrupted half-way;
// either way one stamp cannot be mapped.
const stepTolerance = 100 * time.Microsecond

// socket is a connection below TLS. It is the only place where bytes of an answer
// enter, and it dates them: by the kernel's receive stamp where there is one, so
// that a token is as late as it was and not as late as this process came to read
// it, and else by the instant at which the read returned.
//
// There is a kernel stamp on TCP sockets of Linux. Bytes that one read brought
// share the stamp of the last of them, and so do segments that reach a socket whose
// reader is behind: the kernel joins them in its queue and forgets all stamps but
// the last, so reading less at once would not bring the others back.
type socket struct {
	net.Conn
	polled *polled // the same connection; nil: it is the runtime's
	// prompt: a read that finds nothing returns errNothing, instead of waiting. Only
	// a polled connection can do that.
	prompt bool

	arrived time.Time // the date of the bytes that came last
	opened  time.Time // where offset counts from
	// offset is the wall clock at opened, in nanoseconds since 1970, by the wall
	// clock as it goes now. Each reading of both clocks gives it, some too small,
	// when this process was held up between the two.
	offset int64
	paired bool
	wall   int64     // the stamp of the last read
	floor  time.Time // no byte of the exchange can have come before it

	// until is the read deadline that is wanted, armed the one that the runtime
	// was told. Moving a deadline along with every token costs more than waking up
	// early once in a while to find that it has moved.
	until, armed time.Time

	receiving probes.Receiving // of the exchange
}

// errNothing is what a prompt read returns when nothing has come.
var errNothing = errors.New("nothing has come")

func newSocket(raw net.Conn, p *poller) *socket {
	s := &socket{Conn: raw, opened: time.Now()}
	if s.polled = p.newPolled(raw); s.polled != nil {
		s.Conn = s.polled
	}
	return s
}

// abort breaks the connection; any goroutine may do so, at any time.
func (s *socket) abort() error {
	if s.polled != nil {
		return s.polled.abort()
	}
	return s.Close()
}

// holds reports whether bytes of the connection have been taken from the kernel that
// nobody has read yet.
func (s *socket) holds() bool { return s.polled != nil && !s.polled.inbox.empty() }

// stream calls serve whenever bytes have come, until it returns true or the deadline
// passes. The connection must be polled; serve must read promptly.
func (s *socket) stream(serve func() bool) error {
	for {
		err := s.polled.stream(serve)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		// What has come in time may not have been looked at yet.
		if serve() {
			return nil
		}
		if !s.postpone() {
			return err
		}
	}
}

// begin forgets the previous exchange.
func (s *socket) begin() {
	s.floor, s.receiving = time.Now(), probes.Receiving{}
}

// Read reads what is there, or waits for it until the deadline.
func (s *socket) Read(p []byte) (int, error) {
	for {
		n, at, wall, err := s.receive(p)
		if n > 0 {
			s.date(at, at.UnixNano(), wall)
		}
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !s.postpone() {
			return n, err
		}
	}
}

// receive also says when the read returned, and what the kernel's stamp is.
func (s *socket) receive(p []byte) (n int, at time.Time, wall int64, err error) {
	if s.polled != nil {
		return s.polled.receive(p, !s.prompt)
	}
	n, err = s.Conn.Read(p)
	return n, time.Now(), 0, err
}

// date sets arrived for a read that returned at now, when the wall clock said
// nowWall, with the kernel's stamp wall, 0 for none.
func (s *socket) date(now time.Time, nowWall, wall int64) {
	s.receiving.Reads++
	if wall != 0 {
		if at, ok := s.toMonotonic(now, nowWall, wall); ok {
			lag := now.Sub(at)
			s.receiving.Stamped++
			s.receiving.LagSum += lag
			s.receiving.LagMax = max(s.receiving.LagMax, lag)
			if lag > probes.LateRead {
				s.receiving.Late++
			}
			// After a read without a usable stamp the next one may lie microseconds
			// before its date; time does not run backwards.
			if at.After(s.arrived) {
				s.arrived = at
			}
			return
		}
	}
	s.arrived = now
}

// toMonotonic maps a stamp of the wall clock onto the monotonic clock. It refuses a
// stamp that the clocks or the order of things contradict: the wall clock was
// stepped after the stamp or while it was mapped, or the kernel had not begun to
// stamp.
func (s *socket) toMonotonic(now time.Time, nowWall, wall int64) (time.Time, bool) {
	offset := nowWall - int64(now.Sub(s.opened))
	moved := time.Duration(offset - s.offset)
	stepped := s.paired && moved.Abs() > stepTolerance
	if !s.paired || stepped || moved > 0 {
		s.offset, s.paired = offset, true
	}
	if stepped {
		return time.Time{}, false
	}
	if wall == s.wall {
		// More of a segment that was read in part, or joined to one.
		return s.arrived, true
	}
	at := s.opened.Add(time.Duration(wall - s.offset))
	if at.After(now) || at.Before(s.floor) {
		return time.Time{}, false
	}
	s.wall, s.floor = wall, at
	return at, true
}

// SetDeadline bounds reads and writes; zero is no bound.
func (s *socket) SetDeadline(at time.Time) error {
	s.until, s.armed = at, at
	return s.Conn.SetDeadline(at)
}

// SetReadDeadline bounds reads; zero is no bound.
func (s *socket) SetReadDeadline(at time.Time) error {
	s.until, s.armed = at, at
	return s.Conn.SetReadDeadline(at)
}

// boundReads is SetReadDeadline for a deadline that is moved often. It must not be
// called while a read waits.
func (s *socket) boundReads(at time.Time) error {
	if !s.armed.IsZero() && (at.IsZero() || !at.Before(s.armed)) {
		s.until = at // postpone finds it
		return nil
	}
	return s.SetReadDeadline(at)
}

// postpone arms the wanted deadline after the armed one has passed, and reports
// whether there is time left.
func (s *socket) postpone() bool {
	if s.until.Equal(s.armed) {
		return false
	}
	return s.SetReadDeadline(s.until) == nil && (s.until.IsZero() || time.Now().Before(s.until))
}
