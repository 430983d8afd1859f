package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// resultFlags say where results are looked for.
type resultFlags struct {
	store storeFlags
	since string
}

func (o *resultFlags) define(f *pflag.FlagSet) {
	o.store.define(f)
	o.defineSince(f)
}

func (o *resultFlags) defineSince(f *pflag.FlagSet) {
	f.StringVar(&o.since, "since", "30d", "how `long` ago the runs of a TARGET/PROBE may have been, unless it says so itself")
}

// read turns the arguments into sides.
func (o *resultFlags) read(ctx context.Context, env, args []string) ([]probes.Side, error) {
	r := resultReader{flags: o, env: env}
	defer r.close()
	var sides []probes.Side
	var problems []error
	for _, arg := range args {
		read, err := r.side(ctx, arg)
		sides, problems = append(sides, read...), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	distinguish(sides)
	return sides, nil
}

// distinguish numbers sides of one name.
func distinguish(sides []probes.Side) {
	seen := map[string]int{}
	for i := range sides {
		name := sides[i].Name
		if seen[name]++; seen[name] > 1 {
			sides[i].Name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
	}
}

// resultReader opens the store when the first result is to come from it.
type resultReader struct {
	flags *resultFlags
	env   []string
	store *store.Store
}

func (r *resultReader) close() {
	if r.store != nil {
		r.store.Close()
	}
}

// side reads one argument. A name before = is taken for one unless there is such a file.
func (r *resultReader) side(ctx context.Context, arg string) ([]probes.Side, error) {
	name, source := "", arg
	if before, after, ok := strings.Cut(arg, "="); ok && !isFile(arg) {
		name, source = before, after
	}
	var runs []*probes.Run
	var err error
	shown := source
	switch {
	case isFile(source):
		shown = strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
		runs, err = readResults(source)
	case strings.HasSuffix(source, ".json") || strings.HasSuffix(source, ".jsonl"):
		err = fmt.Errorf("read %s: there is no such file", source)
	case strings.Contains(source, "/"):
		runs, err = r.series(ctx, source)
	default:
		runs, err = r.one(ctx, source)
		if err == nil {
			shown = runs[0].Target.Name + "/" + runs[0].Spec.Probe
		}
	}
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("read %s: it holds no result", source)
	}
	sides := expand(shown, runs)
	if name != "" {
		for i := range sides {
			if len(sides) == 1 {
				sides[i].Name = name
			} else {
				sides[i].Name = name + " " + sides[i].Name
			}
		}
	}
	return sides, nil
}

// expand makes sides of runs: of a comparison both of its sides, of anything else one.
func expand(name string, runs []*probes.Run) []probes.Side {
	if len(runs) == 1 && runs[0].Comparison != nil {
		out := []probes.Side{{Name: runs[0].Comparison.Reference.Name}, {Name: runs[0].Target.Name}}
		for _, part := range runs[0].Parts {
			side := 0
			if strings.HasSuffix(part.Role, " B") {
				side = 1
			}
			out[side].Runs = append(out[side].Runs, part.Run)
		}
		return out
	}
	side := probes.Side{Name: name}
	for _, run := range runs {
		repeated := false
		for _, part := range run.Parts {
			if strings.HasPrefix(part.Role, "repeat ") {
				side.Runs, repeated = append(side.Runs, part.Run), true
			}
		}
		if !repeated {
			side.Runs = append(side.Runs, run)
		}
	}
	return []probes.Side{side}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readResults reads a file of ours, or else one of another tool.
func readResults(path string) ([]*probes.Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open result file: %w", err)
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	if bytes.Contains(first, []byte(`"inferbeat":{`)) {
		return jsonl.Results(path, bytes.NewReader(text))
	}
	return daemon.Import(path, bytes.NewReader(text), probes.Target{Name: filepath.Base(path), Environment: probes.Development}, "imported")
}

func (r *resultReader) open(ctx context.Context) (*store.Store, error) {
	if r.store == nil {
		opened, err := r.flags.store.open(ctx, r.env, store.Read)
		if err != nil {
			return nil, err
		}
		r.store = opened
	}
	return r.store, nil
}

func (r *resultReader) one(ctx context.Context, id string) ([]*probes.Run, error) {
	s, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	run, err := s.Run(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read %s: it is no file, and in the store %s: %w", id, s.Path(), err)
	}
	return []*probes.Run{run}, nil
}

// series reads TARGET/PROBE[@SINCE].
func (r *resultReader) series(ctx context.Context, text string) ([]*probes.Run, error) {
	series, since, dated := strings.Cut(text, "@")
	if !dated {
		since = r.flags.since
	}
	age, err := config.ParseDuration(since)
	if err != nil {
		return nil, fmt.Errorf("read %s: since %q: %w", text, since, err)
	}
	i := strings.LastIndex(series, "/")
	s, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := s.History(ctx, store.Query{Target: series[:i], Probe: series[i+1:], Since: time.Now().Add(-age)})
	if err != nil {
		return nil, fmt.Errorf("read %s from the store %s: %w", series, s.Path(), err)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("read %s: the store %s has no run of target %s with probe %s in the last %s, and there is no such file", text, s.Path(), series[:i], series[i+1:], since)
	}
	return runs, nil
}
