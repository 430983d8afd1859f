package alerts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var promQL = regexp.MustCompile("(?s)```promql\n(.*?)```")

// A page for each alert and none without one, all of one shape, with queries that can
// be pasted: what somebody reads at night must be where it always is.
func TestRunbooks(t *testing.T) {
	entries, err := os.ReadDir("runbooks")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, strings.TrimSuffix(e.Name(), ".md"))
	}
	want := Alerts()
	slices.Sort(want)
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("runbooks (-alerts +files):\n%s", d)
	}
	recorded := map[string]bool{"ALERTS": true, "scrape_duration_seconds": true, "process_resident_memory_bytes": true,
		"process_open_fds": true, "process_max_fds": true}
	for _, r := range allRules() {
		recorded[r.Record] = true
	}
	for _, name := range have {
		text, ok := Runbook(name)
		if !ok {
			t.Errorf("there is no runbook %s", name)
			continue
		}
		var headings []string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") {
				headings = append(headings, strings.TrimSpace(line))
			}
		}
		if d := cmp.Diff([]string{"# " + name, "## Impact", "## First three checks", "## Likely causes", "## Silence"}, headings); d != "" {
			t.Errorf("%s: headings (-want +got):\n%s", name, d)
		}
		queries := promQL.FindAllStringSubmatch(text, -1)
		if len(queries) != 3 {
			t.Errorf("%s: %d queries, want 3", name, len(queries))
		}
		for _, query := range queries {
			checkSelectors(t, "runbook "+name, parse(t, strings.TrimSpace(query[1])), recorded)
		}
		for _, other := range regexp.MustCompile(`Inferbeat[A-Z]\w+`).FindAllString(text, -1) {
			if !slices.Contains(want, other) {
				t.Errorf("%s names the alert %s, which does not exist", name, other)
			}
		}
		for _, metric := range regexp.MustCompile("`(inferbeat_[a-z0-9_]+)`").FindAllStringSubmatch(text, -1) {
			checkSelectors(t, "runbook "+name+" names", parse(t, countersByRate(metric[1])), recorded)
		}
	}
}

// countersByRate makes an expression of a metric's name alone.
func countersByRate(name string) string {
	if strings.HasSuffix(name, "_total") {
		return "rate(" + name + "[1m])"
	}
	return name
}

func TestRunbookIsOnlyOfAlerts(t *testing.T) {
	for _, name := range []string{"", "inferbeatpooldown", "../rules/inferbeat", "InferbeatPoolDown.md", "runbooks/InferbeatPoolDown"} {
		if text, ok := Runbook(name); ok {
			t.Errorf("Runbook(%q) = %.20q, want none", name, text)
		}
	}
}
