package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// A sheet is printed as text, Markdown or HTML. All three are the same tables, which
// are made here: a document is a list of sections, and a section has a table, a list
// of sentences, or both.

// document is a sheet laid out for people.
type document struct {
	Title    string
	Sub      string
	Sections []section
}

type section struct {
	Title     string
	Note      string
	Table     *table
	Sentences []string
}

// table is cells as text; the first column is left-aligned, the others are numbers.
type table struct {
	Head []string
	Rows [][]string
	Text bool // the other columns are words
}

// SheetText prints a sheet for a terminal.
func SheetText(w io.Writer, sheet *probes.Sheet) error {
	d := layOut(sheet)
	var p printer
	p.WriteString(d.Title + "\n" + d.Sub + "\n")
	for _, s := range d.Sections {
		p.WriteString("\n" + s.Title + "\n")
		if s.Table != nil {
			p.table(s.Table)
		}
		for _, sentence := range s.Sentences {
			p.wrapped(sentence)
		}
		if s.Note != "" {
			p.wrapped(s.Note)
		}
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// table prints columns as wide as their widest cell.
func (p *printer) table(t *table) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		line := "  "
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i == 0 || t.Text {
				line += cell + pad + "  "
			} else {
				line += pad + cell + "  "
			}
		}
		p.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// wrapped prints a sentence as an item.
func (p *printer) wrapped(text string) {
	const width = 98
	line := "  -"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			p.WriteString(line + "\n")
			line = "   "
		}
		line += " " + word
	}
	p.WriteString(line + "\n")
}

// SheetMarkdown writes a sheet as GitHub-flavoured Markdown.
func SheetMarkdown(w io.Writer, sheet *probes.Sheet) error {
	d := layOut(sheet)
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n", escape(d.Title), escape(d.Sub))
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n### %s\n\n", escape(s.Title))
		if t := s.Table; t != nil {
			writeMarkdownTable(&b, t)
		}
		if len(s.Sentences) > 0 && s.Table != nil {
			b.WriteByte('\n')
		}
		for _, sentence := range s.Sentences {
			fmt.Fprintf(&b, "- %s\n", escape(sentence))
		}
		if s.Note != "" {
			fmt.Fprintf(&b, "\n%s\n", escape(s.Note))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeMarkdownTable(b *strings.Builder, t *table) {
	line := func(cells []string) {
		b.WriteByte('|')
		for _, c := range cells {
			b.WriteString(" " + escape(c) + " |")
		}
		b.WriteByte('\n')
	}
	line(t.Head)
	b.WriteString("| ---")
	for range len(t.Head) - 1 {
		if t.Text {
			b.WriteString(" | ---")
		} else {
			b.WriteString(" | ---:")
		}
	}
	b.WriteString(" |\n")
	for _, row := range t.Rows {
		line(row)
	}
}

// escape keeps names of models and files from being read as marks.
var markdown = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", "[", "\\[", "\n", " ")

func escape(s string) string { return markdown.Replace(s) }

// layOut makes the sections of the report template: what was compared, the key
// numbers, all numbers, what they say, and what speaks against them.
func layOut(sheet *probes.Sheet) document {
	var names []string
	for _, s := range sheet.Sides {
		names = append(names, s.Name)
	}
	d := document{Title: strings.Join(names, " vs "), Sub: span(sheet)}
	add := func(s section) {
		if s.Table != nil && len(s.Table.Rows) > 0 || len(s.Sentences) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	add(environment(sheet, names))
	add(keyNumbers(sheet))
	add(allNumbers(sheet, names))
	add(section{Title: "Reading", Sentences: sheet.Reading,
		Note: "Each number is tested on its own at 5 %: of twenty that have not changed one is expected to look as if it had."})
	add(section{Title: "Nights", Sentences: nights(sheet)})
	add(section{Title: "Risks", Sentences: risks(sheet)})
	add(runTable(sheet))
	return d
}

func noteIf(when bool, text string) string {
	if when {
		return text
	}
	return ""
}

// span is when the runs were, by the day.
func span(sheet *probes.Sheet) string {
	var first, last string
	n := 0
	for _, side := range sheet.Sides {
		for _, run := range side.Runs {
			n++
			if run.Start.IsZero() {
				continue
			}
			day := run.Start.UTC().Format("2006-01-02")
			if first == "" || day < first {
				first = day
			}
			last = max(last, day)
		}
	}
	text := fmt.Sprintf("%d runs", n)
	if n == 1 {
		text = "1 run"
	}
	switch {
	case first == "":
		return text
	case first == last:
		return text + " on " + first
	}
	return text + " from " + first + " to " + last
}

// environment is the hardware and the configuration: what differs first.
func environment(sheet *probes.Sheet, names []string) section {
	t := &table{Head: append([]string{""}, names...), Text: true}
	for _, c := range sheet.Controls {
		row := []string{c.Variable + " (differs)"}
		for _, v := range c.Values {
			if v == "" {
				row[0] = c.Variable + " (not known)"
			}
			row = append(row, orUnknown(v))
		}
		t.Rows = append(t.Rows, row)
	}
	for _, c := range sheet.Equal {
		t.Rows = append(t.Rows, append([]string{c.Variable}, c.Values...))
	}
	runs := []string{"runs"}
	for _, side := range sheet.Sides {
		runs = append(runs, strconv.Itoa(len(side.Runs)))
	}
	t.Rows = append(t.Rows, runs)
	return section{Title: "Environment and configuration", Table: t}
}

// keyNumbers has a line for each side and one for each difference.
func keyNumbers(sheet *probes.Sheet) section {
	t := &table{Head: []string{""}}
	var keys []probes.SheetRow
	for _, r := range sheet.Rows {
		if r.Key {
			keys = append(keys, r)
			t.Head = append(t.Head, r.Label)
		}
	}
	if len(keys) == 0 {
		return section{}
	}
	for i, side := range sheet.Sides {
		row := []string{side.Name}
		for _, r := range keys {
			row = append(row, measured(&r, r.Cells[i].Median, r.Cells[i].N))
		}
		t.Rows = append(t.Rows, row)
	}
	for i := 1; i < len(sheet.Sides); i++ {
		row := []string{"Δ " + sheet.Sides[i].Name}
		for _, r := range keys {
			row = append(row, delta(r.Cells[i].Against))
		}
		t.Rows = append(t.Rows, row)
	}
	return section{Title: fmt.Sprintf("Key numbers (%s)", counted(sheet)), Table: t, Note: noteIf(len(sheet.Sides) > 1, deltaNote)}
}

const deltaNote = "Δ is to the first side. ~ marks a difference whose 95 % interval holds 0, ? one of fewer than 4 runs of a side, which carries no claim."

// counted says how many runs the numbers are of.
func counted(sheet *probes.Sheet) string {
	var counts []string
	equal, most := true, 0
	for _, s := range sheet.Sides {
		most = max(most, len(s.Runs))
		counts = append(counts, strconv.Itoa(len(s.Runs)))
		equal = equal && counts[0] == counts[len(counts)-1]
	}
	if equal {
		counts = counts[:1]
	}
	if most == 1 {
		return "of one run"
	}
	return "medians of " + strings.Join(counts, " and ") + " runs"
}

// allNumbers has a line for each number: medians with their spread, and differences
// with their interval.
func allNumbers(sheet *probes.Sheet, names []string) section {
	t := &table{Head: append([]string{""}, names...)}
	for i := 1; i < len(names); i++ {
		t.Head = append(t.Head, "Δ "+names[i], "95 % interval", "p")
	}
	for _, r := range sheet.Rows {
		row := []string{strings.TrimSpace(r.Label + " " + brackets(r.Unit))}
		for _, c := range r.Cells {
			row = append(row, spread(&r, &c))
		}
		for _, c := range r.Cells[1:] {
			row = append(row, delta(c.Against), interval(c.Against), probability(c.Against))
		}
		t.Rows = append(t.Rows, row)
	}
	return section{Title: "All numbers (median, and half of the range of the runs)", Table: t}
}

func brackets(unit string) string {
	if unit == "" {
		return ""
	}
	return "(" + unit + ")"
}

// measured is a value with its unit.
func measured(r *probes.SheetRow, v float64, n int) string {
	if n == 0 {
		return unknown
	}
	return strings.TrimSpace(significant(v*r.Scale) + " " + r.Unit)
}

func spread(r *probes.SheetRow, c *probes.SheetCell) string {
	if c.N == 0 {
		return unknown
	}
	text := significant(c.Median * r.Scale)
	if c.N > 1 {
		text += " ± " + significant((c.Max-c.Min)/2*r.Scale)
	}
	return text
}

// significant has four digits, and no exponent.
func significant(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	digits := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(max(digits, 0), 6), 64)
}

// delta is by how much the number has moved, marked for what that is worth.
func delta(j *probes.Judgement) string {
	if j == nil {
		return unknown
	}
	effect, _ := j.Effect.Get()
	text := moved(j, effect)
	low, bounded := j.Low.Get()
	high, _ := j.High.Get()
	switch {
	case !bounded:
		return text + " ?"
	case low <= 0 && high >= 0:
		return text + " ~"
	}
	return text
}

func moved(j *probes.Judgement, effect float64) string {
	unit := " %"
	if j.Points {
		unit = " pp"
	}
	return fmt.Sprintf("%+.1f", 100*j.Change(effect)+0) + unit // +0: no negative zero
}

func interval(j *probes.Judgement) string {
	if j == nil {
		return unknown
	}
	low, bounded := j.Low.Get()
	high, _ := j.High.Get()
	if !bounded {
		return "need >= 4 runs"
	}
	a, b := low, high
	if j.Change(a) > j.Change(b) {
		a, b = b, a
	}
	return moved(j, a) + " .. " + moved(j, b)
}

func probability(j *probes.Judgement) string {
	if j == nil {
		return unknown
	}
	return chance(j.P)
}

// risks are what speaks against the numbers.
func risks(sheet *probes.Sheet) (out []string) {
	for _, c := range sheet.Controls {
		var sides []string
		missing := false
		for i, v := range c.Values {
			missing = missing || v == ""
			sides = append(sides, fmt.Sprintf("%s (%s)", orUnknown(v), sheet.Sides[i].Name))
		}
		text := "%s differs: %s. What is seen may be its doing."
		if missing {
			text = "%s is not known of all sides: %s."
		}
		out = append(out, fmt.Sprintf(text, c.Variable, strings.Join(sides, ", ")))
	}
	if len(sheet.Unverified) > 0 {
		out = append(out, "No side tells: "+strings.Join(sheet.Unverified, ", ")+".")
	}
	for _, n := range sheet.Doubts {
		out = append(out, fmt.Sprintf("Doubt %s (%s): %s.", n.Code, strings.Join(n.Sides, ", "), n.Text))
	}
	for _, n := range sheet.Traps {
		out = append(out, fmt.Sprintf("Trap %s (%s): %s.", n.Code, strings.Join(n.Sides, ", "), n.Text))
	}
	return out
}

// nights says what the last run of a series shows beside the earlier ones.
func nights(sheet *probes.Sheet) (out []string) {
	if len(sheet.Sides) != 1 || len(sheet.Sides[0].Runs) == 0 {
		return nil
	}
	runs := sheet.Sides[0].Runs
	for i := range runs[len(runs)-1].Changes {
		c := &runs[len(runs)-1].Changes[i]
		text := fmt.Sprintf("%s: %s", c.Metric, c.State)
		if effect, ok := c.Effect.Get(); ok {
			word := "worse"
			if effect < 0 {
				word, effect = "better", -effect
			}
			text += fmt.Sprintf(", %.1f %% %s than its baseline of %d nights", 100*effect, word, c.BaselineRuns)
		} else {
			text += fmt.Sprintf(", %d nights so far", c.BaselineRuns)
		}
		if !c.Onset.IsZero() {
			text += ", since " + c.Onset.UTC().Format("2006-01-02")
		}
		if step, ok := c.SmallestStep.Get(); ok {
			text += fmt.Sprintf("; a step of less than %.1f %% would not show within a week", 100*step)
		}
		out = append(out, text+".")
	}
	return out
}

// runTable says which runs these were. Those of a single side come with their key
// numbers: they are a series.
func runTable(sheet *probes.Sheet) section {
	t := &table{Head: []string{"run", "side", "started", "validity", "verdict", "origin"}, Text: true}
	alone := len(sheet.Sides) == 1
	if alone {
		t.Head = []string{"run", "started", "validity", "verdict"}
		for _, r := range sheet.Rows {
			if r.Key {
				t.Head = append(t.Head, r.Label)
			}
		}
	}
	for _, side := range sheet.Sides {
		for i, run := range side.Runs {
			started := unknown
			if !run.Start.IsZero() {
				started = run.Start.UTC().Format("2006-01-02 15:04:05")
			}
			validity, verdict := orUnknown(string(run.Validity.State)), orUnknown(string(run.Verdict.State))
			if !alone {
				t.Rows = append(t.Rows, []string{run.ID, side.Name, started, validity, verdict, orUnknown(run.Origin)})
				continue
			}
			row := []string{run.ID, started, validity, verdict}
			for _, r := range sheet.Rows {
				if !r.Key {
					continue
				}
				v, known := r.Cells[0].Values[i].Get()
				row = append(row, measured(&r, v, map[bool]int{true: 1}[known]))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return section{Title: "Runs", Table: t}
}
