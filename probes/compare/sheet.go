package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/probes"
)

// shown is one number of a sheet.
type shown struct {
	Metric
	label, unit string
	scale       float64
	key         bool
}

// numbers are what a sheet shows, in its order. All but the names that judge gates
// are here for the reader alone.
var numbers = func() []shown {
	ms := func(name probes.RegressionMetric, label string, signal probes.Signal, stat probes.Statistic, key bool) shown {
		return shown{Metric{Name: name, of: latency(signal, stat)}, label, "ms", 1e3, key}
	}
	rate := func(name probes.RegressionMetric, label, unit string, key bool, of func(*probes.Summary) probes.Optional[float64]) shown {
		return shown{Metric{Name: name, HigherBetter: true, of: summarized(of)}, label, unit, 1, key}
	}
	share := func(name probes.RegressionMetric, label string, of func(*probes.Summary) probes.Optional[float64]) shown {
		return shown{Metric{Name: name, HigherBetter: true, Points: true, of: summarized(of)}, label, "%", 100, false}
	}
	return []shown{
		ms("ttft_mean", "TTFT mean", probes.TTFT, probes.StatMean, true),
		ms(probes.MetricTTFTp50, "TTFT p50", probes.TTFT, probes.StatP50, false),
		ms(probes.MetricTTFTp99, "TTFT p99", probes.TTFT, probes.StatP99, true),
		ms("tpot_mean", "TPOT mean", probes.TPOT, probes.StatMean, true),
		ms(probes.MetricTPOTp50, "TPOT p50", probes.TPOT, probes.StatP50, false),
		ms(probes.MetricTPOTp99, "TPOT p99", probes.TPOT, probes.StatP99, false),
		ms("itl_p99", "ITL p99", probes.ITL, probes.StatP99, false),
		ms(probes.MetricE2Ep50, "E2E p50", probes.E2E, probes.StatP50, false),
		ms(probes.MetricE2Ep90, "E2E p90", probes.E2E, probes.StatP90, false),
		ms("e2e_p99", "E2E p99", probes.E2E, probes.StatP99, false),
		rate(probes.MetricOutputThroughput, "Output throughput", "tok/s", true, func(s *probes.Summary) probes.Optional[float64] { return s.OutputThroughput }),
		rate("total_throughput", "Total throughput", "tok/s", false, func(s *probes.Summary) probes.Optional[float64] { return s.TotalThroughput }),
		rate(probes.MetricRequestThroughput, "Request throughput", "req/s", false, func(s *probes.Summary) probes.Optional[float64] { return s.RequestThroughput }),
		{Metric{Name: probes.MetricCapacity, HigherBetter: true, of: capacity}, "Capacity", "req/s", 1, true},
		share(probes.MetricSuccessRatio, "Success", func(s *probes.Summary) probes.Optional[float64] { return s.SuccessRatio }),
		share(probes.MetricPrefixCacheHits, "Prefix cache hits", (*probes.Summary).CacheHitRatio),
		rate(probes.MetricAcceptLength, "Accept length", "", false, func(s *probes.Summary) probes.Optional[float64] { return s.AcceptLength }),
	}
}()

// sheetAlpha is the one-sided error of a sheet's intervals, of each number on its own.
const sheetAlpha = 0.025

// Lay lays sides beside the first of them. Runs that cannot be believed are left out.
func Lay(sides []probes.Side) probes.Sheet {
	var sheet probes.Sheet
	for _, s := range sides {
		sheet.Sides = append(sheet.Sides, believed(s))
	}
	for i := range numbers {
		if row, known := numbers[i].row(sheet.Sides); known {
			sheet.Rows = append(sheet.Rows, row)
		}
	}
	layControls(&sheet)
	layNotes(&sheet)
	sheet.Reading = reading(&sheet)
	return sheet
}

func believed(s probes.Side) probes.Side {
	out := probes.Side{Name: s.Name}
	for _, run := range s.Runs {
		if run.Validity.State == probes.Invalid || run.Error != "" {
			out.Left++
			continue
		}
		out.Runs = append(out.Runs, run)
	}
	out.Left += s.Left
	return out
}

// row is unknown when no side has the number.
func (n *shown) row(sides []probes.Side) (row probes.SheetRow, known bool) {
	row = probes.SheetRow{Name: string(n.Name), Label: n.label, Unit: n.unit, Scale: n.scale, Key: n.key}
	var reference []float64
	for i, side := range sides {
		var cell probes.SheetCell
		for _, run := range side.Runs {
			cell.Values = append(cell.Values, n.Value(run))
		}
		own := values(&n.Metric, side.Runs)
		if cell.N = len(own); cell.N > 0 {
			known = true
			cell.Median, cell.Min, cell.Max = median(slices.Clone(own)), slices.Min(own), slices.Max(own)
			if len(reference) > 0 {
				cell.Against = n.against(reference, own)
			}
		}
		if i == 0 {
			reference = own
		}
		row.Cells = append(row.Cells, cell)
	}
	return row, known
}

// against estimates a shift. Below minRuns values of a side nothing is claimed of it:
// the effect is then that of the medians.
func (n *shown) against(a, b []float64) *probes.Judgement {
	out := &probes.Judgement{
		Metric: n.Name, N: min(len(a), len(b)), HigherBetter: n.HigherBetter, Points: n.Points,
		Reference: median(slices.Clone(a)), Candidate: median(slices.Clone(b)),
	}
	n.lay(out, oriented(&n.Metric, a), oriented(&n.Metric, b), sheetAlpha, 1)
	if out.N < minRuns {
		out.Effect = probes.Known(n.effect(n.worse(out.Candidate) - n.worse(out.Reference)))
		out.Low, out.High, out.Detectable = probes.Optional[float64]{}, probes.Optional[float64]{}, probes.Optional[float64]{}
	}
	out.Surely = probes.Optional[float64]{}
	return out
}

// layControls sorts the controlled variables into those that are equal on all sides,
// those that are not known to be, and the important ones that nobody tells.
func layControls(sheet *probes.Sheet) {
	for _, v := range variables {
		all := make([][]string, len(sheet.Sides))
		for i, side := range sheet.Sides {
			all[i] = v.side(side.Runs)
		}
		texts := inOneWay(all)
		switch known := strings.Join(texts, ""); {
		case known == "":
			if v.essential {
				sheet.Unverified = append(sheet.Unverified, v.name)
			}
		case len(slices.Compact(slices.Sorted(slices.Values(texts)))) == 1:
			sheet.Equal = append(sheet.Equal, probes.SheetControl{Variable: v.name, Values: texts})
		default:
			sheet.Controls = append(sheet.Controls, probes.SheetControl{Variable: v.name, Values: texts})
		}
	}
}

// inOneWay says a variable of all sides in the first way that all of them have, else
// each in the first way that it has.
func inOneWay(sides [][]string) []string {
	ways := 0
	for _, s := range sides {
		ways = max(ways, len(s))
	}
	for way := range ways {
		texts := make([]string, len(sides))
		for i, s := range sides {
			if way < len(s) {
				texts[i] = s[way]
			}
		}
		if !slices.Contains(texts, "") {
			return texts
		}
	}
	texts := make([]string, len(sides))
	for i, s := range sides {
		if at := slices.IndexFunc(s, func(text string) bool { return text != "" }); at >= 0 {
			texts[i] = s[at]
		}
	}
	return texts
}

// layNotes gathers traps and doubts, each once with the sides that it holds for.
func layNotes(sheet *probes.Sheet) {
	for _, side := range sheet.Sides {
		for _, run := range side.Runs {
			for _, trap := range run.Traps {
				// A run cannot know of its repeats.
				if trap.Code != "single_run" {
					note(&sheet.Traps, trap, side.Name)
				}
			}
			for _, doubt := range run.Validity.Reasons {
				note(&sheet.Doubts, doubt, side.Name)
			}
		}
		if n := len(side.Runs); n < 3 {
			note(&sheet.Traps, probes.Reason{Code: "single_run", Text: "fewer than three runs have no median that a bad one leaves alone; publish that of 3 to 5"}, side.Name)
		}
		if side.Left > 0 {
			note(&sheet.Doubts, probes.Reason{Code: "runs_left_out", Text: "runs that are invalid or could not be carried out are left out"}, side.Name)
		}
	}
}

// note adds a reason, or the side to one that is there. The first one's text stands
// for all of its code.
func note(notes *[]probes.SheetNote, r probes.Reason, side string) {
	i := slices.IndexFunc(*notes, func(n probes.SheetNote) bool { return n.Code == r.Code })
	switch {
	case i < 0:
		*notes = append(*notes, probes.SheetNote{Reason: r, Sides: []string{side}})
	case !slices.Contains((*notes)[i].Sides, side):
		(*notes)[i].Sides = append((*notes)[i].Sides, side)
	}
}

// reading says in sentences what the key numbers show, and what may lie behind it.
func reading(sheet *probes.Sheet) (out []string) {
	if len(sheet.Sides) < 2 {
		return nil
	}
	for i := 1; i < len(sheet.Sides); i++ {
		for _, row := range sheet.Rows {
			if row.Key && row.Cells[i].Against != nil {
				out = append(out, fmt.Sprintf("%s of %s %s.", row.Label, sheet.Sides[i].Name, claim(row.Cells[i].Against)))
			}
		}
		for _, behind := range []struct{ row, text string }{
			{string(probes.MetricPrefixCacheHits), "the prefix cache answered %s of %s and %s of %s: what differs in TTFT may be the cache and not the server"},
			{string(probes.MetricAcceptLength), "the accept length is %s on %s and %s on %s: what differs in TPOT may be the drafts and not the server"},
		} {
			if text, ok := behindIt(sheet, i, behind.row, behind.text); ok {
				out = append(out, text+".")
			}
		}
	}
	return out
}

// claim says no more than the runs carry.
func claim(j *probes.Judgement) string {
	effect, _ := j.Effect.Get()
	moved := j.Change(effect)
	word := "is higher by "
	if moved < 0 {
		word = "is lower by "
	}
	worth := "better"
	if effect > 0 {
		worth = "worse"
	}
	size := amount(j, math.Abs(moved))
	low, bounded := j.Low.Get()
	high, _ := j.High.Get()
	switch {
	case j.N < minRuns:
		runs := fmt.Sprintf("%d runs of a side carry", j.N)
		if j.N == 1 {
			runs = "one run of a side carries"
		}
		return fmt.Sprintf("%s%s, but %s no claim: need >= %d", word, size, runs, minRuns)
	case !bounded || low <= 0 && high >= 0:
		text := "shows no difference"
		if a, b := j.Change(low), j.Change(high); bounded {
			text += fmt.Sprintf(": the 95 %% interval, %s to %s, holds 0", amount(j, min(a, b)), amount(j, max(a, b)))
		}
		return text
	}
	a, b := j.Change(low), j.Change(high)
	p, _ := j.P.Get()
	return fmt.Sprintf("%s%s, which is %s (95 %% interval %s to %s, p = %.3f, n = %d)", word, size, worth, amount(j, min(a, b)), amount(j, max(a, b)), p, j.N)
}

// behindIt mentions a number of the server that differs by more than 5 points or 5 %.
func behindIt(sheet *probes.Sheet, side int, name, text string) (string, bool) {
	for _, row := range sheet.Rows {
		a, b := row.Cells[0], row.Cells[side]
		if row.Name != name || a.N == 0 || b.N == 0 {
			continue
		}
		far := math.Abs(a.Median-b.Median) > 0.05
		if row.Unit != "%" {
			far = math.Abs(a.Median-b.Median) > 0.05*math.Abs(a.Median)
		}
		show := func(v float64) string { return strings.TrimSpace(fmt.Sprintf("%.3g %s", v*row.Scale, row.Unit)) }
		if far {
			return fmt.Sprintf(text, show(a.Median), sheet.Sides[0].Name, show(b.Median), sheet.Sides[side].Name), true
		}
	}
	return "", false
}
