package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
)

const checkAbout = `Loads a configuration as serve would and says what it will do: the load that each target will
see, the series that /metrics will show and the next starts of every schedule.`

// loadConfig reads a configuration with all checks of the stages.
func loadConfig(files, env []string, overrides map[string]any) (*config.Config, error) {
	return daemon.LoadConfig(config.Source{Files: files, Env: env, Overrides: overrides})
}

// check validates a configuration; nothing is sent anywhere.
func check(_ context.Context, p Process) (int, error) {
	flags := newFlags(p, "check --config FILE [flags]", checkAbout)
	files := flags.StringArray("config", nil, "configuration `file`; repeat to overlay, later ones win")
	effective := flags.Bool("print", false, "print the effective configuration, secrets hidden")
	starts := flags.Int("starts", 10, "how many starts of each schedule to list")
	if err := parse(flags, p.Args); err != nil {
		return exitUsage, err
	}
	if len(*files) == 0 {
		return exitUsage, errors.New("--config is required")
	}
	c, err := loadConfig(*files, p.Env, nil)
	if err != nil {
		return exitUsage, err
	}
	if *effective {
		text, err := c.Redacted()
		if err != nil {
			return exitUsage, fmt.Errorf("print configuration: %w", err)
		}
		_, err = p.Stdout.Write(text)
		return exitPass, err
	}
	if err := printPlan(p.Stdout, daemon.NewPlan(c, time.Now(), *starts)); err != nil {
		return exitUsage, fmt.Errorf("print plan: %w", err)
	}
	return exitPass, nil
}

func printPlan(w io.Writer, plan daemon.Plan) error {
	fmt.Fprintf(w, "The configuration is valid: %d targets, %d pairs of target and probe, about %d series on /metrics.\n\n",
		len(plan.Targets), len(plan.Pairs), plan.Series)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tENVIRONMENT\tREQUESTS A DAY\tTOKENS A DAY (AT MOST)\tMOST IN FLIGHT")
	for _, t := range plan.Targets {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", t.Name, t.Environment, t.RequestsPerDay, amount(t.TokensPerDay), amount(t.MostInFlight))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, pair := range plan.Pairs {
		fmt.Fprintf(w, "\n%s on %s, %s\n", pair.Probe, pair.Target, pair.When)
		for _, at := range pair.Starts {
			fmt.Fprintf(w, "  %s\n", at.Format("Mon 2006-01-02 15:04:05 MST"))
		}
	}
	return nil
}

// amount prints a number that may be unknown beforehand.
func amount(n int) string {
	if n < 0 {
		return "depends on the answers"
	}
	return fmt.Sprint(n)
}
