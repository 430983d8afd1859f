package regression

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func TestVerdict(t *testing.T) {
	reason := probes.Reason{Code: probes.ReasonRegression, Text: "it is worse"}
	change := func(metric probes.RegressionMetric, state probes.ChangeState, effect float64) probes.Change {
		return probes.Change{Metric: metric, State: state, Effect: probes.Known(effect), Reasons: []probes.Reason{reason}}
	}
	slo := probes.Reason{Code: "slo_missed", Text: "missed"}
	for _, tt := range []struct {
		name    string
		before  probes.VerdictState
		changes []probes.Change
		want    probes.VerdictState
		reasons int
	}{
		{"nothing", probes.Pass, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeNone, 0.3), change(probes.MetricTPOTp50, probes.ChangeSuspected, 0.3)}, probes.Pass, 0},
		{"minor", probes.Pass, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeWorse, 0.09)}, probes.Warn, 1},
		{"major", probes.Pass, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeWorse, 0.10)}, probes.Fail, 1},
		{"failures", probes.Pass, []probes.Change{change(probes.MetricSuccessRatio, probes.ChangeWorse, 0.005)}, probes.Warn, 1},
		{"secondary", probes.Pass, []probes.Change{change(probes.MetricTTFTp99, probes.ChangeWorse, 0.9)}, probes.Warn, 1},
		{"drift", probes.Pass, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeDrift, 0.3)}, probes.Warn, 1},
		{"fail_stays", probes.Fail, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeWorse, 0.05)}, probes.Fail, 1},
		{"unknown_outranks_warn", probes.Unknown, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeWorse, 0.05)}, probes.Unknown, 1},
		{"fail_outranks_unknown", probes.Unknown, []probes.Change{change(probes.MetricTPOTp50, probes.ChangeWorse, 0.5)}, probes.Fail, 1},
	} {
		before := probes.Verdict{State: tt.before, Reasons: []probes.Reason{slo}}
		got := Verdict(before, tt.changes)
		want := probes.Verdict{State: tt.want, Reasons: []probes.Reason{slo}}
		for range tt.reasons {
			want.Reasons = append(want.Reasons, reason)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestPrimarySeries(t *testing.T) {
	enabled := probes.Regression{Enabled: true}
	for _, tt := range []struct {
		name string
		spec probes.Spec
		want int
	}{
		{"not_judged", probes.Spec{Kind: probes.Load}, 0},
		{"at_a_rate", probes.Spec{Kind: probes.Load, Arrivals: probes.Arrivals{Process: probes.Poisson, Rate: 8}, Regression: enabled}, 3},
		{"closed_loop", probes.Spec{Kind: probes.Load, Arrivals: probes.Arrivals{Process: probes.ClosedLoop}, Regression: enabled}, 5},
		{"sweep", probes.Spec{Kind: probes.Sweep, Regression: enabled}, 1},
		{"chosen", probes.Spec{Kind: probes.Peak, Regression: probes.Regression{Enabled: true, Metrics: []probes.RegressionMetric{probes.MetricOutputThroughput}}}, 1},
	} {
		if got := PrimarySeries(&tt.spec); got != tt.want {
			t.Errorf("%s: %d series, want %d", tt.name, got, tt.want)
		}
	}
}
