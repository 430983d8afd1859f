package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/probes"
)

var checkCommand = command{
	name: "check", usage: "check --config FILE [flags]", short: "validate a configuration and say what it will do",
	about: `Loads a configuration as serve would and says what it will do: the load that each target will
see, the series that /metrics will show and the next starts of every schedule. With --discover the
targets that service discovery finds now are among them; nothing is sent to them.`,
	define: func(f *flagSet) action {
		g := f.group("Flags")
		files := g.StringArray("config", nil, "configuration `file`; repeat to overlay, later ones win")
		effective := g.Bool("print", false, "print the effective configuration, secrets hidden")
		starts := g.Int("starts", 10, "how many starts of each schedule to list")
		discover := g.Bool("discover", false, "ask service discovery once, and show what would be probed")
		return func(ctx context.Context, p Process) (int, error) {
			return check(ctx, p, checkFlags{*files, *effective, *starts, *discover})
		}
	},
}

type checkFlags struct {
	files     []string
	effective bool
	starts    int
	discover  bool
}

// loadConfig reads a configuration with all checks of the stages.
func loadConfig(files, env []string, overrides map[string]any) (*config.Config, error) {
	return daemon.LoadConfig(config.Source{Files: files, Env: env, Overrides: overrides})
}

// check validates a configuration; nothing is sent to any target.
func check(ctx context.Context, p Process, o checkFlags) (int, error) {
	var m mistakes
	if len(o.files) == 0 {
		m.add("config", "missing, name the configuration file")
	}
	if o.starts < 0 {
		m.add("starts", "%d is negative; 0 lists none", o.starts)
	}
	if o.discover && o.effective {
		m.add("discover", "has no effect beside --print: the effective configuration is that of the files")
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	c, err := loadConfig(o.files, p.Env, nil)
	if err != nil {
		return exitUsage, err
	}
	if o.effective {
		text, err := c.Redacted()
		if err != nil {
			return exitUsage, fmt.Errorf("print configuration: %w", err)
		}
		_, _ = p.Stdout.Write(text) // Main looks at what became of it
		return exitPass, nil
	}
	if o.discover {
		if c, err = discoverNow(ctx, p, c); err != nil {
			return exitUsage, err
		}
	}
	printPlan(p.Stdout, daemon.NewPlan(c, time.Now(), o.starts))
	return exitPass, nil
}

// discoveryPatience is how long a command waits for service discovery.
const discoveryPatience = 10 * time.Second

// discoverNow adds the targets that service discovery finds now, and says what was
// wrong with it.
func discoverNow(ctx context.Context, p Process, c *config.Config) (*config.Config, error) {
	log := slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	next, rejected, complete, err := daemon.Discover(ctx, c, daemon.DiscoverOptions{Patience: discoveryPatience, Log: log, Dial: p.Dial})
	if err != nil {
		return nil, err
	}
	for _, r := range rejected {
		fmt.Fprintf(p.Stderr, "rejected: %s of %s: %s\n", r.Name, r.Entry, r.Reason)
	}
	if !complete {
		fmt.Fprintf(p.Stderr, "not all of service discovery has answered within %s; more targets may come\n", discoveryPatience)
	}
	return next, nil
}

// named is the configuration with its discovered targets when one that is asked for is
// none of the file.
func named(c *config.Config, targets ...string) (*config.Config, error) {
	for _, name := range targets {
		static := slices.ContainsFunc(c.Targets(), func(t probes.Target) bool { return t.Name == name })
		if name != "" && !static {
			return discovered(c)
		}
	}
	return c, nil
}

// discovered is the configuration with the targets that are discovered now, if it has
// any service discovery.
func discovered(c *config.Config) (*config.Config, error) {
	if len(c.Entries()) == 0 {
		return c, nil
	}
	next, _, _, err := daemon.Discover(context.Background(), c, daemon.DiscoverOptions{Patience: discoveryPatience})
	return next, err
}

// printPlan writes what a configuration will do.
func printPlan(w io.Writer, plan daemon.Plan) {
	comparisons := ""
	if n := len(plan.Comparisons); n > 0 {
		comparisons = fmt.Sprintf("; comparisons: %d", n)
	}
	fmt.Fprintf(w, "The configuration is valid. Targets: %d; pairs of target and probe: %d%s; series on /metrics: about %d.\n\n",
		len(plan.Targets), len(plan.Pairs), comparisons, plan.Series)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tENVIRONMENT\tREQUESTS IN 24H\tTOKENS IN 24H (AT MOST)\tMOST IN FLIGHT")
	for _, t := range plan.Targets {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", t.Name, t.Environment, t.RequestsPerDay, amount(t.TokensPerDay), amount(t.MostInFlight))
	}
	for _, e := range plan.Entries {
		fmt.Fprintf(table, "each of %s\t%s\t%d\t%s\t%s\n", e.Name, e.Environment, e.RequestsPerDay, amount(e.TokensPerDay), amount(e.MostInFlight))
	}
	_ = table.Flush()
	for _, e := range plan.Entries {
		fmt.Fprintf(w, "\nTargets of %s are discovered (%s); each adds about %d series and is probed by:\n", e.Name, strings.Join(e.Mechanisms, ", "), e.Series)
		for _, probe := range e.Probes {
			fmt.Fprintf(w, "  %s\n", probe)
		}
	}
	for _, pair := range plan.Pairs {
		fmt.Fprintf(w, "\n%s on %s, %s\n", pair.Probe, pair.Target, pair.When)
		printStarts(w, pair.Starts)
	}
	for _, c := range plan.Comparisons {
		fmt.Fprintf(w, "\ncomparison %s: %s against %s, %s\n", c.Probe, c.Target, c.Reference, c.When)
		printStarts(w, c.Starts)
	}
}

func printStarts(w io.Writer, starts []time.Time) {
	for _, at := range starts {
		fmt.Fprintf(w, "  %s\n", at.Format("Mon 2006-01-02 15:04:05 MST"))
	}
}

// amount prints a number that may be unknown beforehand.
func amount(n int) string {
	if n < 0 {
		return "depends on the answers"
	}
	return fmt.Sprint(n)
}
