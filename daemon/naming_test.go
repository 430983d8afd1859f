package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

const unnamedTargets = `
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8, tokenizer: approx}}
probes: {byhand: {kind: load, workload: w, num_prompts: 1, max_concurrency: 1}}
targets:
  - {name: a, environment: development, backend: vllm, url: %q, probes: [byhand]}
  - {name: gone, environment: development, backend: vllm, url: "http://127.0.0.1:1", probes: [byhand]}
`

// The first page that can be scraped has the models' names, without any run; a target
// that is down has none, and delays nobody.
func TestModelsAreNamedBeforeTheFirstScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, address := n.engine(nil)
		d := n.daemon(fmt.Sprintf(unnamedTargets, address))
		_, body := d.request("GET", "/metrics") // waits until something is served
		found := 0
		for line := range strings.SplitSeq(body, "\n") {
			named := strings.Contains(line, `model="m"`)
			if strings.Contains(line, `target="a"`) && !named || strings.Contains(line, `target="gone"`) && !strings.Contains(line, `model=""`) {
				t.Errorf("wrong model: %s", line)
			}
			if named && strings.HasPrefix(line, catalog.Requests+"{") {
				found++
			}
		}
		if found != 4 { // outcomes
			t.Errorf("%d series of requests under the model's name, want 4", found)
		}
	})
}

// A reload asks the targets that it brings, and nobody else.
func TestReloadNamesNewTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		engine, first := n.engine(nil)
		var lists atomic.Int64
		second := n.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				lists.Add(1)
			}
			engine.Handler().ServeHTTP(w, r)
		}))
		text := fmt.Sprintf(unnamedTargets, first)
		d := n.daemon(text)
		d.request("GET", "/metrics")
		if err := os.WriteFile(d.file, []byte(strings.Replace(text, "http://127.0.0.1:1", second, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		d.until("the new target's name", func() bool {
			_, ok := d.metric(catalog.Requests, "target", "gone", "model", "m")
			return ok
		})
		if lists.Load() != 1 {
			t.Errorf("the new target was asked %d times, want once", lists.Load())
		}
	})
}

// However many targets hang, the wait is bounded, and those that answer are named.
func TestAskingForModelsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, dial := fakellm.NewPipeListener()
		server := &http.Server{Handler: engineOf(t, fakellm.Config{Engine: fakellm.VLLM}).Handler()}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		some := func(ctx context.Context, network, address string) (net.Conn, error) {
			switch address {
			case "10.0.0.1:8000":
				return dial(ctx, network, address)
			case "10.0.0.3:8000":
				panic("dial")
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var targets []probes.Target
		for i := range 3 * namers { // so many that some are never asked
			target := fakeTarget("vllm")
			target.Name = fmt.Sprint("t", i)
			if i > 1 {
				target.BaseURL = "http://10.0.0.2:8000"
			}
			targets = append(targets, target)
		}
		targets[1].BaseURL = "http://10.0.0.3:8000"
		for _, tt := range []struct {
			n    int // targets, of which all but two hang
			took time.Duration
		}{{namers, askTime}, {3 * namers, namingTime}} {
			panics, start := atomic.Int64{}, time.Now()
			got := askModels(t.Context(), targets[:tt.n], backend.Options{DialContext: some}, func(any) { panics.Add(1) })
			if took := time.Since(start); took != tt.took {
				t.Errorf("%d targets took %v, want %v", tt.n, took, tt.took)
			}
			if tt.n == namers && (len(got) != 1 || got["t0"] != "m" || panics.Load() != 1) {
				t.Errorf("named %v with %d panics, want t0 alone and 1", got, panics.Load())
			}
		}
	})
}
