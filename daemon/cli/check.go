package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
)

var checkCommand = command{
	name: "check", usage: "check --config FILE [flags]", short: "validate a configuration and say what it will do",
	about: `Loads a configuration as serve would and says what it will do: the load that each target will
see, the series that /metrics will show and the next starts of every schedule.`,
	define: func(f *flagSet) action {
		g := f.group("Flags")
		files := g.StringArray("config", nil, "configuration `file`; repeat to overlay, later ones win")
		effective := g.Bool("print", false, "print the effective configuration, secrets hidden")
		starts := g.Int("starts", 10, "how many starts of each schedule to list")
		return func(_ context.Context, p Process) (int, error) { return check(p, *files, *effective, *starts) }
	},
}

// loadConfig reads a configuration with all checks of the stages.
func loadConfig(files, env []string, overrides map[string]any) (*config.Config, error) {
	return daemon.LoadConfig(config.Source{Files: files, Env: env, Overrides: overrides})
}

// check validates a configuration; nothing is sent anywhere.
func check(p Process, files []string, effective bool, starts int) (int, error) {
	var m mistakes
	if len(files) == 0 {
		m.add("config", "missing, name the configuration file")
	}
	if starts < 0 {
		m.add("starts", "%d is negative; 0 lists none", starts)
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	c, err := loadConfig(files, p.Env, nil)
	if err != nil {
		return exitUsage, err
	}
	if effective {
		text, err := c.Redacted()
		if err != nil {
			return exitUsage, fmt.Errorf("print configuration: %w", err)
		}
		_, _ = p.Stdout.Write(text) // Main looks at what became of it
		return exitPass, nil
	}
	printPlan(p.Stdout, daemon.NewPlan(c, time.Now(), starts))
	return exitPass, nil
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
	_ = table.Flush()
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
