package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/probes"
)

var serveCommand = command{
	name: "serve", usage: "serve --config FILE [flags]", short: "run the probes of a configuration on their schedules",
	about: `Runs the probes of a configuration on their schedules and serves the page and /metrics.
SIGHUP reloads; SIGTERM ends runs, records them and exits with 0; a second one exits at once.`,
	reloads: true,
	define: func(f *flagSet) action {
		o := &serveFlags{}
		g := f.group("Flags")
		g.StringArrayVar(&o.files, "config", nil, "configuration `file`; repeat to overlay, later ones win")
		g.StringVar(&o.listen, "listen", "", "`address` of the page and /metrics; wins over web.listen_address")
		g.StringVar(&o.level, "log-level", "", "`level`: debug, info, warn or error; wins over log.level")
		g.BoolVar(&o.embedded, "embedded", false, "keep the series, evaluate the alert rules and answer PromQL inside the daemon; as embedded.enabled")
		g.DurationVar(&o.watch, "watch", 10*time.Second, "how often the files are looked at for changes; 0 never")
		g.StringVar(&o.shard, "shard", "", "`i/n`: probe only the targets of the i-th of n daemons with one configuration, counted from 0; whose a target is follows from its name, and a comparison is where its b is")
		return o.serve
	},
}

type serveFlags struct {
	files         []string
	listen, level string
	embedded      bool
	watch         time.Duration
	shard         string
}

// overrides are the keys of the configuration that flags set.
func (o *serveFlags) overrides() map[string]any {
	keys := map[string]any{}
	for key, value := range map[string]string{"web.listen_address": o.listen, "log.level": o.level} {
		if value != "" {
			keys[key] = value
		}
	}
	if o.embedded {
		keys["embedded.enabled"] = true
	}
	return keys
}

// serve is the daemon.
func (o *serveFlags) serve(ctx context.Context, p Process) (int, error) {
	var m mistakes
	if len(o.files) == 0 {
		m.add("config", "missing, name the configuration file; 'inferbeat demo' needs none")
	}
	if o.watch < 0 {
		m.add("watch", "%s is negative; 0 never looks", o.watch)
	}
	shard := probes.Shard{Of: 1}
	if o.shard != "" {
		var ok bool
		if shard, ok = parseShard(o.shard); !ok {
			m.add("shard", "%q is not of the form i/n, with i from 0 to n-1", o.shard)
		}
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	app, err := daemon.New(daemon.Options{
		ConfigFiles: o.files, Env: p.Env, Overrides: o.overrides(), LogTo: p.Stderr, Version: buildVersion(),
		Reload: p.Hangup, Watch: o.watch, PageRefresh: 5 * time.Second,
		Shard: daemon.Shard{Index: shard.Index, Of: shard.Of},
	})
	if err != nil {
		return exitUsage, explain(err)
	}
	if err := app.Run(ctx); err != nil {
		return exitFail, err
	}
	return exitPass, nil
}

// explain adds what to do about an address that is taken.
func explain(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; end the process that has it, or choose another address with --listen", err)
	}
	return err
}
