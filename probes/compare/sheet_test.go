package compare

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

func row(t *testing.T, sheet *probes.Sheet, name string) probes.SheetRow {
	t.Helper()
	for _, r := range sheet.Rows {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("the sheet has no %s", name)
	return probes.SheetRow{}
}

func TestLay(t *testing.T) {
	a, b := side(1, 1.01, 1.02, 1.03, 1.04), side(1.2, 1.21, 1.22, 1.23, 1.24)
	b[4].Validity.State = probes.Invalid
	sheet := Lay([]probes.Side{{Name: "vllm", Runs: a}, {Name: "sglang", Runs: b}})

	tpot := row(t, &sheet, "tpot_p50")
	if got := tpot.Cells[0]; got.N != 5 || math.Abs(got.Median-0.0204) > 1e-12 || got.Min != 0.02 || math.Abs(got.Max-0.0208) > 1e-12 || got.Against != nil {
		t.Errorf("tpot_p50 of the reference %+v, want 5 values around 20.4 ms and nothing to hold it against", got)
	}
	against := tpot.Cells[1].Against
	if tpot.Cells[1].N != 4 || against == nil || against.N != 4 || !against.Low.IsKnown() || !against.P.IsKnown() {
		t.Fatalf("tpot_p50 of the other side %+v, want 4 believed values and an interval", tpot.Cells[1])
	}
	if p := against.P.Or(0); math.Abs(p-2./126) > 1e-12 {
		t.Errorf("p %v, want 2/126 for 5 and 4 values that do not overlap", p)
	}
	want := []string{
		"TTFT mean of sglang is higher by 19.11 %, which is worse (95 % interval 16.35 % to 22.00 %, p = 0.016, n = 4).",
		"TTFT p99 of sglang is higher by 19.11 %, which is worse (95 % interval 16.35 % to 22.00 %, p = 0.016, n = 4).",
		"TPOT mean of sglang is higher by 19.11 %, which is worse (95 % interval 16.35 % to 22.00 %, p = 0.016, n = 4).",
		"Output throughput of sglang is lower by 16.05 %, which is worse (95 % interval -18.03 % to -14.05 %, p = 0.016, n = 4).",
	}
	if diff := cmp.Diff(want, sheet.Reading); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
	if v := tpot.Cells[0].Values; len(v) != 5 || !v[1].Equal(probes.Known(0.02*1.01)) {
		t.Errorf("values of the runs %v, want each run's own", v)
	}
	wantDoubts := []probes.SheetNote{{Reason: probes.Reason{Code: "runs_left_out", Text: "runs that are invalid or could not be carried out are left out"}, Sides: []string{"sglang"}}}
	if diff := cmp.Diff(wantDoubts, sheet.Doubts); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
	if len(sheet.Controls) != 0 || len(sheet.Unverified) != 0 {
		t.Errorf("controls %v, unverified %v; want none of equal sides", sheet.Controls, sheet.Unverified)
	}
	names := map[string]string{}
	for _, c := range sheet.Equal {
		names[c.Variable] = c.Values[0]
	}
	if names["quantization"] != "fp8" || names["rate"] != "8/s poisson" || names["warmup"] != "30s" {
		t.Errorf("equal variables %v, want fp8, 8/s poisson and a warm-up of 30s among them", names)
	}
}

func TestLayClaimsNothingOfFewRuns(t *testing.T) {
	sheet := Lay([]probes.Side{{Name: "a", Runs: side(1, 1, 1)}, {Name: "b", Runs: side(1.3, 1.3, 1.3)}})
	cell := row(t, &sheet, "ttft_p50").Cells[1]
	if a := cell.Against; a.P.IsKnown() || a.Low.IsKnown() || a.High.IsKnown() || a.Detectable.IsKnown() || math.Abs(a.Effect.Or(0)-0.3) > 1e-9 {
		t.Errorf("three runs of a side: %+v, want 30 %% and no claim of it", a)
	}
	if got, want := sheet.Reading[0], "TTFT mean of b is higher by 30.00 %, but 3 runs of a side carry no claim: need >= 4."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(sheet.Traps) != 0 {
		t.Errorf("traps %v, want none: a median of three is one", sheet.Traps)
	}
}

func TestLayShowsNoDifferenceOfEqualSides(t *testing.T) {
	sheet := Lay([]probes.Side{{Name: "a", Runs: side(1, 1.02, 1.04, 1.06, 1.08)}, {Name: "b", Runs: side(1.01, 1.03, 1.04, 1.05, 1.07)}})
	if got, want := sheet.Reading[0], "TTFT mean of b shows no difference: the 95 % interval, -4.63 % to 4.90 %, holds 0."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLayNamesWhatLiesBehind(t *testing.T) {
	a, b := steady(1, 5), steady(0.8, 5)
	for i := range a {
		a[i].Summary.Server.PrefixCache.HitRatio, b[i].Summary.Server.PrefixCache.HitRatio = probes.Known(0.12), probes.Known(0.56)
		a[i].Summary.AcceptLength, b[i].Summary.AcceptLength = probes.Known(3.0), probes.Known(3.1)
		a[i].Traps = []probes.Reason{{Code: "single_run", Text: "one"}, {Code: "mean_without_p99", Text: "tail"}}
		b[i].Traps = []probes.Reason{{Code: "mean_without_p99", Text: "tail"}}
		b[i].Facts.Quantization, b[i].Facts.DType, a[i].Facts.DType = "int4", "", ""
	}
	sheet := Lay([]probes.Side{{Name: "a", Runs: a}, {Name: "b", Runs: b}})
	want := "the prefix cache answered 12 % of a and 56 % of b: what differs in TTFT may be the cache and not the server."
	if got := sheet.Reading[len(sheet.Reading)-1]; got != want {
		t.Errorf("last sentence %q, want %q: an accept length of 3.1 instead of 3 is within 5 %%", got, want)
	}
	wantTraps := []probes.SheetNote{{Reason: probes.Reason{Code: "mean_without_p99", Text: "tail"}, Sides: []string{"a", "b"}}}
	if diff := cmp.Diff(wantTraps, sheet.Traps); diff != "" {
		t.Errorf("traps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]probes.SheetControl{{Variable: "quantization", Values: []string{"fp8", "int4"}}}, sheet.Controls); diff != "" {
		t.Errorf("controls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"dtype"}, sheet.Unverified); diff != "" {
		t.Errorf("unverified (-want +got):\n%s", diff)
	}
}

func TestLayOfOneRun(t *testing.T) {
	sheet := Lay([]probes.Side{{Name: "a", Runs: side(1), Left: 2}})
	if len(sheet.Reading) != 0 || sheet.Sides[0].Left != 2 {
		t.Errorf("reading %v, %d left out; want nothing to read into one side, and 2", sheet.Reading, sheet.Sides[0].Left)
	}
	if len(sheet.Traps) != 1 || sheet.Traps[0].Code != "single_run" {
		t.Errorf("traps %v, want single_run", sheet.Traps)
	}
}
