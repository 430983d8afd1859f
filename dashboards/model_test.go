package dashboards

import (
	"encoding/json"
	"testing"
)

// model is the part of Grafana's v1 dashboard that the checks look at.
type model struct {
	UID, Title, Description, Refresh, Timezone string
	Editable                                   bool
	Tags                                       []string
	Links                                      []struct{ Title, Type, URL string }
	Time                                       struct{ From, To string }
	Inputs                                     []any                                `json:"__inputs"`
	Requires                                   []struct{ Type, ID, Version string } `json:"__requires"`
	Panels                                     []panel
	Templating                                 struct{ List []templateVariable }
	Annotations                                struct{ List []annotation }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *source
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []target
	Transformations          []struct {
		ID      string
		Options map[string]any
	}
	Options     map[string]any
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Thresholds    *struct{ Steps []struct{ Value *float64 } }
			Links         []struct{ Title, URL string }
		}
		Overrides []struct {
			Matcher struct {
				ID      string
				Options any
			}
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Panels []panel
}

type source struct{ Type, UID string }

type target struct {
	RefID, Expr, LegendFormat, Format string
	Instant, Range                    bool
	Datasource                        *source
}

type templateVariable struct {
	Name, Label, Type, AllValue string
	Multi, IncludeAll           bool
	Refresh                     int
	Datasource                  *source
	Query                       json.RawMessage
}

// expr is the query of a query variable.
func (v templateVariable) expr() string {
	var query struct{ Query string }
	if v.Type == "query" && json.Unmarshal(v.Query, &query) == nil {
		return query.Query
	}
	return ""
}

type annotation struct {
	Name, Expr string
	Datasource *source
	Target     target
}

// models are the boards as they ship.
func models(t *testing.T) []model {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	var out []model
	for _, d := range all {
		out = append(out, parse(t, d.Model))
	}
	return out
}

func parse(t *testing.T, text []byte) model {
	t.Helper()
	var m model
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// data are the panels that are not rows.
func (m model) data() []panel {
	var out []panel
	for _, p := range m.Panels {
		if p.Type != "row" {
			out = append(out, p)
		}
	}
	return out
}
