package dashboards

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAllBoardsShip(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(uids) {
		t.Fatalf("got %d boards, want %d", len(all), len(uids))
	}
	for i, d := range all {
		if d.UID != uids[i] || !strings.HasPrefix(d.Title, "Inferbeat / ") {
			t.Errorf("board %d is %s %q, want %s", i, d.UID, d.Title, uids[i])
		}
	}
}

// A form changes what it says and nothing else.
func TestFormsKeepTheBoard(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		same, err := d.In(Provisioning, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if string(same) != string(d.Model) {
			t.Errorf("%s: provisioning without options differs from the file", d.UID)
		}
		imported, err := d.In(Import, Options{Page: "http://beat:1"})
		if err != nil {
			t.Fatal(err)
		}
		back := strings.NewReplacer("${VAR_PAGE}", "http://beat:1", "${DS_PROMETHEUS}", "prom").Replace(string(imported))
		answered := parse(t, []byte(back))
		answered.Inputs = []any{}
		for _, r := range rules {
			for _, finding := range r.check(answered) {
				t.Errorf("%s, imported: %s: %s", d.UID, r.name, finding)
			}
		}
		if n := strings.Count(string(imported), "http://beat:1"); n != 1 {
			t.Errorf("%s: the page's address stands %d times in the import form, want once, as the input's default", d.UID, n)
		}
	}
}

func TestUnknownForm(t *testing.T) {
	_, err := Dashboard{UID: "x", Model: []byte("{}")}.In("jsonnet", Options{})
	if err == nil || !strings.Contains(err.Error(), `form "jsonnet" is unknown; use one of ["provisioning" "import" "v2" "configmap" "grafana-operator"]`) {
		t.Errorf("got %v, want an error that names the forms", err)
	}
}

// Every rule finds what it is there for.
func TestRulesFindFaults(t *testing.T) {
	target := func(m *model) *target { return &m.Panels[1].Targets[0] }
	for _, c := range []struct {
		rule, board string
		harm        func(*model)
		want        string
	}{
		{"template-datasource-rule", "fleet", func(m *model) { m.Templating.List[0].Name = "ds" }, "no variable for the data source"},
		{"template-job-rule", "fleet", func(m *model) { m.Templating.List[2].Multi = false }, "no variable for the job"},
		{"template-label-promql-rule", "fleet", func(m *model) {
			m.Templating.List[3].Query = []byte(`{"query":"label_values(inferbeat_run_active, sink)"}`)
		}, "have no label sink"},
		{"template-label-promql-rule", "fleet", func(m *model) {
			m.Templating.List[3].Query = []byte(`{"query":"label_values(inferbeat_run_activ, pool)"}`)
		}, "inferbeat_run_activ is not in the catalogue"},
		{"template-on-time-change-reload-rule", "fleet", func(m *model) { m.Templating.List[2].Refresh = 1 }, "not read anew"},
		{"panel-datasource-rule", "fleet", func(m *model) { target(m).Datasource.UID = "ddyfngn31dg5cf" }, "a data source of its own"},
		{"panel-title-description-rule", "fleet", func(m *model) { m.Panels[1].Description = "Shows alerts" }, "in its description"},
		{"panel-units-rule", "fleet", func(m *model) { m.Panels[1].FieldConfig.Defaults.Unit = "" }, "no unit"},
		{"panel-no-targets-rule", "fleet", func(m *model) { m.Panels[1].Targets = nil }, "asks nothing"},
		{"target-promql-rule", "fleet", func(m *model) { target(m).Expr = "sum((" }, "unclosed"},
		{"target-job-rule", "fleet", func(m *model) { target(m).Expr = "sum(inferbeat_run_active)" }, "not selected by job"},
		{"target-instance-rule", "health", func(m *model) { target(m).Expr = `sum(inferbeat_panics_total{job=~"$job"})` }, "not selected by instance"},
		{"target-rate-interval-rule", "fleet", func(m *model) {
			target(m).Expr = `sum(rate(inferbeat_requests_total[$__rate_interval]))`
		}, "use $window"},
		{"target-counter-agg-rule", "fleet", func(m *model) { target(m).Expr = `sum(inferbeat_requests_total)` }, "neither in rate() nor in increase()"},
		{"target-counter-agg-rule", "fleet", func(m *model) { target(m).Expr = `inferbeat_requests_total` }, "drawn as it is"},
		{"uneditable-dashboard-rule", "fleet", func(m *model) { m.Editable = true }, "would be lost"},
		{"ids", "fleet", func(m *model) { m.Panels[2].ID = m.Panels[1].ID }, "have the id"},
		{"ids", "fleet", func(m *model) { table(m).Targets[1].RefID = "A" }, "two queries"},
		{"grid", "fleet", func(m *model) { m.Panels[2].GridPos.X-- }, "overlap"},
		{"grid", "fleet", func(m *model) { m.Panels[2].GridPos.W = 30 }, "of 24 columns"},
		{"grid", "fleet", func(m *model) { m.Panels = append(m.Panels[:2], m.Panels[3:]...) }, "fills 21 of 24"},
		{"no-value-text", "fleet", func(m *model) { m.Panels[1].FieldConfig.Defaults.NoValue = "" }, "why it may be empty"},
		{"thresholds", "fleet", func(m *model) { m.Panels[1].FieldConfig.Defaults.Thresholds = nil }, "no thresholds"},
		{"thresholds", "fleet", func(m *model) {
			eighty := 80.0
			m.Panels[1].FieldConfig.Defaults.Thresholds.Steps[1].Value = &eighty
		}, "default threshold"},
		{"variables", "fleet", func(m *model) { target(m).Expr = `max(inferbeat_panics_total{job=~"$tier"})` }, "tier does not exist"},
		{"variables", "compare", func(m *model) { m.Templating.List = append(m.Templating.List, templateVariable{Name: "window"}) }, "window is not used"},
		{"catalogue", "fleet", func(m *model) { target(m).Expr = `sum(rate(inferbeat_run_active[5m]))` }, "rate of inferbeat_run_active, which is a gauge"},
		{"catalogue", "fleet", func(m *model) { target(m).Expr = `sum by (engine) (inferbeat_run_active)` }, "sum by (engine)"},
		{"catalogue", "fleet", func(m *model) { target(m).Expr = `inferbeat_run_active{slo="x"}` }, "has no label slo"},
		{"catalogue", "fleet", func(m *model) { target(m).Expr = `inferbeat_result_latency_seconds{stat="p98"}` }, `stat is never "p98"`},
		{"catalogue", "fleet", func(m *model) {
			target(m).Expr = `max by (probe) (inferbeat_run_active) / on (target) inferbeat_run_active`
		}, "on (target)"},
		{"legends", "fleet", func(m *model) {
			target(m).Expr, target(m).LegendFormat = `max by (pool) (inferbeat_run_active)`, "{{target}}"
		}, "no label target"},
		{"legends", "fleet", func(m *model) { target(m).Expr = `max by (pool) (inferbeat_run_active)` }, "no names for them"},
		{"columns", "fleet", func(m *model) { table(m).Targets = table(m).Targets[:3] }, `no query brings the column "Value #D"`},
		{"columns", "fleet", func(m *model) { table(m).FieldConfig.Overrides[0].Matcher.Options = "Stat" }, "no heading"},
		{"columns", "fleet", func(m *model) {
			table(m).Options["sortBy"] = []any{map[string]any{"displayName": "Badness"}}
		}, "sorted by"},
		{"columns", "fleet", func(m *model) {
			table(m).Options["sortBy"] = []any{map[string]any{"displayName": "Failed", "desc": false}}
		}, "empty cells come first"},
		{"links", "fleet", func(m *model) { m.Links[1].URL = "https://example.com" }, "leads to"},
		{"links", "target", func(m *model) { m.Panels[1].FieldConfig.Defaults.Links[0].URL = "d/inferbeat-targets?x" }, "leads to"},
		{"both-histograms", "fleet", func(m *model) {
			target(m).Expr = `histogram_quantile(0.9, rate(inferbeat_time_to_first_token_seconds[5m]))`
		}, "classic false"},
		{"frame", "fleet", func(m *model) { m.Requires = m.Requires[:3] }, "__requires lacks"},
		{"frame", "fleet", func(m *model) { m.Inputs = nil }, "__inputs"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var m model
			for _, candidate := range models(t) {
				if candidate.UID == "inferbeat-"+c.board {
					m = candidate
				}
			}
			c.harm(&m)
			for _, r := range rules {
				if r.name == c.rule {
					if got := strings.Join(r.check(m), "\n"); !strings.Contains(got, c.want) {
						t.Errorf("got %q, want %q in it", got, c.want)
					}
				}
			}
		})
	}
}

// table is the widest table of the fleet.
func table(m *model) *panel {
	for i := range m.Panels {
		if m.Panels[i].Type == "table" && len(m.Panels[i].Targets) > 3 {
			return &m.Panels[i]
		}
	}
	return nil
}

// Boards that count alerts by words that no alert has would stay green in an outage.
func TestSeveritiesOfAnInstallation(t *testing.T) {
	words := map[string]string{"critical": "page", "warning": "ticket", "none": "heartbeat"}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	selectors := 0
	for _, d := range all {
		for _, form := range Forms() {
			text, err := d.In(form, Options{Severities: words})
			if err != nil {
				t.Fatal(err)
			}
			for _, selector := range alertSelector.FindAllString(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
				selectors++
				for _, old := range []string{`"critical"`, `"warning"`, `"none"`} {
					if strings.Contains(selector, old) {
						t.Errorf("%s in form %s still selects %s", d.UID, form, selector)
					}
				}
				if !strings.Contains(selector, `severity!="heartbeat"`) {
					t.Errorf("%s in form %s selects heartbeats: %s", d.UID, form, selector)
				}
			}
		}
	}
	if selectors == 0 {
		t.Error("no board selects alerts: are they still found?")
	}
	got := sayAs([]any{`count(ALERTS{severity="critical",severity!="none"}) + inferbeat_queue_threshold_requests{severity="critical"}`, 3}, words)
	want := []any{`count(ALERTS{severity="page",severity!="heartbeat"}) + inferbeat_queue_threshold_requests{severity="critical"}`, 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
}
