package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

const runAbout = `Runs one probe now, prints the report of bench_serving with inferbeat's own block below
it, and exits with 0 (pass), 1 (fail), 2 (usage) or 3 (unknown). The probe comes from flags
named as in bench_serving, or from a configuration (--config, --target, --probe).`

// run executes one probe and reports it.
func run(ctx context.Context, p Process) (int, error) {
	flags := newFlags(p, "run [flags]", runAbout)
	options := defineRunFlags(flags)
	if err := parse(flags, p.Args); err != nil {
		return exitUsage, err
	}
	target, spec, err := options.resolve(flags, p.Env)
	if err != nil {
		return exitUsage, err
	}
	spec.KeepText = options.outputDetails
	output, err := openOutput(options.outputFile)
	if err != nil {
		return exitUsage, err
	}
	defer output.Close()
	if err := daemon.ReserveDescriptors(spec); err != nil {
		return exitUsage, err
	}

	runner := daemon.Runner{UserAgent: daemon.UserAgent(buildVersion())}
	defer runner.Close()
	progress := &loadgen.Progress{}
	stopBar := showProgress(p.Stderr, progress, spec, options.noProgress)
	result := runner.Run(ctx, target, spec, progress, daemon.Hooks{})
	stopBar()

	if err := report.Text(p.Stdout, result); err != nil {
		return exitUsage, fmt.Errorf("print report: %w", err)
	}
	if err := output.write(result, jsonl.Options{Details: options.outputDetails, Tag: options.tag, Version: buildVersion()}); err != nil {
		return exitUsage, err
	}
	return exitCode(result), nil
}

// exitCode turns a run into the gate's answer.
func exitCode(r *probes.Run) int {
	switch {
	case r.Result == probes.RunInvalid || r.Result == probes.RunAborted:
		return exitUnknown
	case r.Result == probes.RunFailed || r.Verdict.State == probes.Fail:
		return exitFail
	case r.Verdict.State == probes.Unknown:
		return exitUnknown
	}
	return exitPass
}

// output is the result file, opened before the run so that a wrong path costs nothing.
type output struct {
	file *os.File // nil: none asked for
}

func openOutput(path string) (*output, error) {
	if path == "" {
		return &output{}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open --output-file: %w", err)
	}
	return &output{file}, nil
}

func (o *output) write(r *probes.Run, options jsonl.Options) error {
	if o.file == nil {
		return nil
	}
	line, err := jsonl.Encode(r, options)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	before, err := o.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("write result to %s: %w", o.file.Name(), err)
	}
	if _, err := o.file.Write(append(line, '\n')); err != nil {
		// Half a line would spoil the file for every reader after it.
		_ = o.file.Truncate(before)
		return fmt.Errorf("write result to %s: %w; nothing was added to the file, the report above is all there is", o.file.Name(), err)
	}
	return o.file.Sync()
}

func (o *output) Close() {
	if o.file != nil {
		_ = o.file.Close()
	}
}

// showProgress draws a bar on a terminal until the returned function is called.
func showProgress(w io.Writer, progress *loadgen.Progress, spec probes.Spec, off bool) (stop func()) {
	file, ok := w.(*os.File)
	if off || !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	started := time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
				width, _, err := term.GetSize(int(file.Fd()))
				if err != nil {
					width = 80
				}
				fmt.Fprintf(w, "\r\x1b[K%s", bar(progress.Snapshot(), spec, time.Since(started), width))
			}
		}
	}()
	return func() { close(quit); <-done }
}
