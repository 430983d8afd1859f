package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/probes"
)

var mergeCommand = command{
	name: "merge", usage: "merge [flags] FILE...", short: "make one result of the shards of a load", operands: true,
	about: `Reads what all shards of one load have written (run --shard --output-details), pools their
requests and computes the result anew, as if one process had sent them all. It prints the
report, appends the result to --output-file, and exits like run. A shard that is missing,
there twice or of another load is named with its file, and nothing is merged.`,
	define: func(f *flagSet) action {
		o := &mergeFlags{}
		o.define(f)
		return func(ctx context.Context, p Process) (int, error) { return merge(ctx, p, o, f.Args()) }
	},
}

type mergeFlags struct {
	outputFile, tag string
	outputDetails   bool
}

func (o *mergeFlags) define(f *flagSet) {
	g := f.group("Output")
	g.StringVar(&o.outputFile, "output-file", "", "`file` to append the result to, as one JSON line with the keys of bench_serving")
	g.BoolVar(&o.outputDetails, "output-details", false, "add arrays of the single requests to that line, generated texts included")
	g.StringVar(&o.tag, "tag", "", "`text` to tag that line with")
}

// merge reads all files before it judges them, so that all that is wrong is told.
func merge(ctx context.Context, p Process, o *mergeFlags, files []string) (int, error) {
	var m mistakes
	if len(files) == 0 {
		m = append(m, errors.New("needs the FILE of each shard; see 'inferbeat merge --help'"))
	}
	if o.outputFile == "" && (o.outputDetails || o.tag != "") {
		m.add("output-file", "is needed for --output-details and --tag to have an effect")
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	var shards []*probes.Run
	var problems []error
	for _, name := range files {
		runs, err := readShards(name)
		shards, problems = append(shards, runs...), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return exitUsage, err
	}
	run, err := daemon.Merge(shards)
	if err != nil {
		return exitUsage, err
	}
	if err := appendable(o.outputFile); err != nil {
		return exitUsage, err
	}
	if err := report.Text(p.Stdout, run); err != nil {
		return exitUsage, fmt.Errorf("print report: %w", err)
	}
	fmt.Fprint(p.Stderr, troubles("merge", run))
	if o.outputFile != "" {
		sink := jsonl.NewFile(jsonl.FileOptions{
			Path: o.outputFile, Encode: jsonl.Options{Details: o.outputDetails, Tag: o.tag, Version: buildVersion()},
		})
		if err := sink.Export(ctx, probes.Event{Kind: probes.EventRunDone, At: run.End, RunID: run.ID, Spec: &run.Spec, Run: run}); err != nil {
			return exitUsage, fmt.Errorf("--output-file: %w", err)
		}
	}
	return exitCode(run), nil
}

func readShards(name string) ([]*probes.Run, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open result file: %w", err)
	}
	defer file.Close()
	return jsonl.Read(name, file)
}
