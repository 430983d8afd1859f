package cli

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

var demoCommand = command{
	name: "demo", usage: "demo [flags]", short: "four simulated replicas and the daemon on one page",
	about: `Starts four simulated replicas on loopback ports (two staging, two production, one of them
sick) and the daemon with a fast schedule. Open the address it prints; Ctrl-C ends it.`,
	define: func(f *flagSet) action {
		listen := f.group("Flags").String("listen", "127.0.0.1:9799", "`address` of the page and /metrics")
		return func(ctx context.Context, p Process) (int, error) { return demo(ctx, p, *listen) }
	},
}

//go:embed demo.yaml
var demoConfig string

const demoBanner = "Demo: the replicas are simulated on this machine and llama-prod-b is sick on purpose; the nights before today are made up. Alert rules run 30 times faster than shipped."

// replica is one simulated server of the demo.
type replica struct {
	Name string
	URL  string

	config fakellm.Config
	server *http.Server
	ended  chan struct{} // closed when nothing is served any more
}

// demoReplicas are four servers of one model. The sick one answers, so that a
// probe which only asks whether it is up would be content: it stalls, is slow to
// the first token, and breaks off one answer in ten.
func demoReplicas() []*replica {
	healthy := fakellm.Config{
		Model: "llama-3.1-8b", Engine: fakellm.SGLang, MaxBatch: 32, Jitter: 0.08,
		PrefillBase: 18 * time.Millisecond, PrefillTokensPerSecond: 12000,
		DecodeBase: 3 * time.Millisecond, DecodePerSequence: 150 * time.Microsecond,
		Cache: fakellm.PrefixCache{Blocks: 4096}, CacheReport: true,
	}
	with := func(seed int64, change func(*fakellm.Config)) fakellm.Config {
		c := healthy
		c.Seed = seed
		if change != nil {
			change(&c)
		}
		return c
	}
	return []*replica{
		{Name: "llama-prod-a", config: with(1, nil)},
		{Name: "llama-prod-b", config: with(2, func(c *fakellm.Config) {
			c.PrefillBase = 420 * time.Millisecond
			c.Faults = []fakellm.Fault{
				{Kind: fakellm.Stall, Probability: 0.15, AfterTokens: 10, Delay: 900 * time.Millisecond},
				{Kind: fakellm.Truncate, Probability: 0.1, AfterTokens: 20},
			}
		})},
		{Name: "llama-staging-a", config: with(3, func(c *fakellm.Config) {
			c.Speculation = fakellm.Speculation{DraftTokens: 4, AcceptLength: 2.8}
		})},
		{Name: "llama-staging-b", config: with(4, func(c *fakellm.Config) { c.Engine = fakellm.VLLM })},
	}
}

// demo runs the whole product on this machine.
func demo(ctx context.Context, p Process, listen string) (int, error) {
	replicas := demoReplicas()
	for _, r := range replicas {
		if err := r.start(); err != nil {
			return exitFail, err
		}
		defer r.stop()
	}
	dir, err := os.MkdirTemp("", "inferbeat-demo-")
	if err != nil {
		return exitFail, fmt.Errorf("make the demo's folder: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "inferbeat.yaml")
	if err := writeDemoConfig(file, listen, filepath.Join(dir, "store"), replicas); err != nil {
		return exitFail, err
	}
	app, err := daemon.New(daemon.Options{
		ConfigFiles: []string{file}, LogTo: p.Stderr, Version: buildVersion(),
		Overrides: map[string]any{"log.level": "error"}, Banner: demoBanner,
		PageRefresh: time.Second,
	})
	if err != nil {
		return exitUsage, explain(err)
	}
	app.Relive(demoNights(time.Now().UTC()), marked)
	fmt.Fprintf(p.Stdout, "Four simulated replicas are up; their configuration is %s\n", file)
	fmt.Fprintf(p.Stdout, "Page:    %s/\nMetrics: %s/metrics\nCtrl-C ends the demo.\n", app.URL(), app.URL())
	if err := app.Run(ctx); err != nil {
		return exitFail, err
	}
	fmt.Fprintln(p.Stdout, "The demo has ended.")
	return exitPass, nil
}

func (r *replica) start() error {
	engine, err := fakellm.New(r.config)
	if err != nil {
		return fmt.Errorf("start replica %s: %w", r.Name, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start replica %s: %w", r.Name, err)
	}
	r.URL = "http://" + listener.Addr().String()
	r.server = &http.Server{Handler: engine.Handler(), ReadHeaderTimeout: 10 * time.Second}
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		_ = r.server.Serve(listener) // an end before stop shows as refused connections
	}()
	return nil
}

// stop cuts what is being answered.
func (r *replica) stop() {
	_ = r.server.Close()
	<-r.ended
}

func writeDemoConfig(path, listen, store string, replicas []*replica) error {
	parsed, err := template.New("demo.yaml").Option("missingkey=error").Parse(demoConfig)
	if err != nil {
		return fmt.Errorf("parse the demo's configuration: %w", err)
	}
	urls := map[string]string{}
	for _, r := range replicas {
		urls[r.Name] = r.URL
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{"Listen": listen, "URL": urls, "Folder": filepath.Dir(path), "Store": store}); err != nil {
		return fmt.Errorf("write the demo's configuration: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}
