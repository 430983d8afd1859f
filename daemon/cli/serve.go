package cli

import (
	"context"
	"errors"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
)

const serveAbout = `Runs the probes of a configuration on their schedules and serves the page and /metrics.
SIGHUP reloads; SIGTERM ends runs, records them and exits with 0; a second one exits at once.`

// serve is the daemon.
func serve(ctx context.Context, p Process) (int, error) {
	flags := newFlags(p, "serve --config FILE [flags]", serveAbout)
	files := flags.StringArray("config", nil, "configuration `file`; repeat to overlay, later ones win")
	listen := flags.String("listen", "", "`address` of the page and /metrics; wins over web.listen_address")
	level := flags.String("log-level", "", "debug, info, warn or error; wins over log.level")
	watch := flags.Duration("watch", 10*time.Second, "how often the files are looked at for changes; 0 never")
	if err := parse(flags, p.Args); err != nil {
		return exitUsage, err
	}
	if len(*files) == 0 {
		return exitUsage, errors.New("--config is required; 'inferbeat demo' needs none")
	}
	if *watch < 0 {
		return exitUsage, errors.New("--watch may not be negative; 0 never looks")
	}
	overrides := map[string]any{}
	if *listen != "" {
		overrides["web.listen_address"] = *listen
	}
	if *level != "" {
		overrides["log.level"] = *level
	}
	app, err := daemon.New(daemon.Options{
		ConfigFiles: *files, Env: p.Env, Overrides: overrides, LogTo: p.Stderr, Version: buildVersion(),
		Reload: p.Reload, Watch: *watch, PageRefresh: 5 * time.Second,
	})
	if err != nil {
		return exitUsage, err
	}
	if err := app.Run(ctx); err != nil {
		return exitFail, err
	}
	return exitPass, nil
}
