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
