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
