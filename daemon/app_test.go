package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

// engineAt serves a scripted engine on a loopback port.
func engineAt(t *testing.T, change func(*fakellm.Config)) (*fakellm.Engine, string) {
	t.Helper()
	engine := quickEngine(t, change)
	server := httptest.NewServer(engine.Handler())
	t.Cleanup(server.Close)
	return engine, server.URL
}

func quickEngine(t *testing.T, change func(*fakellm.Config)) *fakellm.Engine {
	t.Helper()
	c := fakellm.Config{Model: "m", Script: &fakellm.Script{TTFT: []time.Duration{2 * time.Millisecond}}}
	if change != nil {
		change(&c)
	}
	engine, err := fakellm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// network is one without sockets, for daemons in a bubble.
type network struct {
	fakellm.Network
	t *testing.T
}

func newNetwork(t *testing.T) *network {
	n := &network{t: t}
	t.Cleanup(n.Close)
	return n
}

// engine serves a scripted engine.
func (n *network) engine(change func(*fakellm.Config)) (*fakellm.Engine, string) {
	n.t.Helper()
	engine := quickEngine(n.t, change)
	return engine, n.Serve(engine.Handler())
}

// daemon starts a daemon on the network with the YAML text as its only file.
func (n *network) daemon(text string) *runningDaemon {
	n.t.Helper()
	return n.daemonWith(Options{ConfigFiles: []string{configFile(n.t, text)}, Version: "test", Watch: 500 * time.Millisecond})
}

func (n *network) daemonWith(o Options) *runningDaemon {
	n.t.Helper()
	o.Dial = n.Dial
	app, dial := appInBubble(n.t, o)
	d := running(n.t, app, o, "http://daemon", &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}})
	d.pace = 100 * time.Millisecond
	return d
}

// appInBubble makes a daemon without sockets, which would hold the clock of its bubble
// still, and the way to its page.
func appInBubble(t *testing.T, o Options) (app *App, page dialer) {
	t.Helper()
	app = newApp(t, o)
	if err := app.listener.Close(); err != nil {
		t.Fatal(err)
	}
	app.listener, page = fakellm.NewPipeListener()
	app.reference.Listener, app.reference.Dial = fakellm.NewPipeListener()
	return app, page
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "inferbeat.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// daemonOf starts a daemon on a real socket with the YAML text as its only file.
func daemonOf(t *testing.T, text string) *runningDaemon {
	t.Helper()
	return daemonWith(t, Options{ConfigFiles: []string{configFile(t, text)}, Version: "test", Watch: 5 * time.Millisecond})
}

func daemonWith(t *testing.T, o Options) *runningDaemon {
	t.Helper()
	app := newApp(t, o)
	return running(t, app, o, app.URL(), http.DefaultClient)
}

func newApp(t *testing.T, o Options) *App {
	t.Helper()
	o.Overrides = map[string]any{"web.listen_address": "127.0.0.1:0"}
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

type runningDaemon struct {
	*App
	t      *testing.T
	file   string
	url    string
	client *http.Client
	pace   time.Duration // between two looks at the state
	stop   context.CancelFunc
	done   chan error
}

func running(t *testing.T, app *App, o Options, url string, client *http.Client) *runningDaemon {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	d := &runningDaemon{App: app, t: t, file: o.ConfigFiles[0], url: url, client: client, pace: 2 * time.Millisecond, stop: stop, done: make(chan error, 1)}
	go func() { d.done <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-d.done:
			if err != nil {
				t.Errorf("the daemon ended with: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the daemon did not end")
		}
		d.done <- nil
	})
	return d
}

// until waits for a state of the daemon, in virtual time where it is in a bubble; it
// fails the test with what there is.
func (d *runningDaemon) until(what string, ok func() bool) {
	d.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			d.t.Fatalf("waited in vain for: %s\npairs: %+v", what, d.Pairs())
		}
		time.Sleep(d.pace)
	}
}

func (d *runningDaemon) request(method, path string) (int, string) {
	d.t.Helper()
	r, err := http.NewRequest(method, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// metric is the value of the one series of a metric whose labels contain all of
// the given ones.
func (d *runningDaemon) metric(name string, labels ...string) (float64, bool) {
	d.t.Helper()
	_, body := d.request("GET", "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		d.t.Fatalf("parse /metrics: %v", err)
	}
	for _, m := range families[name].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && have[labels[i]] == labels[i+1]
		}
		if matches {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

const oneCanary = `
web: {enable_lifecycle: true}
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 1s, workload: w, num_prompts: %d}}
targets:
  - {name: a, environment: development, backend: sglang, url: %q, model: m, probes: [canary]}
`

func TestDaemonMeasuresAndExports(t *testing.T) {
	t.Parallel()
	_, url := engineAt(t, nil)
	d := daemonOf(t, fmt.Sprintf(oneCanary, 3, url))

	// Before the first run every counter stands at 0: one that is born at 1 loses
	// its first increment.
	if v, ok := d.metric("inferbeat_requests_total", "target", "a", "outcome", "error"); !ok || v != 0 {
		t.Errorf("requests_total{outcome=error} = %v (present %v) on the first scrape, want 0", v, ok)
	}
	d.until("a finished run", func() bool { return d.Pairs()[0].Result != nil })
	d.until("its records on /metrics", func() bool {
		v, _ := d.metric("inferbeat_runs_total", "result", "success")
		return v >= 1
	})
	p := d.Pairs()[0]
	if p.Result.Summary.Completed < 3 || p.ConsecutiveFailures != 0 || p.LastSuccess.IsZero() {
		t.Errorf("status %+v, want three completed requests", p)
	}
	requests, _ := d.metric("inferbeat_requests_total", "target", "a", "probe", "canary", "target_env", "development", "model", "m", "outcome", "success")
	samples, _ := d.metric("inferbeat_time_to_first_token_seconds", "target", "a")
	if requests < 3 || samples != requests {
		t.Errorf("%v successful requests and %v TTFT samples, want at least 3 and as many", requests, samples)
	}
	if code, _ := d.request("GET", "/-/ready"); code != 200 {
		t.Errorf("ready = %d", code)
	}
	if v, _ := d.metric("inferbeat_probe_up", "target", "a"); v != 1 {
		t.Errorf("probe_up = %v, want 1", v)
	}
}

// A name that does not resolve is a failure that shows, not a scrape that fails.
func TestUnreachableTargetShowsAsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		d := n.daemon(fmt.Sprintf(oneCanary, 1, "http://no-such-host.invalid:8000"))
		d.until("two failed runs", func() bool { return d.Pairs()[0].ConsecutiveFailures >= 2 })
		d.until("probe_up 0", func() bool { v, ok := d.metric("inferbeat_probe_up", "target", "a"); return ok && v == 0 })
		if v, _ := d.metric("inferbeat_request_errors_total", "target", "a", "class", "dns"); v < 2 {
			t.Errorf("request_errors_total{class=dns} = %v, want 2 or more", v)
		}
		if v, ok := d.metric("inferbeat_result_latency_seconds", "target", "a"); ok {
			t.Errorf("a target that never answered has a latency of %v", v)
		}
	})
}

// When a target stops answering, its result keeps the time of its last success
// and leaves when that is too old.
func TestDeadTargetsResultAges(t *testing.T) {
	now := time.Now()
	tr := newTracker(func() time.Time { return now })
	spec := loadSpec()
	spec.Kind, spec.StaleAfter, spec.Window = probes.Canary, time.Minute, probes.Window{MinSamples: 10, MaxAge: time.Hour}
	pair := configPair(spec)
	tr.replace(pair, nil, nil)
	key := pairKey{"t", "load"}
	run := func(outcome probes.Outcome, result probes.RunResult) *probes.Run {
		r := &probes.Run{Target: fakeTarget("vllm"), Spec: spec, Start: now, End: now.Add(time.Second), Result: result, Complete: true}
		record := probes.Record{Outcome: outcome, Sent: 0, End: probes.Known(time.Second)}
		if outcome == probes.OK {
			record.FirstToken, record.LastToken = probes.Known(100*time.Millisecond), probes.Known(time.Second)
			record.Chunks = []probes.Chunk{{At: 100 * time.Millisecond, Tokens: 1}, {At: time.Second, Tokens: 1}}
		}
		r.Records = []probes.Record{record}
		return r
	}
	tr.finished(key, run(probes.OK, probes.RunSuccess))
	succeeded := now.Add(time.Second)
	now = now.Add(30 * time.Second)
	tr.finished(key, run(probes.Connect, probes.RunFailed))
	s := tr.snapshot(nil)[0]
	if s.Result == nil || !s.Result.CompletedAt.Equal(succeeded) {
		t.Fatalf("result %+v, want one that is as old as the last success (%v)", s.Result, succeeded)
	}
	if got, _ := s.Result.Summary.SuccessRatio.Get(); got != 0.5 {
		t.Errorf("success ratio %v, want 0.5", got)
	}
	now = now.Add(32 * time.Second)
	if s := tr.snapshot(nil)[0]; s.Result != nil || s.ConsecutiveFailures != 1 || !s.LastSuccess.Before(now) {
		t.Errorf("status %+v, want no result any more and one failure", s)
	}
}

func TestInvalidAndAbortedRunsMoveNoResult(t *testing.T) {
	for _, result := range []probes.RunResult{probes.RunInvalid, probes.RunAborted} {
		tr := newTracker(time.Now)
		spec := loadSpec()
		tr.replace(configPair(spec), nil, nil)
		key := pairKey{"t", "load"}
		good := &probes.Run{ID: "good", Spec: spec, Result: probes.RunSuccess, End: time.Now()}
		tr.finished(key, good)
		tr.finished(key, &probes.Run{ID: "bad", Spec: spec, Result: result, End: time.Now()})
		s := tr.snapshot(nil)[0]
		if s.Result == nil || s.Result.RunID != "good" || s.Last.ID != "bad" {
			t.Errorf("%s: result of %+v, last %s; want the result of the good run to stand", result, s.Result, s.Last.ID)
		}
	}
}

// Reload changes everything or nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, url := n.engine(nil)
		good := fmt.Sprintf(oneCanary, 1, url)
		d := n.daemon(good)
		d.until("a result", func() bool { return d.Pairs()[0].Result != nil })

		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(good + "\ntypo: 1\n")
		d.until("the bad file noticed", func() bool { return strings.Contains(d.Status().ReloadError, "typo") })
		if v, ok := d.metric("inferbeat_config_last_reload_successful"); !ok || v != 0 {
			t.Errorf("config_last_reload_successful = %v (present %v), want 0", v, ok)
		}
		if len(d.Pairs()) != 1 || d.Pairs()[0].Result == nil {
			t.Errorf("the bad file changed the pairs: %+v", d.Pairs())
		}
		code, body := d.request("POST", "/-/reload")
		if code != 500 || !strings.Contains(body, "typo") {
			t.Errorf("reload answered %d %q, want 500 with the mistake", code, body)
		}

		write(strings.Replace(good, "name: a,", "name: b,", 1))
		d.until("target b instead of a", func() bool { p := d.Pairs(); return len(p) == 1 && p[0].Pair.Target == "b" })
		if v, ok := d.metric("inferbeat_run_next_start_timestamp_seconds", "target", "a"); ok {
			t.Errorf("the gauges of the removed target are still there: %v", v)
		}
		if _, ok := d.metric("inferbeat_requests_total", "target", "a", "outcome", "success"); !ok {
			t.Error("the counters of the removed target are gone before their last increments were scraped")
		}
		if v, _ := d.metric("inferbeat_config_last_reload_successful"); v != 1 {
			t.Errorf("config_last_reload_successful = %v after a good reload, want 1", v)
		}
		write(strings.Replace(good, "enable_lifecycle: true", "enable_lifecycle: false", 1))
		d.until("a change that needs a restart is refused", func() bool { return strings.Contains(d.Status().ReloadError, "web has changed; restart") })
	})
}

// A ConfigMap is changed by swapping a symbolic link, which touches no file.
func TestReloadThroughSwappedLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		_, url := n.engine(nil)
		dir := t.TempDir()
		version := func(name, target string) {
			t.Helper()
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(fmt.Sprintf(oneCanary, 1, url), "name: a,", "name: "+target+",", 1)
			if err := os.WriteFile(filepath.Join(dir, name, "inferbeat.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(name, filepath.Join(dir, "..new")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
				t.Fatal(err)
			}
		}
		version("..v1", "one")
		if err := os.Symlink("..data/inferbeat.yaml", filepath.Join(dir, "inferbeat.yaml")); err != nil {
			t.Fatal(err)
		}
		d := n.daemonWith(Options{ConfigFiles: []string{filepath.Join(dir, "inferbeat.yaml")}, Version: "test", Watch: 500 * time.Millisecond})
		var stamps []float64
		for i, name := range []string{"one", "two", "three"} {
			if i > 0 {
				version(fmt.Sprintf("..v%d", i+1), name)
			}
			d.until("target "+name, func() bool { return d.Pairs()[0].Pair.Target == name })
			d.until("the stamp of the reload", func() bool {
				v, _ := d.metric("inferbeat_config_last_reload_success_timestamp_seconds")
				return len(stamps) == 0 || v > stamps[len(stamps)-1]
			})
			v, _ := d.metric("inferbeat_config_last_reload_success_timestamp_seconds")
			stamps = append(stamps, v)
		}
	})
}

// The kill switch stops what is going on, and starts count as skipped.
func TestPauseStopsAllProbing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		engine, url := n.engine(func(c *fakellm.Config) {
			c.Script.TTFT = []time.Duration{time.Hour}
		})
		d := n.daemon(fmt.Sprintf(oneCanary, 1, url))
		d.until("a request in flight", func() bool { return d.Pairs()[0].InFlight == 1 })
		if code, _ := d.request("POST", "/-/pause"); code != 200 {
			t.Fatalf("pause answered %d", code)
		}
		d.until("the request cut", func() bool { return !d.Pairs()[0].Active && engine.Stats().Aborted >= 1 })
		d.until("skipped starts", func() bool {
			v, _ := d.metric("inferbeat_run_skips_total", "target", "a", "reason", "paused")
			return v >= 1
		})
		if got := d.Pairs()[0].Last.Result; got != probes.RunAborted {
			t.Errorf("the cut run is %s, want aborted", got)
		}
		if v, _ := d.metric("inferbeat_requests_total", "target", "a", "outcome", "error"); v != 0 {
			t.Errorf("%v errors are blamed on the target", v)
		}
		before := engine.Stats().Received
		d.request("POST", "/-/resume")
		d.until("probing again", func() bool { return engine.Stats().Received > before })
	})
}

// Stopping in the middle of a run keeps what is complete, blames nobody and is quick.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		results := filepath.Join(t.TempDir(), "results.jsonl")
		engine, url := n.engine(func(c *fakellm.Config) {
			// The first four requests are answered at once, the others never.
			c.Script.TTFT = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond}
			c.Faults = []fakellm.Fault{{Kind: fakellm.HangBeforeHeaders, Requests: []int{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}}}
		})
		d := n.daemon(fmt.Sprintf(`
results: {path: %q}
shutdown_grace: 5s
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 8}}
probes: {load: {kind: load, every: 1s, workload: w, num_prompts: 100, max_concurrency: 3, warmup: {requests: 0}}}
targets:
  - {name: a, environment: development, backend: sglang, url: %q, model: m, probes: [load]}
`, results, url))
		d.until("four answers and three in flight", func() bool {
			s := engine.Stats()
			return s.Finished == 4 && s.Received == 7 && d.Pairs()[0].InFlight == 3
		})
		d.stop()
		begun := time.Now()
		if err := <-d.done; err != nil {
			t.Errorf("stopping failed: %v", err)
		}
		d.done <- nil
		if took := time.Since(begun); took != 0 {
			t.Errorf("stopping took %v, want what is in flight cut at once", took)
		}
		body, err := os.ReadFile(results)
		if err != nil {
			t.Fatal(err)
		}
		line := string(body)
		for _, want := range []string{`"completed":4`, `"complete":false`, `"cancelled":3`} {
			if strings.Count(line, "\n") != 1 || !strings.Contains(line, want) {
				t.Errorf("the result line lacks %s: %s", want, line)
			}
		}
	})
}

// Free text from servers never becomes a series.
func TestErrorsDoNotAddSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var answers atomic.Int64
		url := n.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, fmt.Sprintf(`{"error":{"message":"reason %d","code":"c%d"}}`, answers.Add(1), answers.Load()), 500)
		}))
		d := n.daemon(fmt.Sprintf(oneCanary, 20, url))
		d.until("a failed run", func() bool { return d.Pairs()[0].ConsecutiveFailures >= 1 })
		// These come a second after the start, for a reason of their own.
		d.until("the CPU share of the process", func() bool { _, ok := d.metric("inferbeat_client_saturated"); return ok })
		count := func() int { _, body := d.request("GET", "/metrics"); return strings.Count(body, "\ninferbeat_") }
		before := count()
		d.until("more failed runs", func() bool { return d.Pairs()[0].ConsecutiveFailures >= 3 })
		if after := count(); after != before {
			t.Errorf("%d lines before, %d after 40 more errors with texts of their own", before, after)
		}
	})
}

func TestPortInUseIsSaidBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf(oneCanary, 1, taken.URL) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{ConfigFiles: []string{file}, Overrides: map[string]any{"web.listen_address": strings.TrimPrefix(taken.URL, "http://")}})
	if err == nil || !strings.Contains(err.Error(), "web.listen_address") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v, want one that names the setting and the cause", err)
	}
}
