package compare

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/internal/codetest"
)

func TestCodes(t *testing.T) {
	var documented []string
	for _, r := range Codes {
		documented = append(documented, r.Code)
	}
	codetest.Documented(t, documented)
	codetest.Reference(t, Reference())
}

func TestVerdict(t *testing.T) {
	doubt := probes.Reason{Code: VariableUnknown, Text: "doubt"}
	tail := probes.Reason{Code: SecondaryWorse, Text: "tail"}
	for _, tt := range []struct {
		answer  probes.GateAnswer
		reasons []probes.Reason
		want    probes.VerdictState
	}{
		{probes.GatePass, nil, probes.Pass},
		{probes.GatePass, []probes.Reason{doubt}, probes.Pass},
		{probes.GatePass, []probes.Reason{doubt, tail}, probes.Warn},
		{probes.GateRegressed, []probes.Reason{tail}, probes.Fail},
		{probes.GateInconclusive, nil, probes.Unknown},
		{probes.GateUndecided, nil, probes.Unknown},
		{probes.GateInvalid, nil, probes.Unknown},
	} {
		got := Verdict(&probes.Comparison{Answer: tt.answer, Grounds: probes.Grounds{Reasons: tt.reasons}})
		if diff := cmp.Diff(probes.Verdict{State: tt.want, Reasons: tt.reasons}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.answer, diff)
		}
	}
}

func TestDisbelieve(t *testing.T) {
	lost := probes.Validity{State: probes.Invalid, Reasons: []probes.Reason{{Code: "pairs_lost"}, {Code: "client_late"}}}
	for _, tt := range []struct {
		name     string
		validity probes.Validity
		complete bool
		want     probes.GateAnswer
		text     string
	}{
		{"believed", probes.Validity{State: probes.Suspect, Reasons: lost.Reasons}, true, probes.GatePass, ""},
		{"invalid", lost, true, probes.GateInvalid, "the comparison is invalid: pairs_lost, client_late"},
		{"cut short", lost, false, probes.GateInvalid, "the comparison was cut short"},
	} {
		c := probes.Comparison{Answer: probes.GatePass}
		Disbelieve(&c, tt.validity, tt.complete)
		var text string
		for _, r := range c.Grounds.Reasons {
			text += r.Text
		}
		if c.Answer != tt.want || text != tt.text {
			t.Errorf("%s: %s because %q, want %s because %q", tt.name, c.Answer, text, tt.want, tt.text)
		}
	}
}
