package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

var storeCommand = command{
	name: "store", usage: "store backup FILE | store check [flags]", short: "copy or check the store", operands: true,
	about: `backup writes a copy of the store as it is now into a new file, while the daemon runs. To
restore it, stop the daemon and put it in the place of inferbeat.db in storage.path; remove
inferbeat.db-wal and inferbeat.db-shm there. check reads every page and says what is damaged,
if anything is (exit status 1).`,
	define: func(f *flagSet) action {
		o := &storeFlags{}
		o.define(f.group("Flags"))
		return func(ctx context.Context, p Process) (int, error) { return o.maintain(ctx, p, f.Args()) }
	},
}

// storeFlags say which store is meant.
type storeFlags struct {
	files []string
	path  string
}

func (o *storeFlags) define(g *pflag.FlagSet) {
	g.StringArrayVar(&o.files, "config", nil, "configuration `file` whose storage.path is meant; repeat to overlay, later ones win")
	o.defineFolder(g)
}

func (o *storeFlags) defineFolder(g *pflag.FlagSet) {
	g.StringVar(&o.path, "storage-path", "", "`folder` of the store; wins over the configuration")
}

// named reports whether a store was named at all.
func (o *storeFlags) named() bool { return o.path != "" || len(o.files) > 0 }

// open opens the store beside a daemon that may have it open too.
func (o *storeFlags) open(ctx context.Context, env []string, access store.Access) (*store.Store, error) {
	path := o.path
	if !o.named() {
		return nil, errors.New("--config: missing, name the configuration file, or the store's folder with --storage-path")
	}
	if path == "" {
		c, err := loadConfig(o.files, env, nil)
		if err != nil {
			return nil, err
		}
		if path = c.Storage.Path; path == "" {
			return nil, errors.New("--config: has no storage.path, so that its daemon keeps nothing")
		}
	}
	return store.Open(ctx, store.Options{Path: path, Access: access})
}

func (o *storeFlags) maintain(ctx context.Context, p Process, args []string) (int, error) {
	backup := len(args) == 2 && args[0] == "backup"
	if !backup && (len(args) != 1 || args[0] != "check") {
		return exitUsage, errors.New("needs backup FILE, or check; see 'inferbeat store --help'")
	}
	s, err := o.open(ctx, p.Env, store.Read)
	if err != nil {
		return exitUsage, err
	}
	defer s.Close()
	if backup {
		if err := s.Backup(ctx, args[1]); err != nil {
			return exitFail, err
		}
		fmt.Fprintf(p.Stdout, "%s: a copy of %s\n", args[1], s.Path())
		return exitPass, nil
	}
	if err := s.Check(ctx); err != nil {
		return exitFail, err
	}
	size, err := s.Size()
	if err != nil {
		return exitFail, err
	}
	fmt.Fprintf(p.Stdout, "%s: ok, %.1f MB\n", s.Path(), float64(size)/1e6)
	return exitPass, nil
}

// selection are the flags that choose runs.
type selection struct {
	target, pool, probe, environment, fingerprint, since, until string
	limit                                                       int
}

func (o *selection) define(g *pflag.FlagSet, limit int) {
	g.StringVar(&o.target, "target", "", "`name` of the target")
	g.StringVar(&o.pool, "pool", "", "`name` of the pool")
	g.StringVar(&o.probe, "probe", "", "`name` of the probe or comparison")
	g.StringVar(&o.environment, "environment", "", "`class` of the target's environment")
	g.StringVar(&o.fingerprint, "fingerprint", "", "only runs that may be compared with each other: `hash` that they have in common")
	g.StringVar(&o.since, "since", "", "first start: a `time` such as 2026-05-01 or 2026-05-01T02:00:00Z, or how long ago, such as 36h or 30d")
	g.StringVar(&o.until, "until", "", "`time` before which the last one started, in the same forms")
	g.IntVar(&o.limit, "limit", limit, "only so many of the last `runs`; 0 is all")
}

// query is what the flags select at the time now.
func (o *selection) query(now time.Time, m *mistakes) store.Query {
	q := store.Query{Target: o.target, Pool: o.pool, Probe: o.probe, Environment: probes.Environment(o.environment), Fingerprint: o.fingerprint, Limit: o.limit}
	var err error
	if q.Since, err = readTime(o.since, now); err != nil {
		m.add("since", "%v", err)
	}
	if q.Until, err = readTime(o.until, now); err != nil {
		m.add("until", "%v", err)
	}
	if o.limit < 0 {
		m.add("limit", "%d is negative; 0 is all", o.limit)
	}
	return q
}

// readTime reads a date, an instant, or how long ago.
func readTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if at, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return at, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time nor a duration; write 2026-05-01, 36h or 30d", text)
}
