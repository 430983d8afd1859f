package dashboards

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func decodeYAML(t *testing.T, text []byte, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// A manifest carries the board as it is provisioned, with the options.
func TestManifestsCarryTheBoard(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	chosen := Options{DataSource: "prom-eu", Page: "https://beat.example", Namespace: "llm", Folder: "Models",
		Labels: map[string]string{"team": "inference", "grafana_dashboard": "true"}, Instances: map[string]string{"grafana": "main"}}
	labels := map[string]string{"app.kubernetes.io/name": "inferbeat"}
	sidecar := map[string]string{"app.kubernetes.io/name": "inferbeat", "grafana_dashboard": "1"}
	given := map[string]string{"app.kubernetes.io/name": "inferbeat", "grafana_dashboard": "true", "team": "inference"}
	folder := map[string]string{"grafana_folder": "inferbeat"}
	for _, d := range all {
		board := func(o Options) string {
			text, err := d.In(Provisioning, o)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		for _, c := range []struct {
			form    Form
			options Options
			got     any // what is read
			want    any
		}{
			{ConfigMap, Options{}, &configMapManifest{}, &configMapManifest{"v1", "ConfigMap", metadata{d.UID, "", sidecar, folder},
				map[string]string{d.UID + ".json": board(Options{})}}},
			{ConfigMap, chosen, &configMapManifest{}, &configMapManifest{"v1", "ConfigMap", metadata{d.UID, "llm", given, map[string]string{"grafana_folder": "Models"}},
				map[string]string{d.UID + ".json": board(chosen)}}},
			{GrafanaOperator, Options{}, &operatorResource{}, &operatorResource{"grafana.integreatly.org/v1beta1", "GrafanaDashboard", metadata{d.UID, "", labels, nil},
				operatorSpec{true, selector{map[string]string{"dashboards": "grafana"}}, "inferbeat", board(Options{})}}},
			{GrafanaOperator, chosen, &operatorResource{}, &operatorResource{"grafana.integreatly.org/v1beta1", "GrafanaDashboard", metadata{d.UID, "llm", given, nil},
				operatorSpec{true, selector{map[string]string{"grafana": "main"}}, "Models", board(chosen)}}},
		} {
			text, err := d.In(c.form, c.options)
			if err != nil {
				t.Fatal(err)
			}
			decodeYAML(t, text, c.got)
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("%s as %s (-want +got):\n%s", d.UID, c.form, diff)
			}
			// kubectl apply writes the object once more into an annotation of it, as JSON;
			// all annotations together may have 256 KiB.
			again, err := json.Marshal(c.got)
			if err != nil {
				t.Fatal(err)
			}
			if limit := 256 << 10; len(again) > limit {
				t.Errorf("%s as %s: kubectl apply would note %d bytes beside it, at most %d", d.UID, c.form, len(again), limit)
			}
		}
	}
}

func TestFormsHaveFiles(t *testing.T) {
	want := map[Form]string{Provisioning: "b.json", Import: "b.json", V2: "b.json", ConfigMap: "b.yaml", GrafanaOperator: "b.yaml"}
	for _, form := range Forms() {
		if got := form.File("b"); got != want[form] {
			t.Errorf("a board as %s is written to %s, want %s", form, got, want[form])
		}
	}
}

// The second version takes the options as the first does.
func TestSecondVersionTakesOptions(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	text, err := all[0].In(V2, Options{DataSource: "prom-eu", Page: "https://beat.example/"})
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Spec struct {
			Variables []struct {
				Spec struct {
					Name    string
					Query   any
					Current struct{ Value any }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	source, page := m.Spec.Variables[0].Spec, m.Spec.Variables[1].Spec
	if source.Name != "datasource" || source.Current.Value != "prom-eu" {
		t.Errorf("the board opens with %+v, want prom-eu", source)
	}
	if page.Name != "page" || page.Current.Value != "https://beat.example" || page.Query != "https://beat.example" {
		t.Errorf("the board links to %+v, want https://beat.example", page)
	}
}

// What the second version has no place for is an error, not forgotten.
func TestNothingIsForgotten(t *testing.T) {
	const row = `{"type": "row", "title": "R", "id": 1, "collapsed": false, "panels": [], "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}}`
	const panel = `{"type": "stat", "title": "P", "id": 2, "gridPos": {"x": 0, "y": 1, "w": 24, "h": 1}, "fieldConfig": {}, "targets": []`
	for name, c := range map[string]struct{ board, want string }{
		"board":          {`"weekStart": "monday"`, "dashboard weekStart"},
		"panel":          {`"panels": [` + row + `,` + panel + `, "repeat": "target"}]`, `panel "P" repeat`},
		"no row":         {`"panels": [` + panel + `}]`, `panel "P" before the first row`},
		"inside a row":   {`"panels": [` + strings.Replace(row, "[]", "[{}]", 1) + `]`, `panel "R" panels`},
		"place":          {`"panels": [` + strings.Replace(row, `"x": 0`, `"x": 0.5`, 1) + `]`, `panel "R" gridPos x`},
		"variable":       {`"templating": {"list": [{"name": "v", "type": "adhoc"}]}`, "variable v type"},
		"hidden how":     {`"templating": {"list": [{"name": "v", "type": "custom", "hide": 7}]}`, "variable v hide 7"},
		"mark":           {`"annotations": {"list": [{"name": "a", "filter": {}}]}`, "annotation a filter"},
		"transformation": {`"panels": [` + row + `,` + panel + `, "transformations": [{"id": "merge", "options": {}, "disabled": true}]}]`, `panel "P" transformation disabled`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Dashboard{UID: "x", Model: []byte("{" + c.board + "}")}.In(V2, Options{})
			if want := "convert dashboard x to dashboard.grafana.app/v2: no place for "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q and %s", err, want, c.want)
			}
		})
	}
}
