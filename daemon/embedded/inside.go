package embedded

import (
	"context"
	"errors"
	"net"
	"sync"

	configutil "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

// pipeListener accepts connections that never leave the process.
type pipeListener struct {
	connections chan net.Conn
	done        chan struct{}
	close       sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{connections: make(chan net.Conn), done: make(chan struct{})}
}

// Accept waits for a dial, or fails with [net.ErrClosed].
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.connections:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends all Accepts and dials.
func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

// Addr is what a pipe says of itself.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.connections <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errors.New("the daemon is stopping")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// clientOptions let a scraper reach this listener, whatever address it asks for.
func (l *pipeListener) clientOptions() []configutil.HTTPClientOption {
	return []configutil.HTTPClientOption{
		configutil.WithDialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }),
		configutil.WithUserAgent("inferbeat-embedded"),
	}
}

// targets is the daemon itself, under the address that people know.
func targets(instance string) map[string][]*targetgroup.Group {
	return map[string][]*targetgroup.Group{
		job: {{Source: job, Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(instance)}}}},
	}
}
