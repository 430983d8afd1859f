package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/exporters/plot"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/capacity"
)

var sweepCommand = command{
	name: "sweep", usage: "sweep [flags]", short: "find the request rate that a target can take",
	about: `Measures one request rate after the other, prints a table, the rate up to which the
objectives are kept, 0.8 of it as the safe load, and the curves. Without --rates it
searches: doubling, then halving the bracket. Exits with 0 (found, or a lower bound), 1
(even the lowest rate is too much), 2 (usage) or 3 (unknown).`,
	define: func(f *flagSet) action {
		o := defineSweepFlags(f)
		return func(ctx context.Context, p Process) (int, error) { return runSweep(ctx, p, o, f.FlagSet) }
	},
}

// sweepFlags are the options of `inferbeat sweep`: those of run that mean something for
// a load without a fixed rate, and its own.
type sweepFlags struct {
	runFlags
	rates           string
	startRate       float64
	maxRate         float64
	maxSteps        int
	slos            map[string]*time.Duration
	plot, plotTheme string
}

// sweepWithConfig are the flags of sweep alone that may stand beside --config.
var sweepWithConfig = []string{"plot", "plot-theme"}

// sloFlags are the objectives in short: signal and percentile.
var sloFlags = []struct {
	flag, name, what string
	signal           probes.Signal
	objective        float64
}{
	{"slo-ttft-p99", "ttft_p99", "99 % of the first tokens come within this time (default 1s when there is no other objective)", probes.TTFT, 0.99},
	{"slo-ttft-p95", "ttft_p95", "95 % of the first tokens come within this time", probes.TTFT, 0.95},
	{"slo-tpot-p99", "tpot_p99", "99 % of the answers take at most this time per output token", probes.TPOT, 0.99},
	{"slo-tpot-p95", "tpot_p95", "95 % of the answers take at most this time per output token", probes.TPOT, 0.95},
	{"slo-e2e-p99", "e2e_p99", "99 % of the answers are complete within this time", probes.E2E, 0.99},
	{"slo-e2e-p95", "e2e_p95", "95 % of the answers are complete within this time", probes.E2E, 0.95},
}

func defineSweepFlags(f *flagSet) *sweepFlags {
	o := &sweepFlags{runFlags: runFlags{kind: probes.Sweep, changed: f.Changed}, slos: map[string]*time.Duration{}}
	o.defineTarget(f.group("Target"))
	o.defineWorkload(f.group("Dataset"))

	r := f.group("Rates")
	r.StringVar(&o.rates, "rates", "", "`list` of rates in requests per second, such as 1,2,4,8; searched when not given")
	r.Float64Var(&o.startRate, "start-rate", 0, "first `rate` of a search (default: at which one request follows the other)")
	r.Float64Var(&o.maxRate, "max-rate", 0, "highest `rate` of a search; 0 is no bound")
	r.IntVar(&o.maxSteps, "max-steps", probes.MaxSweepSteps, "most steps of a search")

	s := f.group("Objectives; requests that fail miss all of them")
	for _, slo := range sloFlags {
		o.slos[slo.flag] = s.Duration(slo.flag, 0, slo.what)
	}

	l := f.group("Each step")
	l.IntVar(&o.numPrompts, "num-prompts", 0, "requests of each step; 0 is what 60 residence times, the objectives and one minute need")
	l.DurationVar(&o.duration, "duration", 0, "how long each step sends, in place of --num-prompts")
	l.IntVar(&o.warmup, "warmup-requests", 0, "requests of each step that do not count; 0 is 3 times the 95th percentile of the residence time")
	l.Float64Var(&o.burstiness, "burstiness", 1, "gamma `shape` of the gaps: 1 is Poisson, below it burstier, inf constant")
	l.IntVar(&o.maxConcurrency, "max-concurrency", 0, "most requests in flight; the wait for a slot counts; 0 is no bound")
	l.BoolVar(&o.flushCache, "flush-cache", false, "empty the server's prefix cache before each step")

	o.defineSampling(f.group("Sampling"))
	o.defineTimeouts(f.group("Timeouts of each request (0 is no bound)"))
	o.defineConfig(f.group("Configuration, instead of the flags above"))
	out := f.group("Output")
	o.defineOutput(out)
	out.StringVar(&o.plot, "plot", "", "`file` to draw the curves into, named .svg or .png")
	out.StringVar(&o.plotTheme, "plot-theme", "light", "`ground` of the drawing: light or dark")
	return o
}

func runSweep(ctx context.Context, p Process, o *sweepFlags, flags *pflag.FlagSet) (int, error) {
	var own mistakes
	draw := o.drawing(&own)
	target, spec, err := o.resolveAs(o.buildSweep, flags, p.Env)
	if err != nil {
		own = append(own, err)
	}
	if err := own.join(); err != nil {
		return exitUsage, err
	}
	result, err := measure(ctx, p, "sweep", &o.runFlags, target, spec)
	if err != nil {
		return exitUsage, err
	}
	if draw != nil && result.Error == "" && len(capacity.Usable(result.Steps)) > 0 {
		if err := draw(result); err != nil {
			return exitUsage, fmt.Errorf("--plot: %w", err)
		}
	}
	return exitCode(result), nil
}

// drawing is what --plot asks for; nil for nothing. The file is made now: hours of measuring
// must not end in a drawing that cannot be kept.
func (o *sweepFlags) drawing(m *mistakes) func(*probes.Run) error {
	theme, ok := map[string]plot.Theme{"light": plot.Light, "dark": plot.Dark}[o.plotTheme]
	if !ok {
		m.add("plot-theme", "%q is neither light nor dark", o.plotTheme)
	}
	if o.plot == "" {
		if o.changed("plot-theme") {
			m.add("plot-theme", "has no effect without --plot")
		}
		return nil
	}
	render := plot.SVG
	switch strings.ToLower(filepath.Ext(o.plot)) {
	case ".svg":
	case ".png":
		render = plot.PNG
	default:
		m.add("plot", "%s must end with .svg or .png", o.plot)
		return nil
	}
	if err := appendable(o.plot); err != nil {
		m.add("plot", "%s", strings.TrimPrefix(err.Error(), "--output-file: "))
		return nil
	}
	return func(run *probes.Run) error {
		file, err := os.Create(o.plot)
		if err != nil {
			return fmt.Errorf("make %s: %w", o.plot, bare(err))
		}
		if err := render(file, run, theme); err != nil {
			file.Close()
			return err
		}
		return file.Close()
	}
}

// buildSweep turns the flags into the spec of a sweep.
func (o *sweepFlags) buildSweep(m *mistakes) probes.Spec {
	o.requestRate = "1" // each step has its own; the shape of the gaps is what is looked at
	s := probes.Spec{
		Probe: "sweep", Kind: probes.Sweep, Requests: o.numPrompts, Duration: o.duration,
		Warmup: probes.Warmup{Requests: o.warmup}, FlushCache: o.flushCache, Workload: o.buildWorkload(m), Arrivals: o.buildArrivals(m),
		Sweep: probes.SweepPlan{Start: o.startRate, MaxRate: o.maxRate, MaxSteps: o.maxSteps}, SLOs: o.objectives(m),
	}
	s.Arrivals.Rate = 0
	s.Sweep.Rates = o.parseRates(m)
	for _, amount := range []struct {
		flag  string
		value any
		wrong bool
	}{
		{"num-prompts", o.numPrompts, o.numPrompts < 0}, {"duration", o.duration, o.duration < 0}, {"warmup-requests", o.warmup, o.warmup < 0},
		{"start-rate", o.startRate, !(o.startRate >= 0)}, {"max-rate", o.maxRate, !(o.maxRate >= 0)},
	} {
		if amount.wrong {
			m.add(amount.flag, "%v is negative", amount.value)
		}
	}
	if o.numPrompts > 0 && o.duration > 0 {
		m.add("duration", "contradicts --num-prompts; leave one of them out")
	}
	if o.maxSteps < 1 || o.maxSteps > probes.MaxSweepSteps {
		m.add("max-steps", "%d is not from 1 to %d", o.maxSteps, probes.MaxSweepSteps)
	}
	if o.maxRate > 0 && o.startRate > o.maxRate {
		m.add("start-rate", "%v is above --max-rate %v", o.startRate, o.maxRate)
	}
	return s
}

func (o *sweepFlags) parseRates(m *mistakes) []float64 {
	if o.rates == "" {
		return nil
	}
	for _, name := range []string{"start-rate", "max-rate", "max-steps"} {
		if o.changed(name) {
			m.add(name, "is part of a search and contradicts --rates")
		}
	}
	var rates []float64
	for text := range strings.SplitSeq(o.rates, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			m.add("rates", "%q is not a number; rates are written 1,2,4", text)
			return nil
		}
		rates = append(rates, rate)
	}
	switch {
	case !capacity.Valid(rates):
		m.add("rates", "must be above 0, finite, and rise from one to the next")
	case len(rates) > probes.MaxSweepSteps:
		m.add("rates", "holds %d rates, more than %d", len(rates), probes.MaxSweepSteps)
	}
	return rates
}

// objectives are those of the flags, else the default one.
func (o *sweepFlags) objectives(m *mistakes) []probes.SLO {
	var out []probes.SLO
	for _, f := range sloFlags {
		bound := *o.slos[f.flag]
		switch {
		case bound > 0:
			out = append(out, probes.SLO{Name: f.name, Objective: f.objective, Bounds: map[probes.Signal]time.Duration{f.signal: bound}})
		case o.changed(f.flag):
			m.add(f.flag, "%v must be above 0", bound)
		}
	}
	if len(out) == 0 {
		f := sloFlags[0]
		out = append(out, probes.SLO{Name: f.name, Objective: f.objective, Bounds: map[probes.Signal]time.Duration{f.signal: time.Second}})
	}
	for i := range out {
		if _, whole := out[i].Bounds[probes.E2E]; o.disableStream && !whole {
			m.add("disable-stream", "leaves no TTFT and no TPOT to hold against objective %s; use --slo-e2e-p99 or --slo-e2e-p95", out[i].Name)
		}
	}
	return out
}
