package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/exporters/plot"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/compare"
)

const operandsHelp = `A RESULT is a result file (a JSON line of inferbeat, or what bench_serving, vllm bench and
their kin write; all its results are runs of one side), the id of a run in the store or the
beginning of one, or TARGET/PROBE[@SINCE] for the runs of a series, as in llama/nightly@30d.
NAME=RESULT gives it another name. A result with repeats stands for each of them, that of a
comparison for both of its sides.`

var compareCommand = command{
	name: "compare", usage: "compare [flags] RESULT RESULT...", short: "lay results beside each other: medians, differences, and what they are worth", operands: true,
	about: operandsHelp + `
Prints medians of the runs of each side, differences to the first side with their exact
95 % intervals where four runs a side allow any, which controlled variables are not equal,
and the traps and doubts that apply. Exit status: 0, or 2 when a result cannot be read.`,
	define: func(f *flagSet) action {
		o := &sheetFlags{}
		o.define(f)
		return func(ctx context.Context, p Process) (int, error) { return runSheet(ctx, p, o, f.Args(), 2) }
	},
}

var reportCommand = command{
	name: "report", usage: "report [flags] RESULT", short: "write the report of a run or of a series", operands: true,
	about: operandsHelp + `
Writes environment and configuration, key numbers, all numbers with their spread, the runs
one by one, and the traps and doubts that apply. Exit status: 0, or 2 when a result cannot
be read.`,
	define: func(f *flagSet) action {
		o := &sheetFlags{}
		o.define(f)
		return func(ctx context.Context, p Process) (int, error) { return runSheet(ctx, p, o, f.Args(), 1) }
	},
}

// sheetFlags say where results come from and how they are laid out.
type sheetFlags struct {
	results                   resultFlags
	markdown, html, benchmark bool
	output                    string
}

func (o *sheetFlags) define(f *flagSet) {
	o.results.define(f.group("Results"))
	o.defineOutput(f.group("Output"))
}

func (o *sheetFlags) defineOutput(f *pflag.FlagSet) {
	f.BoolVar(&o.markdown, "markdown", false, "write Markdown")
	f.BoolVar(&o.html, "html", false, "write one HTML page with drawings, which needs nothing else")
	f.BoolVar(&o.benchmark, "benchfmt", false, "write the format of Go benchmarks, for benchstat -col side")
	f.StringVar(&o.output, "output", "", "`file` to write instead of the standard output")
}

// runSheet reads the results and writes them beside each other. A comparison takes at
// least two sides, a report one.
func runSheet(ctx context.Context, p Process, o *sheetFlags, args []string, sides int) (int, error) {
	var m mistakes
	switch {
	case sides == 1 && len(args) != 1:
		m = append(m, fmt.Errorf("needs one RESULT, got %d; see 'inferbeat report --help'", len(args)))
	case len(args) == 0:
		m = append(m, errors.New("needs two RESULTs or more; see 'inferbeat compare --help'"))
	}
	formats := 0
	for _, asked := range []bool{o.markdown, o.html, o.benchmark} {
		if asked {
			formats++
		}
	}
	if formats > 1 {
		m = append(m, errors.New("--markdown, --html and --benchfmt exclude each other"))
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	read, err := o.results.read(ctx, p.Env, args)
	if err != nil {
		return exitUsage, err
	}
	if len(read) < sides {
		return exitUsage, fmt.Errorf("compare %s: there is one side, and it takes two", args[0])
	}
	sheet := compare.Lay(read)
	var out bytes.Buffer
	if err := o.write(&out, &sheet); err != nil {
		return exitUsage, err
	}
	if o.output == "" {
		_, err = p.Stdout.Write(out.Bytes())
		return exitPass, err
	}
	if err := os.WriteFile(o.output, out.Bytes(), 0o644); err != nil {
		return exitUsage, fmt.Errorf("--output: %s cannot be written: %w", o.output, bare(err))
	}
	return exitPass, nil
}

func (o *sheetFlags) write(w io.Writer, sheet *probes.Sheet) error {
	switch {
	case o.markdown:
		return report.SheetMarkdown(w, sheet)
	case o.benchmark:
		return report.SheetBenchfmt(w, sheet)
	case o.html:
		figures, err := draw(sheet)
		if err != nil {
			return err
		}
		return report.SheetHTML(w, sheet, figures)
	}
	return report.SheetText(w, sheet)
}

// draw makes the figures of a sheet.
func draw(sheet *probes.Sheet) ([]report.Figure, error) {
	var out []report.Figure
	for _, chart := range plot.SheetCharts(sheet) {
		var light, dark bytes.Buffer
		if err := errors.Join(plot.ChartSVG(&light, &chart, plot.Light), plot.ChartSVG(&dark, &chart, plot.Dark)); err != nil {
			return nil, err
		}
		out = append(out, report.Figure{Title: chart.Title, Light: inline(light.Bytes()), Dark: inline(dark.Bytes())})
	}
	return out, nil
}

// inline cuts off what stands before the drawing: a page has no XML declaration inside.
func inline(svg []byte) string {
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:]
	}
	return string(svg)
}
