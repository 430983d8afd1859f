package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// series makes a sample every second.
func series(heap ...float64) []sample {
	var out []sample
	for i, v := range heap {
		out = append(out, sample{at: time.Duration(i) * time.Second, heapMiB: v, goroutines: 10 * v})
	}
	return out
}

func TestGrowth(t *testing.T) {
	tests := []struct {
		name string
		heap []float64
		want float64
	}{
		{"flat", []float64{5, 5, 5, 5}, 0},
		{"steady", []float64{1, 2, 3, 4}, 3},
		{"falling", []float64{4, 3, 2, 1}, -3},
		// Mean time 1.5, mean value 2.25: (1.5*1.25 - 0.5*1.25 + 0.5*1.25 + 1.5*2.75)... by hand:
		// deviations -1.25, -0.25, -1.25, 2.75 at -1.5, -0.5, 0.5, 1.5 give 5.5 over 5.
		{"one step", []float64{1, 2, 1, 5}, 3.3},
		{"one sample", []float64{7}, 0},
	}
	for _, tc := range tests {
		got := growth(series(tc.heap...), func(s sample) float64 { return s.heapMiB })
		if off := got - tc.want; off > 1e-12 || off < -1e-12 {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Only the second half counts: a process that fills its windows first is healthy.
func TestJudge(t *testing.T) {
	tests := []struct {
		name string
		heap []float64
		want []string
	}{
		{"grows first, then stays", []float64{1, 5, 9, 9, 9, 9, 9, 9}, nil},
		{"within the bounds", []float64{1, 1, 1, 1, 1, 1.1, 1.2, 1.3}, nil},
		{"grows for ever", []float64{1, 1, 1, 1, 1, 2, 3, 4}, []string{"heap grew by 3.00 MiB over the last 3s, more than 2.00", "goroutines grew by 30.00 over the last 3s, more than 5.00"}},
	}
	crowded := series(1, 1)
	crowded[1].connections = 121
	if diff := cmp.Diff([]string{"121 connections are kept open, more than 120"}, judge(crowded, bounds{2, 5}, new(bytes.Buffer))); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
	for _, tc := range tests {
		var out bytes.Buffer
		if diff := cmp.Diff(tc.want, judge(series(tc.heap...), bounds{2, 5}, &out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 2 {
			t.Errorf("%s: got %q, want a line for each quantity", tc.name, out.String())
		}
	}
}

func TestMistakesInTheCall(t *testing.T) {
	for _, args := range [][]string{{"--for", "1s", "--sample", "1s"}, {"--for", "0s"}, {"now"}, {"--fro", "1m"}} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), args, &out, &errs); code != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: got status %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

// A short soak runs everything; its bounds are set so wide that only what did
// not happen can fail it.
func TestShortSoak(t *testing.T) {
	var out, errs bytes.Buffer
	code := command(t.Context(), []string{"--for", "6s", "--sample", "1500ms", "--heap-growth", "1000", "--goroutine-growth", "1000000"}, &out, &errs)
	if code != 0 {
		t.Fatalf("status %d\n%s%s", code, out.String(), errs.String())
	}
	rows := regexp.MustCompile(`(?m)^ +\d+s .* MiB +(\d+) +(\d+)$`).FindAllStringSubmatch(out.String(), -1)
	if len(rows) < minSamples {
		t.Fatalf("got %d samples, want %d at least\n%s", len(rows), minSamples, out.String())
	}
	last := rows[len(rows)-1]
	if events, runs := last[1], last[2]; events == "0" || runs == "0" {
		t.Errorf("got %s events and %s runs, want some of each", events, runs)
	}
}
