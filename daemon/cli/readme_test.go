package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/inferbeat/inferbeat/probes/backend"
	"github.com/inferbeat/inferbeat/probes/workload"
)

const readme = "../../README.md"

// commandFlags are the names of a command's flags.
func commandFlags(c command) map[string]bool {
	flags := &flagSet{FlagSet: newFlags()}
	c.define(flags)
	flags.join()
	names := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	return names
}

// Every call that the README and the examples show is one that works.
func TestDocumentedCalls(t *testing.T) {
	all := map[string]command{}
	for _, c := range commands() {
		all[c.name] = c
	}
	calls := regexp.MustCompile(`(?m)(?:go run \.|inferbeat) ([a-z]+)((?: +--?[a-z][^\s#` + "`" + `]*(?: +[^-\s#` + "`" + `][^\s` + "`" + `]*)?)*)`)
	flag := regexp.MustCompile(`--([a-z-]+)`)
	shown := map[string]int{}
	files := []string{readme, "../../dashboards/README.md"}
	for _, pattern := range []string{"*.md", "*/*.*", "docker/Dockerfile", "helm/inferbeat/values.yaml"} {
		found, err := filepath.Glob("../../deploy/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		for _, match := range calls.FindAllStringSubmatch(readFile(t, file), -1) {
			c, ok := all[match[1]]
			if !ok {
				continue // prose: "inferbeat is", "inferbeat test"
			}
			shown[c.name]++
			known := commandFlags(c)
			for _, f := range flag.FindAllStringSubmatch(match[2], -1) {
				shown["--"+f[1]]++
				if !known[f[1]] {
					t.Errorf("%s: %s has no flag --%s", file, c.name, f[1])
				}
			}
			if c.name == "run" && match[2] != "" {
				if _, err := resolveArgs(nil, strings.Fields(match[2])...); err != nil {
					t.Errorf("%s: %s: %v", file, match[0], err)
				}
			}
		}
	}
	for _, name := range []string{"demo", "run", "serve", "check", "--backend", "--base-url", "--dataset-name", "--num-prompts", "--request-rate", "--config"} {
		if shown[name] == 0 {
			t.Errorf("neither the README nor an example shows %s", name)
		}
	}
	// Flags in prose, outside of a call.
	known := commandFlags(runCommand)
	for _, f := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(readFile(t, readme), -1) {
		if !known[f[1]] {
			t.Errorf("the README names --%s, which run does not have", f[1])
		}
	}
}

// The README's configuration passes all checks that serve makes.
func TestDocumentedConfiguration(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readFile(t, readme), -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no configuration")
	}
	key := writeFile(t, "llm", "sk-SECRET\n")
	for _, block := range blocks {
		text := strings.ReplaceAll(block[1], "/run/secrets/llm", key)
		file := writeFile(t, "inferbeat.yaml", text)
		if got := call(t.Context(), nil, "check", "--config", file); got.code != exitPass {
			t.Errorf("code %d: %s\n%s", got.code, got.stderr, text)
		}
	}
}

// The addresses that the README tells are those that the binary uses.
func TestDocumentedAddresses(t *testing.T) {
	flags := &flagSet{FlagSet: newFlags()}
	demoCommand.define(flags)
	flags.join()
	contains(t, "the README", readFile(t, readme), "open http://"+flags.Lookup("listen").DefValue+"\n")
}

// The README names all that can be asked for.
func TestDocumentedNames(t *testing.T) {
	for _, name := range append(backend.Names(), workload.Datasets...) {
		contains(t, "the README", readFile(t, readme), "`"+name+"`")
	}
}

// The exit statuses are told alike everywhere.
func TestDocumentedExitStatus(t *testing.T) {
	if exitPass != 0 || exitFail != 1 || exitUsage != 2 || exitUnknown != 3 {
		t.Error("the exit statuses have changed, and gates rest on them")
	}
	contains(t, "the README", readFile(t, readme), "Exit status: 0 pass, 1 fail, 2 usage or configuration error, 3 unknown (")
	contains(t, "help", overview(), "Exit status: 0 pass, 1 fail, 2 usage or configuration error, 3 unknown (")
}
