package plot

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/inferbeat/inferbeat/probes"
)

// Theme is the ground that is drawn on.
type Theme int

const (
	Light Theme = iota
	Dark
)

// style is the house style on one ground.
type style struct {
	ground, ink, faint, grid color.NRGBA
	line, knee, band, bound  color.NRGBA
}

func (t Theme) style() style {
	if t == Dark {
		return style{
			ground: rgb(0x111217), ink: rgb(0xccccdc), faint: rgb(0x8e8e9c), grid: rgb(0x2c2f36),
			line: rgb(0xf2cc0c), knee: rgb(0xff7383), band: clear(0xff7383, 34), bound: rgb(0x8ab8ff),
		}
	}
	return style{
		ground: rgb(0xffffff), ink: rgb(0x24292e), faint: rgb(0x6a737d), grid: rgb(0xe4e6ea),
		line: rgb(0x1f60c4), knee: rgb(0xc4162a), band: clear(0xc4162a, 22), bound: rgb(0x37872d),
	}
}

// side is the colour of one of several lines, as Grafana's classic palette has them;
// the first two are told apart by all eyes.
func (t Theme) side(i int) color.NRGBA {
	light := []uint32{0x1f60c4, 0xe0752d, 0x37872d, 0x8f3bb8, 0xc4162a, 0x6a737d}
	dark := []uint32{0x5794f2, 0xff9830, 0x73bf69, 0xb877d9, 0xf2495c, 0x9fa7b3}
	if t == Dark {
		return rgb(dark[i%len(dark)])
	}
	return rgb(light[i%len(light)])
}

func rgb(hex uint32) color.NRGBA { return clear(hex, 255) }

func clear(hex uint32, alpha uint8) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: alpha}
}

// sans is a text style in the embedded font.
func (s style) sans(size vg.Length, ink color.Color) text.Style {
	return text.Style{
		Color: ink, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler,
	}
}

// plot is an empty panel.
func (s style) plot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = s.ground
	p.Title.Text, p.Title.TextStyle = title, s.sans(11, s.ink)
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = text.XCenter, text.YTop
	p.Title.Padding = vg.Points(5)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = s.grid, s.grid
		align := axis.Tick.Label
		axis.Tick.Label = s.sans(9.5, s.faint)
		axis.Tick.Label.XAlign, axis.Tick.Label.YAlign, axis.Tick.Label.Rotation = align.XAlign, align.YAlign, align.Rotation
		label := axis.Label.TextStyle
		axis.Label.TextStyle = s.sans(10.5, s.ink)
		axis.Label.TextStyle.XAlign, axis.Label.TextStyle.YAlign, axis.Label.TextStyle.Rotation = label.XAlign, label.YAlign, label.Rotation
		axis.Label.Padding = vg.Points(6)
		axis.Tick.Marker = plot.TickerFunc(ticks)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = s.grid, s.grid
	grid.Horizontal.Width, grid.Vertical.Width = vg.Points(0.6), vg.Points(0.6)
	p.Add(grid)
	return p
}

// ticks are 1, 2 or 5 times a power of ten apart, about six of them.
func ticks(low, high float64) []plot.Tick {
	step := niceStep((high - low) / 6)
	if !(step > 0) || math.IsInf(step, 1) {
		return nil
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var out []plot.Tick
	for i := math.Ceil(low/step-1e-9) + 0; i*step <= high*(1+1e-9); i++ { // +0: a zero that is not negative
		out = append(out, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'f', digits, 64)})
	}
	return out
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is not below x.
func niceStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// headline says whose curve it is and what was found.
func (s style) headline(c draw.Canvas, run *probes.Run) {
	title, sub := s.sans(15, s.ink), s.sans(10.5, s.faint)
	title.YAlign, sub.YAlign = text.YTop, text.YTop
	name := run.Target.Model
	if name == "" {
		name = run.Target.Name
	}
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, "Capacity of "+name)
	c.FillText(sub, vg.Point{X: c.Min.X, Y: c.Max.Y - 21}, finding(&run.Capacity))
}

// finding is the result in one line.
func finding(c *probes.Capacity) string {
	rate, ok := c.Rate.Get()
	safe, _ := c.Safe.Get()
	switch {
	case !ok:
		return "Objective " + c.Objective + " was missed at every rate"
	case !c.Bracketed:
		return fmt.Sprintf("At least %s requests per second", figures(rate))
	}
	line := fmt.Sprintf("%s requests per second keep objective %s", figures(rate), c.Objective)
	low, okLow := c.Low.Get()
	high, okHigh := c.High.Get()
	switch {
	case okLow && okHigh:
		line += fmt.Sprintf(" (95 %%: %s to %s)", figures(low), figures(high))
	case okLow:
		line += fmt.Sprintf(" (95 %%: at least %s)", figures(low))
	case okHigh:
		line += fmt.Sprintf(" (95 %%: at most %s)", figures(high))
	}
	return line + fmt.Sprintf("; safe: %s", figures(safe))
}

func figures(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// marks draws the capacity, its interval and the safe rate, with their names in the
// first panel.
func (s style) marks(p *plot.Plot, c *probes.Capacity, named bool) error {
	rate, ok := c.Rate.Get()
	if !ok || !c.Bracketed {
		return nil
	}
	low, okLow := c.Low.Get()
	high, okHigh := c.High.Get()
	if okLow && okHigh {
		band, err := plotter.NewPolygon(plotter.XYs{{X: low, Y: 0}, {X: high, Y: 0}, {X: high, Y: p.Y.Max}, {X: low, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		band.Color, band.LineStyle.Width = s.band, 0
		p.Add(band)
	}
	safe, _ := c.Safe.Get()
	for _, m := range []struct {
		at   float64
		name string
		ink  color.NRGBA
		dash []vg.Length
	}{
		{rate, "capacity " + figures(rate) + " ", s.knee, []vg.Length{5, 3}},
		{safe, "safe " + figures(safe) + " ", s.faint, []vg.Length{1.5, 2.5}},
	} {
		if err := s.rule(p, plotter.XYs{{X: m.at, Y: 0}, {X: m.at, Y: p.Y.Max}}, m.ink, m.dash); err != nil {
			return err
		}
		if named {
			if err := s.label(p, plotter.XY{X: m.at, Y: p.Y.Max}, m.name, m.ink); err != nil {
				return err
			}
		}
	}
	return nil
}

// promise draws what an objective allows.
func (s style) promise(p *plot.Plot, at, most float64) error {
	if err := s.rule(p, plotter.XYs{{X: 0, Y: at}, {X: most, Y: at}}, s.bound, []vg.Length{1.5, 2.5}); err != nil {
		return err
	}
	return s.label(p, plotter.XY{X: most * 0.14, Y: at}, "objective "+figures(at)+" s", s.bound)
}

func (s style) rule(p *plot.Plot, ends plotter.XYs, ink color.NRGBA, dash []vg.Length) error {
	line, err := plotter.NewLine(ends)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = ink, vg.Points(1.2), dash
	p.Add(line)
	return nil
}

// label writes a name to the left of a point, below it.
func (s style) label(p *plot.Plot, at plotter.XY, name string, ink color.NRGBA) error {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{at}, Labels: []string{name}})
	if err != nil {
		return err
	}
	labels.TextStyle[0] = s.sans(9.5, ink)
	labels.TextStyle[0].XAlign, labels.TextStyle[0].YAlign = text.XRight, text.YTop
	p.Add(labels)
	return nil
}
