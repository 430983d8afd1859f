package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

var historyCommand = command{
	name: "history", usage: "history --config FILE [flags]", short: "list the runs of the store",
	about: `Lists runs out of the store, the oldest first, while the daemon runs. A ! marks a run that is
invalid, a ? one that is suspect. Times are in UTC.`,
	define: func(f *flagSet) action {
		o := &historyFlags{}
		o.storeFlags.define(f.group("Store"))
		o.selection.define(f.group("Runs"), 50)
		g := f.group("Output")
		g.BoolVar(&o.json, "json", false, "one JSON line for each run, as in the results file")
		g.BoolVar(&o.acks, "acks", false, "list the acknowledgements in place of runs")
		return o.list
	},
}

type historyFlags struct {
	storeFlags
	selection
	json, acks bool
}

func (o *historyFlags) list(ctx context.Context, p Process) (int, error) {
	var m mistakes
	q := o.query(time.Now(), &m)
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	s, err := o.open(ctx, p.Env, store.Read)
	if err != nil {
		return exitUsage, err
	}
	defer s.Close()
	if o.acks {
		acks, err := s.Acknowledgements(ctx, o.target, o.probe)
		if err != nil {
			return exitFail, err
		}
		printAcks(p.Stdout, acks)
		return exitPass, nil
	}
	runs, err := s.History(ctx, q)
	if err != nil {
		return exitFail, err
	}
	if o.json {
		return done(printLines(p.Stdout, runs, false))
	}
	printHistory(p.Stdout, runs)
	return exitPass, nil
}

// done is the exit status of work that can only fail as a whole.
func done(err error) (int, error) {
	if err != nil {
		return exitFail, err
	}
	return exitPass, nil
}

// printLines writes runs as the results file has them.
func printLines(w io.Writer, runs []*probes.Run, details bool) error {
	for _, run := range runs {
		lines, err := jsonl.Lines(run, jsonl.Options{Details: details, Version: buildVersion()})
		if err != nil {
			return err
		}
		if _, err := w.Write(lines); err != nil {
			return fmt.Errorf("write run %s: %w", run.ID, err)
		}
	}
	return nil
}

func printHistory(w io.Writer, runs []*probes.Run) {
	if len(runs) == 0 {
		fmt.Fprintln(w, "No run.")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "START\tRUN\tTARGET\tPROBE\tRESULT\tVALIDITY\tVERDICT\tTTFT P50\tTTFT P99\tTPOT P50\tOUTPUT TOK/S\tCAPACITY")
	for _, run := range runs {
		mark := map[probes.ValidityState]string{probes.Invalid: "! ", probes.Suspect: "? "}[run.Validity.State]
		ttft, tpot := run.Summary.Distribution(probes.TTFT), run.Summary.Distribution(probes.TPOT)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			run.Start.UTC().Format("2006-01-02 15:04:05"), run.ID, run.Target.Name, run.Spec.Probe, run.Result, mark, run.Validity.State, run.Verdict.State,
			inMillis(ttft.Get(probes.StatP50)), inMillis(ttft.Get(probes.StatP99)), inMillis(tpot.Get(probes.StatP50)),
			oneDigit(run.Summary.OutputThroughput), capacityText(&run.Capacity))
	}
	_ = table.Flush()
}

func inMillis(v probes.Optional[float64]) string {
	if s, ok := v.Get(); ok {
		return strconv.FormatFloat(s*1000, 'f', 2, 64) + " ms"
	}
	return "-"
}

func oneDigit(v probes.Optional[float64]) string {
	if f, ok := v.Get(); ok {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return "-"
}

// capacityText marks a lower bound.
func capacityText(c *probes.Capacity) string {
	rate, ok := c.Rate.Get()
	switch {
	case !ok:
		return "-"
	case !c.Bracketed:
		return ">= " + strconv.FormatFloat(rate, 'f', 2, 64)
	}
	return strconv.FormatFloat(rate, 'f', 2, 64)
}

func printAcks(w io.Writer, acks []probes.Acknowledgement) {
	if len(acks) == 0 {
		fmt.Fprintln(w, "No acknowledgement.")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SAID\tTARGET\tPROBE\tMETRIC\tSINCE\tAUTHOR\tREASON")
	for _, a := range acks {
		metric, since := string(a.Metric), "the open change"
		if metric == "" {
			metric = "all"
		}
		if !a.Since.IsZero() {
			since = a.Since.UTC().Format(time.DateOnly)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.At.UTC().Format("2006-01-02 15:04:05"), a.Target, a.Probe, metric, since, a.Author, a.Reason)
	}
	_ = table.Flush()
}
