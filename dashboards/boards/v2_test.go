package boards

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/dashboardv2"

	"github.com/inferbeat/inferbeat/dashboards"
)

// manifest is a resource of Grafana's API.
type manifest struct {
	APIVersion, Kind string
	Metadata         struct{ Name string }
	Spec             json.RawMessage
}

// second reads a board in the second version of the schema by Grafana's own types,
// which refuse a field that they do not have and miss one that they ask for.
func second(t *testing.T, d dashboards.Dashboard) dashboardv2.Dashboard {
	t.Helper()
	text, err := d.In(dashboards.V2, dashboards.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "dashboard.grafana.app/v2" || m.Kind != "Dashboard" || m.Metadata.Name != d.UID {
		t.Errorf("%s is %s %s %s", d.UID, m.APIVersion, m.Kind, m.Metadata.Name)
	}
	if faults := strictly(m.Spec); faults != "" {
		t.Fatalf("%s: %s", d.UID, faults)
	}
	var board dashboardv2.Dashboard
	if err := json.Unmarshal(m.Spec, &board); err != nil {
		t.Fatalf("%s: %v", d.UID, err)
	}
	if err := board.Validate(); err != nil {
		t.Errorf("%s: %v", d.UID, err)
	}
	return board
}

// strictly are the faults that the SDK finds. It returns an error without a text
// when there are none, and by that leaves out half of the board: what it reads is
// of no use.
func strictly(spec []byte) string {
	var board dashboardv2.Dashboard
	if err := board.UnmarshalJSONStrict(spec); err != nil {
		return err.Error()
	}
	return ""
}

// The types refuse what they do not know, however deep it lies.
func TestStrictTypesFindFaults(t *testing.T) {
	all, err := dashboards.All()
	if err != nil {
		t.Fatal(err)
	}
	text, err := all[0].In(dashboards.V2, dashboards.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"refId": "A"`, `"refid": "A"`, "unexpected field 'refid'"},
		{`"width":`, `"w":`, "unexpected field 'w'"},
		{`"skipUrlSync": false`, `"skipURLSync": false`, "unexpected field 'skipURLSync'"},
		{`"iconColor":`, `"color":`, "iconColor: required field is missing"},
	} {
		var m manifest
		if err := json.Unmarshal([]byte(strings.Replace(string(text), c.old, c.new, 1)), &m); err != nil {
			t.Fatal(err)
		}
		if got := strictly(m.Spec); !strings.Contains(got, c.want) {
			t.Errorf("%s in place of %s: got %q, want %q in it", c.new, c.old, got, c.want)
		}
	}
}

// first is what the first version says, as far as both can say it.
type first struct {
	Title, Description, Timezone, Refresh string
	Editable                              bool
	GraphTooltip                          int
	Tags                                  []string
	Time                                  struct{ From, To string }
	Links                                 []json.RawMessage
	Panels                                []firstPanel
	Templating                            struct{ List []map[string]any }
	Annotations                           struct{ List []map[string]any }
}

type firstPanel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int64 }
	Collapsed                bool
	Targets                  []map[string]any
	Transformations          []struct {
		ID      string
		Options any
	}
	Options, FieldConfig any
}

// plain is what JSON makes of a value, so that two types can be laid beside each
// other.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func without(m map[string]any, keys ...string) map[string]any {
	out := maps.Clone(m)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

// Every panel, query, variable and mark of the first version is in the second
// once, says the same, and lies where it lay.
func TestSecondVersionSaysTheSame(t *testing.T) {
	all, err := dashboards.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		t.Run(d.UID, func(t *testing.T) {
			var one first
			if err := json.Unmarshal(d.Model, &one); err != nil {
				t.Fatal(err)
			}
			two := second(t, d)
			sameFrame(t, one, two)
			samePanels(t, one, two)
			sameVariables(t, one, two)
			sameMarks(t, one, two)
		})
	}
}

func sameFrame(t *testing.T, one first, two dashboardv2.Dashboard) {
	got := fmt.Sprintln(two.Title, *two.Description, *two.TimeSettings.Timezone, two.TimeSettings.AutoRefresh, *two.Editable, two.Tags,
		two.TimeSettings.From, two.TimeSettings.To, two.CursorSync)
	want := fmt.Sprintln(one.Title, one.Description, one.Timezone, one.Refresh, one.Editable, one.Tags, one.Time.From, one.Time.To, "Crosshair")
	if got != want || one.GraphTooltip != 1 {
		t.Errorf("the frame is\n%swant\n%s", got, want)
	}
	if diff := cmp.Diff(plain(t, one.Links), plain(t, two.Links)); diff != "" {
		t.Errorf("links (-v1 +v2):\n%s", diff)
	}
}

// samePanels walks the rows of v2 in their order and puts their panels back on
// the one grid of v1.
func samePanels(t *testing.T, one first, two dashboardv2.Dashboard) {
	placed := 0
	line := int64(0) // the next free one
	next := one.Panels
	take := func() firstPanel {
		if len(next) == 0 {
			t.Fatal("v2 has more panels than v1")
		}
		p := next[0]
		next = next[1:]
		return p
	}
	for _, r := range two.Layout.RowsLayoutKind.Spec.Rows {
		want := take()
		if want.Type != "row" || *r.Spec.Title != want.Title || *r.Spec.Collapse != want.Collapsed || want.GridPos.Y != line {
			t.Errorf("row %q at %d, want %s %q at %d", *r.Spec.Title, line, want.Type, want.Title, want.GridPos.Y)
		}
		top := line + 1
		line = top
		for _, item := range r.Spec.Layout.GridLayoutKind.Spec.Items {
			placed++
			want, at := take(), item.Spec
			line = max(line, top+at.Y+at.Height)
			if g := want.GridPos; at.X != g.X || at.Y+top != g.Y || at.Width != g.W || at.Height != g.H {
				t.Errorf("panel %q lies at %+v of the row at %d, want %+v", want.Title, at, top-1, g)
			}
			element, ok := two.Elements[at.Element.Name]
			if !ok || at.Element.Kind != "ElementReference" {
				t.Fatalf("the layout names %s %q, which is no element", at.Element.Kind, at.Element.Name)
			}
			samePanel(t, want, element.PanelKind.Spec)
		}
	}
	if len(next) > 0 || placed != len(two.Elements) {
		t.Errorf("%d panels of v1 are not in v2, and %d of the %d elements lie nowhere", len(next), len(two.Elements)-placed, len(two.Elements))
	}
}

func samePanel(t *testing.T, want firstPanel, got dashboardv2.PanelSpec) {
	if int(got.Id) != want.ID || got.Title != want.Title || *got.Description != want.Description || got.VizConfig.Group != want.Type {
		t.Errorf("panel %v %q is a %s, want %d %q, a %s, with its description", got.Id, got.Title, got.VizConfig.Group, want.ID, want.Title, want.Type)
	}
	if diff := cmp.Diff(want.Options, got.VizConfig.Spec.Options); diff != "" {
		t.Errorf("panel %q, options (-v1 +v2):\n%s", want.Title, diff)
	}
	if diff := cmp.Diff(want.FieldConfig, plain(t, got.VizConfig.Spec.FieldConfig)); diff != "" {
		t.Errorf("panel %q, fields (-v1 +v2):\n%s", want.Title, diff)
	}
	var queries []map[string]any
	for _, q := range got.Data.Spec.Queries {
		spec := plain(t, q.Spec.Query.Spec).(map[string]any)
		spec["refId"] = q.Spec.RefId
		queries = append(queries, spec)
		fromVariable(t, want.Title, q.Spec.Query)
	}
	var targets []map[string]any
	for _, target := range want.Targets {
		targets = append(targets, without(target, "datasource"))
	}
	if diff := cmp.Diff(targets, queries); diff != "" {
		t.Errorf("panel %q, queries (-v1 +v2):\n%s", want.Title, diff)
	}
	var before, after []any
	for _, transformation := range want.Transformations {
		before = append(before, transformation.ID, transformation.Options)
	}
	for _, transformation := range got.Data.Spec.Transformations {
		after = append(after, transformation.Group, transformation.Spec.Options)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("panel %q, transformations (-v1 +v2):\n%s", want.Title, diff)
	}
}

// fromVariable holds a query to the data source that the board chooses.
func fromVariable(t *testing.T, where string, q dashboardv2.DataQueryKind) {
	if q.Kind != "DataQuery" || q.Group != "prometheus" || q.Datasource == nil || *q.Datasource.Name != "${datasource}" {
		t.Errorf("%s asks %s %s %+v, want a Prometheus by the variable datasource", where, q.Kind, q.Group, q.Datasource)
	}
}

// hidden, refreshed and sorted are the numbers of v1 that the boards use, as v2
// spells them.
var (
	hidden    = map[any]string{nil: "dontHide", 2.0: "hideVariable"}
	refreshed = map[any]string{nil: "never", 2.0: "onTimeRangeChanged"}
	sorted    = map[any]string{1.0: "alphabeticalAsc"}
)

func sameVariables(t *testing.T, one first, two dashboardv2.Dashboard) {
	if len(two.Variables) != len(one.Templating.List) {
		t.Fatalf("%d variables, want %d", len(two.Variables), len(one.Templating.List))
	}
	unchosen := map[string]any{"text": "", "value": ""}
	for i, want := range one.Templating.List {
		got := two.Variables[i]
		current := want["current"]
		if current == nil {
			current = unchosen
		}
		common := map[string]any{"name": want["name"], "label": want["label"], "skipUrlSync": want["skipUrlSync"], "hide": hidden[want["hide"]], "current": current}
		if about, ok := want["description"]; ok {
			common["description"] = about
		}
		many := map[string]any{"multi": want["multi"], "includeAll": want["includeAll"], "allowCustomValue": want["allowCustomValue"], "options": []any{}}
		if all, ok := want["allValue"]; ok {
			many["allValue"] = all
		}
		var spec any
		switch want["type"] {
		case "constant":
			spec, common["query"] = got.ConstantVariableKind.Spec, want["query"]
		case "custom":
			spec, common["query"] = got.CustomVariableKind.Spec, want["query"]
			maps.Copy(common, many)
			common["options"] = want["options"]
		case "datasource":
			spec = got.DatasourceVariableKind.Spec
			maps.Copy(common, many)
			common["pluginId"], common["regex"], common["refresh"] = want["query"], "", "never"
		case "query":
			spec = got.QueryVariableKind.Spec
			maps.Copy(common, many)
			common["query"] = map[string]any{"kind": "DataQuery", "group": "prometheus", "version": "v0", "datasource": map[string]any{"name": "${datasource}"}, "spec": want["query"]}
			common["definition"], common["regex"] = want["definition"], ""
			common["refresh"], common["sort"] = refreshed[want["refresh"]], sorted[want["sort"]]
		}
		if diff := cmp.Diff(any(common), plain(t, spec)); diff != "" {
			t.Errorf("variable %v (-v1 +v2):\n%s", want["name"], diff)
		}
	}
}

func sameMarks(t *testing.T, one first, two dashboardv2.Dashboard) {
	if len(two.Annotations) != len(one.Annotations.List) {
		t.Fatalf("%d marks, want %d", len(two.Annotations), len(one.Annotations.List))
	}
	for i, want := range one.Annotations.List {
		got := two.Annotations[i].Spec
		if got.Name != want["name"] || got.Enable != want["enable"] || got.Hide != want["hide"] || got.IconColor != want["iconColor"] {
			t.Errorf("mark %d is %+v, want %v", i, got, want)
		}
		fromVariable(t, got.Name, got.Query)
		if diff := cmp.Diff(any(without(want["target"].(map[string]any), "datasource")), plain(t, got.Query.Spec)); diff != "" {
			t.Errorf("mark %s, query (-v1 +v2):\n%s", got.Name, diff)
		}
		written := without(want, "name", "enable", "hide", "iconColor", "builtIn", "datasource", "target")
		if diff := cmp.Diff(written, got.LegacyOptions); diff != "" {
			t.Errorf("mark %s (-v1 +v2):\n%s", got.Name, diff)
		}
	}
}
