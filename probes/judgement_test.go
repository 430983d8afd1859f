package probes

import "testing"

func TestJudgementChange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shift Judgement
		in    float64
		want  float64
	}{
		{"a latency that is worse has grown", Judgement{}, 0.25, 0.25},
		{"a throughput that is worse has shrunk", Judgement{HigherBetter: true}, 1, -0.5},
		{"a better throughput has grown", Judgement{HigherBetter: true}, -0.5, 1},
		{"a success ratio loses points", Judgement{HigherBetter: true, Points: true}, 0.005, -0.005},
		{"no loss is no negative zero", Judgement{HigherBetter: true, Points: true}, 0, 0},
	} {
		if got := tt.shift.Change(tt.in); got != tt.want || 1/got < 0 && tt.want == 0 {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCodes(t *testing.T) {
	shift := func(answer GateAnswer, effect, high float64) Judgement {
		return Judgement{Metric: MetricTPOTp50, Answer: answer, Primary: true, Margin: 0.05, Effect: Known(effect), High: Known(high)}
	}
	secondary := shift(GateRegressed, 0.3, 0.4)
	secondary.Primary = false
	for _, tt := range []struct {
		name            string
		answer          GateAnswer
		shift           Judgement
		metric, overall int
	}{
		{"worse", GateRegressed, shift(GateRegressed, 0.1, 0.2), 2, 2},
		{"not worse", GatePass, shift(GatePass, 0.01, 0.02), 0, 0},
		{"a little better is not worse", GatePass, shift(GatePass, -0.01, -0.005), 0, 0},
		{"better", GatePass, shift(GatePass, -0.03, -0.01), -1, -1},
		{"better, but not surely", GatePass, shift(GatePass, -0.03, 0.01), 0, 0},
		{"open and worse by half of the margin", GateUndecided, shift(GateUndecided, 0.025, 0.08), 1, 1},
		{"open and not visibly worse", GateInconclusive, shift(GateInconclusive, 0.02, 0.08), 3, 3},
		{"open without a bound", GateInconclusive, Judgement{Answer: GateInconclusive, Margin: 0.05, Effect: Known(0.5)}, 3, 3},
		{"invalid", GateInvalid, shift(GateInvalid, 0.5, 0.6), 3, 3},
		{"nothing yet", "", Judgement{}, 3, 3},
		{"a secondary metric is suspected at most", GatePass, secondary, 1, 0},
	} {
		if got := tt.shift.Code(); got != tt.metric {
			t.Errorf("%s: metric code %d, want %d", tt.name, got, tt.metric)
		}
		c := Comparison{Answer: tt.answer, Judgements: []Judgement{tt.shift}}
		if got := c.Code(); got != tt.overall {
			t.Errorf("%s: overall code %d, want %d", tt.name, got, tt.overall)
		}
	}
}
