package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/compare"
)

// defaultGatePairs decide for a noise of 3 % and margins of 5 % in five of six gates.
const defaultGatePairs = 10

var gateCommand = command{
	name: "gate", usage: "gate [flags]", short: "decide whether a target is as good as a reference, for a release pipeline",
	about: `Runs a target (B) and a reference (A) in turns, as paired does, and judges whether B is worse.
After 5, 7 and the last pair it asks whether the pairs decide, and stops when they do. Each
metric is held against a margin by the exact interval of its shift. B passes when every
primary metric is surely not worse by its margin or more; one that is surely worse, and by
half of its margin at least, refuses it. What has to be equal on both sides (model,
quantization, GPU, attention backend, load ...) is compared first. Exit status: 0 pass,
1 fail, 3 unknown (inconclusive or invalid, with the reason), 2 usage or configuration.`,
	define: func(f *flagSet) action {
		o := &runFlags{changed: f.Changed, kind: probes.Paired, gate: &gateFlags{}}
		o.defineFlags(f)
		return func(ctx context.Context, p Process) (int, error) { return runGate(ctx, p, o, f.FlagSet) }
	},
}

// gateFlags say how the target is judged.
type gateFlags struct {
	margins       []string
	primary, vary []string
	comparison    string
	fromStore     bool
	results       resultFlags
	inconclusive  string
	json          bool
}

func (g *gateFlags) define(f *pflag.FlagSet) {
	f.StringVar(&g.comparison, "comparison", "", "`name` of a comparison of the configuration, which says all the rest")
	f.BoolVar(&g.fromStore, "from-store", false, "measure nothing: take the last stored answer of --comparison, or the last 10 common nights of --target and --against-target with --probe, which were not interleaved")
	g.results.store.defineFolder(f)
	g.results.defineSince(f)
	f.StringArrayVar(&g.margins, "margin", nil, "by how much a metric may be worse, as `METRIC=5%`; repeatable. success_ratio and prefix_cache_hit_ratio are in percentage points (default: 5% tpot_p50, throughput and capacity, 10% ttft_p50, e2e_p50 and e2e_p90, 20% p99, 0.5% success_ratio)")
	f.StringSliceVar(&g.primary, "primary", nil, "`metrics` that decide, with commas; the others are shown (default: ttft_p50, tpot_p50, e2e_p90, success_ratio, and output_throughput unless there is a rate)")
	f.StringSliceVar(&g.vary, "vary", nil, "controlled `variables` that are meant to differ, with commas: "+strings.Join(compare.Variables(), ", "))
	f.StringVar(&g.inconclusive, "inconclusive", "unknown", "`answer` when the last pair leaves it open: unknown, pass or fail")
	f.BoolVar(&g.json, "json", false, "print the answer as one JSON object, and the report on the standard error")
}

func runGate(ctx context.Context, p Process, o *runFlags, flags *pflag.FlagSet) (int, error) {
	if o.gate.fromStore {
		return o.gateFromStore(ctx, p, flags)
	}
	reference, candidate, spec, err := o.resolveGate(flags, p.Env)
	if err != nil {
		return exitUsage, err
	}
	stdout := p.Stdout
	if o.gate.json {
		p.Stdout = p.Stderr
	}
	run, err := o.report(ctx, p, "gate", spec, func(runner *daemon.Runner, progress *progress) *probes.Run {
		return runner.Compare(ctx, reference, candidate, spec, &progress.counts, progress.hooks())
	})
	if err != nil {
		return exitUsage, err
	}
	return o.gate.answer(stdout, run)
}

// answer prints the answer for machines when that is asked for.
func (g *gateFlags) answer(stdout io.Writer, run *probes.Run) (int, error) {
	code := gateExit(run, g.inconclusive)
	if g.json {
		line, err := jsonl.EncodeGate(run, code, buildVersion())
		if err != nil {
			return exitUsage, err
		}
		fmt.Fprintf(stdout, "%s\n", line)
	}
	return code, nil
}

// gateExit is the exit status of a comparison's answer; an open one may be told what
// it counts as.
func gateExit(run *probes.Run, inconclusive string) int {
	if run.Comparison.Answer == probes.GateInconclusive {
		switch inconclusive {
		case "pass":
			return exitPass
		case "fail":
			return exitFail
		}
	}
	return exitCode(run)
}

// resolveGate turns flags into two targets, what both are asked, and how the second
// is judged.
func (o *runFlags) resolveGate(flags *pflag.FlagSet, env []string) (reference, candidate probes.Target, spec probes.Spec, err error) {
	if o.gate.comparison != "" {
		return o.comparisonOfConfig(flags, env)
	}
	reference, candidate, spec, err = o.resolvePaired(flags, env)
	var m mistakes
	if err != nil {
		m = append(m, err)
	}
	spec.Gate, spec.Margins = o.gate.rules(&m)
	switch primaries := len(compare.Primary(&spec)); {
	case o.pairs < 1: // told already
	case o.pairs < compare.MinPairs:
		m.add("pairs", "%d is less than %d, the fewest that a judgement needs", o.pairs, compare.MinPairs)
	case !compare.CanRefuse(o.pairs, primaries):
		m.add("primary", "%d metrics decide, and %d pairs have error for 5; run more pairs", primaries, o.pairs)
	}
	o.gate.check(&m)
	return reference, candidate, spec, m.join()
}

func (g *gateFlags) check(m *mistakes) {
	if !slices.Contains([]string{"unknown", "pass", "fail"}, g.inconclusive) {
		m.add("inconclusive", "%q is none of unknown, pass and fail", g.inconclusive)
	}
}

// withComparison are the flags that do not change what a configured comparison is.
var withComparison = []string{"config", "comparison", "inconclusive", "json", "output-file", "output-details", "tag", "disable-tqdm"}

// comparisonOfConfig is a comparison as the daemon would carry it out.
func (o *runFlags) comparisonOfConfig(flags *pflag.FlagSet, env []string) (reference, candidate probes.Target, spec probes.Spec, err error) {
	var m mistakes
	o.gate.check(&m)
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(withComparison, f.Name) {
			m.add(f.Name, "cannot be combined with --comparison; change the configuration")
		}
	})
	if len(o.configFiles) == 0 {
		m.add("comparison", "chooses from a configuration; name that with --config")
		return reference, candidate, spec, m.join()
	}
	loaded, err := loadConfig(o.configFiles, env, nil)
	if err == nil && !slices.ContainsFunc(loaded.Comparisons(), func(c config.Comparison) bool { return c.Spec.Probe == o.gate.comparison }) {
		loaded, err = discovered(loaded)
	}
	if err != nil {
		return reference, candidate, spec, append(m, err).join()
	}
	var names []string
	for _, c := range loaded.Comparisons() {
		names = append(names, c.Spec.Probe)
		if c.Spec.Probe != o.gate.comparison {
			continue
		}
		spec = c.Spec
		spec.KeepText = o.outputDetails
		for _, side := range []struct{ from, to *probes.Target }{{&c.Reference, &reference}, {&c.Candidate, &candidate}} {
			if *side.to, err = config.ResolveSecrets(*side.from); err != nil {
				m = append(m, err)
			}
		}
		return reference, candidate, spec, m.join()
	}
	m.add("comparison", "the configuration has no comparison %q%s", o.gate.comparison, orSee(config.DidYouMean(o.gate.comparison, names), "it has: "+strings.Join(names, ", ")))
	return reference, candidate, spec, m.join()
}

// rules reads how to judge.
func (g *gateFlags) rules(m *mistakes) (*probes.Gate, map[probes.RegressionMetric]float64) {
	gate := &probes.Gate{Vary: g.vary}
	names := make([]string, len(probes.ComparisonMetrics))
	for i, name := range probes.ComparisonMetrics {
		names[i] = string(name)
	}
	for _, name := range g.primary {
		if !slices.Contains(names, name) {
			m.add("primary", "%q is no metric%s", name, orSee(config.DidYouMean(name, names), "choose from "+strings.Join(names, ", ")))
		}
		gate.Primary = append(gate.Primary, probes.RegressionMetric(name))
	}
	for _, name := range g.vary {
		if !slices.Contains(compare.Variables(), name) {
			m.add("vary", "%q is no controlled variable%s", name, orSee(config.DidYouMean(name, compare.Variables()), "'inferbeat gate --help' lists them"))
		}
	}
	var margins map[probes.RegressionMetric]float64
	for _, text := range g.margins {
		name, value, ok := strings.Cut(text, "=")
		if !ok || !slices.Contains(names, name) {
			m.add("margin", "%q does not begin with a metric and =%s", text, orSee(config.DidYouMean(name, names), "choose from "+strings.Join(names, ", ")))
			continue
		}
		digits, percent := strings.CutSuffix(value, "%")
		share, err := strconv.ParseFloat(digits, 64)
		if !percent || err != nil || !(share > 0 && share < 1000) {
			m.add("margin", "%s: %q is not a number above 0 and %%, as in 5%%", name, value)
			continue
		}
		if margins == nil {
			margins = map[probes.RegressionMetric]float64{}
		}
		margins[probes.RegressionMetric(name)] = share / 100
	}
	return gate, margins
}
