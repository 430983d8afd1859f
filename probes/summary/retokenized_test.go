package summary

import (
	"testing"

	"github.com/inferbeat/inferbeat/probes"
)

// TestRetokenized: our own count stands beside the server's, fifteen blanks in one token
// included, and is known for all completed answers or not at all.
func TestRetokenized(t *testing.T) {
	known := probes.Known[int]
	answer := func(outcome probes.Outcome, served, ours probes.Optional[int], source probes.TokenSource) probes.Record {
		return probes.Record{Outcome: outcome, OutputTokens: served, OutputSource: source, RetokenizedOutput: ours}
	}
	blanks := answer(probes.OK, known(18), known(3), probes.TokensServer)
	tests := []struct {
		name    string
		records []probes.Record
		output  probes.Optional[int]
		count   probes.Optional[int]
		ratio   probes.Optional[float64]
	}{
		{"blanks", []probes.Record{blanks}, known(18), known(3), probes.Known(3.0 / 18)},
		{"two", []probes.Record{blanks, answer(probes.OK, known(9), known(9), probes.TokensServer)}, known(27), known(12), probes.Known(12.0 / 27)},
		{"failed answers have no part", []probes.Record{blanks, answer(probes.Truncated, known(5), known(5), probes.TokensServer)}, known(18), known(3), probes.Known(3.0 / 18)},
		{"one was not counted", []probes.Record{blanks, answer(probes.OK, known(9), probes.Optional[int]{}, probes.TokensServer)}, known(27), probes.Optional[int]{}, probes.Optional[float64]{}},
		{"the server counted none", []probes.Record{answer(probes.OK, known(3), known(3), probes.TokensClient)}, known(3), known(3), probes.Optional[float64]{}},
		{"the server counted one", []probes.Record{blanks, answer(probes.OK, known(7), known(7), probes.TokensClient)}, known(25), known(10), probes.Known(3.0 / 18)},
		{"nobody counted", []probes.Record{answer(probes.OK, known(18), probes.Optional[int]{}, probes.TokensServer)}, known(18), probes.Optional[int]{}, probes.Optional[float64]{}},
		{"nothing completed", nil, probes.Optional[int]{}, probes.Optional[int]{}, probes.Optional[float64]{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Summarize(Input{Spec: &probes.Spec{}, Records: tt.records, Pooled: true})
			if s.OutputTokens != tt.output || s.RetokenizedOutput != tt.count || s.RetokenizedRatio != tt.ratio {
				t.Errorf("output %v, retokenized %v, ratio %v; want %v, %v, %v", s.OutputTokens, s.RetokenizedOutput, s.RetokenizedRatio, tt.output, tt.count, tt.ratio)
			}
		})
	}
}
