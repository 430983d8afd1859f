package wire

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxIdle is how long a connection is kept when its server does not say. Common
// servers and load balancers drop idle connections after 60 to 75 s or later;
// the peek before reuse finds those that were dropped earlier.
const maxIdle = 90 * time.Second

// pool keeps idle connections, the one used last on top. It has no size limit:
// every connection in it was opened for a request in flight, so it never holds
// more than there were requests at once.
type pool struct {
	mu     sync.Mutex
	idle   map[route][]*conn
	closed bool
}

// take removes the youngest usable connection, or returns nil.
func (p *pool) take(rt route) *conn {
	for {
		cn := p.pop(rt)
		if cn == nil || (time.Now().Before(cn.expires) && cn.usable()) {
			return cn
		}
		cn.close()
	}
}

func (p *pool) pop(rt route) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	stack := p.idle[rt]
	if len(stack) == 0 {
		return nil
	}
	last := len(stack) - 1
	cn := stack[last]
	stack[last] = nil
	p.idle[rt] = stack[:last]
	return cn
}

// put keeps the connection for the given time, and closes those whose time is up.
func (p *pool) put(cn *conn, keep time.Duration) {
	now := time.Now()
	cn.expires = now.Add(keep)
	expired := p.push(cn, now)
	for _, old := range expired {
		old.close()
	}
}

func (p *pool) push(cn *conn, now time.Time) (expired []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return []*conn{cn}
	}
	stack := p.idle[cn.route]
	n := 0 // the oldest are at the bottom
	for n < len(stack) && !now.Before(stack[n].expires) {
		n++
	}
	if n > 0 {
		expired = append(expired, stack[:n]...)
		stack = append(stack[:0], stack[n:]...)
	}
	if p.idle == nil {
		p.idle = make(map[route][]*conn)
	}
	p.idle[cn.route] = append(stack, cn)
	return expired
}

// close closes the idle connections, and from now on those that come back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, stack := range idle {
		for _, cn := range stack {
			cn.close()
		}
	}
}

// keepFor is how long a connection may idle after this answer: a second less
// than "Keep-Alive: timeout=N" (half of it when N is 1), so that our next
// request does not cross the server's close on the wire.
func keepFor(h http.Header) time.Duration {
	for _, line := range h.Values("Keep-Alive") {
		for parameter := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(parameter, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
				continue
			}
			seconds, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || seconds < 0 {
				continue
			}
			given := min(time.Duration(min(seconds, 3600))*time.Second, maxIdle)
			return max(given-time.Second, given/2)
		}
	}
	return maxIdle
}
