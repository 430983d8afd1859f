package dashboards

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// apiV2 is the schema that Grafana 13 keeps dashboards in. Grafana 12 has it as
// v2beta1, behind a feature toggle; what it takes without one is v1.
const apiV2 = "dashboard.grafana.app/v2"

// fields is a JSON object.
type fields map[string]any

// take removes a field and returns it. What was never taken has been forgotten,
// which is how a conversion finds out.
func (f fields) take(key string) any {
	v := f[key]
	delete(f, key)
	return v
}

// or is a field that v2 asks for and v1 may leave out.
func (f fields) or(key string, absent any) any {
	if v, ok := f[key]; ok {
		delete(f, key)
		return v
	}
	return absent
}

// drop removes fields that v2 has no use for.
func (f fields) drop(keys ...string) {
	for _, key := range keys {
		delete(f, key)
	}
}

// move takes those of the fields that are there.
func (f fields) move(keys ...string) fields {
	out := fields{}
	for _, key := range keys {
		if v, ok := f[key]; ok {
			out[key] = v
			delete(f, key)
		}
	}
	return out
}

// object is a value as an object; what is none is empty.
func object(v any) fields {
	m, _ := v.(map[string]any)
	return m
}

// objects are the objects of a list.
func objects(v any) []fields {
	items, _ := v.([]any)
	var out []fields
	for _, item := range items {
		out = append(out, object(item))
	}
	return out
}

// conversion turns a board of v1 into one of v2 and notes what it found no place
// for.
type conversion struct{ lost []string }

func (c *conversion) end(where string, f fields) {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		c.lost = append(c.lost, where+" "+key)
	}
}

// kind is how v2 writes anything that there are several kinds of.
func kind(name string, spec any) fields { return fields{"kind": name, "spec": spec} }

// enum is the name that v2 has for a number of v1; no number is the first.
func (c *conversion) enum(where string, v any, names ...string) string {
	if v == nil {
		return names[0]
	}
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil && i >= 0 && i < int64(len(names)) {
			return names[i]
		}
	}
	c.lost = append(c.lost, fmt.Sprintf("%s %v", where, v))
	return names[0]
}

// manifestV2 is the board, in v1's form, as a resource of Grafana's API. The
// board is used up.
func manifestV2(uid string, board fields) (fields, error) {
	var c conversion
	spec := c.board(board)
	if len(c.lost) > 0 {
		return nil, fmt.Errorf("convert dashboard %s to %s: no place for %s", uid, apiV2, strings.Join(c.lost, ", "))
	}
	return fields{"apiVersion": apiV2, "kind": "Dashboard", "metadata": fields{"name": uid}, "spec": spec}, nil
}

func (c *conversion) board(b fields) fields {
	b.drop("__inputs", "__requires", "id", "uid", "schemaVersion")
	spec := b.move("title", "description", "tags", "editable", "links")
	spec["preload"] = false
	spec["cursorSync"] = c.enum("graphTooltip", b.take("graphTooltip"), "Off", "Crosshair", "Tooltip")
	time := object(b.take("time"))
	spec["timeSettings"] = fields{
		"timezone": b.take("timezone"), "from": time.take("from"), "to": time.take("to"),
		"autoRefresh": b.or("refresh", ""), "autoRefreshIntervals": []string{"30s", "1m", "5m", "15m", "1h"},
		"hideTimepicker": false, "fiscalYearStartMonth": b.or("fiscalYearStartMonth", 0),
	}
	c.end("time", time)
	variables := []fields{}
	for _, v := range objects(object(b.take("templating")).take("list")) {
		variables = append(variables, c.variable(v))
	}
	annotations := []fields{}
	for _, a := range objects(object(b.take("annotations")).take("list")) {
		annotations = append(annotations, c.annotation(a))
	}
	spec["variables"], spec["annotations"] = variables, annotations
	spec["elements"], spec["layout"] = c.panels(objects(b.take("panels")))
	c.end("dashboard", b)
	return spec
}

// dataQuery is a query and the data source that answers it, which the board
// names by a variable.
func (c *conversion) dataQuery(datasource, spec fields) fields {
	out := kind("DataQuery", spec)
	out["group"], out["version"] = datasource.take("type"), "v0"
	out["datasource"] = fields{"name": datasource.take("uid")}
	c.end("datasource", datasource)
	return out
}

func (c *conversion) variable(v fields) fields {
	where := fmt.Sprintf("variable %v", v["name"])
	spec := v.move("name", "label", "description", "skipUrlSync")
	spec["hide"] = c.enum(where+" hide", v.take("hide"), "dontHide", "hideLabel", "hideVariable")
	spec["current"] = v.or("current", fields{"text": "", "value": ""})
	many := func(options any) {
		spec["options"] = options
		maps.Copy(spec, v.move("multi", "includeAll", "allValue", "allowCustomValue"))
	}
	refresh := func() string {
		return c.enum(where+" refresh", v.take("refresh"), "never", "onDashboardLoad", "onTimeRangeChanged")
	}
	name := ""
	switch v.take("type") {
	case "constant":
		name = "ConstantVariable"
		spec["query"] = v.take("query")
		v.drop("multi", "includeAll", "allowCustomValue")
	case "custom":
		name = "CustomVariable"
		spec["query"] = v.take("query")
		many(v.take("options"))
	case "datasource":
		name = "DatasourceVariable"
		spec["pluginId"], spec["regex"], spec["refresh"] = v.take("query"), v.or("regex", ""), refresh()
		many([]any{})
	case "query":
		name = "QueryVariable"
		spec["query"] = c.dataQuery(object(v.take("datasource")), object(v.take("query")))
		spec["definition"], spec["regex"], spec["refresh"] = v.take("definition"), v.or("regex", ""), refresh()
		spec["sort"] = c.enum(where+" sort", v.take("sort"), "disabled", "alphabeticalAsc", "alphabeticalDesc")
		many([]any{})
	default:
		c.lost = append(c.lost, where+" type")
	}
	c.end(where, v)
	return kind(name, spec)
}

// annotation keeps how Prometheus's marks are written, for which v2 has no fields
// of its own, where Grafana looks for it.
func (c *conversion) annotation(a fields) fields {
	where := fmt.Sprintf("annotation %v", a["name"])
	spec := a.move("name", "enable", "hide", "iconColor")
	a.drop("builtIn") // 0
	target := object(a.take("target"))
	target.drop("datasource") // the annotation's own
	spec["query"] = c.dataQuery(object(a.take("datasource")), target)
	spec["legacyOptions"] = a.move("expr", "step", "titleFormat", "textFormat", "tagKeys", "useValueForTime")
	c.end(where, a)
	return kind("AnnotationQuery", spec)
}

// row is a row of the board and the panels below it.
type row struct {
	title, collapse any
	top             int64 // where its first panel may lie
	items           []fields
}

// panels parts the panels into rows, in which they are placed from the row's own
// top.
func (c *conversion) panels(all []fields) (elements, layout fields) {
	elements = fields{}
	var rows []row
	for _, p := range all {
		where := fmt.Sprintf("panel %q", p["title"])
		at := c.place(where, object(p.take("gridPos")))
		if p["type"] == "row" {
			rows = append(rows, row{title: p.take("title"), collapse: p.take("collapsed"), top: at.y + at.height, items: []fields{}})
			if len(objects(p.take("panels"))) > 0 {
				c.lost = append(c.lost, where+" panels")
			}
			p.drop("type", "id")
			c.end(where, p)
			continue
		}
		if len(rows) == 0 {
			c.lost = append(c.lost, where+" before the first row")
			continue
		}
		name, current := fmt.Sprintf("panel-%v", p["id"]), &rows[len(rows)-1]
		current.items = append(current.items, kind("GridLayoutItem", fields{
			"x": at.x, "y": at.y - current.top, "width": at.width, "height": at.height,
			"element": fields{"kind": "ElementReference", "name": name},
		}))
		elements[name] = c.panel(where, p)
	}
	list := []fields{}
	for _, r := range rows {
		grid := kind("GridLayout", fields{"items": r.items})
		list = append(list, kind("RowsLayoutRow", fields{"title": r.title, "collapse": r.collapse, "layout": grid}))
	}
	return elements, kind("RowsLayout", fields{"rows": list})
}

type place struct{ x, y, width, height int64 }

func (c *conversion) place(where string, pos fields) place {
	number := func(key string) int64 {
		n, _ := pos.take(key).(json.Number)
		i, err := n.Int64()
		if err != nil {
			c.lost = append(c.lost, where+" gridPos "+key)
		}
		return i
	}
	at := place{x: number("x"), y: number("y"), width: number("w"), height: number("h")}
	c.end(where+" gridPos", pos)
	return at
}

func (c *conversion) panel(where string, p fields) fields {
	p.drop("repeatDirection", "datasource") // nothing is repeated; every query names its source
	queries := []fields{}
	for _, t := range objects(p.take("targets")) {
		source, ref, hidden := object(t.take("datasource")), t.take("refId"), t.or("hide", false)
		queries = append(queries, kind("PanelQuery", fields{"query": c.dataQuery(source, t), "refId": ref, "hidden": hidden}))
	}
	transformations := []fields{}
	for _, t := range objects(p.take("transformations")) {
		out := kind("Transformation", t.move("options"))
		out["group"] = t.take("id")
		c.end(where+" transformation", t)
		transformations = append(transformations, out)
	}
	visualization := kind("VizConfig", fields{"options": p.or("options", fields{}), "fieldConfig": p.take("fieldConfig")})
	visualization["group"], visualization["version"] = p.take("type"), ""
	spec := p.move("id", "title", "description", "transparent")
	spec["links"], spec["vizConfig"] = []any{}, visualization
	spec["data"] = kind("QueryGroup", fields{"queries": queries, "transformations": transformations, "queryOptions": fields{}})
	c.end(where, p)
	return kind("Panel", spec)
}
