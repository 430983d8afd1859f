package verdict

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// repeated is a run of three, of which used can be believed.
func repeated(used int, change func(parts []probes.Part)) *probes.Run {
	run := sound()
	for _, role := range []string{"repeat 1", "repeat 2", "repeat 3"} {
		part := sound()
		part.Validity.State = probes.Valid
		run.Parts = append(run.Parts, probes.Part{Role: role, Run: part})
	}
	run.Summary.Repeats = probes.Repeats{Runs: 3, Used: used}
	change(run.Parts)
	run.Validity = OfRepeats(run)
	return run
}

func lost(part probes.Part) {
	part.Run.Validity = probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: ClientLate, Text: "late"}}}
}

func TestOfRepeats(t *testing.T) {
	for _, test := range []struct {
		name   string
		used   int
		change func([]probes.Part)
		want   probes.Validity
	}{
		{"all_good", 3, func([]probes.Part) {}, probes.Validity{State: probes.Valid}},
		{"doubts_are_said_once", 3, func(p []probes.Part) {
			for _, i := range []int{1, 2} {
				p[i].Run.Validity = probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: ShortOutput, Text: "short"}}}
			}
		}, probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: ShortOutput, Text: "repeat 2: short"}}}},
		{"one_lost", 2, func(p []probes.Part) { lost(p[1]) },
			probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: RepeatsLost, Text: "only 2 of 3 runs can be believed; repeat 2: client_late"}}}},
		{"two_lost", 1, func(p []probes.Part) { lost(p[0]); lost(p[1]) },
			probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: RepeatsLost, Text: "only 1 of 3 runs can be believed; repeat 1: client_late; repeat 2: client_late"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if d := cmp.Diff(test.want, repeated(test.used, test.change).Validity); d != "" {
				t.Errorf("validity (-want +got):\n%s", d)
			}
		})
	}
}

// A failure in a run that is not the typical one is not lost in the median.
func TestFailuresOfAnyRepeatCount(t *testing.T) {
	run := repeated(3, func(p []probes.Part) {
		s := &p[2].Run.Summary
		s.Failed, s.Completed, s.Outcomes = 2, 198, map[probes.Outcome]int{probes.OK: 198, probes.HTTP5xx: 2}
	})
	want := probes.Verdict{State: probes.Warn, Reasons: []probes.Reason{{Code: FailedRequests, Text: "repeat 3: 2 of 200 requests failed: 2 http_5xx"}}}
	if d := cmp.Diff(want, JudgeRepeats(run)); d != "" {
		t.Errorf("verdict (-want +got):\n%s", d)
	}
	invalid := repeated(1, func(p []probes.Part) { lost(p[0]); lost(p[1]) })
	if got := JudgeRepeats(invalid).State; got != probes.Unknown {
		t.Errorf("verdict of an invalid median = %s, want unknown", got)
	}
}

func TestDoubt(t *testing.T) {
	valid := probes.Validity{State: probes.Valid}
	want := probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: NotSaturated, Text: "grew by 9 %"}}}
	if d := cmp.Diff(want, Doubt(valid, NotSaturated, "grew by %d %%", 9)); d != "" {
		t.Errorf("doubted (-want +got):\n%s", d)
	}
	if got := Doubt(probes.Validity{State: probes.Invalid}, NotSaturated, "x").State; got != probes.Invalid {
		t.Errorf("an invalid run that is doubted is %s", got)
	}
}

// compared is a comparison of two pairs, of which used can be believed.
func compared(used int, change func(parts []probes.Part), metrics ...probes.Contrast) *probes.Run {
	run := sound()
	for _, role := range []string{"pair 1 A", "pair 1 B", "pair 2 B", "pair 2 A"} {
		part := sound()
		part.Validity.State = probes.Valid
		run.Parts = append(run.Parts, probes.Part{Role: role, Run: part})
	}
	run.Comparison = &probes.Comparison{Pairs: 2, Used: used, Metrics: metrics}
	if change != nil {
		change(run.Parts)
	}
	return run
}

func work(name string, a, b float64) probes.Contrast {
	return probes.Contrast{Name: name, N: 2, Reference: a, Candidate: b, Ratio: probes.Known(b / a)}
}

func TestOfComparison(t *testing.T) {
	suspect := func(code, text string) probes.Validity {
		return probes.Validity{State: probes.Suspect, Reasons: []probes.Reason{{Code: code, Text: text}}}
	}
	for _, test := range []struct {
		name string
		run  *probes.Run
		want probes.Validity
	}{
		{"sound", compared(2, nil, work("input_tokens", 1000, 1010), work("ttft_p50_seconds", 1, 2)), probes.Validity{State: probes.Valid}},
		{"longer_prompts", compared(2, nil, work("input_tokens", 1000, 1011)),
			suspect(UnequalWork, "input tokens of a run: 1000 on side A and 1011 on side B, by each side's own count")},
		{"shorter_answers", compared(2, nil, work("output_tokens", 1000, 900)),
			suspect(UnequalWork, "output tokens of a run: 1000 on side A and 900 on side B, by each side's own count")},
		{"fewer_requests", compared(2, nil, work("completed", 100, 90)),
			suspect(UnequalWork, "requests of a run: 100 on side A and 90 on side B, by each side's own count")},
		{"doubt_of_one_side", compared(2, func(p []probes.Part) {
			p[3].Run.Validity = suspect(Coalesced, "zero")
		}), suspect(Coalesced, "pair 2 A: zero")},
		{"one_lost", compared(1, func(p []probes.Part) { lost(p[1]) }),
			probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: PairsLost, Text: "only 1 of 2 pairs can be believed; pair 1 B: client_late"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if d := cmp.Diff(test.want, OfComparison(test.run)); d != "" {
				t.Errorf("validity (-want +got):\n%s", d)
			}
		})
	}
	most := compared(2, func(p []probes.Part) { lost(p[1]) })
	most.Comparison.Pairs = 3
	want := suspect(PairsLost, "only 2 of 3 pairs can be believed; pair 1 B: client_late")
	if d := cmp.Diff(want, OfComparison(most)); d != "" {
		t.Errorf("validity of two of three (-want +got):\n%s", d)
	}
}

func TestUnjudged(t *testing.T) {
	for state, want := range map[probes.ValidityState]string{probes.Valid: NotJudged, probes.Suspect: NotJudged, probes.Invalid: InvalidMeasurement} {
		got := Unjudged(probes.Validity{State: state})
		if got.State != probes.Unknown || len(got.Reasons) != 1 || got.Reasons[0].Code != want {
			t.Errorf("%s: %+v, want unknown for %s", state, got, want)
		}
	}
}
