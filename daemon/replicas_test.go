package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// replica is a simulated engine that is served.
type replica struct {
	engine *fakellm.Engine
	server *http.Server
}

func (r *replica) fall(t *testing.T, faults []fakellm.Fault) {
	t.Helper()
	err := r.engine.SetFaults(faults...)
	if len(faults) == 0 {
		err = r.server.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fleetOf serves replicas that are alike but for their dialect and what they draw.
func fleetOf(t *testing.T, engines ...string) (map[string]*replica, dialer) {
	t.Helper()
	servers, dials := map[string]*replica{}, map[string]dialer{}
	for i, kind := range engines {
		engine, err := fakellm.New(fakellm.Config{
			Model: "m", Engine: kind, MaxBatch: 32, Jitter: 0.1, MeanOutputTokens: 1_000_000, Seed: int64(i),
			PrefillBase: 30 * time.Millisecond, DecodeBase: 10 * time.Millisecond, DecodePerSequence: 200 * time.Microsecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		listener, dial := fakellm.NewPipeListener()
		server := &http.Server{Handler: engine.Handler()}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { server.Close() })
		address := fmt.Sprintf("10.0.0.%d:8000", i+1)
		servers[address], dials[address] = &replica{engine, server}, dial
	}
	return servers, func(ctx context.Context, network, address string) (net.Conn, error) {
		return dials[address](ctx, network, address)
	}
}
