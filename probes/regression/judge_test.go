package regression

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// runOn is a valid load of 1000 requests and 200 tokens each, with a TPOT.
func runOn(at time.Time, tpot float64) *probes.Run {
	d := func(x float64) probes.Distribution {
		return probes.Distribution{N: 1000, Mean: x, P50: x, P90: x * 1.1, P95: x * 1.2, P99: 2 * x, Max: 3 * x}
	}
	return &probes.Run{
		Start: at, End: at.Add(10 * time.Minute), Complete: true, Result: probes.RunSuccess,
		Spec:        probes.Spec{Probe: "nightly", Kind: probes.Load, Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8}, Workload: probes.Workload{Cache: probes.CacheCold}},
		Validity:    probes.Validity{State: probes.Valid},
		Fingerprint: "a",
		Facts:       probes.ServerFacts{Engine: "vllm", Version: "0.9.1"},
		Summary: probes.Summary{
			Requests: 1000, Sent: 1000, Completed: 1000, OutputTokens: probes.Known(200_000),
			OutputThroughput: probes.Known(1600.0), RequestThroughput: probes.Known(8.0),
			Latency: map[probes.Signal]probes.Distribution{probes.TTFT: d(0.2), probes.TPOT: d(tpot), probes.E2E: d(0.2 + 199*tpot)},
		},
	}
}

// samplesOf are those of runs on one night after the other.
func samplesOf(t *testing.T, tpots []float64, edit func(i int, run *probes.Run)) []Sample {
	t.Helper()
	var out []Sample
	for i, v := range tpots {
		run := runOn(day(i), v)
		if edit != nil {
			edit(i, run)
		}
		s, ok := SampleOf(run)
		if !ok {
			continue
		}
		out = append(out, s)
	}
	return out
}

func TestBelieved(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*probes.Run)
		want string // code of the reason against; empty: believed
	}{
		{"valid", func(*probes.Run) {}, ""},
		{"imported", func(r *probes.Run) { r.Source = "bench_serving" }, "imported"},
		{"cut", func(r *probes.Run) { r.Complete = false }, "incomplete"},
		{"suspect", func(r *probes.Run) {
			r.Validity = probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "approx_input_lengths"}, {Code: "client_late"}}}
		}, "client_late"},
		{"suspect_every_night", func(r *probes.Run) {
			r.Validity = probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: "approx_input_lengths"}}}
		}, ""},
		{"invalid", func(r *probes.Run) {
			r.Validity = probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: "client_saturated"}}}
		}, "client_saturated"},
		{"nobody_knows", func(r *probes.Run) { r.Validity = probes.Validity{} }, "invalid"},
	} {
		run := runOn(day(0), 0.02)
		tt.edit(run)
		reason, ok := Believed(run)
		if ok != (tt.want == "") || reason.Code != tt.want {
			t.Errorf("%s: believed = %v for %q, want %q", tt.name, ok, reason.Code, tt.want)
		}
		if _, sampled := SampleOf(run); sampled != ok {
			t.Errorf("%s: sampled = %v, want %v", tt.name, sampled, ok)
		}
	}
}

// TestValues: which numbers of which kind of run are judged over nights.
func TestValues(t *testing.T) {
	all := map[probes.RegressionMetric]float64{
		probes.MetricTTFTp50: 0.2, probes.MetricTTFTp99: 0.4, probes.MetricTPOTp50: 0.02, probes.MetricTPOTp99: 0.04, probes.MetricE2Ep50: 0.2 + 199*0.02,
	}
	without := func(metrics ...probes.RegressionMetric) map[probes.RegressionMetric]float64 {
		out := map[probes.RegressionMetric]float64{}
		for m, v := range all {
			if !slices.Contains(metrics, m) {
				out[m] = v
			}
		}
		return out
	}
	with := func(more map[probes.RegressionMetric]float64) map[probes.RegressionMetric]float64 {
		out := without()
		for m, v := range more {
			out[m] = v
		}
		return out
	}
	throughputs := map[probes.RegressionMetric]float64{probes.MetricOutputThroughput: 1600, probes.MetricRequestThroughput: 8}
	for _, tt := range []struct {
		name string
		edit func(*probes.Run)
		want map[probes.RegressionMetric]float64
	}{
		{"at_a_rate", func(*probes.Run) {}, all},
		{"closed_loop", func(r *probes.Run) { r.Spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, MaxConcurrency: 8} }, with(throughputs)},
		{"burst", func(r *probes.Run) { r.Spec.Arrivals = probes.Arrivals{Process: probes.Burst, Rate: math.Inf(1)} }, with(throughputs)},
		{"peak", func(r *probes.Run) { r.Spec.Kind = probes.Peak }, throughputs},
		{"replay", func(r *probes.Run) { r.Spec.Kind, r.Spec.Arrivals.Process = probes.Replay, probes.FromTrace }, all},
		{"short_answers", func(r *probes.Run) { r.Summary.OutputTokens = probes.Known(99_999) }, without(probes.MetricTPOTp50, probes.MetricTPOTp99)},
		{"nobody_counted", func(r *probes.Run) { r.Summary.OutputTokens = probes.Optional[int]{} }, without(probes.MetricTPOTp50, probes.MetricTPOTp99)},
		// Half of the hundredth that a p99 leaves out may be missing, and a hundredth of all.
		{"few_failed", func(r *probes.Run) { r.Summary.Completed, r.Summary.Failed = 995, 5 }, all},
		{"some_failed", func(r *probes.Run) { r.Summary.Completed, r.Summary.Failed = 994, 6 }, without(probes.MetricTTFTp99, probes.MetricTPOTp99)},
		{"many_failed", func(r *probes.Run) { r.Summary.Completed, r.Summary.Failed = 989, 11 }, map[probes.RegressionMetric]float64{}},
		{"few_samples", func(r *probes.Run) {
			for signal, d := range r.Summary.Latency {
				d.N = 99
				r.Summary.Latency[signal] = d
			}
		}, without(probes.MetricTTFTp99, probes.MetricTPOTp99)},
		{"speculation", func(r *probes.Run) { r.Summary.AcceptLength = probes.Known(2.8) }, with(map[probes.RegressionMetric]float64{probes.MetricAcceptLength: 2.8})},
		{"cache_of_a_cold_workload", func(r *probes.Run) { r.Summary.Server.PrefixCache.HitRatio = probes.Known(0.02) }, all},
		{"cache", func(r *probes.Run) {
			r.Spec.Workload.Cache, r.Summary.Server.PrefixCache.HitRatio = probes.CacheShared, probes.Known(0.7)
		}, with(map[probes.RegressionMetric]float64{probes.MetricPrefixCacheHits: 0.7})},
		{"cache_never_hit", func(r *probes.Run) {
			r.Spec.Workload.Cache, r.Summary.Server.PrefixCache.HitRatio = probes.CacheShared, probes.Known(0.0)
		}, with(map[probes.RegressionMetric]float64{probes.MetricPrefixCacheHits: 0.001})},
		{"sweep", func(r *probes.Run) {
			r.Spec.Kind, r.Capacity = probes.Sweep, probes.Capacity{Rate: probes.Known(12.5), Bracketed: true}
		}, map[probes.RegressionMetric]float64{probes.MetricCapacity: 12.5}},
		{"sweep_with_a_lower_bound", func(r *probes.Run) {
			r.Spec.Kind, r.Capacity = probes.Sweep, probes.Capacity{Rate: probes.Known(12.5)}
		}, map[probes.RegressionMetric]float64{}},
	} {
		run := runOn(day(0), 0.02)
		tt.edit(run)
		s, ok := SampleOf(run)
		if !ok {
			t.Fatalf("%s: not believed", tt.name)
		}
		got := map[probes.RegressionMetric]float64{}
		for _, metric := range probes.RegressionMetrics {
			if v, ok := s.Value(metric).Get(); ok {
				got[metric] = v
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestFailuresOfRepeats: those of all repeats that can be believed count.
func TestFailuresOfRepeats(t *testing.T) {
	run := runOn(day(0), 0.02)
	run.Summary.Repeats = probes.Repeats{Runs: 3, Used: 2}
	for i, failed := range []int{3, 0, 500} {
		part := runOn(day(0), 0.02)
		part.Summary.Completed, part.Summary.Failed = 1000-failed, failed
		if i == 2 {
			part.Validity.State = probes.Invalid
		}
		run.Parts = append(run.Parts, probes.Part{Run: part})
	}
	s, _ := SampleOf(run)
	if s.Failed != 3 || s.Judged != 2000 || s.Repeats != 2 {
		t.Errorf("%d of %d failed in %d repeats, want 3 of 2000 in 2", s.Failed, s.Judged, s.Repeats)
	}
}

// TestNightsAreDays: runs of one day of the probe's own time zone are one night, whose
// value is their median.
func TestNightsAreDays(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	var samples []Sample
	for _, r := range []struct {
		at   string
		tpot float64
	}{
		{"2026-03-01T22:30:00Z", 0.02}, {"2026-03-01T23:30:00Z", 0.04}, {"2026-03-02T10:00:00Z", 0.03}, {"2026-03-02T11:00:00Z", 0.09},
	} {
		s, _ := SampleOf(runOn(at(r.at), r.tpot))
		samples = append(samples, s)
	}
	want := []Night{
		{At: at("2026-03-01T22:30:00Z"), Value: 0.02, Runs: 1, Facts: samples[0].Facts},
		{At: at("2026-03-01T23:30:00Z"), Value: 0.04, Runs: 3, Facts: samples[0].Facts},
	}
	if diff := cmp.Diff(want, Nights(samples, probes.MetricTPOTp50, berlin)); diff != "" {
		t.Errorf("nights (-want +got):\n%s", diff)
	}
}

func regressionSpec() *probes.Spec {
	spec := runOn(day(0), 0.02).Spec
	spec.Regression = probes.Regression{Enabled: true, Metrics: []probes.RegressionMetric{probes.MetricTPOTp50}}
	return &spec
}

func TestJudge(t *testing.T) {
	tpots := slices.Concat(wave(0.02, 40), wave(0.024, 3))
	samples := samplesOf(t, tpots, func(i int, run *probes.Run) {
		if i >= 40 {
			run.Facts.Version = "0.9.2"
		}
	})
	got := Judge(samples, Options{Spec: regressionSpec()})
	if len(got.Changes) != 1 {
		t.Fatalf("%d changes, want 1", len(got.Changes))
	}
	c := got.Changes[0]
	if c.State != probes.ChangeWorse || !c.Onset.Equal(day(40)) || c.BaselineRuns != 27 || !c.BaselineAt.Equal(day(0)) {
		t.Errorf("state %s since %s, baseline of %d since %s", c.State, c.Onset, c.BaselineRuns, c.BaselineAt)
	}
	near := func(name string, got probes.Optional[float64], want float64) {
		if v, ok := got.Get(); !ok || math.Abs(v-want) > 1e-3 {
			t.Errorf("%s = %v (known: %v), want %v", name, v, ok, want)
		}
	}
	near("baseline", c.Baseline, 0.02)
	near("effect", c.Effect, 0.212) // exp(0.01) of the pattern's first two nights
	if low, high := c.Low.Or(0), c.High.Or(0); low >= 0.212 || high <= 0.212 || low < 0.15 || high > 0.28 {
		t.Errorf("interval %v to %v, want one around 0.212", low, high)
	}
	text := c.Reasons[0].Text
	if c.Reasons[0].Code != probes.ReasonRegression || !strings.Contains(text, "tpot_p50 is 21.2 %") || !strings.Contains(text, "since 2026-02-10 (major)") {
		t.Errorf("first reason = %+v", c.Reasons[0])
	}
	if want := (probes.Reason{Code: probes.ReasonVersionChanged, Text: "between the last night before and the first night of it: version 0.9.1 -> 0.9.2"}); c.Reasons[1] != want {
		t.Errorf("second reason = %+v, want %+v", c.Reasons[1], want)
	}
	n := got.News[0]
	if len(got.News) != 1 || n.Kind != Regressed || !n.At.Equal(day(41)) || !n.Since.Equal(day(40)) || !n.Before.Equal(day(39)) {
		t.Errorf("news = %+v", got.News)
	}
	if want := []probes.FactChange{{Name: "version", Before: "0.9.1", After: "0.9.2"}}; !slices.Equal(n.Renamed, want) {
		t.Errorf("renamed = %v, want %v", n.Renamed, want)
	}
}

// TestJudgeStates: what each state says, and what it leaves open.
func TestJudgeStates(t *testing.T) {
	tests := []struct {
		name    string
		tpots   []float64
		edit    func(int, *probes.Run)
		options func(*Options)
		state   probes.ChangeState
		codes   []string
		effect  float64 // NaN: unknown
	}{
		{name: "learning", tpots: wave(0.02, 5), state: probes.ChangeLearning, codes: []string{"too_few_nights"}, effect: math.NaN()},
		{name: "short_answers", tpots: wave(0.02, 20), edit: func(_ int, r *probes.Run) { r.Summary.OutputTokens = probes.Known(5000) },
			state: probes.ChangeLearning, codes: []string{"no_nights"}, effect: math.NaN()},
		{name: "none", tpots: wave(0.02, 28), state: probes.ChangeNone, effect: 0},
		{name: "odd", tpots: append(wave(0.02, 27), 0.023), state: probes.ChangeSuspected, codes: []string{"odd_night"}, effect: 0.15},
		{name: "same_version", tpots: slices.Concat(wave(0.02, 40), wave(0.024, 3)), state: probes.ChangeWorse, codes: []string{"regression", "version_unchanged"}, effect: 0.212},
		{name: "silent_server", tpots: slices.Concat(wave(0.02, 40), wave(0.024, 3)), edit: func(_ int, r *probes.Run) { r.Facts = probes.ServerFacts{} },
			state: probes.ChangeWorse, codes: []string{"regression"}, effect: 0.212},
		{name: "silent_since", tpots: slices.Concat(wave(0.02, 40), wave(0.024, 3)), edit: func(i int, r *probes.Run) {
			if i >= 40 {
				r.Facts = probes.ServerFacts{}
			}
		}, state: probes.ChangeWorse, codes: []string{"regression"}, effect: 0.212},
		{name: "silent_before", tpots: slices.Concat(wave(0.02, 40), wave(0.024, 3)), edit: func(i int, r *probes.Run) {
			if i < 40 {
				r.Facts = probes.ServerFacts{}
			}
		}, state: probes.ChangeWorse, codes: []string{"regression"}, effect: 0.212},
		{name: "better", tpots: slices.Concat(wave(0.02, 40), wave(0.016, 4)), state: probes.ChangeBetter, codes: []string{"improvement", "version_unchanged"}, effect: -0.2},
		{name: "smaller_than_wanted", tpots: slices.Concat(wave(0.02, 40), wave(0.024, 20)), options: func(o *Options) {
			o.Spec.Regression.MinEffects = map[probes.RegressionMetric]float64{probes.MetricTPOTp50: 0.5}
		}, state: probes.ChangeNone, effect: 0.224},
		{name: "new_environment", tpots: slices.Concat(wave(0.02, 40), wave(0.03, 4)), edit: func(i int, r *probes.Run) {
			if i >= 40 {
				r.Fingerprint = "b"
			}
		}, state: probes.ChangeLearning, codes: []string{"too_few_nights", "environment_changed"}, effect: math.NaN()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Spec: regressionSpec()}
			if tt.options != nil {
				tt.options(&o)
			}
			got := Judge(samplesOf(t, tt.tpots, tt.edit), o)
			if len(got.Changes) != 1 {
				t.Fatalf("%d changes, want 1", len(got.Changes))
			}
			c := got.Changes[0]
			var codes []string
			for _, r := range c.Reasons {
				codes = append(codes, r.Code)
			}
			if c.State != tt.state || !slices.Equal(codes, tt.codes) {
				t.Errorf("%s %q, want %s %q", c.State, codes, tt.state, tt.codes)
			}
			effect, known := c.Effect.Get()
			if known == math.IsNaN(tt.effect) || known && math.Abs(effect-tt.effect) > 0.011 {
				t.Errorf("effect = %v (known: %v), want %v", effect, known, tt.effect)
			}
			if c.SmallestStep.IsKnown() != known {
				t.Errorf("smallest step known: %v, want %v", c.SmallestStep.IsKnown(), known)
			}
		})
	}
}

// TestHigherIsBetter: a capacity that falls by 15 % is 15 % worse, not 17.6.
func TestHigherIsBetter(t *testing.T) {
	spec := probes.Spec{Kind: probes.Sweep, Regression: probes.Regression{Enabled: true}}
	var samples []Sample
	for i, v := range slices.Concat(wave(20, 40), wave(17, 3)) {
		s := Sample{At: day(i), Fingerprint: "a"}
		s.Set(probes.MetricCapacity, v)
		samples = append(samples, s)
	}
	got := Judge(samples, Options{Spec: &spec})
	if len(got.Changes) != 1 || got.Changes[0].Metric != probes.MetricCapacity || got.Changes[0].State != probes.ChangeWorse {
		t.Fatalf("changes = %+v, want a worse capacity", got.Changes)
	}
	c := got.Changes[0]
	if e := c.Effect.Or(0); math.Abs(e-0.1415) > 1e-3 || c.Low.Or(0) > e || c.High.Or(0) < e {
		t.Errorf("effect %v, %v to %v, want 0.1415 within", e, c.Low.Or(0), c.High.Or(0))
	}
	if n := got.News[0]; math.Abs(n.Effect.Or(0)-c.Effect.Or(0)) > 1e-12 || n.Low.Or(0) > n.Effect.Or(0) || n.High.Or(0) < n.Effect.Or(0) {
		t.Errorf("news %+v, want the same effect", n)
	}
}

// TestHourly: hours bring the news of a day that the nights cannot judge yet.
func TestHourly(t *testing.T) {
	n := newNoise(3, 0.01)
	midnight := firstNight.Add(-2 * time.Hour)
	var samples []Sample
	for h := range 24 * 14 {
		tpot := 0.02 * math.Exp(n.night())
		if h >= 24*14-14 {
			tpot *= 1.3
		}
		s, _ := SampleOf(runOn(midnight.Add(time.Duration(h)*time.Hour), tpot))
		samples = append(samples, s)
	}
	o := Options{Spec: regressionSpec()}
	if c := Judge(samples, o).Changes[0]; c.State == probes.ChangeWorse {
		t.Errorf("the nights alone say %s, which one day cannot make them", c.State)
	}
	o.Hourly = true
	c := Judge(samples, o).Changes[0]
	if c.State != probes.ChangeWorse || c.Reasons[1].Code != probes.ReasonHourly || !c.Onset.Equal(midnight.Add((24*14-14)*time.Hour)) {
		t.Errorf("with hours: %s since %s, %+v", c.State, c.Onset, c.Reasons)
	}
}

// TestOdd: the first run of a night that is far from what is expected is run again.
func TestOdd(t *testing.T) {
	history := samplesOf(t, wave(0.02, 30), nil)
	regressed := samplesOf(t, slices.Concat(wave(0.02, 40), wave(0.024, 6)), nil)
	for _, tt := range []struct {
		name    string
		earlier []Sample
		tpot    float64
		want    bool
	}{
		{"usual", history, 0.0203, false},
		{"slow", history, 0.0215, true},
		{"fast", history, 0.0185, true},
		{"learning", history[:8], 0.04, false},
		{"regressed_as_before", regressed, 0.0242, false},
		{"regressed_and_back", regressed, 0.02, true},
	} {
		first, _ := SampleOf(runOn(day(60), tt.tpot))
		got := Odd(tt.earlier, &first, Options{Spec: regressionSpec()})
		if want := []probes.RegressionMetric{probes.MetricTPOTp50}; tt.want != slices.Equal(got, want) {
			t.Errorf("%s: odd = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSeverity(t *testing.T) {
	for effect, want := range map[float64]string{0.04: "minor", 0.10: "major", 0.25: "major", 0.26: "critical"} {
		if got := Severity(effect); got != want {
			t.Errorf("severity of %v = %s, want %s", effect, got, want)
		}
	}
}
