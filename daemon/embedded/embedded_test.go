package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const testRules = `groups:
- name: test
  rules:
  - record: test:level:double
    expr: 2 * test_level
  - alert: TestLevelHigh
    expr: test_level > 1
    labels: {severity: critical}
    annotations: {summary: "level {{ $value }}"}
`

// page is a /metrics whose level a test sets.
func page() (http.Handler, prometheus.Gauge, prometheus.Histogram) {
	registry := prometheus.NewRegistry()
	level := prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_level", Help: "Level."})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "test_seconds", Help: "Time.", Buckets: []float64{1}, NativeHistogramBucketFactor: 1.1})
	registry.MustRegister(level, took)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), level, took
}

func testOptions(t *testing.T, metrics http.Handler) Options {
	return Options{
		Dir: filepath.Join(t.TempDir(), "tsdb"), Retention: time.Hour,
		ScrapeInterval: 100 * time.Millisecond, EvaluationInterval: 100 * time.Millisecond,
		Metrics: metrics, Instance: "127.0.0.1:9799", Rules: []byte(testRules),
		ExternalURL: &url.URL{Scheme: "http", Host: "inferbeat.example"},
		Log:         slog.New(slog.DiscardHandler),
	}
}

// start runs one until the test or stop ends it.
func start(t *testing.T, o Options) (p *Prometheus, stop func()) {
	t.Helper()
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return p, stop
}

// ask is the data of an answer of the API.
func ask(t *testing.T, h http.Handler, method, target string) string {
	t.Helper()
	path, query, _ := strings.Cut(target, "?")
	request := httptest.NewRequest(method, path+"?"+query, nil)
	if method == http.MethodPost {
		request = httptest.NewRequest(method, path, strings.NewReader(query))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return fmt.Sprintf("%d %s", recorder.Code, recorder.Body.String())
}

// eventually asks until the answer holds want.
func eventually(t *testing.T, what string, get func() string, want string) {
	t.Helper()
	var got string
	for by := time.Now().Add(30 * time.Second); time.Now().Before(by); time.Sleep(20 * time.Millisecond) {
		if got = get(); strings.Contains(got, want) {
			return
		}
	}
	t.Fatalf("%s: last seen %q, want it to hold %q", what, got, want)
}

func value(query string) string { return "/api/v1/query?query=" + url.QueryEscape(query) }

func TestFromThePageToTheAlertmanager(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var posted []string // alert names with their state
	manager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var alerts []struct {
			Labels       map[string]string
			EndsAt       time.Time
			GeneratorURL string
		}
		_ = json.NewDecoder(r.Body).Decode(&alerts)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range alerts {
			state := "firing"
			if !a.EndsAt.After(time.Now()) {
				state = "resolved"
			}
			posted = append(posted, fmt.Sprintf("%s %s %s %s by %s", r.URL.Path, a.Labels["alertname"], state, a.GeneratorURL, r.Header.Get("Authorization")))
		}
	}))
	defer manager.Close()
	told := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(posted, "\n")
	}

	metrics, level, took := page()
	o := testOptions(t, metrics)
	o.Alertmanagers = []Destination{{Name: "main", URL: manager.URL + "/am", BearerToken: "TOKEN"}}
	p, stop := start(t, o)
	get := func(target string) func() string {
		return func() string { return ask(t, p.Handler(), http.MethodGet, target) }
	}

	level.Set(3)
	for range 10 {
		took.Observe(0.5)
	}
	eventually(t, "up", get(value(`up{job="inferbeat",instance="127.0.0.1:9799"}`)), `"1"]`)
	eventually(t, "a recording rule", get(value("test:level:double")), `"6"]`)
	eventually(t, "a native histogram", get(value("histogram_count(test_seconds)")), `"10"]`)
	if got := ask(t, p.Handler(), http.MethodGet, value("test_seconds_bucket")); !strings.Contains(got, `"result":[]`) {
		t.Errorf("classic buckets are stored beside native ones: %s", got)
	}
	eventually(t, "the alert", func() string { return fmt.Sprint(p.Alerts()) }, "TestLevelHigh true")
	if a := p.Alerts()[0]; a.Value != 3 || a.Labels["severity"] != "critical" || a.Annotations["summary"] != "level 3" || a.Labels["alertname"] != "" {
		t.Errorf("alert %+v, want value 3, its severity and its summary", a)
	}
	eventually(t, "the Alertmanager", told, "/am/api/v2/alerts TestLevelHigh firing http://inferbeat.example/#TestLevelHigh by Bearer TOKEN")

	for target, want := range map[string]string{
		value("test_level"): `"resultType":"vector"`,
		"/api/v1/query_range?query=test_level&start=" + fmt.Sprint(time.Now().Unix()-5) + "&end=" + fmt.Sprint(time.Now().Unix()) + "&step=1": `"resultType":"matrix"`,
		"/api/v1/series?match[]=test_level":  `"__name__":"test_level"`,
		"/api/v1/labels":                     `"alertname"`,
		"/api/v1/label/__name__/values":      `"test_level"`,
		"/api/v1/metadata?metric=test_level": `"help":"Level."`,
		"/api/v1/rules":                      `"TestLevelHigh"`,
		"/api/v1/alerts":                     `"state":"firing"`,
		"/api/v1/status/buildinfo":           `"version"`,
		value("sum("):                        `"errorType":"bad_data"`,
	} {
		eventually(t, "GET "+target, get(target), want)
	}
	if got := ask(t, p.Handler(), http.MethodPost, value("test_level")); !strings.Contains(got, `"3"]`) {
		t.Errorf("POST of a query = %s, want 3", got)
	}
	for _, closed := range []string{
		"POST /api/v1/admin/tsdb/delete_series", "PUT /api/v1/admin/tsdb/snapshot", "POST /api/v1/write", "POST /api/v1/read",
		"POST /api/v1/otlp/v1/metrics", "GET /api/v1/status/config", "GET /api/v1/status/flags", "GET /api/v1/targets",
	} {
		method, path, _ := strings.Cut(closed, " ")
		if got := ask(t, p.Handler(), method, path); !strings.HasPrefix(got, "404") && !strings.HasPrefix(got, "405") {
			t.Errorf("%s = %s, want it closed", closed, got)
		}
	}

	health := prometheus.NewPedanticRegistry()
	health.MustRegister(p.Collector())
	eventually(t, "the alert is counted as sent", func() string { // after the Alertmanager has answered
		families, err := health.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "prometheus_notifications_sent_total" {
				return fmt.Sprint(family.GetMetric()[0].GetCounter().GetValue() >= 1)
			}
		}
		return "no such metric"
	}, "true")

	level.Set(0)
	eventually(t, "the end of the alert", told, "TestLevelHigh resolved")
	if alerts := p.Alerts(); len(alerts) != 0 {
		t.Errorf("alerts after the end: %+v, want none", alerts)
	}
	stop()

	// What was stored is there after a restart, and the folder is free again.
	again, _ := start(t, o)
	if got := ask(t, again.Handler(), http.MethodGet, value(`max_over_time(test_level[1h])`)); !strings.Contains(got, `"3"]`) {
		t.Errorf("after a restart the highest level is %s, want 3", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"a file in place of the folder": {func(o *Options) { o.Dir = file }, file},
		"broken rules":                  {func(o *Options) { o.Rules = []byte("groups: [{name: x, rules: [{alert: A, expr: 'sum('}]}]") }, "error loading rules"},
		"no host": {func(o *Options) {
			o.Alertmanagers = []Destination{{Name: "main", URL: "http:///SECRET"}}
		}, `alertmanager "main": its URL is none of the form`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics, _, _ := page()
			o := testOptions(t, metrics)
			test.change(&o)
			p, err := Open(o)
			if err == nil {
				t.Fatal("opened", p)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %q, want it to hold %q and no secret", err, test.want)
			}
		})
	}
}

// What a kill may leave behind is repaired; what is damaged otherwise stops the start
// and says what to do, because the folder may be all that tells what happened.
func TestFolderThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	metrics, level, _ := page()
	level.Set(1)
	o := testOptions(t, metrics)
	p, stop := start(t, o)
	eventually(t, "a sample", func() string { return ask(t, p.Handler(), http.MethodGet, value("test_level")) }, `"1"]`)
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "another process has this folder") {
		t.Errorf("opened a second time: error %v, want it to say who has the folder", err)
	}
	stop()

	segments, err := filepath.Glob(filepath.Join(o.Dir, "wal", "0*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments of the log: %v, %v", segments, err)
	}
	log, err := os.OpenFile(segments[len(segments)-1], os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString("cut off in the mid"); err != nil {
		t.Fatal(err)
	}
	_ = log.Close()
	again, stop := start(t, o)
	if got := ask(t, again.Handler(), http.MethodGet, value("max_over_time(test_level[1h])")); !strings.Contains(got, `"1"]`) {
		t.Errorf("after a log that was cut off the level is %s, want 1", got)
	}
	stop()

	if err := os.WriteFile(filepath.Join(o.Dir, "chunks_head", "000009"), []byte("no chunks, but long enough"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), o.Dir) || !strings.Contains(err.Error(), "move the folder away") {
		t.Errorf("opened damaged chunks: error %v, want the folder and what to do", err)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	metrics, _, _ := page()
	o := testOptions(t, metrics)
	o.MaxSize, o.Retention = 123_000_000, 3*24*time.Hour
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "prometheus_tsdb_retention_limit_") {
			got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if got["prometheus_tsdb_retention_limit_bytes"] != 123e6 || got["prometheus_tsdb_retention_limit_seconds"] != 3*86400 {
		t.Errorf("bounds of the database %v, want 123 MB and three days", got)
	}
	for processors, want := range map[int]int{1: 1, 2: 1, 4: 2, 64: 4} {
		if got := places(processors); got != want {
			t.Errorf("%d processors run %d queries at once, want %d", processors, got, want)
		}
	}
}

// The path of an Alertmanager may be what keeps strangers out. It is in what is sent,
// and in nothing that is shown.
func TestAlertmanagerPathIsNotShown(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked[r.URL.Path]++; asked[r.URL.Path] == 1 {
			panic(http.ErrAbortHandler) // so that the client reports an error
		}
	}))
	defer manager.Close()
	metrics, level, _ := page()
	level.Set(3)
	o := testOptions(t, metrics)
	o.Alertmanagers = []Destination{{Name: "main", URL: manager.URL + "/SECRET/one/"}, {Name: "other", URL: manager.URL}}
	var log strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&locked{mu: &mu, to: &log}, nil))
	p, stop := start(t, o)
	eventually(t, "both", func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(asked)
	}, "map[/SECRET/one/api/v2/alerts:1 /api/v2/alerts:1]")
	eventually(t, "the failure", func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}, "/main/api/v2/alerts")
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprint(families); strings.Contains(shown, "SECRET") || !strings.Contains(shown, "/main/api/v2/alerts") {
		t.Error("the metrics tell the path of an Alertmanager, or not its name")
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "SECRET") {
		t.Errorf("the log tells the path of an Alertmanager:\n%s", log.String())
	}
}

// locked is a writer for several goroutines.
type locked struct {
	mu *sync.Mutex
	to *strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func TestGateWaits(t *testing.T) {
	g := newGate(1)
	if _, err := g.Insert(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Insert(ctx, ""); err == nil {
		t.Error("a second query went through a gate of one")
	}
	g.Delete(0)
	if _, err := g.Insert(t.Context(), ""); err != nil {
		t.Errorf("after the first has left: %v", err)
	}
}

func TestListenerEnds(t *testing.T) {
	l := newPipeListener()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("accepted a connection after the end")
	}
	if _, err := l.dial(t.Context()); err == nil {
		t.Error("dialed after the end")
	}
}
