package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/fakellm"
)

func resolvePairedArgs(env []string, args ...string) (reference, candidate probes.Target, spec probes.Spec, err error) {
	flags := &flagSet{FlagSet: newFlags()}
	o := defineKindFlags(flags, probes.Paired)
	if err := flags.parse("paired", args); err != nil {
		return reference, candidate, spec, err
	}
	return o.resolvePaired(flags.FlagSet, env)
}

func TestPairedFlags(t *testing.T) {
	key := writeFile(t, "key", "of the reference\n")
	a, b, spec, err := resolvePairedArgs([]string{"OPENAI_API_KEY=everyone's"}, "--base-url", "http://b:1", "--backend", "vllm", "--model", "mb", "--header", "X-B=1",
		"--against-base-url", "http://a:1", "--against-backend", "vllm-chat", "--against-model", "ma", "--against-api-key-file", key, "--against-header", "X-A=2",
		"--metrics-url", ":2", "--against-metrics-url", ":3/m",
		"--pairs", "7", "--num-prompts", "9")
	if err != nil {
		t.Fatal(err)
	}
	type side struct{ Name, URL, Metrics, Backend, Model, Key, XA, XB string }
	of := func(t probes.Target) side {
		c := &t.Connection
		return side{t.Name, t.BaseURL, t.MetricsURL, t.Backend, t.Model, c.APIKey.Reveal(), c.Headers["X-A"].Reveal(), c.Headers["X-B"].Reveal()}
	}
	same(t, "reference", of(a), side{"reference", "http://a:1", "http://a:3/m", "vllm-chat", "ma", "of the reference", "2", ""})
	same(t, "candidate", of(b), side{"candidate", "http://b:1", "http://b:2/metrics", "vllm", "mb", "everyone's", "", "1"})
	if spec.Kind != probes.Paired || spec.Pairs != 7 || spec.Requests != 9 || spec.MostRequests() != 2*7*9 {
		t.Errorf("kind %s, %d pairs of %d requests, %d in all; want paired, 7, 9, 126", spec.Kind, spec.Pairs, spec.Requests, spec.MostRequests())
	}
}

func TestPairedMistakes(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--base-url http://b:1", "--against-base-url: needs the URL of the reference"},
		{"--base-url http://b:1 --against-base-url ftp://a", "--against-base-url: "},
		{"--base-url http://b:1 --against-base-url http://a:1 --pairs 0", "--pairs: 0 is less than one pair"},
		{"--base-url http://b:1 --against-base-url http://a:1 --against-backend vlm", "--against-backend: "},
		{"--base-url http://b:1 --against-base-url http://a:1 --against-target x", "--against-target: chooses from a configuration; name that with --config"},
		{"--base-url http://b:1 --against-base-url http://a:1 --output-file x --format vllm", "--format: vllm has no place for a comparison"},
		{"--base-url http://b:1 --against-base-url http://a:1 --repeats 2", "unknown flag --repeats"},
		{"--base-url http://b:1 --against-base-url http://a:1 --backend vllm --against-backend vllm-chat --tokenize-prompt --dataset-name random-ids", "backend vllm-chat takes no token ids"},
		{"--base-url http://b:1 --against-base-url http://b:1", "prefix cache"},
		{"--base-url http://b:1 --against-base-url http://a:1 --connection odd", "--connection: \"odd\" is neither reuse nor new"},
	} {
		_, _, _, err := resolvePairedArgs(nil, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want the one mistake %q", tt.args, err, tt.want)
		}
	}
}

func TestPairedOnServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var order atomic.Value
		order.Store("")
		mark := func(side string) func(http.Handler) http.Handler {
			return func(engine http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if old := order.Load().(string); strings.HasSuffix(r.URL.Path, "/completions") && !strings.HasSuffix(old, side) {
						order.Store(old + side)
					}
					engine.ServeHTTP(w, r)
				})
			}
		}
		a, _ := n.server(nil, mark("A"))
		b, engineB := n.server(nil, mark("B"))
		out := filepath.Join(t.TempDir(), "out.jsonl")
		args := []string{"paired", "--backend", "vllm", "--base-url", b, "--against-base-url", a, "--pairs", "2", "--num-prompts", "3", "--max-concurrency", "1",
			"--random-input-len", "32", "--random-output-len", "4", "--random-range-ratio", "1", "--output-file", out}
		r := n.call(args...)
		if r.code != exitUnknown || r.stderr != "" {
			t.Fatalf("exit %d, stderr %q; want 3 for what is not judged, and nothing", r.code, r.stderr)
		}
		contains(t, "report", r.stdout, "Side A (reference):", "Pairs that can be believed:              2 of 2", "Median TTFT (ms)", "pair 2 B", "not_judged")
		if got := order.Load(); got != "ABA" {
			t.Errorf("order %v, want A B, B A", got)
		}
		ours := numbers(t, out)[0]["inferbeat"].(map[string]any)
		c := ours["comparison"].(map[string]any)
		if c["pairs"] != 2.0 || c["used"] != 2.0 || c["judged"] != false || c["reference"].(map[string]any)["base_url"] != a || ours["target"].(map[string]any)["base_url"] != b {
			t.Errorf("comparison = %v of %v, want two pairs of %s against %s", c, ours["target"], b, a)
		}
		tokens := c["metrics"].(map[string]any)["output_tokens"].(map[string]any)
		for key, want := range map[string]any{"n": 2.0, "reference_median": 12.0, "candidate_median": 12.0, "median_difference": 0.0, "ratio": 1.0} {
			if tokens[key] != want {
				t.Errorf("output tokens: %s = %v, want %v", key, tokens[key], want)
			}
		}
		var roles []string
		for _, p := range ours["parts"].([]any) {
			roles = append(roles, p.(map[string]any)["role"].(string))
		}
		same(t, "roles", roles, []string{"pair 1 A", "pair 1 B", "pair 2 B", "pair 2 A"})

		if err := engineB.SetFaults(fakellm.Fault{Kind: fakellm.Unavailable}); err != nil {
			t.Fatal(err)
		}
		r = n.call(args...)
		contains(t, "failures", r.stderr, "3 of 3 requests to "+b+" failed")
		if strings.Contains(r.stderr, a) || strings.Count(r.stderr, "failed") != 1 || r.code != exitUnknown {
			t.Errorf("exit %d, stderr %q; want 3, and side B named once", r.code, r.stderr)
		}
	})
}

func TestPairedFromConfig(t *testing.T) {
	url, _ := fakeServer(t, nil, nil)
	file := configuration(t, url, "{}")
	for _, tt := range []struct{ args, want string }{
		{"--target b", "--against-target: needs the name of the reference"},
		{"--target b --against-target b", "--against-target: b is the target itself"},
		{"--target b --against-target c", "--against-target: the configuration has no target c with the probe p"},
		{"--target a --probe q --against-target b", "--against-target: the configuration has no target b with the probe q"},
		{"--target b --against-target a", "prefix cache"}, // both are one server
		{"--target b --against-target a --seed 2", "--seed: cannot be combined with --config; change the configuration"},
	} {
		_, _, _, err := resolvePairedArgs(nil, append([]string{"--config", file}, strings.Fields(tt.args)...)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// Two targets of one configuration with the same probe, each with what is its own.
func TestPairedTargetsOfConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		a, _ := n.server(nil, nil)
		b, _ := n.server(nil, nil)
		text := strings.Replace(readFile(t, configuration(t, a, "{}")), "{name: b, environment: staging, backend: vllm, url: \""+a, "{name: b, environment: staging, backend: vllm-chat, url: \""+b, 1)
		file := writeFile(t, "two.yaml", text)
		reference, candidate, spec, err := resolvePairedArgs(nil, "--config", file, "--target", "b", "--against-target", "a", "--pairs", "2")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "sides", []string{reference.Name, reference.BaseURL, reference.Backend, candidate.Name, candidate.BaseURL, candidate.Backend},
			[]string{"a", a, "vllm", "b", b, "vllm-chat"})
		if spec.Probe != "p" || spec.Requests != 20 || spec.Pairs != 2 || spec.Kind != probes.Paired {
			t.Errorf("probe %s of kind %s, %d pairs of %d requests; want p, paired, 2, 20", spec.Probe, spec.Kind, spec.Pairs, spec.Requests)
		}
		r := n.call("paired", "--config", file, "--target", "b", "--against-target", "a", "--pairs", "1")
		contains(t, "report", r.stdout, "a (staging)", "b (staging)", "unequal_work: input tokens of a run: 640 on side A and 720 on side B")
	})
}
