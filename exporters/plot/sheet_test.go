package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// recorded is a run whose requests had these times to the first token.
func recorded(ttfts ...time.Duration) *probes.Run {
	run := &probes.Run{}
	for _, d := range ttfts {
		run.Records = append(run.Records, probes.Record{Outcome: probes.OK, FirstToken: probes.Known(d), Chunks: []probes.Chunk{{At: d}}})
	}
	return run
}

func TestSheetCharts(t *testing.T) {
	ms := time.Millisecond
	sheet := &probes.Sheet{Sides: []probes.Side{
		{Name: "a", Runs: []*probes.Run{recorded(10*ms, 30*ms), recorded(20 * ms)}},
		{Name: "b", Runs: []*probes.Run{recorded(50*ms, 410*ms)}},
	}}
	charts := SheetCharts(sheet)
	if len(charts) != 2 {
		t.Fatalf("%d charts, want the distribution of TTFT twice", len(charts))
	}
	third := 1. / 3
	want := []Line{{Name: "a", X: []float64{10, 20, 30}, Y: []float64{third, 2 * third, 1}}, {Name: "b", X: []float64{50, 410}, Y: []float64{0.5, 1}}}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
	if diff := cmp.Diff(want, charts[0].Lines, near); diff != "" {
		t.Errorf("share below (-want +got):\n%s", diff)
	}
	// The classes end at the p99 of all five, the fourth of them: 1 ms each.
	shares := charts[1].Lines[0].Y
	if len(shares) != classes+1 || charts[1].Lines[0].X[1]-charts[1].Lines[0].X[0] != 1 || math.Abs(shares[0]-third) > 1e-12 || math.Abs(shares[10]-third) > 1e-12 {
		t.Errorf("classes %v", charts[1].Lines[0])
	}
	if last := charts[1].Lines[1].Y[classes-1]; last != 0.5 {
		t.Errorf("the highest value drawn is in the last class with %v, want half of b", last)
	}
}

func TestSheetChartsWithoutRecords(t *testing.T) {
	summary := func(p50 float64) *probes.Run {
		return &probes.Run{Summary: probes.Summary{Latency: map[probes.Signal]probes.Distribution{
			probes.TTFT: {N: 9, P50: p50, P90: math.NaN(), P95: math.NaN(), P99: 2 * p50}}}}
	}
	sheet := &probes.Sheet{Sides: []probes.Side{{Name: "a", Runs: []*probes.Run{summary(0.3), summary(0.1), summary(0.2)}}, {Name: "b", Runs: []*probes.Run{recorded(time.Millisecond)}}}}
	charts := SheetCharts(sheet)
	if len(charts) != 1 || !charts[0].Dots || !strings.Contains(charts[0].Title, "without records") {
		t.Fatalf("charts %+v, want one that says what it is made of", charts)
	}
	if diff := cmp.Diff(Line{Name: "a", X: []float64{200, 400}, Y: []float64{0.5, 0.99}}, charts[0].Lines[0]); diff != "" {
		t.Errorf("percentiles (-want +got):\n%s", diff)
	}
}

func TestSheetChartsOfSweepsAndSeries(t *testing.T) {
	step := func(rate, p99 float64, state probes.ValidityState) probes.Step {
		return probes.Step{Rate: rate, Judged: 10, Validity: probes.Validity{State: state}, Stationary: true,
			Summary: probes.Summary{Completed: 10, Requests: 10, Latency: map[probes.Signal]probes.Distribution{probes.TTFTFromDue: {N: 10, P99: p99}}}}
	}
	run := &probes.Run{Steps: []probes.Step{step(4, 0.4, probes.Valid), step(2, 0.2, probes.Valid), step(8, 9, probes.Invalid)}}
	charts := SheetCharts(&probes.Sheet{Sides: []probes.Side{{Name: "a", Runs: []*probes.Run{{}, run}}}})
	if len(charts) != 1 {
		t.Fatalf("%d charts, want the one panel that the steps know", len(charts))
	}
	if diff := cmp.Diff(Line{Name: "a", X: []float64{2, 4}, Y: []float64{0.2, 0.4}}, charts[0].Lines[0]); diff != "" {
		t.Errorf("curve (-want +got):\n%s", diff)
	}

	values := []probes.Optional[float64]{probes.Known(0.1), {}, probes.Known(0.3)}
	charts = SheetCharts(&probes.Sheet{Sides: []probes.Side{{Name: "a", Runs: []*probes.Run{{}, {}, {}}}},
		Rows: []probes.SheetRow{{Label: "TTFT mean", Unit: "ms", Scale: 1e3, Key: true, Cells: []probes.SheetCell{{N: 2, Values: values}}}, {Label: "other", Cells: []probes.SheetCell{{}}}}})
	if len(charts) != 1 || charts[0].Title != "TTFT mean (ms)" {
		t.Fatalf("charts %+v, want the key number of a series", charts)
	}
	if diff := cmp.Diff(Line{Name: "a", X: []float64{1, 3}, Y: []float64{100, 300}}, charts[0].Lines[0]); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestChartSVG(t *testing.T) {
	chart := &Chart{Title: "T & <T>", XLabel: "ms", Lines: []Line{{Name: "a < b", X: []float64{1, 2}, Y: []float64{0.5, 1}}, {Name: "none"}, {Name: "one", X: []float64{3}, Y: []float64{1}}}}
	draw := func(theme Theme) string {
		var b bytes.Buffer
		if err := ChartSVG(&b, chart, theme); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	light, dark := draw(Light), draw(Dark)
	if light != draw(Light) {
		t.Error("the same chart gives other bytes")
	}
	for text, want := range map[string]bool{"#1F60C4": true, "T &amp; &lt;T&gt;": true, "a &lt; b": true, ">none<": false} {
		if got := strings.Contains(light, text); got != want {
			t.Errorf("the drawing holds %q: %t, want %t", text, got, want)
		}
	}
	if !strings.Contains(dark, "#111217") {
		t.Error("the dark drawing has no dark ground")
	}
	d := xml.NewDecoder(strings.NewReader(light))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := ChartSVG(io.Discard, &Chart{Title: "empty"}, Light); err == nil || !strings.Contains(err.Error(), "nothing to draw") {
		t.Errorf("an empty chart: %v, want that there is nothing to draw", err)
	}
}

func TestLargeSamplesAreThinned(t *testing.T) {
	samples := make([]float64, 10_000)
	for i := range samples {
		samples[i] = float64(i + 1)
	}
	line := cdf("a", samples)
	if n := len(line.X); n != mostPoints || line.X[n-1] != 10_000 || line.Y[n-1] != 1 || line.X[0] != 25 || line.Y[0] != 0.0025 {
		t.Errorf("%d points from %v at %v", n, line.X[0], line.Y[0])
	}
}
