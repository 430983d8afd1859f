package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/inferbeat/inferbeat/probes"
)

// SheetBenchfmt writes the runs of a sheet in the format of Go benchmarks: a line for
// each run and number, so that benchstat does its own statistics on them:
//
//	inferbeat compare --benchfmt A B > runs.txt && benchstat -col side runs.txt
//
// Times are in seconds, which benchstat scales. Which direction is better stands in
// front, because the units are none of Go's.
func SheetBenchfmt(w io.Writer, sheet *probes.Sheet) error {
	var b strings.Builder
	for _, unit := range []string{"tok/s", "req/s", "ratio", "tok/step"} {
		fmt.Fprintf(&b, "Unit %s better=higher\n", unit)
	}
	for _, key := range []struct {
		name string
		of   func(*probes.Run) string
	}{
		{"target", func(r *probes.Run) string { return r.Target.Name }}, {"backend", func(r *probes.Run) string { return r.Target.Backend }},
		{"model", func(r *probes.Run) string { return r.Target.Model }}, {"probe", func(r *probes.Run) string { return r.Spec.Probe }},
	} {
		if value := inCommon(sheet, key.of); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key.name, oneWord(value))
		}
	}
	for i, side := range sheet.Sides {
		fmt.Fprintf(&b, "\nside: %s\n", oneWord(side.Name))
		for _, row := range sheet.Rows {
			for _, value := range row.Cells[i].Values {
				v, ok := value.Get()
				if !ok {
					continue
				}
				fmt.Fprintf(&b, "Benchmark%s 1 %s %s\n", benchmarkName(row.Label), strconv.FormatFloat(v, 'g', -1, 64), benchmarkUnit(&row))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inCommon is what all runs of all sides have in common, empty when they have not:
// benchstat makes tables of their own of what differs in more than the side.
func inCommon(sheet *probes.Sheet, of func(*probes.Run) string) string {
	var value string
	for _, side := range sheet.Sides {
		for _, run := range side.Runs {
			own := of(run)
			if own == "" || value != "" && own != value {
				return ""
			}
			value = own
		}
	}
	return value
}

// benchmarkName is the label as Go names benchmarks: TTFT/stat=p50, OutputThroughput.
func benchmarkName(label string) string {
	words := strings.Fields(label)
	last := words[len(words)-1]
	if last == "mean" || strings.HasPrefix(last, "p") && unicode.IsDigit(rune(last[1])) {
		return strings.Join(words[:len(words)-1], "") + "/stat=" + last
	}
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func benchmarkUnit(row *probes.SheetRow) string {
	switch row.Unit {
	case "ms":
		return "sec/op" // which benchstat knows to be better when lower
	case "%":
		return "ratio"
	case "":
		return "tok/step"
	}
	return row.Unit
}

// oneWord keeps a name on its line.
func oneWord(s string) string { return strings.Join(strings.Fields(s), " ") }
