package fakellm

import (
	"net"
	"net/http"
	"testing"
)

// serve puts an engine on a loopback port.
func serve(t testing.TB, e *Engine) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: e.Handler()}
	go server.Serve(l)
	return "http://" + l.Addr().String(), func() { server.Close() }
}
