package jsonl

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inferbeat/inferbeat/probes"
)

func linesOf(t *testing.T, o Options, runs ...*probes.Run) []byte {
	t.Helper()
	var out []byte
	for _, r := range runs {
		lines, err := Lines(r, o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lines...)
	}
	return out
}

// What a comparison of results needs comes back as it was.
func TestResults(t *testing.T) {
	for _, details := range []bool{false, true} {
		want := run()
		want.WorkloadVersion, want.Spec.Requests, want.Spec.Warmup.Requests = "w1", 2, 3
		want.Facts = probes.ServerFacts{Engine: "sglang", Quantization: "fp8", TensorParallel: probes.Known(2)}
		want.Summary.Server.PrefixCache.HitRatio = probes.Known(0.25)
		part := run()
		part.ID = "part"
		want.Parts = []probes.Part{{Role: "repeat 1", Run: part}}
		got, err := Results("f.jsonl", bytes.NewReader(linesOf(t, Options{Details: details}, want)))
		if err != nil || len(got) != 1 {
			t.Fatalf("%d runs, %v; want one", len(got), err)
		}
		if got[0].Origin != "f.jsonl:1" || len(got[0].Parts) != 1 || got[0].Parts[0].Role != "repeat 1" || got[0].Parts[0].Run.ID != "part" {
			t.Errorf("origin %s, parts %+v; want the first line and its repeat", got[0].Origin, got[0].Parts)
		}
		if n := len(got[0].Records); details && n != 2 || !details && n != 0 {
			t.Errorf("%d records, want those of the details", n)
		}
		// The rest of the summary is not read: peaks, lengths, attainment, steady state.
		ignore := []cmp.Option{
			cmpopts.IgnoreFields(probes.Run{}, "Origin", "Parts", "Records", "Warmup", "Sending"),
			cmpopts.IgnoreFields(probes.Summary{}, "PeakOutputThroughput", "PeakConcurrency", "Input", "SLOAttainment", "Steady", "Client", "Repeats"),
			cmp.Comparer(func(a, b probes.Optional[float64]) bool { return a.Equal(b) }),
			cmp.Comparer(func(a, b probes.Optional[int]) bool { return a.Equal(b) }),
			cmp.Comparer(func(a, b probes.Secret) bool { return a == b }),
		}
		if diff := cmp.Diff(want, got[0], append(ignore, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(probes.Optional[float64]{}))...); diff != "" {
			t.Errorf("details %t: run (-written +read):\n%s", details, diff)
		}
	}
}

func TestResultsOfASweep(t *testing.T) {
	sweep := sweptRun()
	got, err := Results("f", bytes.NewReader(linesOf(t, Options{}, run(), sweep)))
	if err != nil || len(got) != 2 || got[1].ID != sweep.ID {
		t.Fatalf("%d runs, %v; want the run and the sweep, without lines of steps", len(got), err)
	}
	if diff := cmp.Diff(sweep.Capacity, got[1].Capacity, cmp.Comparer(func(a, b probes.Optional[float64]) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("capacity (-written +read):\n%s", diff)
	}
	for i := range sweep.Steps {
		a, b := &sweep.Steps[i], &got[1].Steps[i]
		p99 := func(s *probes.Step) float64 {
			return s.Summary.Distribution(probes.TTFTFromDue).Get(probes.StatP99).Or(math.NaN())
		}
		if a.Rate != b.Rate || a.Usable() != b.Usable() || p99(a) != p99(b) && !math.IsNaN(p99(a)) {
			t.Errorf("step %d: rate %v, usable %t, p99 %v; written %v, %t, %v", i, b.Rate, b.Usable(), p99(b), a.Rate, a.Usable(), p99(a))
		}
	}
}

func TestResultsOfAClosedLoop(t *testing.T) {
	r := run()
	r.Spec.Arrivals = probes.Arrivals{Process: probes.ClosedLoop, Rate: math.Inf(1), MaxConcurrency: 8}
	got, err := Results("f", bytes.NewReader(linesOf(t, Options{}, r)))
	if err != nil || !cmp.Equal(got[0].Spec.Arrivals, r.Spec.Arrivals) {
		t.Errorf("arrivals %+v, %v; want %+v", got[0].Spec.Arrivals, err, r.Spec.Arrivals)
	}
}

func TestResultsRefuseOtherLines(t *testing.T) {
	good := string(linesOf(t, Options{}, run()))
	for _, tt := range []struct{ text, want string }{
		{good + `{"completed": 3}` + "\n", "f:2: read result: is not one of inferbeat"},
		{"\n\n" + `{"inferbeat": 3}`, "f:3: parse result: "},
		{`{"request_throughput": true, "inferbeat": {}}`, "f:1: parse result: "},
	} {
		if _, err := Results("f", strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
