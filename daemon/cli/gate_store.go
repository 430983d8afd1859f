package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/report"
	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

// withStore are the flags of a gate that measures nothing.
var withStore = []string{"from-store", "config", "storage-path", "since", "comparison", "target", "against-target", "probe", "margin", "primary", "vary", "inconclusive", "json"}

// gateFromStore answers by what has been measured already.
func (o *runFlags) gateFromStore(ctx context.Context, p Process, flags *pflag.FlagSet) (int, error) {
	var m mistakes
	o.gate.check(&m)
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(withStore, f.Name) {
			m.add(f.Name, "has no effect with --from-store, which measures nothing")
		}
	})
	rules, margins := o.gate.rules(&m)
	age, err := config.ParseDuration(o.gate.results.since)
	if err != nil {
		m.add("since", "%q: %v", o.gate.results.since, err)
	}
	named := o.gate.comparison != ""
	for _, flag := range []string{"target", "against-target", "probe"} {
		switch given := flags.Changed(flag); {
		case named && given:
			m.add(flag, "cannot be combined with --comparison, which names both targets")
		case !named && !given:
			m.add(flag, "is needed with --from-store, unless there is a --comparison")
		}
	}
	for _, flag := range []string{"margin", "primary", "vary"} {
		if named && flags.Changed(flag) {
			m.add(flag, "cannot be combined with --comparison: a stored answer was given by its own rules")
		}
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	o.gate.results.store.files = o.configFiles
	reader := resultReader{flags: &o.gate.results, env: p.Env}
	defer reader.close()
	s, err := reader.open(ctx)
	if err != nil {
		return exitUsage, err
	}
	since := time.Now().Add(-age)
	var run *probes.Run
	if named {
		run, err = storedAnswer(ctx, s, o.gate.comparison, since)
	} else {
		run, err = o.commonNights(ctx, s, since, rules, margins)
	}
	if err != nil {
		return exitUsage, err
	}
	human := p.Stdout
	if o.gate.json {
		human = p.Stderr
	}
	if err := report.Text(human, run); err != nil {
		return exitUsage, fmt.Errorf("print report: %w", err)
	}
	return o.gate.answer(p.Stdout, run)
}

// storedAnswer is the last run of a comparison.
func storedAnswer(ctx context.Context, s *store.Store, name string, since time.Time) (*probes.Run, error) {
	runs, err := s.History(ctx, store.Query{Probe: name, Kinds: []probes.Kind{probes.Paired}, Since: since, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read comparison %s from %s: %w", name, s.Path(), err)
	}
	if len(runs) == 0 || runs[0].Comparison == nil {
		return nil, fmt.Errorf("--comparison: %s has no run of a comparison %q since %s", s.Path(), name, since.UTC().Format(time.DateTime))
	}
	return runs[0], nil
}

// commonNights judges the series of two targets.
func (o *runFlags) commonNights(ctx context.Context, s *store.Store, since time.Time, gate *probes.Gate, margins map[probes.RegressionMetric]float64) (*probes.Run, error) {
	var sides [2][]*probes.Run
	for i, target := range []string{o.against.target, o.target} {
		runs, err := s.History(ctx, store.Query{Target: target, Probe: o.probe, Since: since})
		if err != nil {
			return nil, fmt.Errorf("read %s/%s from %s: %w", target, o.probe, s.Path(), err)
		}
		if len(runs) == 0 {
			return nil, fmt.Errorf("--from-store: %s has no run of target %s with probe %s since %s", s.Path(), target, o.probe, since.UTC().Format(time.DateTime))
		}
		sides[i] = runs
	}
	return daemon.CompareNights(sides[0], sides[1], gate, margins), nil
}
