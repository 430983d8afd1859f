package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inferbeat/inferbeat/alerts"
	"github.com/inferbeat/inferbeat/exporters/catalog"
)

// metricName finds names of metrics; those of recorded series have a colon beside them,
// those of a whole family end with an underscore or an asterisk.
var metricName = regexp.MustCompile(`(^|[^\w:])(inferbeat_\w*[a-z0-9])($|[^\w:*])`)

// metricNames are the metrics of the catalogue that a text names, and the names that
// are none.
func metricNames(text string) (known, unknown []string) {
	for line := range strings.Lines(text) {
		for rest := line; ; {
			at := metricName.FindStringSubmatchIndex(rest)
			if at == nil {
				break
			}
			name := rest[at[4]:at[5]]
			rest = rest[at[5]:] // what follows the name may stand before the next one
			if m, ok := catalog.Lookup(name); ok {
				known = append(known, m.Name)
				continue
			}
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				if m, ok := catalog.Lookup(strings.TrimSuffix(name, end)); ok && m.Kind == catalog.Histogram {
					name = m.Name
				}
			}
			if _, ok := catalog.Lookup(name); ok {
				known = append(known, name)
			} else {
				unknown = append(unknown, name)
			}
		}
	}
	return known, unknown
}

// texts are the files of the repository with one of the endings, by path.
func texts(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	const root = "../.."
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !slices.Contains(endings, filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A name that is spelled differently in a text and on /metrics sends somebody looking
// for a series that is not there.
func TestTextsNameMetricsThatExist(t *testing.T) {
	named := 0
	for path, text := range texts(t, ".md", ".yaml", ".yml", ".json", ".tpl", ".txt") {
		known, unknown := metricNames(text)
		named += len(known)
		if len(unknown) > 0 {
			slices.Sort(unknown)
			t.Errorf("%s names %v, which are not in the catalogue", path, slices.Compact(unknown))
		}
	}
	if named < 1000 {
		t.Errorf("all texts name %d metrics, want more than 1000: are they still found?", named)
	}
}

// A metric that nothing shipped reads costs every user a series; so somebody must have
// said what it is for.
func TestEveryMetricIsReadOrExplained(t *testing.T) {
	read := map[string]bool{}
	for path, text := range texts(t, ".yml", ".json") {
		if strings.HasPrefix(path, "alerts/rules/") || strings.HasPrefix(path, "dashboards/grafana/") {
			known, _ := metricNames(text)
			for _, name := range known {
				read[name] = true
			}
		}
	}
	for _, alert := range alerts.Alerts() {
		text, _ := alerts.Runbook(alert)
		known, _ := metricNames(text)
		for _, name := range known {
			read[name] = true
		}
	}
	explained := map[string]bool{}
	for _, use := range catalog.Unread() {
		if explained[use.Name] = true; use.For == "" {
			t.Errorf("%s: nothing says what it is for", use.Name)
		}
		if _, ok := catalog.Lookup(use.Name); !ok {
			t.Errorf("%s is explained, but not in the catalogue", use.Name)
		}
	}
	for _, m := range catalog.All() {
		// What answers /probe is read by whoever asked.
		if m.Staleness != catalog.InAnswer && !read[m.Name] && !explained[m.Name] {
			t.Errorf("%s: no rule, board or runbook reads it, and catalog.Unread does not say what it is for", m.Name)
		}
	}
}

func TestMetricNames(t *testing.T) {
	known, unknown := metricNames("`inferbeat_runs_total`, inferbeat_run_total{a=\"b\"} inferbeat_up inferbeat_request_duration_seconds_bucket\n" +
		"inferbeat_sweep_* inferbeat_discovery_ pool_probe_slo:inferbeat_slo_events:increase5m x_inferbeat_io_path\ninferbeat_targets")
	if d := cmp.Diff([]string{"inferbeat_runs_total", "inferbeat_request_duration_seconds", "inferbeat_targets"}, known); d != "" {
		t.Errorf("known (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"inferbeat_run_total", "inferbeat_up"}, unknown); d != "" {
		t.Errorf("unknown (-want +got):\n%s", d)
	}
}
