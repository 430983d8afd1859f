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
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/inferbeat/inferbeat/probes"
)

// Chart is one panel with a line for each side.
type Chart struct {
	Title, XLabel string
	YMax          float64 // 0 is as high as the lines
	// Stairs draws lines as steps, Dots marks the points.
	Stairs, Dots bool
	Lines        []Line
}

// Line is one side's.
type Line struct {
	Name string
	X, Y []float64
}

const chartWidth, chartHeight = vg.Length(720), vg.Length(300)

// ChartSVG draws a chart. The same chart gives the same bytes.
func ChartSVG(w io.Writer, chart *Chart, theme Theme) error {
	s := theme.style()
	c := vgsvg.New(chartWidth, chartHeight)
	canvas := draw.New(c)
	canvas.FillPolygon(s.ground, []vg.Point{{X: 0, Y: 0}, {X: chartWidth, Y: 0}, {X: chartWidth, Y: chartHeight}, {X: 0, Y: chartHeight}})
	p, err := s.chart(chart, theme)
	if err != nil {
		return fmt.Errorf("draw %s: %w", chart.Title, err)
	}
	p.Draw(draw.Crop(canvas, padding, -padding, padding, -padding))
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write svg: %w", err)
	}
	return nil
}

func (s style) chart(chart *Chart, theme Theme) (*plot.Plot, error) {
	p := s.plot(chart.Title)
	p.X.Label.Text = chart.XLabel
	p.Legend.Top = true
	p.Legend.TextStyle = s.sans(9.5, s.ink)
	p.Legend.ThumbnailWidth, p.Legend.Padding = vg.Points(16), vg.Points(3)
	left, right, top := math.Inf(1), math.Inf(-1), 0.0
	for i, line := range chart.Lines {
		points := make(plotter.XYs, len(line.X))
		for k := range line.X {
			points[k] = plotter.XY{X: line.X[k], Y: line.Y[k]}
			left, right, top = min(left, line.X[k]), max(right, line.X[k]), max(top, line.Y[k])
		}
		if len(points) == 0 {
			continue
		}
		drawn, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		ink := theme.side(i)
		drawn.Color, drawn.Width = ink, vg.Points(1.8)
		if chart.Stairs {
			drawn.StepStyle = plotter.PostStep
		}
		dots.Color, dots.Shape, dots.Radius = ink, draw.CircleGlyph{}, vg.Points(2.6)
		p.Add(drawn)
		if chart.Dots || len(points) == 1 {
			p.Add(dots)
		}
		p.Legend.Add(line.Name, drawn)
	}
	if right < left {
		return nil, fmt.Errorf("there is nothing to draw")
	}
	room := (right - left) * 0.03
	if room == 0 {
		room = math.Abs(right)*0.1 + 1e-9
	}
	if chart.YMax > 0 {
		top = chart.YMax / 1.25
	}
	// The legend stands in what is left free above the lines.
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = max(0, left-room), right+room, 0, max(top, 1e-9)*1.25
	return p, nil
}

// SheetCharts are the drawings that the runs of a sheet allow: how first tokens and
// times per token were distributed, and the curves of sweeps. Without records there
// are only the percentiles of the runs to draw a distribution with.
func SheetCharts(sheet *probes.Sheet) []Chart {
	var out []Chart
	for _, s := range []struct {
		signal probes.Signal
		name   string
		of     func(*probes.Record) (float64, bool)
	}{
		{probes.TTFT, "Time to first token", func(r *probes.Record) (float64, bool) { d, ok := r.TTFT().Get(); return d.Seconds(), ok }},
		{probes.TPOT, "Time per output token", func(r *probes.Record) (float64, bool) { d, ok := r.TPOT().Get(); return d.Seconds(), ok }},
	} {
		cumulative := Chart{Title: s.name + ": share of requests below", XLabel: "milliseconds", YMax: 1.25}
		density := Chart{Title: s.name + ": share of requests in each of 40 classes", XLabel: "milliseconds", Stairs: true}
		exact := true
		for _, side := range sheet.Sides {
			samples := sideSamples(side.Runs, s.of)
			if len(samples) == 0 {
				exact = false
				cumulative.Lines = append(cumulative.Lines, percentiles(side, s.signal))
				continue
			}
			cumulative.Lines = append(cumulative.Lines, cdf(side.Name, samples))
		}
		if !exact {
			cumulative.Title += " (of sides without records the median of their percentiles)"
			cumulative.Dots = true
		} else {
			density.Lines = densities(sheet, s.of)
		}
		out = appendDrawable(out, cumulative, density)
	}
	out = appendDrawable(out, sweepCharts(sheet)...)
	return appendDrawable(out, seriesCharts(sheet)...)
}

// seriesCharts show the key numbers of a single side run by run.
func seriesCharts(sheet *probes.Sheet) (out []Chart) {
	if len(sheet.Sides) != 1 || len(sheet.Sides[0].Runs) < 3 {
		return nil
	}
	for _, row := range sheet.Rows {
		if !row.Key {
			continue
		}
		line := Line{Name: sheet.Sides[0].Name}
		for i, value := range row.Cells[0].Values {
			if v, ok := value.Get(); ok {
				line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, v*row.Scale)
			}
		}
		out = append(out, Chart{Title: row.Label + " (" + row.Unit + ")", XLabel: "Run", Dots: true, Lines: []Line{line}})
	}
	return out
}

func appendDrawable(out []Chart, charts ...Chart) []Chart {
	for _, c := range charts {
		if slices.ContainsFunc(c.Lines, func(l Line) bool { return len(l.X) > 0 }) {
			out = append(out, c)
		}
	}
	return out
}

// sideSamples are those of all runs of a side, ordered, in milliseconds.
func sideSamples(runs []*probes.Run, of func(*probes.Record) (float64, bool)) []float64 {
	var out []float64
	for _, run := range runs {
		for i := range run.Records {
			if v, ok := of(&run.Records[i]); ok {
				out = append(out, v*1e3)
			}
		}
	}
	slices.Sort(out)
	return out
}

// mostPoints keeps a drawing of a million requests as small as one of a few hundred.
const mostPoints = 400

// cdf is the share of samples up to each value.
func cdf(name string, samples []float64) Line {
	n := len(samples)
	line := Line{Name: name}
	for k := range min(n, mostPoints) {
		i := (k+1)*n/min(n, mostPoints) - 1
		line.X, line.Y = append(line.X, samples[i]), append(line.Y, float64(i+1)/float64(n))
	}
	return line
}

// percentiles are the medians over the runs of what their summaries know.
func percentiles(side probes.Side, signal probes.Signal) Line {
	line := Line{Name: side.Name}
	for _, p := range []struct {
		stat  probes.Statistic
		share float64
	}{{probes.StatP50, 0.5}, {probes.StatP90, 0.9}, {probes.StatP95, 0.95}, {probes.StatP99, 0.99}} {
		var values []float64
		for _, run := range side.Runs {
			if v, ok := run.Summary.Distribution(signal).Get(p.stat).Get(); ok && !math.IsNaN(v) {
				values = append(values, v*1e3)
			}
		}
		if len(values) > 0 {
			slices.Sort(values)
			line.X, line.Y = append(line.X, values[len(values)/2]), append(line.Y, p.share)
		}
	}
	return line
}

const classes = 40

// densities have their classes in common, from the smallest value to the p99 of all.
func densities(sheet *probes.Sheet, of func(*probes.Record) (float64, bool)) []Line {
	var all []float64
	sides := make([][]float64, len(sheet.Sides))
	for i, side := range sheet.Sides {
		sides[i] = sideSamples(side.Runs, of)
		all = append(all, sides[i]...)
	}
	slices.Sort(all)
	low, high := all[0], all[(len(all)-1)*99/100]
	if high <= low {
		return nil // all values are equal
	}
	width := (high - low) / classes
	var out []Line
	for i, samples := range sides {
		line := Line{Name: sheet.Sides[i].Name}
		counts := make([]int, classes+1)
		for _, v := range samples {
			if v <= high {
				counts[int((v-low)/width)]++
			}
		}
		counts[classes-1] += counts[classes] // the highest value itself
		counts[classes] = 0
		for k, n := range counts {
			line.X, line.Y = append(line.X, low+float64(k)*width), append(line.Y, float64(n)/float64(len(samples)))
		}
		out = append(out, line)
	}
	return out
}

// sweepCharts are the panels of a sweep with a line for each side's last one.
func sweepCharts(sheet *probes.Sheet) []Chart {
	out := make([]Chart, len(panels))
	for i, p := range panels {
		out[i] = Chart{Title: p.title, XLabel: "Asked rate (requests per second)", Dots: true}
		for _, side := range sheet.Sides {
			line := Line{Name: side.Name}
			for k := len(side.Runs) - 1; k >= 0 && len(line.X) == 0; k-- {
				for _, step := range usable(side.Runs[k].Steps) {
					if v, ok := p.value(&step.Summary).Get(); ok && !math.IsNaN(v) {
						line.X, line.Y = append(line.X, step.Rate), append(line.Y, v)
					}
				}
			}
			out[i].Lines = append(out[i].Lines, line)
		}
	}
	return out
}
