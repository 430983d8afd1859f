package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

var importCommand = command{
	name: "import", usage: "import [flags] FILE...", short: "read the result files of other benchmarks", operands: true,
	about: `Reads result files of bench_serving, bench_offline_throughput, bench_one_batch,
bench_one_batch_server, vllm bench serve and vllm bench throughput, whichever they are; -
is the standard input. Each result becomes a run with its source marked, and is printed as
a report, or appended to --output-file as one JSON line. A result that cannot be read is
named by file and line, spoils no other, and makes the exit status 2. With --config or
--storage-path the runs also go into that store, once each, however often they are read.`,
	define: func(f *flagSet) action {
		o := &importFlags{}
		o.define(f)
		return func(ctx context.Context, p Process) (int, error) { return importFiles(ctx, p, o, f.Args()) }
	},
}

// importFlags say what result files leave out.
type importFlags struct {
	target, probe, environment, backend, model, outputFile, tag string
	store                                                       storeFlags
}

func (o *importFlags) define(f *flagSet) {
	g := f.group("What the files leave out")
	g.StringVar(&o.target, "target", "imported", "`name` of the target that was measured")
	g.StringVar(&o.environment, "environment", string(probes.Development), "`class` of its environment: production, staging or development")
	g.StringVar(&o.backend, "backend", "", "`name` of its backend, where the result has none")
	g.StringVar(&o.model, "model", "", "`name` of its model, where the result has none")
	g.StringVar(&o.probe, "probe", "import", "`name` of the probe that the runs belong to")
	defineImportOutput(f.group("Output"), &o.outputFile, &o.tag)
	o.store.define(f.group("Store"))
}

func defineImportOutput(g *pflag.FlagSet, file, tag *string) {
	g.StringVar(file, "output-file", "", "`file` to append the runs to, one JSON line each, instead of printing reports")
	g.StringVar(tag, "tag", "", "`text` to tag those lines with")
}

// importFiles reads all files, and tells of the good results and of the bad ones.
func importFiles(ctx context.Context, p Process, o *importFlags, files []string) (int, error) {
	var m mistakes
	if len(files) == 0 {
		m = append(m, errors.New("needs a FILE; see 'inferbeat import --help'"))
	}
	if !slices.Contains(probes.Environments, probes.Environment(o.environment)) {
		m.add("environment", "%q is none of production, staging and development", o.environment)
	}
	if o.tag != "" && o.outputFile == "" {
		m.add("tag", "has no effect without --output-file")
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	if err := appendable(o.outputFile); err != nil {
		return exitUsage, err
	}
	target := probes.Target{Name: o.target, Pool: o.target, Environment: probes.Environment(o.environment), Backend: o.backend, Model: o.model}
	keep, closeStore, err := o.keeper(ctx, p.Env)
	if err != nil {
		return exitUsage, err
	}
	defer closeStore()
	var problems []error
	for _, name := range files {
		runs, err := importFile(name, target, o.probe)
		problems = append(problems, err)
		if err := keep(runs); err != nil {
			return exitFail, err
		}
		if err := show(ctx, p.Stdout, runs, o.outputFile, o.tag); err != nil {
			return exitUsage, err
		}
		if o.outputFile != "" {
			fmt.Fprintf(p.Stdout, "%s: %d results imported%s\n", name, len(runs), sources(runs))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return exitUsage, err
	}
	return exitPass, nil
}

// keeper puts runs into the store that was named, if one was.
func (o *importFlags) keeper(ctx context.Context, env []string) (keep func([]*probes.Run) error, done func(), err error) {
	if !o.store.named() {
		return func([]*probes.Run) error { return nil }, func() {}, nil
	}
	s, err := o.store.open(ctx, env, store.Write)
	if err != nil {
		return nil, nil, err
	}
	keep = func(runs []*probes.Run) error {
		for _, run := range runs {
			if err := s.Add(ctx, run); err != nil {
				return fmt.Errorf("keep %s: %w", run.Origin, err)
			}
		}
		return nil
	}
	return keep, func() { _ = s.Close() }, nil // what Add has returned for is on the disk
}

func importFile(name string, target probes.Target, probe string) ([]*probes.Run, error) {
	if name == "-" {
		return daemon.Import("standard input", os.Stdin, target, probe)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open result file: %w", err)
	}
	defer file.Close()
	return daemon.Import(name, io.Reader(file), target, probe)
}

// show prints runs, or appends them to a file.
func show(ctx context.Context, w io.Writer, runs []*probes.Run, file, tag string) error {
	sink := jsonl.NewFile(jsonl.FileOptions{Path: file, Encode: jsonl.Options{Tag: tag, Version: buildVersion()}})
	for _, run := range runs {
		if file == "" {
			if err := report.Text(w, run); err != nil {
				return fmt.Errorf("print report: %w", err)
			}
			continue
		}
		if err := sink.Export(ctx, probes.Event{Kind: probes.EventRunDone, At: run.End, RunID: run.ID, Spec: &run.Spec, Run: run}); err != nil {
			return fmt.Errorf("--output-file: %w", err)
		}
	}
	return nil
}

// sources counts the runs by tool.
func sources(runs []*probes.Run) string {
	counts := map[string]int{}
	var names []string
	for _, run := range runs {
		if counts[run.Source] == 0 {
			names = append(names, run.Source)
		}
		counts[run.Source]++
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d of %s", counts[name], name)
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}
