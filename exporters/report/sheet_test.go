package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

// sheet is two sides of five and four runs; the names hold marks of Markdown and HTML.
func sheet() *probes.Sheet {
	p := func(x float64) probes.Optional[float64] { return probes.Known(x) }
	runs := func(prefix string, n int) (out []*probes.Run) {
		for i := range n {
			out = append(out, &probes.Run{
				ID: prefix + string(rune('1'+i)), Start: time.Date(2026, 3, 1+i, 2, 0, 0, 0, time.UTC), Origin: "r.jsonl:1",
				Target:   probes.Target{Name: "llama " + prefix, Backend: "vllm", Model: "m*"},
				Spec:     probes.Spec{Probe: "nightly"},
				Validity: probes.Validity{State: probes.Valid}, Verdict: probes.Verdict{State: probes.Pass},
			})
		}
		return out
	}
	values := func(base float64, n int) (out []probes.Optional[float64]) {
		for i := range n {
			out = append(out, p(base*(1+0.01*float64(i))))
		}
		return out
	}
	cell := func(base float64, n int, against *probes.Judgement) probes.SheetCell {
		return probes.SheetCell{N: n, Median: base * 1.02, Min: base, Max: base * 1.04, Values: values(base, n), Against: against}
	}
	unknown := probes.SheetCell{Values: make([]probes.Optional[float64], 4)}
	return &probes.Sheet{
		Sides: []probes.Side{{Name: "sglang_a", Runs: runs("a", 5)}, {Name: "vllm <b>", Runs: runs("b", 4), Left: 1}},
		Rows: []probes.SheetRow{
			{Name: "ttft_mean", Label: "TTFT mean", Unit: "ms", Scale: 1e3, Key: true, Cells: []probes.SheetCell{
				cell(0.1, 5, nil), cell(0.12, 4, &probes.Judgement{N: 4, Effect: p(0.19), Low: p(0.16), High: p(0.22), P: p(2. / 126)})}},
			{Name: "tpot_p50", Label: "TPOT p50", Unit: "ms", Scale: 1e3, Cells: []probes.SheetCell{
				cell(0.02, 5, nil), cell(0.0201, 4, &probes.Judgement{N: 4, Effect: p(0.005), Low: p(-0.02), High: p(0.03), P: p(0.5)})}},
			{Name: "output_throughput", Label: "Output throughput", Unit: "tok/s", Scale: 1, Key: true, Cells: []probes.SheetCell{
				cell(4521, 5, nil), cell(4123, 4, &probes.Judgement{N: 3, HigherBetter: true, Effect: p(0.0965)})}},
			{Name: "prefix_cache_hit_ratio", Label: "Prefix cache hits", Unit: "%", Scale: 100, Cells: []probes.SheetCell{
				cell(0.5, 5, nil), cell(0.1, 4, &probes.Judgement{N: 4, HigherBetter: true, Points: true, Effect: p(0.4), Low: p(0.39), High: p(0.41), P: p(2. / 126)})}},
			{Name: "spec_accept_length", Label: "Accept length", Scale: 1, Cells: []probes.SheetCell{cell(3, 5, nil), unknown}},
		},
		Controls: []probes.SheetControl{
			{Variable: "attention_backend", Values: []string{"fa3", "flashinfer"}}, {Variable: "dtype", Values: []string{"bfloat16", ""}},
		},
		Equal:      []probes.SheetControl{{Variable: "rate", Values: []string{"16/s poisson", "16/s poisson"}}},
		Unverified: []string{"accelerator"},
		Reading:    []string{"TTFT mean of vllm <b> is higher by 19.00 %."},
		Traps:      []probes.SheetNote{{Reason: probes.Reason{Code: "first_request_counted", Text: "there was no warm-up"}, Sides: []string{"sglang_a", "vllm <b>"}}},
		Doubts:     []probes.SheetNote{{Reason: probes.Reason{Code: "runs_left_out", Text: "runs are left out"}, Sides: []string{"vllm <b>"}}},
	}
}

// series is one side, of which the last run was judged over nights.
func series() *probes.Sheet {
	s := sheet()
	s.Sides = s.Sides[:1]
	for i := range s.Rows {
		s.Rows[i].Cells = s.Rows[i].Cells[:1]
	}
	s.Controls, s.Equal, s.Reading, s.Traps, s.Doubts = nil, []probes.SheetControl{{Variable: "rate", Values: []string{"16/s poisson"}}}, nil, nil, nil
	s.Rows[0].Cells[0].Values[1] = probes.Optional[float64]{}
	s.Sides[0].Runs[4].Changes = []probes.Change{
		{Metric: probes.MetricTPOTp50, State: probes.ChangeWorse, Effect: probes.Known(0.12), BaselineRuns: 30,
			Onset: time.Date(2026, 3, 3, 2, 0, 0, 0, time.UTC), SmallestStep: probes.Known(0.02)},
		{Metric: probes.MetricTTFTp50, State: probes.ChangeLearning, BaselineRuns: 4},
		{Metric: probes.MetricOutputThroughput, State: probes.ChangeBetter, Effect: probes.Known(-0.05), BaselineRuns: 12},
	}
	return s
}

func TestSheetGolden(t *testing.T) {
	figures := []Figure{{Title: "CDF & more", Light: "<svg><title>light</title></svg>", Dark: "<svg><title>dark</title></svg>"}}
	html := func(w io.Writer, s *probes.Sheet) error { return SheetHTML(w, s, figures) }
	for _, tt := range []struct {
		file  string
		write func(io.Writer, *probes.Sheet) error
		sheet *probes.Sheet
	}{
		{"sheet.golden.txt", SheetText, sheet()}, {"sheet.golden.md", SheetMarkdown, sheet()}, {"sheet.golden.html", html, sheet()},
		{"sheet.golden.bench", SheetBenchfmt, sheet()}, {"series.golden.txt", SheetText, series()},
	} {
		t.Run(tt.file, func(t *testing.T) {
			var b bytes.Buffer
			if err := tt.write(&b, tt.sheet); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", tt.file)
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v; write it with -update and read it", err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("sheet (-golden +got); -update writes it:\n%s", diff)
			}
		})
	}
}

// The page is well formed, and nothing in it is fetched from anywhere.
func TestSheetPageStandsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := SheetHTML(&b, sheet(), nil); err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{"http:", "https:", "//", "src=", "<script", "@import", "url("} {
		if strings.Contains(b.String(), outside) {
			t.Errorf("the page holds %q", outside)
		}
	}
	d := xml.NewDecoder(&b)
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if depth != 0 {
		t.Errorf("%d elements are not closed", depth)
	}
}

func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234567: "1234567", 4521.3: "4521", 245.66: "245.7", 31.456: "31.46", 0.012345: "0.01235", 1e-9: "0.000000", -2.5: "-2.500"} {
		if got := significant(v); got != want {
			t.Errorf("significant(%v) = %s, want %s", v, got, want)
		}
	}
}

// Names and units are those of Go benchmarks: no blanks, a capital letter first.
func TestBenchmarkName(t *testing.T) {
	for label, want := range map[string]string{
		"TTFT p50": "TTFT/stat=p50", "TPOT mean": "TPOT/stat=mean", "Output throughput": "OutputThroughput", "Prefix cache hits": "PrefixCacheHits", "Success": "Success",
	} {
		if got := benchmarkName(label); got != want {
			t.Errorf("benchmarkName(%q) = %s, want %s", label, got, want)
		}
	}
}
