package plot

import (
	"bytes"
	"errors"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var update = flag.Bool("update", false, "write the golden files")

func known(x float64) probes.Optional[float64] { return probes.Known(x) }

// swept is a search that found 14 requests per second, as it was measured: its steps
// are not in order, one is invalid and one does not know its throughput.
func swept() *probes.Run {
	run := &probes.Run{ID: "0195-sweep", Target: probes.Target{Name: "llama-staging", Model: "llama-3-8b"}}
	run.Spec.SLOs = []probes.SLO{{Name: "ttft_p99", Objective: 0.99, Bounds: map[probes.Signal]time.Duration{probes.TTFT: time.Second}}}
	for _, s := range []struct{ rate, ttft, tpot, tokens float64 }{
		{1, 0.12, 0.011, 128}, {2, 0.13, 0.0115, 256}, {4, 0.15, 0.013, 512}, {8, 0.21, 0.017, 1020}, {16, 2.9, 0.031, 1790},
		{11.3, 0.34, 0.021, 1440}, {13.45, 0.78, 0.026, 1700}, {14.67, 1.45, 0.029, 0},
	} {
		step := probes.Step{Rate: s.rate, Judged: 300, Validity: probes.Validity{State: probes.Valid}}
		step.Summary.Latency = map[probes.Signal]probes.Distribution{probes.TTFTFromDue: {N: 300, P99: s.ttft}, probes.TPOT: {N: 300, Mean: s.tpot}}
		if s.tokens > 0 {
			step.Summary.OutputThroughput = known(s.tokens)
		}
		run.Steps = append(run.Steps, step)
	}
	broken := probes.Step{Rate: 12, Judged: 300, Validity: probes.Validity{State: probes.Invalid}}
	broken.Summary.Latency = map[probes.Signal]probes.Distribution{probes.TTFTFromDue: {N: 300, P99: 99}}
	run.Steps = append(run.Steps, broken)
	run.Capacity = probes.Capacity{Rate: known(14.02), Low: known(12.6), High: known(15.4), Bracketed: true, Objective: "ttft_p99", Safe: known(11.216)}
	return run
}

func TestGoldenSVG(t *testing.T) {
	bound := swept()
	bound.Capacity = probes.Capacity{Rate: known(16), Low: known(14.5), Objective: "ttft_p99", Safe: known(12.8)}
	for name, tt := range map[string]struct {
		run   *probes.Run
		theme Theme
	}{"light": {swept(), Light}, "dark": {swept(), Dark}, "lower-bound": {bound, Light}} {
		var first, again bytes.Buffer
		if err := errors.Join(SVG(&first, tt.run, tt.theme), SVG(&again, tt.run, tt.theme)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Errorf("%s: drawing twice gives two pictures", name)
		}
		path := filepath.Join("testdata", name+".svg")
		if *update {
			if err := os.WriteFile(path, first.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), first.String()); diff != "" {
			t.Errorf("%s: -update writes it (-golden +got):\n%s", name, diff)
		}
	}
}

// What is drawn is what was measured, whatever the golden files say.
func TestWhatIsDrawn(t *testing.T) {
	var b bytes.Buffer
	if err := SVG(&b, swept(), Light); err != nil {
		t.Fatal(err)
	}
	for text, n := range map[string]int{
		"Capacity of llama-3-8b": 1, "14 requests per second keep objective ttft_p99 (95 %: 12.6 to 15.4); safe: 11.2": 1,
		"capacity 14": 1, "safe 11.2": 1, "objective 1 s": 1, "Asked rate (requests per second)": 1, "Liberation": 30,
	} {
		if got := strings.Count(b.String(), text); got < n || n == 1 && got != 1 {
			t.Errorf("the picture says %q %d times, want %d", text, got, n)
		}
	}
}

func TestFinding(t *testing.T) {
	none := probes.Optional[float64]{}
	for want, c := range map[string]probes.Capacity{
		"Objective a was missed at every rate":                                       {Objective: "a"},
		"At least 16 requests per second":                                            {Rate: known(16), Objective: "a", Safe: known(12.8)},
		"3.46 requests per second keep objective a; safe: 2.77":                      {Rate: known(3.4567), Bracketed: true, Objective: "a", Safe: known(2.765)},
		"3.46 requests per second keep objective a (95 %: at least 3.1); safe: 2.77": {Rate: known(3.4567), Low: known(3.1), High: none, Bracketed: true, Objective: "a", Safe: known(2.765)},
		"3.46 requests per second keep objective a (95 %: at most 4.01); safe: 2.77": {Rate: known(3.4567), High: known(4.009), Bracketed: true, Objective: "a", Safe: known(2.765)},
	} {
		if got := finding(&c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      string
	}{
		{0, 16, "0 5 10 15"}, {0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"}, {0, 0.035, "0.00 0.01 0.02 0.03"}, {0, 1790, "0 500 1000 1500"},
		{0, 6, "0 1 2 3 4 5 6"}, {0, 0.003, "0.0000 0.0005 0.0010 0.0015 0.0020 0.0025 0.0030"}, {0, 0, ""},
	} {
		var labels []string
		for _, tick := range ticks(tt.low, tt.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != tt.want {
			t.Errorf("ticks from %v to %v: %q, want %q", tt.low, tt.high, got, tt.want)
		}
	}
}

func TestPNG(t *testing.T) {
	for theme, ground := range map[Theme]uint32{Light: 0xffff, Dark: 0x1111} {
		var b bytes.Buffer
		if err := PNG(&b, swept(), theme); err != nil {
			t.Fatal(err)
		}
		if *update {
			_ = os.WriteFile(filepath.Join(os.TempDir(), []string{"sweep-light.png", "sweep-dark.png"}[theme]), b.Bytes(), 0o644)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if size := img.Bounds().Size(); size.X != 1440 || size.Y != 1440 {
			t.Errorf("the picture has %v pixels, want 1440 by 1440", size)
		}
		if r, _, _, _ := img.At(3, 3).RGBA(); r != ground {
			t.Errorf("theme %d: the ground has red %#x, want %#x", theme, r, ground)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	run := swept()
	for i := range run.Steps {
		run.Steps[i].Validity.State = probes.Invalid
	}
	want := "draw sweep 0195-sweep: none of its 9 steps can be used"
	if err := SVG(&bytes.Buffer{}, run, Light); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
