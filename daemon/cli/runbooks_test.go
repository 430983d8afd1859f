package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/alerts"
)

// codeSpan is code in a runbook: a fenced block or a span within a line.
var codeSpan = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```|`([^`\n]+)`")

// runbookCalls are the calls of inferbeat in a text's code, without the first word.
func runbookCalls(text string) (calls []string) {
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(span[1] + span[2]) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "inferbeat "); ok {
				calls = append(calls, rest)
			}
		}
	}
	return calls
}

// wrongCall says why a call cannot be made, or nothing.
func wrongCall(call string) string {
	words := strings.Fields(call)
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == words[0] })
	if i < 0 {
		return "there is no command " + words[0]
	}
	known := commandFlags(commands()[i])
	for _, word := range words[1:] {
		if flag, ok := strings.CutPrefix(word, "--"); ok {
			if flag, _, _ = strings.Cut(flag, "="); !known[flag] {
				return words[0] + " has no flag --" + flag
			}
		}
	}
	return ""
}

// What a runbook tells somebody to type at night is a command that exists.
func TestRunbookCalls(t *testing.T) {
	seen := map[string]bool{}
	for _, alert := range alerts.Alerts() {
		text, ok := alerts.Runbook(alert)
		if !ok {
			t.Fatalf("%s has no runbook", alert)
		}
		for _, call := range runbookCalls(text) {
			seen[strings.Fields(call)[0]] = true
			if problem := wrongCall(call); problem != "" {
				t.Errorf("the runbook of %s shows inferbeat %s: %s", alert, call, problem)
			}
		}
	}
	for _, name := range []string{"ack", "check", "selftest"} {
		if !seen[name] {
			t.Errorf("no runbook shows inferbeat %s", name)
		}
	}
}

func TestWrongRunbookCallsAreSeen(t *testing.T) {
	text := "Run `inferbeat ack --author me`, `inferbeat chek`, `not inferbeat x` or inferbeat y:\n```sh\ninferbeat check --config FILE\n" +
		"inferbeat selftest --no-such=1\n```\n"
	var got []string
	for _, call := range runbookCalls(text) {
		got = append(got, call+": "+wrongCall(call))
	}
	want := []string{"ack --author me: ", "chek: there is no command chek", "check --config FILE: ", "selftest --no-such=1: selftest has no flag --no-such"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}
