package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/exporters/table"
	"github.com/inferbeat/inferbeat/probes"
)

var exportCommand = command{
	name: "export", usage: "export --config FILE [flags]", short: "write the runs of the store as JSON lines, CSV or Parquet",
	about: `Writes runs out of the store, the oldest first, while the daemon runs: as the JSON lines of the
results file, or as a table in CSV or Parquet with a row for each run. With --samples there
is a row for each request in place of a run, and in JSON the arrays of --output-details.`,
	define: func(f *flagSet) action {
		o := &exportFlags{}
		o.storeFlags.define(f.group("Store"))
		o.selection.define(f.group("Runs"), 0)
		g := f.group("Output")
		g.StringVar(&o.format, "format", "jsonl", "`form`: jsonl, csv or parquet")
		g.BoolVar(&o.samples, "samples", false, "write single requests, as far as they are kept still")
		g.StringVar(&o.output, "output", "-", "`file` to write, which must be new; - is the standard output")
		return o.export
	},
}

type exportFlags struct {
	storeFlags
	selection
	format, output string
	samples        bool
}

var exportFormats = []string{"jsonl", "csv", "parquet"}

func (o *exportFlags) export(ctx context.Context, p Process) (int, error) {
	var m mistakes
	q := o.query(time.Now(), &m)
	q.Records = o.samples
	if !slices.Contains(exportFormats, o.format) {
		m.add("format", "%q is none of jsonl, csv and parquet", o.format)
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	s, err := o.open(ctx, p.Env, store.Read)
	if err != nil {
		return exitUsage, err
	}
	defer s.Close()
	runs, err := s.History(ctx, q)
	if err != nil {
		return exitFail, err
	}
	if o.output == "-" {
		return done(writeRuns(p.Stdout, runs, o.format, o.samples))
	}
	file, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return exitUsage, fmt.Errorf("--output: %w", err)
	}
	err = writeRuns(file, runs, o.format, o.samples)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return exitFail, fmt.Errorf("--output: %w", err)
	}
	fmt.Fprintf(p.Stdout, "%s: %d runs\n", o.output, len(runs))
	return exitPass, nil
}

func writeRuns(w io.Writer, runs []*probes.Run, format string, samples bool) error {
	switch {
	case format == "csv" && samples:
		return table.WriteCSV(w, table.Requests(runs))
	case format == "csv":
		return table.WriteCSV(w, table.Runs(runs))
	case format == "parquet" && samples:
		return table.WriteParquet(w, table.Requests(runs))
	case format == "parquet":
		return table.WriteParquet(w, table.Runs(runs))
	}
	return printLines(w, runs, samples)
}
