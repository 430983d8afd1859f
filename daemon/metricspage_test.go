package daemon

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// apart serves an engine's API and its metrics on two ports of one host. What the page
// is asked with is kept.
func apart(t *testing.T, e *fakellm.Engine) (runner *Runner, asked *[]http.Header) {
	t.Helper()
	asked = &[]http.Header{}
	dials := map[string]func(context.Context, string, string) (net.Conn, error){}
	for address, handler := range map[string]http.Handler{
		"10.0.0.1:8000": e.Handler(),
		"10.0.0.1:8002": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*asked = append(*asked, r.Header.Clone())
			e.MetricsHandler().ServeHTTP(w, r)
		}),
	} {
		listener, dial := fakellm.NewPipeListener()
		server := &http.Server{Handler: handler}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { server.Close() })
		dials[address] = dial
	}
	return &Runner{UserAgent: "inferbeat/test", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dials[address](ctx, network, address)
	}}, asked
}

// Triton's page is on a port of its own: its queue, its running requests and its count
// become the run's, and the key stays with the API.
func TestMetricsOnAnotherPort(t *testing.T) {
	for _, test := range []struct {
		url         string
		credentials bool
		known       bool
	}{
		{"http://10.0.0.1:8002/metrics", false, true},
		{"http://10.0.0.1:8002/metrics", true, true},
		{"http://10.0.0.1:8002/elsewhere", false, false},
		{"", false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := engineOf(t, fakellm.Config{Engine: fakellm.Triton, MaxBatch: 2, DecodeBase: 20 * time.Millisecond})
			runner, asked := apart(t, e)
			defer runner.Close()
			target := fakeTarget("trt")
			target.MetricsURL, target.MetricsCredentials = test.url, test.credentials
			target.Connection.APIKey = "sk-1"
			spec := loadSpec()
			spec.Arrivals, spec.Requests = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 6}, 60
			run := runner.Run(context.Background(), target, spec, nil, Hooks{})
			server := &run.Summary.Server
			if run.Summary.Completed != 60 || server.Known() != test.known {
				t.Fatalf("%q: %d of 60 completed, server known: %v, want %v", test.url, run.Summary.Completed, server.Known(), test.known)
			}
			if !test.known {
				return
			}
			if server.Queue.Max != 4 || server.Running.Max != 2 || server.Queue.N < 10 || server.Requests != probes.Known(60) {
				t.Errorf("queue up to %v of %d samples, running up to %v, %v requests; want 4, 10 samples or more, 2 and 60", server.Queue.Max, server.Queue.N, server.Running.Max, server.Requests)
			}
			for _, h := range *asked {
				if got := h.Get("Authorization") != ""; got != test.credentials {
					t.Errorf("the page was asked with %v, want a key: %v", h, test.credentials)
				}
			}
		})
	}
}
