package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/inferbeat/inferbeat/daemon/selftest"
)

var selftestCommand = command{
	name: "selftest", usage: "selftest [flags]", short: "say how far this host's measurements can be trusted",
	about: `Streams scripted answers to itself over loopback, at rising numbers of streams, and compares
what the measuring path reports with what was really written: how late its stamps are, what
TTFT and ITL are worth, what an event costs. Takes about 20 s; nothing leaves this host. Exits
with 1 when not even a single stream can be timed to 10 ms.`,
	define: func(f *flagSet) action {
		o := &selftestFlags{}
		g := f.group("Flags")
		g.StringVar(&o.format, "format", "text", "`format` of the report: text or json")
		g.IntSliceVar(&o.Streams, "streams", selftest.DefaultStreams, "`numbers` of streams, rising")
		g.IntVar(&o.Rounds, "rounds", 3, "how many requests each stream sends, one after the other")
		g.StringVar(&o.Backend, "backend", "openai", "`dialect`: openai, or vllm, which counts the tokens of every event")
		g.BoolVar(&o.Compare, "compare", false, "send the same load with a naive Go client, with a reader that parses nothing, and with sglang.bench_serving if python3 has it")
		g.Float64Var(&o.CPUQuota, "cpu-quota", 0, "hold each client to so many `processors`, in a control group made for it (Linux, as root): what remains of the stamps in a small container; 0 is no bound")
		return o.run
	},
}

type selftestFlags struct {
	selftest.Options
	format string
}

// run measures this host, or is one of the processes of a self test that does.
func (o *selftestFlags) run(ctx context.Context, p Process) (int, error) {
	if worker, err := selftest.Worker(ctx, p.Env); worker {
		if err != nil {
			return exitFail, err
		}
		return exitPass, nil
	}
	if o.format != "text" && o.format != "json" {
		return exitUsage, fmt.Errorf("--format: %q is neither text nor json", o.format)
	}
	if err := o.Check(); err != nil {
		return exitUsage, err
	}
	program, err := os.Executable()
	if err != nil {
		return exitFail, fmt.Errorf("find this program, to start it again: %w", err)
	}
	o.Command = []string{program, "selftest"}
	o.Progress = func(text string) { fmt.Fprintln(p.Stderr, "measuring:", text) }
	report, err := selftest.Run(ctx, o.Options)
	switch {
	case ctx.Err() != nil:
		return exitUnknown, fmt.Errorf("cut short: %w", context.Cause(ctx))
	case err != nil:
		return exitFail, err
	case o.format == "json":
		err = report.WriteJSON(p.Stdout)
	default:
		err = report.WriteText(p.Stdout)
	}
	if err != nil {
		return exitUsage, fmt.Errorf("print report: %w", err)
	}
	if report.Best() == 0 {
		return exitFail, nil
	}
	return exitPass, nil
}
