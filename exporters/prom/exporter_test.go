package prom

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

var epoch = time.Unix(1_800_000_000, 0).UTC()

// stage is an exporter with a scripted daemon around it.
type stage struct {
	*Exporter
	t        *testing.T
	now      time.Time
	statuses []probes.PairStatus
	compared []probes.ComparisonStatus
	daemon   DaemonState
}

func newStage(t *testing.T, change func(*Options), statuses ...probes.PairStatus) *stage {
	t.Helper()
	s := &stage{t: t, now: epoch, statuses: statuses}
	o := Options{
		Snapshot:    func() []probes.PairStatus { return s.statuses },
		Comparisons: func() []probes.ComparisonStatus { return s.compared },
		Daemon:      func() DaemonState { return s.daemon },
		Good:        goodForTest,
		Now:         func() time.Time { return s.now },
		Build:       Build{"1.2.3", "abc", "go1.26"},
	}
	if change != nil {
		change(&o)
	}
	var err error
	if s.Exporter, err = New(o); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPairs(statuses); err != nil {
		t.Fatal(err)
	}
	return s
}

// goodForTest judges by TTFT alone.
func goodForTest(r *probes.Record, slo *probes.SLO) (good, counts bool) {
	if r.Outcome != probes.OK && !r.Outcome.Failed() {
		return false, false
	}
	ttft, ok := r.TTFT().Get()
	return r.Outcome == probes.OK && ok && ttft <= slo.Bounds[probes.TTFT], true
}

// page scrapes and returns the value of every series as text would show it,
// histograms as _count and _sum, keyed as name{label="value",…} with the labels
// of identity left out when there is one pair.
func (s *stage) page() map[string]float64 {
	s.t.Helper()
	families, err := s.Gather()
	if err != nil {
		s.t.Fatalf("Gather: %v", err)
	}
	out := map[string]float64{}
	add := func(key string, v float64) {
		if _, twice := out[key]; twice {
			s.t.Errorf("series %s is there twice", key)
		}
		out[key] = v
	}
	for _, f := range families {
		for _, m := range f.Metric {
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				add(f.GetName()+"_count"+labelText(m), float64(m.Histogram.GetSampleCount()))
				add(f.GetName()+"_sum"+labelText(m), m.Histogram.GetSampleSum())
			case dto.MetricType_COUNTER:
				add(f.GetName()+labelText(m), m.Counter.GetValue())
			default:
				add(f.GetName()+labelText(m), m.Gauge.GetValue())
			}
		}
	}
	return out
}

func labelText(m *dto.Metric) string {
	var b strings.Builder
	for i, l := range m.Label {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", l.GetName(), l.GetValue())
	}
	if b.Len() == 0 {
		return ""
	}
	return "{" + b.String() + "}"
}

// of builds the key of a series of the pair "canary on a"; extra is name, value, …
func of(name string, extra ...string) string {
	return ofPair(name, canaryOnA, extra...)
}

func ofPair(name string, p probes.Pair, extra ...string) string {
	m := &dto.Metric{Label: pairLabels(p)}
	for i := 0; i < len(extra); i += 2 {
		m.Label = append(m.Label, label(extra[i], extra[i+1]))
	}
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return name + labelText(m)
}

func (s *stage) wantSeries(page map[string]float64, want map[string]float64) {
	s.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got, ok := page[key]; !ok || got != want[key] {
			s.t.Errorf("%s = %v, there: %v; want %v", key, got, ok, want[key])
		}
	}
}

func (s *stage) wantNone(page map[string]float64, names ...string) {
	s.t.Helper()
	for key, v := range page {
		for _, name := range names {
			if key == name || strings.HasPrefix(key, name+"{") {
				s.t.Errorf("%s = %v, want no such series", key, v)
			}
		}
	}
}

func (s *stage) export(e probes.Event) {
	s.t.Helper()
	if e.Pair == (probes.Pair{}) {
		e.Pair = canaryOnA
	}
	e.At = s.now
	if err := s.Export(s.t.Context(), e); err != nil {
		s.t.Errorf("Export: %v", err)
	}
}

func (s *stage) request(r probes.Record) {
	s.t.Helper()
	s.export(probes.Event{Kind: probes.EventRequestDone, RunID: "run-1", Record: &r})
}

var canaryOnA = probes.Pair{Target: "a", Pool: "llama", Environment: probes.Production, Model: "llama-3", Probe: "canary"}

func canary() probes.PairStatus {
	return probes.PairStatus{
		Pair: canaryOnA, Kind: probes.Canary, Registered: epoch.Add(-time.Hour), Interval: 30 * time.Second,
		Spec: probes.Spec{
			Probe: "canary", Kind: probes.Canary, StaleAfter: 15 * time.Minute,
			Arrivals: probes.Arrivals{Process: probes.Constant, Rate: 0.5, MaxConcurrency: 1},
			Workload: probes.Workload{Name: "chat-short", Dataset: "random", InputTokens: 512, OutputTokens: 128, Cache: probes.CacheCold,
				Sampling: probes.Sampling{Stream: true}},
			SLOs: []probes.SLO{{Name: "fast", Objective: 0.99, Window: 720 * time.Hour, Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second}}},
			Limits: []probes.Limit{
				{Signal: probes.TTFT, Statistic: probes.StatP99, Severity: probes.Warning, Bound: 1},
				{Signal: probes.TTFT, Statistic: probes.StatTailRatio, Severity: probes.Info, Bound: 4},
				{Signal: probes.TPOT, Statistic: probes.StatP99, Severity: probes.Critical, Bound: 0.06},
			},
			QueueLimits:      []probes.QueueLimit{{Severity: probes.Info, Bound: 10}, {Severity: probes.Warning, Bound: 50}},
			FailureThreshold: 3,
		},
	}
}

func pairAt(target, probe string) probes.PairStatus {
	s := canary()
	s.Pair.Target, s.Pair.Probe, s.Spec.Probe = target, probe, probe
	return s
}

// answer is a successful request of three tokens, the later ones 20 ms apart.
func answer(ttft time.Duration) probes.Record {
	const gap = 20 * time.Millisecond
	return probes.Record{
		ID: "req-1", Outcome: probes.OK, Due: time.Second, Sent: time.Second + 2*time.Millisecond,
		Connection: probes.ConnectionTrace{DNS: probes.Known(time.Millisecond), Connect: probes.Known(3 * time.Millisecond)},
		FirstToken: probes.Known(time.Second + 2*time.Millisecond + ttft),
		LastToken:  probes.Known(time.Second + 2*time.Millisecond + ttft + 2*gap),
		Chunks: []probes.Chunk{
			{At: time.Second + 2*time.Millisecond + ttft, Tokens: 1},
			{At: time.Second + 2*time.Millisecond + ttft + gap, Tokens: 1},
			{At: time.Second + 2*time.Millisecond + ttft + 2*gap, Tokens: 1},
		},
		RequestedInput: 500, PromptTokens: probes.Known(512), CachedTokens: probes.Known(128), OutputTokens: probes.Known(3), OutputSource: probes.TokensServer,
	}
}

func failure(o probes.Outcome) probes.Record {
	return probes.Record{ID: "req-x", Outcome: o, Error: "some text", Due: time.Second, Sent: time.Second}
}

func result(at time.Time) *probes.Result {
	d := probes.Distribution{N: 200, Mean: 0.25, Stddev: 0.05, Min: 0.1, P50: 0.2, P90: 0.4, P95: 0.5, P99: 0.75, Max: 0.9}
	return &probes.Result{
		RunID: "run-1", CompletedAt: at, Validity: probes.Validity{State: probes.Valid},
		Summary: probes.Summary{
			Duration: 50 * time.Second, Completed: 200, SuccessRatio: probes.Known(1.0),
			Latency: map[probes.Signal]probes.Distribution{
				probes.TTFT: d, probes.TTFTFromDue: d, probes.TPOT: d, probes.ITL: d, probes.ChunkGap: d, probes.E2E: d, probes.E2EFromDue: d,
				probes.TTFTFirst: d, probes.TTFTSecond: d,
			},
			InputTokens: probes.Known(102_400), InputSource: probes.TokensServer, CachedTokens: probes.Known(25_600), OutputTokens: probes.Known(25_600), RetokenizedRatio: probes.Known(0.96875),
			RequestThroughput: probes.Known(4.0), InputThroughput: probes.Known(2048.0), OutputThroughput: probes.Known(512.0), TotalThroughput: probes.Known(2560.0),
			PeakOutputThroughput: probes.Known(700.0), Concurrency: probes.Known(3.5), PeakConcurrency: 6,
			OfferedRate: probes.Known(4.1), AchievedRate: probes.Known(4.05), Goodput: probes.Known(3.9),
			SLOAttainment: map[string]float64{"fast": 0.975}, AcceptLength: probes.Known(2.5), AcceptSource: probes.AcceptCounters,
			Offline: probes.Offline{Throughput: probes.Known(1000.0), Source: "bench_offline_throughput", Gap: probes.Known(0.25)},
			Server: probes.ServerSummary{
				AcceptLength: probes.Known(2.5), AcceptSource: probes.AcceptCounters, AcceptanceRatio: probes.Known(0.375),
				PrefixCache: probes.PrefixCache{HitRatio: probes.Known(0.75)},
				Queue:       probes.Level{N: 50, Mean: 1.5, Max: 9}, Running: probes.Level{N: 50, Mean: 20.5, Max: 32}, KVUsage: probes.Level{N: 50, Mean: 0.25, Max: 0.875},
				Preemptions: probes.Known(3), TTFT: probes.ServerMean{N: 205, Mean: 0.125}, TPOT: probes.ServerMean{N: 25_000, Mean: 0.0625},
			},
		},
	}
}

func TestCountersAreBornAtZero(t *testing.T) {
	s := newStage(t, nil, canary())
	page := s.page()
	want := map[string]float64{
		of(catalog.WarmupRequests): 0, of(catalog.InputTokens): 0, of(catalog.CachedInputTokens): 0, of(catalog.OutputTokens): 0,
		of(catalog.SLOEvents, "slo", "fast", "result", "good"): 0, of(catalog.SLOEvents, "slo", "fast", "result", "bad"): 0,
		of(catalog.TimeToFirstToken + "_count"): 0, of(catalog.ChunkGap + "_count"): 0,
	}
	for _, o := range []string{"success", "error", "dropped", "cancelled"} {
		want[of(catalog.Requests, "outcome", o)] = 0
	}
	for _, c := range []string{"http_4xx", "http_429", "http_5xx", "dns", "connect", "tls", "timeout_first_token", "timeout_idle",
		"timeout_total", "truncated", "stream_error", "bad_response", "empty"} {
		want[of(catalog.RequestErrors, "class", c)] = 0
	}
	for _, r := range []string{"success", "failed", "invalid", "aborted"} {
		want[of(catalog.Runs, "result", r)] = 0
	}
	for _, r := range []string{"overlap", "target_busy", "paused", "missed"} {
		want[of(catalog.RunSkips, "reason", r)] = 0
	}
	s.wantSeries(page, want)
	s.wantNone(page, catalog.ProbeUp, catalog.RunLastStart, catalog.RunLastSuccess, catalog.ResultTimestamp, catalog.ResultSamples)

	s.request(failure(probes.HTTP5xx))
	s.wantSeries(s.page(), map[string]float64{
		of(catalog.Requests, "outcome", "error"): 1, of(catalog.RequestErrors, "class", "http_5xx"): 1,
		of(catalog.RequestErrors, "class", "dns"): 0, of(catalog.Requests, "outcome", "success"): 0,
	})
}

// add is a sum at run time; of constants the compiler would make an exact one.
func add(a, b float64) float64 { return a + b }

func TestRequestMetrics(t *testing.T) {
	s := newStage(t, nil, canary())
	s.request(answer(300 * time.Millisecond))
	reused := answer(500 * time.Millisecond)
	reused.Connection.Reused = true
	s.request(reused)
	warm := answer(9 * time.Second)
	warm.Warmup = true
	s.request(warm)
	s.request(failure(probes.Cancelled))
	s.request(failure(probes.Dropped))
	page := s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.TimeToFirstToken + "_count"): 2, of(catalog.TimeToFirstToken + "_sum"): 0.8,
		of(catalog.RequestDuration + "_count"): 2, of(catalog.RequestDuration + "_sum"): add(0.34, 0.54),
		of(catalog.TimePerOutputToken + "_count"): 2, of(catalog.TimePerOutputToken + "_sum"): 0.04,
		of(catalog.InterTokenLatency + "_count"): 4, of(catalog.InterTokenLatency + "_sum"): 0.08,
		of(catalog.ChunkGap + "_count"): 4, of(catalog.RequestOutputTokensPerSecond + "_sum"): 100,
		of(catalog.Requests, "outcome", "success"): 2, of(catalog.Requests, "outcome", "cancelled"): 1,
		of(catalog.Requests, "outcome", "dropped"): 1, of(catalog.Requests, "outcome", "error"): 0,
		of(catalog.WarmupRequests): 1, of(catalog.InputTokens): 1024, of(catalog.CachedInputTokens): 256, of(catalog.OutputTokens): 6,
		catalog.RequestSendLag + `_count{probe="canary"}`: 3, catalog.RequestSendLag + `_sum{probe="canary"}`: 0.004,
		catalog.ConnectionPhase + `_sum{model="llama-3",phase="connect",pool="llama",target="a",target_env="production"}`:   0.003,
		catalog.ConnectionPhase + `_count{model="llama-3",phase="connect",pool="llama",target="a",target_env="production"}`: 1,
		catalog.ConnectionPhase + `_count{model="llama-3",phase="tls",pool="llama",target="a",target_env="production"}`:     0,
	})
}

// Chunks of unknown tokens have gaps but no inter-token latency.
func TestChunkGapIsNotInterTokenLatency(t *testing.T) {
	s := newStage(t, nil, canary())
	r := answer(time.Second)
	for i := range r.Chunks {
		r.Chunks[i].Tokens = 0
	}
	s.request(r)
	s.wantSeries(s.page(), map[string]float64{
		of(catalog.InterTokenLatency + "_count"): 0, of(catalog.ChunkGap + "_count"): 2, of(catalog.ChunkGap + "_sum"): 0.04,
	})
}

// vllm-project/vllm#15202: a top bucket of 10 s made every slow start read 10 s.
// prometheus/client_golang#1275: one NaN spoils the sum for ever.
func TestSlowFirstTokensAndNone(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Histograms = HistogramsClassic }, canary())
	for _, ttft := range []time.Duration{200 * time.Millisecond, 75 * time.Second, 310 * time.Second} {
		s.request(answer(ttft))
	}
	s.request(failure(probes.Empty))
	page := s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.TimeToFirstToken + "_count"): 3, of(catalog.TimeToFirstToken + "_sum"): 385.2,
		of(catalog.RequestErrors, "class", "empty"): 1,
	})
	families, err := s.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == catalog.TimeToFirstToken })
	got := map[float64]uint64{}
	for _, b := range families[i].Metric[0].Histogram.Bucket {
		got[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for bound, want := range map[float64]uint64{0.15: 0, 0.25: 1, 40: 1, 80: 2, 160: 2, 320: 3, 640: 3} {
		if got[bound] != want {
			t.Errorf("bucket le=%g = %d, want %d", bound, got[bound], want)
		}
	}
}

// A target that refuses every connection: the run is counted, nothing is NaN or 0
// that should be absent.
func TestEveryRequestFails(t *testing.T) {
	s := newStage(t, nil, canary())
	run := &probes.Run{ID: "run-1", Result: probes.RunFailed, Summary: probes.Summary{Failed: 5, SuccessRatio: probes.Known(0.0)}}
	for range 5 {
		r := failure(probes.Connect)
		s.request(r)
		run.Records = append(run.Records, r)
	}
	s.export(probes.Event{Kind: probes.EventRunDone, Run: run})
	s.statuses[0].Last = run
	s.statuses[0].ConsecutiveFailures = 1
	s.statuses[0].Result = &probes.Result{CompletedAt: epoch, Summary: run.Summary}
	page := s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.RequestErrors, "class", "connect"): 5, of(catalog.Requests, "outcome", "error"): 5,
		of(catalog.Runs, "result", "failed"): 1, of(catalog.ProbeUp): 0, of(catalog.ConsecutiveFailures): 1,
		of(catalog.SLOEvents, "slo", "fast", "result", "bad"): 5, of(catalog.SLOEvents, "slo", "fast", "result", "good"): 0,
		of(catalog.ResultSuccess): 0, of(catalog.ResultSamples, "signal", "ttft"): 0,
		of(catalog.TimeToFirstToken + "_count"): 0,
	})
	s.wantNone(page, catalog.ResultLatency, catalog.ResultTailRatio, catalog.ResultOutputTokensPerSecond, catalog.ResultInputTokensMean)
	for key, v := range page {
		if math.IsNaN(v) {
			t.Errorf("%s is NaN, want no series", key)
		}
	}
}

// prometheus/blackbox_exporter#117: when the name did not resolve, everything
// vanished, and the alert with it.
func TestNameDoesNotResolve(t *testing.T) {
	s := newStage(t, nil, canary())
	r := failure(probes.DNS)
	r.Connection.DNS = probes.Known(40 * time.Millisecond)
	s.request(r)
	run := &probes.Run{Result: probes.RunFailed, Summary: probes.Summary{Failed: 1}}
	s.export(probes.Event{Kind: probes.EventRunDone, Run: run})
	s.statuses[0].Last = run
	code, body := s.scrape("")
	if code != http.StatusOK {
		t.Errorf("status = %d, want 200", code)
	}
	for _, want := range []string{
		of(catalog.ProbeUp) + " 0\n", of(catalog.RequestErrors, "class", "dns") + " 1\n",
		catalog.ConnectionPhase + `_sum{model="llama-3",phase="dns",pool="llama",target="a",target_env="production"} 0.04` + "\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Contains(body, catalog.ResultLatency) {
		t.Errorf("page has %s, want none", catalog.ResultLatency)
	}
}

// The results of a target that died vanish; what says how old they are stays.
func TestResultsExpireAndTimestampsStay(t *testing.T) {
	s := newStage(t, nil, canary())
	st := &s.statuses[0]
	st.LastStart, st.LastCompletion, st.LastSuccess = epoch, epoch.Add(50*time.Second), epoch.Add(50*time.Second)
	st.LastDuration = 50 * time.Second
	st.Last = &probes.Run{Result: probes.RunSuccess, Summary: probes.Summary{Completed: 200}}
	st.Result = result(epoch.Add(50 * time.Second))
	page := s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.ResultLatency, "signal", "ttft", "stat", "p99"): 0.75, of(catalog.ProbeUp): 1,
		of(catalog.ResultTimestamp): 1_800_000_050, of(catalog.RunLastSuccess): 1_800_000_050,
	})

	st.Last = &probes.Run{Result: probes.RunFailed, Summary: probes.Summary{Failed: 1}}
	st.LastCompletion, st.ConsecutiveFailures, st.Result = epoch.Add(30*time.Minute), 2, nil
	page = s.page()
	s.wantSeries(page, map[string]float64{
		of(catalog.ProbeUp): 0, of(catalog.ConsecutiveFailures): 2,
		of(catalog.RunLastSuccess): 1_800_000_050, of(catalog.RunLastCompletion): 1_800_001_800, of(catalog.ProbeStaleAfter): 900,
	})
	for key := range page {
		if strings.HasPrefix(key, "inferbeat_result_") {
			t.Errorf("%s is still there, want no result", key)
		}
	}
}

// A sick prober must not page about a healthy server.
func TestInvalidRunMovesNoPromise(t *testing.T) {
	s := newStage(t, nil, canary())
	bad, good := answer(3*time.Second), answer(100*time.Millisecond)
	run := func(result probes.RunResult, state probes.ValidityState, records ...probes.Record) {
		s.export(probes.Event{Kind: probes.EventRunDone, Run: &probes.Run{Result: result, Validity: probes.Validity{State: state}, Records: records}})
	}
	run(probes.RunSuccess, probes.Valid, good, bad, failure(probes.HTTP429), failure(probes.Dropped), failure(probes.Cancelled))
	run(probes.RunInvalid, probes.Invalid, bad, bad, bad)
	run(probes.RunAborted, probes.Invalid, bad)
	s.wantSeries(s.page(), map[string]float64{
		of(catalog.SLOEvents, "slo", "fast", "result", "good"): 1, of(catalog.SLOEvents, "slo", "fast", "result", "bad"): 2,
		of(catalog.Runs, "result", "success"): 1, of(catalog.Runs, "result", "invalid"): 1, of(catalog.Runs, "result", "aborted"): 1,
	})
}

func TestBatchProbesHaveNoSLOEvents(t *testing.T) {
	load := canary()
	load.Kind = probes.Load
	s := newStage(t, nil, load)
	s.export(probes.Event{Kind: probes.EventRunDone, Run: &probes.Run{Result: probes.RunSuccess, Records: []probes.Record{answer(time.Second)}}})
	page := s.page()
	s.wantNone(page, catalog.SLOEvents)
	s.wantSeries(page, map[string]float64{of(catalog.SLOObjective, "slo", "fast"): 0.99, of(catalog.Runs, "result", "success"): 1})
}

func TestResultAndLimits(t *testing.T) {
	s := newStage(t, nil, canary())
	st := &s.statuses[0]
	st.Result = result(epoch)
	st.Result.Validity.State = probes.Suspect
	st.NextStart, st.InFlight, st.Active = epoch.Add(1500*time.Millisecond), 1, true
	s.wantSeries(s.page(), map[string]float64{
		of(catalog.ResultLatency, "signal", "ttft", "stat", "mean"): 0.25, of(catalog.ResultLatency, "signal", "chunk_gap", "stat", "stddev"): 0.05,
		of(catalog.ResultLatency, "signal", "e2e_from_due", "stat", "max"): 0.9, of(catalog.ResultTailRatio, "signal", "ttft"): 3,
		of(catalog.ResultSamples, "signal", "ttft_from_due"): 200,
		of(catalog.ResultRequestsPerSecond):                  4, of(catalog.ResultInputTokensPerSecond): 2048, of(catalog.ResultOutputTokensPerSecond): 512,
		of(catalog.ResultTotalTokensPerSecond): 2560, of(catalog.ResultPeakOutputTokensPerSecond): 700, of(catalog.ResultConcurrency): 3.5,
		of(catalog.ResultMaxConcurrentRequests): 6, of(catalog.ResultOfferedRequestsPerSecond): 4.1, of(catalog.ResultAchievedRequestsPerSecond): 4.05,
		of(catalog.ResultGoodputRequestsPerSecond): 3.9, of(catalog.ResultSLOAttainment, "slo", "fast"): 0.975, of(catalog.ResultSuccess): 1,
		of(catalog.ResultInputTokensMean): 512, of(catalog.ResultOutputTokensMean): 128, of(catalog.ResultRetokenized): 0.96875, of(catalog.ResultDuration): 50,
		of(catalog.ResultAcceptLength): 2.5, of(catalog.ResultPrefixCacheHit): 0.25, of(catalog.ResultSuspect): 1,
		of(catalog.ResultAcceptanceRatio): 0.375, of(catalog.ResultServerPreemptions): 3,
		of(catalog.ResultServerQueue, "stat", "mean"): 1.5, of(catalog.ResultServerQueue, "stat", "max"): 9,
		of(catalog.ResultServerRunning, "stat", "mean"): 20.5, of(catalog.ResultServerRunning, "stat", "max"): 32,
		of(catalog.ResultServerKVCacheUsage, "stat", "mean"): 0.25, of(catalog.ResultServerKVCacheUsage, "stat", "max"): 0.875,
		of(catalog.ResultServerTTFT): 0.125, of(catalog.ResultServerTPOT): 0.0625, of(catalog.ResultClientTTFTExcess): 0.125, of(catalog.ResultOfflineGap): 0.25,
		of(catalog.SLOObjective, "slo", "fast"): 0.99, of(catalog.SLOWindow, "slo", "fast"): 2592000,
		of(catalog.SLOLatencyLimit, "slo", "fast", "signal", "ttft"):                          1,
		of(catalog.LatencyThreshold, "signal", "ttft", "stat", "p99", "severity", "warning"):  1,
		of(catalog.LatencyThreshold, "signal", "tpot", "stat", "p99", "severity", "critical"): 0.06,
		of(catalog.TailRatioThreshold, "signal", "ttft", "severity", "info"):                  4,
		of(catalog.RunNextStart): 1_800_000_001.5, of(catalog.RequestsInFlight): 1, of(catalog.RunActive): 1,
		of(catalog.ProbeInterval): 30, of(catalog.ProbeRegistered): 1_799_996_400, of(catalog.ProbePaused): 0,
		catalog.ProbeInfo + `{arrivals="constant",cache="cold",concurrency="1",dataset="random",input_tokens="512",kind="canary",output_tokens="128",probe="canary",rate="0.5",stream="true",workload="chat-short"}`: 1,
	})
}

// What the server reported is absent where it did not, and its average since the
// start is no property of a result.
func TestUnknownServerValuesAreAbsent(t *testing.T) {
	st := canary()
	st.Result = result(epoch)
	st.Result.Summary.AcceptSource = probes.AcceptLifetime
	st.Result.Summary.Server = probes.ServerSummary{Span: time.Minute}
	st.Result.Summary.Offline = probes.Offline{}
	s := newStage(t, nil, st)
	page := s.page()
	s.wantNone(page, catalog.ResultAcceptLength, catalog.ResultAcceptanceRatio, catalog.ResultServerQueue, catalog.ResultServerRunning, catalog.ResultServerKVCacheUsage,
		catalog.ResultServerPreemptions, catalog.ResultServerTTFT, catalog.ResultServerTPOT, catalog.ResultClientTTFTExcess, catalog.ResultOfflineGap)
	// No answer told its cached tokens: the server's ratio stands in.
	st.Result.Summary.CachedTokens = probes.Optional[int]{}
	s.wantNone(s.page(), catalog.ResultPrefixCacheHit)
	st.Result.Summary.Server.PrefixCache.HitRatio = probes.Known(0.0)
	s.wantSeries(s.page(), map[string]float64{of(catalog.ResultPrefixCacheHit): 0})
}

// Several probes look at one target; the latest look that saw anything counts.
func TestLatestFactsOfATarget(t *testing.T) {
	old, silent, fresh := pairAt("a", "canary"), pairAt("a", "load"), pairAt("a", "nightly")
	last := func(minute int, version string) *probes.Run {
		return &probes.Run{End: epoch.Add(time.Duration(minute) * time.Minute), Facts: probes.ServerFacts{Version: version}}
	}
	old.Last, silent.Last, fresh.Last = last(1, "1"), last(3, ""), last(2, "2")
	for _, order := range [][]probes.PairStatus{{old, silent, fresh}, {fresh, old, silent}} {
		if got := latestFacts(order); len(got) != 1 || got["a"].Version != "2" {
			t.Errorf("facts %+v, want those of version 2", got["a"])
		}
	}
}

func TestAnswerToThePinnedQuestion(t *testing.T) {
	for answer, want := range map[probes.Answer]float64{probes.AnswerRight: 1, probes.AnswerWrong: 0} {
		p := canary()
		p.Last = &probes.Run{Summary: probes.Summary{Answer: answer}}
		s := newStage(t, nil, p)
		s.wantSeries(s.page(), map[string]float64{of(catalog.AnswerCorrect): want})
	}
	for _, answer := range []probes.Answer{"", probes.AnswerMissing} {
		p := canary()
		p.Last = &probes.Run{Summary: probes.Summary{Answer: answer}}
		s := newStage(t, nil, p)
		s.wantNone(s.page(), of(catalog.AnswerCorrect))
	}
}

func TestBurstIsOfferedWithoutBound(t *testing.T) {
	st := canary()
	st.Result = result(epoch)
	st.Result.Summary.OfferedRate = probes.Known(math.Inf(1))
	s := newStage(t, nil, st)
	s.wantSeries(s.page(), map[string]float64{of(catalog.ResultOfferedRequestsPerSecond): math.Inf(1)})
	if _, body := s.scrape(""); !strings.Contains(body, of(catalog.ResultOfferedRequestsPerSecond)+" +Inf\n") {
		t.Error("page lacks the offered rate +Inf")
	}
}

// The TPOT of ten tokens is noise; without its limit no rule can fire on it.
func TestShortOutputWithholdsTPOTLimits(t *testing.T) {
	tests := []struct {
		name      string
		minimum   int
		output    int
		cancelled int
		withheld  bool
	}{
		{"long_enough", 0, 200 * 100, 0, false},
		{"too_short", 0, 200*100 - 1, 0, true},
		{"own_minimum", 10, 200 * 10, 0, false},
		{"never", -1, 200, 0, false},
		{"mean_unknown", 0, 200, 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := canary()
			st.Result = result(epoch)
			st.Result.Summary.OutputTokens = probes.Known(tt.output)
			st.Result.Summary.Cancelled = tt.cancelled
			s := newStage(t, func(o *Options) { o.TPOTMinOutput = tt.minimum }, st)
			page := s.page()
			_, there := page[of(catalog.LatencyThreshold, "signal", "tpot", "stat", "p99", "severity", "critical")]
			if there == tt.withheld {
				t.Errorf("tpot limit is shown: %v, want %v", there, !tt.withheld)
			}
			s.wantSeries(page, map[string]float64{of(catalog.LatencyThreshold, "signal", "ttft", "stat", "p99", "severity", "warning"): 1})
		})
	}
}

func TestUnknownResultValuesAreAbsent(t *testing.T) {
	st := canary()
	st.Result = &probes.Result{CompletedAt: epoch}
	st.Paused = true
	st.Last = &probes.Run{Result: probes.RunAborted}
	s := newStage(t, nil, st)
	page := s.page()
	s.wantNone(page, catalog.ResultLatency, catalog.ResultTailRatio, catalog.ResultRequestsPerSecond, catalog.ResultConcurrency,
		catalog.ResultOfferedRequestsPerSecond, catalog.ResultGoodputRequestsPerSecond, catalog.ResultSuccess, catalog.ResultInputTokensMean,
		catalog.ResultOutputTokensMean, catalog.ResultRetokenized, catalog.ResultAcceptLength, catalog.ResultPrefixCacheHit, catalog.ResultSLOAttainment,
		catalog.RunNextStart, catalog.RunLastStart, catalog.RunLastDuration, catalog.ProbeStaleAfter, catalog.ProbeUp)
	s.wantSeries(page, map[string]float64{of(catalog.ProbePaused): 1, of(catalog.ResultSuspect): 0})
}

func TestRemovedPair(t *testing.T) {
	a, b := pairAt("a", "canary"), pairAt("b", "nightly")
	s := newStage(t, nil, a, b)
	s.export(probes.Event{Kind: probes.EventRequestDone, Pair: b.Pair, Record: new(answer(time.Second))})
	remove := func() {
		s.statuses = []probes.PairStatus{a}
		if err := s.SetPairs(s.statuses); err != nil {
			t.Fatal(err)
		}
	}
	remove()

	page := s.page()
	s.wantSeries(page, map[string]float64{ofPair(catalog.Requests, b.Pair, "outcome", "success"): 1, of(catalog.RunActive): 0})
	s.wantNone(page, ofPair(catalog.RunActive, b.Pair), ofPair(catalog.ProbeInterval, b.Pair))

	// The run that was going on when the pair was removed ends now.
	s.now = epoch.Add(4 * time.Minute)
	s.export(probes.Event{Kind: probes.EventRequestDone, Pair: b.Pair, Record: new(answer(time.Second))})
	s.now = epoch.Add(5*time.Minute - 1)
	s.wantSeries(s.page(), map[string]float64{ofPair(catalog.Requests, b.Pair, "outcome", "success"): 2})

	// It comes back inside the five minutes and goes on, past them.
	s.statuses = []probes.PairStatus{a, b}
	if err := s.SetPairs(s.statuses); err != nil {
		t.Fatal(err)
	}
	s.now = epoch.Add(time.Hour)
	s.wantSeries(s.page(), map[string]float64{
		ofPair(catalog.Requests, b.Pair, "outcome", "success"): 2, catalog.RequestSendLag + `_count{probe="nightly"}`: 2,
	})

	remove()
	s.now = epoch.Add(time.Hour + 5*time.Minute)
	page = s.page()
	for key := range page {
		if strings.Contains(key, `target="b"`) || strings.Contains(key, `probe="nightly"`) {
			t.Errorf("%s is still there five minutes after its pair was removed", key)
		}
	}
	err := s.Export(t.Context(), probes.Event{Kind: probes.EventSkipped, Pair: b.Pair, Skip: probes.SkipMissed})
	if got, want := fmt.Sprint(err), `count event: probe "nightly" is not configured on target "b"`; got != want {
		t.Errorf("Export for a buried pair = %q, want %q", got, want)
	}
}

// The model of a target may become known only when it first answers. The pair goes on
// under it with all that it has counted, and leaves no second identity, which every
// query would match.
func TestModelBecomesKnown(t *testing.T) {
	for _, counted := range []uint64{1, 0} {
		unnamed, other := canary(), canary()
		unnamed.Pair.Model, other.Pair.Model, other.Pair.Probe = "", "", "other"
		s := newStage(t, nil, unnamed, other)
		if counted > 0 {
			failed := failure(probes.Connect)
			failed.Connection.DNS = probes.Known(time.Millisecond)
			s.export(probes.Event{Kind: probes.EventRequestDone, Pair: unnamed.Pair, Spec: &unnamed.Spec, Record: &failed})
		}
		named := other
		named.Pair.Model = canaryOnA.Model
		s.statuses = []probes.PairStatus{canary(), named}
		if err := s.SetPairs(s.statuses); err != nil {
			t.Fatal(err)
		}
		s.request(answer(time.Second))
		page := s.page()
		s.wantSeries(page, map[string]float64{
			of(catalog.Requests, "outcome", "success"):                           1,
			of(catalog.Requests, "outcome", "error"):                             float64(counted),
			ofPair(catalog.SLOEvents, canaryOnA, "slo", "fast", "result", "bad"): 0, // counted by runs
			ofPair(catalog.Requests, named.Pair, "outcome", "success"):           0,
		})
		phases := 0.0
		for key, value := range page {
			if strings.Contains(key, `model=""`) {
				t.Errorf("%s is left after %d counts", key, counted)
			}
			if strings.HasPrefix(key, catalog.ConnectionPhase+"_count") && strings.Contains(key, `phase="dns"`) {
				phases += value
			}
		}
		if phases != float64(counted)+1 { // the answer has one too
			t.Errorf("%v connections have looked a name up, want %d", phases, counted+1)
		}
	}
}

// Another model is another thing that is measured: what the old one has counted stays
// for its tombstone, and the new one begins at 0.
func TestModelChanges(t *testing.T) {
	before := canary()
	before.Pair.Model = "llama-2"
	s := newStage(t, nil, before)
	s.export(probes.Event{Kind: probes.EventRequestDone, Pair: before.Pair, Spec: &before.Spec, Record: new(failure(probes.Connect))})
	s.statuses = []probes.PairStatus{canary()}
	if err := s.SetPairs(s.statuses); err != nil {
		t.Fatal(err)
	}
	old := ofPair(catalog.Requests, before.Pair, "outcome", "error")
	s.wantSeries(s.page(), map[string]float64{old: 1, of(catalog.Requests, "outcome", "error"): 0})
	s.now = epoch.Add(5 * time.Minute)
	s.wantNone(s.page(), old)
}

func TestObjectiveKeepsItsCountOverAReload(t *testing.T) {
	s := newStage(t, nil, canary())
	s.export(probes.Event{Kind: probes.EventRunDone, Run: &probes.Run{Result: probes.RunSuccess, Records: []probes.Record{answer(time.Millisecond)}}})
	changed := canary()
	changed.Spec.SLOs = append(changed.Spec.SLOs, probes.SLO{Name: "new", Objective: 0.9})
	if err := s.SetPairs([]probes.PairStatus{changed}); err != nil {
		t.Fatal(err)
	}
	s.wantSeries(s.page(), map[string]float64{
		of(catalog.SLOEvents, "slo", "fast", "result", "good"): 1, of(catalog.SLOEvents, "slo", "new", "result", "good"): 0,
	})
}

// prometheus/client_golang#296: label values that a server or an error can choose
// stay on the page for ever.
func TestFreeTextAddsNoSeries(t *testing.T) {
	s := newStage(t, nil, canary())
	before := slices.Sorted(maps.Keys(s.page()))
	for i := range 10_000 {
		n := strconv.Itoa(i)
		s.export(probes.Event{Kind: probes.EventRequestDone, RunID: "run-" + n, Record: &probes.Record{
			ID: "req-" + n, Outcome: probes.Outcomes[i%len(probes.Outcomes)], Error: "boom " + n, StatusCode: 400 + i%200,
			FinishReason: "stop " + n, Text: "text " + n, Connection: probes.ConnectionTrace{LocalAddress: "10.0.0.1:" + n, Protocol: "h" + n},
		}})
	}
	after := slices.Sorted(maps.Keys(s.page()))
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("series (-before +after):\n%s", d)
	}
	if _, body := s.scrape("application/openmetrics-text; version=1.0.0"); strings.Contains(body, "boom") {
		t.Error("an error text is on the page")
	}
}

func TestExportRefusesOpenValues(t *testing.T) {
	s := newStage(t, nil, canary())
	before := s.page()
	tests := []struct {
		event probes.Event
		want  string
	}{
		{probes.Event{Kind: probes.EventRequestDone, Record: &probes.Record{Outcome: "strange"}}, `count request: outcome "strange" is not in the closed list`},
		{probes.Event{Kind: probes.EventRunDone, Run: &probes.Run{Result: "odd"}}, `count run: result "odd" is not in the closed list`},
		{probes.Event{Kind: probes.EventSkipped, Skip: "mood"}, `count skip: reason "mood" is not in the closed list`},
	}
	for _, tt := range tests {
		tt.event.Pair = canaryOnA
		if got := fmt.Sprint(s.Export(t.Context(), tt.event)); got != tt.want {
			t.Errorf("Export = %q, want %q", got, tt.want)
		}
	}
	if d := cmp.Diff(before, s.page()); d != "" {
		t.Errorf("page changed (-before +after):\n%s", d)
	}
}

// full is a stage on which everything has happened once.
func full(t *testing.T, change func(*Options)) *stage {
	st := canary()
	st.LastStart, st.LastCompletion, st.LastSuccess, st.NextStart = epoch, epoch, epoch, epoch
	st.Last = &probes.Run{Result: probes.RunSuccess, Summary: probes.Summary{Completed: 1, Answer: probes.AnswerRight}, Facts: probes.ServerFacts{
		Engine: "vllm", Version: "0.18.0", DType: "bfloat16", TensorParallel: probes.Known(4), AttentionBackend: "fa3", SpeculativeAlgorithm: "eagle",
		Accelerator: "H200", Weights: "llama-3-8b", Incarnation: "917",
	}}
	st.Result = result(epoch)
	for i, l := range st.Spec.Limits {
		st.Breaches = append(st.Breaches, probes.Breach{Limit: l, Runs: i})
	}
	sweep := swept()
	sweep.Spec.FailureThreshold, sweep.Changes = 2, []probes.Change{confirmed(probes.MetricCapacity)}
	sweep.LastStart, sweep.LastCompletion, sweep.LastSuccess, sweep.NextStart = epoch, epoch, epoch, epoch
	sweep.Last, sweep.Interval, sweep.Spec.StaleAfter, sweep.Registered = st.Last, st.Interval, st.Spec.StaleAfter, st.Registered
	s := newStage(t, change, st, sweep)
	s.compared = []probes.ComparisonStatus{compared()}
	lag := NewLoopLag()
	lag.Observe(0)
	lag.Observe(30 * time.Millisecond)
	s.daemon = DaemonState{
		Budgets:      []probes.ErrorBudget{{Pool: "llama", Environment: "production", Model: "llama-3", Probe: "canary", SLO: "fast", Remaining: -0.25}},
		Store:        &StoreState{Errors: map[string]uint64{"add": 5}, Size: 4096, LastWrite: epoch, Waiting: 6, Lost: 7},
		Client:       ClientState{LoopLag: lag, CPU: probes.Known(0.25), Saturated: probes.Known(true)},
		ConfigSHA256: "0123", ReloadOK: true, ReloadedAt: epoch,
		Targets: []probes.Target{{Name: "a", Pool: "llama", Environment: probes.Production, Model: "llama-3", Backend: "vllm", Site: "prod-eu",
			BaseURL: "http://10.0.0.5:8000", Labels: map[string]string{"gpu": "h100", "owner": "secret-team", "quantization": "fp8", "dtype": "ignored, for the server says it"}}},
		ServerRequests: map[string]float64{"a": 12.5, "unconfigured": 3},
		TargetStates:   map[string]int{"active": 1}, SchedulerTick: epoch, RunsWaiting: 3, Panics: 2,
		Sinks:       []SinkState{{Name: "jsonl", Dropped: 3, Errors: 4}},
		LogMessages: map[string]uint64{"info": 7},
		Discovery: []DiscoveryState{
			{Mechanism: "file", Targets: 3, Failures: 2, LastSuccess: time.Unix(1_800_000_003, 0)}, {Mechanism: "http", Failures: 1},
		},
		SelfTest: SelfTest{
			At: time.Unix(1_800_000_001, 0), Error: map[string]time.Duration{"ttft": 300 * time.Microsecond, "itl": 6 * time.Millisecond},
			Tolerance: map[string]time.Duration{"ttft": 5 * time.Millisecond, "itl": 5 * time.Millisecond},
		},
	}
	s.export(probes.Event{Kind: probes.EventRunStarted, Lateness: 40 * time.Millisecond})
	s.request(answer(300 * time.Millisecond))
	s.export(probes.Event{Kind: probes.EventRunDone, Run: &probes.Run{Result: probes.RunSuccess, Records: []probes.Record{answer(time.Millisecond)}}})
	s.export(probes.Event{Kind: probes.EventSkipped, Skip: probes.SkipOverlap})
	return s
}

func TestDaemonMetrics(t *testing.T) {
	s := full(t, func(o *Options) { o.MaxSeries = 200_000; o.SiteLabels = []string{"gpu", "rack"} })
	page := s.page()
	s.wantSeries(page, map[string]float64{
		catalog.BuildInfo + `{goversion="go1.26",revision="abc",version="1.2.3"}`: 1, catalog.ConfigInfo + `{sha256="0123"}`: 1,
		catalog.TargetInfo + `{accelerator="H200",attention_backend="fa3",backend="vllm",data_parallel="",dtype="bfloat16",engine="vllm",engine_version="0.18.0",` +
			`gpu="h100",model="llama-3",pool="llama",quantization="fp8",rack="",site="prod-eu",speculative_algorithm="eagle",target="a",target_env="production",tensor_parallel="4"}`: 1,
		catalog.ServerRequests + `{model="llama-3",pool="llama",target="a",target_env="production"}`: 12.5,
		catalog.ConfigReloadSuccessful: 1, catalog.ConfigReloadTimestamp: 1_800_000_000, catalog.SchedulerLastTick: 1_800_000_000,
		catalog.SchedulerQueue: 3, catalog.SchedulerLag + "_count": 1, catalog.SchedulerLag + "_sum": 0.04, catalog.Panics: 2,
		catalog.Targets + `{state="active"}`: 1, catalog.Targets + `{state="rejected"}`: 0,
		catalog.LogMessages + `{level="info"}`: 7, catalog.LogMessages + `{level="error"}`: 0,
		catalog.ExporterDroppedEvents + `{sink="jsonl"}`: 3, catalog.ExporterErrors + `{sink="jsonl"}`: 4,
		catalog.SelfTestError + `{signal="ttft"}`: 0.0003, catalog.SelfTestError + `{signal="itl"}`: 0.006, catalog.SelfTestTimestamp: 1_800_000_001,
		catalog.ClientLoopLag + "_count": 2, catalog.ClientLoopLag + "_sum": 0.03, catalog.ClientCPUSaturation: 0.25, catalog.ClientSaturated: 1,
		catalog.SelfTestTolerance + `{signal="ttft"}`: 0.005, catalog.SelfTestTolerance + `{signal="itl"}`: 0.005,
		catalog.SLOBudgetRemaining + `{model="llama-3",pool="llama",probe="canary",slo="fast",target_env="production"}`: -0.25,
		catalog.StoreErrors + `{operation="add"}`: 5, catalog.StoreErrors + `{operation="prune"}`: 0,
		catalog.StoreSize: 4096, catalog.StoreUnwritten: 6, catalog.StoreLost: 7, catalog.StoreLastWrite: 1_800_000_000,
		catalog.DiscoveryTargets + `{mechanism="file"}`: 3, catalog.DiscoveryFailures + `{mechanism="file"}`: 2, catalog.DiscoveryLastSuccess + `{mechanism="file"}`: 1_800_000_003,
		catalog.DiscoveryTargets + `{mechanism="http"}`: 0, catalog.DiscoveryFailures + `{mechanism="http"}`: 1,
		catalog.MetricsSeriesLimit: 200_000, of(catalog.RunSkips, "reason", "overlap"): 1,
	})
}

func TestEveryCatalogMetricIsFed(t *testing.T) {
	s := full(t, func(o *Options) { o.MaxSeries = 1000 })
	families, err := s.Gather()
	if err != nil {
		t.Fatal(err)
	}
	answers := pulledFamilies(t, s)
	got := map[string]*dto.MetricFamily{}
	for _, f := range slices.Concat(families, answers) {
		if m, _ := catalog.Lookup(f.GetName()); (m.Staleness == catalog.InAnswer) != slices.Contains(answers, f) {
			t.Errorf("%s is on /metrics as well as in an answer to /probe, or in the wrong one of them", f.GetName())
		}
		got[f.GetName()] = f
	}
	for _, m := range catalog.All() {
		f := got[m.Name]
		if f == nil {
			t.Errorf("%s is in the catalogue and not on the page", m.Name)
			continue
		}
		delete(got, m.Name)
		if f.GetHelp() != m.Help || f.GetType() != familyTypes[m.Kind] {
			t.Errorf("%s: help %q, type %v, want %q, %v", m.Name, f.GetHelp(), f.GetType(), m.Help, familyTypes[m.Kind])
		}
		for _, series := range f.Metric {
			var names []string
			for _, l := range series.Label {
				names = append(names, l.GetName())
			}
			if want := slices.Sorted(slices.Values(m.Labels)); !slices.Equal(names, want) {
				t.Errorf("%s: labels %v, want %v", m.Name, names, want)
			}
		}
	}
	for name := range got {
		t.Errorf("%s is on the page and not in the catalogue", name)
	}
}

// Every value of a label with a closed list is on that list.
func TestLabelValuesAreClosed(t *testing.T) {
	s := full(t, nil)
	closed := map[string][]string{}
	for _, l := range catalog.Labels() {
		if l.Values != nil {
			closed[l.Name] = l.Values
		}
	}
	families, err := s.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(families, pulledFamilies(t, s)...) {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if values, ok := closed[l.GetName()]; ok && !slices.Contains(values, l.GetValue()) {
					t.Errorf("%s%s: %s is not one of %v", f.GetName(), labelText(m), l.GetValue(), values)
				}
			}
		}
	}
}

// The catalogue imports nothing, so its lists are copies of the vocabulary's.
func TestCatalogKnowsTheVocabulary(t *testing.T) {
	want := map[string][]string{
		catalog.LabelSeverity:  texts(probes.Severities),
		catalog.LabelReason:    texts(probes.SkipReasons),
		catalog.LabelSignal:    texts(resultSignals),
		catalog.LabelStat:      texts(probes.Statistics),
		catalog.LabelTargetEnv: texts(probes.Environments),
		catalog.LabelMetric:    append(texts(probes.RegressionMetrics), string(probes.MetricE2Ep90), string(probes.MetricOverall)),
		catalog.LabelResult:    append(texts(probes.RunResults), "good", "bad"),
	}
	for _, o := range probes.Outcomes {
		if o.Failed() {
			want[catalog.LabelClass] = append(want[catalog.LabelClass], string(o))
		}
	}
	for _, l := range catalog.Labels() {
		if w, ok := want[l.Name]; ok {
			if d := cmp.Diff(w, l.Values); d != "" {
				t.Errorf("values of label %s (-vocabulary +catalogue):\n%s", l.Name, d)
			}
		}
	}
	if len(probes.Outcomes) != outcomeCount || len(probes.RunResults) != 4 || len(probes.SkipReasons) != skipCount {
		t.Errorf("the vocabulary has %d outcomes, %d results, %d reasons; the arrays of pairSeries have other lengths",
			len(probes.Outcomes), len(probes.RunResults), len(probes.SkipReasons))
	}
}

func texts[T ~string](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

func TestBuilderRefusesWhatTheCatalogueDoesNotList(t *testing.T) {
	b := newBuilder()
	b.gauge("inferbeat_made_up", nil, 1)
	b.gauge(catalog.Runs, pairLabels(canaryOnA), 1, label("result", "success"))
	b.gauge(catalog.RunActive, nil, 1)
	b.gauge(catalog.ProbePaused, pairLabels(canaryOnA), 1, label("why", "x"))
	b.gauge(catalog.MetricsSeries, nil, 5)
	families, err := b.finish()
	if len(families) != 1 || families[0].GetName() != catalog.MetricsSeries {
		t.Errorf("families = %v, want only %s", families, catalog.MetricsSeries)
	}
	want := strings.Join([]string{
		"expose inferbeat_made_up: a gauge of 0 labels is not in the catalogue",
		"expose inferbeat_probe_paused: a gauge of 6 labels is not in the catalogue",
		"expose inferbeat_run_active: a gauge of 0 labels is not in the catalogue",
		"expose inferbeat_runs_total: a gauge of 6 labels is not in the catalogue",
	}, "\n")
	if fmt.Sprint(err) != want {
		t.Errorf("finish() = %v, want %v", err, want)
	}
}

func TestSeriesAreCounted(t *testing.T) {
	for _, mode := range histogramModes {
		t.Run(string(mode), func(t *testing.T) {
			registry := prometheus.NewRegistry()
			registry.MustRegister(collectors.NewGoCollector())
			s := full(t, func(o *Options) { o.Histograms = mode; o.Registry = registry; o.MaxSeries = 1000 })
			_, body := s.scrape("")
			lines, counted := 0, 0
			for line := range strings.Lines(body) {
				if strings.HasPrefix(line, "#") {
					continue
				}
				lines++
				if rest, ok := strings.CutPrefix(line, catalog.MetricsSeries+" "); ok {
					counted, _ = strconv.Atoi(strings.TrimSpace(rest))
				}
			}
			if mode == HistogramsNative {
				// In text a native histogram reads as +Inf, sum and count.
				for _, m := range catalog.All() {
					if m.Kind == catalog.Histogram {
						lines -= 2 * strings.Count(body, m.Name+"_count")
					}
				}
			}
			if counted != lines {
				t.Errorf("%s = %d, the page has %d series", catalog.MetricsSeries, counted, lines)
			}
		})
	}
}

func TestEstimateIsWhatAFullPairShows(t *testing.T) {
	for _, mode := range histogramModes {
		s := full(t, func(o *Options) { o.Histograms = mode })
		curve := &s.statuses[1].Result.Steps // of the sweep: as long as it can be
		step := (*curve)[0]
		*curve = nil
		for rate := 1.0; rate <= probes.MaxSweepSteps; rate++ {
			*curve = append(*curve, step)
			(*curve)[len(*curve)-1].Rate = rate
		}
		families, err := s.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var ofPairs []*dto.MetricFamily
		for _, f := range families {
			if m, _ := catalog.Lookup(f.GetName()); m.HasLabel(catalog.LabelTarget) || m.HasLabel(catalog.LabelProbe) {
				ofPairs = append(ofPairs, f)
			}
		}
		if got, want := EstimateSeries(s.statuses, mode), countSeries(ofPairs); got != want {
			t.Errorf("estimate with %s histograms = %d, want the %d that are shown", mode, got, want)
		}
	}
}

func TestMaxSeries(t *testing.T) {
	var many []probes.PairStatus
	for i := range 4 {
		many = append(many, pairAt("t"+strconv.Itoa(i), "canary"))
	}
	limit := EstimateSeries(many[:3], HistogramsNative)
	s := newStage(t, func(o *Options) { o.Histograms = HistogramsNative; o.MaxSeries = limit }, many[:3]...)
	err := s.SetPairs(many)
	want := fmt.Sprintf("set 4 pairs: about %d series exceed the limit of %d: use native histograms, fewer probes or shards, or raise the limit",
		EstimateSeries(many, HistogramsNative), limit)
	if fmt.Sprint(err) != want {
		t.Errorf("SetPairs = %v, want %v", err, want)
	}
	page := s.page()
	s.wantNone(page, ofPair(catalog.WarmupRequests, many[3].Pair))
	s.wantSeries(page, map[string]float64{ofPair(catalog.WarmupRequests, many[2].Pair): 0})
}

// Beyond two hundred pairs classic buckets would be tens of megabytes a scrape.
func TestAutoDropsClassicBucketsOfManyPairs(t *testing.T) {
	var many []probes.PairStatus
	for i := range 201 {
		many = append(many, pairAt(fmt.Sprintf("t%03d", i), "canary"))
	}
	s := newStage(t, nil, many[:200]...)
	form := func() (classic, native bool) {
		families, err := s.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == catalog.TimeToFirstToken {
				h := f.Metric[0].Histogram
				return len(h.Bucket) > 0, h.Schema != nil
			}
		}
		t.Fatal("no histogram on the page")
		return false, false
	}
	if c, n := form(); !c || !n {
		t.Errorf("200 pairs: classic %v, native %v, want both", c, n)
	}
	if err := s.SetPairs(many); err != nil {
		t.Fatal(err)
	}
	if c, n := form(); c || !n {
		t.Errorf("201 pairs: classic %v, native %v, want native only", c, n)
	}
}

// scrape asks the handler as a scraper with this Accept header would.
func (s *stage) scrape(accept string) (int, string) {
	s.t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestHandlerNegotiates(t *testing.T) {
	s := full(t, nil)
	bucket := strings.TrimSuffix(of(catalog.TimeToFirstToken+"_bucket"), "}") + `,le="0.35"}`
	_, text := s.scrape("")
	if want := bucket + " 1\n"; !strings.Contains(text, want) {
		t.Errorf("text lacks %q", want)
	}
	_, open := s.scrape("application/openmetrics-text; version=1.0.0")
	for _, want := range []string{
		bucket + ` 1 # {run_id="run-1",request_id="req-1"} 0.3 1.8e+09` + "\n",
		"# UNIT inferbeat_time_to_first_token_seconds seconds\n",
	} {
		if !strings.Contains(open, want) {
			t.Errorf("OpenMetrics lacks %q", want)
		}
	}
	if !strings.HasSuffix(open, "# EOF\n") || strings.Contains(open, "_created") {
		t.Error("OpenMetrics: want # EOF last and no _created series")
	}

	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request)
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	for {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
			t.Fatal("protobuf lacks the histogram")
		} else if err != nil {
			t.Fatal(err)
		}
		if f.GetName() != catalog.TimeToFirstToken {
			continue
		}
		h := f.Metric[0].Histogram
		if h.GetSchema() != 3 || !slices.Equal(h.PositiveDelta, []int64{1}) || len(h.Exemplars) != 1 || len(h.Bucket) != 23 {
			t.Errorf("protobuf histogram = %v, want schema 3, one value, one exemplar, 23 buckets", h)
		}
		if got := f.Metric[0].Histogram.GetCreatedTimestamp().AsTime(); !got.Equal(epoch) {
			t.Errorf("created = %v, want %v", got, epoch)
		}
		return
	}
}

func TestPagePassesTheLinter(t *testing.T) {
	s := full(t, func(o *Options) { o.MaxSeries = 1000 })
	_, body := s.scrape("")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatalf("lint: %v", err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The registry of client_golang checks what we build without it: no family or
// series twice, legal names and labels, one type a family.
func TestPagePassesTheRegistrysChecks(t *testing.T) {
	s := full(t, func(o *Options) { o.MaxSeries = 1000 })
	if _, err := (prometheus.Gatherers{s.Exporter}).Gather(); err != nil {
		t.Error(err)
	}
}

func TestLabelsAreAlwaysUTF8(t *testing.T) {
	st := canary()
	st.Pair.Model = "mod\xffel"
	s := newStage(t, nil, st)
	code, body := s.scrape("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	if code != http.StatusOK || !strings.Contains(body, "mod\uFFFDel") {
		t.Errorf("status %d, want 200 and the model with its bad byte replaced", code)
	}
}

func TestNewRefuses(t *testing.T) {
	valid := Options{Snapshot: func() []probes.PairStatus { return nil }, Good: goodForTest, Now: time.Now}
	tests := []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no_snapshot", func(o *Options) { o.Snapshot = nil }, "create metrics exporter: Snapshot, Good and Now must be set"},
		{"no_judge", func(o *Options) { o.Good = nil }, "create metrics exporter: Snapshot, Good and Now must be set"},
		{"no_clock", func(o *Options) { o.Now = nil }, "create metrics exporter: Snapshot, Good and Now must be set"},
		{"mode", func(o *Options) { o.Histograms = "some" }, `create metrics exporter: histograms "some": want one of [auto classic native]`},
		{"label_name", func(o *Options) { o.SiteLabels = []string{"k8s.io/x"} }, `create metrics exporter: site label "k8s.io/x": want letters, digits and underscores, no digit first, no double underscore first`},
		{"label_taken", func(o *Options) { o.SiteLabels = []string{"model"} }, `create metrics exporter: site label "model": inferbeat_target_info has it already`},
		{"label_twice", func(o *Options) { o.SiteLabels = []string{"gpu", "gpu"} }, `create metrics exporter: site label "gpu": inferbeat_target_info has it already`},
		{"labels_too_many", func(o *Options) { o.SiteLabels = []string{"a", "b", "c", "d", "e", "f"} }, "create metrics exporter: 6 site labels: at most 5 are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := valid
			tt.change(&o)
			if _, err := New(o); fmt.Sprint(err) != tt.want {
				t.Errorf("New() = %v, want %v", err, tt.want)
			}
		})
	}
}

// Whole targets fit or do not; beyond the number of pairs from which on histograms have
// one form alone more targets may fit than before it.
func TestFit(t *testing.T) {
	spec := probes.Spec{Probe: "p", Kind: probes.Load}
	status := func(target string, probe string) probes.PairStatus {
		return probes.PairStatus{Pair: probes.Pair{Target: target, Probe: probe}, Kind: probes.Load, Spec: spec}
	}
	fixed := []probes.PairStatus{status("fixed", "p")}
	var more [][]probes.PairStatus
	for i := range 300 {
		pairs := []probes.PairStatus{status(fmt.Sprint("t", i), "p")}
		if i%2 == 0 {
			pairs = append(pairs, status(fmt.Sprint("t", i), "q"))
		}
		more = append(more, pairs)
	}
	for _, mode := range histogramModes {
		// By trial: the largest number that fits.
		series := make([]int, len(more)+1)
		for n := range series {
			series[n] = EstimateSeries(slices.Concat(fixed, slices.Concat(more[:n]...)), mode)
		}
		for _, limit := range []int{1, series[0] - 1, series[0], series[1] - 1, series[1], series[100], series[132], series[133], series[134], series[140], series[200] + 1, series[299], series[300], 1 << 40} {
			want := 0
			for n, s := range series {
				if s <= limit {
					want = n
				}
			}
			if got := Fit(fixed, more, mode, limit); got != want {
				t.Errorf("%s, limit %d: %d targets fit, want %d", mode, limit, got, want)
			}
		}
	}
	if got := Fit(fixed, more, HistogramsAuto, 0); got != len(more) {
		t.Errorf("without a limit: got %d", got)
	}
}
