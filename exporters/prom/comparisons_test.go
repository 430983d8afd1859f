package prom

import (
	"slices"
	"testing"
	"time"

	"github.com/inferbeat/inferbeat/exporters/catalog"
	"github.com/inferbeat/inferbeat/probes"
)

// compared is a comparison with a result: answers of several kinds, and metrics that
// nobody judged.
func compared() probes.ComparisonStatus {
	return probes.ComparisonStatus{
		Name: "gate", Reference: "prod", Candidate: "staging", StaleAfter: 48 * time.Hour,
		Result: &probes.Run{End: epoch, Comparison: &probes.Comparison{
			Metrics: []probes.Contrast{
				{Name: "ttft_p50_seconds", Ratio: probes.Known(1.25)}, {Name: "tpot_p50_seconds", Ratio: probes.Known(0.9)},
				{Name: "output_throughput", Ratio: probes.Known(1.0)}, {Name: "accept_length"},
			},
			Answer: probes.GateRegressed,
			Judgements: []probes.Judgement{
				{Metric: probes.MetricTTFTp50, Answer: probes.GateRegressed, Primary: true},
				{Metric: probes.MetricTPOTp50, Answer: probes.GatePass, Margin: 0.05, Effect: probes.Known(-0.1), High: probes.Known(-0.02)},
				{Metric: probes.MetricE2Ep50, Answer: probes.GatePass, Effect: probes.Known(0.01), High: probes.Known(0.03)},
				{Metric: probes.MetricTTFTp99, Answer: probes.GateRegressed},
				{Metric: probes.MetricRequestThroughput, Answer: probes.GateInconclusive},
				{Metric: probes.MetricSuccessRatio, Answer: probes.GateInvalid},
			},
		}},
	}
}

func onGate(name string, extra string) string { return name + `{comparison="gate"` + extra + "}" }

func TestComparison(t *testing.T) {
	s := newStage(t, nil, canary())
	s.compared = []probes.ComparisonStatus{compared()}
	page := s.page()
	want := map[string]float64{
		catalog.ComparisonInfo + `{candidate="staging",comparison="gate",reference="prod"}`: 1,
		onGate(catalog.ComparisonStaleAfter, ""):                                            172_800, onGate(catalog.ComparisonTimestamp, ""): 1_800_000_000,
	}
	for metric, ratio := range map[string]float64{"ttft_p50": 1.25, "tpot_p50": 0.9, "output_throughput": 1} {
		want[onGate(catalog.ComparisonRatio, `,metric="`+metric+`"`)] = ratio
	}
	for metric, code := range map[string]float64{
		"overall": 2, "ttft_p50": 2, "tpot_p50": -1, "e2e_p50": 0, "ttft_p99": 1, "output_throughput": 3, "request_throughput": 3,
		"success_ratio": 3, "tpot_p99": 3, "spec_accept_length": 3, "e2e_p90": 3, "capacity": 3, "prefix_cache_hit_ratio": 3,
	} {
		want[onGate(catalog.ComparisonVerdict, `,metric="`+metric+`"`)] = code
	}
	s.wantSeries(page, want)
	for _, metric := range []string{"e2e_p50", "spec_accept_length", "tpot_p99"} { // without a contrast, or a ratio of one
		if v, ok := page[onGate(catalog.ComparisonRatio, `,metric="`+metric+`"`)]; ok {
			t.Errorf("ratio of %s = %v, want none", metric, v)
		}
	}
}

// A gate asks before the first comparison and after the last one has gone stale.
func TestComparisonWithoutResult(t *testing.T) {
	s := newStage(t, nil, canary())
	before := len(s.page())
	none := compared()
	none.Result = nil
	s.compared = []probes.ComparisonStatus{none}
	page := s.page()
	want := map[string]float64{onGate(catalog.ComparisonStaleAfter, ""): 172_800}
	for _, metric := range append(slices.Clone(probes.ComparisonMetrics), probes.MetricOverall) {
		want[onGate(catalog.ComparisonVerdict, `,metric="`+string(metric)+`"`)] = 3
	}
	s.wantSeries(page, want)
	if added := len(page) - before; added != 13+2 {
		t.Errorf("%d series added, want a verdict of each of 12 metrics and of the whole, stale_after and info", added)
	}
	s.wantNone(page, catalog.ComparisonRatio, catalog.ComparisonTimestamp)

	s.compared = nil
	if after := len(s.page()); after != before {
		t.Errorf("%d series after the comparison was removed, want the %d from before", after, before)
	}
}

func TestEstimateOfComparisons(t *testing.T) {
	s := newStage(t, nil, canary())
	before := len(s.page())
	whole := compared()
	c := whole.Result.Comparison
	c.Metrics = nil
	for _, name := range []string{
		"ttft_p50_seconds", "ttft_p99_seconds", "tpot_p50_seconds", "tpot_p99_seconds", "e2e_p50_seconds",
		"output_throughput", "request_throughput", "success_ratio", "accept_length", "e2e_p90_seconds", "capacity", "prefix_cache_hit_ratio",
	} {
		c.Metrics = append(c.Metrics, probes.Contrast{Name: name, Ratio: probes.Known(1.0)})
	}
	other := whole
	other.Name = "other"
	s.compared = []probes.ComparisonStatus{whole, other}
	if got, want := EstimateComparisons(2), len(s.page())-before; got != want {
		t.Errorf("EstimateComparisons(2) = %d, the page has %d", got, want)
	}
}
