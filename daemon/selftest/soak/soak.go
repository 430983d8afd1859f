package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/truth"
)

type options struct {
	length, every time.Duration
	bounds        bounds
}

// configHead makes a canary and a load probe which together read some 15,000
// events a second from three targets.
const configHead = `
web: {listen_address: "127.0.0.1:0"}
results: {path: %q}
workloads: {w: {dataset: random, input_tokens: 64, output_tokens: 50}}
probes:
  canary: {kind: canary, every: 1s, workload: w, num_prompts: 8, window: {min_samples: 50, max_age: 1m}, limits: {ttft: {p99: 1s}}, slos: [{name: fast, ttft: 1s, objective: 99%%, window: 1d}]}
  load: {kind: load, every: 1s, workload: w, num_prompts: 96, arrivals: closed, max_concurrency: 32, warmup: {requests: 8}}
targets:
`

// servers are the truth servers of a soak.
type servers struct {
	all       []*truth.Server
	addresses []string
	served    []chan error
	events    int64
}

func startServers(n int) (*servers, error) {
	s := &servers{}
	for i := range n {
		server, err := truth.New(truth.Config{TTFT: 5 * time.Millisecond, ITL: 2 * time.Millisecond, Jitter: 0.3, Seed: uint64(i)}, probes.NewClock())
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("listen on loopback: %w", err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		s.all, s.addresses, s.served = append(s.all, server), append(s.addresses, listener.Addr().String()), append(s.served, served)
	}
	return s, nil
}

// count lets the servers forget what they have sent.
func (s *servers) count() int64 {
	for _, server := range s.all {
		for _, st := range server.Take() {
			s.events += int64(len(st.Sent))
		}
	}
	return s.events
}

// connections are those that the daemon keeps open, each a goroutine of ours.
func (s *servers) connections() (n int) {
	for _, server := range s.all {
		n += server.Connections()
	}
	return n
}

func (s *servers) stop() {
	for i, server := range s.all {
		server.Close()
		<-s.served[i]
	}
}

// config is the daemon's configuration with the first n targets.
func (s *servers) config(results string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, configHead, results)
	for i, address := range s.addresses[:n] {
		fmt.Fprintf(&b, "  - {name: truth-%d, environment: development, backend: vllm, url: \"http://%s\", model: truth, probes: [canary, load]}\n", i, address)
	}
	return b.String()
}

// soak runs the daemon and samples it.
func soak(ctx context.Context, o options, w io.Writer) (samples []sample, err error) {
	dir, err := os.MkdirTemp("", "inferbeat-soak-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	truths, err := startServers(3)
	if err != nil {
		return nil, err
	}
	defer truths.stop()
	file, results := filepath.Join(dir, "inferbeat.yaml"), filepath.Join(dir, "runs.jsonl")
	if err := os.WriteFile(file, []byte(truths.config(results, 3)), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	app, err := daemon.New(daemon.Options{ConfigFiles: []string{file}, Version: "soak", LogTo: io.Discard})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()

	began := time.Now()
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	fmt.Fprintln(w, "    TIME  LIVE HEAP  GOROUTINES  CONNECTIONS        RSS  TOKEN EVENTS  RUNS")
	for last := began; time.Since(began) < o.length || len(samples) < minSamples; last = time.Now() {
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- nil
			return nil, errors.Join(errors.New("the daemon ended by itself"), err)
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		}
		if err := awaitSuccess(ctx, app, last); err != nil {
			return nil, err
		}
		s, err := look(app, truths, time.Since(began))
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
		fmt.Fprintf(w, "%8s  %5.2f MiB  %10.0f  %11d  %5.1f MiB  %12d  %4d\n", s.at.Round(time.Second), s.heapMiB, s.goroutines, s.connections, s.rssMiB, s.events, s.runs)
		for _, targets := range []int{2, 3} { // one goes and comes back
			if err := os.WriteFile(file, []byte(truths.config(results, targets)), 0o600); err != nil {
				return nil, fmt.Errorf("write configuration: %w", err)
			}
			if err := app.Reload(ctx); err != nil {
				return nil, fmt.Errorf("reload: %w", err)
			}
		}
	}
	return samples, nil
}

// minSamples are taken even when a busy host needs longer than it was given.
const minSamples = 4

// patience is how long a probe may take to its next success on some target.
const patience = 2 * time.Minute

// awaitSuccess waits until every probe has had a success since then. A sample
// cuts what is running, so that without it a busy host would measure nothing.
func awaitSuccess(ctx context.Context, app *daemon.App, since time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("nothing came of them for %s", patience))
	defer cancel()
	for {
		waiting := map[string]bool{}
		for _, p := range app.Pairs() {
			still, seen := waiting[p.Pair.Probe]
			waiting[p.Pair.Probe] = (still || !seen) && !p.LastSuccess.After(since)
		}
		maps.DeleteFunc(waiting, func(_ string, still bool) bool { return !still })
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for a success of %s: %w", strings.Join(slices.Sorted(maps.Keys(waiting)), " and "), context.Cause(ctx))
		}
	}
}

// readings is how many readings make a sample: their median, so that the reference
// stream or a scrape that goes on at one instant is not taken for growth.
const readings = 9

// settle is how long runs may take to end once they are cut.
const settle = 10 * time.Second

// look samples the process between runs, since what is in flight at an instant
// says nothing of what is kept, and scrapes it.
func look(app *daemon.App, truths *servers, at time.Duration) (sample, error) {
	s := sample{at: at}
	app.Pause(true)
	defer app.Pause(false)
	active := func(p probes.PairStatus) bool { return p.Active }
	for cut := time.Now(); slices.ContainsFunc(app.Pairs(), active); time.Sleep(10 * time.Millisecond) {
		if time.Since(cut) > settle {
			return s, fmt.Errorf("runs that were cut go on after %s", settle)
		}
	}
	var heap, goroutines []float64
	for range readings {
		truths.count()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.connections = truths.connections()
		heap, goroutines = append(heap, float64(m.HeapAlloc)/(1<<20)), append(goroutines, float64(runtime.NumGoroutine()-s.connections))
		time.Sleep(20 * time.Millisecond)
	}
	slices.Sort(heap)
	slices.Sort(goroutines)
	s.heapMiB, s.goroutines = heap[readings/2], goroutines[readings/2]
	s.rssMiB, s.events = residentMiB(), truths.count()
	var err error
	s.runs, err = scrape(app.URL() + "/metrics")
	return s, err
}

// scrape reads /metrics as Prometheus would and returns the runs that have ended.
func scrape(url string) (int64, error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, fmt.Errorf("scrape: %w", err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("scrape: status %s, %w", response.Status, err)
	}
	var runs float64
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "inferbeat_runs_total{") {
			runs += n
		}
	}
	return int64(runs), nil
}

// residentMiB is the resident memory, 0 where the system has no such file.
func residentMiB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return 0
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}
