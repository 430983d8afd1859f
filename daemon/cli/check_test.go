package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/daemon"
)

const examples = "../../deploy/examples"

var exampleEnv = []string{"LLM_API_KEY=sk-SECRET"}

// What check says about the shipped examples, on the day before a change of the
// clock in Berlin.
func TestCheckOfTheExamples(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d examples, %v", len(files), err)
	}
	now := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	series := regexp.MustCompile(`about \d+`) // exporters/prom counts and tests them
	for _, file := range files {
		c, err := loadConfig([]string{file}, exampleEnv, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		var b strings.Builder
		printPlan(&b, daemon.NewPlan(c, now, 3))
		got := series.ReplaceAllString(b.String(), "about N")
		golden := filepath.Join("testdata", "check", strings.TrimSuffix(filepath.Base(file), ".yaml")+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(readFile(t, golden), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	file := examples + "/continuous.yaml"
	got := call(t.Context(), exampleEnv, "check", "--config", file, "--starts", "2")
	if got.code != exitPass || got.stderr != "" {
		t.Errorf("code %d, stderr %q", got.code, got.stderr)
	}
	contains(t, "the plan", got.stdout, "The configuration is valid. Targets: 3; pairs of target and probe: 4;", "\nllama-prod-1   production ", "\ncanary on llama-prod-1, every 30s\n")
	if n := strings.Count(got.stdout, " UTC\n"); n != 4*2 {
		t.Errorf("%d starts listed, want 2 of each of 4 pairs", n)
	}
	printed := call(t.Context(), exampleEnv, "check", "--config", file, "--print")
	if printed.code != exitPass || printed.stderr != "" {
		t.Errorf("--print: code %d, stderr %q", printed.code, printed.stderr)
	}
	contains(t, "the effective configuration", printed.stdout, "listen_address: 127.0.0.1:9799\n", "max_in_flight: 1\n", "<secret>")
	if strings.Contains(got.stdout+printed.stdout, "SECRET") {
		t.Errorf("a secret is shown:\n%s%s", got.stdout, printed.stdout)
	}
	missing := call(t.Context(), nil, "check", "--config", file)
	if missing.code != exitUsage || !strings.HasPrefix(missing.stderr, "inferbeat check: 3 problems\n"+file+":") {
		t.Errorf("without the variable: code %d, stderr %q", missing.code, missing.stderr)
	}
}

// What is discovered now is shown; what is wrong with it goes to the standard error.
func TestCheckDiscovers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "inferbeat.yaml")
	for name, text := range map[string]string{
		file: `workloads: {w: {input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 30s, workload: w}}
targets: [{name: fleet, backend: sglang, probes: [canary], file_sd_configs: [{files: [t.json]}]}]
`,
		filepath.Join(dir, "t.json"): `[{"targets": ["10.0.0.1:1", "10.0.0.2:1"]}, {"targets": ["10.0.0.3:1"], "labels": {"target": "no good"}}]`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := call(t.Context(), nil, "check", "--config", file, "--discover", "--starts", "0")
	if got.code != exitPass {
		t.Errorf("code %d", got.code)
	}
	contains(t, "the plan", got.stdout, "Targets: 2; pairs of target and probe: 2;", "\nfleet-10.0.0.1:1 ", "\ncanary on fleet-10.0.0.2:1, every 30s\n",
		"\neach of fleet ", "\nTargets of fleet are discovered (file); each adds about ", " series and is probed by:\n  canary, every 30s\n")
	if want := "rejected: no-good of fleet: its name must match ^[a-zA-Z0-9][a-zA-Z0-9_.:/-]*$ and have at most 200 letters: see the label target of relabel_configs\n"; got.stderr != want {
		t.Errorf("stderr %q, want %q", got.stderr, want)
	}
	without := call(t.Context(), nil, "check", "--config", file)
	contains(t, "the plan", without.stdout, "Targets: 0; pairs of target and probe: 0;", "\neach of fleet ")
	both := call(t.Context(), nil, "check", "--config", file, "--discover", "--print")
	if both.code != exitUsage || !strings.Contains(both.stderr, "--discover: has no effect beside --print") {
		t.Errorf("with --print: code %d, stderr %q", both.code, both.stderr)
	}
}

// A target that only discovery knows is run by its name, and is the side of a gate that
// its comparison waits for.
func TestRunOfADiscoveredTarget(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "inferbeat.yaml")
	url, engine := fakeServer(t, nil, nil)
	address := strings.TrimPrefix(url, "http://")
	for name, text := range map[string]string{
		file: `workloads: {w: {input_tokens: 32, output_tokens: 8}}
probes: {canary: {kind: canary, every: 30s, workload: w}}
targets:
  - {name: fleet, environment: development, backend: vllm, probes: [canary], file_sd_configs: [{files: [t.json]}]}
  - {name: other, environment: development, backend: vllm, url: "http://127.0.0.1:9", probes: [canary]}
comparisons: [{name: c, a: other, b: fleet, workload: w}]
`,
		filepath.Join(dir, "t.json"): `[{"targets": ["` + address + `"]}]`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := call(t.Context(), nil, "run", "--config", file, "--target", "fleet-"+address, "--probe", "canary")
	if got.code == exitUsage || engine.Stats().Received != 1 {
		t.Errorf("code %d, %d requests; stderr:\n%s", got.code, engine.Stats().Received, got.stderr)
	}
	gate := call(t.Context(), nil, "gate", "--config", file, "--comparison", "c")
	if gate.code == exitUsage || engine.Stats().Received == 1 {
		t.Errorf("gate: code %d, %d requests; stderr:\n%s", gate.code, engine.Stats().Received, gate.stderr)
	}
	unknown := call(t.Context(), nil, "run", "--config", file, "--target", "fleet-x", "--probe", "canary")
	if unknown.code != exitUsage || !strings.Contains(unknown.stderr, "fleet-"+address) {
		t.Errorf("an unknown name: code %d, stderr %s", unknown.code, unknown.stderr)
	}
}
