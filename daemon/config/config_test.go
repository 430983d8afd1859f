package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/inferbeat/inferbeat/probes"
)

// load loads text files, each with its own name, in a directory of its own.
func load(t *testing.T, src Source, texts ...string) (*Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for i, text := range texts {
		name := fmt.Sprintf("%d.yaml", i+1)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		src.Files = append(src.Files, name)
	}
	return Load(src, stages)
}

func mustLoad(t *testing.T, src Source, texts ...string) *Config {
	t.Helper()
	c, err := load(t, src, texts...)
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return c
}

func redacted(t *testing.T, c *Config) string {
	t.Helper()
	text, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// probe1 is a load probe with the given keys on one development target.
func probe1(keys string) string {
	return "workloads: {w: {}}\nprobes:\n  p: {workload: w, " + keys + "}\n" +
		`targets: [{name: t, environment: development, backend: vllm, url: "http://h:8000/v1/", probes: [p]}]` + "\n"
}

func TestDefault(t *testing.T) {
	c := Default()
	want := Web{ListenAddress: "127.0.0.1:9799"}
	if diff := cmp.Diff(want, c.Web); diff != "" {
		t.Errorf("web (-want +got):\n%s", diff)
	}
	if got, want := c.Metrics, (Metrics{Histograms: "auto", MaxSeries: 200_000, ServerInterval: 15 * time.Second}); got != want {
		t.Errorf("metrics: got %+v, want %+v", got, want)
	}
	if got, want := c.Log, (Log{Level: "info", Format: "logfmt"}); got != want {
		t.Errorf("log: got %+v, want %+v", got, want)
	}
	if c.ShutdownGrace != 30*time.Second || c.Pause || c.MaxConcurrentRuns != 500 || len(c.Pairs()) != 0 {
		t.Errorf("got grace %s, pause %v, %d runs at once, %d pairs, want 30s, false, 500, 0", c.ShutdownGrace, c.Pause, c.MaxConcurrentRuns, len(c.Pairs()))
	}
	production := Environment{
		Class: probes.Production, Kinds: []string{"canary"}, MaxInFlight: 1, MaxRate: 1,
		MaxInputTokens: 8000, MaxOutputTokens: 256, TokensPerDay: 5_000_000, Allow: []string{}, StopWhen: StopWhen{QueueAbove: 10, ErrorRatioAbove: 0.2},
	}
	if diff := cmp.Diff(production, c.Environments["production"]); diff != "" {
		t.Errorf("production (-want +got):\n%s", diff)
	}
}

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d examples, %v", len(files), err)
	}
	for _, file := range files {
		src := Source{Files: []string{file}, Env: []string{"LLM_API_KEY=sk-EXAMPLE"}}
		c, err := Load(src, stages)
		if err != nil {
			t.Errorf("load:\n%v", err)
			continue
		}
		if len(c.Pairs()) == 0 && len(c.Entries()) == 0 {
			t.Errorf("%s: got no pairs", file)
		}
		if strings.Contains(redacted(t, c), "EXAMPLE") {
			t.Errorf("%s: the key is printed", file)
		}
	}
}

// Every key of a pair arrives where the stages look for it.
func TestPairHoldsEveryKey(t *testing.T) {
	c := mustLoad(t, Source{Env: []string{"KEY=sk-1"}}, `
workloads:
  ids:
    dataset: random-ids
    input_tokens: 2k
    output_tokens: 64
    range_ratio: 0.5
    tokenizer: approx
    vocab_size: 32000
    token_ids: true
    cache: warm
    seed: -7
    temperature: 0.7
    top_p: 0.9
    ignore_eos: false
    stream: false
    extra_body: {stop: ["\n"], logit_bias: {"1": 2, "3": null}, n: 1, keep: "${NOT_REPLACED}"}
    lora: [sql, chat]
    lora_request_distribution: skewed
    lora_zipf_alpha: 2
probes:
  p:
    kind: load
    schedule: "0 2 * * *"
    timezone: Europe/Berlin
    allow_parallel: true
    workload: ids
    num_prompts: 100
    duration: 10m
    request_rate: 8
    burstiness: 0.25
    max_concurrency: 16
    warmup: {requests: 3, duration: 5s}
    timeouts: {connect: 1s, total: 0}
    slos: [{name: fast, objective: 99.9%, ttft: 1s, tpot: 60ms, e2e: 10s, window: 7d}]
    limits: {ttft: {p99: {critical: 2s, warning: 1s}, tail_ratio: 5}, e2e: {mean: 3s}}
    queue_limits: {info: 4.5, warning: 20}
    failure_threshold: 4
    window: {min_samples: 50, max_age: 1h}
    stale_after: 2d
    keep_text: true
    flush_cache: true
    profile: {activities: [CPU, GPU], num_steps: 5, start_step: 2, by_stage: true, stages: [prefill], output_dir: /tmp/p, prefix: night}
targets:
  - name: t
    pool: llama
    environment: lab
    backend: vllm
    url: "https://[2001:db8::5]:8000/v1/"
    metrics_url: ":8002"
    metrics_credentials: true
    path: /completions
    model: llama
    api_key: ${KEY}
    headers: {X-Route: "a$${b}"}
    labels: {gpu: h100}
    connection: new
    protocol: http2
    follow_redirects: true
    proxy: "http://proxy:3128"
    tls: {server_name: llm.example.test, ca_file: 1.yaml, cert_file: 1.yaml, key_file: 1.yaml, insecure_skip_verify: true}
    timeouts: {idle: 9s, total: 7s}
    probes: [p]
environments:
  lab: {class: staging, allow: [flush_cache, profile]}
`)
	here, err := filepath.Abs("1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Pair{
		Target: probes.Target{
			Name: "t", Pool: "llama", Environment: probes.Staging, Site: "lab", Backend: "vllm",
			BaseURL: "https://[2001:db8::5]:8000/v1", Path: "/completions", Model: "llama",
			MetricsURL: "https://[2001:db8::5]:8002/metrics", MetricsCredentials: true, Labels: map[string]string{"gpu": "h100"},
			Connection: probes.Connection{
				Policy: probes.ConnectionNew, Protocol: probes.HTTP2, FollowRedirects: true, Proxy: "http://proxy:3128", APIKey: "sk-1",
				TLS:     probes.TLS{CAFile: here, CertFile: here, KeyFile: here, ServerName: "llm.example.test", InsecureSkipVerify: true},
				Headers: map[string]probes.Secret{"X-Route": "a${b}"},
			},
			Timeouts: probes.Timeouts{Connect: time.Second, FirstToken: 5 * time.Minute, Idle: 9 * time.Second, Total: 7 * time.Second},
		},
		Spec: probes.Spec{
			Probe: "p", Kind: probes.Load,
			Workload: probes.Workload{
				Name: "ids", Dataset: "random-ids", InputTokens: 2000, OutputTokens: 64, RangeRatio: 0.5, Tokenizer: "approx",
				VocabSize: 32000, TokenIDs: true, Cache: probes.CacheWarm, Seed: -7,
				Sampling: probes.Sampling{
					Temperature: 0.7, TopP: probes.Known(0.9),
					ExtraBody: map[string]any{
						"stop": []any{"\n"}, "logit_bias": map[string]any{"1": 2, "3": nil}, "n": 1, "keep": "${NOT_REPLACED}",
					},
				},
				Adapters: probes.Adapters{Names: []string{"sql", "chat"}, Choice: probes.AdaptersSkewed, Alpha: 2},
			},
			Arrivals: probes.Arrivals{Process: probes.Gamma, Rate: 8, CV: 2, MaxConcurrency: 16},
			Requests: 100, Duration: 10 * time.Minute, Warmup: probes.Warmup{Requests: 3, Duration: 5 * time.Second},
			Schedule: probes.Schedule{Cron: "0 2 * * *", Timezone: "Europe/Berlin", AllowParallel: true},
			SLOs: []probes.SLO{{Name: "fast", Objective: 0.999, Window: 7 * 24 * time.Hour, Bounds: map[probes.Signal]time.Duration{
				probes.TTFT: time.Second, probes.TPOT: 60 * time.Millisecond, probes.E2E: 10 * time.Second,
			}}},
			Limits: []probes.Limit{
				{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Warning, Bound: 1},
				{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Critical, Bound: 2},
				{Signal: probes.TTFT, Statistic: probes.StatTailRatio, Severity: probes.Warning, Bound: 5},
				{Signal: probes.E2E, Statistic: probes.StatMean, Severity: probes.Warning, Bound: 3},
			},
			QueueLimits:      []probes.QueueLimit{{Severity: probes.Info, Bound: 4.5}, {Severity: probes.Warning, Bound: 20}},
			FailureThreshold: 4,
			Window:           probes.Window{MinSamples: 50, MaxAge: time.Hour}, StaleAfter: 48 * time.Hour, KeepText: true,
			FlushCache: true, Profile: &probes.Profile{Activities: []string{"CPU", "GPU"}, Steps: 5, StartStep: 2, ByStage: true, Stages: []string{"prefill"}, OutputDir: "/tmp/p", Prefix: "night"},
		},
		Budget: Budget{Tokens: (100 + 3 + 8*5) * (2000 + 64)}, // measured, and a warm-up by count and by time
	}
	if diff := cmp.Diff([]Pair{want}, c.Pairs(), cmp.AllowUnexported(probes.Optional[float64]{})); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	reloadsAsItself(t, c)
}

// reloadsAsItself loads what was printed, and expects the same to be printed.
func reloadsAsItself(t *testing.T, c *Config) {
	t.Helper()
	text := redacted(t, c)
	again, err := load(t, Source{}, text)
	if err != nil {
		t.Fatalf("load what was printed:\n%v\n%s", err, text)
	}
	if diff := cmp.Diff(text, redacted(t, again)); diff != "" {
		t.Errorf("printed again (-first +second):\n%s", diff)
	}
	if c.SHA256() != again.SHA256() {
		t.Errorf("got hash %s, then %s", c.SHA256(), again.SHA256())
	}
}

func TestArrivals(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		keys string
		want probes.Arrivals
	}{
		{"kind: load, num_prompts: 9, request_rate: 4", probes.Arrivals{Process: probes.Poisson, Rate: 4}},
		{"kind: load, num_prompts: 9, request_rate: 4, arrivals: constant", probes.Arrivals{Process: probes.Constant, Rate: 4}},
		{"kind: load, num_prompts: 9, request_rate: inf", probes.Arrivals{Process: probes.Burst, Rate: inf}},
		{"kind: load, num_prompts: 9, request_rate: .inf, max_concurrency: 4", probes.Arrivals{Process: probes.Burst, Rate: inf, MaxConcurrency: 4}},
		{"kind: load, num_prompts: 9, arrivals: burst", probes.Arrivals{Process: probes.Burst, Rate: inf}},
		{"kind: load, num_prompts: 9, max_concurrency: 4", probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4}},
		{"kind: load, num_prompts: 9, max_concurrency: 4, start_together: true", probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 4, StartTogether: true}},
		{"kind: load, num_prompts: 9, request_rate: 4, burstiness: 4", probes.Arrivals{Process: probes.Gamma, Rate: 4, CV: 0.5}},
		{"kind: load, num_prompts: 9, request_rate: 4, cv: 3", probes.Arrivals{Process: probes.Gamma, Rate: 4, CV: 3}},
		{"kind: canary", probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 1}},
		{"kind: canary, num_prompts: 5, request_rate: 2", probes.Arrivals{Process: probes.Poisson, Rate: 2}},
	} {
		if got := mustLoad(t, Source{}, probe1(tt.keys)).Pairs()[0].Spec.Arrivals; got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.keys, got, tt.want)
		}
	}
}

func TestAlertLimits(t *testing.T) {
	grades := func(info, warning float64) []probes.QueueLimit {
		var out []probes.QueueLimit
		if info > 0 {
			out = append(out, probes.QueueLimit{Severity: probes.Info, Bound: info})
		}
		return append(out, probes.QueueLimit{Severity: probes.Warning, Bound: warning})
	}
	for _, tt := range []struct {
		keys      string
		queue     []probes.QueueLimit
		threshold int
	}{
		{"kind: canary", grades(10, 50), 3},
		{"kind: load, num_prompts: 1, request_rate: 1", grades(10, 50), 2},
		{"kind: canary, queue_limits: 30, failure_threshold: 1", grades(0, 30), 1},
		{"kind: canary, queue_limits: {info: 3, warning: 3}", grades(3, 3), 3},
	} {
		spec := mustLoad(t, Source{}, probe1(tt.keys)).Probes()[0]
		if diff := cmp.Diff(tt.queue, spec.QueueLimits); diff != "" || spec.FailureThreshold != tt.threshold {
			t.Errorf("%s: failure threshold %d, want %d; queue limits (-want +got):\n%s", tt.keys, spec.FailureThreshold, tt.threshold, diff)
		}
	}
}

func TestStaleAfter(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want time.Duration
	}{
		{"kind: canary, every: 30s", 15 * time.Minute},
		{"kind: canary, every: 10m", 32 * time.Minute},
		{"kind: canary", 15 * time.Minute},
		{"kind: load, num_prompts: 1, request_rate: 1, every: 1m", time.Hour},
		{"kind: load, num_prompts: 1, request_rate: 1, every: 6h", 18*time.Hour + 30*time.Minute},
		{`kind: load, duration: 1h, request_rate: 1, schedule: "0 2 * * *"`, 73 * time.Hour},
		{`kind: load, duration: 1h, request_rate: 1, schedule: "0 2 * * 6"`, 21*24*time.Hour + time.Hour},
		{`kind: load, duration: 1h, request_rate: 1, schedule: "0 2 1 * *"`, 93*24*time.Hour + time.Hour},
	} {
		if got := mustLoad(t, Source{}, probe1(tt.keys)).Probes()[0].StaleAfter; got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.keys, got, tt.want)
		}
	}
}

// The degenerate settings of the file under load: its keys are those of another
// tool, and become ours.
func TestDegenerateLoad(t *testing.T) {
	text, err := os.ReadFile("testdata/degenerate-load.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Jobs []struct {
			Name string
			Load map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &in); err != nil || len(in.Jobs) != 6 {
		t.Fatalf("got %d jobs, %v", len(in.Jobs), err)
	}
	all := map[string]any{}
	for _, job := range in.Jobs {
		p := map[string]any{"kind": "load", "workload": "w", "num_prompts": 10}
		for key, v := range job.Load {
			p[map[string]string{"rate": "request_rate"}[key]+strings.TrimPrefix(key, "rate")] = v
		}
		all[job.Name] = p
	}
	src := func(p map[string]any) Source {
		return Source{Overrides: map[string]any{"workloads": map[string]any{"w": map[string]any{}}, "probes": p}}
	}
	_, err = load(t, src(all))
	want := `command line: probes.a.burstiness: must be above 0, got "0"
command line: probes.b.request_rate: must be above 0, got "-1"
command line: probes.c.request_rate: must be above 0, got "0"
command line: probes.d.max_concurrency: must be at least 1, got "0"
command line: probes.e.request_rate: must be a number, got ".nan"`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	c := mustLoad(t, src(map[string]any{"ok": all["ok"]}))
	if got, want := c.Probes()[0].Arrivals, (probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1), MaxConcurrency: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestIPv6(t *testing.T) {
	for written, want := range map[string]string{
		"http://[2001:db8::5]:8000/v1/": "http://[2001:db8::5]:8000/v1",
		"http://[2001:db8::5]:8000":     "http://[2001:db8::5]:8000",
	} {
		text := strings.Replace(probe1("kind: canary"), "http://h:8000/v1/", written, 1)
		if got := mustLoad(t, Source{}, text).Targets()[0].BaseURL; got != want {
			t.Errorf("%s: got %q, want %q", written, got, want)
		}
	}
}

// An overlay that names one entry of a list changes that entry alone, and an
// empty key never wipes what it stands over.
func TestOverlay(t *testing.T) {
	base, err := os.ReadFile("testdata/overlay-base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := os.ReadFile("testdata/overlay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// In our words: the load is a probe, and a time-out says of what.
	ours := strings.NewReplacer("load: {max_concurrency: 8, rate: 2}",
		"workloads: {w: {}}\nprobes:\n  load: {kind: load, workload: w, num_prompts: 5, max_concurrency: 8, request_rate: 2}",
		`"}`, `", environment: staging, backend: vllm, probes: [load]}`, "timeout: 5s", "timeouts: {total: 5s}", "load:\n", "probes:\n  load:\n")
	_, err = load(t, Source{}, ours.Replace(string(base)), ours.Replace(string(overlay)))
	if got, want := fmt.Sprint(err), "2.yaml:2: probes.load: is empty: write a value, or remove the key"; got != want {
		t.Errorf("empty key: got\n%s\nwant\n%s", got, want)
	}
	targetsOnly := strings.Replace(ours.Replace(string(overlay)), "probes:\n  load:\n", "", 1)
	c := mustLoad(t, Source{}, ours.Replace(string(base)), targetsOnly)
	var got []string
	for _, p := range c.Pairs() {
		got = append(got, fmt.Sprintf("%s %s %s %d %v", p.Target.Name, p.Target.BaseURL, p.Target.Timeouts.Total, p.Spec.Arrivals.MaxConcurrency, p.Spec.Arrivals.Rate))
	}
	want := []string{
		"a http://127.0.0.1:8001 30m0s 8 2",
		"b http://127.0.0.1:8002 5s 8 2",
		"c http://127.0.0.1:8003 30m0s 8 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
}

func TestOverlayMergesKeyByKey(t *testing.T) {
	c := mustLoad(t, Source{}, probe1(`kind: canary, limits: {ttft: {p99: {warning: 1s, critical: 2s}}},
    slos: [{name: a, objective: 99%}, {name: b, objective: 90%}]`),
		"probes: {p: {limits: {ttft: {p99: 1500ms}}, slos: [{name: b, objective: 95%}]}}\n")
	spec := c.Probes()[0]
	wantLimits := []probes.Limit{
		{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Warning, Bound: 1.5},
		{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Critical, Bound: 2},
	}
	if diff := cmp.Diff(wantLimits, spec.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if len(spec.SLOs) != 2 || spec.SLOs[0].Objective != 0.99 || spec.SLOs[1].Objective != 0.95 {
		t.Errorf("got slos %+v, want 0.99 and 0.95", spec.SLOs)
	}
	// A problem is reported where the value was written last.
	_, err := load(t, Source{}, probe1("kind: canary"), "\nprobes: {p: {workload: v}}\n")
	if got, want := fmt.Sprint(err), `2.yaml:2: probes.p.workload: there is no workload "v", did you mean "w"?`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Keys with underscores, a duration without a unit, and a misspelt variable.
func TestUnderscores(t *testing.T) {
	env, err := os.ReadFile("testdata/underscores.env")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/underscores.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// In our words: the load is a probe of that name.
	vars := strings.Split(strings.TrimSpace(strings.NewReplacer("_LOAD_", "_PROBES_LOAD_", "_LAOD__RATE", "_PROBES__LAOD__REQUEST_RATE").Replace(string(env))), "\n")
	ours := strings.NewReplacer("timeout: 30", "workloads: {w: {}}\nprobes: {load: {kind: load, workload: w, num_prompts: 5, timeouts: {total: 30}, max_concurrency: 8}}\n#",
		"load: {max_concurrency: 8}", "").Replace(string(file))
	_, err = load(t, Source{Env: vars}, ours)
	want := `1.yaml:2: probes.load.timeouts.total: needs a unit, e.g. 30s, got "30"
environment variable INFERBEAT_PROBES__LAOD__REQUEST_RATE: unknown name, did you mean "INFERBEAT_PROBES__LOAD__REQUEST_RATE"?`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	c := mustLoad(t, Source{Env: vars[:1]}, strings.Replace(ours, "total: 30", "total: 30s", 1))
	if got := c.Probes()[0].Arrivals.MaxConcurrency; got != 64 {
		t.Errorf("max_concurrency: got %d, want 64 from the environment", got)
	}
}

func TestEnvironmentVariables(t *testing.T) {
	text := probe1("kind: canary") + "web: {listen_address: \"127.0.0.1:1\"}\n"
	c := mustLoad(t, Source{Env: []string{
		"PATH=/bin", "INFERBEAT_CONFIG=x.yaml",
		"INFERBEAT_WEB__LISTEN_ADDRESS=127.0.0.1:2", "INFERBEAT_PAUSE=true", "INFERBEAT_TARGETS__T__API_KEY=70",
		"INFERBEAT_TARGETS__T__TIMEOUTS__TOTAL=7s", "INFERBEAT_ENVIRONMENTS__DEVELOPMENT__KINDS=[canary]",
		"INFERBEAT_PROBES__P__LIMITS__TTFT__P99=1s", "INFERBEAT_PROBES__P__WARMUP=2s",
		// What Kubernetes sets in every pod beside Services called inferbeat and inferbeat-staging.
		"INFERBEAT_SERVICE_HOST=10.0.0.1", "INFERBEAT_SERVICE_PORT=9799", "INFERBEAT_SERVICE_PORT_HTTP=9799", "INFERBEAT_PORT=tcp://10.0.0.1:9799",
		"INFERBEAT_PORT_9799_TCP=tcp://10.0.0.1:9799", "INFERBEAT_PORT_9799_TCP_PROTO=tcp", "INFERBEAT_STAGING_SERVICE_HOST=10.0.0.2",
	}}, text, "environments: {development: {kinds: [load]}}\n")
	p := c.Pairs()[0]
	if got := c.Web.ListenAddress; got != "127.0.0.1:2" {
		t.Errorf("listen address: got %s, want 127.0.0.1:2", got)
	}
	if got := p.Target.Connection.APIKey.Reveal(); !c.Pause || got != "70" || p.Target.Timeouts.Total != 7*time.Second {
		t.Errorf("got pause %v, key %q, total %s, want true, 70, 7s", c.Pause, got, p.Target.Timeouts.Total)
	}
	if len(p.Spec.Limits) != 1 || p.Spec.Limits[0].Bound != 1 || p.Spec.Warmup.Duration != 2*time.Second {
		t.Errorf("got limits %+v, warm-up %+v, want p99 of 1 s, 2s", p.Spec.Limits, p.Spec.Warmup)
	}

	_, err := load(t, Source{Env: []string{
		"INFERBEAT_WEB__LISTEN_ADRESS=SECRET", "INFERBEAT_SHUTDOWN_GRACE=30", "INFERBEAT_LOG__LEVEL=",
		"INFERBEAT_TARGETS__A_B__MODEL=m", "INFERBEAT_NONSENSE_OF_ALL_SORTS=SECRET",
	}}, "targets: [{name: a-b, backend: vllm, url: \"http://a\", probes: []}, {name: a.b, backend: vllm, url: \"http://b\", probes: []}]\n")
	want := `environment variable INFERBEAT_LOG__LEVEL: log.level: must be one of debug, info, warn, error, got ""
environment variable INFERBEAT_NONSENSE_OF_ALL_SORTS: unknown name
environment variable INFERBEAT_SHUTDOWN_GRACE: shutdown_grace: needs a unit, e.g. 30s, got "30"
environment variable INFERBEAT_TARGETS__A_B__MODEL: may mean targets.a-b.model or targets.a.b.model: set it in a file
environment variable INFERBEAT_WEB__LISTEN_ADRESS: unknown name, did you mean "INFERBEAT_WEB__LISTEN_ADDRESS"?`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestOverrides(t *testing.T) {
	text := strings.ReplaceAll(probe1("kind: canary"), "name: t,", "name: t.1,")
	c := mustLoad(t, Source{Env: []string{"INFERBEAT_TARGETS__T_1__MODEL=env"}, Overrides: map[string]any{
		"targets.t.1.model": "flag", "targets.u": map[string]any{"backend": "vllm", "url": "http://u", "probes": []string{"p"}, "environment": "staging"},
		"shutdown_grace": 5 * time.Second, "probes.p.request_rate": math.Inf(1), "probes.p.num_prompts": 3, "results.path": "out.jsonl",
	}}, text)
	got := []string{c.Pairs()[0].Target.Model, c.Pairs()[1].Target.Name, c.ShutdownGrace.String(), string(c.Pairs()[0].Spec.Arrivals.Process), filepath.Base(c.Results.Path)}
	if diff := cmp.Diff([]string{"flag", "u", "5s", "burst", "out.jsonl"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err := load(t, Source{Overrides: map[string]any{"targets.t.1.modle": "x", "shutdown_grace": 5, "probes": nil}}, text)
	want := "command line: probes: is empty: write a value, or remove the key\n" +
		`command line: shutdown_grace: needs a unit, e.g. 30s, got "5"` + "\n" +
		`command line: targets[t.1].modle: unknown key, did you mean "model"?`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// None of the secrets of the file may be seen anywhere, wherever they stand.
func TestSecretsAreNeverShown(t *testing.T) {
	file, err := os.ReadFile("testdata/secrets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"URLSECRET-7f", "QUERYSECRET-7f", "KEYSECRET-7f", "HDRSECRET-7f", "TEAMSECRET-7f"}
	hidden := func(what, text string) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s shows %s:\n%s", what, s, text)
			}
		}
	}
	_, err = load(t, Source{}, string(file))
	want := `1.yaml:2: targets[gw]: needs backend
1.yaml:2: targets[gw]: needs probes
1.yaml:3: targets[gw].url: must not hold a user, a password, a query or a fragment: send credentials with api_key_file or headers
1.yaml:5: targets[gw].headers.Authorization: must not be written beside api_key or api_key_file, which set it`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	hidden("error", fmt.Sprintf("%v %#v", err, err))

	text := strings.NewReplacer("bench:URLSECRET-7f@", "", "?key=QUERYSECRET-7f", "", "Authorization", "X-Auth").Replace(string(file)) +
		"    backend: vllm\n    probes: []\n"
	c := mustLoad(t, Source{}, text)
	hidden("dump", redacted(t, c))
	hidden("targets", fmt.Sprintf("%v %+v %#v", c.Targets(), c.Targets(), c.Targets()))
	asJSON, err := json.Marshal(c.Targets())
	if err != nil {
		t.Fatal(err)
	}
	hidden("json", string(asJSON))
	got := c.Targets()[0].Connection
	if got.APIKey.Reveal() != "sk-KEYSECRET-7f" || got.Headers["X-Auth"].Reveal() != "Bearer HDRSECRET-7f" || got.Headers["X-Route"].Reveal() != "blue" {
		t.Error("the secrets are not what the file holds")
	}
	reloadsAsItself(t, c)

	// Broken in every place: still nothing is shown.
	for at := 0; at < len(file); at += 2 {
		for _, with := range []string{"", "{", "\"", "*", "&a ", ": ", "\n", "!x ", "%", "\x00", "- "} {
			_, err := Load(Source{Files: []string{write(t, string(file)[:at]+with+string(file)[at:])}}, stages)
			hidden(fmt.Sprintf("error with %q at %d", with, at), fmt.Sprint(err))
		}
	}
}

// write expects the test to be in a folder of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	if err := os.WriteFile("broken.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "broken.yaml"
}

func TestKeysRotate(t *testing.T) {
	t.Chdir(t.TempDir())
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("key", "one\n")
	put("c.yaml", `targets: [{name: t, backend: vllm, url: "http://h", api_key_file: key, probes: []}]`)
	c, err := Load(Source{Files: []string{"c.yaml"}}, stages)
	if err != nil {
		t.Fatal(err)
	}
	target := c.Targets()[0]
	if got := target.Connection.APIKey.Reveal(); got != "one" {
		t.Errorf("got %q, want one", got)
	}
	put("key", "two\n")
	read, err := ResolveSecrets(target)
	if got := read.Connection.APIKey.Reveal(); got != "two" || err != nil {
		t.Errorf("got %q, %v, want two", got, err)
	}
	if got := target.Connection.APIKey.Reveal(); got != "one" {
		t.Errorf("the target itself was changed to %q", got)
	}
	if err := os.Remove("key"); err != nil {
		t.Fatal(err)
	}
	if _, err := ResolveSecrets(target); err == nil || err.Error() != "read key of target t: cannot be read: no such file or directory" {
		t.Errorf("got %v", err)
	}
	if again, err := ResolveSecrets(probes.Target{Name: "u"}); err != nil || again.Connection.APIKey != "" {
		t.Errorf("without a file: got %v, %v", again, err)
	}
}

// A Kubernetes ConfigMap changes by retargeting a link beside the file.
func TestFingerprintSeesConfigMapSwap(t *testing.T) {
	t.Chdir(t.TempDir())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	version := func(n int) {
		must(os.Mkdir(fmt.Sprintf("..v%d", n), 0o700))
		must(os.WriteFile(fmt.Sprintf("..v%d/inferbeat.yaml", n), fmt.Appendf(nil, "shutdown_grace: %ds\n", n), 0o600))
		must(os.Symlink(fmt.Sprintf("..v%d", n), "..new"))
		must(os.Rename("..new", "..data"))
	}
	files := []string{"inferbeat.yaml"}
	version(1)
	must(os.Symlink("..data/inferbeat.yaml", "inferbeat.yaml"))
	seen := map[string]int{}
	for n := 1; n <= 3; n++ {
		if n > 1 {
			version(n)
		}
		seen[Fingerprint(files)] = n
		if again := Fingerprint(files); seen[again] != n {
			t.Error("fingerprints of one content differ")
		}
		c, err := Load(Source{Files: files}, Checks{})
		must(err)
		if got, want := c.ShutdownGrace, time.Duration(n)*time.Second; got != want {
			t.Errorf("version %d: got grace %s, want %s", n, got, want)
		}
	}
	must(os.Remove("..data"))
	seen[Fingerprint(files)] = 4
	if len(seen) != 4 {
		t.Errorf("got %d different fingerprints of three versions and none, want 4", len(seen))
	}
}

func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want probes.Timeouts
	}{
		{"kind: canary", probes.Timeouts{Connect: 5 * time.Second, FirstToken: 30 * time.Second, Idle: time.Minute, Total: 2 * time.Minute}},
		{"kind: canary, timeouts: {connect: 1s, first_token: 2s, idle: 1s, total: 0}", probes.Timeouts{Connect: time.Second, FirstToken: 2 * time.Second, Idle: time.Second}},
		{"kind: load, num_prompts: 1, request_rate: 1, timeouts: {total: 3s}", probes.Timeouts{Connect: 10 * time.Second, FirstToken: 5 * time.Minute, Idle: 6 * time.Minute, Total: 3 * time.Second}},
	} {
		c := mustLoad(t, Source{}, probe1(tt.keys))
		if got := c.Pairs()[0].Target.Timeouts; got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.keys, got, tt.want)
		}
		reloadsAsItself(t, c)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	c := mustLoad(t, Source{}, `
workloads: {w: {}}
probes: {p: {kind: canary, workload: w}}
targets:
  - &one {name: a, backend: vllm, url: "http://a", probes: &list [p]}
  - {<<: *one, name: b, url: "http://b"}
  - {<<: [*one], name: c, probes: *list, labels: {gpu: &gpu h100, gpu2: *gpu}}
`)
	var got []string
	for _, p := range c.Pairs() {
		got = append(got, p.Target.Name+" "+p.Target.BaseURL+" "+p.Target.Labels["gpu2"])
	}
	if diff := cmp.Diff([]string{"a http://a ", "b http://b ", "c http://a h100"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDurationRoundTrip(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "300ms": 300 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1h30m": 90 * time.Minute,
		"7d": 168 * time.Hour, "2w": 336 * time.Hour, "10us": 10 * time.Microsecond, "10µs": 10 * time.Microsecond, "-1s": -time.Second,
	} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(-int64(90*366*day), int64(90*366*day)).Draw(t, "d"))
		if got, err := parseDuration(formatDuration(d)); got != d || err != nil {
			t.Fatalf("%s: got %s, %v", formatDuration(d), got, err)
		}
	})
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"laod", "load", 1}, {"kitten", "sitting", 3}, {"listen_adress", "listen_address", 1}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	text, err := os.ReadFile("REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(Reference())); diff != "" {
		t.Errorf("run go generate ./daemon/config (-file +types):\n%s", diff)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := load(t, Source{Files: []string{"none.yaml"}}, "targets: [{name: t, backend: vllm, url: \"http://h\", probes: [defined-elsewhere]}]\n")
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v, want Problems", err)
	}
	// What the missing file may define is not reported as undefined.
	if diff := cmp.Diff(Problems{{File: "none.yaml", Message: "read file: no such file or directory"}}, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The fleet that one daemon is made for; a reload must not be felt.
func BenchmarkLoad500Targets(b *testing.B) {
	var text strings.Builder
	text.WriteString("workloads: {w: {}}\nprobes:\n")
	for i := range 6 {
		fmt.Fprintf(&text, "  p%d: {kind: canary, every: 1h, workload: w}\n", i)
	}
	text.WriteString("targets:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "  - {name: t%d, environment: staging, backend: vllm, url: \"http://h%d\", labels: {gpu: h100}, probes: [p0, p1, p2, p3, p4, p5]}\n", i, i)
	}
	file := filepath.Join(b.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := Load(Source{Files: []string{file}, Env: []string{"INFERBEAT_PAUSE=true"}}, stages)
		if err != nil || len(c.Pairs()) != 3000 {
			b.Fatalf("got %v, want 3000 pairs", err)
		}
	}
}

// Whatever the bytes, loading ends without a panic, and what it accepts can be
// printed and loaded again.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/bad/*.yaml", "../../deploy/examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("found no %s, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text, "WEB__LISTEN_ADDRESS", "127.0.0.1:1")
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, name, value string) {
		file := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Source{Files: []string{file}, Env: []string{"INFERBEAT_" + name + "=" + value, "LLM_API_KEY=k"}}, stages)
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %T %v, want Problems", err, err)
			}
			return
		}
		printed := redacted(t, c)
		if err := os.WriteFile(file, []byte(printed), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Load(Source{Files: []string{file}}, stages)
		if err != nil {
			t.Fatalf("load what was printed:\n%v\n%s", err, printed)
		}
		if diff := cmp.Diff(printed, redacted(t, again)); diff != "" {
			t.Fatalf("printed again (-first +second):\n%s", diff)
		}
	})
}

// The form of a unix socket's URL is the backend's business; its mistakes stand
// where the URL stands and never repeat it.
func TestUnixSocketURL(t *testing.T) {
	t.Chdir(t.TempDir())
	file := write(t, `
workloads: {w: {dataset: random, input_tokens: 8, output_tokens: 8}}
probes: {c: {kind: canary, every: 30s, workload: w}}
targets:
  - {name: a, backend: vllm, url: "unix:///run/vllm.sock", probes: [c]}
`)
	read := func(text string) (string, error) {
		if text != "unix:///run/vllm.sock" {
			return "", errors.New("is not the socket")
		}
		return "unix:///run/vllm.sock:/v1", nil
	}
	c, err := Load(Source{Files: []string{file}}, Checks{UnixURL: read})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Targets()[0].BaseURL; got != "unix:///run/vllm.sock:/v1" {
		t.Errorf("BaseURL = %q, want what the check made of it", got)
	}
	if _, err := Load(Source{Files: []string{file}}, Checks{}); err == nil || !strings.Contains(err.Error(), "targets[a].url: must start with http:// or https://") {
		t.Errorf("without the check: %v, want the URL refused", err)
	}
}

// TestTokenizer: a file's path is relative to the configuration, words are not paths.
func TestTokenizer(t *testing.T) {
	t.Chdir(t.TempDir())
	for value, want := range map[string]string{
		"server": "server", "approx": "approx", "tiktoken:o200k_base": "tiktoken:o200k_base",
		"/models/qwen": "/models/qwen", "qwen/tokenizer.json": "DIR/qwen/tokenizer.json",
	} {
		file := write(t, fmt.Sprintf(`
workloads: {w: {dataset: random, input_tokens: 8, output_tokens: 8, tokenizer: %q, apply_chat_template: true}}
probes: {c: {kind: canary, every: 30s, workload: w}}
targets:
  - {name: a, backend: vllm, url: "http://a", probes: [c]}
`, value))
		chat := func(backend string) bool { return backend == "vllm-chat" }
		c, err := Load(Source{Files: []string{file}}, Checks{AcceptsMessages: chat})
		if err != nil {
			t.Fatal(err)
		}
		w := c.Pairs()[0].Spec.Workload
		dir, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		if want = strings.Replace(want, "DIR", dir, 1); w.Tokenizer != want || !w.ApplyChatTemplate {
			t.Errorf("tokenizer %s: %q, apply_chat_template %t; want %q, true", value, w.Tokenizer, w.ApplyChatTemplate, want)
		}
		_, err = Load(Source{Files: []string{file}, Overrides: map[string]any{"targets.a.backend": "vllm-chat"}}, Checks{AcceptsMessages: chat})
		if err == nil || !strings.Contains(err.Error(), "targets[a].probes: probe c: backend vllm-chat applies the chat template itself") {
			t.Errorf("tokenizer %s on a chat backend: %v", value, err)
		}
	}
}

// One adapter is everybody's and may stand without brackets; several are chosen among.
func TestAdapters(t *testing.T) {
	for _, tt := range []struct {
		keys string
		one  string
		want probes.Adapters
	}{
		{"lora: sql", "sql", probes.Adapters{}},
		{"lora: [sql]", "sql", probes.Adapters{}},
		{"seed: 1", "", probes.Adapters{}},
		{"lora: [sql, chat]", "", probes.Adapters{Names: []string{"sql", "chat"}, Choice: probes.AdaptersUniform}},
		{"lora: [sql, chat], lora_request_distribution: distinct", "", probes.Adapters{Names: []string{"sql", "chat"}, Choice: probes.AdaptersDistinct}},
		{"lora: [sql, chat], lora_request_distribution: skewed", "", probes.Adapters{Names: []string{"sql", "chat"}, Choice: probes.AdaptersSkewed, Alpha: 1.5}},
	} {
		text := strings.Replace(kindsConfig, "w: {}", "w: {"+tt.keys+"}", 1)
		c, err := load(t, Source{}, text)
		if err != nil {
			t.Errorf("%s: %v", tt.keys, err)
			continue
		}
		printed, err := c.Redacted()
		if err != nil {
			t.Fatal(err)
		}
		again, err := load(t, Source{}, string(printed))
		if err != nil {
			t.Fatalf("%s: the printed configuration does not load: %v", tt.keys, err)
		}
		for _, c := range []*Config{c, again} {
			w := c.Probes()[0].Workload
			if d := cmp.Diff(tt.want, w.Adapters); d != "" || w.Sampling.LoRA != tt.one {
				t.Errorf("%s: one %q, want %q; several (-want +got):\n%s", tt.keys, w.Sampling.LoRA, tt.one, d)
			}
		}
	}
}

func TestMetricsURL(t *testing.T) {
	for _, tt := range []struct{ base, text, want, problem string }{
		{"http://h:8000/v1", ":8002", "http://h:8002/metrics", ""},
		{"http://h:8000", ":9000/", "http://h:9000/metrics", ""},
		{"https://h", ":8443/prometheus/metrics", "https://h:8443/prometheus/metrics", ""},
		{"http://[::1]:8000", ":8002/metrics", "http://[::1]:8002/metrics", ""},
		{"http://[fe80::1%25eth0]:8000", ":8002", "http://[fe80::1%25eth0]:8002/metrics", ""},
		{"http://h:8000", "http://other:8002", "http://other:8002/metrics", ""},
		{"unix:///run/s.sock", "http://127.0.0.1:8002/m/", "http://127.0.0.1:8002/m", ""},
		{"unix:///run/s.sock", ":8002", "", "names a port of a host that url does not have: write a whole URL"},
		{"http://h", ":800200", "", "needs a port from 1 to 65535 after the colon"},
		{"http://h", ":", "", "needs a port from 1 to 65535 after the colon"},
		{"http://h", ":8002/m?token=SECRET", "", "must not hold a user, a password, a query or a fragment: send credentials with api_key_file or headers"},
		{"http://h", "http://u:SECRET@h:8002", "", "must not hold a user, a password, a query or a fragment: send credentials with api_key_file or headers"},
		{"http://h", "/metrics", "", "must start with http:// or https://"},
	} {
		got, err := MetricsURL(tt.base, tt.text)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if got != tt.want || problem != tt.problem {
			t.Errorf("MetricsURL(%q, %q) = %q, %q; want %q, %q", tt.base, tt.text, got, problem, tt.want, tt.problem)
		}
	}
}
