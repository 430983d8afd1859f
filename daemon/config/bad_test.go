package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/probes"
)

var update = flag.Bool("update", false, "write what the bad files are answered with behind them")

// stages are checks that know a little, as the real stages know a lot.
var stages = Checks{
	Backend: func(name string) error {
		if name != "vllm" && name != "sglang" && name != "vllm-chat" && name != "openai-chat" {
			return fmt.Errorf("there is no backend %q", name)
		}
		return nil
	},
	AcceptsTokenIDs: func(backend string) bool { return backend == "vllm" },
	AcceptsImages:   func(backend string) bool { return backend != "vllm" },
	Adapters: func(backend string, w probes.Workload) error {
		if names := w.AdapterNames(); backend == "sglang" && len(names) > 1 {
			return fmt.Errorf("has no adapter %s", names[1])
		}
		return nil
	},
	HasTimes: func(dataset string) bool { return dataset == "trace" || dataset == "mooncake" },
	Schedule: func(s probes.Schedule) error {
		if strings.Contains(s.Cron, "99") || s.Every.Seconds() == 666 {
			return errors.New("never fires")
		}
		return nil
	},
	Workload: func(w probes.Workload) error {
		if w.InputTokens == 666 {
			return errors.New("cannot be made")
		}
		if w.InputTokens == 777 {
			return errors.Join(errors.New("output_tokens: cannot be so few"), errors.New("cannot be made either"))
		}
		return nil
	},
	FlushCache: func(backend string) error {
		if backend == "openai-chat" {
			return errors.New("there is no flush")
		}
		return nil
	},
	Profile: func(backend string, p *probes.Profile) error {
		if p.Steps == 666 {
			return errors.New("takes no options")
		}
		return nil
	},
	Variables: []string{"model", "quantization"},
	Comparable: func(reference, candidate probes.Target, spec probes.Spec) error {
		if reference.BaseURL == candidate.BaseURL {
			return fmt.Errorf("compare %s with %s: one server", candidate.Name, reference.Name)
		}
		return nil
	},
	Arrivals: func(a probes.Arrivals) error {
		if a.Rate == 666 {
			return errors.New("cannot be paced")
		}
		if a.Rate == 777 {
			return errors.New("rate: cannot be kept")
		}
		return nil
	},
}

// Every file in testdata/bad breaks one rule; its last lines say with which
// words it must be refused.
func TestBadFiles(t *testing.T) {
	t.Chdir("testdata/bad")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 80 {
		t.Fatalf("found %d bad files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			body, comment, _ := strings.Cut(string(text), "# want: ")
			want := strings.Split(strings.TrimSuffix(comment, "\n"), "\n# want: ")
			_, err = Load(Source{Files: []string{file}, Env: []string{"EMPTY=", "KEY=HIDDEN"}}, stages)
			if err == nil {
				t.Fatal("got no error")
			}
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got error of type %T, want Problems", err)
			}
			got := strings.Split(err.Error(), "\n")
			if strings.Contains(err.Error(), "HIDDEN") {
				t.Errorf("a secret is shown:\n%s", err)
			}
			if *update {
				for _, line := range got {
					body += "# want: " + line + "\n"
				}
				if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
