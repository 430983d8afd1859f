// Package plot draws the curve of a sweep as SVG or PNG, and the sides of a sheet as SVG.
//
// The story of the data: the usable steps of a run become three panels over the asked
// rate, one below the other: TTFT p99, mean TPOT and output tokens per second. The
// capacity with its interval and the safe rate are marked in all of them, the bound of an
// objective where it belongs. What a step does not know is left out of its line.
//
// A sheet becomes charts with a line for each side: distributions from the records, and
// the panels of sweeps.
//
// The house style is here and nowhere else: Liberation Sans, which is embedded, so that
// no host's fonts change a byte; ticks at 1, 2 or 5 times a power of ten; room around
// everything; Grafana's colours on light or dark ground.
package plot

import (
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/inferbeat/inferbeat/probes"
)

const (
	width, height = vg.Length(720), vg.Length(720)
	padding       = vg.Length(18)
	headline      = vg.Length(40)
	dpi           = 144
)

// SVG draws the curve of a sweep. The same run gives the same bytes.
func SVG(w io.Writer, run *probes.Run, theme Theme) error {
	c := vgsvg.New(width, height)
	if err := sweep(draw.New(c), run, theme.style()); err != nil {
		return err
	}
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write svg: %w", err)
	}
	return nil
}

// PNG draws the curve of a sweep at 1440 by 1440 pixels.
func PNG(w io.Writer, run *probes.Run, theme Theme) error {
	s := theme.style()
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(s.ground))}
	if err := sweep(draw.New(c), run, s); err != nil {
		return err
	}
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write png: %w", err)
	}
	return nil
}

// panel is one quantity over the rate.
type panel struct {
	title string
	value func(*probes.Summary) probes.Optional[float64]
	// signal and percentile of the objectives whose bound belongs into the panel.
	signal probes.Signal
	share  float64
}

var panels = []panel{
	{title: "TTFT p99, from due (s)", signal: probes.TTFT, share: 0.99, value: func(s *probes.Summary) probes.Optional[float64] {
		return s.Distribution(probes.TTFTFromDue).Get(probes.StatP99)
	}},
	{title: "TPOT mean (s)", value: func(s *probes.Summary) probes.Optional[float64] {
		return s.Distribution(probes.TPOT).Get(probes.StatMean)
	}},
	{title: "Output tokens per second", value: func(s *probes.Summary) probes.Optional[float64] { return s.SustainedOutput() }},
}

// sweep draws everything onto a canvas.
func sweep(c draw.Canvas, run *probes.Run, s style) error {
	steps := usable(run.Steps)
	if len(steps) == 0 {
		return fmt.Errorf("draw sweep %s: none of its %d steps can be used", run.ID, len(run.Steps))
	}
	c.FillPolygon(s.ground, []vg.Point{{X: 0, Y: 0}, {X: width, Y: 0}, {X: width, Y: height}, {X: 0, Y: height}})
	inner := draw.Crop(c, padding, -padding, padding, -padding)
	s.headline(inner, run)
	most := steps[len(steps)-1].Rate
	if high, ok := run.Capacity.High.Get(); ok {
		most = max(most, high)
	}
	rows := make([][]*plot.Plot, len(panels))
	for i, p := range panels {
		drawn, err := s.panel(p, steps, run, most*1.04)
		if err != nil {
			return fmt.Errorf("draw %s: %w", p.title, err)
		}
		if i == len(panels)-1 {
			drawn.X.Label.Text = "Asked rate (requests per second)"
		}
		rows[i] = []*plot.Plot{drawn}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: 14}
	below := draw.Crop(inner, 0, 0, 0, -headline)
	for i, row := range plot.Align(rows, tiles, below) {
		rows[i][0].Draw(row[0])
	}
	return nil
}

// usable are the steps that may be drawn, by rising rate.
func usable(steps []probes.Step) []*probes.Step {
	var out []*probes.Step
	for i := range steps {
		if steps[i].Usable() {
			out = append(out, &steps[i])
		}
	}
	slices.SortStableFunc(out, func(a, b *probes.Step) int {
		if a.Rate < b.Rate {
			return -1
		}
		return 1
	})
	return out
}

// panel draws one quantity.
func (s style) panel(p panel, steps []*probes.Step, run *probes.Run, most float64) (*plot.Plot, error) {
	out := s.plot(p.title)
	var points plotter.XYs
	top := 0.0
	for _, step := range steps {
		if v, ok := p.value(&step.Summary).Get(); ok {
			points = append(points, plotter.XY{X: step.Rate, Y: v})
			top = max(top, v)
		}
	}
	bounds := boundsOf(p, run.Spec.SLOs)
	for _, b := range bounds {
		top = max(top, b)
	}
	if top == 0 {
		top = 1
	}
	out.X.Min, out.X.Max, out.Y.Min, out.Y.Max = 0, most, 0, top*1.12
	if err := s.marks(out, &run.Capacity, p.title == panels[0].title); err != nil {
		return nil, err
	}
	for _, b := range bounds {
		if err := s.promise(out, b, most); err != nil {
			return nil, err
		}
	}
	if len(points) == 0 {
		return out, nil
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = s.line, vg.Points(2)
	dots.Color, dots.Shape, dots.Radius = s.line, draw.CircleGlyph{}, vg.Points(2.6)
	out.Add(line, dots)
	return out, nil
}

// boundsOf are the bounds in seconds of the objectives that belong into a panel.
func boundsOf(p panel, slos []probes.SLO) (out []float64) {
	for i := range slos {
		if bound, ok := slos[i].Bounds[p.signal]; ok && math.Abs(slos[i].Objective-p.share) < 1e-9 {
			out = append(out, bound.Seconds())
		}
	}
	return out
}
