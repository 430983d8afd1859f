// Package cli is the command line: arguments and streams in, exit status out.
//
// The story of the data:
//
//  1. [Main] finds the command, lets it define its flags in groups, and parses
//     the arguments. The same flags are the help text and REFERENCE.md.
//  2. What the flags mean is decided by the command: `run` turns them into a
//     target and a spec, `serve` and `check` into a configuration's source. All
//     mistakes come back at once, each under the name of its flag.
//  3. The command does its work and returns an exit status.
//
// Each command has a file and is a function of its context, its arguments and
// the process around it, so tests need no process. Results go to the standard
// output; mistakes, failures and progress to the standard error. The value of a
// secret is in neither.
package cli

//go:generate go run ./gen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon/config"
)

// Exit statuses. A gate has three answers; mistakes in the call have their own.
const (
	exitPass    = 0 // done; for a run: no promise was broken
	exitFail    = 1 // a promise was broken, or the target did not answer
	exitUsage   = 2 // the call, the configuration or a file is wrong
	exitUnknown = 3 // no answer: nothing was measured, the measurement is invalid or was cut short
)

// Process is the world around a command.
type Process struct {
	Args           []string // without the program's name
	Env            []string // NAME=value
	Stdout, Stderr io.Writer
	// Hangup is SIGHUP: a reload to serve, the end of the terminal to others.
	Hangup <-chan os.Signal
	// Nohup: SIGHUP was ignored when the program started, so it ends nothing.
	Nohup bool
	// Dial replaces the network towards the targets; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// command is one word after the program's name.
type command struct {
	name, usage, short, about string
	reloads                   bool // on SIGHUP, instead of ending
	operands                  bool // takes arguments that belong to no flag
	// define adds the command's flags and returns what it does once they are parsed.
	define func(*flagSet) action
}

// action does a command's work and returns the exit status. An error is printed.
type action func(ctx context.Context, p Process) (int, error)

// commands lists them in the order of the help text.
func commands() []command {
	return []command{
		demoCommand,
		runCommand,
		replayCommand,
		sweepCommand,
		peakCommand,
		batchCommand,
		pairedCommand,
		gateCommand,
		compareCommand,
		reportCommand,
		mergeCommand,
		importCommand,
		serveCommand,
		checkCommand,
		healthCommand,
		historyCommand,
		ackCommand,
		exportCommand,
		storeCommand,
		alertsCommand,
		dashboardsCommand,
		selftestCommand,
		versionCommand,
	}
}

// Main runs the command that the arguments name and returns the exit status.
func Main(ctx context.Context, p Process) int {
	stdout := &stickyWriter{to: p.Stdout}
	p.Stdout = stdout
	code, err := dispatch(ctx, p)
	if err == nil && stdout.err != nil {
		code, err = exitUsage, fmt.Errorf("write to standard output: %w", stdout.err)
	}
	if err != nil {
		fmt.Fprintln(p.Stderr, complaint(p.Args, err))
	}
	return code
}

// dispatch finds the command and runs it.
func dispatch(ctx context.Context, p Process) (int, error) {
	if len(p.Args) == 0 {
		return exitUsage, errors.New("needs a command\n\n" + overview())
	}
	name, args := p.Args[0], p.Args[1:]
	if name == "help" && len(args) > 0 {
		name, args = args[0], []string{"--help"}
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
		if c.name == name {
			p.Args = args
			return c.execute(ctx, p)
		}
	}
	switch name {
	case "help", "-h", "--help":
		fmt.Fprint(p.Stdout, overview())
		return exitPass, nil
	case "--version":
		return printVersion(ctx, p)
	}
	return exitUsage, fmt.Errorf("there is no command %q%s", name, orSee(config.DidYouMean(name, names), "'inferbeat help' lists them"))
}

// execute parses the command's arguments and does its work.
func (c command) execute(ctx context.Context, p Process) (int, error) {
	flags := &flagSet{FlagSet: newFlags(), operands: c.operands}
	do := c.define(flags)
	err := flags.parse(c.name, p.Args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(p.Stdout, "Usage: inferbeat %s\n\n%s\n%s", c.usage, c.about, flags.help())
		return exitPass, nil
	case err != nil:
		return exitUsage, err
	}
	if !c.reloads && !p.Nohup {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		go func() {
			select {
			case <-p.Hangup:
				end()
			case <-ctx.Done():
			}
		}()
	}
	return do(ctx, p)
}

// complaint is an error as the user sees it: one mistake on the line of the
// program, several of them below it, so that file:line: stays at a line's start.
func complaint(args []string, err error) string {
	name := "inferbeat"
	for _, c := range commands() {
		if len(args) > 0 && args[0] == c.name {
			name += " " + c.name
		}
	}
	var several interface{ Unwrap() []error }
	_, problems := err.(config.Problems)
	if text := err.Error(); (problems || errors.As(err, &several)) && strings.Contains(text, "\n") {
		return fmt.Sprintf("%s: %d problems\n%s", name, 1+strings.Count(text, "\n"), text)
	}
	return name + ": " + err.Error()
}

// overview is the help text of the program as a whole.
func overview() string {
	var b strings.Builder
	b.WriteString("inferbeat benchmarks LLM inference servers continuously and tells Prometheus.\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-30s %s\n", c.usage, c.short)
	}
	fmt.Fprintf(&b, "  %-30s %s\n", "help [COMMAND]", "this text, or the flags of a command")
	b.WriteString("\nExit status: 0 pass, 1 fail, 2 usage or configuration error, 3 unknown (nothing measured, invalid or cut short).\n")
	return b.String()
}

// stickyWriter remembers the first error, so that output which went nowhere is
// not reported as success.
type stickyWriter struct {
	to  io.Writer
	err error
}

func (w *stickyWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

var versionCommand = command{
	name: "version", usage: "version", short: "print the version",
	about:  "Prints the version that the binary was built as.",
	define: func(*flagSet) action { return printVersion },
}

func printVersion(_ context.Context, p Process) (int, error) {
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
