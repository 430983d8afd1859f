package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/daemon"
	"github.com/inferbeat/inferbeat/daemon/config"
	"github.com/inferbeat/inferbeat/exporters/jsonl"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
)

// defaultPairs are the fewest runs of each side that carry a claim.
const defaultPairs = 5

var pairedCommand = command{
	name: "paired", usage: "paired [flags]", short: "run two targets in turns on the same prompts and lay them side by side",
	about: `Compares a target (B) with a reference (A): each pair of runs has the same prompts at the
same times, another pair has others, and the order is A B, B A, A B ... so that a drift of
the surroundings meets both alike. The reference counts the tokens for both. It reports for
each number the median of A, of B, and of the differences, and judges none of them: exit
status 3 when they were measured too, 2 for sides that cannot be compared.`,
	define: func(f *flagSet) action {
		options := defineKindFlags(f, probes.Paired)
		return func(ctx context.Context, p Process) (int, error) { return runPaired(ctx, p, options, f.FlagSet) }
	},
}

// against are the flags of the reference; what they leave out is as for the target.
type against struct {
	target, baseURL, metricsURL, backend, model, apiKeyFile string

	headers []string
}

func (a *against) define(f *pflag.FlagSet) {
	f.StringVar(&a.baseURL, "against-base-url", "", "server `URL` of the reference")
	f.StringVar(&a.metricsURL, "against-metrics-url", "", "`URL` of its metrics page, as --metrics-url")
	f.StringVar(&a.backend, "against-backend", "", "`name` of its wire dialect (default: --backend)")
	f.StringVar(&a.model, "against-model", "", "`name` of its model (default: the first of its /v1/models)")
	f.StringVar(&a.apiKeyFile, "against-api-key-file", "", "`file` with its bearer key (default: environment OPENAI_API_KEY); the target's key is not sent to it")
	f.StringArrayVar(&a.headers, "against-header", nil, "extra request header `K=V` of the reference; repeatable. The target's are not sent to it")
}

func runPaired(ctx context.Context, p Process, o *runFlags, flags *pflag.FlagSet) (int, error) {
	reference, candidate, spec, err := o.resolvePaired(flags, p.Env)
	if err != nil {
		return exitUsage, err
	}
	result, err := o.report(ctx, p, "paired", spec, func(runner *daemon.Runner, progress *progress) *probes.Run {
		return runner.Compare(ctx, reference, candidate, spec, &progress.counts, progress.hooks())
	})
	if err != nil {
		return exitUsage, err
	}
	return exitCode(result), nil
}

// resolvePaired turns flags into two targets and what both are asked.
func (o *runFlags) resolvePaired(flags *pflag.FlagSet, env []string) (reference, candidate probes.Target, spec probes.Spec, err error) {
	var m mistakes
	candidate, spec, err = o.resolve(flags, env)
	if err != nil {
		m = append(m, err)
	}
	if o.pairs < 1 {
		m.add("pairs", "%d is less than one pair", o.pairs)
	}
	if o.format == jsonl.FormatVLLM {
		m.add("format", "%s has no place for a comparison", o.format)
	}
	if len(o.configFiles) > 0 {
		if err == nil { // both sides come from one file, whose mistakes are told once
			reference = o.referenceOfConfig(&m, flags, env, spec)
		}
	} else {
		if o.against.target != "" {
			m.add("against-target", "chooses from a configuration; name that with --config")
		}
		reference = o.buildReference(&m, env)
		candidate.Name, reference.Name = "candidate", "reference"
	}
	if len(m) == 0 && reference.Name == candidate.Name {
		m.add("against-target", "%s is the target itself", reference.Name)
	}
	spec.Kind, spec.Pairs, spec.Repeats = probes.Paired, o.pairs, 1
	if len(m) == 0 {
		if err := daemon.Comparable(reference, candidate, spec); err != nil {
			m = append(m, err)
		}
	}
	return reference, candidate, spec, m.join()
}

// buildReference is the target of the flags that begin with against.
func (o *runFlags) buildReference(m *mistakes, env []string) probes.Target {
	a, side := &o.against, *o
	side.changed = func(flag string) bool { return o.changed("against-" + flag) }
	side.baseURL, side.model, side.apiKeyFile, side.headers = a.baseURL, a.model, a.apiKeyFile, a.headers
	side.metricsURL, side.metricsKey = a.metricsURL, o.metricsKey && a.metricsURL != ""
	if a.backend != "" {
		side.backend = a.backend
	}
	if a.baseURL == "" {
		m.add("against-base-url", "needs the URL of the reference")
		return probes.Target{}
	}
	// What is wrong with the flags that both sides have in common is told already.
	if a.backend == "" && backend.Check(o.backend) != nil || o.connection != "reuse" && o.connection != "new" ||
		min(o.timeouts.Connect, o.timeouts.FirstToken, o.timeouts.Idle, o.timeouts.Total) < 0 {
		return probes.Target{}
	}
	var own mistakes
	t := side.buildTarget(&own, env)
	for _, mistake := range own {
		if text, flag := strings.CutPrefix(mistake.Error(), "--"); flag {
			mistake = errors.New("--against-" + text)
		} else if len(*m) > 0 {
			continue // the environment's, which both sides share
		}
		*m = append(*m, mistake)
	}
	return t
}

// referenceOfConfig is another target of the configuration with the same probe, so
// that the limits of its own environment have let the load pass.
func (o *runFlags) referenceOfConfig(m *mistakes, flags *pflag.FlagSet, env []string, spec probes.Spec) probes.Target {
	if o.against.target == "" {
		m.add("against-target", "needs the name of the reference")
		return probes.Target{}
	}
	loaded, err := loadConfig(o.configFiles, env, nil)
	if err == nil {
		loaded, err = named(loaded, o.against.target)
	}
	if err != nil {
		*m = append(*m, err)
		return probes.Target{}
	}
	for _, pair := range loaded.Pairs() {
		if pair.Target.Name != o.against.target || pair.Spec.Probe != spec.Probe {
			continue
		}
		target, err := config.ResolveSecrets(pair.Target)
		if err != nil {
			*m = append(*m, err)
		}
		return target
	}
	m.add("against-target", "the configuration has no target %s with the probe %s", o.against.target, spec.Probe)
	return probes.Target{}
}

// sideTroubles says why requests failed, once for each side.
func sideTroubles(command string, run *probes.Run) string {
	var b strings.Builder
	told := map[string]bool{}
	for _, part := range run.Parts {
		side := part.Run.Target.Name
		if _, failed := failures(part.Run.Records); failed == 0 || told[side] {
			continue
		}
		told[side] = true
		b.WriteString(failureText(command, part.Run))
	}
	return b.String()
}
