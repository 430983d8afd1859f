package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inferbeat/inferbeat/exporters/store"
	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

func resolveGateArgs(args ...string) (probes.Spec, error) {
	flags := &flagSet{FlagSet: newFlags()}
	o := &runFlags{changed: flags.Changed, kind: probes.Paired, gate: &gateFlags{}}
	o.defineFlags(flags)
	if err := flags.parse("gate", args); err != nil {
		return probes.Spec{}, err
	}
	_, _, spec, err := o.resolveGate(flags.FlagSet, nil)
	return spec, err
}

const twoSides = "--base-url http://b:1 --against-base-url http://a:1 "

func TestGateFlags(t *testing.T) {
	spec, err := resolveGateArgs(strings.Fields(twoSides + "--margin ttft_p50=12.5% --margin success_ratio=1% --primary ttft_p50,tpot_p99 --vary model,quantization")...)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pairs", spec.Pairs, 10)
	same(t, "margins", spec.Margins, map[probes.RegressionMetric]float64{probes.MetricTTFTp50: 0.125, probes.MetricSuccessRatio: 0.01})
	same(t, "gate", spec.Gate, &probes.Gate{
		Primary: []probes.RegressionMetric{probes.MetricTTFTp50, probes.MetricTPOTp99}, Vary: []string{"model", "quantization"},
	})
	spec, err = resolveGateArgs(strings.Fields(twoSides)...)
	if err != nil || spec.Gate == nil || spec.Margins != nil || spec.Gate.Primary != nil {
		t.Errorf("without rules: %+v, %+v, %v; want a gate with the defaults", spec.Gate, spec.Margins, err)
	}
}

func TestGateMistakes(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--pairs 4", "--pairs: 4 is less than 5, the fewest that a judgement needs"},
		{"--pairs 0", "--pairs: 0 is less than one pair"},
		{"--pairs 5 --primary ttft_p50,ttft_p99,tpot_p50,tpot_p99,e2e_p50,e2e_p90", "--primary: 6 metrics decide, and 5 pairs have error for 5; run more pairs"},
		{"--primary tfft_p50", `--primary: "tfft_p50" is no metric, did you mean "ttft_p50"?`},
		{"--vary gpus", `--vary: "gpus" is no controlled variable; 'inferbeat gate --help' lists them`},
		{"--margin ttft_p50", "--margin: "},
		{"--margin ttft_p50=5", `--margin: ttft_p50: "5" is not a number above 0 and %, as in 5%`},
		{"--margin ttft_p50=0%", `--margin: ttft_p50: "0%" is not`},
		{"--margin overall=5%", `--margin: "overall=5%" does not begin with a metric and =`},
		{"--inconclusive maybe", `--inconclusive: "maybe" is none of unknown, pass and fail`},
	} {
		_, err := resolveGateArgs(strings.Fields(twoSides + tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want the one mistake %q", tt.args, err, tt.want)
		}
	}
}

func TestGateExit(t *testing.T) {
	for _, tt := range []struct {
		answer       probes.GateAnswer
		verdict      probes.VerdictState
		inconclusive string
		want         int
	}{
		{probes.GatePass, probes.Pass, "unknown", exitPass},
		{probes.GatePass, probes.Warn, "fail", exitPass},
		{probes.GateRegressed, probes.Fail, "pass", exitFail},
		{probes.GateInconclusive, probes.Unknown, "unknown", exitUnknown},
		{probes.GateInconclusive, probes.Unknown, "pass", exitPass},
		{probes.GateInconclusive, probes.Unknown, "fail", exitFail},
		{probes.GateInvalid, probes.Unknown, "pass", exitUnknown},
		{"", probes.Unknown, "pass", exitUnknown},
	} {
		run := &probes.Run{Result: probes.RunSuccess, Comparison: &probes.Comparison{Answer: tt.answer}, Verdict: probes.Verdict{State: tt.verdict}}
		if got := gateExit(run, tt.inconclusive); got != tt.want {
			t.Errorf("%s, --inconclusive=%s: exit %d, want %d", tt.answer, tt.inconclusive, got, tt.want)
		}
	}
}

const gateConfig = `
workloads: {w: {dataset: random, input_tokens: 32, output_tokens: 6, range_ratio: 1, tokenizer: server, cache: cold}}
targets:
  - {name: prod, environment: staging, backend: vllm, url: "A", probes: []}
  - {name: next, environment: staging, backend: vllm, url: "B", probes: []}
comparisons:
  - {name: release, a: prod, b: next, workload: w, num_prompts: 2, max_concurrency: 1, pairs: 5, primary: [success_ratio], margins: {success_ratio: 1%}}
`

func TestGateOfAConfiguredComparison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		a, _ := n.server(nil, nil)
		b, _ := n.server(nil, nil)
		file := writeFile(t, "c.yaml", strings.NewReplacer(`"A"`, a, `"B"`, b).Replace(gateConfig))
		r := n.call("gate", "--config", file, "--comparison", "release")
		contains(t, "report", r.stdout, "prod (staging)", "next (staging)", "Answer of the gate:                      pass", "success_ratio *")
		if r.code != exitPass || r.stderr != "" {
			t.Errorf("exit %d, stderr %q; want 0 and nothing", r.code, r.stderr)
		}
		for _, tt := range []struct{ args, want string }{
			{"--comparison release", "--comparison: chooses from a configuration; name that with --config"},
			{"--comparison releas --config " + file, `--comparison: the configuration has no comparison "releas", did you mean "release"?`},
			{"--comparison release --pairs 7 --config " + file, "--pairs: cannot be combined with --comparison; change the configuration"},
			{"--comparison release --inconclusive x --config " + file, "--inconclusive: "},
		} {
			if _, err := resolveGateArgs(strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
			}
		}
	})
}

// The sides are a factor of forty apart, which no noise of the host hides.
func TestGateOnServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		a, _ := n.server(nil, nil)
		slow, _ := n.server(func(c *fakellm.Config) { c.Script.ITL = 40 * time.Millisecond }, nil)
		other, _ := n.server(func(c *fakellm.Config) { c.Model = "n" }, nil)
		gate := func(b string, more ...string) result {
			return n.call(append([]string{"gate", "--backend", "vllm", "--base-url", b, "--against-base-url", a, "--num-prompts", "2", "--max-concurrency", "2",
				"--random-input-len", "32", "--random-output-len", "6", "--random-range-ratio", "1", "--primary", "tpot_p50,success_ratio"}, more...)...)
		}
		r := gate(slow, "--json")
		var answer struct {
			Answer string
			Pairs  int
			Exit   int `json:"exit_status"`
		}
		if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil {
			t.Fatalf("%v: %s", err, r.stdout)
		}
		if r.code != exitFail || answer.Answer != "regressed" || answer.Exit != exitFail || answer.Pairs < 5 {
			t.Errorf("exit %d with %+v, want 1 and regressed after 5 pairs or more", r.code, answer)
		}
		contains(t, "the report beside the JSON", r.stderr, "Answer of the gate:", "regressed", "tpot_p50 *")

		r = gate(other)
		contains(t, "report", r.stdout, "invalid", "model differs: m on side A and n on side B")
		if r.code != exitUnknown || strings.Contains(r.stdout, "pair 2") {
			t.Errorf("exit %d, want 3 after one pair:\n%s", r.code, r.stdout)
		}

		r = gate(other, "--vary", "model", "--margin", "tpot_p50=900%")
		contains(t, "report", r.stdout, "Answer of the gate:", "model: m on side A, n on side B (declared to vary)")
		if r.code != exitPass {
			t.Errorf("exit %d, want 0 for another model on purpose:\n%s", r.code, r.stdout)
		}
	})
}

func TestGateFromStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), store.Options{Path: folder})
	if err != nil {
		t.Fatal(err)
	}
	judged := sampleRun("judged", "next", time.Now().Add(-time.Hour), 100)
	judged.Spec.Probe, judged.Spec.Kind = "release", probes.Paired
	judged.Comparison = &probes.Comparison{Reference: probes.Target{Name: "prod"}, Pairs: 5, Used: 5, Answer: probes.GateRegressed}
	judged.Verdict = probes.Verdict{State: probes.Fail}
	runs := []*probes.Run{judged}
	for _, more := range [][]*probes.Run{
		sampleRuns("prod", 100, 101, 102, 103, 104, 105, 106), sampleRuns("next", 100, 102, 101, 104, 103, 105, 106), sampleRuns("slow", 130, 131, 132, 133, 134, 135, 136), sampleRuns("new", 100, 101),
	} {
		runs = append(runs, more...)
	}
	for _, run := range runs {
		if err := s.Add(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	nights := func(b string) []string {
		return []string{"--target", b, "--against-target", "prod", "--probe", "nightly", "--primary", "ttft_p50"}
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"the last stored answer", []string{"--comparison", "release"}, exitFail, "Answer of the gate: regressed"},
		{"two series that are alike", nights("next"), exitPass, "history, not interleaved"},
		{"a slower series", nights("slow"), exitFail, "ttft_p50 is 29.13 % worse"},
		{"too few common nights", nights("new"), exitUnknown, "2 pairs can be believed, and a judgement needs 5"},
		{"a margin that allows it", append(nights("slow"), "--margin", "ttft_p50=90%"), exitPass, "Answer of the gate: pass"},
		{"no such comparison", []string{"--comparison", "nothing"}, exitUsage, `no run of a comparison "nothing" since`},
		{"no such series", nights("old"), exitUsage, "has no run of target old with probe nightly since"},
		{"nothing is named", nil, exitUsage, "--probe: is needed with --from-store, unless there is a --comparison"},
		{"both are named", append(nights("next"), "--comparison", "release"), exitUsage, "--target: cannot be combined with --comparison"},
		{"a load is asked for", append(nights("next"), "--num-prompts", "3"), exitUsage, "--num-prompts: has no effect with --from-store, which measures nothing"},
	} {
		r := call(t.Context(), nil, append([]string{"gate", "--from-store", "--storage-path", folder}, tt.args...)...)
		if text := unwrapped(r.stdout + r.stderr); r.code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s", tt.name, r.code, tt.code, tt.want, r.stdout+r.stderr)
		}
	}
}
