package compare

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

// side makes runs whose latencies are base times each factor.
func side(factors ...float64) []*probes.Run {
	var runs []*probes.Run
	for _, f := range factors {
		d := func(x float64) probes.Distribution {
			return probes.Distribution{N: 1000, Mean: x, P50: x, P90: 2 * x, P99: 3 * x}
		}
		runs = append(runs, &probes.Run{
			Target: probes.Target{Connection: probes.Connection{Policy: probes.ConnectionReuse}},
			Spec:   loadSpec(),
			Facts: probes.ServerFacts{
				Weights: "llama-70b", Quantization: "fp8", DType: "bfloat16", Accelerator: "H100", AttentionBackend: "fa3", TensorParallel: probes.Known(4),
			},
			WorkloadVersion: "random-1",
			Summary: probes.Summary{
				Latency: map[probes.Signal]probes.Distribution{
					probes.TTFT: d(0.1 * f), probes.TPOT: d(0.02 * f), probes.E2E: d(2 * f),
				},
				SuccessRatio: probes.Known(1.0), OutputThroughput: probes.Known(1000 / f), RequestThroughput: probes.Known(8.0),
			},
		})
	}
	return runs
}

func loadSpec() probes.Spec {
	return probes.Spec{
		Kind: probes.Paired, Requests: 1000, Pairs: 10, Warmup: probes.Warmup{Duration: 30 * time.Second}, Gate: &probes.Gate{},
		Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8, CV: 1},
		Workload: probes.Workload{Dataset: "random", InputTokens: 512, OutputTokens: 128, Cache: probes.CacheCold, Sampling: probes.Sampling{IgnoreEOS: true, Stream: true}},
	}
}

// steady is a side with 1 % of scatter around a factor.
func steady(factor float64, n int) []*probes.Run {
	factors := make([]float64, n)
	for i := range factors {
		factors[i] = factor * (1 + 0.01*float64((i*3)%n-n/2)/float64(n/2))
	}
	return side(factors...)
}

func judgeOf(t *testing.T, spec probes.Spec, a, b []*probes.Run) (probes.GateAnswer, []probes.Judgement, probes.Grounds) {
	t.Helper()
	return Judge(Input{Reference: a, Candidate: b, Spec: &spec})
}

func find(t *testing.T, judgements []probes.Judgement, name probes.RegressionMetric) probes.Judgement {
	t.Helper()
	for _, j := range judgements {
		if j.Metric == name {
			return j
		}
	}
	t.Fatalf("%s was not judged", name)
	return probes.Judgement{}
}

func codes(g probes.Grounds) string {
	var out []string
	for _, r := range g.Reasons {
		out = append(out, r.Code)
	}
	return strings.Join(out, " ")
}

func TestLooks(t *testing.T) {
	for pairs, want := range map[int][]Look{
		5: {{5, 0.02}}, 6: {{5, 0.02}, {6, 0.02}}, 7: {{5, 0.02}, {7, 0.02}}, 8: {{5, 0.02}, {7, 0.02}, {8, 0.02}},
		10: {{5, 0.02}, {7, 0.02}, {10, 0.025}}, 20: {{5, 0.02}, {7, 0.02}, {20, 0.025}},
	} {
		if diff := cmp.Diff(want, Looks(pairs)); diff != "" {
			t.Errorf("looks of %d pairs (-want +got):\n%s", pairs, diff)
		}
	}
}

// A judgement spends the error of the look that its pairs belong to, and no look twice.
func TestJudgeSpendsTheLooksError(t *testing.T) {
	for pairs, want := range map[int]float64{4: 0.02, 5: 0.02, 6: 0.02, 7: 0.02, 8: 0.025, 10: 0.025, 11: 0.025} {
		if _, _, grounds := judgeOf(t, loadSpec(), steady(1, pairs), steady(1, pairs)); grounds.Alpha != want || grounds.Pairs != pairs {
			t.Errorf("%d pairs of 10: error %v of %d pairs, want %v", pairs, grounds.Alpha, grounds.Pairs, want)
		}
	}
}

func TestMetricValue(t *testing.T) {
	ratio, tpot := -1, -1
	for i := range Metrics {
		switch Metrics[i].Name {
		case probes.MetricSuccessRatio:
			ratio = i
		case probes.MetricTPOTp50:
			tpot = i
		}
	}
	nothing := probes.Optional[float64]{}
	for _, tt := range []struct {
		metric int
		value  float64
		want   probes.Optional[float64]
	}{
		{tpot, 0.02, probes.Known(0.02)}, {tpot, 0, nothing}, {tpot, -1, nothing}, {tpot, math.NaN(), nothing}, {tpot, math.Inf(1), nothing},
		{ratio, 1, probes.Known(1.0)}, {ratio, 0, probes.Known(0.0)}, {ratio, math.NaN(), nothing}, {ratio, math.Inf(-1), nothing},
	} {
		run := &probes.Run{Summary: probes.Summary{SuccessRatio: probes.Known(tt.value), Latency: map[probes.Signal]probes.Distribution{probes.TPOT: {N: 1, P50: tt.value}}}}
		if got := Metrics[tt.metric].Value(run); got != tt.want {
			t.Errorf("%s of %v: got %v, want %v", Metrics[tt.metric].Name, tt.value, got, tt.want)
		}
	}
}

func TestJudge(t *testing.T) {
	secondary := func(s *probes.Spec) { s.Gate.Primary = []probes.RegressionMetric{probes.MetricSuccessRatio} }
	for _, tt := range []struct {
		name   string
		change func(*probes.Spec)
		a, b   []*probes.Run
		want   probes.GateAnswer
		codes  string
	}{
		{"equal sides", nil, steady(1, 5), steady(1, 5), probes.GatePass, ""},
		{"a fifth slower", nil, steady(1, 5), steady(1.2, 5), probes.GateRegressed, "worse worse worse"},
		{"a fifth faster", nil, steady(1, 5), steady(0.8, 5), probes.GatePass, ""},
		{"surely worse by less than half of the margin", nil, steady(1, 10), steady(1.021, 10), probes.GatePass, ""},
		{"surely worse by half of the margin of one metric", nil, steady(1, 10), steady(1.03, 10), probes.GateRegressed, "worse"},
		{"noise of 6 % hides 5 %", nil, side(0.94, 1.06, 1, 0.95, 1.07), side(1.06, 0.94, 1, 1.07, 0.95), probes.GateUndecided, "not_decided not_decided not_decided"},
		{"and still does at the last look", func(s *probes.Spec) { s.Pairs = 5 }, side(0.94, 1.06, 1, 0.95, 1.07), side(1.06, 0.94, 1, 1.07, 0.95),
			probes.GateInconclusive, "not_decided not_decided not_decided"},
		{"but not when the margin is wide", func(s *probes.Spec) {
			s.Margins = map[probes.RegressionMetric]float64{probes.MetricTTFTp50: 0.3, probes.MetricTPOTp50: 0.3, probes.MetricE2Ep90: 0.3}
		}, side(0.94, 1.06, 1, 0.95, 1.07), side(1.06, 0.94, 1, 1.07, 0.95), probes.GatePass, ""},
		{"a secondary metric never fails alone", secondary, steady(1, 5), steady(1.5, 5), probes.GatePass,
			"secondary_worse secondary_worse secondary_worse secondary_worse secondary_worse secondary_worse secondary_worse"},
		{"four pairs are no judgement", nil, steady(1, 4), steady(1.2, 4), probes.GateUndecided, "too_few_pairs"},
		{"and remain none", func(s *probes.Spec) { s.Pairs = 4 }, steady(1, 4), steady(1.2, 4), probes.GateInvalid, "too_few_pairs"},
		{"nothing is known", func(s *probes.Spec) { s.Gate.Primary = []probes.RegressionMetric{probes.MetricCapacity} },
			steady(1, 5), steady(1, 5), probes.GateInvalid, "metric_unknown nothing_to_judge"},
		{"one asked metric is not known", func(s *probes.Spec) {
			s.Pairs, s.Gate.Primary = 5, []probes.RegressionMetric{probes.MetricTTFTp50, probes.MetricAcceptLength}
		}, steady(1, 5), steady(1, 5), probes.GateInconclusive, "metric_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := loadSpec()
			if tt.change != nil {
				tt.change(&spec)
			}
			answer, _, grounds := judgeOf(t, spec, tt.a, tt.b)
			if answer != tt.want || codes(grounds) != tt.codes {
				t.Errorf("got %s with %q, want %s with %q: %v", answer, codes(grounds), tt.want, tt.codes, grounds.Reasons)
			}
		})
	}
}

func TestJudgementSaysEverything(t *testing.T) {
	spec := loadSpec()
	a := side(1, 1.01, 1.02, 1.03, 1.04)
	b := side(1.2, 1.21, 1.22, 1.23, 1.24)
	answer, judgements, grounds := judgeOf(t, spec, a, b)
	if answer != probes.GateRegressed {
		t.Fatalf("answer %s, want regressed", answer)
	}
	// All differences of logarithms, the third from either end and the median.
	var d []float64
	for _, x := range []float64{1, 1.01, 1.02, 1.03, 1.04} {
		for _, y := range []float64{1.2, 1.21, 1.22, 1.23, 1.24} {
			d = append(d, math.Log(y/x))
		}
	}
	ordered := differences([]float64{0}, d)
	tpot := find(t, judgements, probes.MetricTPOTp50)
	want := probes.Judgement{
		Metric: probes.MetricTPOTp50, Answer: probes.GateRegressed, Primary: true, N: 5,
		Reference: 0.02 * 1.02, Candidate: 0.02 * 1.22, Margin: 0.05,
		Effect: probes.Known(math.Expm1(ordered[12])), Low: probes.Known(math.Expm1(ordered[2])), High: probes.Known(math.Expm1(ordered[22])),
		Surely: probes.Known(math.Expm1(ordered[0])), // of four primary metrics the first difference is sure
		P:      probes.Known(2. / 252),
	}
	near := cmp.Comparer(func(x, y probes.Optional[float64]) bool {
		a, okA := x.Get()
		b, okB := y.Get()
		return okA == okB && math.Abs(a-b) < 1e-12
	})
	if diff := cmp.Diff(want, tpot, near, cmpopts.EquateApprox(0, 1e-12), cmpopts.IgnoreFields(probes.Judgement{}, "Detectable")); diff != "" {
		t.Errorf("tpot_p50 (-want +got):\n%s", diff)
	}
	visible := math.Expm1(2.49 * scatter(logs(1, 1.01, 1.02, 1.03, 1.04), logs(1.2, 1.21, 1.22, 1.23, 1.24)) * math.Sqrt(0.4))
	if got := tpot.Detectable.Or(0); math.Abs(got-visible) > 1e-12 || got < 0.01 || got > 0.03 {
		t.Errorf("detectable %v, want %v", got, visible)
	}
	throughput := find(t, judgements, probes.MetricOutputThroughput)
	if throughput.Primary || !throughput.HigherBetter || math.Abs(throughput.Effect.Or(0)-tpot.Effect.Or(1)) > 1e-12 {
		t.Errorf("a throughput that fell as the times rose is %+v", throughput)
	}
	if got, want := throughput.Change(throughput.Effect.Or(0)), math.Exp(-ordered[12])-1; math.Abs(got-want) > 1e-12 {
		t.Errorf("the throughput has changed by %v, want %v", got, want)
	}
	if diff := cmp.Diff(probes.Grounds{Pairs: 5, Looks: []int{5, 7, 10}, Alpha: 0.02}, grounds, cmpopts.IgnoreFields(probes.Grounds{}, "Reasons")); diff != "" {
		t.Errorf("grounds (-want +got):\n%s", diff)
	}
	wantText := "tpot_p50 is 19.61 % worse (96 % interval from 16.50 % worse to 22.77 % worse), and 5.00 % are allowed"
	if got := grounds.Reasons[1].Text; got != wantText {
		t.Errorf("reason %q, want %q", got, wantText)
	}
}

func logs(values ...float64) []float64 {
	for i, v := range values {
		values[i] = math.Log(v)
	}
	return values
}

func TestErrorsAreJudgedInPoints(t *testing.T) {
	with := func(ratios ...float64) []*probes.Run {
		runs := steady(1, len(ratios))
		for i, r := range ratios {
			runs[i].Summary.SuccessRatio = probes.Known(r)
		}
		return runs
	}
	healthy := with(1, 1, 1, 1, 1, 1, 1)
	for _, tt := range []struct {
		name string
		b    []*probes.Run
		want probes.GateAnswer
	}{
		{"no error on either side", with(1, 1, 1, 1, 1), probes.GatePass},
		{"two in a thousand fail, and five may", with(0.998, 0.998, 0.998, 0.998, 0.998), probes.GatePass},
		{"two per cent fail", with(0.98, 0.98, 0.98, 0.98, 0.98), probes.GateRegressed},
		{"one bad run of five", with(1, 1, 1, 0.9, 1), probes.GateUndecided},
		{"one bad run of seven", with(1, 1, 1, 0.9, 1, 1, 1), probes.GatePass},
	} {
		_, judgements, _ := judgeOf(t, loadSpec(), healthy[:len(tt.b)], tt.b)
		if got := find(t, judgements, probes.MetricSuccessRatio).Answer; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	// A candidate that answers nothing has no latency, and is refused all the same.
	dead := steady(1, 5)
	for _, r := range dead {
		r.Summary = probes.Summary{SuccessRatio: probes.Known(0.0)}
	}
	answer, judgements, grounds := judgeOf(t, loadSpec(), healthy[:5], dead)
	if answer != probes.GateRegressed {
		t.Errorf("a candidate that answers nothing: %s, want regressed", answer)
	}
	if got := find(t, judgements, probes.MetricSuccessRatio).Effect; !got.Equal(probes.Known(1.0)) {
		t.Errorf("it is worse by %v, want all points", got)
	}
	if got, want := codes(grounds), "metric_unknown metric_unknown metric_unknown worse"; got != want {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

func TestPrimary(t *testing.T) {
	closed := loadSpec()
	closed.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), MaxConcurrency: 8}
	chosen := loadSpec()
	chosen.Gate.Primary = []probes.RegressionMetric{probes.MetricTTFTp99}
	latencies := []probes.RegressionMetric{probes.MetricTTFTp50, probes.MetricTPOTp50, probes.MetricE2Ep90, probes.MetricSuccessRatio}
	for _, tt := range []struct {
		name string
		spec probes.Spec
		want []probes.RegressionMetric
	}{
		{"a rate", loadSpec(), latencies},
		{"a closed loop, whose throughput is the target's", closed, append(latencies[:4:4], probes.MetricOutputThroughput)},
		{"chosen", chosen, []probes.RegressionMetric{probes.MetricTTFTp99}},
		{"a sweep", probes.Spec{Kind: probes.Sweep}, []probes.RegressionMetric{probes.MetricCapacity}},
		{"a peak", probes.Spec{Kind: probes.Peak}, []probes.RegressionMetric{probes.MetricOutputThroughput, probes.MetricSuccessRatio}},
	} {
		if diff := cmp.Diff(tt.want, Primary(&tt.spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if len(Primary(&tt.spec)) > 5 {
			t.Errorf("%s: %d metrics decide, and five pairs have error for five", tt.name, len(Primary(&tt.spec)))
		}
	}
}

func TestCapacityIsJudged(t *testing.T) {
	sweeps := func(rates ...float64) (runs []*probes.Run) {
		for _, r := range rates {
			runs = append(runs, &probes.Run{Capacity: probes.Capacity{Rate: probes.Known(r), Bracketed: true}})
		}
		return runs
	}
	spec := probes.Spec{Kind: probes.Sweep, Pairs: 5}
	answer, judgements, _ := judgeOf(t, spec, sweeps(10, 10.1, 9.9, 10.2, 9.8), sweeps(8, 8.1, 7.9, 8.2, 7.8))
	if answer != probes.GateRegressed {
		t.Errorf("a capacity of 8 instead of 10: %s, want regressed", answer)
	}
	if got := judgements[0].Effect.Or(0); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("effect %v, want 0.25: the reference takes a quarter more", got)
	}
	bound := sweeps(10, 10, 10, 10, 10)
	for _, r := range bound {
		r.Capacity.Bracketed = false
	}
	if answer, _, _ := judgeOf(t, spec, bound, bound); answer != probes.GateInvalid {
		t.Errorf("lower bounds of a capacity: %s, want invalid", answer)
	}
}

func TestCanRefuse(t *testing.T) {
	for _, tt := range []struct {
		pairs, primaries int
		want             bool
	}{{4, 1, true}, {4, 2, false}, {5, 5, true}, {5, 6, false}, {6, 12, true}, {10, 12, true}} {
		if got := CanRefuse(tt.pairs, tt.primaries); got != tt.want {
			t.Errorf("%d pairs, %d metrics: %t, want %t", tt.pairs, tt.primaries, got, tt.want)
		}
	}
}
