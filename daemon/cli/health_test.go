package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.Path)
	}))
	for _, c := range []struct {
		name         string
		status, code int
		args         []string
		want         string
	}{
		{"ready", http.StatusOK, exitPass, []string{"--url", server.URL + "/"}, "GET /-/ready\n"},
		{"not ready", http.StatusServiceUnavailable, exitFail, []string{"--url", server.URL}, "the daemon answers 503 Service Unavailable: GET /-/ready"},
		{"password", http.StatusUnauthorized, exitFail, []string{"--url", server.URL}, "the daemon answers 401 Unauthorized"},
		{"address", http.StatusOK, exitUsage, []string{"--url", "127.0.0.1:9799"}, "--url: \"127.0.0.1:9799\" begins with neither http:// nor https://"},
		{"no time", http.StatusOK, exitUsage, []string{"--timeout", "0"}, "--timeout: 0s is no time to wait"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status = c.status
			got := call(t.Context(), nil, append([]string{"health"}, c.args...)...)
			if output := got.stdout + got.stderr; got.code != c.code || !strings.Contains(output, c.want) {
				t.Errorf("got status %d, %q; want %d, %q", got.code, output, c.code, c.want)
			}
		})
	}
	server.Close()
	if got := call(t.Context(), nil, "health", "--url", server.URL); got.code != exitFail || !strings.Contains(got.stderr, "ask the daemon: ") {
		t.Errorf("nobody there: got status %d, %q", got.code, got.stderr)
	}
}
