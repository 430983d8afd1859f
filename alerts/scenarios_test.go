package alerts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inferbeat/inferbeat/alerts/scenario"
)

func load(t *testing.T) ([]scenario.Group, map[string][]scenario.Scenario) {
	t.Helper()
	text, err := os.ReadFile("rules/inferbeat.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.test.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenarios %v, %v", files, err)
	}
	scenarios := map[string][]scenario.Scenario{}
	for _, file := range files {
		if scenarios[file], err = scenario.Load(file); err != nil {
			t.Fatal(err)
		}
	}
	return groups, scenarios
}

func TestScenarios(t *testing.T) {
	groups, files := load(t)
	for file, scenarios := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			for _, s := range scenarios {
				play, err := s.Play(groups)
				if err != nil {
					t.Errorf("%s: %v", s.Name, err)
					continue
				}
				for _, failure := range play.Failures {
					t.Error(failure)
				}
			}
		})
	}
}

// An alert without a scenario in which it fires and one in which it does not is a
// guess.
func TestEveryAlertHasScenarios(t *testing.T) {
	_, files := load(t)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, scenarios := range files {
		for _, s := range scenarios {
			for _, e := range s.Exprs {
				asked := scenario.Scenario{Exprs: []scenario.Expectation{e}}
				for _, name := range asked.Asks() {
					for _, sample := range e.Samples {
						if sample.Value > 0 {
							fires[name] = true
						} else {
							quiet[name] = true
						}
					}
				}
			}
			for _, a := range s.Alerts {
				if len(a.Instances) > 0 {
					fires[a.Alert] = true
				} else {
					quiet[a.Alert] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(slices.Values(Alerts())) {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: scenario in which it fires: %v, in which it does not: %v; want both", name, fires[name], quiet[name])
		}
	}
}

// promtool evaluates groups that it is given no order for in any order, so that a rule
// would sometimes read what another group records a step late.
func TestScenariosOrderTheGroups(t *testing.T) {
	groups, files := load(t)
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	want := "\ngroup_eval_order: [" + strings.Join(names, ", ") + "]\n"
	for file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks the line %q", file, strings.TrimSpace(want))
		}
	}
}
