package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// board is what the tests look at of a written file.
type board struct {
	UID        string
	Inputs     []struct{ Name, Value string } `json:"__inputs"`
	Templating struct {
		List []struct {
			Name, Query any
			Current     struct{ Value any }
		}
	}
}

func readBoards(t *testing.T, folder string) map[string]board {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]board{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if b.UID+".json" != filepath.Base(file) {
			t.Errorf("%s holds the board %s", file, b.UID)
		}
		out[b.UID] = b
	}
	return out
}

func (b board) variable(name string) (query, current any) {
	for _, v := range b.Templating.List {
		if v.Name == name {
			return v.Query, v.Current.Value
		}
	}
	return nil, nil
}

func TestDashboardsAreWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "grafana", "boards")
	got := call(t.Context(), nil, "dashboards", "--output-dir", folder, "--datasource", "prom-eu", "--page-url", "https://beat.example/", "--severity", "critical=page")
	if got.code != exitPass || got.stderr != "" {
		t.Fatalf("got status %d, %s", got.code, got.stderr)
	}
	boards := readBoards(t, folder)
	if len(boards) != 7 || strings.Count(got.stdout, "\n") != 7 {
		t.Errorf("got %d boards and the output\n%s\nwant 7 and their names", len(boards), got.stdout)
	}
	if text := readFile(t, filepath.Join(folder, "inferbeat-fleet.json")); !strings.Contains(text, `severity=\"page\"`) || strings.Contains(text, `severity=\"critical\"`) {
		t.Error("inferbeat-fleet does not count the alerts of severity page")
	}
	for uid, b := range boards {
		if _, current := b.variable("datasource"); current != "prom-eu" {
			t.Errorf("%s opens with the data source %v, want prom-eu", uid, current)
		}
		if query, current := b.variable("page"); query != "https://beat.example" || current != "https://beat.example" {
			t.Errorf("%s links to %v (%v), want https://beat.example without a slash at its end", uid, query, current)
		}
		if len(b.Inputs) != 0 {
			t.Errorf("%s asks for %v; provisioning cannot answer", uid, b.Inputs)
		}
	}
}

func TestImportedDashboardsAsk(t *testing.T) {
	folder := t.TempDir()
	if got := call(t.Context(), nil, "dashboards", "--output-dir", folder, "--form", "import"); got.code != exitPass {
		t.Fatalf("got status %d, %s", got.code, got.stderr)
	}
	for uid, b := range readBoards(t, folder) {
		if len(b.Inputs) != 2 || b.Inputs[0].Name != "DS_PROMETHEUS" || b.Inputs[1].Name != "VAR_PAGE" || b.Inputs[1].Value != "http://127.0.0.1:9799" {
			t.Errorf("%s asks for %v, want a data source and the page's address", uid, b.Inputs)
		}
		if _, current := b.variable("datasource"); current != "${DS_PROMETHEUS}" {
			t.Errorf("%s opens with the data source %v, want the answer", uid, current)
		}
		if query, _ := b.variable("page"); query != "${VAR_PAGE}" {
			t.Errorf("%s links to %v, want the answer", uid, query)
		}
	}
}

func TestDashboardsAsManifests(t *testing.T) {
	for form, want := range map[string]struct {
		file  string
		parts []string
		args  []string
	}{
		"v2": {"inferbeat-fleet.json", []string{`"apiVersion": "dashboard.grafana.app/v2"`, `"value": "prom-eu"`}, nil},
		"configmap": {"inferbeat-fleet.yaml", []string{"kind: ConfigMap\n", "  namespace: llm\n", `    grafana_dashboard: "1"` + "\n", "    team: inference\n",
			"    grafana_folder: Models\n", `"value": "prom-eu"`}, []string{"--namespace", "llm", "--manifest-label", "team=inference", "--folder", "Models"}},
		"grafana-operator": {"inferbeat-fleet.yaml", []string{"kind: GrafanaDashboard\n", "  folder: inferbeat\n", "      grafana: main\n", `"value": "prom-eu"`},
			[]string{"--instance-label", "grafana=main"}},
	} {
		t.Run(form, func(t *testing.T) {
			folder := t.TempDir()
			args := append([]string{"dashboards", "--output-dir", folder, "--form", form, "--datasource", "prom-eu"}, want.args...)
			if got := call(t.Context(), nil, args...); got.code != exitPass || strings.Count(got.stdout, want.file) != 1 {
				t.Fatalf("got status %d, %s%s", got.code, got.stdout, got.stderr)
			}
			text := readFile(t, filepath.Join(folder, want.file))
			for _, part := range want.parts {
				if !strings.Contains(text, part) {
					t.Errorf("%s has no %q", want.file, part)
				}
			}
		})
	}
}

func TestDashboardsRefuse(t *testing.T) {
	blocked := writeFile(t, "file", "")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"form":        {[]string{"--form", "jsonnet"}, exitUsage, `form "jsonnet" is unknown`},
		"both":        {[]string{"--form", "import", "--datasource", "x"}, exitUsage, "--datasource"},
		"page":        {[]string{"--page-url", "beat.example"}, exitUsage, "--page-url"},
		"severity":    {[]string{"--severity", "critical=warning"}, exitUsage, "no route could tell them apart"},
		"namespace":   {[]string{"--namespace", "llm"}, exitUsage, "--namespace: has no effect with --form provisioning"},
		"labels":      {[]string{"--form", "v2", "--manifest-label", "a=b"}, exitUsage, "--manifest-label: has no effect with --form v2"},
		"folder":      {[]string{"--form", "import", "--folder", "Models"}, exitUsage, "--folder: has no effect with --form import"},
		"instance":    {[]string{"--form", "configmap", "--instance-label", "a=b"}, exitUsage, "--instance-label: has no effect with --form configmap"},
		"not a place": {[]string{"--output-dir", blocked}, exitFail, "make the folder of the dashboards"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			got := call(t.Context(), nil, append([]string{"dashboards", "--output-dir", folder}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stderr, c.want) {
				t.Errorf("got status %d, %q; want %d and %q", got.code, got.stderr, c.code, c.want)
			}
			if left := readBoards(t, folder); len(left) != 0 {
				t.Errorf("%d files were written nevertheless", len(left))
			}
		})
	}
}
