package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// The engines answer with times that are theirs to the nanosecond, so that each
// metric has one value and its interval no width.
func TestGate(t *testing.T) {
	slower := func(side int, c *fakellm.Config) {
		c.Script.TTFT = []time.Duration{100 * time.Millisecond}
		if side == 1 {
			c.Script.ITL = 24 * time.Millisecond
		}
	}
	equal := func(_ int, c *fakellm.Config) { c.Script.TTFT = []time.Duration{100 * time.Millisecond} }
	// A third of the margin of TTFT apart, but the runs of each side scatter by more.
	noisy := func(side int, c *fakellm.Config) {
		ttfts := []time.Duration{100, 150, 102, 148, 104, 146, 106, 144, 108, 142}
		if side == 1 {
			ttfts = []time.Duration{149, 101, 147, 103, 145, 105, 143, 107, 141, 109}
		}
		firstTokens(c, ttfts...)
	}
	other := func(side int, c *fakellm.Config) {
		equal(side, c)
		c.Model = []string{"m", "n"}[side]
	}
	for _, tt := range []struct {
		name    string
		engines func(int, *fakellm.Config)
		gate    probes.Gate
		fault   bool
		answer  probes.GateAnswer
		verdict probes.VerdictState
		pairs   int
		reasons string // codes
	}{
		{"equal sides pass at the first look", equal, probes.Gate{}, false, probes.GatePass, probes.Pass, 5, ""},
		{"a fifth slower is refused at the first look", slower, probes.Gate{}, false, probes.GateRegressed, probes.Fail, 5, "worse worse"},
		{"noise leaves it open to the last pair", noisy, probes.Gate{}, false, probes.GateInconclusive, probes.Unknown, 10, "not_decided"},
		{"another model ends it after one pair", other, probes.Gate{}, false, probes.GateInvalid, probes.Unknown, 1, "controlled_variable_differs"},
		{"unless that is what is compared", other, probes.Gate{Vary: []string{"model"}}, false, probes.GatePass, probes.Pass, 5, ""},
		{"a candidate that answers nothing is refused", equal, probes.Gate{}, true, probes.GateRegressed, probes.Fail, 5,
			"metric_unknown metric_unknown metric_unknown worse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRivals(t, tt.engines)
				defer r.runner.Close()
				if tt.fault {
					if err := r.engines[1].SetFaults(fakellm.Fault{Kind: fakellm.Unavailable}); err != nil {
						t.Fatal(err)
					}
				}
				spec := pairedSpec(10)
				spec.Gate = &tt.gate
				run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm"), spec, &loadgen.Progress{}, Hooks{})
				c := run.Comparison
				if run.Error != "" || c.Answer != tt.answer || run.Verdict.State != tt.verdict {
					t.Fatalf("error %q, answer %s, verdict %s; want none, %s, %s: %v", run.Error, c.Answer, run.Verdict.State, tt.answer, tt.verdict, c.Grounds.Reasons)
				}
				if c.Pairs != tt.pairs || c.Used != tt.pairs || len(run.Parts) != 2*tt.pairs {
					t.Errorf("%d pairs, %d used, %d runs; want %d pairs of 2", c.Pairs, c.Used, len(run.Parts), tt.pairs)
				}
				var reasons []string
				for _, reason := range c.Grounds.Reasons {
					reasons = append(reasons, reason.Code)
				}
				if got := strings.Join(reasons, " "); got != tt.reasons {
					t.Errorf("reasons %q, want %q", got, tt.reasons)
				}
			})
		})
	}
}

// The effect is that of the script, and so are its bounds: times without noise leave
// no doubt about it.
func TestGateMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, func(side int, c *fakellm.Config) {
			c.Script.TTFT = []time.Duration{100 * time.Millisecond}
			if side == 1 {
				c.Script.ITL = 25 * time.Millisecond
			}
		})
		defer r.runner.Close()
		spec := pairedSpec(7)
		spec.Gate = &probes.Gate{Primary: []probes.RegressionMetric{probes.MetricTPOTp50}}
		spec.Margins = map[probes.RegressionMetric]float64{probes.MetricTPOTp50: 0.5}
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm"), spec, &loadgen.Progress{}, Hooks{})
		got, ok := run.Comparison.Judgement(probes.MetricTPOTp50)
		if !ok || got.Answer != probes.GateRegressed || !got.Primary || got.N != 5 || got.Margin != 0.5 {
			t.Fatalf("judged %t: %+v; a quarter is half of a margin of a half", ok, got)
		}
		for name, v := range map[string]probes.Optional[float64]{"effect": got.Effect, "low": got.Low, "high": got.High, "surely": got.Surely} {
			if x, known := v.Get(); !known || !near(x, 0.25) {
				t.Errorf("%s %v, want 0.25", name, v)
			}
		}
		if !near(got.Reference, 0.02) || !near(got.Candidate, 0.025) || got.Detectable.IsKnown() {
			t.Errorf("medians %v and %v, detectable %v; want 0.02, 0.025, and no noise to hide anything", got.Reference, got.Candidate, got.Detectable)
		}
		for _, part := range run.Parts {
			if part.Run.Spec.Gate != nil || part.Run.Spec.Margins != nil || part.Run.WorkloadVersion == "" {
				t.Errorf("%s: a run of a side is a load and has no gate of its own", part.Role)
			}
		}
	})
}

func TestGateCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, threePairs)
		defer r.runner.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
		defer cancel()
		spec := pairedSpec(5)
		spec.Gate = &probes.Gate{}
		run := r.runner.Compare(ctx, rival(0, "vllm"), rival(1, "vllm"), spec, &loadgen.Progress{}, Hooks{})
		if run.Comparison.Answer != probes.GateInvalid || run.Verdict.State != probes.Unknown || run.Verdict.Reasons[0].Code != "comparison_invalid" {
			t.Errorf("answer %s, verdict %+v; want invalid, unknown because of comparison_invalid", run.Comparison.Answer, run.Verdict)
		}
	})
}

// Two series are judged by their common nights, and where they have none there is no
// answer.
func TestCompareNights(t *testing.T) {
	start := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	series := func(name string, shift time.Duration, ttft float64) (runs []*probes.Run) {
		for night := range 12 {
			at := start.Add(time.Duration(night)*24*time.Hour + shift)
			ttft := ttft * (1 + 0.001*float64(night*5%12))
			runs = append(runs, &probes.Run{
				ID: name, Target: probes.Target{Name: name}, Spec: loadSpec(), Start: at, End: at.Add(time.Minute), Complete: true,
				Validity: probes.Validity{State: probes.Valid},
				Summary: probes.Summary{Completed: 100, SuccessRatio: probes.Known(1.0), OutputThroughput: probes.Known(100.0),
					Latency: map[probes.Signal]probes.Distribution{probes.TTFT: {N: 100, P50: ttft}}},
			})
		}
		return runs
	}
	gate := &probes.Gate{Primary: []probes.RegressionMetric{probes.MetricTTFTp50}}
	production := series("production", 0, 0.1)
	run := CompareNights(production, series("staging", time.Hour, 0.15), gate, nil)
	c := run.Comparison
	if c.Answer != probes.GateRegressed || run.Verdict.State != probes.Fail || !c.Grounds.History || c.Pairs != 10 || c.Used != 10 {
		t.Errorf("answer %s of %d nights, history %t; want regressed of the last 10", c.Answer, c.Used, c.Grounds.History)
	}
	wantSame(t, "sides", []string{c.Reference.Name, run.Target.Name}, []string{"production", "staging"})
	wantSame(t, "span", []time.Time{run.Start, run.End}, []time.Time{start.Add(49 * time.Hour), start.Add(11*24*time.Hour + time.Hour + time.Minute)})
	if j, _ := c.Judgement(probes.MetricTTFTp50); !near(j.Effect.Or(0), 0.5) {
		t.Errorf("effect %v, want a half", j.Effect)
	}

	apart := CompareNights(production, series("staging", 400*24*time.Hour, 0.1), gate, nil)
	if apart.Comparison.Answer != probes.GateInvalid || apart.Verdict.State != probes.Unknown || apart.Comparison.Used != 0 {
		t.Errorf("series without a common night: %s, %+v; want invalid and unknown", apart.Comparison.Answer, apart.Verdict)
	}
}
