package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/probes"
)

var runCommand = command{
	name: "run", usage: "run [flags]", short: "run one probe now and print the report of bench_serving",
	about: `Runs one probe now, prints the report of bench_serving with inferbeat's own block below
it, and exits with 0 (pass), 1 (fail), 2 (usage) or 3 (unknown). The probe comes from flags
named as in bench_serving, or from a configuration (--config, --target, --probe). A shard
exits with 0 once its part has been sent; the answer is that of the merged result.`,
	define: func(f *flagSet) action {
		options := defineRunFlags(f)
		return func(ctx context.Context, p Process) (int, error) { return run(ctx, p, options, f.FlagSet) }
	},
}

// run executes one probe and reports it.
func run(ctx context.Context, p Process, o *runFlags, flags *pflag.FlagSet) (int, error) {
	target, spec, err := o.resolve(flags, p.Env)
	if err != nil {
		return exitUsage, err
	}
	result, err := measure(ctx, p, "run", o, target, spec)
	if err != nil {
		return exitUsage, err
	}
	if spec.Shard.Split() && result.Complete {
		return exitPass, nil // what its part is worth, the merged result says
	}
	return exitCode(result), nil
}

// measure runs a probe and reports it.
func measure(ctx context.Context, p Process, command string, o *runFlags, target probes.Target, spec probes.Spec) (*probes.Run, error) {
	return o.report(ctx, p, command, spec, func(runner *daemon.Runner, progress *progress) *probes.Run {
		return runner.Run(ctx, target, spec, &progress.counts, progress.hooks())
	})
}

// report lets carry out a run, prints its report and its troubles, and appends it to
// the results file. An error is a mistake of the call, or output that was lost.
func (o *runFlags) report(ctx context.Context, p Process, command string, spec probes.Spec, carryOut func(*daemon.Runner, *progress) *probes.Run) (*probes.Run, error) {
	if err := appendable(o.outputFile); err != nil {
		return nil, err
	}
	if err := daemon.ReserveDescriptors(spec); err != nil {
		return nil, err
	}
	if s := spec.Shard; s.Split() {
		fmt.Fprintf(p.Stderr, "shard %d of %d, the load starts at %s\n", s.Index, s.Of, s.Start.Format(time.RFC3339Nano))
	}
	runner := daemon.Runner{UserAgent: daemon.UserAgent(buildVersion()), Dial: p.Dial}
	defer runner.Close()
	progress := newProgress(spec)
	stopBar := showProgress(p.Stderr, progress, o.noProgress)
	result := carryOut(&runner, progress)
	stopBar()

	if result.Error == "" { // there is nothing to report on else
		if err := report.Text(p.Stdout, result); err != nil {
			return nil, fmt.Errorf("print report: %w", err)
		}
	}
	fmt.Fprint(p.Stderr, troubles(command, result))
	if result.Comparison != nil {
		fmt.Fprint(p.Stderr, sideTroubles(command, result))
	}
	if o.outputFile != "" {
		sink := jsonl.NewFile(jsonl.FileOptions{
			Path: o.outputFile, Encode: jsonl.Options{Details: o.outputDetails, Tag: o.tag, Version: buildVersion(), Format: o.format},
		})
		if err := sink.Export(ctx, probes.Event{Kind: probes.EventRunDone, At: result.End, RunID: result.ID, Spec: &result.Spec, Run: result}); err != nil {
			return nil, fmt.Errorf("--output-file: %w; nothing was added to it, what was printed is all there is", err)
		}
	}
	return result, nil
}

// exitCode turns a run into the gate's answer.
func exitCode(r *probes.Run) int {
	switch {
	case r.Result == probes.RunInvalid || r.Result == probes.RunAborted:
		return exitUnknown
	case r.Verdict.State == probes.Fail:
		return exitFail
	case r.Verdict.State == probes.Unknown:
		return exitUnknown
	}
	return exitPass
}

// appendable makes sure, before hours of measuring, that the result can be kept.
func appendable(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--output-file: %s cannot be made: its folder does not exist", path)
	}
	if err != nil {
		return fmt.Errorf("--output-file: %s cannot be opened for appending: %w", path, bare(err))
	}
	return file.Close()
}

// showProgress draws a bar on a terminal until the returned function is called.
func showProgress(w io.Writer, p *progress, off bool) (stop func()) {
	file, ok := w.(*os.File)
	if off || !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case now := <-tick.C:
				width, _, err := term.GetSize(int(file.Fd()))
				if err != nil {
					width = 80
				}
				// One column stays free: a full line would wrap, and wrapped lines pile up.
				fmt.Fprintf(w, "\r\x1b[K%s", bar(p.view(now), p.spec, width-1))
			}
		}
	}()
	return func() { close(quit); <-done }
}
