package fakellm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Network is a network of pipes, which works inside a testing/synctest bubble: each
// handler has an address of its own. A name does not resolve on it, and an address
// that nobody serves refuses. The zero Network is empty; Close it.
type Network struct {
	mu      sync.Mutex
	servers []pipedServer
}

type pipedServer struct {
	server *http.Server
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// address is that of the i-th server: 10.0.0.1:8000, 10.0.0.2:8000 ...
func address(i int) string { return fmt.Sprintf("10.0.%d.%d:8000", (i+1)>>8, (i+1)&0xff) }

// Serve serves a handler and gives the URL of it.
func (n *Network) Serve(h http.Handler) (url string) {
	listener, dial := NewPipeListener()
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(listener) }() // ends with Close
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers = append(n.servers, pipedServer{server, dial})
	return "http://" + address(len(n.servers)-1)
}

// Stop ends what is served at the URL, and cuts its connections.
func (n *Network) Stop(url string) error {
	if s, ok := n.at(url); ok {
		return s.server.Close()
	}
	return fmt.Errorf("stop server: there is none at %s", url)
}

// Close stops everything that is served.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.servers {
		_ = s.server.Close()
	}
}

// Dial fits http.Transport.DialContext.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s, ok := n.at("http://" + address); ok {
		return s.dial(ctx, network, address)
	}
	host, _, _ := net.SplitHostPort(address)
	if net.ParseIP(host) == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
}

func (n *Network) at(url string) (pipedServer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, s := range n.servers {
		if url == "http://"+address(i) {
			return s, true
		}
	}
	return pipedServer{}, false
}
