package boards

import (
	"fmt"
	"maps"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// finish sets what the SDK's builders leave open: panels without an id cannot be
// linked to, and targets without a refId cannot be told apart by overrides and
// transformations.
func finish(d *boardV1) {
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for i := range d.Panels {
		switch panel := d.Panels[i]; {
		case panel.RowPanel != nil:
			panel.RowPanel.Id = next()
		case panel.Panel != nil:
			panel.Panel.Id = p(next())
			name(panel.Panel.Targets)
		}
	}
	for i := range d.Links {
		// The SDK only knows the menu, in which a link is not found at 3 am.
		d.Links[i].Placement = nil
	}
	for i := range d.Annotations.List {
		d.Annotations.List[i].Placement = nil
	}
}

func name(targets []variants.Dataquery) {
	for i, target := range targets {
		q, ok := target.(prometheus.Dataquery)
		if !ok {
			panic(fmt.Sprintf("target %d is a %T, not a query of Prometheus", i, target))
		}
		q.RefId = p(string(rune('A' + i)))
		targets[i] = q
	}
}

// prune removes what Grafana's own types do not have: the interval's fields on
// other variables, and a dashboard link's fields on a data link.
func prune(tree map[string]any) {
	tree["id"] = nil
	tree["__inputs"], tree["__requires"] = []any{}, requires(tree)
	for _, variable := range list(tree["templating"], "list") {
		for _, key := range []string{"auto", "auto_min", "auto_count"} {
			delete(variable, key)
		}
		if current, _ := variable["current"].(map[string]any); current != nil && current["value"] == nil {
			delete(variable, "current") // Grafana chooses the first value
			delete(variable, "allValue")
		}
	}
	for _, panel := range list(tree, "panels") {
		fieldConfig, _ := panel["fieldConfig"].(map[string]any)
		for _, link := range list(fieldConfig["defaults"], "links") {
			for key := range link {
				if key != "title" && key != "url" && key != "targetBlank" {
					delete(link, key)
				}
			}
		}
	}
}

// requires is what Grafana checks before it imports a board. 12.0 is the oldest
// version whose schema the SDK writes.
func requires(tree map[string]any) []any {
	types := map[string]bool{}
	for _, panel := range list(tree, "panels") {
		if kind, _ := panel["type"].(string); kind != "row" {
			types[kind] = true
		}
	}
	out := []any{
		map[string]any{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "12.0.0"},
		map[string]any{"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
	}
	for _, kind := range slices.Sorted(maps.Keys(types)) {
		out = append(out, map[string]any{"type": "panel", "id": kind, "name": kind, "version": ""})
	}
	return out
}

// list returns the objects of an array that is a field of an object.
func list(object any, field string) []map[string]any {
	fields, _ := object.(map[string]any)
	items, _ := fields[field].([]any)
	var out []map[string]any
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
