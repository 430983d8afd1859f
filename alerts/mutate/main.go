// Command mutate breaks the alert rules in every small way and plays the scenarios: a
// break that no scenario notices is a scenario that is missing.
//
//	go run ./alerts/mutate            all rules, from the repository's root
//	go run ./alerts/mutate -rule InferbeatPoolDown
//	go run ./alerts/mutate -list      what would be broken, without playing
//
// It prints the survivors, then how many breaks of each group were noticed, and exits
// with 1 if a break survived that testdata/survivors.txt does not excuse, or if one is
// excused that does not survive.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	all := mutants(groups)
	if only != "" {
		all = slices.DeleteFunc(all, func(m mutant) bool { return m.rule.Name() != only })
	}
	if len(all) == 0 {
		return 2, fmt.Errorf("break rule %s: there is none of this name", only)
	}
	if list {
		for _, m := range all {
			fmt.Println(m)
		}
		return 0, nil
	}
	plays, err := play(scenarios, groups)
	if err != nil {
		return 2, err
	}
	return report(all, judge(plays, all), excused, only), nil
}

// play plays every scenario with the unbroken rules. The shortest stand first, because
// most breaks are noticed by the first scenario that can see them.
func play(scenarios []scenario.Scenario, groups []scenario.Group) ([]*scenario.Play, error) {
	var plays []*scenario.Play
	for i := range scenarios {
		p, err := scenarios[i].Play(groups)
		if err != nil {
			return nil, err
		}
		if len(p.Failures) > 0 {
			return nil, fmt.Errorf("play unbroken rules: %s", p.Failures[0])
		}
		plays = append(plays, p)
	}
	slices.SortStableFunc(plays, func(a, b *scenario.Play) int { return a.Steps() - b.Steps() })
	return plays, nil
}

// judge says for each mutant whether a scenario noticed it.
func judge(plays []*scenario.Play, all []mutant) []bool {
	noticed := make([]bool, len(all))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1) - 1); i < len(all); i = int(next.Add(1) - 1) {
				broken := all[i].broken()
				noticed[i] = slices.ContainsFunc(plays, func(p *scenario.Play) bool {
					return p.Needs(broken.Name()) && p.Notices(broken)
				})
			}
		})
	}
	workers.Wait()
	return noticed
}

// tally counts mutants by what became of them.
type tally struct{ killed, survived, excused int }

func (t tally) String() string {
	return fmt.Sprintf("%d mutants: %d killed, %d survived (%d excused)", t.killed+t.survived, t.killed, t.survived, t.excused)
}

// report prints what became of the mutants and returns the exit code.
func report(all []mutant, noticed []bool, excused map[string]bool, only string) int {
	var total tally
	groups, order, code := map[string]*tally{}, []string{}, 0
	for i, m := range all {
		group := groups[m.group]
		if group == nil {
			group = &tally{}
			groups[m.group], order = group, append(order, m.group)
		}
		for _, t := range []*tally{&total, group} {
			switch {
			case noticed[i]:
				t.killed++
			case excused[m.String()]:
				t.survived++
				t.excused++
			default:
				t.survived++
			}
		}
		if noticed[i] {
			continue
		}
		if !excused[m.String()] {
			fmt.Println("survived:", m)
			code = 1
		}
		delete(excused, m.String())
	}
	for _, text := range slices.Sorted(maps.Keys(excused)) {
		if only == "" || strings.HasPrefix(text, only+": ") {
			fmt.Println("excused, but killed or gone:", text)
			code = 1
		}
	}
	for _, name := range order {
		fmt.Printf("%-26s %v\n", name, groups[name])
	}
	fmt.Println(total)
	return code
}

// load reads the rules, the scenarios, and the breaks that change nothing that can be seen.
func load(folder string) ([]scenario.Group, []scenario.Scenario, map[string]bool, error) {
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
	excused := map[string]bool{}
	for line := range strings.Lines(string(lines)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			excused[line] = true
		}
	}
	return groups, all, excused, nil
}
