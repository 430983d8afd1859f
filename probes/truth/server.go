package truth

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Config is the cadence of a server.
type Config struct {
	Model string // name it answers to; empty is "truth"
	// TTFT is the time from Received to the first token event, ITL from one token
	// event to the next.
	TTFT, ITL time.Duration
	// Jitter stretches or shrinks each gap by up to this share of it, uniformly
	// and seeded by Seed and the stream's ordinal; 0 <= Jitter <= 1.
	Jitter float64
	Seed   uint64
	// Tokens is the length of an answer when the request names none; 0 is 16.
	Tokens int
	// TokensPerEvent is how many tokens an event brings (speculative decoding); 0
	// is 1. EventsPerWrite is how many events leave in one write, as from a proxy
	// that buffers; they have one due time and one stamp; 0 is 1.
	TokensPerEvent, EventsPerWrite int
	// Thread gives the pacer a thread of its own where the system allows it: it
	// then wakes within tens of microseconds of the due time instead of about a
	// millisecond, and costs that thread while any stream runs.
	Thread bool
}

func (c Config) validate() error {
	switch {
	case c.TTFT < 0:
		return fmt.Errorf("configure truth server: TTFT %s is negative", c.TTFT)
	case c.ITL < 0:
		return fmt.Errorf("configure truth server: ITL %s is negative", c.ITL)
	case math.IsNaN(c.Jitter) || c.Jitter < 0 || c.Jitter > 1:
		return fmt.Errorf("configure truth server: Jitter %v is not between 0 and 1", c.Jitter)
	case c.Tokens < 0 || c.Tokens > maxTokens:
		return fmt.Errorf("configure truth server: Tokens %d is not between 0 and %d", c.Tokens, maxTokens)
	case c.TokensPerEvent < 0:
		return fmt.Errorf("configure truth server: TokensPerEvent %d is negative", c.TokensPerEvent)
	case c.EventsPerWrite < 0:
		return fmt.Errorf("configure truth server: EventsPerWrite %d is negative", c.EventsPerWrite)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Model == "" {
		c.Model = "truth"
	}
	if c.Tokens == 0 {
		c.Tokens = 16
	}
	c.TokensPerEvent, c.EventsPerWrite = max(c.TokensPerEvent, 1), max(c.EventsPerWrite, 1)
	return c
}

const (
	// maxTokens bounds one answer: it is encoded as a whole before it is sent.
	maxTokens = 1 << 16
	// maxBody bounds a request.
	maxBody = 16 << 20
	// readBuffer fits a usual request in one read.
	readBuffer = 4 << 10
)

// Server answers OpenAI completions requests, text and chat, as streams. Its
// methods may be called from any goroutine.
type Server struct {
	config Config
	clock  probes.Clock
	pacer  *pacer
	group  sync.WaitGroup // the pacer and one goroutine a connection

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[net.Conn]struct{}
	ordinal   int
}

// New makes a server whose stamps are offsets on the clock. It runs one goroutine
// until Close, which sleeps while there is no stream.
func New(c Config, clock probes.Clock) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	w, err := newWaiter(c.Thread)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c.withDefaults(), clock: clock, pacer: newPacer(clock, w),
		listeners: map[net.Listener]struct{}{}, conns: map[net.Conn]struct{}{},
	}
	s.group.Go(s.pacer.run)
	return s, nil
}

// Serve answers the connections of a listener until Close, and then returns nil.
// An error means that the listener failed.
func (s *Server) Serve(l net.Listener) error {
	if !track(s, s.listeners, l) {
		_ = l.Close()
		return nil
	}
	defer func() {
		_ = l.Close()
		untrack(s, s.listeners, l)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return nil
			}
			var later interface{ Temporary() bool } // out of descriptors, above all
			if errors.As(err, &later) && later.Temporary() {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			return fmt.Errorf("accept connection: %w", err)
		}
		if !s.start(c) {
			_ = c.Close()
			return nil
		}
	}
}

// start gives a connection its goroutine, unless the server is closed.
func (s *Server) start(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	s.group.Go(func() { // under the lock: Close must not wait before it is counted
		defer func() {
			_ = c.Close()
			untrack(s, s.conns, c)
		}()
		s.converse(c)
	})
	return true
}

// Close closes listeners and connections, cuts the streams that are going on and
// waits for all goroutines but those in Serve.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.pacer.stop()
	s.group.Wait()
}

// Take returns the streams that have ended since the last call, in the order of
// their ends. A stream whose last byte a client has read is among them.
func (s *Server) Take() []Stream { return s.pacer.take() }

// Connections is how many connections are open; each has a goroutine.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func track[T comparable](s *Server, in map[T]struct{}, item T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	in[item] = struct{}{}
	return true
}

func untrack[T comparable](s *Server, in map[T]struct{}, item T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(in, item)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) nextOrdinal() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ordinal++
	return s.ordinal
}

// converse answers the requests of one connection, one after the other. Whatever
// is not HTTP ends it.
func (s *Server) converse(c net.Conn) {
	in := bufio.NewReaderSize(c, readBuffer)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil || len(body) > maxBody {
			return
		}
		received := s.clock.Now()
		if err := s.answer(c, r, body, received); err != nil || r.Close {
			return
		}
	}
}

// answer writes one answer. An error means that the connection is of no use any more.
func (s *Server) answer(c net.Conn, r *http.Request, body []byte, received time.Duration) error {
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/completions"):
		a, problem := s.readAsk(body)
		if problem != "" {
			return writeError(c, http.StatusBadRequest, problem)
		}
		a.chat = strings.HasSuffix(path, "/chat/completions")
		a.requestID = r.Header.Get("X-Request-Id")
		return s.stream(c, a, received)
	case r.Method == http.MethodGet && path == "/v1/models":
		return writeJSON(c, http.StatusOK, map[string]any{
			"object": "list", "data": []any{map[string]any{"id": s.config.Model, "object": "model", "owned_by": "truth"}},
		})
	case r.Method == http.MethodGet && path == "/health":
		return writeJSON(c, http.StatusOK, map[string]any{"status": "ok"})
	}
	return writeError(c, http.StatusNotFound, "there is no "+r.Method+" "+r.URL.Path)
}

// ask is what a request wants.
type ask struct {
	requestID            string
	chat                 bool
	tokens               int
	usage, runningUsage  bool
	ordinal, promptWords int
}

// readAsk reads a body; problem is what the client did wrong.
func (s *Server) readAsk(body []byte) (a ask, problem string) {
	var in struct {
		Prompt              json.RawMessage `json:"prompt"`
		Stream              bool            `json:"stream"`
		MaxTokens           *int            `json:"max_tokens"`
		MaxCompletionTokens *int            `json:"max_completion_tokens"`
		StreamOptions       struct {
			IncludeUsage         bool `json:"include_usage"`
			ContinuousUsageStats bool `json:"continuous_usage_stats"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return ask{}, "the body is not a completions request: " + err.Error()
	}
	if !in.Stream {
		return ask{}, `this server only streams: send "stream": true`
	}
	a = ask{tokens: s.config.Tokens, usage: in.StreamOptions.IncludeUsage, runningUsage: in.StreamOptions.ContinuousUsageStats, promptWords: len(strings.Fields(string(in.Prompt)))}
	for _, n := range slices.DeleteFunc([]*int{in.MaxTokens, in.MaxCompletionTokens}, func(n *int) bool { return n == nil }) {
		a.tokens = *n
	}
	if a.tokens < 1 || a.tokens > maxTokens {
		return ask{}, fmt.Sprintf("max_tokens %d is not between 1 and %d", a.tokens, maxTokens)
	}
	return a, ""
}

// stream sends the head of an answer, hands the rest to the pacer and returns
// when the answer has left or the connection is broken.
func (s *Server) stream(c net.Conn, a ask, received time.Duration) error {
	a.ordinal = s.nextOrdinal()
	st := newStream(s.config, a, received, newSender(c))
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\nX-Request-Id: %s\r\n\r\n", st.id)
	if _, err := io.WriteString(c, head); err != nil {
		return fmt.Errorf("write head of answer: %w", err)
	}
	s.pacer.add(st)
	<-st.done
	return st.failed
}

func writeError(c net.Conn, status int, text string) error {
	return writeJSON(c, status, map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error"}})
}

func writeJSON(c net.Conn, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), len(body), body)
	return err
}
