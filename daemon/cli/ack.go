package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
)

var ackCommand = command{
	name: "ack", usage: "ack TARGET PROBE --config FILE --author NAME --reason TEXT [flags]", short: "accept a change as the new normal", operands: true,
	about: `Accepts what has changed in the nights of a probe on a target as the new normal: the baseline
begins anew with it. A running daemon hears of it within seconds, and the pair is shown as
it stands then, alerts included. Who said so and why is kept for ever;
'inferbeat history --acks' lists it.`,
	define: func(f *flagSet) action {
		o := &ackFlags{}
		o.storeFlags.define(f.group("Store"))
		g := f.group("Acknowledgement")
		g.StringVar(&o.metric, "metric", "", "accept the change of this `metric` alone")
		g.StringVar(&o.since, "since", "", "first `night` that is accepted, such as 2026-05-01; that of the open change when not given")
		g.StringVar(&o.author, "author", "", "`name` of who accepts it")
		g.StringVar(&o.reason, "reason", "", "`text`: why it is all right")
		return func(ctx context.Context, p Process) (int, error) { return o.acknowledge(ctx, p, f.Args()) }
	},
}

type ackFlags struct {
	storeFlags
	metric, since, author, reason string
}

func (o *ackFlags) acknowledge(ctx context.Context, p Process, args []string) (int, error) {
	var m mistakes
	if len(args) != 2 {
		m = append(m, errors.New("needs a TARGET and a PROBE; see 'inferbeat ack --help'"))
	}
	if o.metric != "" && !slices.Contains(probes.RegressionMetrics, probes.RegressionMetric(o.metric)) {
		m.add("metric", "%q is none of %v", o.metric, probes.RegressionMetrics)
	}
	if strings.TrimSpace(o.author) == "" {
		m.add("author", "missing, say who accepts the change")
	}
	if strings.TrimSpace(o.reason) == "" {
		m.add("reason", "missing, say why the change is all right")
	}
	now := time.Now()
	since, err := readTime(o.since, now)
	if err != nil {
		m.add("since", "%v", err)
	}
	if err := m.join(); err != nil {
		return exitUsage, err
	}
	s, err := o.open(ctx, p.Env, store.Write)
	if err != nil {
		return exitUsage, err
	}
	defer s.Close()
	a := probes.Acknowledgement{
		Target: args[0], Probe: args[1], Metric: probes.RegressionMetric(o.metric), At: now, Since: since, Author: o.author, Reason: o.reason,
	}
	runs, err := s.History(ctx, store.Query{Target: a.Target, Probe: a.Probe, Limit: 1})
	if err != nil {
		return exitFail, err
	}
	if len(runs) == 0 {
		return exitUsage, fmt.Errorf("the store has no run of probe %s on target %s; 'inferbeat history' lists what it has", a.Probe, a.Target)
	}
	if err := s.Acknowledge(ctx, a); err != nil {
		return exitFail, err
	}
	fmt.Fprintf(p.Stdout, "Kept: %s accepts the change of %s on %s; a daemon that is running shows it within seconds.\n", a.Author, a.Probe, a.Target)
	return exitPass, nil
}
