package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/fakellm"
	"github.com/inferbeat/inferbeat/probes/loadgen"
)

// numbered are the dialects whose engines count their adapters.
var numbered = map[string]bool{"trt": true, "llamacpp": true}

func adapterNames(dialect string) []string {
	if numbered[dialect] {
		return []string{"0", "1", "2"}
	}
	return []string{"sql", "chat", "code"}
}

// adaptedSpec sends three warm-up requests and eight measured ones, one after the other.
func adaptedSpec(dialect string, choice probes.AdapterChoice) probes.Spec {
	spec := loadSpec()
	spec.Requests, spec.Warmup.Requests, spec.Workload.Seed, spec.Workload.Tokenizer = 8, 3, 7, "approx"
	spec.Workload.Adapters = probes.Adapters{Names: adapterNames(dialect), Choice: choice}
	return spec
}

// answered are the places of the adapters that the engine answered with, in the
// order in which the requests came; "-" is none.
func answered(engine *fakellm.Engine, dialect string) string {
	places := map[string]string{"": "-"}
	for i, name := range adapterNames(dialect) {
		places[name] = string(rune('a' + i))
	}
	var out strings.Builder
	for _, r := range engine.Stats().Requests {
		out.WriteString(places[r.Adapter])
	}
	return out.String()
}

// In every dialect each request reaches the adapter that the workload chose for it:
// the warm-up all of them in turn, the measurement by the frozen sequence, and a
// second run the same again.
func TestEveryDialectAsksForItsAdapters(t *testing.T) {
	for _, name := range backend.Names() {
		for choice, want := range map[probes.AdapterChoice]string{
			probes.AdaptersDistinct: "abc" + "abcabcab",
			probes.AdaptersUniform:  "abc" + "acbbbbac", // probes/workload has the same sequence
		} {
			synctest.Test(t, func(t *testing.T) {
				engine, runner := scripted(t, func(c *fakellm.Config) {
					c.Engine, c.Adapters = twins[name].engine, adapterNames(name)
				})
				defer runner.Close()
				spec := adaptedSpec(name, choice)
				for range 2 {
					run := runner.Run(context.Background(), fakeTarget(name), spec, &loadgen.Progress{}, Hooks{})
					if run.Result != probes.RunSuccess || run.Summary.Completed != 8 || run.Target.Model != twins[name].model {
						t.Fatalf("%s: result %s, error %q, %d completed, model %q", name, run.Result, run.Error, run.Summary.Completed, run.Target.Model)
					}
				}
				if got := answered(engine, name); got != want+want {
					t.Errorf("%s, %s: adapters %s, want %s twice", name, choice, got, want)
				}
			})
		}
	}
}

// One adapter is everybody's, the warm-up's too.
func TestOneAdapterIsEverybodys(t *testing.T) {
	for _, name := range backend.Names() {
		synctest.Test(t, func(t *testing.T) {
			engine, runner := scripted(t, func(c *fakellm.Config) {
				c.Engine, c.Adapters = twins[name].engine, adapterNames(name)
			})
			defer runner.Close()
			spec := adaptedSpec(name, probes.AdaptersUniform)
			spec.Workload.Adapters = probes.Adapters{}
			spec.Workload.SetAdapters(probes.Adapters{Names: adapterNames(name)[1:2], Choice: probes.AdaptersUniform})
			runner.Run(context.Background(), fakeTarget(name), spec, &loadgen.Progress{}, Hooks{})
			if got := answered(engine, name); got != "bbbbbbbbbbb" {
				t.Errorf("%s: adapters %s, want the second one for all", name, got)
			}
		})
	}
}

// An adapter that the server does not have is an error of each request, and no
// answer of the model itself.
func TestUnknownAdapterIsAnError(t *testing.T) {
	for _, name := range []string{"sglang", "vllm", "tgi", "trt", "llamacpp", "lmdeploy", "dynamo"} {
		synctest.Test(t, func(t *testing.T) {
			engine, runner := scripted(t, func(c *fakellm.Config) { c.Engine = twins[name].engine })
			defer runner.Close()
			run := runner.Run(context.Background(), fakeTarget(name), adaptedSpec(name, probes.AdaptersDistinct), &loadgen.Progress{}, Hooks{})
			if s := engine.Stats(); run.Summary.Completed != 0 || s.Refused != 11 || len(run.Records) != 8 {
				t.Errorf("%s: %d completed, %d refused, %d records; want none, 11 and 8", name, run.Summary.Completed, s.Refused, len(run.Records))
			}
		})
	}
}

// The repeats of a load and both sides of a comparison ask for the same adapters.
func TestRepeatsAndSidesHaveTheSameAdapters(t *testing.T) {
	const warm, measured = "abc", "acbbbbac"
	synctest.Test(t, func(t *testing.T) {
		engine, runner := scripted(t, func(c *fakellm.Config) { c.Adapters = adapterNames("vllm") })
		defer runner.Close()
		spec := adaptedSpec("vllm", probes.AdaptersUniform)
		spec.Repeats = 2
		runner.Run(context.Background(), fakeTarget("vllm"), spec, &loadgen.Progress{}, Hooks{})
		if got := answered(engine, "vllm"); got != warm+measured+warm+measured {
			t.Errorf("repeats: adapters %s, want %s twice", got, warm+measured)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, func(_ int, c *fakellm.Config) { c.Adapters = adapterNames("vllm") })
		defer r.runner.Close()
		spec := adaptedSpec("vllm", probes.AdaptersUniform)
		spec.Pairs = 1
		run := r.runner.Compare(context.Background(), rival(0, "vllm"), rival(1, "vllm-chat"), spec, &loadgen.Progress{}, Hooks{})
		if run.Error != "" {
			t.Fatal(run.Error)
		}
		for side, engine := range r.engines {
			if got := answered(engine, "vllm"); got != warm+measured {
				t.Errorf("side %d: adapters %s, want %s", side, got, warm+measured)
			}
		}
	})
}
