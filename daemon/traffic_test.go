package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// counting is a server whose page counts requests, and which counts who reads it.
type counting struct {
	mu     sync.Mutex
	rate   float64 // requests per second from since on
	since  time.Time
	before float64
	status int
	pages  int // readings of /metrics
	asked  int // of any page
}

func (c *counting) set(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.since, c.rate = c.before+c.rate*time.Since(c.since).Seconds(), time.Now(), rate
}

func (c *counting) restart() {
	c.set(c.rate)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = 0
}

func (c *counting) answer(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (c *counting) read() (pages, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages, c.asked
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if r.URL.Path != "/metrics" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	c.pages++
	w.WriteHeader(c.status)
	fmt.Fprintf(w, "vllm:num_requests_running 0\nvllm:request_success_total{finished_reason=\"stop\"} %v\n", c.before+c.rate*time.Since(c.since).Seconds())
}

// metered runs a meter of one target in virtual time.
func metered(t *testing.T, check func(c *counting, m *trafficMeter, paused *atomic.Bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{since: time.Now(), status: http.StatusOK}
		listener, dial := fakellm.NewPipeListener()
		server := &http.Server{Handler: c}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		var paused atomic.Bool
		m := newTrafficMeter(15*time.Second, backend.Options{DialContext: dial}, paused.Load, func(cause any) { t.Errorf("panic: %v", cause) })
		m.replace([]probes.Target{fakeTarget("vllm")}, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); m.run(ctx) }()
		// The readings of a target come at an instant of their own in each interval; from
		// here on one is just over.
		time.Sleep(spread("t", m.every) + time.Millisecond)
		synctest.Wait()
		check(c, m, &paused)
		cancel()
		<-ended
		m.close()
	})
}

// shows is the target's rate now; -1 is absent.
func shows(m *trafficMeter) float64 {
	if rate, ok := m.rates(time.Now())["t"]; ok {
		return rate
	}
	return -1
}

func wantRate(t *testing.T, what string, m *trafficMeter, want float64) {
	t.Helper()
	synctest.Wait()
	if got := shows(m); got < want-1e-9 || got > want+1e-9 {
		t.Errorf("%s: rate %v, want %v", what, got, want)
	}
}

// A page every 15 s, a rate from the second one on, over the last minute.
func TestServerRequestsPerSecond(t *testing.T) {
	metered(t, func(c *counting, m *trafficMeter, _ *atomic.Bool) {
		c.set(4)
		wantRate(t, "after one page", m, -1)
		time.Sleep(15 * time.Second)
		// The first page was read a millisecond before the server got busy.
		wantRate(t, "after two", m, 4*14.999/15)
		time.Sleep(75 * time.Second)
		wantRate(t, "after 90 s", m, 4)
		if pages, _ := c.read(); pages != 7 {
			t.Errorf("%d pages in 90 s, want 7", pages)
		}
		c.set(10)
		time.Sleep(30 * time.Second)
		wantRate(t, "half a minute after it has changed", m, (4*30.001+10*29.999)/60)
		time.Sleep(45 * time.Second)
		wantRate(t, "a minute after it has changed", m, 10)
		c.restart() // counts from 0; the requests of the last millisecond before are lost
		time.Sleep(15 * time.Second)
		wantRate(t, "after a restart", m, (10*45+10*14.999)/60)
	})
}

// A page that is missed once or twice is no news; then the rate is old, and the page is
// asked for less and less often.
func TestServerThatStopsCounting(t *testing.T) {
	metered(t, func(c *counting, m *trafficMeter, _ *atomic.Bool) {
		c.set(2)
		time.Sleep(75 * time.Second)
		wantRate(t, "before", m, 2)
		c.answer(http.StatusServiceUnavailable)
		time.Sleep(45*time.Second - 2*time.Millisecond) // the last reading is 45 s old
		wantRate(t, "for 45 s", m, 2)
		time.Sleep(4 * time.Millisecond)
		wantRate(t, "after 45 s", m, -1)
		before, _ := c.read()
		time.Sleep(time.Hour)
		synctest.Wait()
		// After 15, 30, 60, 120 and 240 s, then every 300 s.
		if after, _ := c.read(); after-before != 5+10 {
			t.Errorf("%d pages in an hour, want 15", after-before)
		}
		c.answer(http.StatusOK)
		time.Sleep(5*time.Minute + 16*time.Second)
		wantRate(t, "when it is back", m, 2)
	})
}

// Nothing is asked while probing is paused.
func TestPausedReadsNothing(t *testing.T) {
	metered(t, func(c *counting, m *trafficMeter, paused *atomic.Bool) {
		c.set(2)
		time.Sleep(30 * time.Second)
		paused.Store(true)
		_, before := c.read()
		time.Sleep(10 * time.Minute)
		wantRate(t, "paused", m, -1)
		if _, after := c.read(); after != before {
			t.Errorf("%d pages while paused", after-before)
		}
		paused.Store(false)
		time.Sleep(15 * time.Second)
		wantRate(t, "one page later", m, -1)
		time.Sleep(15 * time.Second)
		wantRate(t, "two pages later", m, 2)
	})
}

// Targets come and go with the configuration; a changed one is another server.
func TestReplacedTargets(t *testing.T) {
	metered(t, func(c *counting, m *trafficMeter, _ *atomic.Bool) {
		c.set(2)
		time.Sleep(30 * time.Second)
		m.replace([]probes.Target{fakeTarget("vllm")}, time.Now())
		if shows(m) < 0 {
			t.Error("a reload that changes nothing forgets the rate")
		}
		other := fakeTarget("vllm-chat")
		m.replace([]probes.Target{other}, time.Now())
		wantRate(t, "another target of the name", m, -1)
		time.Sleep(31 * time.Second)
		wantRate(t, "and its own rate", m, 2)
		m.replace(nil, time.Now())
		_, before := c.read()
		time.Sleep(time.Hour)
		if _, after := c.read(); after != before || len(m.rates(time.Now())) != 0 {
			t.Errorf("a target that is gone is asked for %d pages, rates %v", after-before, m.rates(time.Now()))
		}
	})
}

// What engines count, and what they do not: llama-server has no such counter, SGLang
// only with --enable-metrics.
func TestServerRequestsOfEngines(t *testing.T) {
	for _, tt := range []struct {
		backend, engine string
		apart           bool
		want            float64
	}{
		{"sglang", fakellm.SGLang, false, 2}, {"vllm-chat", fakellm.VLLM, false, 2}, {"lmdeploy", fakellm.LMDeploy, false, 2}, {"tgi", fakellm.TGI, false, 2},
		{"trtllm-serve", fakellm.TRTLLM, false, 2}, {"dynamo", fakellm.Dynamo, false, 2}, {"trt", fakellm.Triton, true, 2},
		{"trt", fakellm.Triton, false, -1}, {"llamacpp", fakellm.LlamaCPP, false, -1}, {"ollama", fakellm.Ollama, false, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := engineOf(t, fakellm.Config{Engine: tt.engine})
			runner, _ := apart(t, e)
			defer runner.Close()
			target := fakeTarget(tt.backend)
			if tt.apart {
				target.MetricsURL = "http://10.0.0.1:8002/metrics"
			}
			m := newTrafficMeter(15*time.Second, backend.Options{DialContext: runner.Dial}, func() bool { return false }, func(cause any) { t.Errorf("panic: %v", cause) })
			m.replace([]probes.Target{target}, time.Now())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); m.run(ctx) }()
			// Two requests a second for 100 s.
			spec := loadSpec()
			spec.Requests, spec.Arrivals.Rate, spec.Workload.OutputTokens, spec.Workload.InputTokens = 200, 2, 4, 16
			run := runner.Run(ctx, target, spec, nil, Hooks{Record: func(_ string, r *probes.Record) {
				if r.Index == 190 {
					wantSame(t, tt.backend, shows(m), tt.want)
				}
			}})
			if run.Summary.Completed != 200 {
				t.Errorf("%s: %d of 200 completed: %s", tt.backend, run.Summary.Completed, run.Error)
			}
			cancel()
			<-ended
			m.close()
		})
	}
}

// However many targets hang, few are asked at once, and ctx ends them all.
func TestReadingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int64
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
			all.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		m := newTrafficMeter(15*time.Second, backend.Options{DialContext: hang}, func() bool { return false }, func(cause any) { t.Errorf("panic: %v", cause) })
		var targets []probes.Target
		for i := range 100 {
			target := fakeTarget("vllm")
			target.Name = fmt.Sprint("t", i)
			targets = append(targets, target)
		}
		m.replace(targets, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); m.run(ctx) }()
		time.Sleep(time.Minute)
		if most.Load() != trafficReaders || all.Load() < 100 {
			t.Errorf("%d at once of %d, want %d", most.Load(), all.Load(), trafficReaders)
		}
		cancel()
		<-ended
		if now.Load() != 0 {
			t.Errorf("%d readings are left", now.Load())
		}
		m.close()
	})
}

func TestPanicOfAReadingIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Int64
		m := newTrafficMeter(15*time.Second, backend.Options{DialContext: func(context.Context, string, string) (net.Conn, error) { panic("dial") }},
			func() bool { return false }, func(any) { panics.Add(1) })
		m.replace([]probes.Target{fakeTarget("vllm")}, time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), 16*time.Second)
		defer cancel()
		m.run(ctx)
		if panics.Load() == 0 || shows(m) >= 0 {
			t.Errorf("%d panics, rate %v", panics.Load(), shows(m))
		}
	})
}

// The daemon reads and shows it without any run.
func TestServerRequestsOnMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c := &counting{since: time.Now(), status: http.StatusOK}
		c.set(1000)
		server := n.Serve(c)
		d := n.daemon(strings.Replace(`
metrics: {server_interval: 10ms}
workloads: {w: {input_tokens: 8, output_tokens: 4, tokenizer: approx}}
probes: {byhand: {kind: load, workload: w, num_prompts: 1, max_concurrency: 1}}
targets: [{name: t, environment: development, backend: vllm, url: "URL", model: m, probes: [byhand]}]
`, "URL", server, 1))
		d.until("a rate", func() bool {
			v, ok := d.metric(catalog.ServerRequests, "target", "t", "model", "m", "pool", "t", "target_env", "development")
			return ok && v > 0
		})
	})
}

// An interval of 0 reads nothing, ever.
func TestServerRequestsCanBeSwitchedOff(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was asked for")
		return nil, net.ErrClosed
	}
	m := newTrafficMeter(0, backend.Options{DialContext: dial}, func() bool { return false }, nil)
	m.replace([]probes.Target{fakeTarget("vllm")}, time.Now())
	m.run(context.Background()) // returns at once
	if len(m.rates(time.Now())) != 0 {
		t.Errorf("rates %v", m.rates(time.Now()))
	}
}
