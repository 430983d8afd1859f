// Command mutate breaks the alert rules in every small way and plays the scenarios: a
// break that no scenario notices is a scenario that is missing.
//
//	go run ./alerts/mutate            all alerts, from the repository's root
//	go run ./alerts/mutate -rule InferbeatPoolDown
//	go run ./alerts/mutate -list      what would be broken, without playing
//
// It prints the survivors and exits with 1 if there is one that testdata/survivors.txt
// does not excuse.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inferbeat/inferbeat/alerts/scenario"
)

func main() {
	folder := flag.String("alerts", "alerts", "folder of package alerts")
	only := flag.String("rule", "", "break this rule only")
	list := flag.Bool("list", false, "list the breaks without playing")
	flag.Parse()
	code, err := run(*folder, *only, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		code = 2
	}
	os.Exit(code)
}

func run(folder, only string, list bool) (int, error) {
	groups, scenarios, excused, err := load(folder)
	if err != nil {
		return 2, err
	}
	killed, survivors, unused := 0, 0, excused.copy()
	for _, m := range mutants(groups) {
		if only != "" && m.rule != only {
			continue
		}
		if list {
			fmt.Println(m)
			continue
		}
		dead, err := kills(scenarios, groups, m)
		if err != nil {
			return 2, fmt.Errorf("%s: %w", m, err)
		}
		switch {
		case dead:
			killed++
		case excused[m.String()]:
			delete(unused, m.String())
		default:
			survivors++
			fmt.Println("survived:", m)
		}
	}
	if list {
		return 0, nil
	}
	for text := range unused {
		if only == "" || strings.HasPrefix(text, only+": ") {
			fmt.Println("excused, but killed or gone:", text)
			survivors++
		}
	}
	fmt.Printf("%d breaks were noticed, %d are excused, %d were not noticed\n", killed, len(excused)-len(unused), survivors)
	if survivors > 0 {
		return 1, nil
	}
	return 0, nil
}

// excuses are breaks that change nothing that can be seen.
type excuses map[string]bool

func (e excuses) copy() excuses {
	out := excuses{}
	for k := range e {
		out[k] = true
	}
	return out
}

func load(folder string) ([]scenario.Group, []scenario.Scenario, excuses, error) {
	text, err := os.ReadFile(filepath.Join(folder, "rules", "inferbeat.yml"))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read rules: %w", err)
	}
	groups, err := scenario.Parse(text)
	if err != nil {
		return nil, nil, nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "*.test.yml"))
	if err != nil || len(files) == 0 {
		return nil, nil, nil, errors.Join(errors.New("find scenarios: there is none"), err)
	}
	var all []scenario.Scenario
	for _, file := range files {
		scenarios, err := scenario.Load(file)
		if err != nil {
			return nil, nil, nil, err
		}
		all = append(all, scenarios...)
	}
	lines, err := os.ReadFile(filepath.Join(folder, "testdata", "survivors.txt"))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read excused survivors: %w", err)
	}
	excused := excuses{}
	for line := range strings.Lines(string(lines)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			excused[line] = true
		}
	}
	return groups, all, excused, nil
}

// kills plays the scenarios that depend on the broken rule, until one notices. A rule
// that can no longer be evaluated is noticed.
func kills(scenarios []scenario.Scenario, groups []scenario.Group, m mutant) (bool, error) {
	for i := range scenarios {
		s := &scenarios[i]
		if !depends(groups, s.Asks(), m.rule) {
			continue
		}
		failures, err := s.Run(m.apply(groups))
		if err != nil || len(failures) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func depends(groups []scenario.Group, names []string, rule string) bool {
	return slices.ContainsFunc(scenario.Needed(groups, names), func(g scenario.Group) bool {
		return slices.ContainsFunc(g.Rules, func(r scenario.Rule) bool { return r.Name() == rule })
	})
}
