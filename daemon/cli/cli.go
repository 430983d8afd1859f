// Package cli is the command line: arguments and streams in, exit status out.
// Each command has a file and is a function of its context, its arguments and
// the process around it, so tests need no process.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Exit statuses. A gate has three answers; mistakes in the call have their own.
const (
	exitPass    = 0 // done; for a run: no promise was broken
	exitFail    = 1 // a promise was broken, or the target did not answer
	exitUsage   = 2 // the call, the configuration or a file is wrong
	exitUnknown = 3 // no answer: the measurement is invalid or was cut short
)

// Process is the world around a command.
type Process struct {
	Args           []string // without the program's name
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Reload         <-chan os.Signal // SIGHUP
}

type command struct {
	name, usage, short string
	run                func(ctx context.Context, p Process) (int, error)
}

// commands lists them in the order of the help text.
func commands() []command {
	return []command{
		{"demo", "demo [flags]", "four simulated replicas and the daemon on one page", demo},
		{"run", "run [flags]", "run one probe now and print the report of bench_serving", run},
		{"serve", "serve --config FILE [flags]", "run the probes of a configuration on their schedules", serve},
		{"check", "check --config FILE [flags]", "validate a configuration and say what it will do", check},
		{"version", "version", "print the version", version},
	}
}

// errReported marks an error whose text the user has seen already.
var errReported = errors.New("reported")

// Main runs the command that the arguments name and returns the exit status.
func Main(ctx context.Context, p Process) int {
	if len(p.Args) == 0 {
		help(p.Stderr)
		return exitUsage
	}
	name := p.Args[0]
	if slices.Contains([]string{"help", "-h", "--help"}, name) {
		help(p.Stdout)
		return exitPass
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		p.Args = p.Args[1:]
		code, err := c.run(ctx, p)
		if errors.Is(err, pflag.ErrHelp) {
			return exitPass
		}
		if err != nil && !errors.Is(err, errReported) {
			fmt.Fprintf(p.Stderr, "inferbeat %s: %v\n", name, err)
		}
		return code
	}
	fmt.Fprintf(p.Stderr, "inferbeat: unknown command %q; 'inferbeat help' lists the commands\n", name)
	return exitUsage
}

func help(w io.Writer) {
	fmt.Fprint(w, "inferbeat benchmarks LLM inference servers continuously and tells Prometheus.\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-30s %s\n", c.usage, c.short)
	}
	fmt.Fprint(w, "\n'inferbeat COMMAND --help' lists a command's flags.\n"+
		"Exit status: 0 pass, 1 fail, 2 usage or configuration error, 3 unknown (invalid or cut short).\n")
}

// newFlags makes a flag set that prints its own usage on --help and nothing else.
func newFlags(p Process, usage, about string) *pflag.FlagSet {
	flags := pflag.NewFlagSet("inferbeat", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.Usage = func() {
		fmt.Fprintf(p.Stdout, "Usage: inferbeat %s\n\n%s\n\nFlags:\n%s", usage, about, flags.FlagUsagesWrapped(110))
	}
	return flags
}

// parse reads the arguments and refuses stray ones.
func parse(flags *pflag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w; see --help", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; every option is a --flag, see --help", flags.Arg(0))
	}
	return nil
}

func version(_ context.Context, p Process) (int, error) {
	fmt.Fprintf(p.Stdout, "inferbeat %s\n", buildVersion())
	return exitPass, nil
}

// buildVersion is the module version, or the revision it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return strings.TrimPrefix(v, "v")
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
