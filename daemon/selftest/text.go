package selftest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/inferbeat/inferbeat/probes"
)

// WriteJSON writes the report as one indented JSON text. Times are in seconds,
// what is unknown is null.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as tables.
func (r *Report) WriteText(w io.Writer) error {
	h, s := r.Host, r.Script
	fmt.Fprintf(w, "Self test on %s/%s, %d CPUs, GOMAXPROCS %d, %s\n", h.OS, h.Arch, h.CPUs, h.GOMAXPROCS, h.Go)
	fmt.Fprintf(w, "Truth server on loopback, in a process of its own: TTFT %s, ITL %s ± %.0f %%, %d tokens, %d requests a stream, dialect %s\n\n",
		milliseconds(s.TTFT), milliseconds(s.ITL), 100*s.Jitter, s.Tokens, s.Rounds, s.Backend)
	if quota, ok := s.CPUQuota.Get(); ok {
		fmt.Fprintf(w, "A client may use %g of a processor (CPU quota over %v)\n\n", quota, cagePeriod)
	}
	if err := writeRows(w, r.Levels, func(l Level) string { return fmt.Sprint(l.Streams) }, "STREAMS"); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, t := range r.Trust {
		streams, ok := t.Streams.Get()
		if !ok {
			fmt.Fprintf(w, "A stamp is late by %s at most (p99): at no level.\n", milliseconds(t.Bound))
			continue
		}
		rate, _ := t.EventsPerSecond.Get()
		fmt.Fprintf(w, "A stamp is late by %s at most (p99): up to %d streams, %.0f events/s.\n", milliseconds(t.Bound), streams, rate)
	}
	if o, ok := r.Offered.Get(); ok {
		fmt.Fprintf(w, "Offered rate: %g requests/s asked, %.2f sent (%+.3f %%), send lag p50 %s, p99 %s, max %s.\n",
			o.Asked, o.Sent, 100*o.Error(), milliseconds(o.SendLag.P50), milliseconds(o.SendLag.P99), milliseconds(o.SendLag.Max))
	}
	for _, l := range slices.Concat(r.Levels, r.Others) {
		if held, ok := l.Throttled.Get(); ok && held > 0 {
			fmt.Fprintf(w, "%s at %d streams was held back by its CPU quota for %s; a run is suspect from a hundredth of its time on (client_throttled).\n", l.Client, l.Streams, milliseconds(held))
		}
	}
	if busy, ok := r.Busy.Get(); ok && busy > quiet {
		fmt.Fprintf(w, "Other processes took %.0f %% of this host's processor time meanwhile: what they did is in these figures.\n", 100*busy)
	}
	for _, l := range slices.Concat(r.Levels, r.Others) {
		if l.Failed > 0 {
			fmt.Fprintf(w, "%s at %d streams: %d of %d requests failed, the first: %s\n", l.Client, l.Streams, l.Failed, l.Requests, l.FirstError)
		}
	}
	return r.writeComparison(w)
}

// writeComparison writes a table for each level at which there is another client.
func (r *Report) writeComparison(w io.Writer) error {
	for _, own := range r.Levels {
		rows := []Level{own}
		for _, l := range r.Others {
			if l.Streams == own.Streams {
				rows = append(rows, l)
			}
		}
		if len(rows) == 1 {
			continue
		}
		fmt.Fprintf(w, "\nSide by side at %d streams\n", own.Streams)
		columns := []column{}
		for _, base := range []string{clientFloor, clientNaive} {
			if b, ok := r.beside(base, own.Streams); ok {
				columns = append(columns, column{"CPU/" + map[string]string{clientFloor: "FLOOR", clientNaive: "NAIVE"}[base], func(l Level) string { return over(l.CPUPerEvent, b.CPUPerEvent) }})
			}
		}
		if err := writeRows(w, rows, func(l Level) string { return l.Client }, "CLIENT", columns...); err != nil {
			return err
		}
	}
	for _, client := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(w, "\nNot compared with %s: %s\n", client, r.Absent[client])
	}
	return nil
}

// quiet is the share of processor time that other processes may take without
// being mentioned.
const quiet = 0.1

// column is one more column of a table.
type column struct {
	head string
	cell func(Level) string
}

// columns of every table. A ratio is what the client reports over the truth.
var columns = []column{
	{"EVENTS/S", func(l Level) string { return fmt.Sprintf("%.0f", l.EventsPerSecond) }},
	{"LAG p50", func(l Level) string { return lagCell(l, func(s Spread) float64 { return s.P50 }) }},
	{"p99", func(l Level) string { return lagCell(l, func(s Spread) float64 { return s.P99 }) }},
	{"max", func(l Level) string { return lagCell(l, func(s Spread) float64 { return s.Max }) }},
	{"TTFT p50", func(l Level) string { return ratioCell(l.TTFT, Reading.RatioP50) }},
	{"p99", func(l Level) string { return ratioCell(l.TTFT, Reading.RatioP99) }},
	{"p99 NEW CONN", func(l Level) string { return ratioCell(l.TTFTNew, Reading.RatioP99) }},
	{"ITL p99", func(l Level) string { return ratioCell(l.ITL, Reading.RatioP99) }},
	{"COLLAPSED", func(l Level) string {
		return known(l.Collapsed, func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) })
	}},
	{"READS > 1 ms", func(l Level) string {
		return known(l.ReadsLate, func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) })
	}},
	{"CPU/EVENT", func(l Level) string {
		return known(l.CPUPerEvent, func(v float64) string { return fmt.Sprintf("%.1f us", 1e6*v) })
	}},
	{"GC MAX", func(l Level) string {
		if l.GCPauses == 0 {
			return "-"
		}
		return milliseconds(l.GCPauseMax)
	}},
	{"SERVER LATE p99", func(l Level) string {
		return known(l.ServerLate, func(s Spread) string { return milliseconds(s.P99) })
	}},
	{"TRUST TO", func(l Level) string { return known(l.Trusted, milliseconds) }},
}

func writeRows(w io.Writer, rows []Level, name func(Level) string, title string, more ...column) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	all := slices.Concat(columns, more)
	fmt.Fprint(table, title)
	for _, c := range all {
		fmt.Fprint(table, "\t", c.head)
	}
	fmt.Fprintln(table)
	for _, l := range rows {
		fmt.Fprint(table, name(l))
		if l.Skipped != "" {
			fmt.Fprintf(table, "\tskipped: %s\n", l.Skipped)
			continue
		}
		for _, c := range all {
			fmt.Fprint(table, "\t", c.cell(l))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func lagCell(l Level, of func(Spread) float64) string {
	return known(l.Lag, func(s Spread) string { return milliseconds(of(s)) })
}

func ratioCell(r probes.Optional[Reading], of func(Reading) float64) string {
	return known(r, func(r Reading) string { return fmt.Sprintf("x%.3f", of(r)) })
}

func over(a, b probes.Optional[float64]) string {
	return known(b, func(b float64) string {
		return known(a, func(a float64) string { return fmt.Sprintf("%.2f", a/b) })
	})
}

func known[T comparable](o probes.Optional[T], text func(T) string) string {
	v, ok := o.Get()
	if !ok {
		return "-"
	}
	return cmp.Or(text(v), "-")
}

// milliseconds prints seconds with three digits that mean something.
func milliseconds(seconds float64) string {
	ms := 1e3 * seconds
	switch {
	case ms >= 100 || ms <= -100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10 || ms <= -10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms >= 1 || ms <= -1:
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.3f ms", ms)
}
