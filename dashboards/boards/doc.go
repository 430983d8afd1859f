// Package boards composes the Grafana dashboards out of the metric catalogue.
//
// The story of the data: a board is a list of panels, a panel a question with
// the queries that answer it. Queries are put together from the constants of
// the catalogue ([vars.of] looks the metric up and selects by those variables
// that it has as labels), panels by the Grafana Foundation SDK with the
// defaults of panel.go, so that no legend, tooltip or description is forgotten.
// [All] builds every board, finishes what the SDK leaves open (ids, refIds,
// placements) and returns them as JSON; the program gen writes them into
// dashboards/grafana, where the binary embeds them.
//
// Only this package links the SDK. A mistake in a board is a programmer's error
// and panics while the files are generated, never in the daemon.
package boards

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Board is one dashboard as Grafana reads it.
type Board struct {
	// UID is the stable identity in Grafana and the name of the file.
	UID   string
	Title string
	// JSON is the dashboard in Grafana's v1 form, for file provisioning.
	JSON []byte
}

// All builds every board, in the order of the menu.
func All() ([]Board, error) {
	var out []Board
	for _, build := range []func() *builderV1{fleet, slo, target, capacity, regression, compare, health} {
		d, err := build().Build()
		if err != nil {
			return nil, fmt.Errorf("build dashboard: %w", err)
		}
		finish(&d)
		text, err := encode(d)
		if err != nil {
			return nil, fmt.Errorf("encode dashboard %s: %w", *d.Uid, err)
		}
		out = append(out, Board{UID: *d.Uid, Title: *d.Title, JSON: text})
	}
	return out, nil
}

// encode writes the dashboard without escaping <, > and &, which expressions
// are full of: a diff of the files must be readable.
func encode(d boardV1) ([]byte, error) {
	plain, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(plain, &tree); err != nil {
		return nil, err
	}
	prune(tree)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(tree); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
